# SPDX-License-Identifier: Apache-2.0
"""overlap = "exclusive": a card and its parts are offered together, and one piece of hardware has one user at a time."""
import os
import random
import signal
import stat
import threading
import unittest

from dra_kubelet import Call, call, field
from node import SEED, scaled, until
from tool import ToolTest


class ExclusiveParts(ToolTest):
    """Two cards of two nodes each: resource `card` offers both nodes of a card, and `part` each node."""
    parts = 4

    def setUp(self):
        super().setUp()
        os.mkdir(self.node.plugins)
        os.mkdir(self.node.path("dev"))
        for number in range(self.parts):
            os.mknod(self.node.path(f"dev/p{number}"), stat.S_IFCHR | 0o666, os.makedev(1, 3))

    def card(self, overlap='"exclusive"', more=""):
        entries = ", ".join("{ paths = ( %s ); }" % ", ".join(
            '{ path = "%s"; }' % self.node.path(f"dev/p{number}") for number in (card, card + 1)) for card in range(0, self.parts, 2))
        return f'{{ name = "vendor.example/card"; driver = "path"; match = ( {entries} ); overlap = {overlap}; {more} }}'

    def part(self, overlap='"exclusive"', more=""):
        return ('{ name = "vendor.example/part"; driver = "path"; match = "%s"; overlap = %s; %s }'
                % (self.node.path("dev/p*"), overlap, more))

    def configure(self, *resources):
        self.node.configure(*resources, kubelet=f'pod_logs_dir = "{self.node.kubelet_state}/pod-logs";')

    def start(self, *resources):
        self.configure(*resources)
        self.node.start_kubelet()
        self.node.start()
        self.node.await_allocatable(card=2, part=4)

    def reasons(self, name):
        return {d["id"]: d["reason"] for d in self.node.resource("vendor.example/" + name)["devices"] if d["reason"]}

    def remove(self, name):
        self.assertEqual(self.node.ask_kubelet("pod", "rm", name).returncode, 0)

    def nodes(self, given):
        return {device["host_path"] for device in given["devices"]}

    def test_demand_decides(self):
        """What a pod takes makes the other offers of that hardware unhealthy, until the pod has ended."""
        self.start(self.card(), self.part())
        self.assertIsNone(self.node.pod("a", card=1)[1])
        self.node.await_allocatable(card=2, part=2)
        text = "in use as vendor.example/card by default/a"
        until(lambda: set(self.reasons("part").values()) == {text}, "the reason to name the pod")
        self.assertEqual((len(self.reasons("part")), self.reasons("card")), (2, {}))
        self.assertEqual(len(self.node.node_resources()["vendor.example/part"]["devices"]), 4)
        shown = " ".join(self.ctl("explain", "vendor.example/part").stdout.split())
        self.assertIn(text, shown)
        self.assertIn('Its resource has overlap = "exclusive"', shown)
        given, _ = self.node.pod("b", part=2)
        self.assertEqual(len(self.nodes(given)), 2)
        self.node.await_allocatable(card=1, part=2)
        self.assertIsNone(self.node.pod("c", card=1)[0])
        self.remove("a")
        self.node.await_allocatable(card=1, part=4)
        self.remove("b")
        self.node.await_allocatable(card=2, part=4)
        until(lambda: (self.reasons("card"), self.reasons("part")) == ({}, {}), "no device to have a reason")

    def test_allocation_in_between(self):
        """If two calls come before a list could change, one is refused with the same words. devplugd decides, so it is stopped
        until both wait."""
        self.start(self.card(), self.part())
        sockets, failed = {}, []
        for resource in ("card", "part"):
            found = self.node.node_resources()["vendor.example/" + resource]
            sockets[resource] = os.path.join(self.node.plugins, found["endpoint"]), sorted(d["id"] for d in found["devices"])[0]

        def allocate(resource):
            path, device = sockets[resource]
            try:
                call(path, "/v1beta1.DevicePlugin/Allocate", field(1, field(1, device)))
            except Call:
                failed.append(resource)

        calls = [threading.Thread(target=allocate, args=(resource,)) for resource in sockets]
        os.kill(self.node.daemon.pid, signal.SIGSTOP)
        try:
            for thread in calls:
                thread.start()
        finally:
            os.kill(self.node.daemon.pid, signal.SIGCONT)
        for thread in calls:
            thread.join()
        self.assertEqual(len(failed), 1, failed)
        other = "part" if failed == ["card"] else "card"
        failure = until(lambda: self.node.resource("vendor.example/" + failed[0])["failures"], "the failure to be shown")[0]
        self.assertIn(f"in use as vendor.example/{other} by a pod", failure["text"])

    def test_restarts(self):
        """Over a kill of devplugd and one of the kubelet: who has what is known before the first list."""
        self.start(self.card(), self.part())
        self.assertIsNone(self.node.pod("a", part=1)[1])
        self.node.await_allocatable(card=1, part=4)
        self.node.stop(signal.SIGKILL)
        self.node.start()
        self.node.await_allocatable(card=1, part=4)
        until(lambda: list(self.reasons("card").values()) == ["in use as vendor.example/part by default/a"], "the name of the pod")
        self.node.stop_kubelet()
        self.node.start_kubelet()
        self.node.await_allocatable(card=1, part=4)

    def test_same_value_in_both(self):
        """Otherwise, the first of the file has the hardware."""
        self.configure(self.card(), self.part(overlap="true"))
        self.node.start_kubelet()
        self.node.start()
        self.node.await_allocatable(card=2, part=0)
        self.configure(self.card(overlap="true"), self.part(overlap="true"))
        self.node.reload()
        self.node.await_allocatable(card=2, part=4)
        self.assertIsNone(self.node.pod("a", card=2)[1])
        self.assertIsNone(self.node.pod("b", part=4)[1])
        # Both are in use by now: no pod loses its device.
        self.configure(self.card(), self.part())
        self.node.reload()
        self.node.await_allocatable(card=2, part=4)
        self.remove("a")
        self.node.await_allocatable(card=0, part=4)

    def test_random_pods(self):
        """Never two users of one node, whatever comes in which order, also when devplugd is killed."""
        self.start(self.card(), self.part())
        rng, pods = random.Random(SEED), {}
        for number in range(scaled(60)):
            step = rng.random()
            if step < 0.5:
                name = f"p{number}"
                given, _ = self.node.pod(name, **{rng.choice(("card", "part")): rng.randint(1, 2)})
                if given:
                    pods[name] = self.nodes(given)
            elif step < 0.9 and pods:
                name = rng.choice(sorted(pods))
                self.remove(name)
                del pods[name]
            elif step > 0.95:
                self.node.stop(signal.SIGKILL)
                self.node.start()
                self.node.await_serving()
            users = [node for nodes in pods.values() for node in nodes]
            self.assertEqual(len(users), len(set(users)), f"seed {SEED}, step {number}: {pods}")
        for name in pods:
            self.remove(name)
        self.node.await_allocatable(card=2, part=4)


if __name__ == "__main__":
    unittest.main(verbosity=2)
