# SPDX-License-Identifier: Apache-2.0
"""A device belongs to the first resource of the file that finds it, whatever the order in which they find it."""
import json
import os
import random
import signal
import stat
import subprocess
import unittest

from node import SEED, NodeTest, path, program, until


class Claims(NodeTest):
    def setUp(self):
        super().setUp()
        os.mkdir(self.node.plugins)
        os.mkdir(self.node.path("dev"))
        for number in range(3):
            self.add_card(number)

    def add_card(self, number):
        os.mknod(self.node.path(f"dev/card{number}"), stat.S_IFCHR | 0o666, os.makedev(1, 3))

    def cards(self, name, pattern="card*", more=""):
        return path(name, self.node.path("dev/" + pattern), more)

    def start(self):
        self.node.start_kubelet()
        self.node.start()

    def explain(self, name):
        return subprocess.run([program("devplugctl"), "-c", self.node.config, "explain", "vendor.example/" + name],
                              capture_output=True, text=True, check=True).stdout

    def reasons(self, name):
        return {d["id"].split(":")[-1]: d["reason"] for d in self.node.resource("vendor.example/" + name)["devices"]}

    def test_first_of_the_file(self):
        self.node.configure(self.cards("a", "card[12]"), self.cards("b"))
        self.start()
        self.node.await_allocatable(a=2, b=1)
        until(lambda: self.reasons("b") == {
            "card0": "", "card1": "claimed by vendor.example/a", "card2": "claimed by vendor.example/a"},
            "the status to say whose the devices are")
        self.assertEqual(self.node.resource("vendor.example/b")["devices_total"], 1)
        self.assertEqual([d["health"] for d in self.node.resource("vendor.example/b")["devices"]],
                         ["Healthy", "Claimed", "Claimed"])
        text = self.explain("b")
        self.assertIn("card1 is not offered since", text)
        self.assertIn("claimed by vendor.example/a", text)
        self.assertNotIn("unhealthy since", text)
        self.assertIn("overlap = true in both", text)
        # The kubelet was never told of them, not even as unhealthy.
        self.assertEqual(len(self.node.node_resources()["vendor.example/b"]["devices"]), 1)

    def test_overlap(self):
        self.node.configure(self.cards("a", more="overlap = true;"), self.cards("b", more="overlap = true;"), self.cards("c"))
        self.start()
        self.node.await_allocatable(a=3, b=3, c=0)
        # One that does not want it is enough.
        self.node.configure(self.cards("a"), self.cards("b", more="overlap = true;"), self.cards("c"))
        self.node.reload()
        self.node.await_allocatable(a=3, b=0, c=0)

    def test_order_changes(self):
        self.node.configure(self.cards("a"), self.cards("b"))
        self.start()
        self.node.await_allocatable(a=3, b=0)
        pids = {r["pid"] for r in self.node.await_serving().values()}
        self.node.configure(self.cards("b"), self.cards("a"))
        self.node.reload()
        self.node.await_allocatable(a=0, b=3)
        self.assertEqual({r["pid"] for r in self.node.await_serving().values()}, pids)

    def test_freed(self):
        self.node.configure(self.cards("a"), self.cards("b"))
        self.start()
        self.node.await_allocatable(a=3, b=0)
        self.node.configure(self.cards("a", more='exclude = ( "*card1" );'), self.cards("b"))
        self.node.reload()
        self.node.await_allocatable(a=2, b=1)
        self.node.configure(self.cards("a", more="enabled = false;"), self.cards("b"))
        self.node.reload()
        self.node.await_allocatable(b=3)
        # A resource that comes later, but before it in the file, takes its devices.
        self.node.configure(self.cards("a", "card0"), self.cards("b"))
        self.node.reload()
        self.node.await_allocatable(a=1, b=2)

    def test_devices_come_and_go(self):
        self.node.configure(self.cards("a"), self.cards("b"))
        self.start()
        self.node.await_allocatable(a=3, b=0)
        self.add_card(7)
        self.node.await_allocatable(a=4, b=0)
        os.unlink(self.node.path("dev/card7"))
        self.node.await_allocatable(a=3, b=0)
        # Gone, and never offered: nothing to tell the kubelet.
        until(lambda: len(self.reasons("b")) == 3, "the device to be forgotten")
        self.assertEqual(self.node.node_resources()["vendor.example/b"]["devices"], [])

    def test_one_device_by_two_names(self):
        os.symlink("card1", self.node.path("dev/by-id"))
        self.node.configure(self.cards("a", "by-id"), self.cards("b"))
        self.start()
        self.node.await_allocatable(a=1, b=2)
        until(lambda: self.reasons("b").get("card1") == "claimed by vendor.example/a", "the status to say so")

    def test_node_in_a_directory(self):
        """A container with the directory gets each node in it."""
        os.mkdir(self.node.path("dev/snd"))
        os.rename(self.node.path("dev/card1"), self.node.path("dev/snd/card1"))
        directory = '{ name = "vendor.example/a"; driver = "path"; match = ( { path = "%s"; type = "device"; } ); }'
        self.node.configure(directory % self.node.path("dev/snd"), self.cards("b", "snd/card1"), self.cards("c"))
        self.start()
        self.node.await_allocatable(a=1, b=0, c=2)
        until(lambda: self.reasons("b").get("card1") == "claimed by vendor.example/a", "the status to name the resource")

    def test_shared_helper(self):
        """What is part of many devices is nobody's."""
        os.mknod(self.node.path("dev/control"), stat.S_IFCHR | 0o666, os.makedev(1, 5))

        def pair(name, number):
            return (f'{{ name = "vendor.example/{name}"; driver = "path"; match = ( {{ paths = ('
                    f'{{ path = "{self.node.path(f"dev/card{number}")}"; }},'
                    f'{{ path = "{self.node.path("dev/control")}"; limit = 10; }} ); }} ); }}')

        self.node.configure(pair("a", 0), pair("b", 1))
        self.start()
        self.node.await_allocatable(a=1, b=1)

    def test_same_id(self):
        """Two devices of one id are both offered, and people are told."""
        self.node.configure(self.exec("a", [{"id": "null", "nodes": [{"host": "/dev/full"}]}]), path("b", "/dev/null"))
        self.start()
        self.node.await_allocatable(a=1, b=1)
        sentence = 'the id "null" also belongs to another device, of vendor.example/a'
        until(lambda: sentence in self.explain("b") and sentence in self.node.output(), "the explanation")
        self.assertEqual(self.node.output().count(sentence), 1)
        self.assertNotIn("Note:", self.explain("a"))

    def exec(self, name, devices):
        with open(self.node.path(name + ".new"), "w") as file:
            json.dump({"version": 1, "devices": devices}, file)
        os.rename(file.name, self.node.path(name + ".json"))
        return (f'{{ name = "vendor.example/{name}"; driver = "exec"; match = ( {{ command = ( "/bin/cat", '
                f'"{self.node.path(name)}.json" ); interval = 1; }} ); }}')

    def find(self, name, devices, claims):
        """So many devices that each have so many nodes, which need not exist."""
        return self.exec(name, [{"id": f"{name}-{device}", "nodes": [
            {"host": f"{self.node.dir}/none/{name}-{device}-{i}", "optional": True} for i in range(claims)]}
            for device in range(devices)])

    def test_P10_claims_of_one_resource(self):
        """The scan is refused, and the list before it stays, even if it is empty."""
        self.node.configure(self.find("a", 1000, 51), self.cards("b"))
        self.start()
        self.node.await_allocatable(a=0, b=3)
        words = "the limit for all resources together is 50000"
        until(lambda: words in self.explain("a"), "the reason")
        pids = {r["pid"] for r in self.node.await_serving().values()}
        self.find("a", 1000, 2)
        self.node.await_allocatable(a=1000, b=3)
        self.find("a", 1001, 51)
        until(lambda: words in self.explain("a"), "the reason")
        self.node.await_allocatable(a=1000, b=3)
        self.node.reload()
        self.node.await_allocatable(a=1000, b=3)
        self.assertEqual({r["pid"] for r in self.node.await_serving().values()}, pids)

    def test_P10_claims_of_all_resources(self):
        """What one finds is refused while there is no room for it, and accepted when there is."""
        self.node.configure(self.find("a", 800, 50), self.find("b", 100, 60), self.cards("c"))
        self.start()
        self.node.await_allocatable(a=800, b=100, c=3)
        pids = {r["pid"] for r in self.node.await_serving().values()}
        self.find("b", 300, 60)
        words = "the devices that were found last are not offered"
        until(lambda: words in self.explain("b"), "the reason")
        self.node.await_allocatable(a=800, b=100, c=3)
        until(lambda: self.reasons("b").get("b-150") == "claimed by vendor.example/b, but refused", "the device's reason")
        self.assertEqual(self.reasons("b")["b-50"], "")
        self.assertEqual(self.node.output().count(words), 1)
        self.assertNotIn("overlap", self.explain("b"))
        self.find("a", 500, 50)
        until(lambda: words not in self.explain("b"), "the supervisor to accept them")
        self.node.await_allocatable(b=300, c=3)
        self.assertEqual({r["pid"] for r in self.node.await_serving().values()}, pids)

    def test_slow_first_resource(self):
        """A resource that has not said yet what it has is waited for, but not for ever."""
        self.node.configure(self.cards("a"), self.cards("b"))
        self.node.prepare_children()
        self.node.drive_mad("a", "spin")
        self.start()
        self.node.await_allocatable(b=3)
        self.node.forgive("a", "spin")
        self.node.await_allocatable(a=3, b=0)

    def test_kills(self):
        """Whoever is killed, and whenever: no device is offered by two, and all are offered in the end."""
        chance = random.Random(SEED)
        self.node.configure(self.cards("a", "card[01]"), self.cards("b", "card[12]"), self.cards("c"))
        self.start()
        self.node.await_allocatable(a=2, b=1, c=0)
        # Until now some may have waited for others in vain.
        settled = len(self.node.kubelet_events())
        for kill in range(10):
            before = len(self.lists(settled))
            pid, _name = chance.choice(sorted(self.node.processes().items()) or [(0, "")])
            if pid:
                try:
                    os.kill(pid, chance.choice((signal.SIGKILL, signal.SIGTERM)))
                except ProcessLookupError:
                    pass
            until(lambda: len(self.node.processes()) == 3, "three children")
            # Otherwise children may be killed so fast that none offers anything.
            if kill % 3 == 2:
                until(lambda: len(self.lists(settled)) > before, "a list")
        self.node.await_allocatable(a=2, b=1, c=0)
        offered = {"a": 2, "b": 1, "c": 0}
        for event in self.lists(settled):
            self.assertLessEqual(event["devices"], offered[event["resource"].split("/")[1]], event)

    def lists(self, begin):
        return [event for event in self.node.kubelet_events()[begin:] if event.get("event") == "list"]


if __name__ == "__main__":
    unittest.main()
