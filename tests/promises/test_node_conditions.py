# SPDX-License-Identifier: Apache-2.0
"""The Node has a condition for each resource, of device plugins and of DRA alike, that follows the problems of its devices."""
import os
import unittest

from node import make_node, path, process_status, until
from report_node import FPGA, GPU, NODE, READY, REPORT, ReportTest


class NodeConditions(ReportTest):
    def test_conditions_follow_devices(self):
        """The conditions follow the devices of the plugin API and of DRA. Conditions of other clients stay."""
        self.configure(self.probed("gpu"), self.probed("fpga", serve="dra"), text=REPORT)
        self.node.start()
        good = self.await_condition(GPU, "False", "DevicesHealthy", "3 devices, no problem")
        self.await_condition(FPGA, "False", "DevicesHealthy")
        self.set_health("gpu-1", "too hot")
        self.set_health("fpga-0", "gone mad")
        bad = self.await_condition(GPU, "True", "DevicesUnhealthy", "1 of 3 devices: gpu-1 (", "too hot")
        self.await_condition(FPGA, "True", "DevicesUnhealthy", "fpga-0 (", "gone mad")
        self.assertGreaterEqual(bad["lastTransitionTime"], good["lastTransitionTime"])
        # The status stays, and so does the time of its last change.
        self.set_health("gpu-2", "broken")
        worse = self.await_condition(GPU, "True", "DevicesUnhealthy", "2 of 3 devices: gpu-1 (", "gpu-2 (")
        self.assertEqual(worse["lastTransitionTime"], bad["lastTransitionTime"])
        for device in ("gpu-1", "gpu-2", "fpga-0"):
            self.set_health(device, "ok")
        self.await_condition(GPU, "False", "DevicesHealthy")
        self.await_condition(FPGA, "False", "DevicesHealthy")
        self.assertEqual(self.conditions()["Ready"], READY)
        # A cordon is a decision of an administrator.
        self.assertEqual(self.ctl("cordon", "vendor.example/gpu/gpu-1").returncode, 0)
        self.set_health("gpu-0", "broken")
        self.await_condition(GPU, "True", "DevicesUnhealthy", "1 of 3 devices: gpu-0 (")

    def test_process_runs_only_for_what_needs_it(self):
        """Without a feature there is no process; for reports, it serves no kubelet."""
        self.configure(self.probed("gpu"))
        self.node.start()
        self.node.await_state("vendor.example/gpu", "waiting")
        self.assertIsNone(self.process())
        self.assertNotIn("cluster", self.node.status())
        self.configure(self.probed("gpu"), text=REPORT)
        self.node.reload()
        self.await_condition(GPU, "False", "DevicesHealthy")
        self.assertEqual(process_status(self.process())["Threads"], "1")
        self.assertFalse(os.path.isdir(self.registry) and os.listdir(self.registry))
        self.assertNotIn("dra", self.node.status())
        self.assertEqual([path for _, path, _ in self.api.requests if "resource.k8s.io" in path], [])
        self.assertIn("Problems are reported on node node-a.\n  identity: ", self.ctl("status").stdout)

    def test_removed_with_the_resource(self):
        """Also if devplugd did not run then, and if reports are switched off."""
        stale = {"type": "DevplugdVendorExampleOld", "status": "True", "reason": "DevicesMissing", "message": "1 of 1 device: old-0"}
        self.write_status({"conditions": [READY, stale]})
        self.configure(self.probed("gpu"), self.probed("fpga"), text=REPORT)
        self.node.start()
        self.await_condition(FPGA, "False", "DevicesHealthy")
        self.assertEqual(sorted(self.conditions()), [FPGA, GPU, "Ready"])
        self.configure(self.probed("gpu"), text=REPORT)
        self.node.reload()
        until(lambda: sorted(self.conditions()) == [GPU, "Ready"], "the condition to be removed")
        self.configure(self.probed("gpu"))
        self.node.reload()
        until(lambda: sorted(self.conditions()) == ["Ready"], "all conditions to be removed")
        # And back, by the same process, which has to have all devices again.
        self.set_health("gpu-0", "broken")
        self.configure(self.probed("gpu"), text=REPORT)
        self.node.reload()
        self.await_condition(GPU, "True", "DevicesUnhealthy", "1 of 3 devices: gpu-0 (")

    def test_expected_devices(self):
        """The text of `expect`, unless other devices have a problem, too."""
        nodes = [self.node.path(f"dev/card{i}") for i in range(3)]
        for node in nodes[:2]:
            make_node(node)
        self.configure(path("gpu", self.node.path("dev/*"), "expect = 2;"), text=REPORT)
        self.node.start()
        self.await_condition(GPU, "False", "DevicesHealthy", "2 devices, no problem")
        os.unlink(nodes[1])
        self.await_condition(GPU, "True", "DevicesNotAsExpected", "1 of 2 devices is present; missing: ", "card1")
        make_node(nodes[1])
        self.await_condition(GPU, "False", "DevicesHealthy")
        make_node(nodes[2])
        self.await_condition(GPU, "True", "DevicesNotAsExpected", "3 devices are present instead of 2", "card2")

    def test_failure_of_a_resource(self):
        """A resource that cannot serve is a problem, whatever its devices were."""
        absent = self.node.path("absent")
        self.configure(f'{{ name = "vendor.example/gpu"; driver = "path"; match = "/dev/x*"; host_root = "{absent}"; }}', text=REPORT)
        self.node.start()
        self.await_condition(GPU, "True", "ResourceFailed", f"{absent}: No such file or directory")
        os.makedirs(os.path.join(absent, "dev"))
        self.node.reload()
        self.await_condition(GPU, "False", "DevicesHealthy", "0 devices")

    def test_refusals(self):
        """Each failure is shown; when it is over, the conditions are as they should be."""
        self.configure(self.probed("gpu"), text=REPORT)
        self.node.start()
        self.await_condition(GPU, "False", "DevicesHealthy")
        health = "False", "DevicesHealthy"
        faults = {code: f": {code}" for code in (401, 403, 404, 409, 429, 500)}
        for fault, what in {**faults, "garbage": "not JSON", "close": NODE}.items():
            with self.subTest(fault):
                self.api.faults = [lambda method, path: fault if path.startswith(NODE) else None]
                health = ("True", "DevicesUnhealthy") if health[0] == "False" else ("False", "DevicesHealthy")
                self.set_health("gpu-1", "ok" if health[0] == "False" else "broken")
                until(lambda: what in (self.report_failure() or ""), what)
                reported = self.ctl("check")
                self.assertEqual(reported.returncode, 1)
                self.assertIn("API server, for reports: ", reported.stdout)
                self.assertIn("  api: ", self.ctl("status").stdout)
                self.api.faults = []
                self.await_condition(GPU, *health)
                until(lambda: self.report_failure() == "", "the failure to be over")

    def test_killed_process(self):
        """A failure while the process is away is reported by the next one."""
        self.configure(self.probed("gpu"), text=REPORT)
        self.node.start()
        good = self.await_condition(GPU, "False", "DevicesHealthy")
        for status, text in (("True", "broken"), ("False", "ok")):
            os.kill(until(self.process, "the process"), 9)
            self.set_health("gpu-0", text)
            bad = self.await_condition(GPU, status, "DevicesUnhealthy" if status == "True" else "DevicesHealthy")
        self.assertGreaterEqual(bad["lastTransitionTime"], good["lastTransitionTime"])

    def test_changes_by_others(self):
        """Another client removes the condition: the next write repairs it."""
        self.configure(self.probed("gpu"), self.probed("fpga"), text=REPORT)
        self.node.start()
        self.await_condition(GPU, "False", "DevicesHealthy")
        self.write_status({"conditions": [READY]})
        self.set_health("fpga-0", "broken")
        self.await_condition(FPGA, "True", "DevicesUnhealthy")
        self.await_condition(GPU, "False", "DevicesHealthy")

    def test_equal_conditions_are_refused(self):
        names = "vendor.example/gpu", "vendor-example/gpu"
        twins = [f'{{ name = "{name}"; driver = "static"; match = ( {{ id = "{name[:7]}"; }} ); }}' for name in names]
        self.configure(*twins)
        self.assertEqual(self.run_tool("devplugd", "--check").returncode, 0)
        self.configure(*twins, text=REPORT)
        answer = self.run_tool("devplugd", "--check")
        self.assertEqual(answer.returncode, 78)
        self.assertIn(f"its condition of the Node would be {GPU}, as that of \"vendor.example/gpu\" at ", answer.stderr)


if __name__ == "__main__":
    unittest.main()
