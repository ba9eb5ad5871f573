# SPDX-License-Identifier: Apache-2.0
"""overlap = "exclusive": a card and its parts are offered together, and one piece of hardware has one user at a time."""
import collections
import concurrent.futures
import contextlib
import os
import random
import re
import signal
import stat
import statistics
import threading
import time
import unittest

from accelerator_hosts import AcceleratorHost
from api_server import Release
from dra_kubelet import Call, HealthStream, call, field
from dra_node import DRIVER, DraTest
from node import SEED, scaled, until
from tool import ToolTest


PARTS = f"node-a/{DRIVER}"
PREPARED = 20
MEMORY = 'capacity = ( { name = "memory"; value = "8Gi"; step = "1Gi"; default = "2Gi"; } );'


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
        state = self.node.kubelet_state
        self.node.configure(*resources, kubelet=f'pod_logs_dir = "{state}/pod-logs"; pod_resources_interval = 1; '
                            f'pod_resources_socket = "{state}/pod-resources/kubelet.sock";')

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
        # Nothing has to be repaired.
        answer = self.ctl("check")
        self.assertEqual((answer.returncode, answer.stdout), (0, "2 resources, 6 devices: no problem\n"))
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

    def test_next_pod_of_a_device(self):
        """The kubelet allocates a device again before devplugd knows that its former pod has ended: it stays in use."""
        self.start(self.card(), self.part())
        given, _ = self.node.pod("a", part=1)
        until(lambda: list(self.reasons("card").values()) == ["in use as vendor.example/part by default/a"], "the name of the pod")
        endpoint = self.node.node_resources()["vendor.example/part"]["endpoint"]
        device, = given["resources"]["vendor.example/part"]
        call(os.path.join(self.node.plugins, endpoint), "/v1beta1.DevicePlugin/Allocate", field(1, field(1, device)))
        self.remove("a")
        until(lambda: list(self.reasons("card").values()) != ["in use as vendor.example/part by default/a"], "the end of the pod")
        self.assertEqual(list(self.reasons("card").values()), ["in use as vendor.example/part by a pod"])

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


class Partitions(ToolTest):
    """An AMD GPU in CPX mode: as a PCI function, and as partitions, whose platform devices are not below it."""

    def setUp(self):
        super().setUp()
        os.mkdir(self.node.plugins)
        host = AcceleratorHost(self.node.path("host"), None, addresses=())
        gpu = host.function("0000:19:00.0", "amdgpu", "0x1002", "0x74a1", "0x120000", current_compute_partition="CPX",
                            current_memory_partition="NPS1")
        host.drm(gpu, 0)
        host.device("platform/amdgpu_xcp_1", "bus/platform")
        host.child("platform/amdgpu_xcp_1", "renderD130", "drm", "dri/renderD130", 130, 226)
        for part in range(2):
            host.file(f"sys/class/kfd/kfd/topology/nodes/{1 + part}/properties",
                      f"simd_count 38\nlocation_id {0x1900 + part}\ndomain 0\ndrm_render_minor {129 + part}")

    def test_gpu_and_partitions(self):
        resources = [f'{{ name = "vendor.example/{name}"; driver = {more}; overlap = "exclusive"; }}' for name, more in (
            ("gpu", '"pci"; match = ( { vendor = 0x1002; } )'),
            # It has no node in common with the GPU.
            ("part", '"drm"; match = ( { partition = "cpx_*"; } ); exclude = "*-p0"'))]
        self.node.configure(*resources, text=f'host_root = "{self.node.path("host")}";',
                            kubelet=f'pod_logs_dir = "{self.node.kubelet_state}/pod-logs"; pod_resources_interval = 1; '
                                    f'pod_resources_socket = "{self.node.kubelet_state}/pod-resources/kubelet.sock";')
        self.node.start_kubelet()
        self.node.start()
        self.node.await_allocatable(gpu=1, part=1)
        for taken, other in (("gpu", "part"), ("part", "gpu")):
            self.assertIsNone(self.node.pod("a", **{taken: 1})[1])
            self.node.await_allocatable(**{taken: 1, other: 0})
            self.assertEqual(self.node.ask_kubelet("pod", "rm", "a").returncode, 0)
            self.node.await_allocatable(gpu=1, part=1)


class ExclusiveClaims(DraTest):
    """The same with DRA: counters where the server has them, and one of the resources where it does not."""

    def add_nodes(self, count):
        os.makedirs(self.node.path("dev"), exist_ok=True)
        for number in range(count):
            os.mknod(self.node.path(f"dev/p{number}"), stat.S_IFCHR | 0o666, os.makedev(1, 3))

    def resources(self, cards, parts, serve="dra", part_serve="dra", card_more="", part_more=""):
        """Cards of so many parts each."""
        entries = ", ".join("{ paths = ( %s ); }" % ", ".join('{ path = "%s"; }' % self.node.path(f"dev/p{card * parts + part}")
                                                             for part in range(parts)) for card in range(cards))
        return (f'{{ name = "vendor.example/card"; driver = "path"; match = ( {entries} ); overlap = "exclusive"; serve = "{serve}"; '
                f'{card_more} }}',
                '{ name = "vendor.example/part"; driver = "path"; match = "%s"; overlap = "exclusive"; serve = "%s"; %s }'
                % (self.node.path("dev/p*"), part_serve, part_more))

    def start(self, cards=2, parts=2, **options):
        self.add_nodes(cards * parts)
        self.begin(*self.resources(cards, parts, **options))

    def schedule(self, name, resource, count=1, amount=None):
        more = {"capacity": {"requests": {"memory": amount}}} if amount else {}
        return self.api.schedule(name, [("r", resource + ".vendor.example", count, more)])

    def devices(self, resource):
        """The devices of the slices, whichever the pool."""
        return [device for slice_ in self.api.slices.values() for device in slice_["spec"].get("devices", [])
                if device["attributes"]["resource"]["string"] == "vendor.example/" + resource]

    def is_complete(self):
        """Whether the scheduler can use each pool: all of its slices are there, of one generation."""
        with self.api.lock:
            pools = [slice_["spec"]["pool"] for slice_ in self.api.slices.values()]
        return all(pools.count(pool) == pool["resourceSliceCount"] for pool in pools)

    def await_devices(self, **counts):
        until(lambda: {name: len(self.devices(name)) for name in counts} == counts and self.is_complete(), f"{counts} in the slices")
        self.api.apply(self.ctl("dra", "classes").stdout)

    def prepare_claim(self, claim):
        metadata = claim["metadata"]
        return self.prepare((metadata["namespace"], metadata["name"], metadata["uid"]))[metadata["uid"]]

    def test_counters(self):
        """The scheduler gives a whole card or its parts, by demand."""
        self.serve_api(release="1.37")
        self.start()
        self.await_devices(card=2, part=4)
        self.assertEqual({spec["spec"]["pool"]["name"] for spec in self.api.slices.values()}, {"node-a", PARTS})
        a = self.schedule("a", "card")
        self.assertIsNotNone(a)
        self.assertNotIsInstance(self.prepare_claim(a), str)
        b = self.schedule("b", "part", 2)
        self.assertIsNotNone(b)
        self.assertNotIsInstance(self.prepare_claim(b), str)
        self.assertIsNone(self.schedule("c", "part"))
        self.assertIsNone(self.schedule("d", "card"))
        self.unprepare(("default", "a", a["metadata"]["uid"]))
        self.api.release(a)
        until(lambda: self.schedule("e", "part"), "the hardware of the card to be free")

    def without_counters(self, release, **options):
        self.serve_api(release=release, **options)
        self.start()
        self.await_devices(card=2, part=0)
        until(lambda: any("counters" in text for text in self.dra()["lacks"]), "the status to name what the server lacks")
        self.assertIsNone(self.schedule("a", "part"))
        self.assertIsNotNone(self.schedule("b", "card", 2))

    def test_server_1_34(self):
        """Only devices of the first resource are in the slices, the status names the reason, and none is allocated twice."""
        self.without_counters("1.34")

    def test_server_1_34_with_feature(self):
        """It refuses counters in slices of their own, as later releases want them."""
        self.without_counters("1.34", features={"DRAPartitionableDevices": True})

    def test_server_1_35(self):
        self.without_counters("1.35")

    def test_refused_by_hardware(self):
        """A scheduler that allocates hardware twice, as some before 1.37 do: the second claim is not prepared."""
        self.serve_api(release="1.36")
        self.start()
        self.await_devices(card=2, part=4)
        names = {device["attributes"]["id"]["string"]: device["name"] for name in ("card", "part") for device in self.devices(name)}
        card = next(name for id_, name in names.items() if "+" in id_ and ":p0" in id_)
        part = next(name for id_, name in names.items() if id_.endswith(":p1"))
        claims = {name: ("default", name, self.api.allocate(name, DRIVER, [("r", device)], pool=PARTS))
                  for name, device in (("first", card), ("second", part))}
        self.assertNotIsInstance(self.prepare(claims["first"])[claims["first"][2]], str)
        self.assertIn("in use as vendor.example/card by the claim default/first", self.prepare(claims["second"])[claims["second"][2]])
        self.unprepare(claims["first"])
        until(lambda: not isinstance(self.prepare(claims["second"])[claims["second"][2]], str), "the second claim to be prepared")

    def begin_hostile(self, **options):
        """The devices by the node that they begin with: "p0+" is a card."""
        self.serve_api(release="1.36")
        self.start(**options)
        self.await_devices(card=2, part=4)
        self.names = {re.search(r":(p\d+\+?)", device["attributes"]["id"]["string"])[1]: device["name"]
                      for name in ("card", "part") for device in self.devices(name)}

    def claim(self, name, *devices):
        return "default", name, self.api.allocate(name, DRIVER, [(f"r{i}", self.names[device]) for i, device in enumerate(devices)],
                                                  pool=PARTS)

    def test_claim_that_waits_takes_no_hardware(self):
        """A claim of two parts waits for one of them; the card of the other part is free."""
        self.begin_hostile()
        first, both, third = self.claim("first", "p0+"), self.claim("both", "p2", "p1"), self.claim("third", "p2+")
        self.assertNotIsInstance(self.prepare(first)[first[2]], str)
        with concurrent.futures.ThreadPoolExecutor() as pool:
            call = pool.submit(self.prepare, both)
            until(lambda: "the claim default/both waits: " in self.node.output(), "the claim to wait")
            self.assertNotIsInstance(self.refusal(third), str)
            self.assertEqual(self.unprepare(both), {both[2]: ""})
            self.assertIn("unprepared while it was being prepared", call.result()[both[2]])
        # A claim whose devices exclude each other holds none of them.
        self.assertEqual(self.unprepare(third, first), {third[2]: "", first[2]: ""})
        odd, free = self.claim("odd", "p2", "p2+"), self.claim("free", "p3", "p2")
        self.assertIn("in use as vendor.example/part", self.refusal(odd))
        self.assertNotIsInstance(self.refusal(free), str)

    def await_cards_in_use(self, count):
        until(lambda: sum("in use as vendor.example/part" in device["reason"]
                          for device in self.node.resource("vendor.example/card")["devices"]) == count, f"{count} cards to be in use")

    def test_preparation_that_ends(self):
        """A claim that is unprepared before its program has begun leaves its hardware at once; one whose program runs keeps it."""
        go = self.node.path("go")
        program = self.script("prestart", f'until [ -e "{go}" ]; do sleep 0.05; done\n')
        self.begin_hostile(part_more=f'prestart = {{ command = [ "{program}" ]; timeout = 25; }};')
        running, queued = self.claim("running", "p0"), self.claim("queued", "p2")
        with concurrent.futures.ThreadPoolExecutor() as pool:
            begun = pool.submit(self.prepare, running)
            self.await_cards_in_use(1)
            behind = pool.submit(self.prepare, queued)
            self.await_cards_in_use(2)
            self.assertEqual(self.unprepare(queued), {queued[2]: ""})
            self.assertIn("unprepared while it was being prepared", behind.result()[queued[2]])
            third = self.claim("third", "p2+")
            self.assertNotIsInstance(self.refusal(third), str)
            with open(go, "w"):
                pass
            self.assertNotIsInstance(begun.result()[running[2]], str)
        self.assertIn("in use as vendor.example/part", self.refusal(self.claim("c3", "p0+")))

    def pools(self):
        """The pool of each device, by its first node with "+" for a card, and whether it consumes counters."""
        with self.api.lock:
            specs = [slice_["spec"] for slice_ in self.api.slices.values()]
        return {re.search(r":(p\d+\+?)", device["attributes"]["id"]["string"])[1]: (spec["pool"]["name"], "consumesCounters" in device)
                for spec in specs for device in spec.get("devices", [])}

    def test_number_of_slices_that_grows(self):
        """A slice more of the other devices, and back: the slices of the two pools are numbered in one row."""
        self.serve_api(release="1.37")
        self.add_nodes(4)
        counts = {"card": 2, "part": 4, "gpu": 64}
        self.begin(*self.resources(2, 2), self.resource("gpu", count=counts["gpu"]))
        self.await_devices(**counts)
        for count in (65, 64):
            self.configure(*self.resources(2, 2), self.resource("gpu", count=count))
            self.node.reload()
            self.await_devices(**{**counts, "gpu": count})
            until(lambda: self.dra()["api_failure"] == "", "no failure")

    def upgrade(self, before, after, resource):
        """Another release of the API server, while a claim has the first device. Returns the claim."""
        self.serve_api(release=before)
        self.start()
        self.await_devices(card=2)
        claim = self.schedule("a", resource)
        self.assertNotIsInstance(self.prepare_claim(claim), str)
        self.api.kubernetes = Release(after)
        self.node.stop()
        self.node.start()
        self.register_again()
        return claim

    def check_health(self, claim):
        """The kubelet gets the health of the device for the pool from which the claim has it."""
        result = claim["status"]["allocation"]["devices"]["results"][0]
        with contextlib.closing(HealthStream(self.kubelet.service(self.socket), "v1alpha1")) as stream:
            found = stream.next()
            while result["device"] not in found:
                found = stream.next()
        self.assertEqual(found[result["device"]][0], result["pool"])

    def test_server_that_gets_counters(self):
        """A device stays in its pool until its claim ends, and the taints of its parts keep other claims from them."""
        claim = self.upgrade("1.35", "1.37", "card")
        counted = {name: (PARTS, True) for name in ("p0", "p1", "p0+", "p2", "p3", "p2+")}
        until(lambda: self.pools() == {**counted, "p0+": ("node-a", False)}, "the pools")
        self.check_health(claim)
        self.assertIsNone(self.schedule("b", "part", 3))
        self.unprepare(("default", "a", claim["metadata"]["uid"]))
        until(lambda: self.pools() == counted, "all to have counters")

    def test_many_cards_get_counters(self):
        """With several slices in each pool."""
        self.serve_api(release="1.35")
        self.start(cards=70)
        self.await_devices(card=70, part=0)
        self.api.kubernetes = Release("1.37")
        self.node.stop()
        self.node.start()
        self.register_again()
        self.await_devices(card=70, part=140)
        until(lambda: self.dra()["api_failure"] == "", "no failure")

    def test_server_that_loses_counters(self):
        claim = self.upgrade("1.37", "1.35", "part")
        until(lambda: self.pools() == {"p0": (PARTS, False), "p2+": ("node-a", False)}, "the pools")
        self.check_health(claim)
        self.assertIsNone(self.schedule("b", "card", 2))
        self.unprepare(("default", "a", claim["metadata"]["uid"]))
        until(lambda: self.pools() == {name: ("node-a", False) for name in ("p0+", "p2+")}, "the cards")

    def test_shares(self):
        """Claims that share a card by amount exclude its parts until the last of them has ended, and the other way round."""
        self.serve_api(release="1.37")
        self.start(card_more=MEMORY)
        self.await_devices(card=2, part=4)
        shares = [self.schedule(name, "card", amount="3Gi") for name in ("a", "b")]
        for claim in shares:
            self.assertNotIsInstance(self.prepare_claim(claim), str)
        # The first card has 2Gi left, and the second one has all.
        self.assertIsNone(self.schedule("early", "part", 3))
        parts = self.schedule("parts", "part", 2)
        self.assertNotIsInstance(self.prepare_claim(parts), str)
        self.assertIsNone(self.schedule("more", "card", amount="3Gi"))
        for count, claim in enumerate(shares):
            until(lambda: len([d for d in self.node.resource("vendor.example/part")["devices"] if "in use as" in d["reason"]]) == 2,
                  "the parts of the shared card to be in use")
            self.assertIsNone(self.schedule(f"part-{count}", "part"))
            self.unprepare(("default", claim["metadata"]["name"], claim["metadata"]["uid"]))
            self.api.release(claim)
        last = until(lambda: self.schedule("last", "part", 2), "the parts of the card that was shared to be free")
        self.assertNotIsInstance(self.refusal(("default", "last", last["metadata"]["uid"])), str)

    def test_shares_by_hardware(self):
        """Whatever the scheduler has allocated: no share of a card whose part is in use."""
        self.serve_api(release="1.37")
        self.start(card_more=MEMORY)
        self.await_devices(card=2, part=4)
        device = next(device["name"] for device in self.devices("card") if ":p0" in device["attributes"]["id"]["string"])
        part = next(device["name"] for device in self.devices("part") if device["attributes"]["id"]["string"].endswith(":p1"))
        first = "default", "first", self.api.allocate("first", DRIVER, [("r", part)], pool=PARTS)
        share = "default", "share", self.api.allocate_results("share", [{
            "request": "r", "driver": DRIVER, "pool": PARTS, "device": device, "consumedCapacity": {"memory": "1Gi"},
            "shareID": "00000000-0000-4000-8000-000000000001"}])
        self.assertNotIsInstance(self.prepare(first)[first[2]], str)
        self.assertIn("in use as vendor.example/part by the claim default/first", self.refusal(share))
        self.unprepare(first)
        until(lambda: not isinstance(self.prepare(share)[share[2]], str), "the share to be prepared")

    def test_shares_before_1_37(self):
        """The scheduler would allocate exclusive parts twice, so only the first resource has them, and the status names the reason."""
        self.serve_api(release="1.36")
        self.start(card_more=MEMORY)
        self.await_devices(card=2, part=0)
        until(lambda: any("shared by amount (Kubernetes 1.37)" in text for text in self.dra()["lacks"]), "the reason")
        self.assertIsNotNone(self.schedule("a", "card", amount="3Gi"))
        self.api.kubernetes = Release("1.37")
        self.node.stop()
        self.node.start()
        self.register_again()
        self.await_devices(card=2, part=4)
        self.assertEqual(self.dra()["lacks"], [])

    def test_shares_1_35(self):
        """Without either feature: devices of the default amount of the first resource."""
        self.serve_api(release="1.35")
        self.start(card_more=MEMORY)
        self.await_devices(card=8, part=0)

    def limits(self, begin, **counts):
        """The server checks each slice, and its scheduler each pool. Slices: of other devices, of these, of counters."""
        (whole, n_wholes), (part, _) = counts.items()
        writes = collections.Counter()

        def note(method, path):
            if "resourceslices" in path and method != "GET":
                writes["dry run" if "dryRun" in path else method] += 1

        self.serve_api(release="1.38")
        self.api.faults = [note]
        begin()
        self.await_devices(**counts)
        specs = [slice_["spec"] for slice_ in self.api.slices.values()]
        self.assertEqual(writes["POST"], len(specs))
        self.assertLessEqual(writes["dry run"], 3)
        times = []
        for number in range(PREPARED):
            claim = self.schedule(f"part-{number}", part)
            start = time.monotonic()
            self.assertNotIsInstance(self.prepare_claim(claim), str)
            times.append(time.monotonic() - start)
        self.assertIsNone(self.schedule("whole", whole, n_wholes))
        for number in range(PREPARED):
            claim = self.api.claims["default", f"part-{number}"]
            self.unprepare(("default", f"part-{number}", claim["metadata"]["uid"]))
            self.api.release(claim)
        wholes = until(lambda: self.schedule("wholes", whole, n_wholes), "the wholes to be free")
        self.assertNotIsInstance(self.prepare_claim(wholes), str)
        self.assertIsNone(self.schedule("part", part))
        print(f"{counts}: {len(specs)} slices, writes {dict(writes)}, prepare of a part p50 {statistics.median(times) * 1e3:.1f} ms")
        return (sum(spec["pool"]["name"] == "node-a" for spec in specs), sum("consumesCounters" in str(spec) for spec in specs),
                sum("sharedCounters" in spec for spec in specs))

    def test_cards_of_seven_parts(self):
        self.assertEqual(self.limits(lambda: self.start(8, 7), card=8, part=56), (1, 1, 1))

    def test_128_functions(self):
        def begin():
            host = AcceleratorHost(self.node.path("host"), None, addresses=())
            functions = [host.function(address, "driver", "0x8086", "0x1592", "0x020000") for address in (
                "0000:41:00.0", *(f"0000:41:{1 + number // 8:02x}.{number % 8}" for number in range(128)))]
            for number, function in enumerate(functions):
                host.device(f"{function}/net/eth{number}", "class/net", type="1", operstate="up", ifindex=str(2 + number),
                            address=f"02:00:00:00:00:{number:02x}")
                host.link(f"sys/devices/{function}/net/eth{number}/device", f"sys/devices/{function}")
                if number > 0:
                    host.link(f"sys/devices/{functions[0]}/virtfn{number - 1}", f"sys/devices/{function}")
                    host.link(f"sys/devices/{function}/physfn", f"sys/devices/{functions[0]}")
            self.begin(*(f'{{ name = "vendor.example/{role}"; driver = "net"; match = ( {{ role = "{role}"; }} ); overlap = "exclusive"; '
                         'serve = "dra"; }' for role in ("pf", "vf")), text=f'host_root = "{host.root}";')

        self.assertEqual(self.limits(begin, pf=1, vf=128), (1, 3, 1))

    def test_card_of_128_parts(self):
        """More counters than a set may have: the parts are left out, and the card is offered."""
        self.serve_api(release="1.37")
        self.start(1, 128)
        self.await_devices(card=1, part=0)


if __name__ == "__main__":
    unittest.main(verbosity=2)
