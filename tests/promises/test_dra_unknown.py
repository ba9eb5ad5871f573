# SPDX-License-Identifier: Apache-2.0
"""A claim that only devplugd knows ends automatically; one that the kubelet or the API server may know stays."""
import json
import os
import unittest
import zlib

from api_server import SLICES_PATH
from devplug_apiserver.authorizer import User
from devplug_apiserver.cluster import ACCOUNT
from dra_node import DRIVER, DraPodTest, DraTest
from node import until

CLAIMS = SLICES_PATH.replace("resourceslices", "namespaces/default/resourceclaims/")
# In seconds; ten rounds.
SHORT = "forget_after = 1;"
HEAD = {"kind": "DRACheckpoint", "apiVersion": "checkpoint.dra.kubelet.k8s.io/v1"}


class DraUnknown(DraTest):
    def setUp(self):
        super().setUp()
        self.root = self.node.path("root")
        os.mkdir(self.root)

    def write_known(self, *claims, folder=None, **changes):
        """The kubelet's file, with these claims."""
        data = {**HEAD, "ClaimInfoStateList": [
            {"ClaimUID": uid, "ClaimName": name, "Namespace": namespace, "PodUIDs": {}, "DriverState": {}}
            for namespace, name, uid in claims], **changes}
        text = json.dumps(data)
        path = os.path.join(folder or self.root, "dra_manager_state")
        with open(path + ".new", "w") as file:
            json.dump({"Data": text, "Checksum": zlib.crc32(text.encode())}, file)
        os.rename(path + ".new", path)

    def start(self, *names, token=None):
        """Claims of these names, each with one device, prepared and in the kubelet's file."""
        self.serve_api()
        if token:
            self.api.tokens[token] = User(ACCOUNT, node="node-a")
            self.api.kubeconfig(self.kubeconfig, token=token)
        self.begin(self.resource("gpu", count=len(names)), dra=SHORT, kubelet=f'root_dir = "{self.root}";')
        self.await_pool()
        found = {}
        for number, name in enumerate(names):
            device = self.api.device_named("vendor.example/gpu", number)
            found[name] = "default", name, self.api.allocate(name, DRIVER, [("a", device)])
        self.write_known(*found.values())
        self.assertFalse([answer for answer in self.prepare(*found.values()).values() if isinstance(answer, str)])
        with self.api.lock:
            self.api.requests.clear()
        return found

    def delete(self, name):
        with self.api.lock:
            del self.api.claims["default", name]

    def asked(self, name):
        """How often the API server was asked for the claim."""
        with self.api.lock:
            return len([path for _, path, _ in self.api.requests if path == CLAIMS + name])

    def await_rounds(self, name, count=25):
        before = self.asked(name)
        until(lambda: self.asked(name) >= before + count, f"{count} rounds")

    def await_end(self, claim):
        until(lambda: not os.path.exists(self.saved(claim[2])), f"the claim {claim[1]} to end")
        until(lambda: f"the claim default/{claim[1]} has ended" in self.node.output(), "the log")
        self.assertIsNone(self.specification(claim[2]))

    def assert_stays(self, claim):
        self.assertTrue(os.path.exists(self.saved(claim[2])))
        self.assertIsNotNone(self.specification(claim[2]))

    def test_claims_that_only_devplugd_knows(self):
        """Only those end whose object is missing, or is another one; not those that the kubelet or the API server knows."""
        claims = self.start("gone", "other", "same", "listed")
        for name in ("gone", "other", "listed"):
            self.delete(name)
        self.api.allocate("other", DRIVER, [("a", self.api.device_named("vendor.example/gpu", 1))])
        self.assertEqual([self.asked(name) for name in claims], [0, 0, 0, 0])
        self.write_known(claims["listed"])
        self.await_end(claims["gone"])
        self.await_end(claims["other"])
        self.await_rounds("same")
        self.assertEqual(self.asked("listed"), 0)
        self.assert_stays(claims["same"])
        self.assert_stays(claims["listed"])
        until(lambda: self.dra()["claims"] == 2, "the claims in the status")
        self.assertIn("the claim default/gone has ended, and its devices are free (vendor.example/gpu/gpu-0): for 1 s, neither the "
                      "kubelet's dra_manager_state nor the API server has had it\n", self.node.output())
        # The devices are free for other claims.
        free = "default", "free", self.api.allocate("free", DRIVER, [("a", self.api.device_named("vendor.example/gpu", 0))])
        self.assertNotIsInstance(self.prepare(free)[free[2]], str)

    def test_an_identity_that_may_read_all_claims(self):
        """It gets "not found", with the name of the claim."""
        claims = self.start("gone", "same", token="account")
        self.delete("gone")
        self.write_known()
        self.await_end(claims["gone"])
        self.await_rounds("same")
        self.assert_stays(claims["same"])

    def test_an_api_server_that_does_not_answer(self):
        """A failure is no answer, and the time begins again: also if every other question fails."""
        claims = self.start("gone")
        self.delete("gone")
        for fault in (500, 401, 403, 404, "close", "garbage", "empty"):
            with self.subTest(fault):
                self.api.faults = [lambda method, path: fault if path.startswith(CLAIMS) else None]
                self.write_known()
                self.await_rounds("gone", 15)
                self.assert_stays(claims["gone"])
                self.write_known(*claims.values())
        turns = iter(range(1 << 30))
        self.api.faults = [lambda method, path: 500 if path.startswith(CLAIMS) and next(turns) % 2 else None]
        self.write_known()
        self.await_rounds("gone", 30)
        self.assert_stays(claims["gone"])
        self.api.faults = []
        self.await_end(claims["gone"])

    def test_a_kubelet_whose_file_cannot_be_used(self):
        """Without the kubelet's word, the API server is not asked."""
        claims = self.start("gone")
        self.delete("gone")
        path = os.path.join(self.root, "dra_manager_state")

        def check(what):
            until(lambda: f"{what}; claims that only devplugd knows do not end automatically" in self.node.output(), what)

        self.write_known(apiVersion="checkpoint.dra.kubelet.k8s.io/v2")
        check(f"{path} has a format that this devplugd does not know, or a wrong checksum")
        with open(path, "w") as file:
            file.write("{")
        check(f"{path} is not valid JSON: string or '}}' expected near end of file")
        os.unlink(path)
        check(f"cannot read {path}: No such file or directory")
        os.mkdir(path)
        check(f"{path} is not a regular file")
        self.assertEqual(self.asked("gone"), 0)
        self.assert_stays(claims["gone"])
        os.rmdir(path)
        self.write_known()
        self.await_end(claims["gone"])

    @unittest.skipIf("DEVPLUGD_IN_IMAGE" in os.environ, "a private mount is not seen below the image's root directory")
    def test_a_mount_of_the_file(self):
        """The kubelet replaces its file, so a mount of the file itself shows an old one."""
        folder = self.node.path("host")
        os.mkdir(folder)
        self.write_known(folder=folder)
        with open(os.path.join(self.root, "dra_manager_state"), "w"):
            pass
        self.node.prefix = ["unshare", "--mount", "--propagation", "private", "sh", "-c", 'mount --bind "$1" "$2" && shift 2 && exec "$@"',
                            "sh", os.path.join(folder, "dra_manager_state"), os.path.join(self.root, "dra_manager_state")]
        self.serve_api()
        self.configure(self.resource("gpu", count=1), dra=SHORT, kubelet=f'root_dir = "{self.root}";')
        self.node.start()
        self.register()
        self.await_pool()
        self.write_known(folder=folder)
        claim = "default", "c", self.api.allocate("c", DRIVER, [("a", self.api.device_named("vendor.example/gpu", 0))])
        self.assertNotIsInstance(self.prepare(claim)[claim[2]], str)
        until(lambda: "dra_manager_state was replaced, and a mount keeps the old file" in self.node.output(), "the message")

    def test_claim_of_an_earlier_boot(self):
        """A claim that is not prepared any more holds its devices, too."""
        claims = self.start("gone")
        self.delete("gone")
        self.node.stop()
        self.change_saved(claims["gone"][2], lambda claim: claim.update(boot="00000000-0000-0000-0000-000000000000"))
        self.write_known()
        self.node.start()
        self.register_again()
        self.await_end(claims["gone"])


class DraLostData(DraPodTest):
    def test_kubelet_that_lost_its_data(self):
        self.serve_api()
        self.begin(self.resource("gpu", count=1), dra=SHORT, kubelet=f'root_dir = "{self.node.kubelet_state}";')
        first = self.api.schedule("first", [("gpu", "gpu.vendor.example", 1)])
        self.assertEqual(self.pod("first", first)["phase"], "Running")
        self.node.stop_kubelet()
        for name in ("dra_manager_state", "pods.json"):
            os.unlink(os.path.join(self.node.kubelet_state, name))
        self.node.start_kubelet()
        self.await_registration()
        self.api.release(first)
        until(lambda: self.dra()["claims"] == 0, "the claim to end")
        self.assertEqual(self.files(), [])
        second = self.api.schedule("second", [("gpu", "gpu.vendor.example", 1)])
        self.assertEqual(self.edits(self.pod("second", second)["container"]), {"GPU": "gpu-0"})


if __name__ == "__main__":
    unittest.main()
