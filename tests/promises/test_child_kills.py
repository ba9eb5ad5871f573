# SPDX-License-Identifier: Apache-2.0
"""P13 and P15: 1000 random SIGKILLs of children under an allocation load ($DEVPLUGD_TEST_SCALE scales that; a build
with sanitizers has 200). No registration is lost, and no two of one resource ever overlap.

complaints.md: R25.
"""
import os
import random
import signal
import unittest

from kubelet_log import overlaps
from load import Load
from node import SEED, NodeTest, scaled, static, until

KILLS = scaled(1000)
# Each child dies five times, so that back-off (0.1 s doubling) stays at seconds.
DEATHS = 5
COUNT = 3


class ChildKills(NodeTest):
    def healthy(self, names):
        """Whether devplugd and the kubelet agree that each resource is served, with all its devices."""
        state = self.node.state()
        if not state or any(r["state"] != "serving" or not r["registered"] or r["devices_healthy"] != COUNT
                            for r in state["resources"]):
            return None
        seen = self.node.call_kubelet("status")["resources"]
        wrong = [r for r in seen if r["state"] != "serving" or r["allocatable"] != COUNT or r["capacity"] != COUNT]
        return state if not wrong and {r["name"] for r in seen} == names else None

    def test_P13_P15_random_kills_under_load(self):
        print(f"seed {SEED}, {KILLS} kills", end=" ", flush=True)
        choice = random.Random(SEED)
        names = [f"r{i}" for i in range(max(4, -(-KILLS // DEATHS)))]
        full = {f"vendor.example/{name}" for name in names}
        victims = [f"vendor.example/{name}" for name in names for _ in range(DEATHS)][:KILLS]
        choice.shuffle(victims)
        self.node.configure(*(static(name, COUNT) for name in names))
        self.node.start_kubelet("--seed", str(SEED))
        self.node.start()
        until(lambda: self.healthy(full), "every resource to serve", 120)

        def pod(choice):
            return {name: choice.randint(1, 2) for name in choice.sample(sorted(full), choice.randint(1, 3))}

        with Load(self.node, pod, SEED) as load:
            until(lambda: len(load.attempts) > len(load.failures()), "the load to begin")
            killed = set()
            while victims:
                living = {name: pid for pid, name in self.node.processes().items()}
                for name in choice.sample(victims, min(len(victims), 8)):
                    # One that is dead is killed when it is back, in whatever state.
                    pid = living.get(name)
                    if not pid or pid in killed or name not in victims:
                        continue
                    os.kill(pid, signal.SIGKILL)
                    killed.add(pid)
                    victims.remove(name)
                self.assertIsNone(self.node.daemon.poll(), "devplugd died")
                self.assertIsNone(load.error)
                load.stopping.wait(choice.random() * 0.05)
            admitted = len(load.attempts) - len(load.failures())
        self.assertGreater(admitted, 0, "the load was none")
        state = until(lambda: self.healthy(full),
                      "every resource to be registered and healthy again", 120)
        # One that dies before it has its configuration is a start that failed.
        self.assertLessEqual(sum(r["restarts"] for r in state["resources"]), KILLS)
        # Not only seemingly: what is registered allocates.
        for name in sorted(full):
            reply = self.node.call_kubelet("pod", name="probe", namespace="default", limits={name: COUNT})
            self.assertIn("container", reply, reply)
            self.node.call_kubelet("pod-rm", name="probe", namespace="default")
        self.assertEqual(len(self.node.sockets()), len(full))
        self.assertEqual(overlaps(self.node.kubelet_events()), [])


if __name__ == "__main__":
    unittest.main()
