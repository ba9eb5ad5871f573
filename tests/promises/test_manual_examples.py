# SPDX-License-Identifier: Apache-2.0
"""The examples of devplugctl(1): each command is run, and prints what the page shows ("..." stands for any text)."""
import os
import re
import shlex
import shutil
import subprocess
import unittest

from node import program, static, until
from printed import commands, pattern
from terminal import Terminal
from tool import ToolTest

PAGE = os.path.realpath(os.path.join(os.path.dirname(__file__), "../../docs/devplugctl.1"))


def examples():
    """Pairs of a command line of devplugctl and what it prints."""
    with open(PAGE) as file:
        text = file.read().replace("\\&", "").replace("\\-", "-").replace("\\(aq", "'")
    for block in re.findall(r"^\.nf\n\.RS\n(.*?)^\.RE\n\.fi$", text, re.M | re.S):
        yield from (pair for pair in commands(block) if pair[0].startswith("devplugctl "))


class Examples(ToolTest):
    def test_each_command_has_one(self):
        said = subprocess.run([program("devplugctl"), "--help"], capture_output=True, text=True).stdout
        shown = {next(word for word in shlex.split(command)[1:] if not word.startswith("--")) for command, _ in examples()}
        self.assertEqual(set(re.findall(r"^  ([a-z]+) ", said, re.M)) - shown, set())

    def show(self, words, output):
        """A command that shows its output on a terminal until it is ended."""
        terminal = Terminal([program(words[0]), "-c", self.node.config, *words[1:]])
        self.addCleanup(terminal.close)
        wanted = re.compile(pattern(re.sub(r"\n+", "\n", output)))
        terminal.until(lambda lines: wanted.fullmatch("".join(f"{line}\n" for line in lines if line)), output)
        terminal.press("q")
        self.assertEqual(terminal.wait(), 0)

    def compare(self, command, output):
        """Runs a line of the page in a shell, in which devplugctl knows this node."""
        with self.subTest(command):
            known = f'devplugctl() {{ "{program("devplugctl")}" -c "{self.node.config}" "$@"; }}; '
            answer = subprocess.run(["sh", "-c", known + command.replace("/mnt/image", self.node.dir)], capture_output=True,
                                    text=True, timeout=60)
            self.assertEqual((answer.returncode, answer.stderr), (0, ""))
            self.assertRegex(answer.stdout, r"\A" + pattern(output.replace("/mnt/image", self.node.dir)) + r"\Z")

    def test_output(self):
        socket = os.path.join(self.node.kubelet_state, "pod-resources/kubelet.sock")
        self.node.configure(static("gpu", 2, 'container = { env = "GPUS=${ids:,}"; };'),
                            kubelet=f'pod_resources_socket = "{socket}";')
        self.node.start_kubelet()
        self.node.start()
        self.node.await_serving()
        # The kubelet has no choice.
        self.assertEqual(self.ctl("cordon", "gpu-1").returncode, 0)
        self.node.await_allocatable(gpu=1)
        self.node.pod("train", gpu=1)
        self.assertEqual(self.ctl("uncordon", "gpu-1").returncode, 0)
        until(lambda: self.node.resource("vendor.example/gpu")["in_use"] == 1, "the pod to be known")
        for command, output in examples():
            words = command.split()
            if words[1] == "top":
                self.show(words, output)
            elif words[1] not in ("dra", "evict") and "nvidia" not in command and ("| jq " not in command or shutil.which("jq")):
                self.compare(command, output)

    def test_output_with_nvidia(self):
        """No driver is loaded, and there is no GPU."""
        self.node.configure('{ name = "nvidia.com/gpu"; driver = "nvidia"; match = ( { } ); }',
                            text=f'host_root = "{self.node.dir}";')
        self.node.start()
        until(lambda: (r := self.node.find("nvidia.com/gpu")) and r["pid"] > 0, "the resource to have a process")
        for command, output in examples():
            if "nvidia" in command:
                self.compare(command, output)

    def test_output_with_eviction(self):
        """The file of the probe is missing, which holds the eviction."""
        self.node.configure(static("gpu", 1, f'health = ( {{ probe = "file"; path = "{self.node.path("none")}"; severity = "evict"; }} );'))
        self.node.start()
        until(lambda: (r := self.node.resource("vendor.example/gpu")) and r.get("eviction", {}).get("held"), "the hold")
        for command, output in examples():
            if command.split()[1] == "evict":
                self.compare(command, output)

    def test_output_with_dra(self):
        self.node.configure(static("fpga", 1, 'serve = "dra";'), text='dra = { driver = "devplugd.example"; };')
        for command, output in examples():
            if command.split()[1] == "dra":
                self.compare(command, output)


if __name__ == "__main__":
    unittest.main()
