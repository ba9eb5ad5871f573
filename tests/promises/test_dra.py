# SPDX-License-Identifier: Apache-2.0
"""Resources that are served by Dynamic Resource Allocation: what the kubelet and the API server see of them."""
import json
import os
import random
import signal
import unittest

from api_server import Release
from dra_kubelet import HealthStream
from dra_node import DRIVER, DraTest
from node import SEED, make_node, remove_tree, runs_no_programs, scaled, until
from nvidia_host import UNKNOWN, NvidiaHost, address, uuid


class Dra(DraTest):
    def test_claims(self):
        """From the file to a container and back."""
        self.serve_api()
        self.begin(self.resource("gpu", "share = { replicas = 2; };"), self.resource("fpga"),
                   self.resource("plain", serve="plugin"))
        info = self.kubelet.info(self.socket)
        self.assertEqual((info["type"], info["name"], info["endpoint"]),
                         ("DRAPlugin", DRIVER, f"{self.registry}/.{os.path.basename(self.socket)}"))
        # A kubelet takes the first service of claims that it knows.
        self.assertEqual(info["versions"], ["v1.DRAPlugin", "v1beta1.DRAPlugin", "v1.DRAResourceHealth",
                                            "v1alpha1.DRAResourceHealth"])
        pool = self.await_pool()
        self.assertEqual(len(pool), 9)
        until(lambda: self.dra()["registered"], "the registration to be seen")
        slices = list(self.api.slices.values())
        self.assertEqual(slices[0]["metadata"]["ownerReferences"][0]["uid"], self.api.nodes["node-a"]["metadata"]["uid"])
        states = {r["name"]: r["state"] for r in self.node.status()["resources"]}
        self.assertEqual(states["vendor.example/gpu"], "serving")
        self.assertEqual(states["vendor.example/plain"], "waiting")

        gpus = [self.api.device_named("vendor.example/gpu", i) for i in range(4)]
        fpga = self.api.device_named("vendor.example/fpga", 0)
        uid = self.api.allocate("both", DRIVER, [("a", gpus[0]), ("b", fpga), ("a", gpus[2])])
        claim = ("default", "both", uid)
        answer = self.prepare(claim)
        devices = answer[uid]
        self.assertEqual([(d["requests"], d["pool"], d["device"]) for d in devices],
                         [(["a"], "node-a", gpus[0]), (["b"], "node-a", fpga), (["a"], "node-a", gpus[2])])
        edits = self.specification(uid)
        # One name for each request: its devices are given to a container together.
        self.assertEqual([len(d["cdi"]) for d in devices], [1, 1, 0])
        self.assertEqual(edits[devices[0]["cdi"][0]], {"env": ["GPU=gpu-0,gpu-1"]})
        self.assertEqual(edits[devices[1]["cdi"][0]], {"env": ["FPGA=fpga-0"]})
        self.assertEqual(self.prepare(claim, version="v1beta1"), answer)
        self.assertEqual(self.dra()["claims"], 1)

        # Nobody else gets what a claim has, also not the other one of a call that is in order.
        thief = ("default", "thief", self.api.allocate("thief", DRIVER, [("a", gpus[0])]))
        other = ("default", "other", self.api.allocate("other", DRIVER, [("a", gpus[1])]))
        answer = self.refusals(thief, other)
        self.assertIn("still prepared for the claim default/both", answer[thief[2]])
        self.assertEqual([d["device"] for d in answer[other[2]]], [gpus[1]])
        self.assertEqual(self.unprepare(claim, ("x", "never-seen", "0-0")), {uid: "", "0-0": ""})
        self.assertIsNone(self.specification(uid))
        self.assertNotIsInstance(self.prepare(thief)[thief[2]], str)
        self.unprepare(thief, other)
        self.assertEqual(self.files(), [])

    def test_many_claims(self):
        """After a restart the kubelet may ask for all claims that it knows, and devplugd-cluster asks devplugd for each."""
        self.serve_api()
        self.begin(self.resource("gpu"))
        pid = self.process()
        # Short names, so that a call is one frame.
        claims = [("a", "a", f"{i:x}") for i in range(1024)]
        for _ in range(2):
            self.assertEqual(self.unprepare(*claims), {uid: "" for _, _, uid in claims})
        self.assertEqual(self.process(), pid)

    def test_refusals(self):
        """What a claim may not be, each with the reason."""
        self.serve_api()
        self.begin(self.resource("gpu"))
        self.await_pool()
        device = self.api.device_named("vendor.example/gpu", 0)
        uid = self.api.allocate("c", DRIVER, [("a", device)])
        self.api.allocate("d", DRIVER, [("a", "no-such-device")])
        self.api.allocate("e", DRIVER, [("a", device)], pool="node-b")
        claims = self.api.claims
        self.assertIn("uid is", self.refusal(("default", "c", "other-uid")))
        self.assertIn("403", self.refusal(("default", "gone", "u")))
        d, e = (claims["default", name]["metadata"]["uid"] for name in "de")
        self.assertIn("not on this node any more", self.refusal(("default", "d", d)))
        self.assertIn("node-b", self.refusal(("default", "e", e)))
        self.assertIn("no valid namespace", self.refusal(("default", "../x", "u")))
        self.assertIn("no valid namespace", self.refusal(("default", "c", "../../x")))
        del claims["default", "c"]["status"]["allocation"]
        self.assertIn("not allocated", self.refusal(("default", "c", uid)))
        self.assertEqual(self.files(), [])

    def test_odd_claims(self):
        """A claim that no API server should store fails with the reason, and no process ends for it."""
        self.serve_api()
        self.begin(self.resource("gpu"))
        self.await_pool()
        device = self.api.device_named("vendor.example/gpu", 0)
        pid = self.process()

        def check(what, results, **metadata):
            uid = self.api.allocate("c", DRIVER, results)
            self.api.claims["default", "c"]["metadata"].update(metadata)
            self.assertIn(what, self.refusal(("default", "c", uid)))

        for count in (129, 200, 10000):
            check("more than 128 devices", [("a", device)] * count)
        for request in ("", "/", "/x", ".", "../x", "a b", "a" * 254, "\u202e"):
            check("which is not valid", [(request, device)])
        for name in ("", ".", "../x", "a/b", "a" * 254, "a\nb"):
            check("not both valid", [("a", device)], namespace=name)
            check("not both valid", [("a", device)], name=name)
        self.assertEqual(self.process(), pid)
        self.assertNotIn("may not send", self.node.output())
        uid = self.api.allocate("c", DRIVER, [("a", device)])
        self.assertNotIsInstance(self.prepare(("default", "c", uid))[uid], str)

    def test_unwritable_directory(self):
        """A claim that cannot be stored is refused, as often as the kubelet asks, and later prepared."""
        self.serve_api()
        self.begin(self.resource("gpu"))
        self.await_pool()
        uid = self.api.allocate("c", DRIVER, [("a", self.api.device_named("vendor.example/gpu", 0))])
        if os.path.isdir(self.cdi):
            remove_tree(self.cdi)
        with open(self.cdi, "w"):
            pass
        for _ in range(3):
            self.assertIn("cannot", self.refusal(("default", "c", uid)))
        self.assertEqual(self.dra()["claims"], 0)
        os.unlink(self.cdi)
        self.assertNotIsInstance(self.prepare(("default", "c", uid))[uid], str)
        # A kubelet does not prepare the claims of running pods again.
        before = self.specification(uid)
        self.node.daemon.kill()
        self.node.daemon.wait()
        remove_tree(self.cdi)
        with open(self.cdi, "w"):
            pass
        self.node.start()
        until(lambda: "cannot write the CDI file of the claim default/c" in self.node.output(), "devplugd to report it")
        os.unlink(self.cdi)
        until(lambda: os.path.isdir(self.cdi) and self.specification(uid) == before, "the file of the claim")

    def test_resource_that_never_reports(self):
        """One resource without a list of devices does not keep those of the others from the cluster."""
        self.serve_api()
        # It fails, because its host is not mounted.
        silent = (f'{{ name = "vendor.example/silent"; driver = "path"; match = "/dev/null"; serve = "dra"; '
                  f'host_root = "{self.node.path("absent")}"; }}')
        self.begin(self.resource("gpu"), silent)
        pool = self.await_pool()
        self.assertEqual({device["attributes"]["resource"]["string"] for device in pool.values()}, {"vendor.example/gpu"})
        uid = self.api.allocate("c", DRIVER, [("a", self.api.device_named("vendor.example/gpu", 0))])
        self.assertNotIsInstance(self.prepare(("default", "c", uid))[uid], str)
        other = self.api.allocate("d", DRIVER, [("a", "silent-0")])
        self.assertIn("has not reported it yet", self.refusal(("default", "d", other)))

    def test_health_and_changes(self):
        """Devices that are not healthy are tainted, or left out where the server has no taints; one change is one
        request."""
        for release, taints in (("1.36", True), ("1.35", False)):
            with self.subTest(release):
                self.serve_api(release=release)
                marker = self.node.path(f"sick-{taints}")
                probe = f'health = ( {{ probe = "file"; path = "{marker}"; healthy = "ok"; missing = "healthy"; }} );'
                self.begin(self.resource("gpu", probe))
                self.await_pool(lambda pool: len(pool) == 3)
                name = self.api.device_named("vendor.example/gpu", 1)
                self.assertEqual(self.ctl("cordon", "vendor.example/gpu/gpu-1", "why").returncode, 0)
                if taints:
                    pool = self.await_pool(lambda pool: "taints" in pool.get(name, {}))
                    taint = pool[name]["taints"][0]
                    self.assertTrue(taint.pop("timeAdded"))
                    self.assertEqual(pool[name]["taints"], [
                        {"key": f"{DRIVER}/cordoned", "effect": "NoSchedule"}])
                    self.assertEqual(self.dra()["lacks"], [])
                else:
                    self.await_pool(lambda pool: name not in pool)
                    until(lambda: any("DRADeviceTaints" in text for text in self.dra()["lacks"]), "what is lacking")
                    self.assertIn("the API server lacks device taints", self.ctl("status").stdout)
                    self.assertNotIn(name, self.ctl("dra", "slices").stdout)
                before = self.api.writes()
                self.assertEqual(self.ctl("uncordon", "vendor.example/gpu/gpu-1").returncode, 0)
                self.await_pool(lambda pool: len(pool) == 3 and "taints" not in pool[name])
                self.assertEqual([r[0] for r in self.api.writes()[len(before):]], ["PUT"])
                # A resource more concerns the pool, so its generation grows.
                self.assertEqual(self.dra()["generation"], 1)
                self.configure(self.resource("gpu"), self.resource("more", count=200))
                self.node.reload()
                self.await_pool(lambda pool: len(pool) == 203)
                until(lambda: self.dra()["generation"] == 2 and self.dra()["slices"] == 4, "the new generation")
                self.configure(self.resource("gpu"))
                self.node.reload()
                self.await_pool(lambda pool: len(pool) == 3)
                self.node.stop()

    def test_taints_that_are_dropped(self):
        """A device that a claim holds stays in its slice, also without taints, which the server drops. A server of another
        release is tried again."""
        self.serve_api(release="1.34")
        self.begin(self.resource("gpu"))
        self.await_pool(lambda pool: len(pool) == 3)
        names = [self.api.device_named("vendor.example/gpu", i) for i in range(3)]
        claim = "default", "c", self.api.allocate("c", DRIVER, [("r", names[0])])
        self.assertEqual(len(self.prepare(claim)[claim[2]]), 1)
        self.assertEqual(self.ctl("cordon", "vendor.example/gpu/*").returncode, 0)
        pool = self.await_pool(lambda pool: len(pool) == 1)
        self.assertEqual(list(pool), names[:1])
        self.assertNotIn("taints", pool[names[0]])
        self.assertIn("unhealthy devices are left out", self.node.output())
        # The same is not written again and again: a change of another kind is one request.
        before = len(self.api.writes())
        self.assertEqual(self.unprepare(claim), {claim[2]: ""})
        self.await_pool(lambda pool: not pool)
        self.assertEqual(len(self.api.writes()) - before, 1)
        # While it restarts, it closes the connection at a question for its release, also at curl's second try.
        faults = ["close", "close"]
        self.api.faults.append(lambda method, path: faults.pop(0) if path == "/version" and faults else None)
        self.api.kubernetes = Release("1.36")
        self.api.change("DELETED", next(iter(self.api.slices)))
        pool = self.await_pool(lambda pool: len(pool) == 3)
        self.assertEqual(faults, [])
        self.assertEqual({name: [taint["key"] for taint in device["taints"]] for name, device in pool.items()},
                         {name: [f"{DRIVER}/cordoned"] for name in names})
        until(lambda: self.dra()["lacks"] == [], "the taints to be supported")

    def touch_slices(self):
        """Has the slices read again."""
        for name, slice_ in list(self.api.slices.items()):
            self.api.change("MODIFIED", name, slice_)

    def test_taints_before_1_35(self):
        """There, a device has at most 4."""
        health = self.node.path("health")
        self.serve_api(release="1.34", features={"DRADeviceTaints": True})
        with open(health, "w") as file:
            file.write("bad")
        probes = ", ".join(f'{{ probe = "file"; path = "{health}"; healthy = "ok"; reason = "r{i}"; }}' for i in range(5))
        self.begin(self.resource("gpu", f"health = ( {probes} );", count=1))
        pool = self.await_pool(lambda pool: len(pool) == 1)
        self.assertEqual([len(device["taints"]) for device in pool.values()], [4])
        until(lambda: any("more than 4 taints" in text for text in self.dra()["lacks"]), "what is lacking")

    def count_requests(self, words):
        with self.api.lock:
            return sum(words in path for _, path, _ in self.api.requests)

    def test_features_that_are_switched(self):
        """On or off, by the same release."""
        self.serve_api(release="1.35")
        serve, stored = self.api.serve, []

        def watch(user, request):
            answer = serve(user, request)
            if request.method in ("POST", "PUT") and "dryRun" not in request.path:
                stored.extend(device["attributes"]["id"]["string"] for device in answer.body["spec"]["devices"]
                              if "taints" not in device)
            return answer

        self.api.serve = watch
        self.begin(self.resource("gpu"))
        self.await_pool(lambda pool: len(pool) == 3)
        stored.clear()
        self.assertEqual(self.ctl("cordon", "vendor.example/gpu/gpu-1").returncode, 0)
        self.await_pool(lambda pool: len(pool) == 2)
        until(lambda: self.dra()["lacks"], "what is lacking")
        for _ in range(2):
            # Nothing is written to find out.
            writes, tests = len(self.api.writes()), self.count_requests("dryRun")
            self.touch_slices()
            until(lambda: self.count_requests("dryRun") > tests and self.dra()["lacks"], "another test of the server")
            self.assertEqual(len(self.api.writes()), writes)
            self.api.kubernetes = Release("1.35", {"DRADeviceTaints": True})
            self.touch_slices()
            self.await_pool(lambda pool: len(pool) == 3)
            until(lambda: not self.dra()["lacks"], "nothing to be lacking")
            self.assertNotIn("gpu-1", stored)
            self.assertEqual(self.ctl("uncordon", "vendor.example/gpu/gpu-1").returncode, 0)
            self.await_pool(lambda pool: not any("taints" in device for device in pool.values()))
            reads = self.count_requests("/version")
            self.api.kubernetes = Release("1.35")
            self.touch_slices()
            until(lambda: self.count_requests("/version") > reads, "the release to be read")
            stored.clear()
            self.assertEqual(self.ctl("cordon", "vendor.example/gpu/gpu-1").returncode, 0)
            self.await_pool(lambda pool: len(pool) == 2)
            until(lambda: self.dra()["lacks"], "what is lacking")
        self.assertNotIn("gpu-1", stored)

    def test_bad_device_is_never_stored(self):
        """A server that drops taints never stores a cordoned device, not even for a moment: neither when devplugd starts nor
        after a server of another release."""
        self.serve_api(release="1.35")
        serve, seen = self.api.serve, []

        def watch(user, request):
            if request.method in ("POST", "PUT") and "dryRun" not in request.path:
                seen.extend(device["attributes"]["id"]["string"] for device in request.body["spec"]["devices"])
            return serve(user, request)

        self.api.serve = watch
        self.begin(self.resource("gpu", 'cordon = "gpu-1";'))
        self.await_pool(lambda pool: len(pool) == 2)
        os.kill(self.process(), signal.SIGKILL)
        self.assertEqual(self.ctl("cordon", "vendor.example/gpu/gpu-2").returncode, 0)
        self.await_pool(lambda pool: len(pool) == 1)
        self.api.kubernetes = Release("1.34")
        self.api.change("DELETED", next(iter(self.api.slices)))
        self.await_pool(lambda pool: len(pool) == 1)
        self.assertEqual(set(seen), {"gpu-0", "gpu-2"})

    def test_resource_that_comes_back(self):
        """A resource that was removed has no devices when it comes back, until it reports them."""
        root, away = self.node.path("root"), self.node.path("away")
        os.makedirs(os.path.join(root, "dev"))
        make_node(os.path.join(root, "dev/x0"))
        resource = f'{{ name = "vendor.example/gpu"; driver = "path"; match = "/dev/x*"; host_root = "{root}"; serve = "dra"; }}'
        self.serve_api()
        self.begin(resource, self.resource("nic"))
        self.await_pool(lambda pool: len(pool) == 4)
        self.configure(self.resource("nic"))
        self.node.reload()
        self.await_pool(lambda pool: len(pool) == 3)
        # It cannot report any device.
        os.rename(root, away)
        self.configure(resource, self.resource("nic", count=4))
        self.node.reload()
        pool = self.await_pool(lambda pool: len(pool) > 3)
        self.assertEqual({device["attributes"]["resource"]["string"] for device in pool.values()}, {"vendor.example/nic"})
        os.rename(away, root)
        self.node.reload()
        self.await_pool(lambda pool: len(pool) == 5)
        # It is served in another way meanwhile.
        for serve, count in (("plugin", 4), ("dra", 5)):
            self.configure(resource.replace('"dra"', f'"{serve}"'), self.resource("nic", count=4), text="cluster = { report = true; };")
            self.node.reload()
            self.await_pool(lambda pool: len(pool) == count)

    def test_held_devices_without_resource(self):
        """A device that a claim holds stays in the slices when its resource is removed or moves to the device plugin, and
        leaves them with the claim, also after a restart."""
        self.serve_api()
        self.begin(self.resource("gpu"), self.resource("nic"))
        self.await_pool(lambda pool: len(pool) == 6)
        claims = []
        for number, resource in enumerate(("gpu", "nic")):
            name = self.api.device_named(f"vendor.example/{resource}", 1)
            claims.append(("default", resource, self.api.allocate(resource, DRIVER, [("r", name)])))
            self.assertEqual(len(self.prepare(claims[-1])[claims[-1][2]]), 1)
        held = {self.api.device_named(f"vendor.example/{resource}", 1) for resource in ("gpu", "nic")}
        self.configure(self.resource("gpu", serve="plugin"))
        self.node.reload()

        def keys(pool):
            return {name: [taint["key"] for taint in device.get("taints", [])] for name, device in pool.items()}

        wanted = {name: [f"{DRIVER}/missing"] for name in held}
        self.await_pool(lambda pool: keys(pool) == wanted)
        self.node.stop()
        self.node.start()
        self.register()
        self.assertEqual(keys(self.await_pool(lambda pool: len(pool) == 2)), wanted)
        for number, claim in enumerate(claims):
            self.assertEqual(self.unprepare(claim), {claim[2]: ""})
            self.await_pool(lambda pool, left=1 - number: len(pool) == left)

    def test_cluster_without_dry_runs(self):
        """A webhook may refuse them; then the answer to the write shows what is dropped."""
        self.serve_api(release="1.35")
        self.api.faults = [lambda method, path: 400 if "dryRun" in path else None]
        self.begin(self.resource("gpu", 'cordon = "gpu-1";'))
        self.await_pool(lambda pool: len(pool) == 2)
        until(lambda: "unhealthy devices are left out" in self.node.output(), "the log to name it")

    def test_unknown_field_that_is_dropped(self):
        """A field without a fall-back is named, and what the server makes of a slice is not written again."""
        self.serve_api()
        self.api.kubernetes.dropped.add(("Device", "attributes"))
        self.begin(self.resource("gpu"))
        self.await_pool(lambda pool: len(pool) == 3 and not any("attributes" in device for device in pool.values()))
        until(lambda: "the log has its name" in "".join(self.dra()["lacks"]), "the field")
        self.assertIn("spec.devices[].attributes", self.node.output())
        self.assertEqual(self.ctl("cordon", "vendor.example/gpu/gpu-1").returncode, 0)
        self.await_pool(lambda pool: any("taints" in device for device in pool.values()))
        self.assertEqual([method for method, _, _ in self.api.writes()], ["POST", "PUT"])

    def test_reasons(self):
        """A taint for each reason, as far as the release knows it: the effect None from 1.35 on, taints only with the feature
        before 1.36. The same file serves on all."""
        for release, features, effect in (("1.34", {}, None), ("1.34", {"DRADeviceTaints": True}, None), ("1.35", {}, None),
                                          ("1.35", {"DRADeviceTaints": True}, "None"), ("1.36", {}, "None"),
                                          ("1.37", {}, "None"), ("1.38", {}, "None")):
            with self.subTest(release, features=features):
                taints = bool(features) or release >= "1.36"
                self.serve_api(release=release, features=features)
                folder = self.node.path(f"{release}{len(features)}")
                os.mkdir(folder)

                def probe(name, more, folder=folder):
                    return f'{{ probe = "file"; path = "{folder}/{name}-${{id}}"; healthy = "ok"; missing = "healthy"; {more} }}'

                self.begin(self.resource("gpu", "health = ( " + ", ".join([
                    probe("hot", 'reason = "temperature";'), probe("worn", 'reason = "wear"; severity = "notice";'),
                    probe("plain", "")]) + " );"))
                self.await_pool(lambda pool: len(pool) == 3)
                a, b, c = (self.api.device_named("vendor.example/gpu", i) for i in range(3))
                for name in ("worn-gpu-0", "hot-gpu-1", "worn-gpu-1", "plain-gpu-2"):
                    with open(f"{folder}/{name}", "w") as file:
                        file.write("found")
                key = f"{DRIVER}/{{}}".format
                notice = [(key("wear"), effect, None)] if effect else []
                wanted = {a: notice, b: [(key("temperature"), "NoSchedule", None)] + notice,
                          c: [(key("unhealthy"), "NoSchedule", "probe")]} if taints else {a: []}

                def found(pool):
                    return {name: [(t["key"], t["effect"], t.get("value")) for t in device.get("taints", [])]
                            for name, device in pool.items()}

                self.await_pool(lambda pool: found(pool) == wanted)
                lacks = [] if effect else ["DRADeviceTaints"] if not taints else ["effect None"]
                until(lambda: [word for word in ("DRADeviceTaints", "effect None")
                               if any(word in text for text in self.dra()["lacks"])] == lacks, "what is lacking")
                self.assertEqual(self.dra()["api_failure"], "")
                self.assertEqual({d["id"]: d["health"] for d in self.node.resource("vendor.example/gpu")["devices"]},
                                 {"gpu-0": "Healthy", "gpu-1": "Unhealthy", "gpu-2": "Unhealthy"})
                self.node.stop()

    def test_times_of_taints(self):
        """A taint keeps the time when it was added, over other changes, restarts, and slices that a kubelet deletes."""
        self.serve_api()
        self.begin(self.resource("gpu"))
        self.await_pool(lambda pool: len(pool) == 3)
        a, b, _ = (self.api.device_named("vendor.example/gpu", i) for i in range(3))
        self.assertEqual(self.ctl("cordon", "vendor.example/gpu/gpu-0").returncode, 0)
        self.await_pool(lambda pool: "taints" in pool[a])
        old = "2026-01-01T00:00:00Z"
        # Another client may set it; devplugd reads its slice again.
        name = next(iter(self.api.slices))
        changed = json.loads(json.dumps(self.api.slices[name]))
        for device in changed["spec"]["devices"]:
            for taint in device.get("taints", []):
                taint["timeAdded"] = old
        self.api.change("MODIFIED", name, changed)

        def times(pool):
            return {taint["timeAdded"] for taint in pool.get(a, {}).get("taints", [])}

        for step in ("cordon", "uncordon"):
            self.assertEqual(self.ctl(step, "vendor.example/gpu/gpu-1").returncode, 0)
            self.await_pool(lambda pool: ("taints" in pool[b]) == (step == "cordon"))
            self.assertEqual(times(self.api.pool()), {old})
        with self.api.lock:
            for name in list(self.api.slices):
                self.api.change("DELETED", name)
        self.kubelet.register(self.socket)
        self.assertEqual(times(self.await_pool(lambda pool: len(pool) == 3)), {old})
        os.kill(self.process(), signal.SIGKILL)
        until(lambda: self.dra()["slices"] == 1 and not self.dra()["api_failure"] and self.process(), "the next process")
        self.assertEqual(self.ctl("cordon", "vendor.example/gpu/gpu-1").returncode, 0)
        self.await_pool(lambda pool: "taints" in pool[b])
        self.assertEqual(times(self.api.pool()), {old})

    def test_many_devices(self):
        """1000 devices are 16 slices, which may all have taints; when the health of one changes, one request is written."""
        self.serve_api()
        self.begin(self.resource("gpu", count=1000))
        self.await_pool(lambda pool: len(pool) == 1000)
        self.assertEqual([name[:6] for name in sorted(self.api.slices)], [f"{number:05x}-" for number in range(16)])
        until(lambda: self.dra()["slices"] == 16, "the slices to be known")
        before = len(self.api.writes())
        self.assertEqual(self.ctl("cordon", "vendor.example/gpu/gpu-500").returncode, 0)
        self.await_pool(lambda pool: sum("taints" in device for device in pool.values()) == 1)
        self.assertEqual(self.ctl("uncordon", "vendor.example/gpu/gpu-500").returncode, 0)
        self.await_pool(lambda pool: len(pool) == 1000 and not any("taints" in device for device in pool.values()))
        self.assertEqual([method for method, _, _ in self.api.writes()[before:]], ["PUT", "PUT"])

    def test_more_devices_than_the_limit(self):
        """A process that reports very many devices does not keep another resource of the driver from its taints."""
        self.serve_api()
        self.begin(self.resource("gpu"), self.resource("licence", "share = { replicas = 10000; };", count=20))
        self.await_pool(lambda pool: len(pool) == 16384)
        name = self.api.device_named("vendor.example/gpu", 0)
        self.assertEqual(self.ctl("cordon", "vendor.example/gpu/gpu-0").returncode, 0)
        self.await_pool(lambda pool: "taints" in pool[name])
        self.assertNotIn("out of memory", self.node.output())

    def test_capacity(self):
        """A program prints how much memory a device has. What else it prints stays on the node."""
        self.serve_api()
        document = {"version": 1, "devices": [{"id": "a", "properties": {"memory": "85899345920", "URL": "rtsp://me:secret@x"}}]}
        program = self.node.path("list")
        with open(program, "w") as file:
            file.write(f"#!/bin/sh\necho '{json.dumps(document)}'\n")
        os.chmod(program, 0o755)
        self.begin(f'{{ name = "vendor.example/gpu"; driver = "exec"; serve = "dra"; match = ( {{ command = [ "{program}" ]; }} ); }}')
        pool = self.await_pool(lambda pool: len(pool) == 1)
        device = next(iter(pool.values()))
        self.assertEqual(device["capacity"], {"memory": {"value": "80Gi"}})
        self.assertNotIn("secret", json.dumps(device))

    def test_health_streams(self):
        """The reason of each unhealthy device reaches the kubelet, in both versions of the service; health is repeated
        before the kubelet takes it as unknown."""
        self.serve_api()
        marker = self.node.path("marker")
        with open(marker, "w") as file:
            file.write("ok")
        probe = f'health = ( {{ probe = "file"; path = "{marker}"; healthy = "ok"; }} );'
        self.begin(self.resource("gpu", probe + " share = { replicas = 2; };", count=1),
                   self.resource("fpga", count=2))
        self.await_pool(lambda pool: len(pool) == 4)
        fpga = self.api.device_named("vendor.example/fpga", 1)
        gpus = [self.api.device_named("vendor.example/gpu", i) for i in range(2)]
        streams = [HealthStream(self.kubelet.service(self.socket), version) for version in ("v1alpha1", "v1")]
        for stream in streams:
            self.addCleanup(stream.close)

        def unhealthy(devices):
            return {name: message for name, (_, health, message, _, _) in devices.items() if health == "UNHEALTHY"}

        def read_until(condition, what):
            for stream in streams:
                while True:
                    devices = stream.next()
                    self.assertIsNotNone(devices, what)
                    if condition(devices):
                        break
            return devices

        first = read_until(lambda devices: len(devices) == 4 and not unhealthy(devices), "all are healthy")
        self.assertEqual({(pool, health, message) for pool, health, message, _, _ in first.values()},
                         {("node-a", "HEALTHY", "")})
        self.assertEqual(set(first), set(self.api.pool()))
        with open(marker + ".new", "w") as file:
            file.write("bad")
        os.rename(marker + ".new", marker)
        found = unhealthy(read_until(lambda devices: len(unhealthy(devices)) == 2, "both replicas are unhealthy"))
        self.assertEqual(set(found), set(gpus))
        reason = self.node.resource("vendor.example/gpu")["devices"][0]["reason"]
        self.assertIn("bad", reason)
        self.assertEqual(set(found.values()), {reason})
        self.assertEqual(self.ctl("cordon", "vendor.example/fpga/fpga-1", "new firmware").returncode, 0)
        found = unhealthy(read_until(lambda devices: fpga in unhealthy(devices), "the cordoned device"))
        self.assertIn("new firmware", found[fpga])
        self.assertEqual(self.ctl("uncordon", "vendor.example/fpga/fpga-1").returncode, 0)
        last = read_until(lambda devices: fpga not in unhealthy(devices), "the device that is back")
        # Nothing changes any more: the same health comes with a newer time.
        times = [time for _, _, _, time, _ in last.values()]
        again = read_until(lambda devices: min(d[3] for d in devices.values()) > max(times), "the same again")
        self.assertEqual(set(unhealthy(again)), set(gpus))
        self.assertEqual({timeout for _, _, _, _, timeout in again.values()}, {60})

    def test_kills(self):
        """devplugd-cluster and devplugd can be killed at any time; what is prepared stays so without the API server."""
        self.serve_api()
        self.begin(self.resource("gpu"))
        self.await_pool()
        claim = ("default", "c", self.api.allocate("c", DRIVER, [("a", self.api.device_named("vendor.example/gpu", 0))]))
        answer = self.prepare(claim)
        before = self.specification(claim[2])
        pid = until(self.process, "devplugd-cluster")
        os.kill(pid, signal.SIGKILL)
        until(lambda: self.process() not in (None, pid), "another devplugd-cluster")
        self.api.stop()
        self.assertEqual(self.prepare(claim), answer)
        self.node.daemon.kill()
        self.node.daemon.wait()
        self.assertEqual(self.specification(claim[2]), before)
        stray = os.path.join(self.cdi, "devplugd.dra-0-1.json")
        with open(stray, "w") as file:
            file.write("{}")
        self.node.start()
        self.register_again()
        self.assertEqual(self.prepare(claim), answer)
        os.unlink(os.path.join(self.cdi, f"devplugd.dra-{claim[2]}.json"))
        self.assertEqual(self.prepare(claim), answer)
        self.assertEqual(self.specification(claim[2]), before)
        # No list has it.
        os.unlink(stray)
        self.assertEqual(self.unprepare(claim)[claim[2]], "")
        self.assertEqual(self.files(), [])
        self.api.start()

    def test_saved_claims(self):
        """Saved claims are checked as new ones are: edits that a resource may not give are not written again, but built
        again by its process."""
        self.serve_api()
        self.begin(self.resource("gpu", count=4), self.resource("plain", serve="plugin"))
        self.await_pool()
        names = [self.api.device_named("vendor.example/gpu", i) for i in range(4)]
        good, *bad = (("default", f"c{i}", self.api.allocate(f"c{i}", DRIVER, [("a", name)])) for i, name in enumerate(names))
        answer = self.prepare(good, *bad)
        before = {claim[2]: self.specification(claim[2]) for claim in (good, *bad)}
        self.node.daemon.kill()
        self.node.daemon.wait()

        def edits(claim):
            return claim["spec"]["devices"][0]["containerEdits"]

        self.change_saved(bad[0][2], lambda claim: edits(claim).update(hooks=[{"hookName": "createRuntime", "path": "/bin/sh"}]))
        self.change_saved(bad[1][2], lambda claim: edits(claim).update(mounts=[
            {"hostPath": "/", "containerPath": "/host", "options": ["rbind", "rprivate", "rw"]}]))
        self.change_saved(bad[2][2], lambda claim: claim["devices"][0].update(resource="vendor.example/none"))
        # These never were a resource's.
        with open(self.saved(good[2])) as file:
            document = json.load(file)
        env = {"env": ["GPU=gpu-0"]}
        for uid, kind, name in (("u-0", "vendor.example/card", "card-0"), ("u-1", "devplugd/claim", "another-0")):
            with open(self.saved(uid), "w") as file:
                json.dump({"version": 1, "boot": document["boot"], "uid": uid, "namespace": "n", "name": "c", "devices": [],
                           "spec": {"cdiVersion": "0.3.0", "kind": kind,
                                    "devices": [{"name": name, "containerEdits": env}]}}, file)
        remove_tree(self.cdi)
        self.node.start()
        self.register_again()
        until(lambda: self.files() == sorted(f"devplugd.dra-{claim[2]}.json" for claim in (good, *bad[:2])),
              "the edits that are built again")
        for claim in (good, *bad[:2]):
            until(lambda claim=claim: self.specification(claim[2]) == before[claim[2]], "the edits of before")
        words = "saved container edits are not permitted"
        self.assertEqual(self.node.output().count(words), 5)
        for reason in ("mounts /, which container.mounts does not name", "the CDI document has missing, unknown or malformed members", "vendor.example/none is not configured",
                       "the CDI kind must be \"devplugd/claim\"", "they belong to no device of the claim"):
            self.assertIn(reason, self.node.output())
        until(lambda: self.dra()["slices"] == 1, "devplugd-cluster to know the devices")
        thief = ("default", "thief", self.api.allocate("thief", DRIVER, [("a", names[1])]))
        self.assertIn("still prepared for the claim default/c1", self.refusal(thief))
        self.assertEqual(self.prepare(good, *bad), answer)
        self.assertEqual({claim[2]: self.specification(claim[2]) for claim in (good, *bad)}, before)

    def test_saved_names(self):
        """A claim with as many CDI names as a resource may give survives a restart; one that is dropped is named."""
        self.serve_api()
        names = [f"vendor.example/other=x{i}" for i in range(64)]
        os.mkdir(self.node.path("other"))
        with open(self.node.path("other/other.json"), "w") as file:
            json.dump({"cdiVersion": "0.3.0", "kind": "vendor.example/other", "devices": [
                {"name": name.partition("=")[2], "containerEdits": {"env": ["A=b"]}} for name in names]}, file)
        listed = ", ".join(f'"{name}"' for name in names)
        self.begin(f'{{ name = "vendor.example/gpu"; driver = "static"; match = ( {{ count = 2; }} ); serve = "dra"; '
                   f'container = {{ env = "GPU=${{ids:,}}"; cdi = ( {listed} ); '
                   f'cdi_dirs = "{self.node.path("other")}"; }}; }}')
        self.await_pool()
        kept, dropped = (("default", f"c{i}", self.api.allocate(
            f"c{i}", DRIVER, [("a", self.api.device_named("vendor.example/gpu", i))])) for i in range(2))
        answer = self.prepare(kept, dropped)
        device, = answer[kept[2]]
        self.assertEqual(len(device["cdi"]), len(names) + 1)
        self.node.daemon.kill()
        self.node.daemon.wait()
        self.change_saved(dropped[2], lambda claim: claim["devices"][0].update(cdi=claim["devices"][0]["cdi"] * 2))
        self.node.start()
        self.register_again()
        self.assertEqual(self.files(), [f"devplugd.dra-{kept[2]}.json"])
        self.assertIn(f"the saved claim default/c1 (UID {dropped[2]}) cannot be read", self.node.output())
        self.assertEqual(self.node.output().count("cannot be read"), 1)
        until(lambda: self.dra()["slices"] == 1, "devplugd-cluster to know the devices")
        self.assertEqual(self.prepare(kept, dropped), answer)

    def test_repairs(self):
        """Slices that others change, delete or add are put right; an outage and a wiped list lose nothing."""
        self.serve_api()
        self.begin(self.resource("gpu", count=200))
        wanted = self.await_pool(lambda pool: len(pool) == 200)

        def repaired():
            return self.api.pool() == wanted and len(self.api.slices) == 4

        name = next(iter(self.api.slices))
        self.api.change("DELETED", name)
        until(repaired, "the deleted slice")
        name = next(iter(self.api.slices))
        changed = json.loads(json.dumps(self.api.slices[name]))
        changed["spec"]["devices"] = changed["spec"]["devices"][1:]
        self.api.change("MODIFIED", name, changed)
        until(repaired, "the changed slice")
        self.api.change("ADDED", "00000-foreign", json.loads(json.dumps({
            **changed, "metadata": {"name": "00000-foreign"}})))
        until(repaired, "the foreign slice to be deleted")
        self.api.stop()
        self.api.slices.clear()
        self.api.start()
        until(repaired, "the slices after an outage")
        # A kubelet that starts deletes all, and registers the driver again.
        with self.api.lock:
            for name in list(self.api.slices):
                self.api.change("DELETED", name)
        self.kubelet.register(self.socket)
        until(repaired, "the slices after a restart of the kubelet")
        # A Node that was deleted and created again has another uid, and the garbage collector deletes what the old one owned.
        with self.api.lock:
            node = self.api.nodes["node-a"]["metadata"]["uid"] = "a-new-node"

        def collected():
            with self.api.lock:
                for name, found in list(self.api.slices.items()):
                    if found["metadata"]["ownerReferences"][0]["uid"] != node:
                        self.api.change("DELETED", name)
            return repaired()

        until(collected, "slices of the new Node")

    def test_credentials(self):
        """Files beside the kubeconfig, inside of it, and tokens; they rotate; they are in no log; other files stay out of
        reach."""
        self.serve_api()
        token = self.node.path("token")
        with open(token, "w") as file:
            file.write("secret-token\n")
        for options in ({"inline": True}, {"token": "secret-token"}, {"token_file": token}, {"token_file": "token"}):
            with self.subTest(options):
                self.api.kubeconfig(self.kubeconfig, **options)
                self.begin(self.resource("gpu"))
                until(lambda: self.dra()["slices"] == 1, "the slice")
                self.assertEqual(self.dra()["api_failure"], "")
                self.node.stop()
        self.begin(self.resource("gpu"))
        until(lambda: self.dra()["slices"] == 1, "the slice")
        self.api.tokens = {"newer-token": self.api.user}
        with open(token, "w") as file:
            file.write("newer-token")
        self.api.change("DELETED", next(iter(self.api.slices)))
        self.await_pool()
        os.unlink(token)
        self.assertTrue(runs_no_programs(self.process()))
        os.kill(self.process(), signal.SIGKILL)
        until(lambda: "no credentials" in self.dra()["api_failure"], "the missing token to be named")
        until(lambda: f"cannot read {token}" in self.node.output(), "the log to name it")
        self.assertNotIn("secret-token", self.node.output())
        self.assertNotIn("newer-token", self.node.output())

    def test_registration(self):
        """A kubelet that refuses, a removed socket, a directory that is not there yet."""
        self.serve_api()
        os.rmdir(self.registry)
        self.configure(self.resource("gpu"))
        self.node.start()
        until(lambda: self.dra() and "does not exist" in self.dra()["registration_failure"], "the reason")
        os.mkdir(self.registry)
        first = until(self.kubelet.find, "the socket")
        self.kubelet.register(first, error="wrong version")
        second = until(lambda: self.kubelet.find_other(first), "another socket")
        os.unlink(second)
        until(lambda: self.kubelet.find_other(second), "a third socket")
        self.register()
        until(lambda: self.dra()["registered"], "the registration")
        self.assertEqual(self.node.status()["resources"][0]["state"], "serving")

    def test_moves(self):
        """A resource moves from plugin to DRA and back by a reload; without DRA there is no process."""
        self.serve_api()
        self.configure(self.resource("gpu", serve="plugin"))
        self.node.start_kubelet()
        self.node.start()
        self.node.await_serving()
        self.assertIsNone(self.process())
        self.assertIsNone(self.dra())
        self.configure(self.resource("gpu"))
        self.node.reload()
        self.register()
        until(lambda: (r := self.node.status()["resources"][0])["state"] == "serving" and r["registration"] == "dra", "DRA")
        self.await_pool(lambda pool: len(pool) == 3)
        self.assertEqual(self.node.sockets(), [])
        self.configure(self.resource("gpu", serve="plugin"))
        self.node.reload()
        until(lambda: (r := self.node.status()["resources"][0])["state"] == "serving" and r["registration"] == "socket",
              "the plugin")
        until(lambda: not self.process(), "the end of devplugd-cluster")
        until(lambda: self.kubelet.sockets() == [], "its socket to be removed")

    def test_P2_refused_reload_changes_nothing(self):
        """What a child refuses changes neither what its claims may get, nor that it is served by DRA."""
        self.serve_api()
        self.begin(self.resource("gpu"))
        self.await_pool()
        gpus = [self.api.device_named("vendor.example/gpu", i) for i in range(3)]
        refused, claims = self.resource("gpu", 'host_root = "/nonexistent";'), []

        def prepare(i):
            claim = "default", f"c{i}", self.api.allocate(f"c{i}", DRIVER, [("a", gpus[i])])
            self.assertNotIsInstance(self.prepare(claim)[claim[2]], str)
            edits, = self.specification(claim[2]).values()
            self.assertEqual(edits["env"], [f"GPU=gpu-{i}"])
            claims.append(claim)

        def reload():
            self.node.reload()
            until(lambda: self.node.find("vendor.example/gpu")["refused"], "the child to refuse it")

        prepare(0)
        self.configure(refused.replace("GPU=", "OTHER="))
        reload()
        prepare(1)
        # Without a group `dra`, which is right for what was refused.
        self.node.configure(refused.replace('serve = "dra";', "").replace("GPU=", "OTHER="), text=f'cdi_dir = "{self.cdi}";',
                            kubelet=f'plugins_registry_dir = "{self.registry}";')
        reload()
        self.assertEqual(self.node.resource("vendor.example/gpu")["registration"], "dra")
        self.assertTrue(self.dra()["registered"])
        prepare(2)
        self.assertEqual(len(self.api.pool()), 3)
        # Accepted, it leaves DRA.
        self.unprepare(*claims)
        self.node.configure(self.resource("gpu", serve="plugin"), text=f'cdi_dir = "{self.cdi}";')
        self.node.start_kubelet()
        self.node.reload()
        self.node.await_allocatable(gpu=3)
        self.assertEqual(self.node.resource("vendor.example/gpu")["registration"], "socket")
        until(lambda: not self.process(), "devplugd-cluster to stop")

    def test_no_limit_of_a_list(self):
        """A resource that would exceed the 4 MiB of a list has no list when DRA serves it."""
        self.serve_api()
        device = "x" * 63
        text = (f'{{ name = "vendor.example/gpu"; driver = "static"; match = "{device}"; '
                'share = { replicas = 55000; }; serve = "%s"; }')
        self.configure(text % "plugin")
        self.assertEqual(self.run_tool("devplugd", "--check").returncode, 78)
        self.configure(text % "dra")
        answer = self.run_tool("devplugd", "--check")
        self.assertEqual((answer.returncode, answer.stderr), (0, ""))
        self.node.start()
        self.register()
        until(lambda: (r := self.node.find("vendor.example/gpu")) and r["state"] == "serving", "the resource to be served")
        until(lambda: self.api.slices, "the first devices to be published")

    def test_programs(self):
        """prestart runs before a claim is prepared; where it fails, the pod is told why."""
        self.serve_api()
        done = self.node.path("done")
        os.mkdir(done, 0o777)
        os.chmod(done, 0o777)
        self.begin(self.resource("gpu", f'prestart = {{ command = [ "/bin/mkdir", "{done}/${{id}}" ]; }};'))
        self.await_pool()
        claims = [("default", f"c{i}", self.api.allocate(
            f"c{i}", DRIVER, [("a", self.api.device_named("vendor.example/gpu", i))])) for i in range(2)]
        os.mkdir(os.path.join(done, "gpu-1"))
        answer = self.refusals(*claims)
        self.assertNotIsInstance(answer[claims[0][2]], str)
        self.assertEqual(sorted(os.listdir(done)), ["gpu-0", "gpu-1"])
        self.assertIn("prestart", answer[claims[1][2]])
        self.assertIn("File exists", answer[claims[1][2]])
        os.rmdir(os.path.join(done, "gpu-1"))
        self.assertNotIsInstance(self.prepare(claims[1])[claims[1][2]], str)

    def test_allocate_program(self):
        """A claim's file has what the resource's `allocate` program prints, but no variable of the dynamic loader."""
        self.serve_api()
        answer = {"version": 1, "env": {"LEASE": "7"}, "mounts": [{"host": self.node.dir, "path": "/lease"}]}
        program = self.node.path("allocate")

        def write():
            with open(program + ".new", "w") as file:
                file.write(f"#!/bin/sh\ncat > /dev/null\necho '{json.dumps(answer)}'\n")
            os.chmod(program + ".new", 0o755)
            os.rename(program + ".new", program)

        write()
        self.begin(self.resource("gpu", f'allocate = {{ command = ( "{program}" ); }};'))
        self.await_pool()
        claims = [("default", f"c{i}", self.api.allocate(
            f"c{i}", DRIVER, [("a", self.api.device_named("vendor.example/gpu", i))])) for i in range(2)]
        self.assertNotIsInstance(self.prepare(claims[0])[claims[0][2]], str)
        edits, = self.specification(claims[0][2]).values()
        self.assertEqual(sorted(edits["env"]), ["GPU=gpu-0", "LEASE=7"])
        self.assertEqual([(m["hostPath"], m["containerPath"]) for m in edits["mounts"]], [(self.node.dir, "/lease")])
        answer["env"] = {"LD_PRELOAD": "/lease/library"}
        write()
        self.assertIn("sets the variable LD_PRELOAD=/lease/library, which container.env does not name", self.prepare(claims[1])[claims[1][2]])

    def test_objects(self):
        """What devplugctl prints for kubectl is what the node publishes."""
        self.serve_api()
        self.begin(self.resource("gpu"), self.resource("plain", serve="plugin"))
        self.await_pool()
        until(lambda: self.dra()["slices"] == 1, "the slice to be known")
        printed = json.loads(self.ctl("dra", "slices").stdout)["items"]
        stored = list(self.api.slices.values())
        self.assertEqual([s["spec"] for s in printed], [s["spec"] for s in stored])
        classes = json.loads(self.ctl("dra", "classes").stdout)["items"]
        self.assertEqual([c["spec"]["extendedResourceName"] for c in classes], ["vendor.example/gpu"])
        self.assertEqual(classes[0]["metadata"]["name"], "gpu.vendor.example")
        self.assertIn('.resource == "vendor.example/gpu"', classes[0]["spec"]["selectors"][0]["cel"]["expression"])
        self.assertEqual(self.ctl("dra", "zork").returncode, 2)
        line = f"DRA driver {DRIVER} on node node-a: registered, 1 ResourceSlice of generation 1, 0 claims prepared."
        for words in (("status",), ("explain", "vendor.example/gpu")):
            self.assertIn(line, self.ctl(*words).stdout)
        self.assertNotIn(line, self.ctl("explain", "vendor.example/plain").stdout)

    def test_steps(self):
        """Claims, kills and outages in any order: no device is ever prepared for two claims, no file is left over."""
        self.serve_api()
        self.begin(self.resource("gpu", "share = { replicas = 3; };"))
        self.await_pool(lambda pool: len(pool) == 9)
        names = sorted(self.api.pool())
        chance, prepared, known = random.Random(SEED), {}, {}
        print(f"DEVPLUGD_TEST_SEED={SEED}")

        def claim():
            name, devices = f"c{len(known)}", chance.sample(names, chance.randint(1, 3))
            uid = self.api.allocate(name, DRIVER, [("r", device) for device in devices])
            known[uid] = ("default", name, uid), set(devices)

        def prepare():
            uid = chance.choice(list(known))
            answer = self.refusal(known[uid][0])
            taken = set().union(*(known[other][1] for other in prepared if other != uid))
            if known[uid][1] & taken:
                self.assertRegex(answer, "still prepared|cannot read the claim" if self.away else "still prepared")
            elif uid in prepared or not self.away:
                self.assertEqual({d["device"] for d in answer}, known[uid][1])
                prepared[uid] = True
            else:
                self.assertIsInstance(answer, str)

        def unprepare():
            uid = chance.choice(list(known))
            self.assertEqual(self.unprepare(known[uid][0])[uid], "")
            prepared.pop(uid, None)

        def kill():
            pid = self.process()
            os.kill(pid, signal.SIGKILL)
            until(lambda: self.process() not in (None, pid), "another devplugd-cluster")

        def restart():
            self.node.daemon.kill()
            self.node.daemon.wait()
            self.node.start()
            self.register_again()
            # What devices there are is told with the slices.
            until(lambda: self.node.status() and self.node.status()["resources"][0]["state"] == "serving", "the resource")

        def outage():
            (self.api.start if self.away else self.api.stop)()
            self.away = not self.away

        self.away = False
        for _ in range(int(os.environ.get("DEVPLUGD_TEST_DRA_STEPS") or scaled(60))):
            if not known:
                claim()
            chance.choices([claim, prepare, unprepare, kill, restart, outage], [5, 10, 6, 1, 1, 1])[0]()
            self.assertEqual(self.files(), sorted(f"devplugd.dra-{uid}.json" for uid in prepared))
        if self.away:
            outage()


class DraGpus(NvidiaHost, DraTest):
    GPUS = 0

    def await_ids(self, *ids):
        def healthy():
            return [name for name, (health, _) in self.health("gpu").items() if health == "Healthy"]

        until(lambda: healthy() == list(ids), f"the ids {ids}; last {healthy()}")

    def serve_gpus(self, *names):
        """Prepares a claim for the first of the GPUs. Returns the container edits."""
        self.host = self.node.path("host")
        self.load_driver("535.54.03")
        for number, name in enumerate(names):
            self.add_gpu(number, name)
        self.serve_api()
        self.begin('{ name = "vendor.example/gpu"; driver = "nvidia"; serve = "dra"; match = ( { libraries = false; } ); '
                   f'host_root = "{self.host}"; }}')
        self.await_pool(lambda pool: len(pool) == len(names))
        uid = self.api.allocate("c", DRIVER, [("a", self.api.device_named("vendor.example/gpu", 0))])
        answer = self.prepare(("default", "c", uid))[uid]
        self.assertNotIsInstance(answer, str, answer)
        return self.specification(uid)[answer[0]["cdi"][0]]

    def test_edits(self):
        edits = self.serve_gpus(uuid(0), uuid(1))
        self.assertEqual(edits["env"], ["NVIDIA_VISIBLE_DEVICES=void"])
        self.assertEqual(sorted(node["path"] for node in edits["deviceNodes"]),
                         ["/dev/nvidia-uvm", "/dev/nvidia0", "/dev/nvidiactl"])

    def test_unknown_uuid(self):
        """A GPU that a claim has keeps its id when its UUID becomes known, also in the next process; the others do not."""
        self.serve_gpus(UNKNOWN, UNKNOWN)
        for number in range(2):
            self.name_gpu(number, uuid(number))
        self.await_ids(address(0), uuid(1))
        # The state of the process is saved with this count.
        until(lambda: self.node.resource("vendor.example/gpu")["devices"][0]["allocations"] == 1, "the claim to be counted")
        process = self.node.find("vendor.example/gpu")["pid"]
        os.kill(process, signal.SIGKILL)
        until(lambda: self.node.find("vendor.example/gpu")["pid"] not in (0, process), "another process")
        # The second scan of it at the latest would find another id.
        for number in range(2, 4):
            self.add_gpu(number, uuid(number))
            self.await_ids(address(0), *(uuid(i) for i in range(1, number + 1)))


if __name__ == "__main__":
    unittest.main()
