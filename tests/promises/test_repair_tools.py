# SPDX-License-Identifier: Apache-2.0
"""What other projects read and write on the Node fits what devplugd reports: node-readiness-controller and node-problem-detector. Both
are stood in for by what their documentation promises."""
import json
import os
import unittest

from node import until
from report_node import GPU, NODE, READY, REPORT, ReportTest

try:
    import yaml
except ImportError:
    yaml = None

MONITORING = os.path.join(os.path.dirname(os.path.realpath(__file__)), "../../packaging/monitoring")


def taints(rule, conditions):
    """Whether node-readiness-controller taints the node: unless each condition has the status; one that is missing is Unknown."""
    return any(conditions.get(one["type"], {}).get("status", "Unknown") != one["requiredStatus"] for one in rule["spec"]["conditions"])


def read(name):
    with open(os.path.join(MONITORING, name), encoding="utf-8") as file:
        return file.read()


class RepairTools(ReportTest):
    @unittest.skipUnless(yaml, "needs python3-yaml")
    def test_node_readiness_controller(self):
        """The node is tainted until the devices are known to work, and while one has a problem."""
        rule = yaml.safe_load(read("node-readiness-rule.yaml"))
        self.assertTrue(taints(rule, self.conditions()))
        self.configure(self.probed("gpu"), text=REPORT)
        self.set_health("gpu-0", "broken")
        self.node.start()
        self.await_condition(GPU, "True", "DevicesUnhealthy")
        self.assertTrue(taints(rule, self.conditions()))
        self.set_health("gpu-0", "ok")
        until(lambda: not taints(rule, self.conditions()), "the end of the taint")
        self.set_health("gpu-0", "broken")
        until(lambda: taints(rule, self.conditions()), "the taint")
        # The resource leaves the configuration, and its condition the Node.
        self.configure(self.probed("fpga"), text=REPORT)
        self.node.reload()
        until(lambda: GPU not in self.conditions(), "the condition to be removed")
        self.assertTrue(taints(rule, self.conditions()))

    def detect(self, monitor):
        """What node-problem-detector does with the monitor: the exit status of the program is the condition's status."""
        rule, condition = monitor["rules"][0], monitor["conditions"][0]
        self.assertEqual((os.path.basename(rule["path"]), rule["condition"]), ("devplugctl", condition["type"]))
        answer = self.ctl(*rule["args"])
        status = {0: "False", 1: "True"}.get(answer.returncode, "Unknown")
        good = status == "False"
        found = {"type": condition["type"], "status": status, "reason": condition["reason"] if good else rule["reason"],
                 "message": condition["message"] if good else answer.stdout.strip()[:monitor["pluginConfig"]["max_output_length"]]}
        patched = self.api.ask("PATCH", f"{NODE}/status", {"status": {"conditions": [found]}}, content="application/strategic-merge-patch+json")
        self.assertEqual(patched.code, 200, patched.body)
        return status

    def test_node_problem_detector(self):
        """Its condition and those of devplugd agree, stay side by side, and neither removes the other's."""
        monitor = json.loads(read("node-problem-detector.json"))
        kind = monitor["conditions"][0]["type"]
        self.configure(self.probed("gpu"), text=REPORT)
        self.assertEqual(self.detect(monitor), "Unknown")
        # A kubelet, without which "check" has another problem to report.
        self.node.start_kubelet()
        self.node.start()
        self.node.await_allocatable(gpu=3)
        self.await_condition(GPU, "False", "DevicesHealthy")
        until(lambda: self.detect(monitor) == "False", "no problem")
        self.set_health("gpu-1", "broken")
        self.await_condition(GPU, "True", "DevicesUnhealthy")
        until(lambda: self.detect(monitor) == "True", "the problem")
        self.assertIn("vendor.example/gpu/gpu-1: ", self.conditions()[kind]["message"])
        self.configure(self.probed("gpu"))
        self.node.reload()
        until(lambda: sorted(self.conditions()) == sorted([kind, "Ready"]), "devplugd's condition to be removed")
        self.assertEqual((self.conditions()[kind]["status"], self.conditions()["Ready"]), ("True", READY))


if __name__ == "__main__":
    unittest.main()
