# SPDX-License-Identifier: Apache-2.0
"""P5: what systemd is told over $NOTIFY_SOCKET, without a kubelet in sight."""
import os
import signal
import socket
import subprocess
import time
import unittest

from node import LIMIT, NodeTest, program, static, until


class Notification(NodeTest):
    def setUp(self):
        super().setUp()
        address = self.node.path("notify")
        self.systemd = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.addCleanup(self.systemd.close)
        self.systemd.bind(address)
        self.systemd.settimeout(LIMIT)
        self.node.environment["NOTIFY_SOCKET"] = address
        self.node.configure(static("gpu", 2), static("nic", 1))

    def await_message(self, *keys):
        """The next message that has all the keys, as a dictionary; others are left aside."""
        while True:
            message = dict(line.split("=", 1) for line in self.systemd.recv(65536).decode().splitlines())
            if all(key in message for key in keys):
                return message

    def await_status(self, text):
        while text not in (status := self.await_message("STATUS")["STATUS"]):
            pass
        return status

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
        self.systemd.settimeout(0)
        try:
            while True:
                self.systemd.recv(65536)
        except BlockingIOError:
            pass
        os.kill(self.node.daemon.pid, signal.SIGCONT)
        self.systemd.settimeout(LIMIT)
        self.await_message("WATCHDOG")

    def test_P5_resource_that_cannot_serve_does_not_hold_up_the_start(self):
        # The child refuses this, but it is nothing a file can be blamed for.
        self.node.configure(static("gpu", 1), static("nic", 1, 'user = "devplugd-nobody";'))
        self.node.start()
        self.await_message("READY")
        until(lambda: (r := self.node.resource("vendor.example/nic")) and r["state"] == "backoff",
              "the resource without a user to be retried")
        self.node.start_kubelet()
        self.node.await_allocatable(gpu=1)


if __name__ == "__main__":
    unittest.main()
