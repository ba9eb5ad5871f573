# SPDX-License-Identifier: Apache-2.0
"""P9: a stop is bounded and leaves nothing, whatever is going on. The bound is that of the unit, TimeoutStopSec=15,
which is what systemd kills the rest after."""
import os
import signal
import unittest

from load import Load
from node import SEED, NodeTest, children_of, is_gone, static, until

STOP_LIMIT = 15.0
N = 8


def command_of(pid):
    try:
        with open(f"/proc/{pid}/comm") as file:
            return file.read().strip()
    except (FileNotFoundError, ProcessLookupError):
        return None


class Stop(NodeTest):
    def setUp(self):
        super().setUp()
        self.names = {f"r{i}": 4 for i in range(N)}
        self.node.configure(*(static(name, n) for name, n in self.names.items()))
        self.node.start_kubelet()
        self.node.start()
        self.node.await_allocatable(**self.names)
        self.node.await_serving()
        self.children = sorted(self.node.processes())

    def stop(self, number=signal.SIGTERM):
        self.node.daemon.send_signal(number)
        # Raises if it takes longer.
        self.assertEqual(self.node.daemon.wait(timeout=STOP_LIMIT), 0)
        self.node.daemon = None
        self.assertEqual(self.node.sockets(), [])
        until(lambda: all(is_gone(child) for child in self.children), "no child to be left")
        self.assertFalse(os.path.exists(self.node.run + "/control"))

    def under_load(self, act):
        with Load(self.node, lambda choice: {f"vendor.example/r{choice.randrange(N)}": 1}, SEED, pause=0) as load:
            until(lambda: len(load.attempts) > 50, "the load to be one")
            act()

    def test_P9_stop_under_load(self):
        self.under_load(self.stop)

    def test_P9_interrupt_under_load(self):
        self.under_load(lambda: self.stop(signal.SIGINT))

    def test_P9_stop_requested_until_the_end(self):
        """Also after the last child has ended, when nothing but the exit is left to do."""
        for _ in range(5):
            while self.node.daemon.poll() is None:
                for _ in range(100):
                    os.kill(self.node.daemon.pid, signal.SIGTERM)
                    os.kill(self.node.daemon.pid, signal.SIGINT)
                    os.kill(self.node.daemon.pid, signal.SIGHUP)
            self.assertEqual(self.node.daemon.returncode, 0)
            self.node.start()
            self.node.await_serving()
        self.children = sorted(self.node.processes())
        self.stop()

    def test_P9_stop_with_stopped_children(self):
        for child in self.children[::2]:
            os.kill(child, signal.SIGSTOP)
        self.stop()

    def test_P9_stop_while_children_die_and_come(self):
        for child in self.children:
            os.kill(child, signal.SIGKILL)
        self.stop()

    def test_P9_stop_while_reloading(self):
        self.node.configure(*(static(f"new{i}", 2) for i in range(N)))
        self.node.daemon.send_signal(signal.SIGHUP)
        self.stop()

    def test_P9_stop_while_prestart_runs(self):
        self.node.configure(static("slow", 1, 'prestart = { command = [ "/bin/sleep", "30" ]; timeout = 20; };'))
        self.node.reload()
        self.node.await_allocatable(slow=1)
        self.children = sorted(self.node.processes())
        with Load(self.node, lambda choice: {"vendor.example/slow": 1}, SEED, workers=1) as load:
            def starting():
                return any(command_of(c) == "sleep" for child in self.children for c in children_of(child))

            until(starting, "the command to run")
            self.stop()
            self.assertEqual(load.failures(), load.attempts)

    def test_P9_stop_without_a_kubelet(self):
        self.node.stop_kubelet(signal.SIGKILL)
        self.stop()


if __name__ == "__main__":
    unittest.main()
