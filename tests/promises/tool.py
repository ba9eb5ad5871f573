# SPDX-License-Identifier: Apache-2.0
"""What a person runs beside the daemon, with a node around it."""
import re
import subprocess

from node import NodeTest, program


class ToolTest(NodeTest):
    def run_tool(self, name, *words):
        return subprocess.run([program(name), "-c", self.node.config, *words],
                              capture_output=True, text=True, timeout=60)

    def ctl(self, *words):
        return self.run_tool("devplugctl", *words)

    def diff(self):
        answer = self.run_tool("devplugd", "--diff")
        self.assertEqual(answer.returncode, 0, answer.stderr)
        return answer.stdout.splitlines()

    def plan_in_log(self, before):
        """The lines of a plan that devplugd has logged since."""
        lines = self.node.output()[before:].splitlines()
        return [m.group(1) for line in lines if (m := re.match(r"devplugd: ([-=+~!] .*)", line))]

    def health(self, name):
        resource = self.node.resource(f"vendor.example/{name}") or {"devices": []}
        return {d["id"]: (d["health"], d["reason"]) for d in resource["devices"]}

    def serve(self, *resources, text=""):
        self.node.configure(*resources, text=text)
        self.node.start_kubelet()
        self.node.start()
        return self.node.await_serving()

    def breaks(self):
        with open(self.node.config, "a") as file:
            file.write("\nzork = ;\n")
