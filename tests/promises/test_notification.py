# SPDX-License-Identifier: Apache-2.0
"""P5: what systemd is told over $NOTIFY_SOCKET, and when."""
import os
import queue
import re
import shutil
import signal
import stat
import subprocess
import time
import unittest

from node import LIMIT, NodeTest, path, program, static, until
from service_manager import ServiceManager


class Systemd(NodeTest):
    def setUp(self):
        super().setUp()
        self.systemd = ServiceManager(self, self.node)
        self.messages, self.await_message = self.systemd.messages, self.systemd.await_message

    def await_status(self, text):
        while text not in (status := self.await_message("STATUS")["STATUS"]):
            pass
        return status


class Notification(Systemd):
    def setUp(self):
        super().setUp()
        self.node.configure(static("gpu", 2), static("nic", 1))

    def test_P5_ready_without_a_kubelet(self):
        self.node.start()
        self.assertEqual(self.await_message("READY")["READY"], "1")
        self.assertFalse(os.path.exists(self.node.plugins))
        self.await_status("2 waiting")
        self.node.start_kubelet()
        self.await_status("2 serving (3 devices, 3 healthy)")

    def test_P5_reload(self):
        self.node.start()
        self.await_message("READY")
        self.node.configure(static("gpu", 5))
        before = time.clock_gettime_ns(time.CLOCK_MONOTONIC) // 1000
        self.node.daemon.send_signal(signal.SIGHUP)
        message = self.await_message("RELOADING")
        self.assertEqual(message["RELOADING"], "1")
        self.assertGreaterEqual(int(message["MONOTONIC_USEC"]), before)
        self.assertEqual(self.await_message("READY")["READY"], "1")
        self.await_status("1 resource:")
        self.node.configure()
        self.node.daemon.send_signal(signal.SIGHUP)
        self.await_status("no resources are configured")
        answer = subprocess.run([program("devplugctl"), "-c", self.node.config, "status"], capture_output=True, text=True)
        self.assertIn("no resources are configured", answer.stdout)

    def test_P5_P1_reload_that_fails(self):
        self.node.start()
        self.await_message("READY")
        with open(self.node.config, "w") as file:
            file.write("resources = (")
        self.node.daemon.send_signal(signal.SIGHUP)
        self.await_message("RELOADING")
        # It is ready all the same: with what it had.
        self.await_message("READY")
        self.await_status("reload failed, generation 1 stays applied")

    def test_P5_stop(self):
        self.node.start()
        self.await_message("READY")
        self.node.daemon.send_signal(signal.SIGTERM)
        self.assertEqual(self.await_message("STOPPING")["STOPPING"], "1")
        self.assertEqual(self.node.daemon.wait(timeout=LIMIT), 0)
        self.node.daemon = None

    def test_P5_watchdog(self):
        self.node.environment["WATCHDOG_USEC"] = "500000"
        self.node.start()
        for _ in range(5):
            self.assertEqual(self.await_message("WATCHDOG")["WATCHDOG"], "1")
        # It stops being fed when the loop stands still, which is what it is for.
        os.kill(self.node.daemon.pid, signal.SIGSTOP)
        with self.assertRaises(queue.Empty):
            self.await_message("none", limit=0.1)
        os.kill(self.node.daemon.pid, signal.SIGCONT)
        self.await_message("WATCHDOG")

    def test_P5_resource_that_cannot_serve_does_not_hold_up_the_start(self):
        # The child refuses this, but it is nothing a file can be blamed for.
        self.node.configure(static("gpu", 1), static("nic", 1, 'user = "devplugd-nobody";'))
        self.node.start()
        self.await_message("READY")
        until(lambda: (r := self.node.find("vendor.example/nic")) and r["state"] == "backoff",
              "the resource without a user to be retried")
        self.node.start_kubelet()
        self.node.await_allocatable(gpu=1)


class FirstStart(Systemd):
    """A kubelet refuses pods whose devices are not there when it starts. After a boot, they appear while devplugd starts."""

    def setUp(self):
        super().setUp()
        self.host, self.devices = self.node.path("host"), ["x0", "x1"]
        self.queue = f"{self.host}/run/udev/queue"
        os.makedirs(os.path.dirname(self.queue))
        os.mkdir(f"{self.host}/dev")
        for name in self.devices:
            self.plug(name)
        self.node.configure(static("gpu", 1), path("x", "/dev/x*"), text=f'host_root = "{self.host}";')
        self.node.start_kubelet()
        self.node.start()
        self.await_message("READY")
        self.node.await_allocatable(x=2, gpu=1)
        given, _ = self.node.pod("p", x=1)
        self.held = given["resources"]["vendor.example/x"][0]
        # It leaves its socket.
        self.node.stop_kubelet(signal.SIGKILL)
        self.node.stop(signal.SIGKILL)

    def plug(self, name):
        os.mknod(f"{self.host}/dev/{name}", 0o600 | stat.S_IFCHR, os.makedev(240, int(name[1:])))

    def boot(self):
        """devplugd starts on a host without devices, on which udev is busy."""
        for name in os.listdir(f"{self.host}/dev"):
            os.unlink(f"{self.host}/dev/{name}")
        open(self.queue, "w").close()
        self.start()
        until(lambda: "the start of the kubelet waits for up to 20 s: pods hold devices of vendor.example/x" in self.printed(),
              "the kubelet to wait")
        until(lambda: [d["health"] for d in self.node.resource("vendor.example/x")["devices"]] == ["Unhealthy"],
              "the device to be listed")

    def start(self):
        self.before, self.begun = len(self.node.output()), time.monotonic()
        self.node.start()

    def is_late(self):
        """The machine is too slow for more than what 20 s allow."""
        return time.monotonic() - self.begun > 20

    def printed(self):
        return self.node.output()[self.before:]

    def await_ready(self, why):
        self.await_message("READY")
        reasons = [f"the kubelet may start: {why}\n"] + ["the kubelet may start: 20 s have passed\n"] * self.is_late()
        self.assertTrue(any(reason in self.printed() for reason in reasons), self.printed())
        self.assertEqual(self.printed().count("the kubelet may start"), 1)

    def test_P5_ready_when_the_devices_of_pods_are_found(self):
        shutil.rmtree(self.node.run)
        self.boot()
        # One that no pod holds.
        self.plug(next(name for name in self.devices if name not in self.held))
        until(lambda: len(self.node.resource("vendor.example/x")["devices"]) == 2, "the first device")
        said = self.printed(), [key for message in list(self.messages.queue) for key in message]
        if not self.is_late():
            self.assertNotIn("the kubelet may start", said[0])
            self.assertNotIn("READY", said[1])
        self.plug(next(name for name in self.devices if name in self.held))
        self.await_ready("the devices of all pods are found")
        # The kubelet starts, and the pod runs.
        self.node.start_kubelet()
        until(lambda: any(e["event"] == "pod-readmitted" for e in self.node.kubelet_events()), "the pod to run again")

    def test_P5_ready_at_once_after_a_restart(self):
        shutil.rmtree(self.node.run)
        self.boot()
        os.unlink(self.queue)
        self.await_ready("udev has processed all events")
        # As an upgrade does it.
        self.node.stop(signal.SIGKILL)
        open(self.queue, "w").close()
        self.start()
        self.await_message("READY")
        self.assertNotIn("the start of the kubelet waits", self.printed())
        self.node.stop()
        # The saved configuration is of another boot. A kubelet that is started by hand does not wait.
        saved = os.path.join(self.node.run, "last-good.conf")
        with open(saved) as file:
            text = re.sub("(Accepted in boot ).*", r"\g<1>another", file.read())
        with open(saved, "w") as file:
            file.write(text)
        self.boot()
        self.node.start_kubelet()
        self.await_ready("a kubelet is running already")

    def test_P5_ready_after_20_seconds(self):
        shutil.rmtree(self.node.run)
        self.boot()
        self.await_ready("20 s have passed")
        self.assertTrue(self.is_late())


if __name__ == "__main__":
    unittest.main()
