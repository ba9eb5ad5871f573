# SPDX-License-Identifier: Apache-2.0
"""P14, memory: what probes found outlives the child and the daemon, and goes with the resource.

complaints.md: R3.
"""
import json
import os
import signal
import stat
import unittest

from node import NodeTest, path, scaled, static, until
from tool import ToolTest


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

        shown = until(look, "the failure to be shown")
        self.await_saved("ECC error")
        return shown

    def await_saved(self, *reasons):
        def look():
            text = ""
            for entry in os.scandir(self.node.run + "/health"):
                with open(entry.path) as file:
                    text += file.read()
            return all(reason in text for reason in reasons)

        until(look, "the health to be saved")

    def check_remembered(self, before):
        self.node.await_allocatable(gpu=2)
        now = until(lambda: self.devices().get("gpu-1"), "the device to be shown")
        self.assertEqual((now["health"], now["reason"], now["since"]),
                         ("Unhealthy", "ECC error", before["since"]))

    def test_P14_child_restart(self):
        before = self.fail_one()
        pid = self.node.find("vendor.example/gpu")["pid"]
        os.kill(pid, signal.SIGKILL)
        until(lambda: (r := self.node.find("vendor.example/gpu"))["state"] == "serving"
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
        """Clients get the newest after any number of changes, and so does a successor."""
        for i in range(scaled(40)):
            name, text = f"gpu-{i % 3}", f"error {i}"
            with open(self.node.path("new"), "w") as file:
                file.write(text)
            os.rename(self.node.path("new"), self.node.path(f"health/{name}"))
            until(lambda: self.devices().get(name, {}).get("reason") == text, f"{name} to be shown with {text}")
        before = self.devices()
        self.assertEqual(list(before), ["gpu-0", "gpu-1", "gpu-2"])
        path = until(lambda: [f"{self.node.run}/health/{f}" for f in os.listdir(self.node.run + "/health")], "a memory")[0]
        self.await_saved(*(device["reason"] for device in before.values()))
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
        name, = until(lambda: os.listdir(self.node.run + "/health"), "the memory to be written")
        self.node.configure(static("other", 1))
        self.node.reload()
        until(lambda: name not in os.listdir(self.node.run + "/health"), "the memory to be removed")


class HealthWithoutProbes(ToolTest):
    """Devices that are unplugged, cordoned or reported by a program change their health, too."""

    def test_P14_changes_outlive_the_process(self):
        os.mkdir(self.node.path("dev"))
        plug = [self.node.path("dev/card0"), self.node.path("dev/card1")]
        for device in plug:
            self.plug(device)
        program = self.node.path("discover")
        self.tell(program, healthy=True)
        self.serve(path("card", self.node.path("dev/card*")), static("slot", 2),
                   f'{{ name = "vendor.example/cam"; driver = "exec"; '
                   f'match = ( {{ command = "{program}"; interval = 0.1; }} ); }}')
        self.node.await_allocatable(card=2, slot=2, cam=1)
        # The device is back before it leaves the list.
        os.rename(plug[0], self.node.path("away"))
        self.node.await_allocatable(card=1)
        os.rename(self.node.path("away"), plug[0])
        self.node.await_allocatable(card=2)
        for verb in ("cordon", "uncordon", "cordon"):
            self.assertEqual(self.ctl(verb, "slot-0").returncode, 0)
        self.node.await_allocatable(slot=1)
        self.tell(program, healthy=False)
        self.node.await_allocatable(cam=0)
        expected = {"card0": 2, "card1": 0, "slot-0": 3, "slot-1": 0, "front": 1}
        until(lambda: {name: device[0] for name, device in self.devices().items()} == expected, f"{expected} changes")
        before = self.devices()

        pids = {r["name"]: r["pid"] for r in self.node.state()["resources"]}
        for pid in pids.values():
            os.kill(pid, signal.SIGKILL)
        until(lambda: all(r["state"] == "serving" and r["pid"] != pids[r["name"]] for r in self.node.state()["resources"]),
              "the children to be back")
        self.node.await_allocatable(card=2, slot=1, cam=0)
        until(lambda: self.devices() == before, lambda: f"{before} after a child's kill; last {self.devices()}")
        self.node.stop(signal.SIGKILL)
        self.node.start()
        self.node.await_serving()
        until(lambda: self.devices() == before, lambda: f"{before} after the daemon's kill; last {self.devices()}")

    def plug(self, device):
        os.mknod(device, stat.S_IFCHR | 0o666, os.makedev(1, 3))

    def tell(self, program, healthy):
        with open(program + ".new", "w") as file:
            device = {"id": "front", "healthy": healthy, **({} if healthy else {"reason": "lens cap on"})}
            file.write("#!/bin/sh\ncat <<'END'\n" + json.dumps({"version": 1, "devices": [device]}) + "\nEND\n")
        os.chmod(program + ".new", 0o755)
        os.rename(program + ".new", program)

    def devices(self):
        """Changes of health, and since when, by resource and device."""
        return {device["id"].split(":")[-1]: (device.get("changes", 0), device["health"], device["since"])
                for document in self.node.ask(devices=True)[1].values() for device in document["devices"]}


if __name__ == "__main__":
    unittest.main()
