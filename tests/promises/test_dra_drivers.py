# SPDX-License-Identifier: Apache-2.0
"""Resources with a DRA driver name of their own: each name has its registration, its pool and its claims."""
import concurrent.futures
import json
import os
import signal
import socket
import subprocess
import unittest

from cleaning_node import CleaningProgram
from dra_consumers import read_metadata
from dra_kubelet import HealthStream
from dra_node import DRIVER, METADATA, DraPodTest, DraTest
from node import program, until

OTHER = "gpu.vendor.example"
OF_OTHER = f'dra = {{ driver = "{OTHER}"; }};'


class Drivers(CleaningProgram, DraTest):
    """The default driver has vendor.example/fpga, and the other one vendor.example/gpu."""

    def begin_both(self):
        self.serve_api()
        self.configure(self.resource("fpga"), self.resource("gpu", OF_OTHER))
        self.node.start()
        self.register_both()
        self.await_pools({DRIVER: 3, OTHER: 3})

    def register_both(self, than=None):
        """`than`: the sockets of before."""
        def find(name):
            found = self.kubelet.find(name)
            return found if found not in (than or {}).values() else None

        self.sockets = {}
        for name in (DRIVER, OTHER):
            self.sockets[name] = until(lambda: find(name), f"the socket of {name}")
            self.kubelet.register(self.sockets[name])
        until(lambda: all(driver["registered"] for driver in self.drivers().values()), "the registrations to be seen")

    def drivers(self):
        return {driver["driver"]: driver for driver in (self.dra() or {"drivers": []})["drivers"]}

    def pools(self):
        """The devices of each driver, by the id."""
        with self.api.lock:
            slices = list(self.api.slices.values())
        pools = {}
        for spec in (item["spec"] for item in slices):
            pools.setdefault(spec["driver"], {}).update(
                {device["attributes"]["id"]["string"]: device for device in spec.get("devices", [])})
        return pools

    def await_pools(self, counts):
        return until(lambda: (pools := self.pools()) and {name: len(pool) for name, pool in pools.items()} == counts and pools,
                     f"pools with {counts}")

    def name_of(self, driver, number):
        """The name of a device of the driver's resource."""
        return next(device["name"] for name, device in self.pools()[driver].items() if name.endswith(f"-{number}"))

    def claim(self, name, *devices):
        """`devices` are (driver, name)."""
        return "default", name, self.api.allocate(name, None, [(f"r{i}", device, driver) for i, (driver, device) in enumerate(devices)])

    def prepare_by(self, driver, claim, **options):
        """The devices, or the error."""
        answer = self.kubelet.prepare(self.sockets[driver], claim, **options)[claim[2]]
        return answer if isinstance(answer, str) else [device["device"] for device in answer]

    def unprepare_by(self, driver, claim):
        self.assertEqual(self.kubelet.unprepare(self.sockets[driver], claim), {claim[2]: ""})

    def run_check(self):
        return subprocess.run([program("devplugd"), "-c", self.node.config, "--check"], capture_output=True, text=True,
                              timeout=60).stderr

    def test_registrations_and_pools(self):
        self.serve_api()
        self.configure(self.resource("fpga"), self.resource("gpu", OF_OTHER))
        self.node.start()
        first, second = (until(lambda: self.kubelet.find(name), name) for name in (DRIVER, OTHER))
        self.assertNotEqual(self.kubelet.service(first), self.kubelet.service(second))
        # A resource is served when its own driver is registered.
        self.kubelet.register(second)
        self.node.await_state("vendor.example/gpu", "serving")
        self.assertEqual(self.node.find("vendor.example/fpga")["state"], "waiting")
        self.kubelet.register(first)
        self.node.await_state("vendor.example/fpga", "serving")
        pools = self.await_pools({DRIVER: 3, OTHER: 3})
        self.assertEqual({name: {device["attributes"]["resource"]["string"] for device in pool.values()} for name, pool in pools.items()},
                         {DRIVER: {"vendor.example/fpga"}, OTHER: {"vendor.example/gpu"}})
        for name in ("fpga", "gpu"):
            self.assertEqual(self.ctl("wait", f"vendor.example/{name}").returncode, 0)

        # A taint has the domain of its driver, and the other pool stays as it is.
        before = {name: item["spec"]["pool"]["generation"] for name, item in self.api.slices.items() if item["spec"]["driver"] == DRIVER}
        self.assertEqual(self.ctl("cordon", "vendor.example/gpu/gpu-1").returncode, 0)
        until(lambda: self.pools()[OTHER]["gpu-1"].get("taints"), "the taint")
        self.assertEqual(self.pools()[OTHER]["gpu-1"]["taints"][0]["key"], f"{OTHER}/cordoned")
        self.assertEqual({name: self.api.slices[name]["spec"]["pool"]["generation"] for name in before}, before)
        self.assertEqual(self.ctl("uncordon", "vendor.example/gpu/gpu-1").returncode, 0)
        until(lambda: not self.pools()[OTHER]["gpu-1"].get("taints"), "the taint to end")

        # Each socket reports the health of its own devices.
        for path, pool in ((first, pools[DRIVER]), (second, pools[OTHER])):
            stream = HealthStream(self.kubelet.service(path), "v1")
            self.addCleanup(stream.close)
            self.assertEqual(set(stream.next()), {device["name"] for device in pool.values()})

        # For people.
        expressions = {item["spec"]["extendedResourceName"]: item["spec"]["selectors"][0]["cel"]["expression"]
                       for item in json.loads(self.ctl("dra", "classes").stdout)["items"]}
        for name, driver in (("fpga", DRIVER), ("gpu", OTHER)):
            self.assertIn(f'device.driver == "{driver}" && device.attributes["{driver}"].resource', expressions[f"vendor.example/{name}"])
        printed = json.loads(self.ctl("dra", "slices").stdout)["items"]
        self.assertEqual({item["spec"]["driver"]: [device["name"] for device in item["spec"]["devices"]] for item in printed},
                         {item["spec"]["driver"]: [device["name"] for device in item["spec"]["devices"]]
                          for item in self.api.slices.values()})
        until(lambda: all(driver["slices"] == 1 for driver in self.drivers().values()), "the slices to be known")
        line = "DRA driver {} on node node-a: registered, 1 ResourceSlice of generation 1, 0 claims prepared."
        lines = self.ctl("status").stdout.splitlines()
        self.assertEqual([shown for shown in lines if shown.startswith("DRA driver ")], [line.format(DRIVER), line.format(OTHER)])
        self.assertEqual(len([shown for shown in lines if shown.startswith("  identity: ")]), 1)
        explained = self.ctl("explain", "vendor.example/gpu").stdout
        self.assertIn(line.format(OTHER), explained)
        self.assertNotIn(DRIVER, explained)
        self.assertEqual((self.dra()["driver"], self.drivers()[DRIVER]["resources"], self.drivers()[OTHER]["resources"]),
                         (DRIVER, ["vendor.example/fpga"], ["vendor.example/gpu"]))
        self.assertEqual(self.node.resource("vendor.example/gpu")["dra_driver"], OTHER)

    def test_without_a_default(self):
        """The name at the top of the file is not needed if each resource has its own."""
        self.serve_api()
        self.configure(self.resource("gpu", OF_OTHER))
        with open(self.node.config) as file:
            text = file.read()
        with open(self.node.config, "w") as file:
            file.write(text.replace(f'driver = "{DRIVER}";', ""))
        self.node.start()
        self.kubelet.register(until(lambda: self.kubelet.find(OTHER), "the socket"))
        self.await_pools({OTHER: 3})
        self.node.await_state("vendor.example/gpu", "serving")
        self.assertEqual(self.dra()["driver"], OTHER)
        with open(self.node.config, "w") as file:
            file.write(text.replace(f'driver = "{DRIVER}";', "").replace(OF_OTHER, ""))
        self.assertIn("needs a driver's name", self.run_check())

    def test_claim_of_both(self):
        """Each driver prepares its own devices of a claim, and what one does leaves the devices of the other alone."""
        self.begin_both()
        fpga, gpu = self.name_of(DRIVER, 0), self.name_of(OTHER, 0)
        claim = self.claim("both", (DRIVER, fpga), (OTHER, gpu))
        self.assertEqual(self.prepare_by(DRIVER, claim), [fpga])
        self.assertEqual(self.files(), [f"devplugd.dra-{claim[2]}.json"])
        self.assertEqual(self.prepare_by(OTHER, claim), [gpu])
        files = [f"devplugd.dra-{claim[2]}.{OTHER}.json", f"devplugd.dra-{claim[2]}.json"]
        self.assertEqual(self.files(), files)
        self.assertEqual([edits["env"] for edits in self.specification(claim[2]).values()], [["FPGA=fpga-0"]])
        self.assertEqual([edits["env"] for edits in self.specification(f"{claim[2]}.{OTHER}").values()], [["GPU=gpu-0"]])
        thief = self.claim("thief", (OTHER, gpu))
        self.assertIn("still prepared for the claim default/both", self.prepare_by(OTHER, thief, deadline=6))

        # The process, and then the daemon, is another one.
        os.kill(self.process(), signal.SIGKILL)
        self.assertEqual((self.prepare_by(DRIVER, claim), self.prepare_by(OTHER, claim)), ([fpga], [gpu]))
        before = self.sockets
        self.node.stop()
        self.assertEqual(self.files(), files)
        self.node.start()
        self.register_both(before)
        self.assertEqual(self.files(), files)
        until(lambda: [driver["claims"] for driver in self.drivers().values()] == [1, 1], "the claims")
        held = {holder["driver"] for name in ("fpga", "gpu") for device in self.node.resource(f"vendor.example/{name}")["devices"]
                for holder in device["claims"]}
        self.assertEqual(held, {DRIVER, OTHER})

        self.unprepare_by(DRIVER, claim)
        self.assertEqual(self.files(), files[:1])
        self.assertEqual(self.prepare_by(OTHER, claim), [gpu])
        self.assertIn("still prepared for the claim default/both", self.prepare_by(OTHER, thief, deadline=6))
        self.unprepare_by(OTHER, claim)
        self.assertEqual(self.files(), [])
        self.assertEqual(self.prepare_by(OTHER, thief), [gpu])

    def test_devices_of_both_are_cleaned_after_their_own_programs(self):
        """The end of what one driver runs for a claim says nothing about the devices of the other."""
        self.add_program()
        prestart = self.script("prestart", f"echo >{self.folder}/begun\nuntil [ -e {self.folder}/go ]; do sleep 0.05; done\n")
        self.addCleanup(self.mark, "go")
        self.serve_api()
        self.configure(self.resource("fpga", self.release()), self.resource(
            "gpu", OF_OTHER + self.release() + f'prestart = {{ command = [ "{prestart}" ]; timeout = 25; }};'))
        self.node.start()
        self.register_both()
        self.await_pools({DRIVER: 3, OTHER: 3})
        gpu, fpga, another = self.name_of(OTHER, 0), self.name_of(DRIVER, 0), self.name_of(DRIVER, 1)
        both, other = self.claim("both", (OTHER, gpu), (DRIVER, fpga)), self.claim("other", (DRIVER, another))
        with concurrent.futures.ThreadPoolExecutor(1) as threads:
            call = threads.submit(self.prepare_by, OTHER, both)
            until(lambda: os.path.exists(f"{self.folder}/begun"), "the program of the claim to run")
            self.assertEqual(self.prepare_by(DRIVER, both), [fpga])
            self.assertEqual(self.prepare_by(DRIVER, other), [another])
            self.unprepare_by(DRIVER, other)
            self.assertEqual(self.log(), ["begin fpga-1", "end fpga-1"])
            self.mark("go")
            self.assertEqual(call.result(), [gpu])

    def test_metadata_of_both(self):
        """One request with devices of two drivers: a file for each, with its own devices, and each mounted once."""
        self.begin_both()
        names = {DRIVER: self.name_of(DRIVER, 0), OTHER: self.name_of(OTHER, 0)}
        claim = "default", "both", self.api.allocate("both", None, [("r", device, driver) for driver, device in names.items()])
        found = {}
        for driver, name in names.items():
            self.assertEqual(self.prepare_by(driver, claim), [name])
            found.update(self.metadata(claim[2] if driver == DRIVER else f"{claim[2]}.{driver}"))
        self.assertEqual({path: [(device["driver"], device["name"]) for device in read_metadata(text)["requests"][0]["devices"]]
                          for path, text in found.items()},
                         {f"{METADATA}/resourceclaims/both/r/{driver}-metadata.json": [(driver, name)] for driver, name in names.items()})

    def test_P21_another_driver(self):
        """A resource gets another driver: a device that a claim holds stays in the pool of the former one, and the new one does not
        offer it before the claim has ended. The former driver ends when nothing needs it."""
        self.serve_api()
        self.begin(self.resource("fpga"))
        self.sockets = {DRIVER: self.socket}
        self.await_pools({DRIVER: 3})
        name = self.name_of(DRIVER, 1)
        claim = self.claim("held", (DRIVER, name))
        self.assertEqual(self.prepare_by(DRIVER, claim), [name])
        self.configure(self.resource("fpga", OF_OTHER))
        self.node.reload()
        self.sockets[OTHER] = until(lambda: self.kubelet.find(OTHER), "the socket of the new driver")
        self.assertEqual(self.node.find("vendor.example/fpga")["state"], "waiting")
        self.kubelet.register(self.sockets[OTHER])
        self.node.await_state("vendor.example/fpga", "serving")

        def expect_moved():
            pools = self.await_pools({DRIVER: 1, OTHER: 2})
            self.assertEqual([taint["key"] for taint in pools[DRIVER]["fpga-1"]["taints"]], [f"{DRIVER}/missing"])
            self.assertEqual(set(pools[OTHER]), {"fpga-0", "fpga-2"})

        expect_moved()
        self.assertEqual(self.ctl("wait", "vendor.example/fpga").returncode, 0)
        # Whatever was allocated meanwhile: the claim has the device.
        thief = self.claim("thief", (OTHER, name))
        self.assertIn("still prepared for the claim default/held", self.prepare_by(OTHER, thief, deadline=6))
        self.assertEqual(self.prepare_by(DRIVER, claim), [name])
        # The next daemon has the former driver, too, although the file does not name it for any resource.
        before = self.sockets
        self.node.stop()
        self.node.start()
        self.register_both(before)
        expect_moved()
        # Its claim is prepared again after a restart of the host.
        self.node.stop()
        self.change_saved(claim[2], lambda saved: saved.update(boot="00000000-0000-0000-0000-000000000000"))
        before = self.sockets
        self.node.start()
        self.register_both(before)
        expect_moved()
        self.assertEqual(self.files(), [])
        until(lambda: self.prepare_by(DRIVER, claim) == [name], "the claim to be prepared again")
        self.assertEqual(self.files(), [f"devplugd.dra-{claim[2]}.json"])

        process = self.process()
        self.unprepare_by(DRIVER, claim)
        pools = self.await_pools({DRIVER: 0, OTHER: 3})
        self.assertNotIn("taints", pools[OTHER]["fpga-1"])
        self.assertEqual(self.prepare_by(OTHER, thief), [name])
        until(lambda: set(self.drivers()) == {OTHER}, "the former driver to end", limit=180)
        until(lambda: self.process() not in (None, process), "another process")
        self.assertIsNone(self.kubelet.find(DRIVER))
        self.assertEqual(self.prepare_by(OTHER, thief), [name])

    def test_check(self):
        """A socket of another program that has the name, unless that program is dead."""
        self.serve_api()
        self.configure(self.resource("fpga"), self.resource("gpu", OF_OTHER))
        uid = "12345678-1234-1234-1234-123456789abc"
        for name, warned in ((f"{OTHER}-reg.sock", OTHER), (f"{DRIVER}-{uid}-reg.sock", DRIVER), (f"{OTHER}-x-reg.sock", None),
                             ("gpu.other.example-reg.sock", None)):
            path = os.path.join(self.registry, name)
            with self.subTest(name), socket.socket(socket.AF_UNIX) as listener:
                listener.bind(path)
                listener.listen()
                warnings = [line for line in self.run_check().splitlines() if "another program registers" in line]
                self.assertEqual(len(warnings), warned is not None, warnings)
                if warned:
                    self.assertIn(f'the DRA driver "{warned}"', warnings[0])
                    self.assertIn(path, warnings[0])
            self.assertNotIn("another program registers", self.run_check())
            os.unlink(path)
        self.node.start()
        until(lambda: self.kubelet.find(OTHER), "the socket of devplugd")
        self.assertNotIn("another program registers", self.run_check())


class Pods(DraPodTest):
    def test_pod_with_devices_of_both(self):
        self.serve_api()
        self.begin(self.resource("fpga"), self.resource("gpu", OF_OTHER), pods=True)
        until(lambda: len(self.api.pool() or {}) == 6, "the devices")
        self.api.apply(self.ctl("dra", "classes").stdout)
        until(lambda: len(self.node.kubelet_status()["drivers"]) == 2, "both drivers")
        claim = self.api.schedule("c", [("fpga", "fpga.vendor.example", 1), ("gpu", "gpu.vendor.example", 2)])
        pod = self.pod("trainer", claim)
        self.assertEqual((pod["phase"], pod.get("reason")), ("Running", None))
        edits = self.edits(pod["container"])
        self.assertEqual((set(edits), len(edits["GPU"].split(","))), ({"FPGA", "GPU"}, 2))
        for name, count in (("fpga", 1), ("gpu", 2)):
            until(lambda: self.node.resource(f"vendor.example/{name}")["in_use"] == count, "the devices of the pod")
        limits = self.api.schedule_limits("second", [{"vendor.example/gpu": 1}])
        second = self.pod("second", limits, limits=["a:vendor.example/gpu=1"])
        self.assertEqual(second["phase"], "Running")
        for name, released in (("trainer", claim), ("second", limits)):
            self.assertEqual(self.remove(name), "")
            self.api.release(released)
        self.assertEqual(self.files(), [])


if __name__ == "__main__":
    unittest.main()
