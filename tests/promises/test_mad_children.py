# SPDX-License-Identifier: Apache-2.0
"""P8 and P12: a child that stands still, spins, sent too many messages or babbles without end is replaced or
borne, and neither its siblings nor the supervisor's memory notice. tests/faults drives children mad.

complaints.md: R2.
"""
import os
import signal
import unittest

from load import Load
from node import LIMIT, SANITIZED, SEED, NodeTest, process_status, static, until

N = 4
MAD = "vendor.example/r0"
# What the supervisor may grow by while a child rages: some buffers, not what the child sends.
GROWTH_KB = 4096


class MadChildren(NodeTest):
    def setUp(self):
        super().setUp()
        self.node.prepare_children()
        self.names = {f"r{i}": 2 for i in range(N)}
        self.siblings = [f"vendor.example/{name}" for name in self.names if name != "r0"]
        self.node.configure(*(static(name, n) for name, n in self.names.items()))
        self.node.start_kubelet()
        self.node.start()
        self.node.await_allocatable(**self.names)
        self.before = self.node.await_serving()

    def memory(self):
        return int(process_status(self.node.daemon.pid)["VmRSS"].split()[0])

    def is_replaced(self):
        resource = {r["name"]: r for r in self.node.state()["resources"]}[MAD]
        return resource["state"] == "serving" and resource["pid"] not in (0, self.before[MAD]["pid"])

    def rage(self, kind, then):
        """Drives the child mad, waits for `then` under a load on its siblings, and sees that they are as before."""
        memory = self.memory()
        streams = {name: r["connection"] for name, r in self.node.node_resources().items()}
        with Load(self.node, lambda choice: {choice.choice(self.siblings): 1}, SEED, workers=1, held=1,
                  pause=0.05) as load:
            if kind == "stop":
                os.kill(self.before[MAD]["pid"], signal.SIGSTOP)
            else:
                self.node.drive_mad("r0", kind)
            then()
            until(lambda: len(load.attempts) > 5, "the load to have been one")
            self.assertEqual(load.failures(), [])
        if not SANITIZED:
            self.assertLess(self.memory() - memory, GROWTH_KB)
        after = {r["name"]: r for r in self.node.state()["resources"]}
        for name in self.siblings:
            for key in ("pid", "session", "restarts"):
                self.assertEqual(after[name][key], self.before[name][key], name)
            self.assertEqual(self.node.node_resources()[name]["connection"], streams[name])

    def await_replacement(self, kind, words):
        until(lambda: words in self.node.output(), f"the supervisor to say \"{words}\"", limit=5 * LIMIT)
        if kind != "stop":
            self.node.forgive("r0", kind)
        until(self.is_replaced, "the mad child to be replaced")
        self.node.await_allocatable(**self.names)

    def test_P8_stopped_child(self):
        self.rage("stop", lambda: self.await_replacement("stop", "sent no heartbeat"))

    def test_P8_spinning_child(self):
        self.rage("spin", lambda: self.await_replacement("spin", "sent no heartbeat"))

    def test_P12_flood_of_messages(self):
        self.rage("flood", lambda: self.await_replacement("flood", "sent too many messages"))

    def test_P12_flood_of_output(self):
        def bear():
            # It is borne: told once in a while, and its reader is still a daemon that does its work.
            until(lambda: "lines of the child's output" in self.node.output(), "the flood to be told")
            generation = self.node.state()["generation"]
            self.node.reload()
            self.assertEqual(self.node.generation(), generation + 1)
            self.node.await_allocatable(**self.names)

        self.rage("babble", bear)
        self.assertLess(len(self.node.output()), 32 << 20)
        self.assertEqual(self.node.find(MAD)["pid"], self.before[MAD]["pid"])


if __name__ == "__main__":
    unittest.main()
