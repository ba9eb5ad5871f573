# SPDX-License-Identifier: Apache-2.0
"""What devplugd writes in the status of claims (KEP-4817): by server-side apply, where its identity may, and never with an effect on
pods."""
import base64
import json
import os
import re
import unittest

from api_server import write_kubeconfig
from devplug_apiserver import resources
from dra_node import DRIVER, DraTest
from node import until
from numbered_host import RESOURCES, NumberedHost

PAGE = os.path.join(os.path.dirname(os.path.realpath(__file__)), "../../docs/dra-reference.md")
ACCOUNT = "system:serviceaccount:kube-system:devplugd"
SECRET = "/api/v1/namespaces/kube-system/secrets/devplugd"
OTHER = {"driver": "other.example", "pool": "node-a", "device": "x"}


class ClaimStatus(DraTest):
    def become_account(self, change=lambda rules: rules):
        """Applies the objects of "dra credentials", and writes a kubeconfig with the token. Returns the rules."""
        answer = self.ctl("dra", "credentials")
        self.assertEqual(answer.returncode, 0, answer.stderr)
        for found in json.loads(answer.stdout)["items"]:
            if found["kind"] == "ClusterRole":
                rules = found["rules"]
                found["rules"] = change(rules)
            resource = resources.find_kind(found["apiVersion"], found["kind"])
            code = self.api.ask("POST", resources.collection_path(resource, found["metadata"].get("namespace")), found).code
            self.assertEqual(code, 201)
        token = base64.b64decode(self.api.ask("GET", SECRET).body["data"]["token"]).decode()
        write_kubeconfig(self.kubeconfig, self.api.url(), self.api.authority, token=token)
        return rules

    def claim(self, name, number=0, more=()):
        device = self.api.device_named("vendor.example/gpu", number)
        return "default", name, self.api.allocate(name, DRIVER, [("a", device), *more])

    def devices(self, name):
        return self.api.claims["default", name]["status"].get("devices", [])

    def patches(self):
        with self.api.lock:
            return [(path, code) for method, path, code in self.api.requests if method == "PATCH"]

    def begin_account(self, *lines, change=lambda rules: rules, **options):
        self.serve_api(**options)
        self.configure(*(lines or [self.resource("gpu")]), dra="claim_status = true;")
        rules = self.become_account(change)
        self.node.start()
        self.register()
        self.await_pool()
        return rules

    def test_ready(self):
        """Each device of the driver once, beside the entry of another driver, with the rights that "dra credentials" prints."""
        rules = self.begin_account()
        self.assertEqual([rule for rule in rules if rule["resources"][0].startswith("resourceclaims/")], [
            {"apiGroups": ["resource.k8s.io"], "resources": ["resourceclaims/status"], "verbs": ["patch"]},
            {"apiGroups": ["resource.k8s.io"], "resources": ["resourceclaims/driver"], "verbs": ["arbitrary-node:patch"],
             "resourceNames": [DRIVER]}])
        name = self.api.device_named("vendor.example/gpu", 0)
        claim = self.claim("c", more=[("b", name), ("b", "x", "other.example")])
        with self.api.lock:
            self.api.claims["default", "c"]["status"]["devices"] = [OTHER]
        self.assertNotIsInstance(self.prepare(claim)[claim[2]], str)
        until(lambda: len(self.devices("c")) > 1, "the status")
        other, ready = sorted(self.devices("c"), key=lambda device: device["driver"] == DRIVER)
        self.assertEqual(other, OTHER)
        condition, = ready["conditions"]
        self.assertRegex(condition.pop("lastTransitionTime"), r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ$")
        self.assertEqual(condition, {"type": "Ready", "status": "True", "reason": "Prepared", "message": "the device is prepared for containers"})
        self.assertEqual({**ready, "conditions": None}, {"driver": DRIVER, "pool": "node-a", "device": name, "conditions": None})
        (path, code), = self.patches()
        self.assertEqual(code, 200)
        self.assertIn(f"fieldManager={DRIVER}&force=true", path)

    def test_shares(self):
        """Several shares of one device have an entry each, with the id of the share."""
        capacity = '{ name = "memory"; value = "8Gi"; step = "1Gi"; default = "1Gi"; }'
        self.begin_account(self.resource("gpu", f"capacity = ( {capacity} );", count=1))
        self.api.apply(self.ctl("dra", "classes").stdout)
        found = self.api.schedule("c", [("r", "gpu.vendor.example", 3)])
        results = found["status"]["allocation"]["devices"]["results"]
        claim = ("default", "c", found["metadata"]["uid"])
        self.assertNotIsInstance(self.prepare(claim)[claim[2]], str)
        until(lambda: self.devices("c"), "the status")
        self.assertEqual({(device["device"], device["shareID"]) for device in self.devices("c")},
                         {(result["device"], result["shareID"]) for result in results})
        self.assertEqual((len(self.devices("c")), len({result["device"] for result in results})), (3, 1))

    def test_interface(self):
        """The status has the interface of a network function and its address, as they are on the host when the claim is prepared."""
        host = NumberedHost(self.node.path("host"), 0)
        self.begin_account(f'{{ name = "vendor.example/gpu"; {RESOURCES["vf"]} serve = "dra"; host_root = "{host.root}"; }}')
        claim = self.claim("c")
        self.prepare(claim)
        until(lambda: self.devices("c"), "the status")
        interfaces = os.listdir(os.path.join(host.root, "sys/bus/pci/devices/0000:07:00.1/net"))
        self.assertEqual([device["networkData"] for device in self.devices("c")], [
            {"interfaceName": name, "hardwareAddress": "02:00:00:00:00:17"} for name in interfaces])

    def test_off(self):
        """Nothing is asked for without the key."""
        self.serve_api()
        self.configure(self.resource("gpu"))
        rules = self.become_account()
        self.assertNotIn("patch", str(rules))
        self.node.start()
        self.register()
        self.await_pool()
        for number in range(2):
            claim = self.claim(f"c{number}", number)
            self.prepare(claim)
            self.unprepare(claim)
        self.assertEqual(self.patches(), [])

    def test_not_allowed(self):
        """The claim is prepared, one notice tells why it has no status, and nothing is asked again before other credentials come."""
        self.begin_account(change=lambda rules: [rule for rule in rules if rule["resources"] != ["resourceclaims/driver"]])
        first, second = self.claim("first", 0), self.claim("second", 1)
        self.assertNotIsInstance(self.prepare(first)[first[2]], str)
        until(lambda: "the status of claims is not written, which has no effect on pods" in self.node.output(), "the notice")
        self.assertNotIsInstance(self.prepare(second)[second[2]], str)
        self.assertEqual(self.unprepare(second), {second[2]: ""})
        self.assertEqual([code for _, code in self.patches()], [403])
        self.assertEqual(self.dra()["api_failure"], "")

        # The account gets the right, and another token; the server does not know the old one any more.
        path = "/apis/rbac.authorization.k8s.io/v1/clusterroles/devplugd"
        role = self.api.ask("GET", path).body
        answer = self.ctl("dra", "credentials")
        role["rules"] = next(found["rules"] for found in json.loads(answer.stdout)["items"] if found["kind"] == "ClusterRole")
        self.assertEqual(self.api.ask("PUT", path, role).code, 200)
        user, = [user for user in self.api.tokens.values() if user.name == ACCOUNT]
        self.api.tokens = {"newer-token": user}
        write_kubeconfig(self.kubeconfig, self.api.url(), self.api.authority, token="newer-token")

        def is_prepared():
            return not isinstance(self.prepare(second)[second[2]], str)

        until(is_prepared, "the claim to be prepared with the new token")
        until(lambda: self.devices("second"), "the status")
        self.assertEqual((self.devices("first"), self.node.output().count("the status of claims is not written")), ([], 1))

    def begin_as(self, become):
        self.serve_api()
        self.configure(self.resource("gpu"), dra="claim_status = true;")
        become()
        self.node.start()
        self.register()
        self.await_pool()
        self.api.apply(self.ctl("dra", "classes").stdout)
        claim = "default", "c", self.api.schedule("c", [("r", "gpu.vendor.example", 1)])["metadata"]["uid"]
        self.assertNotIsInstance(self.prepare(claim)[claim[2]], str)
        until(self.patches, "a request")

    def test_kubelet(self):
        """The kubelet's identity may not write it."""
        self.begin_as(lambda: None)
        until(lambda: "the status of claims is not written, which has no effect on pods" in self.node.output(), "the notice")
        self.assertEqual([code for _, code in self.patches()], [403])

    def test_pod_of_the_node(self):
        """A token that belongs to the node needs the lesser right, which the chart gives it."""
        granted = []
        values = {"dra": {"enabled": True}, "rights": {"claimStatus": True}}
        self.begin_as(lambda: granted.extend(self.api.become_pod(self.kubeconfig, values)))
        until(lambda: self.devices("c"), "the status")
        verbs = {verb for verb, _, resource in granted if resource == "resourceclaims/driver"}
        self.assertEqual(verbs, {"associated-node:patch"})

    def test_before_1_36(self):
        """A server that does not know the right for the driver needs only the other one."""
        self.begin_account(release="1.35", change=lambda rules: [rule for rule in rules if rule["resources"] != ["resourceclaims/driver"]])
        claim = self.claim("c")
        self.assertNotIsInstance(self.prepare(claim)[claim[2]], str)
        until(lambda: self.devices("c"), "the status")

    def test_failures_that_pass(self):
        """The kubelet does not wait, and the status is written when the server answers again."""
        self.begin_account()
        failing = []

        def fail(method, path):
            if method == "PATCH" and len(failing) < 2:
                failing.append(path)
                return 500
            return None

        self.api.faults = [fail]
        claim = self.claim("c")
        self.assertNotIsInstance(self.prepare(claim)[claim[2]], str)
        until(lambda: self.devices("c"), "the status")
        self.assertEqual(len(failing), 2)

    def test_claim_that_was_deleted(self):
        """A claim that was deleted, or made again with the same name, gets no status; the next one does."""
        self.begin_account()
        claims = [self.claim(name, number) for number, name in enumerate(("gone", "again", "last"))]

        def interfere(method, path):
            with self.api.lock:
                if method == "PATCH" and "/gone/" in path:
                    self.api.claims.pop(("default", "gone"), None)
                if method == "PATCH" and "/again/" in path:
                    self.api.claims["default", "again"]["metadata"]["uid"] = "00000000-0000-4000-8000-00000000000a"

        self.api.faults = [interfere]
        self.assertEqual([name for claim in claims if isinstance(self.prepare(claim)[claim[2]], str) for name in claim], [])
        until(lambda: self.devices("last"), "the status of the last one")
        self.assertEqual(([code for _, code in self.patches()], self.devices("again")), ([404, 409, 200], []))
        self.assertNotIn("is not written", self.node.output())


class Manual(unittest.TestCase):
    def test_rights(self):
        with open(PAGE, encoding="utf-8") as file:
            section = re.search(r"^## The status of claims\n(.*?)^## ", file.read(), re.M | re.S)[1]
        for words in ("resourceclaims/status", "resourceclaims/driver", "arbitrary-node:patch", "associated-node:patch"):
            self.assertIn(f"`{words}`", section)


if __name__ == "__main__":
    unittest.main()
