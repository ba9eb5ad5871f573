# SPDX-License-Identifier: Apache-2.0
"""P14, memory: what probes found outlives the child and the daemon, and goes with the resource.

docs/complaints.md: R3.
"""
import os
import signal
import unittest

from node import NodeTest, scaled, static, until


class HealthMemory(NodeTest):
    def setUp(self):
        super().setUp()
        os.mkdir(self.node.path("health"))
        self.node.configure(static(
            "gpu", 3, f'health = ( {{ probe = "file"; path = "{self.node.dir}/health/${{id}}"; '
                      'healthy = "ok"; missing = "healthy"; recover = "reboot"; } );'))
        self.node.start_kubelet()
        self.node.start()
        self.node.await_allocatable(gpu=3)

    def devices(self):
        return {d["id"]: d for d in self.node.resource("vendor.example/gpu")["devices"]}

    def fail_one(self):
        with open(self.node.path("health/gpu-1"), "w") as file:
            file.write("ECC error")
        self.node.await_allocatable(gpu=2)
        os.unlink(self.node.path("health/gpu-1"))

        def look():
            device = self.devices().get("gpu-1")
            return device if device and device["reason"] else None

        return until(look, "the failure to be shown")

    def check_remembered(self, before):
        self.node.await_allocatable(gpu=2)
        now = until(lambda: self.devices().get("gpu-1"), "the device to be shown")
        self.assertEqual((now["health"], now["reason"], now["since"]),
                         ("Unhealthy", "ECC error", before["since"]))

    def test_P14_child_restart(self):
        before = self.fail_one()
        pid = self.node.resource("vendor.example/gpu")["pid"]
        os.kill(pid, signal.SIGKILL)
        until(lambda: (r := self.node.resource("vendor.example/gpu"))["state"] == "serving"
              and r["pid"] != pid, "the child to be back")
        self.check_remembered(before)

    def test_P14_daemon_killed_and_restarted(self):
        before = self.fail_one()
        until(lambda: os.listdir(self.node.run + "/health"), "the memory to be written")
        self.node.stop(signal.SIGKILL)
        self.node.start()
        self.check_remembered(before)
        self.assertEqual(self.node.stop(), 0)
        self.node.start()
        self.check_remembered(before)

    def test_P11_P14_many_changes(self):
        """State files say the newest after any number of changes, and so does what a successor is given."""
        for i in range(scaled(40)):
            name, text = f"gpu-{i % 3}", f"error {i}"
            with open(self.node.path("new"), "w") as file:
                file.write(text)
            os.rename(self.node.path("new"), self.node.path(f"health/{name}"))
            until(lambda: self.devices().get(name, {}).get("reason") == text, f"{name} to be shown with {text}")
        before = self.devices()
        self.assertEqual(list(before), ["gpu-0", "gpu-1", "gpu-2"])
        path = until(lambda: [f"{self.node.run}/health/{f}" for f in os.listdir(self.node.run + "/health")], "a memory")[0]
        self.assertLess(os.path.getsize(path), 8192)
        self.node.stop(signal.SIGKILL)
        for name in before:
            os.unlink(self.node.path(f"health/{name}"))
        self.node.start()
        self.node.await_serving()
        until(lambda: len(self.devices()) == 3, "the devices to be shown")
        self.assertEqual(self.devices(), before)

    def test_P14_forgotten_with_the_resource(self):
        self.fail_one()
        until(lambda: os.listdir(self.node.run + "/health"), "the memory to be written")
        self.node.configure(static("other", 1))
        self.node.reload()
        until(lambda: not os.listdir(self.node.run + "/health"), "the memory to be removed")


if __name__ == "__main__":
    unittest.main()
