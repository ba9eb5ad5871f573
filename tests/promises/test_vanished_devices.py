# SPDX-License-Identifier: Apache-2.0
"""A device that has vanished stays listed, unhealthy, for as long as a container has it; then it is taken off the list."""
import os
import re
import stat
import unittest

from node import NodeTest, children_of, command_line, path, static, until

INTERVAL = 1


class VanishedDevices(NodeTest):
    def setUp(self):
        super().setUp()
        self.socket = os.path.join(self.node.kubelet_state, "pod-resources/kubelet.sock")
        os.mkdir(self.node.plugins)
        os.mkdir(self.node.path("dev"))
        for number in range(3):
            self.add_card(number)

    def add_card(self, number):
        os.mknod(self.node.path(f"dev/card{number}"), stat.S_IFCHR | 0o666, os.makedev(1, 3))

    def remove_card(self, number):
        os.unlink(self.node.path(f"dev/card{number}"))

    def configure(self, *resources, pod_resources="true", socket=None):
        self.node.configure(*resources, kubelet=f'pod_resources = {pod_resources}; pod_resources_interval = {INTERVAL}; '
                                                f'pod_resources_socket = "{socket or self.socket}";')

    def start(self):
        self.node.start_kubelet()
        self.node.start()

    def listed(self, name="card"):
        """Numbers of the cards that the kubelet has in its list, with their health."""
        resource = self.node.node_resources().get("vendor.example/" + name) or {"devices": []}
        return {d["id"].split("card")[-1]: d["health"] for d in resource["devices"]}

    def readers(self):
        return [p for p in children_of(self.node.daemon.pid) if command_line(p)[1:] == ["pod-resources"]]

    def await_listed(self, **devices):
        wanted = {number[1:]: health for number, health in devices.items()}
        until(lambda: self.listed() == wanted, lambda: f"the list {wanted}; last {self.listed()}")

    def test_free(self):
        self.configure(path("card", self.node.path("dev/card*")), static("other", 2))
        self.start()
        self.node.await_allocatable(card=3, other=2)
        self.remove_card(1)
        self.await_listed(_0="Healthy", _2="Healthy")
        until(lambda: len(self.node.resource("vendor.example/card")["devices"]) == 2, "the status to follow the list")
        # It can come back, and go again.
        self.add_card(1)
        self.await_listed(_0="Healthy", _1="Healthy", _2="Healthy")
        self.remove_card(1)
        self.await_listed(_0="Healthy", _2="Healthy")
        # Nobody is asked while nothing has vanished.
        until(lambda: not self.readers(), "the process that asks to end")

    def test_in_use(self):
        self.configure(path("card", self.node.path("dev/card*")))
        self.start()
        self.node.await_allocatable(card=3)
        given, _ = self.node.pod("holder", card=1)
        held = given["resources"]["vendor.example/card"][0][-1]
        free = next(n for n in "012" if n != held)
        self.remove_card(held)
        self.remove_card(free)
        rest = next(n for n in "012" if n not in (held, free))
        self.await_listed(**{"_" + held: "Unhealthy", "_" + rest: "Healthy"})
        for number, sentence in ((held, "is unhealthy: "), (free, "is no longer offered")):
            until(lambda: re.search(f'device ".*card{number}" {sentence}', self.node.output()), "the log to name both")
        self.assertEqual(self.node.ask_kubelet("pod", "rm", "holder").returncode, 0)
        # The kubelet's checkpoint has it until the next pod is admitted.
        self.node.pod("next", card=1)
        self.await_listed(**{"_" + rest: "Healthy"})

    def test_replica_in_use(self):
        self.configure(path("card", self.node.path("dev/card[01]"), "share = { replicas = 3; };"), static("other", 1))
        self.start()
        self.node.await_allocatable(card=6, other=1)
        given, _ = self.node.pod("holder", card=1)
        held = given["resources"]["vendor.example/card"][0].split("#")[0][-1]
        other = "1" if held == "0" else "0"
        self.remove_card(held)
        self.remove_card(other)
        # All replicas of a unit, or none.
        self.await_listed(**{f"_{held}#{n}": "Unhealthy" for n in range(3)})
        self.assertEqual(self.node.ask_kubelet("pod", "rm", "holder").returncode, 0)
        self.node.pod("next", other=1)
        self.await_listed()

    def test_switched_off(self):
        """The kubelet's checkpoint alone decides. The socket would not answer."""
        self.configure(path("card", self.node.path("dev/card*")), pod_resources="false",
                       socket=self.node.path("none/kubelet.sock"))
        self.start()
        self.node.await_allocatable(card=3)
        given, _ = self.node.pod("holder", card=1)
        held = given["resources"]["vendor.example/card"][0][-1]
        free, rest = (n for n in "012" if n != held)
        self.remove_card(held)
        self.remove_card(free)
        self.await_listed(**{"_" + held: "Unhealthy", "_" + rest: "Healthy"})
        self.assertEqual(self.node.ask_kubelet("pod", "rm", "holder").returncode, 0)
        self.node.pod("next", card=1)
        self.await_listed(**{"_" + rest: "Healthy"})

    def test_without_socket(self):
        self.configure(path("card", self.node.path("dev/card*")), socket=self.node.path("none/kubelet.sock"))
        self.start()
        self.node.await_allocatable(card=3)
        self.remove_card(1)
        self.await_listed(_0="Healthy", _1="Unhealthy", _2="Healthy")
        # It appears later.
        os.symlink(os.path.dirname(self.socket), self.node.path("none"))
        self.await_listed(_0="Healthy", _2="Healthy")
        self.assertNotIn("does not report which devices", self.node.output())

    def test_wrong_answer(self):
        """What is there does not speak as a kubelet does: nothing is forgotten, and that is said once."""
        self.configure(path("card", self.node.path("dev/card*")), socket=os.path.join(self.node.plugins, "kubelet.sock"))
        self.start()
        self.node.await_allocatable(card=3)
        self.remove_card(1)
        sentence = "the kubelet does not report which devices are in use: "
        until(lambda: sentence in self.node.output(), "the warning")
        self.await_listed(_0="Healthy", _1="Unhealthy", _2="Healthy")
        self.assertEqual(self.node.output().count(sentence), 1)
        self.configure(path("card", self.node.path("dev/card*")))
        self.node.reload()
        self.await_listed(_0="Healthy", _2="Healthy")


if __name__ == "__main__":
    unittest.main()
