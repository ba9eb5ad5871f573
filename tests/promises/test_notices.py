# SPDX-License-Identifier: Apache-2.0
"""Health probes with a reason and a severity: what is found is shown wherever health is, and only one severity keeps pods
away."""
import json
import os
import unittest

from node import static, until
from tool import ToolTest


class Notices(ToolTest):
    def write(self, number, text):
        os.makedirs(self.node.path("health"), exist_ok=True)
        with open(self.node.path(f"health/gpu-{number}.new"), "w") as file:
            file.write(text)
        os.rename(self.node.path(f"health/gpu-{number}.new"), self.node.path(f"health/gpu-{number}"))

    def gpu(self, more):
        path = self.node.path("health/${id}")
        return static("gpu", 3, f'health = ( {{ probe = "file"; path = "{path}"; missing = "healthy"; {more} }} );')

    def findings(self):
        resource = self.node.resource("vendor.example/gpu") or {"devices": []}
        return {d["id"]: [(f["severity"], f["reason"], f["text"]) for f in d["findings"]] for d in resource["devices"]
                if d["findings"]}

    def test_notice(self):
        """The device stays healthy for the kubelet; restarts keep the finding, and a reload can change the severity."""
        self.write(0, "81 degrees")
        self.serve(self.gpu('severity = "notice"; reason = "temperature"; recover = "never";'))
        found = {"gpu-0": [("notice", "temperature", "81 degrees")]}
        until(lambda: self.findings() == found, "the notice")
        self.node.await_allocatable(gpu=3)
        resource = self.node.resource("vendor.example/gpu")
        self.assertEqual((resource["healthy"], resource["devices_healthy"], resource["devices_noticed"]), (3, 3, 1))
        self.assertIn("vendor.example/gpu, device gpu-0 (notice temperature): 81 degrees", self.ctl("status").stdout)
        self.assertRegex(self.ctl("devices").stdout, r"gpu-0 +Healthy .*notice temperature: 81 degrees\n")
        self.assertIn("Device gpu-0 has a notice temperature: 81 degrees. A notice does not keep pods away.",
                      self.ctl("explain", "vendor.example/gpu").stdout)
        self.assertEqual(self.ctl("check").returncode, 0)
        events = json.loads(self.ctl("events", "--json").stdout)["events"]
        self.assertIn(("device", "gpu-0"), [(e["kind"], e["device"]) for e in events if "has a notice: temperature" in e["text"]])
        for number in (1, 2):
            self.write(number, "81 degrees")
        until(lambda: len(self.findings()) == 3, "all notices")
        self.assertIn("devices gpu-0, gpu-1, gpu-2 (notice temperature): 81 degrees", self.ctl("status").stdout)
        # What was found before the restart stays, as the probe wants it.
        for number in (0, 1, 2):
            self.write(number, "ok")
        self.node.stop()
        self.node.start()
        self.node.await_serving()
        until(lambda: self.findings().get("gpu-0") == found["gpu-0"], "the notice of the next process")
        self.node.configure(self.gpu('reason = "temperature"; recover = "never";'))
        self.node.reload()
        until(lambda: self.health("gpu")["gpu-0"] == ("Unhealthy", "81 degrees"), "the other severity")
        self.node.await_allocatable(gpu=0)
        self.assertEqual(self.findings()["gpu-0"], [("no-new-pods", "temperature", "81 degrees")])
        self.assertIn('A probe with the reason "temperature" has failed: 81 degrees.',
                      self.ctl("explain", "vendor.example/gpu").stdout)

    def test_notice_beside_a_failure(self):
        """Both are shown."""
        self.write(0, "worn")
        gpu = self.gpu('severity = "notice";').replace("health = (", 'health = ( { probe = "exists"; path = "/nonexistent"; },')
        self.serve(gpu)
        until(lambda: len(self.findings().get("gpu-0", [])) == 2, "both findings")
        self.assertRegex(self.ctl("devices").stdout, r"gpu-0 +Unhealthy .*/nonexistent is missing; notice: worn\n")
        status = self.ctl("status").stdout
        self.assertRegex(status, r"gpu-0, gpu-1, gpu-2 \(unhealthy since .*\): /nonexistent is missing\n")
        self.assertIn("device gpu-0 (notice): worn\n", status)


if __name__ == "__main__":
    unittest.main(verbosity=2)
