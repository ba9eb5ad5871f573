# SPDX-License-Identifier: Apache-2.0
"""Metadata that containers read of their devices (KEP-5304)."""
import glob
import json
import os
import shutil
import signal
import stat
import unittest

from dra_consumers import Unreadable, kubevirt_metadata, read_metadata
from dra_node import DRIVER, METADATA, DraTest
from node import remove_tree, until
from numbered_host import MDEV, RESOURCES, NumberedHost

OTHER_BOOT = "00000000-0000-0000-0000-000000000000"
TEMPLATE = "resource.kubernetes.io/pod-claim-name"


class MetadataTest(DraTest):
    def claim(self, name, *requests, **options):
        """`requests` are (request, resource, number of the device)."""
        devices = [(request, self.api.device_named(f"vendor.example/{resource}", number)) for request, resource, number in requests]
        return "default", name, self.api.allocate(name, DRIVER, devices, **options)

    def attributes(self, resource, number):
        return self.api.pool()[self.api.device_named(f"vendor.example/{resource}", number)]["attributes"]

    def device(self, resource, number):
        return {"driver": DRIVER, "pool": "node-a", "name": self.api.device_named(f"vendor.example/{resource}", number),
                "attributes": self.attributes(resource, number)}

    def hosts(self):
        """The files of all claims on the host."""
        return sorted(glob.glob(os.path.join(self.cdi, "devplugd.metadata", "*.json")))

    def one(self, claim):
        """The only file of a claim, as its containers read it."""
        (path, text), = self.metadata(claim[2]).items()
        return path, read_metadata(text)

    def begin_two(self):
        self.serve_api()
        self.begin(self.resource("gpu"), self.resource("fpga"))
        self.await_pool(lambda pool: len(pool) == 6)

    def start(self):
        self.node.start()
        self.register_again()
        until(lambda: self.dra()["slices"] == 1, "devplugd-cluster to know the devices")


class DraMetadata(MetadataTest):
    def test_forms(self):
        """Each member, for a claim from a template with an alternative, and for one that the pod names. A request that two
        resources serve has one file, which the edits of its first device mount."""
        self.begin_two()
        template = self.claim("train-gpus-x7k2p", ("big/large", "fpga", 0), ("big/large", "gpu", 1), annotations={TEMPLATE: "gpus"})
        named = self.claim("named", ("a", "gpu", 0), ("b", "gpu", 2))
        answer = self.prepare(template, named)
        (path, text), = self.metadata(template[2]).items()
        self.assertEqual(path, f"{METADATA}/resourceclaimtemplates/gpus/big/{DRIVER}-metadata.json")
        wanted = {"apiVersion": "metadata.resource.k8s.io/v1beta1", "kind": "DeviceMetadata",
                  "metadata": {"name": "train-gpus-x7k2p", "namespace": "default", "uid": template[2], "generation": 1},
                  "podClaimName": "gpus",
                  "requests": [{"name": "big/large", "devices": [self.device("fpga", 0), self.device("gpu", 1)]}]}
        newest, older = map(json.loads, text.splitlines())
        self.assertTrue(text.endswith("\n"))
        self.assertEqual(newest, wanted)
        self.assertEqual(older, {**wanted, "apiVersion": "metadata.resource.k8s.io/v1alpha1"})
        self.assertEqual(list(newest), ["apiVersion", "kind", "metadata", "podClaimName", "requests"])
        self.assertIn("id", newest["requests"][0]["devices"][0]["attributes"])

        # Only one of the two CDI devices of the request mounts it, and there is no CDI device for it alone.
        edits = self.document(template[2])
        (first,), (second,) = [device["cdi"] for device in answer[template[2]]]
        self.assertEqual([len(edits[name].get("mounts", [])) for name in (first, second)], [1, 0])
        self.assertEqual(len(edits), 2)
        found = {path: read_metadata(text)["requests"] for path, text in self.metadata(named[2]).items()}
        self.assertEqual(found, {f"{METADATA}/resourceclaims/named/{request}/{DRIVER}-metadata.json":
                                 [{"name": request, "devices": [self.device("gpu", number)]}] for request, number in (("a", 0), ("b", 2))})
        self.assertNotIn("podClaimName", read_metadata(next(iter(self.metadata(named[2]).values()))))

        # Any user of the container can read it.
        self.assertEqual([stat.S_IMODE(os.stat(path).st_mode) for path in self.hosts()], [0o644] * 3)
        self.assertEqual(stat.S_IMODE(os.stat(os.path.dirname(self.hosts()[0])).st_mode), 0o755)
        self.assertEqual(self.unprepare(named), {named[2]: ""})
        self.assertEqual(len(self.hosts()), 1)
        self.unprepare(template)
        self.assertEqual(os.listdir(os.path.join(self.cdi, "devplugd.metadata")), [])

    def test_limits(self):
        """A claim that the scheduler makes for `limits` is like one that the pod names; only its name is not known before."""
        self.begin_two()
        self.api.apply(self.ctl("dra", "classes").stdout)
        found = self.api.schedule_limits("trainer", [{"vendor.example/gpu": 1}])["metadata"]
        claim = "default", found["name"], found["uid"]
        self.assertNotIsInstance(self.prepare(claim)[claim[2]], str)
        self.assertEqual(self.one(claim)[0], f"{METADATA}/resourceclaims/{found['name']}/container-0-request-0/{DRIVER}-metadata.json")

    def test_readers(self):
        """A reader of either version finds the same, and one of a later release skips what it does not know."""
        self.begin_two()
        claim = self.claim("c", ("a", "gpu", 0))
        self.prepare(claim)
        text = next(iter(self.metadata(claim[2]).values()))
        found = [read_metadata(text, versions)["requests"] for versions in (("v1alpha1",), ("v1beta1",), ("v1", "v1beta1"))]
        self.assertEqual(found, [found[0]] * 3)
        self.assertRaises(Unreadable, read_metadata, text, ("v2",))

    def test_nothing_but_metadata(self):
        """Containers that get names of other CDI devices only have a CDI device of the claim for the mount."""
        os.mkdir(self.node.path("other"))
        with open(self.node.path("other/other.json"), "w") as file:
            json.dump({"cdiVersion": "0.3.0", "kind": "vendor.example/other", "devices": [{"name": "x", "containerEdits": {"env": ["X=1"]}}]}, file)
        self.serve_api()
        self.begin('{ name = "vendor.example/gpu"; driver = "static"; match = ( { count = 2; } ); serve = "dra"; container = { '
                   f'cdi = ( "vendor.example/other=x" ); cdi_dirs = "{self.node.path("other")}"; }}; }}')
        self.await_pool()
        claim = self.claim("c", ("a", "gpu", 0))
        answer = self.prepare(claim)
        name = f"devplugd/claim={claim[2]}-{self.api.device_named('vendor.example/gpu', 0)}"
        self.assertEqual(answer[claim[2]][0]["cdi"], ["vendor.example/other=x", name])
        self.assertEqual(self.specification(claim[2]), {name: {}})
        self.assertEqual(self.one(claim)[1]["requests"][0]["devices"], [self.device("gpu", 0)])
        self.node.stop(signal.SIGKILL)
        self.start()
        self.assertEqual(self.prepare(claim), answer)

    def test_P22_life(self):
        """The file is the same over a stop, a kill and a reload, comes back after another process has removed it, and is written
        again when the claim is prepared after a restart of the host."""
        self.node.environment["STATE_DIRECTORY"] = self.node.path("state")
        self.begin_two()
        claim, other = self.claim("c", ("a", "gpu", 0)), self.claim("other", ("a", "gpu", 1))
        answer = self.prepare(claim, other)
        before, hosts = self.metadata(claim[2]), self.hosts()
        inode = os.stat(hosts[0]).st_ino
        self.node.stop()
        self.assertEqual(self.hosts(), hosts)
        self.start()
        self.node.stop(signal.SIGKILL)
        self.start()
        self.node.reload()
        self.assertEqual((self.hosts(), self.metadata(claim[2]), os.stat(hosts[0]).st_ino), (hosts, before, inode))
        os.unlink(hosts[0])
        until(lambda: self.hosts() == hosts, "the file to be written again")
        self.assertIn(f"another process has removed or changed {hosts[0]}", self.node.output())
        shutil.rmtree(os.path.dirname(hosts[0]))
        until(lambda: self.hosts() == hosts, "the directory to be made again")
        self.assertEqual(self.metadata(claim[2]), before)

        self.node.stop()
        remove_tree(self.node.run)
        for found in (claim, other):
            self.change_saved(found[2], lambda saved: saved.update(boot=OTHER_BOOT))
        self.start()
        self.assertEqual(self.hosts(), [])
        self.assertEqual(self.prepare(claim), {claim[2]: answer[claim[2]]})
        self.assertEqual((self.hosts(), self.metadata(claim[2])), ([next(path for path in hosts if claim[2] in path)], before))

        # A daemon that was killed after the claim's own file was removed.
        self.node.stop(signal.SIGKILL)
        os.unlink(self.saved(claim[2]))
        self.start()
        self.assertEqual((self.hosts(), self.files()), ([], []))

    def test_cannot_be_written(self):
        """The claim is not prepared: an application would not find its devices."""
        self.begin_two()
        os.makedirs(self.cdi, exist_ok=True)
        with open(os.path.join(self.cdi, "devplugd.metadata"), "w"):
            pass
        claim = self.claim("c", ("a", "gpu", 0))
        self.assertRegex(self.prepare(claim)[claim[2]], "cannot write .*/devplugd.metadata/")
        self.assertEqual((self.files(), self.dra()["claims"]), ([], 0))
        os.unlink(os.path.join(self.cdi, "devplugd.metadata"))
        self.assertNotIsInstance(self.prepare(claim)[claim[2]], str)
        self.assertEqual(self.one(claim)[1]["requests"][0]["devices"], [self.device("gpu", 0)])

    def test_P10_large_claim(self):
        """Attributes that do not fit into a request to devplugd: the claim fails with the reason, and no process ends."""
        names = ", ".join(f'{{ name = "n{"x" * 28}{i}"; value = "{"y" * 64}"; }}' for i in range(10, 28))
        self.serve_api()
        self.begin(self.resource("gpu", f"dra = {{ attributes = ( {names} ); }};", count=128))
        self.await_pool(lambda pool: len(pool) == 128)
        claims = [self.claim(f"c{n}", *(("a", "gpu", number) for number in range(n))) for n in (32, 128)]
        process = self.process()
        answers = [self.prepare(claim)[claim[2]] for claim in claims]
        self.assertEqual(len(answers[0]), 32)
        self.assertIn("the claim is too large for devplugd; request fewer devices in it", answers[1])
        self.assertEqual(self.process(), process)

    def test_claims_of_earlier_versions(self):
        """They have no metadata, because their CDI names never change."""
        self.begin_two()
        claim, later = self.claim("c", ("a", "gpu", 0)), self.claim("later", ("a", "gpu", 1))
        answer = self.prepare(claim)
        self.node.stop()
        self.change_saved(claim[2], lambda saved: saved.pop("metadata"))
        for host in (False, True):
            if host:
                self.node.stop()
                self.change_saved(claim[2], lambda saved: saved.update(boot=OTHER_BOOT))
            self.start()
            self.assertEqual(self.prepare(claim), answer)
            self.assertEqual((self.metadata(claim[2]), self.hosts()), ({}, []))
        self.prepare(later)
        self.assertEqual(len(self.hosts()), 1)


class Hardware(MetadataTest):
    """Attributes of hardware in a tree."""

    def begin_host(self, *names, more=""):
        root = self.node.path("host")
        self.host = NumberedHost(root, 0)
        self.serve_api()
        self.begin(*(f'{{ name = "vendor.example/{name}"; {RESOURCES[name]} serve = "dra"; host_root = "{root}"; {more} }}' for name in names))
        self.await_pool(lambda pool: len(pool) >= len(names))

    def test_virtual_machines(self):
        """KubeVirt finds the mediated device, and else the PCI address, whichever way the pod gets the claim."""
        self.begin_host("vm", "vgpu", "camera")
        template = self.claim("vm-x7k2p", ("gpu", "vgpu", 0), annotations={TEMPLATE: "vgpu"})
        named = self.claim("named", ("gpu", "vm", 0), ("camera", "camera", 0))
        self.prepare(template, named)
        self.assertEqual(kubevirt_metadata(self.metadata(template[2]), "resourceclaimtemplates", "vgpu", "gpu"), ("mdev", MDEV))
        self.assertEqual(kubevirt_metadata(self.metadata(named[2]), "resourceclaims", "named", "gpu"), ("pci", "0000:04:00.0"))
        for claim, request in (("named", "camera"), ("other", "gpu")):
            self.assertRaises(Unreadable, kubevirt_metadata, self.metadata(named[2]), "resourceclaims", claim, request)

    def test_changes(self):
        """An attribute changes while containers run: the next generation, in the same file, which they have mounted. Other claims,
        and other requests of the claim, stay as they are; a generation is never used twice, also by another daemon."""
        self.begin_host("vm", "camera", more='dra = { attributes = ( { name = "firmware"; value = "${attr:fw_ver}"; } ); };')
        function = self.node.path("host/sys/devices/pci0000:00/0000:00:01.0/0000:04:00.0")
        claim, other = self.claim("c", ("a", "vm", 0), ("b", "camera", 0)), self.claim("other", ("a", "camera", 0))
        self.api.claims["default", "other"]["status"]["allocation"]["devices"]["results"][0]["adminAccess"] = True
        self.prepare(claim, other)

        def generations():
            return {path.split("/")[-2]: read_metadata(text)["metadata"]["generation"] for path, text in self.metadata(claim[2]).items()}

        def firmware():
            path = next(path for path in self.metadata(claim[2]) if "/a/" in path)
            found = read_metadata(self.metadata(claim[2])[path])
            return found["metadata"]["generation"], found["requests"][0]["devices"][0]["attributes"].get("firmware", {}).get("string")

        def set_firmware(text):
            with open(f"{function}/fw_ver", "w") as file:
                file.write(text + "\n")
            self.assertEqual(self.ctl("rescan", "vendor.example/vm").returncode, 0)

        self.assertEqual(firmware(), (1, None))
        unchanged = self.metadata(other[2])
        path = next(path for path in self.hosts() if path.endswith(f"{claim[2]}_a.json"))
        with open(path) as mounted:
            for generation, value in ((2, "a long version of the firmware"), (3, "A2")):
                set_firmware(value)
                until(lambda wanted=(generation, value): firmware() == wanted, "the new value")
                mounted.seek(0)
                self.assertEqual(len(mounted.read().splitlines()), 2)
                self.assertEqual(os.fstat(mounted.fileno()).st_ino, os.stat(path).st_ino)
        self.node.stop(signal.SIGKILL)
        with open(f"{function}/fw_ver", "w") as file:
            file.write("A3\n")
        self.start()
        until(lambda: firmware() == (4, "A3"), "the value of the time when devplugd was away")
        self.assertEqual((generations(), self.metadata(other[2])), ({"a": 4, "b": 1}, unchanged))
        self.assertIsNotNone(self.process())
        os.kill(self.process(), signal.SIGKILL)
        set_firmware("A4")
        until(lambda: firmware() == (5, "A4"), "the value after another process was started")

        # The claim is prepared again after a restart of the host, and the device has changed.
        self.node.stop()
        self.change_saved(claim[2], lambda saved: saved.update(boot=OTHER_BOOT))
        with open(f"{function}/fw_ver", "w") as file:
            file.write("A5\n")
        self.start()
        until(lambda: self.attributes("vm", 0)["firmware"] == {"string": "A5"}, "the value in the slice")
        self.assertNotIsInstance(self.prepare(claim)[claim[2]], str)
        self.assertEqual((firmware(), generations()["b"]), ((6, "A5"), 1))


if __name__ == "__main__":
    unittest.main()
