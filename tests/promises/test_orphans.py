# SPDX-License-Identifier: Apache-2.0
"""P7: each means against orphans does it alone. The third, the cgroup of the unit, is systemd's and is tested with
the package; here the daemon is in no cgroup of its own."""
import os
import signal
import unittest

from node import NodeTest, static, until

N = 4


def is_alive(pid):
    try:
        with open(f"/proc/{pid}/stat") as file:
            return file.read().rsplit(")", 1)[1].split()[0] not in "ZX"
    except (FileNotFoundError, ProcessLookupError):
        return False


class Orphans(NodeTest):
    def begin(self):
        names = {f"r{i}": 1 for i in range(N)}
        self.node.configure(*(static(name, count) for name, count in names.items()))
        self.node.start_kubelet()
        self.node.start()
        self.node.await_allocatable(**names)
        self.node.await_serving()
        children = sorted(self.node.processes())
        self.assertEqual(len(children), N)
        return children

    def await_end(self, children):
        until(lambda: not any(is_alive(child) for child in children), "children to be gone with their supervisor")

    def without_death_signal(self):
        # The signal is set between fork and exec, in devplugd where the calls are ours: not in a copy of the
        # template, which this stand-in for the program is not.
        self.node.prepare_children("")
        self.node.inject("no-death-signal")

    def test_P7_end_of_control_socket_alone(self):
        self.without_death_signal()
        children = self.begin()
        self.node.stop(signal.SIGKILL)
        self.await_end(children)

    def test_P7_death_signal_alone(self):
        children = self.begin()
        # A process that is stopped reads nothing, and ends by SIGKILL only.
        for child in children:
            os.kill(child, signal.SIGSTOP)
        self.node.stop(signal.SIGKILL)
        self.await_end(children)

    def test_P7_no_means_is_an_orphan(self):
        # That the two tests above test something: with neither means a child stays.
        self.without_death_signal()
        children = self.begin()
        for child in children:
            os.kill(child, signal.SIGSTOP)
        self.node.stop(signal.SIGKILL)
        self.assertTrue(all(is_alive(child) for child in children))
        for child in children:
            os.kill(child, signal.SIGCONT)
        self.await_end(children)


if __name__ == "__main__":
    unittest.main()
