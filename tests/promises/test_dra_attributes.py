# SPDX-License-Identifier: Apache-2.0
"""What DRA publishes of devices: only what lasts, attributes of the administrator's choice, and what other projects read."""
import json
import os
import unittest

from dra_consumers import NETWORK_RESOURCE, Multus, Unreadable, dcgm_labels, kubevirt_host_device
from dra_node import DRIVER, DraTest
from locked_file import LockedFile
from node import LIMIT, until
from numbered_host import GPU_UUID, MDEV, RESOURCES, NumberedHost
from nvidia_host import NvidiaHost, uuid

STANDARD = "resource.kubernetes.io"
CNI = "k8s.cni.cncf.io"
PROGRAM = """#!/bin/sh
echo '{"version": 1, "devices": [{"id": "seat-1", "properties": {"SEAT": "7", "memory": "2Gi"}}]}'
"""


def values(attributes):
    return {name: next(iter(value.values())) for name, value in attributes.items()}


class Hardware(DraTest):
    """Nodes with hardware for each driver."""

    def machine(self, name, shift, *resources, more=""):
        """The declarations of resources on a host of this name."""
        root, program = self.node.path(name), self.node.path("print-seats")
        self.host = NumberedHost(root, shift)
        with open(program, "w") as file:
            file.write(PROGRAM)
        os.chmod(program, 0o755)
        # A program runs on the real host.
        return [f'{{ name = "vendor.example/{key}"; {RESOURCES[key].replace("PROGRAM", program)} serve = "dra"; {more} '
                + ("}" if key == "licence" else f'host_root = "{root}"; }}') for key in resources or RESOURCES]

    def by_resource(self, slices, count):
        """Devices of this many resources, each with all devices; None: not all are there."""
        found = {}
        for item in slices:
            for device in item["spec"].get("devices") or []:
                found.setdefault(values(device["attributes"])["resource"].split("/")[1], []).append(device)
        return len(found) == count and found

    def printed(self, count):
        def look():
            answer = self.ctl("dra", "slices")
            return answer.returncode == 0 and self.by_resource(json.loads(answer.stdout)["items"], count)

        return until(look, "the devices of all resources")

    def stored(self, count):
        return until(lambda: self.by_resource(list(self.api.slices.values()), count), "the devices of all resources")

    def test_nothing_that_changes(self):
        """Hosts whose kernels have numbered the same hardware in another order publish the same."""
        found = []
        for shift in (0, 7):
            self.configure(*self.machine(f"host-{shift}", shift))
            self.node.start()
            found.append(self.printed(len(RESOURCES)))
            self.node.stop()
        for name in RESOURCES:
            with self.subTest(name):
                self.assertEqual(found[0][name], found[1][name])
        devices = {name: values(listed[0]["attributes"]) for name, listed in found[0].items()}
        own = {name: attributes[f"{STANDARD}/pciBusID"] for name, attributes in devices.items() if f"{STANDARD}/pciBusID" in attributes}
        self.assertEqual(own, {"gpu": "0000:03:00.0", "vm": "0000:04:00.0", "dpdk": "0000:05:00.0", "vf": "0000:07:00.1",
                               "cuda": "0000:08:00.0", "npu": "0000:09:00.0", "roce": "0000:0a:00.0"})
        for name, attributes in devices.items():
            self.assertEqual(attributes[f"{CNI}/deviceID"], own.get(name, attributes["id"]))
            self.assertEqual(attributes[f"{CNI}/resourceName"], f"vendor.example/{name}")
        # The controller of a camera belongs to other devices, too; its place does not change.
        self.assertEqual((devices["camera"][f"{STANDARD}/pcieRoot"], devices["camera"][f"{STANDARD}/numaNode"]), ("pci0000:00", 0))
        self.assertEqual(found[0]["cuda"][0]["attributes"]["driverVersion"], {"version": "535.54.3"})
        self.assertEqual((devices["cuda"]["type"], devices["cuda"]["uuid"]), ("gpu", GPU_UUID))
        self.assertNotIn("parentUUID", devices["cuda"])
        self.assertEqual(found[0]["licence"][0]["capacity"], {"memory": {"value": "2Gi"}})

    def test_list_of_nodes(self):
        """The NUMA node is a list where the configuration says so, and one number where the server refuses lists."""
        for gate, wanted in ((True, {"ints": [1, 0]}), (False, {"int": 1})):
            with self.subTest(gate=gate):
                self.serve_api(release="1.37", features={"DRAListTypeAttributes": True} if gate else {})
                self.configure(*self.machine(f"host-{gate}", 0, "gpu", "licence", more="dra = { numa_list = true; };"))
                for name, text in {"node/online": "0-1", "node/node0/cpulist": "0", "node/node1/cpulist": "1", "node/node0/distance": "10 12",
                                   "node/node1/distance": "12 10", "cpu/cpu0/topology/physical_package_id": "0",
                                   "cpu/cpu1/topology/physical_package_id": "0"}.items():
                    self.host.file(f"/sys/devices/system/{name}", text)
                self.node.start()
                until(lambda: (devices := self.by_resource(list(self.api.slices.values()), 2))
                      and devices["gpu"][0]["attributes"][f"{STANDARD}/numaNode"] == wanted, f"the NUMA node {wanted}")
                until(lambda: any("DRAListTypeAttributes" in text for text in self.dra()["lacks"]) != gate, "what the server lacks")
                self.assertEqual(self.dra()["api_failure"], "")
                self.assertEqual(self.printed(2)["gpu"][0]["attributes"][f"{STANDARD}/numaNode"], wanted)
                self.node.stop()
                self.api.stop()

    def test_two_networks(self):
        """A pod with a GPU and two network functions: Multus finds the function of each network."""
        self.serve_api()
        self.configure(*self.machine("host", 0, "gpu", "vf", "roce", "camera"))
        self.node.start()
        devices = self.stored(4)
        results = [(name, DRIVER, devices[name][0]["name"]) for name in devices]
        for name in devices:
            self.api.allocate(name, DRIVER, [(name, devices[name][0]["name"])])
        claims = [self.api.claims["default", name] for name in devices]
        self.assertEqual(len(results), 4)
        slices = list(self.api.slices.values())
        multus = Multus(slices, claims)
        for name, address in (("roce", "0000:0a:00.0"), ("vf", "0000:07:00.1")):
            network = {"metadata": {"name": name, "annotations": {NETWORK_RESOURCE: f"vendor.example/{name}"}}}
            self.assertEqual(multus.device_for(network), address)
            self.assertRaises(Unreadable, multus.device_for, network)

    def test_virtual_machines(self):
        """KubeVirt finds the mediated device before its parent, and a function that is passed through."""
        self.configure(*self.machine("host", 0, "vm", "vgpu", "camera"))
        self.node.start()
        devices = {name: listed[0]["attributes"] for name, listed in self.printed(3).items()}
        self.assertEqual(kubevirt_host_device(devices["vgpu"]), ("mdev", MDEV))
        self.assertEqual(kubevirt_host_device(devices["vm"]), ("pci", "0000:04:00.0"))
        self.assertRaises(Unreadable, kubevirt_host_device, devices["camera"])

    def test_order(self):
        """The scheduler takes the first devices that fit, so `prefer` sorts them, and a restart does not change their order."""
        self.serve_api()
        lines = [self.resource(name, f'share = {{ replicas = 2; }}; prefer = "{name}";') for name in ("packed", "spread")]
        self.configure(*lines)

        def order():
            found = self.stored(2)
            return {name: [values(device["attributes"])["id"] for device in listed] for name, listed in found.items()}

        wanted = {"packed": ["packed-0", "packed-0", "packed-1", "packed-1", "packed-2", "packed-2"],
                  "spread": ["spread-0", "spread-1", "spread-2"] * 2}
        self.node.start()
        self.assertEqual(order(), wanted)
        versions = {name: item["metadata"]["resourceVersion"] for name, item in self.api.slices.items()}
        self.node.stop()
        self.node.start()
        until(lambda: (dra := self.dra()) and dra["generation"], "the slices to be compared")
        self.assertEqual({name: item["metadata"]["resourceVersion"] for name, item in self.api.slices.items()}, versions)
        self.assertEqual(self.by_resource(json.loads(self.ctl("dra", "slices").stdout)["items"], 2), self.stored(2))

    def test_configured(self):
        """Types, names and templates of the configuration; what a device does not have is left out with the reason."""
        self.serve_api()
        attributes = ('{ name = "firmware"; type = "version"; value = "${attr:fw_ver}"; }, { name = "lanes"; type = "int"; value = "0x10"; }, '
                      '{ name = "ecc"; type = "bool"; value = "${attr:ecc}"; }, { name = "board"; value = "${vendor}:${device}"; }, '
                      f'{{ name = "{CNI}/deviceID"; value = "pci-${{bdf}}"; }}, {{ name = "vendor"; type = "int"; value = "${{attr:vendor}}"; }}')
        lines = self.machine("host", 0, "vm", more=f"topology = false; dra = {{ attributes = ( {attributes} ); }};")
        function = self.node.path("host/sys/devices/pci0000:00/0000:00:01.0/0000:04:00.0")
        for name, text in (("fw_ver", "v2.01\n"), ("ecc", "Y\n")):
            with open(f"{function}/{name}", "w") as file:
                file.write(text)
        self.configure(*lines)
        self.node.start()
        found = self.stored(1)["vm"][0]["attributes"]
        wanted = {"firmware": {"version": "2.1.0"}, "lanes": {"int": 16}, "ecc": {"bool": True}, "board": {"string": "0x10de:0x1eb8"},
                  f"{CNI}/deviceID": {"string": "pci-0000:04:00.0"}, "vendor": {"int": 4318},
                  f"{STANDARD}/pciBusID": {"string": "0000:04:00.0"}, "device": {"string": "0x1eb8"}}
        self.assertEqual({name: found.get(name) for name in wanted}, wanted)
        self.assertNotIn(f"{STANDARD}/numaNode", found)
        self.assertEqual(self.node.status()["resources"][0]["scan_notes"], [])

        # The device changes while the daemon runs.
        with open(f"{function}/fw_ver", "w") as file:
            file.write("A00\n")
        os.unlink(f"{function}/ecc")
        self.assertEqual(self.ctl("rescan", "vendor.example/vm").returncode, 0)
        until(lambda: not {"firmware", "ecc"} & set(self.stored(1)["vm"][0]["attributes"]), "both to be left out")
        self.assertEqual(self.stored(1)["vm"][0]["attributes"]["lanes"], {"int": 16})
        text = self.ctl("status").stdout
        text = " ".join(text.split())
        for line in ('devices without the attribute "firmware": 1, such as 0000:04:00.0: the value is not a version such as "2.1.0": "A00"',
                     'devices without the attribute "ecc": 1, such as 0000:04:00.0: "${attr:ecc}" has no value here'):
            self.assertIn(line, text)

        # Another device without them changes the numbers only, which is not logged again.
        lines = self.node.output().count('devices without the attribute "ecc"')
        self.host.function("0000:04:00.1", "vfio-pci", "0x10de", "0x1eb8", "0x030200")
        self.host.group("pci0000:00/0000:00:01.0/0000:04:00.1", 50)
        until(lambda: 'devices without the attribute "ecc": 2' in " ".join(self.ctl("status").stdout.split()), "both devices")
        self.assertEqual(self.node.output().count('devices without the attribute "ecc"'), lines)

    @unittest.skipUnless(os.path.exists("/dev/fuse"), "needs FUSE")
    def test_locked(self):
        """While a driver has locked the device, its attribute keeps the value."""
        lines = self.machine("host", 0, "vm", more='dra = { attributes = ( { name = "firmware"; value = "${attr:driver_override}"; } ); };')
        function = self.node.path("host/sys/devices/pci0000:00/0000:00:01.0/0000:04:00.0")
        file = LockedFile(f"{function}/driver_override", "A01\n", locked=False)
        self.addCleanup(file.close)
        self.configure(*lines)
        self.node.start()

        def firmware():
            return values(self.printed(1)["vm"][0]["attributes"]).get("firmware")

        self.assertEqual(firmware(), "A01")
        file.lock()
        self.host.function("0000:04:00.1", "vfio-pci", "0x10de", "0x1eb8", "0x030200")
        self.host.group("pci0000:00/0000:00:01.0/0000:04:00.1", 50)
        self.assertTrue(file.await_reader(LIMIT))

        def firmwares():
            return {values(d["attributes"])["id"]: values(d["attributes"]).get("firmware") for d in self.printed(1)["vm"]}

        until(lambda: len(firmwares()) == 2, "the other function")
        self.assertEqual(firmwares(), {"0000:04:00.0": "A01", "0000:04:00.1": None})
        file.data = b"A02\n"
        file.unlock()
        until(lambda: firmwares()["0000:04:00.0"] == "A02", "the new value")


class Exporter(NvidiaHost, DraTest):
    GPUS = 2

    def test_labels(self):
        """dcgm-exporter reads slices of gpu.nvidia.com only, and finds a GPU and an instance."""
        self.prepare_host(self.node)
        instance = "MIG-00000001-0000-0000-0000-000000000000"
        self.split((1, instance))
        self.serve_api()
        self.configure('{ name = "nvidia.com/gpu"; driver = "nvidia"; match = ( { libraries = false; } ); serve = "dra"; '
                       'dra = { driver = "gpu.nvidia.com"; }; health = ( { probe = "nvml"; interval = 0.2; } ); }',
                       self.resource("other"), text=f'host_root = "{self.host}";')
        self.node.start()

        def known():
            found = {d["attributes"]["id"]["string"]: name for name, d in (self.api.pool() or {}).items() if "profile" in d["attributes"]
                     or d["attributes"].get("type", {}).get("string") == "gpu"}
            return instance in found and uuid(1) in found and found

        devices = until(known, "both devices")
        self.api.allocate("c", "gpu.nvidia.com", [("a", devices[uuid(1)]), ("b", devices[instance])])
        labels = dcgm_labels(list(self.api.slices.values()), [self.api.claims["default", "c"]])
        self.assertEqual(labels, [(uuid(1),), (uuid(0), instance, "1g.10gb")])
        attributes = self.api.pool()[devices[instance]]["attributes"]
        self.assertNotIn(f"{STANDARD}/pciBusID", attributes)


if __name__ == "__main__":
    unittest.main()
