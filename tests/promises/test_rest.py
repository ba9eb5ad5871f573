# SPDX-License-Identifier: Apache-2.0
"""A daemon at rest: what only its start needed is no longer in its memory, and gRPC's timer threads are patient."""
import os
import unittest

from node import SANITIZED, NodeTest, children_of, static, until


def clean_code(pid):
    """Kilobytes of programs and libraries in memory that nobody has written to."""
    total, counts = 0, False
    with open(f"/proc/{pid}/smaps") as file:
        for line in file:
            words = line.split()
            if not words[0].endswith(":"):
                counts = len(words) > 5 and words[5].startswith("/") and words[1][1] == "-"
            elif counts and words[0] in ("Shared_Clean:", "Private_Clean:"):
                total += int(words[1])
    return total


class Rest(NodeTest):
    def test_what_a_start_needed_is_given_back(self):
        self.node.configure(static("a", 2))
        self.node.start_kubelet()
        self.node.start()
        most = {}

        def look():
            now = {pid: clean_code(pid) for pid in (self.node.daemon.pid, *children_of(self.node.daemon.pid))}
            for pid, kilobytes in now.items():
                most[pid] = max(kilobytes, most.get(pid, 0))
            return len(now) == 3 and all(kilobytes < most[pid] * 3 / 4 for pid, kilobytes in now.items())

        until(look, "devplugd, the template and the child to give back code")
        # All that was given back is there when it is needed.
        self.node.await_allocatable(a=2)
        given, status = self.node.pod("a", a=1)
        self.assertTrue(given, status)

    @unittest.skipIf(SANITIZED, "a sanitizer would look where the definitions read")
    def test_timer_threads_are_patient(self):
        self.node.configure(static("a", 1))
        self.node.start_kubelet()
        self.node.start()
        child = self.node.await_serving()["vendor.example/a"]["pid"]
        slacks = {}
        for thread in os.listdir(f"/proc/{child}/task"):
            with open(f"/proc/{child}/task/{thread}/comm") as comm, open(f"/proc/{thread}/timerslack_ns") as slack:
                slacks[comm.read().strip()] = int(slack.read())
        for name in ("grpc_global_tim", "timer_manager"):
            self.assertEqual(slacks[name], 30 * 10**9, slacks)


if __name__ == "__main__":
    unittest.main()
