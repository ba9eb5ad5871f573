# SPDX-License-Identifier: Apache-2.0
"""P6: 100 restarts of a kubelet that has 50 resources ($DEVPLUGD_TEST_SCALE scales the restarts; a build with
sanitizers has 20). By SIGTERM and SIGKILL, at once and after a while, with the clean-up of kubelet 1.32 and of
1.36, and with the race in which the end of an old stream disconnects the new plugin. How fast it is: make bench.

complaints.md: R1.
"""
import random
import signal
import unittest

from kubelet_log import overlaps
from node import SEED, NodeTest, scaled, static, until

RESTARTS = scaled(100)
RESOURCES = 50
WAYS = [(number, behaviour) for number in (signal.SIGTERM, signal.SIGKILL) for behaviour in ("1.32", "1.36")]


class KubeletRestarts(NodeTest):
    def test_P6_P15_restarts(self):
        print(f"seed {SEED}, {RESTARTS} restarts", end=" ", flush=True)
        choice = random.Random(SEED)
        names = {f"r{i}": 2 for i in range(RESOURCES)}
        wanted = {f"vendor.example/{name}": 2 for name in names}
        self.node.configure(*(static(name, count) for name, count in names.items()))
        self.node.start_kubelet()
        self.node.start()
        self.node.await_allocatable(**names)
        pids = {r["name"]: r["pid"] for r in self.node.await_serving().values()}
        for turn in range(RESTARTS):
            number, behaviour = WAYS[turn % len(WAYS)]
            self.node.stop_kubelet(number)
            if choice.random() < 0.3:
                # Also after everybody has noticed.
                until(lambda: all(r["state"] == "waiting" for r in self.node.state()["resources"]), "all to wait")
            self.node.start_kubelet("--as", behaviour, "--stale-stream-race", "on")
            if choice.random() < 0.2:
                # And before anybody could register.
                continue
            self.await_all(wanted, turn)
        self.await_all(wanted, RESTARTS)
        # A restart of the kubelet costs a session, never a process.
        served = self.node.await_serving().values()
        self.assertEqual({r["name"]: r["pid"] for r in served}, pids)
        self.assertTrue(all(r["restarts"] == 0 for r in served) or self.node.environment)
        until(lambda: len(self.node.sockets()) == RESOURCES, "only the sockets of live sessions to be there")
        self.assertEqual(overlaps(self.node.kubelet_events()), [])

    def await_all(self, wanted, turn):
        def look():
            try:
                return self.node.call_kubelet("wait", resources=wanted, timeout=5)["reached"]
            except (FileNotFoundError, ConnectionError):
                return False  # it only starts

        until(look, f"all resources to be back after restart {turn}")


class Witness(unittest.TestCase):
    """That the judge of P15 sees what it is there to see."""

    def test_P15_overlaps_are_found(self):
        def registered(connection, time):
            return {"event": "registered", "resource": "r", "endpoint": f"{connection}.sock",
                    "connection": connection, "time": time, "took_usec": 5}

        def ended(connection, time):
            return {"event": "stream-ended", "resource": "r", "connection": connection, "time": time}

        self.assertEqual(overlaps([registered(1, 10), ended(1, 20), registered(2, 30)]), [])
        # Two sessions; a Register while the other session lives; two Registers.
        self.assertEqual(len(overlaps([registered(1, 10), registered(2, 30)])), 1)
        self.assertEqual(len(overlaps([registered(1, 10), ended(1, 20), registered(2, 24)])), 1)
        self.assertEqual(len(overlaps([registered(1, 10), registered(2, 12), ended(1, 14), ended(2, 15)])), 1)
        # A kubelet that comes knows nobody.
        self.assertEqual(overlaps([registered(1, 10), {"event": "listening", "time": 20}, registered(1, 30)]), [])


if __name__ == "__main__":
    unittest.main()
