# SPDX-License-Identifier: Apache-2.0
"""P19: pauses of the supervisor, or of the supervisor and its children, replace no child. Nor do a lack of descriptors and a
hundred busy processes.

Each pause is longer than a child may be silent (30 s), so that a device whose health changes all the time fills the socket
that the paused supervisor does not read.
"""
import contextlib
import os
import resource
import signal
import subprocess
import time
import unittest

from node import Node, NodeTest, plugins_of, static, until

PAUSE = 40
BUSY = 100
N = 4


class PausedHost(NodeTest):
    def begin(self, node):
        node.configure(*(static(f"r{i}", 2) for i in range(N)),
                       static("flapping", 1, f'health = ( {{ probe = "file"; path = "{node.path("health")}"; '
                                             'healthy = "1"; missing = "healthy"; } );'))
        node.start_kubelet()
        node.start()
        node.await_allocatable(**{f"r{i}": 2 for i in range(N)})
        return {name: (r["pid"], r["session"]) for name, r in node.await_serving().items()}

    def test_P19_pauses(self):
        alone, together = self.node, Node()
        self.addCleanup(together.close)
        before = [self.begin(node) for node in (alone, together)]
        children = plugins_of(together.daemon.pid)
        # The supervisor comes first when it goes on, when its children have had no time to send anything.
        stopped = [together.daemon.pid, *children, alone.daemon.pid]
        for _ in range(2):
            for pid in stopped:
                os.kill(pid, signal.SIGSTOP)
            end = time.monotonic() + PAUSE
            while time.monotonic() < end:
                for healthy in ("0", "1"):
                    with open(alone.path("health"), "w") as file:
                        file.write(healthy)
                    time.sleep(0.12)
            for pid in stopped:
                os.kill(pid, signal.SIGCONT)
            time.sleep(1)
        for node in (alone, together):
            # An answer to a reload shows that the supervisor has handled all that was due.
            node.reload()
            node.await_allocatable(**{f"r{i}": 2 for i in range(N)})
        after = [{name: (r["pid"], r["session"]) for name, r in node.await_serving().items()}
                 for node in (alone, together)]
        self.assertEqual(after, before)
        self.assertEqual(together.stop(), 0)

    def test_P19_busy_processes(self):
        """On one processor, which the daemon and its children share with them."""
        processor = {max(os.sched_getaffinity(0))}
        before = self.begin(self.node)
        for pid in [self.node.daemon.pid, *plugins_of(self.node.daemon.pid)]:
            for thread in os.listdir(f"/proc/{pid}/task"):
                with contextlib.suppress(ProcessLookupError):  # it has just ended
                    os.sched_setaffinity(int(thread), processor)
        for _ in range(BUSY):
            loop = subprocess.Popen(["/bin/sh", "-c", "while :; do :; done"])
            self.addCleanup(loop.wait)
            self.addCleanup(loop.kill)
            os.sched_setaffinity(loop.pid, processor)
        time.sleep(PAUSE)
        after = {name: (r["pid"], r["session"]) for name, r in self.node.await_serving().items()}
        self.assertEqual(after, before)

    def test_P19_no_free_descriptors(self):
        before = self.begin(self.node)
        health = self.node.path("health")
        daemon = self.node.daemon.pid
        limits = resource.prlimit(daemon, resource.RLIMIT_NOFILE)
        # Descriptors that are open stay so, and no further one can be had.
        resource.prlimit(daemon, resource.RLIMIT_NOFILE, (0, limits[1]))
        self.addCleanup(lambda: self.node.daemon and resource.prlimit(daemon, resource.RLIMIT_NOFILE, limits))
        with open(health, "w") as file:
            file.write("0")
        words = "devplugd has reached its limit of open files; raise LimitNOFILE="
        until(lambda: words in self.node.output(), "devplugd to name the shortage")
        # Longer than a child may be silent: the heartbeats wait behind the message with descriptors.
        time.sleep(PAUSE)
        self.assertEqual(self.node.output().count(words), 1)
        resource.prlimit(daemon, resource.RLIMIT_NOFILE, limits)
        until(lambda: self.node.resource("vendor.example/flapping")["devices"][0]["health"] == "Unhealthy",
              "the message that waited to be received")
        after = {name: (r["pid"], r["session"]) for name, r in self.node.await_serving().items()}
        self.assertEqual(after, before)


if __name__ == "__main__":
    unittest.main()
