# SPDX-License-Identifier: Apache-2.0
"""A resource moves between the device plugin and DRA while pods run: what one of them has is offered in the other way when
it is free, and not earlier."""
import json
import os
import stat
import unittest

from dra_node import DRIVER, DraPodTest
from node import path, until
from vfio_host import VfioHost

GPU = "vendor.example/gpu"


class Moves(DraPodTest):
    def setUp(self):
        super().setUp()
        os.mkdir(self.node.path("dev"))
        for number in range(3):
            os.mknod(self.node.path(f"dev/card{number}"), stat.S_IFCHR | 0o666, os.makedev(1, 3))
        self.serve_api()

    def cards(self, name, serve, more="", pattern="card*"):
        return path(name, self.node.path("dev/" + pattern), f'serve = "{serve}"; {more}')

    def configure(self, *resources, **options):
        """devplugd asks which pod has what."""
        super().configure(*resources, kubelet="pod_resources_interval = 1; pod_resources_socket = "
                          f'"{self.node.kubelet_state}/pod-resources/kubelet.sock"; '
                          f'pod_logs_dir = "{self.node.kubelet_state}/pod-logs";', **options)

    def begin_plugin(self, *resources, **counts):
        self.configure(*resources)
        self.node.start_kubelet()
        self.node.start()
        self.node.await_allocatable(**counts)

    def change(self, *resources, reload=True):
        """By a reload, or while devplugd is stopped."""
        if not reload:
            self.node.stop()
        self.configure(*resources)
        if reload:
            self.node.reload()
        else:
            self.node.start()

    def hold(self, name, **limits):
        """The ids that a pod gets from the device plugin."""
        given, why = self.node.pod(name, **limits)
        self.assertIsNone(why)
        return sorted(id for ids in given["resources"].values() for id in ids)

    def published(self):
        """Ids of devices in slices, with their number."""
        found = {}
        for device in (self.api.pool() or {}).values():
            name = device["attributes"]["id"]["string"]
            found[name] = found.get(name, 0) + 1
        return found

    def await_published(self, *ids):
        until(lambda: sorted(self.published()) == sorted(ids), lambda: f"{ids} to be published, not {self.published()}")
        self.api.apply(self.ctl("dra", "classes").stdout)

    def listed(self, name="gpu"):
        """Ids that the kubelet may allocate."""
        return sorted(device["id"] for device in self.node.node_resources()[f"vendor.example/{name}"]["devices"]
                      if device["healthy"])

    def claim(self, name, count, resource="gpu"):
        """The ids of a pod with a claim."""
        claim = self.api.schedule(f"claim-{name}", [("r", f"{resource}.vendor.example", count)])
        self.assertIsNotNone(claim)
        self.await_newest()
        pod = self.pod(name, claim)
        self.assertIsNone(pod.get("reason"), pod)
        return claim, sorted(device["id"] for device in self.saved_claim(claim)["devices"])

    def saved_claim(self, claim):
        with open(self.saved(claim["metadata"]["uid"])) as file:
            return json.load(file)

    def await_newest(self):
        until(lambda: [driver["endpoint"].replace("/.", "/") for driver in self.node.kubelet_status()["drivers"]]
              == self.kubelet.sockets(), "the driver's new socket to be registered")

    def end(self, name, claim):
        self.await_newest()
        self.assertEqual(self.remove(name), "")
        self.api.release(claim)

    def warning(self, *words):
        """What --diff prints and the reload logs about the pods of devices that are moved. A pod that the kubelet does not
        report yet has only its UID there."""
        words = ["between the device plugin and DRA", *words]
        until(lambda: all(word in self.run_tool("devplugd", "--diff").stderr for word in words), f"{words} to be printed")

    def check_to_dra(self, reload):
        self.begin(self.resource("gpu"))
        names = {device["attributes"]["id"]["string"]: name for name, device in self.api.pool().items()}
        self.change(self.resource("gpu", serve="plugin"))
        self.node.await_allocatable(gpu=3)
        held = self.hold("holder", gpu=1)[0]
        free = [f"gpu-{i}" for i in range(3) if f"gpu-{i}" != held]
        self.configure(self.resource("gpu"))
        if reload:
            self.warning(f"{held} of {GPU} (pod default/holder, container main)")
        self.change(self.resource("gpu"), reload=reload)
        self.await_driver()
        self.await_published(*free)
        # What a scheduler decided before is refused.
        self.api.allocate("thief", DRIVER, [("r", names[held])])
        self.await_newest()
        message = self.pod("thief", self.api.claims["default", "thief"])["message"]
        self.assertIn(f'device "{held}" of {GPU} is in use by a pod through the device plugin', message)
        self.end("thief", self.api.claims["default", "thief"])
        until(lambda: any(d["id"] == held and d["health"] == "Claimed" and "through the device plugin" in d["reason"]
                          for d in self.node.resource(GPU)["devices"]), "the reason in the status")
        claim, got = self.claim("trainer", 2)
        self.assertEqual(got, free)
        # The kubelet writes no checkpoint when a pod ends.
        self.node.ask_kubelet("pod", "rm", "holder")
        self.await_published("gpu-0", "gpu-1", "gpu-2")
        other, got = self.claim("second", 1)
        self.assertEqual(got, [held])
        self.end("second", other)
        self.end("trainer", claim)

    def test_to_dra_by_reload(self):
        self.check_to_dra(True)

    def test_to_dra_by_restart(self):
        self.check_to_dra(False)

    def check_to_plugin(self, reload):
        self.begin(self.resource("gpu"))
        claim, held = self.claim("trainer", 2)
        free = [f"gpu-{i}" for i in range(3) if f"gpu-{i}" not in held]
        file = self.specification(claim["metadata"]["uid"])
        self.configure(self.resource("gpu", serve="plugin"))
        if reload:
            self.warning("trainer", *held)
        self.change(self.resource("gpu", serve="plugin"), reload=reload)
        self.node.await_allocatable(gpu=1)
        self.assertEqual(self.listed(), free)
        self.assertEqual(self.hold("holder", gpu=1), free)
        self.assertIsNone(self.node.pod("second", gpu=1)[0])
        self.assertEqual(self.specification(claim["metadata"]["uid"]), file)
        until(lambda: {d["id"]: d["reason"] for d in self.node.resource(GPU)["devices"] if d["health"] == "Claimed"} ==
              dict.fromkeys(held, "in use by a claim of Dynamic Resource Allocation"), "the reason in the status")
        # Its containers may restart, and the pod may end, although DRA serves no resource.
        self.assertEqual(self.restart("trainer").get("reason"), None)
        self.end("trainer", claim)
        self.node.await_allocatable(gpu=3)
        self.assertEqual(self.hold("third", gpu=2), held)

    def test_to_plugin_by_reload(self):
        self.check_to_plugin(True)

    def test_to_plugin_by_restart(self):
        self.check_to_plugin(False)

    def test_replicas(self):
        """The other replicas of a shared device are offered. If `share` is removed, the whole device is not."""
        share = "share = { replicas = 2; };"
        self.begin_plugin(self.resource("gpu", share, serve="plugin", count=2), gpu=4)
        held = self.hold("holder", gpu=1)[0].split("#")[0]
        other = {"gpu-0": "gpu-1", "gpu-1": "gpu-0"}[held]
        self.change(self.resource("gpu", share, count=2))
        self.await_driver()
        until(lambda: self.published() == {held: 1, other: 2}, "what is free to be published")
        self.await_published(held, other)
        claim, got = self.claim("trainer", 3)
        self.assertEqual(len(got), 3)
        self.change(self.resource("gpu", share, serve="plugin", count=2))
        self.node.await_allocatable(gpu=1)
        self.assertIsNone(self.node.pod("second", gpu=1)[0])
        self.change(self.resource("gpu", serve="plugin", count=2))
        self.node.await_allocatable(gpu=0)
        self.end("trainer", claim)
        self.node.await_allocatable(gpu=2)

    def check_renamed(self, reload):
        """The former name's bookings keep the device, for each other name that finds it."""
        self.begin_plugin(self.cards("old", "plugin"), old=3)
        held = self.hold("holder", old=1)
        ids = self.listed("old") + held
        self.change(self.cards("gpu", "dra"), reload=reload)
        self.await_driver()
        self.await_published(*sorted(set(ids) - set(held)))
        until(lambda: any("claimed by vendor.example/old, where a pod still uses it" == d["reason"]
                          for d in self.node.resource(GPU)["devices"]), "the reason in the status")
        claim, got = self.claim("trainer", 2)
        self.change(self.cards("new", "plugin"), reload=reload)
        until(lambda: self.node.resource("vendor.example/new"), "the other resource")
        self.node.await_allocatable(new=0)
        self.node.ask_kubelet("pod", "rm", "holder")
        self.node.await_allocatable(new=1)
        self.assertEqual(self.listed("new"), held)
        self.end("trainer", claim)
        self.node.await_allocatable(new=3)

    def test_renamed_by_reload(self):
        self.check_renamed(True)

    def test_renamed_by_restart(self):
        self.check_renamed(False)

    def test_other_resource(self):
        """Another resource that finds the same hardware, before or after it in the file."""
        self.begin_plugin(self.cards("gpu", "plugin"), gpu=3)
        held = self.hold("holder", gpu=1)[0]
        card = held.split(":")[-1]
        for first in (True, False):
            stanzas = [self.cards("one", "dra", pattern=card), self.cards("gpu", "dra")]
            self.change(*(stanzas if first else reversed(stanzas)))
            self.await_driver()
            until(lambda: len(self.published()) == 2 and held not in self.published(), "what is free to be published")
            for name in ("one", "gpu"):
                until(lambda name=name: [d["health"] for d in self.node.resource(f"vendor.example/{name}")["devices"]
                                         if d["id"] == held] == ["Claimed"], "the device not to be offered")
        self.node.ask_kubelet("pod", "rm", "holder")
        until(lambda: len(self.published()) == 3, "the device to be published")

    def check_former_id(self, serve, reload):
        """A device has another id with the new configuration. What a pod has under the old one is not offered under the new one,
        neither in the same way nor in the other."""
        for number in range(3):
            os.symlink(f"card{number}", self.node.path(f"dev/gpu{number}"))
        more = f'host_root = "{self.node.dir}";'
        self.begin(path("gpu", "/dev/card*", f'serve = "dra"; {more}'))
        claim, (held,) = self.claim("trainer", 1)
        new = held.replace("card", "gpu")
        free = sorted({"gpu0", "gpu1", "gpu2"} - {new})
        self.change(path("gpu", "/dev/gpu*", f'serve = "{serve}"; {more}'), reload=reload)
        reason = f'a pod holds this device under its former id "{held}": delete that pod'
        until(lambda: (gpu := self.node.resource(GPU)) and {d["id"]: d["reason"] for d in gpu["devices"]}.get(new) == reason,
              "the reason in the status")
        self.await_offered(serve, *free)
        self.end("trainer", claim)
        self.await_offered(serve, new, *free)

    def await_offered(self, serve, *ids):
        def offered():
            if serve == "plugin":
                return self.listed()
            return sorted(d["attributes"]["id"]["string"] for d in (self.api.pool() or {}).values() if not d.get("taints"))

        until(lambda: offered() == sorted(ids), f"{ids} to be offered")

    def test_former_id_by_reload(self):
        self.check_former_id("dra", True)

    def test_former_id_by_restart(self):
        self.check_former_id("dra", False)

    def test_former_id_in_the_other_way(self):
        self.check_former_id("plugin", True)

    def test_P21_answer_from_before_a_move(self):
        """It counts as long as the pod is there, also where no list of the resource makes the kubelet forget it."""
        # It forgets resources without a plugin after 5 minutes.
        self.node.kubelet_options = ["--plugins-registry", self.registry]
        host = VfioHost(self.node.path("pci"))
        host.plug("0000:01:00.0", 7, "0x1eb8")
        stanza = (f'{{ name = "vendor.example/%s"; driver = "pci"; match = ( {{ access = "vfio"; vendor = 0x10de; device = %s; }} ); '
                  f'host_root = "{host.root}"; serve = "%s"; }}')
        other = stanza % ("fpga", "0x1eb9", "plugin")
        self.begin_plugin(stanza % ("gpu", "0x1eb8", "plugin"), other, gpu=1)
        self.hold("holder", gpu=1)
        self.change(stanza % ("gpu", "0x1eb8", "dra"), other)
        self.await_driver()
        host.unplug("0000:01:00.0")
        host.plug("0000:02:00.0", 7, "0x1eb9")
        host.plug("0000:01:00.0", 5, "0x1eb8")
        until(lambda: any("which is this device now" in device.get("reason", "")
                          for device in self.node.resource("vendor.example/fpga")["devices"]), "the reason")
        self.assertEqual(self.listed("fpga"), [])
        self.node.ask_kubelet("pod", "rm", "holder")
        self.node.await_allocatable(fpga=1)

    def test_forget(self):
        """What the kubelet's data assign in vain can be forgotten, also under a former name."""
        self.begin_plugin(self.cards("old", "plugin"), self.resource("fpga", serve="plugin"), old=3, fpga=3)
        held = self.hold("holder", old=1)[0]
        token = self.hold("other", fpga=1)[0]
        self.change(self.cards("gpu", "dra"), self.resource("fpga"))
        self.await_driver()
        until(lambda: len(self.published()) == 4, "what is free to be published")
        for name, device in (("gpu", held), ("fpga", token)):
            self.assertIn("counts as not assigned", self.ctl("forget", f"vendor.example/{name}/{device}").stdout)
            until(lambda device=device: device in self.published(), "the device to be published")


if __name__ == "__main__":
    unittest.main()
