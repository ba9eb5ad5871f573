# SPDX-License-Identifier: Apache-2.0
"""P19: a pause of the supervisor, or of the supervisor and its children, replaces no child.

The pause must be longer than a child may be silent (10 s). $DEVPLUGD_TEST_PAUSE sets another length in seconds; in more
than 30, a device whose health changes all the time fills the socket that the paused supervisor does not read.
"""
import os
import signal
import time
import unittest

from node import Node, NodeTest, plugins_of, static

PAUSE = float(os.environ.get("DEVPLUGD_TEST_PAUSE") or 12)
N = 4


class PausedHost(NodeTest):
    def begin(self, node):
        self.addCleanup(node.close)
        node.configure(*(static(f"r{i}", 2) for i in range(N)),
                       static("flapping", 1, f'health = ( {{ probe = "file"; path = "{node.path("health")}"; '
                                             'healthy = "1"; missing = "healthy"; } );'))
        node.start_kubelet()
        node.start()
        node.await_allocatable(**{f"r{i}": 2 for i in range(N)})
        return {name: (r["pid"], r["session"]) for name, r in node.await_serving().items()}

    def test_P19_pauses(self):
        alone, together = self.node, Node()
        before = [self.begin(node) for node in (alone, together)]
        children = plugins_of(together.daemon.pid)
        # The supervisor comes first when it goes on, when its children have had no time to send anything.
        stopped = [together.daemon.pid, *children, alone.daemon.pid]
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
        for node in (alone, together):
            # An answer to a reload shows that the supervisor has handled all that was due.
            node.reload()
            node.await_allocatable(**{f"r{i}": 2 for i in range(N)})
        after = [{name: (r["pid"], r["session"]) for name, r in node.await_serving().items()}
                 for node in (alone, together)]
        self.assertEqual(after, before)
        self.assertEqual(together.stop(), 0)


if __name__ == "__main__":
    unittest.main()
