# SPDX-License-Identifier: Apache-2.0
"""devplug-apiserver as a program: what clients by TLS may do, conflicts, watches, faults, and its commands."""
import base64
import concurrent.futures
import contextlib
import http.client
import json
import os
import re
import signal
import socket
import ssl
import subprocess
import tempfile
import unittest

from node import LIMIT, program, until

SLICES = "/apis/resource.k8s.io/v1/resourceslices"
CLAIMS = "/apis/resource.k8s.io/v1/namespaces/default/resourceclaims"
DRIVER = "gpu.vendor.example"


def make_slice(name, *devices, node="node-a", **spec):
    return {"apiVersion": "resource.k8s.io/v1", "kind": "ResourceSlice", "metadata": {"name": name},
            "spec": {"driver": DRIVER, "nodeName": node, "pool": {"name": node, "generation": 1, "resourceSliceCount": 1},
                     "devices": [{"name": device} for device in devices], **spec}}


def make_class(expression=f'device.driver == "{DRIVER}"'):
    return {"apiVersion": "resource.k8s.io/v1", "kind": "DeviceClass", "metadata": {"name": "gpu"},
            "spec": {"selectors": [{"cel": {"expression": expression}}]}}


def make_claim(name, count=1):
    return {"apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim", "metadata": {"name": name, "namespace": "default"},
            "spec": {"devices": {"requests": [{"name": "r", "exactly": {"deviceClassName": "gpu", "count": count}}]}}}


class Client:
    """A user of a kubeconfig that devplug-apiserver wrote."""

    def __init__(self, kubeconfig):
        with open(kubeconfig) as file:
            text = file.read()

        def find(key):
            match = re.search(rf"{key}: (\S+)", text)
            return match and match[1]
        self.context = ssl.create_default_context(cafile=find("certificate-authority"))
        if find("client-certificate"):
            self.context.load_cert_chain(find("client-certificate"), find("client-key"))
        self.headers = {"Authorization": f"Bearer {find('token')}"} if find("token") else {}
        self.host, self.port = re.search(r"https://([^:]+):(\d+)", text).groups()

    def connect(self):
        return http.client.HTTPSConnection(self.host, int(self.port), context=self.context, timeout=LIMIT)

    def ask(self, method, path, body=None, content="application/json", headers=False):
        """(code, body)"""
        with contextlib.closing(self.connect()) as connection:
            connection.request(method, path, None if body is None else json.dumps(body), {**self.headers, "Content-Type": content})
            answer = connection.getresponse()
            found = json.loads(answer.read() or b"null")
            return (answer.status, found, dict(answer.headers)) if headers else (answer.status, found)

    @contextlib.contextmanager
    def watch(self, path):
        """Yields a function that returns the next event, or None at the end."""
        with contextlib.closing(self.connect()) as connection:
            connection.request("GET", path + ("&" if "?" in path else "?") + "watch=1", headers=self.headers)
            answer = connection.getresponse()
            yield lambda: json.loads(answer.readline() or b"null")


class Program(unittest.TestCase):
    nodes = ("node-a", "node-b")

    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="devplugd-test.")
        self.addCleanup(folder.cleanup)
        self.dir = folder.name

    def start(self, *words):
        nodes = [word for node in self.nodes for word in ("--node", node)]
        self.process = subprocess.Popen([program("devplug-apiserver"), "run", "--dir", self.dir, *nodes, *words],
                                        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        self.addCleanup(self.process.stdout.close)
        self.addCleanup(self.process.wait)
        self.addCleanup(self.process.terminate)
        line = self.process.stdout.readline()
        self.assertEqual(json.loads(line)["event"], "listening", line)
        self.admin, self.kubelet, self.other, self.driver = (Client(os.path.join(self.dir, f"{name}.kubeconfig")) for name in (
            "admin", "kubelet-node-a", "kubelet-node-b", "driver-node-a"))

    def tool(self, *words, text=None):
        return subprocess.run([program("devplug-apiserver"), *words, "--dir", self.dir], input=text, capture_output=True, text=True,
                              timeout=LIMIT)

    def check(self, code, answer):
        self.assertEqual(answer[0], code, answer[1])
        return answer[1]

    def apply(self, *objects):
        answer = self.tool("apply", "-", text="\n".join(map(json.dumps, objects)))
        self.assertEqual((answer.returncode, answer.stderr), (0, ""), answer.stdout)
        return answer.stdout

    # --- the rights

    def test_node_authorizer(self):
        """A kubelet writes the slices of its own node, and reads the claims of its pods, and nothing else."""
        self.start()
        stored = self.check(201, self.kubelet.ask("POST", SLICES, make_slice("a", "gpu-0")))
        path, own = f"{SLICES}/a", SLICES + "?fieldSelector=spec.nodeName%3Dnode-a"
        refused = self.check(403, self.kubelet.ask("POST", SLICES, make_slice("b", node="node-b")))
        self.assertIn("can only create ResourceSlice with the same NodeName as the requesting node", refused["message"])
        self.assertEqual((refused["kind"], refused["reason"], refused["code"]), ("Status", "Forbidden", 403))
        self.assertEqual(len(self.check(200, self.kubelet.ask("GET", own))["items"]), 1)
        for client, method, where in ((self.kubelet, "GET", SLICES), (self.kubelet, "GET", own.replace("node-a", "node-b")),
                                      (self.other, "GET", path), (self.other, "DELETE", path), (self.kubelet, "GET", CLAIMS),
                                      (self.kubelet, "GET", "/api/v1/nodes/node-b"), (self.kubelet, "GET", "/api/v1/nodes"),
                                      (self.kubelet, "GET", "/apis/resource.k8s.io/v1/deviceclasses")):
            with self.subTest(f"{method} {where}"):
                self.check(403, client.ask(method, where))
        self.check(403, self.other.ask("PUT", path, stored))
        # A slice does not move to another node, either.
        self.check(403, self.kubelet.ask("PUT", path, {**stored, "spec": {**stored["spec"], "nodeName": "node-b"}}))
        self.assertEqual(self.check(200, self.kubelet.ask("GET", "/api/v1/nodes/node-a"))["metadata"]["name"], "node-a")
        self.apply(make_class(), make_claim("used"), make_claim("waits"))
        self.check(200, self.kubelet.ask("GET", f"{CLAIMS}/used"))
        for client, name in ((self.other, "used"), (self.kubelet, "waits"), (self.kubelet, "none")):
            refused = self.check(403, client.ask("GET", f"{CLAIMS}/{name}"))
            self.assertIn("no relationship found between node", refused["message"])
        used = self.check(200, self.admin.ask("GET", f"{CLAIMS}/used"))
        self.check(403, self.kubelet.ask("PUT", f"{CLAIMS}/used/status", used))
        self.check(200, self.kubelet.ask("DELETE", own))
        self.check(404, self.admin.ask("GET", path))

    def test_service_account_of_a_driver(self):
        """It reads claims, writes their status, and the slices of the node of its token."""
        self.start()
        self.check(201, self.driver.ask("POST", SLICES, make_slice("a", "gpu-0")))
        refused = self.check(403, self.driver.ask("POST", SLICES, make_slice("b", node="node-b")))
        self.assertIn("ValidatingAdmissionPolicy denied request", refused["message"])
        self.check(201, self.admin.ask("POST", SLICES, make_slice("b", node="node-b")))
        self.assertEqual(len(self.check(200, self.driver.ask("GET", SLICES))["items"]), 2)
        self.check(403, self.driver.ask("DELETE", f"{SLICES}/b"))
        self.check(200, self.driver.ask("GET", "/api/v1/nodes/node-b"))
        self.check(403, self.driver.ask("GET", "/api/v1/nodes"))
        self.check(403, self.driver.ask("POST", "/apis/resource.k8s.io/v1/deviceclasses", make_class()))
        self.apply(make_class(), make_claim("c"))
        path, key = f"{CLAIMS}/c", {"driver": DRIVER, "pool": "node-a", "device": "gpu-0"}
        claim = self.check(200, self.driver.ask("GET", path))
        self.check(403, self.driver.ask("PUT", path, claim))
        # Two conditions by server-side apply; the entry of a device stays one.
        for name in ("Ready", "Warm"):
            patch = {"status": {"devices": [{**key, "conditions": [{"type": name, "status": "True", "reason": "Set", "message": "",
                                                                    "lastTransitionTime": "2026-01-01T00:00:00Z"}]}]}}
            claim = self.check(200, self.driver.ask("PATCH", f"{path}/status?fieldManager=d", patch, "application/apply-patch+yaml"))
        self.assertEqual([device["conditions"][0]["type"] for device in claim["status"]["devices"]], ["Warm"])
        self.assertTrue(claim["status"]["allocation"])
        wrong = {"status": {"devices": [{**key, "device": "gpu-9"}]}}
        self.check(422, self.driver.ask("PATCH", f"{path}/status", wrong, "application/merge-patch+json"))
        self.check(415, self.driver.ask("PATCH", f"{path}/status", wrong, "application/json-patch+json"))

    def test_rights_of_a_service_account(self):
        """RBAC: each verb, resource, group and name of a ClusterRole counts, as long as a ClusterRoleBinding names the account."""
        self.start()
        api, name = {"apiVersion": "rbac.authorization.k8s.io/v1"}, {"name": "reader"}
        account = {"name": "reader", "namespace": "tools"}
        role = {**api, "kind": "ClusterRole", "metadata": name, "rules": [
            {"apiGroups": ["resource.k8s.io"], "resources": ["resourceslices"], "verbs": ["list"]},
            {"apiGroups": [""], "resources": ["nodes"], "verbs": ["get"], "resourceNames": ["node-b"]}]}
        binding = {**api, "kind": "ClusterRoleBinding", "metadata": name, "subjects": [{"kind": "ServiceAccount", **account}],
                   "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "reader"}}
        secret = {"apiVersion": "v1", "kind": "Secret", "type": "kubernetes.io/service-account-token",
                  "metadata": {**account, "annotations": {"kubernetes.io/service-account.name": "reader"}}}
        self.apply({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": account}, role, secret)
        place = "/api/v1/namespaces/tools/secrets/reader"
        found = self.check(200, self.admin.ask("GET", place))
        data = {key: base64.b64decode(value).decode() for key, value in found["data"].items()}
        with open(os.path.join(self.dir, "pki/ca.crt")) as file:
            self.assertEqual(data["ca.crt"], file.read())
        self.driver.headers = {"Authorization": f"Bearer {data['token']}"}
        self.check(403, self.driver.ask("GET", SLICES))
        self.apply(binding)
        self.check(200, self.driver.ask("GET", SLICES))
        self.check(200, self.driver.ask("GET", "/api/v1/nodes/node-b"))
        for method, path, body in (("GET", "/api/v1/nodes/node-a", None), ("GET", "/api/v1/nodes", None), ("POST", SLICES, make_slice("a")),
                                   ("GET", f"{SLICES}/a", None), ("GET", f"{SLICES}?watch=1", None), ("GET", CLAIMS, None),
                                   ("GET", place, None)):
            with self.subTest(f"{method} {path}"):
                self.assertIn("system:serviceaccount:tools:reader", self.check(403, self.driver.ask(method, path, body))["message"])
        # Without its data, the Secret gets another token.
        self.apply(secret)
        self.check(401, self.driver.ask("GET", SLICES))
        token = base64.b64decode(self.check(200, self.admin.ask("GET", place))["data"]["token"]).decode()
        self.driver.headers = {"Authorization": f"Bearer {token}"}
        self.check(200, self.driver.ask("GET", SLICES))
        self.check(200, self.admin.ask("DELETE", "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings/reader"))
        self.check(403, self.driver.ask("GET", SLICES))
        self.check(200, self.admin.ask("DELETE", place))
        self.check(401, self.driver.ask("GET", SLICES))

    def test_status_of_a_node(self):
        """Conditions are merged by type, by the kubelet of the node only; Events are in the namespace of their object."""
        strategic, status = "application/strategic-merge-patch+json", "/api/v1/nodes/node-a/status"
        self.start()

        def patch(client, *conditions):
            return client.ask("PATCH", status, {"status": {"conditions": conditions}}, strategic)

        self.check(200, patch(self.kubelet, {"type": "Ready", "status": "True", "reason": "a"}))
        code, node = patch(self.kubelet, {"type": "Bad", "status": "True"}, {"type": "Ready", "status": "False"})
        self.assertEqual((code, node["status"]["conditions"]), (200, [
            {"type": "Ready", "status": "False", "reason": "a"}, {"type": "Bad", "status": "True"}]))
        code, node = patch(self.kubelet, {"$patch": "delete", "type": "Bad"}, {"$patch": "delete", "type": "other"})
        self.assertEqual((code, [condition["type"] for condition in node["status"]["conditions"]]), (200, ["Ready"]))
        self.check(403, patch(self.driver, {"type": "Ready", "status": "True"}))
        self.check(201, self.admin.ask("POST", SLICES, make_slice("a")))
        self.check(415, self.admin.ask("PATCH", f"{SLICES}/a", {"metadata": {}}, strategic))
        event = {"metadata": {"name": "e"}, "involvedObject": {"kind": "Node", "name": "node-a", "uid": "node-a"}}
        self.check(422, self.kubelet.ask("POST", "/api/v1/namespaces/other/events", event))
        self.check(201, self.kubelet.ask("POST", "/api/v1/namespaces/default/events", event))
        self.check(200, self.kubelet.ask("PATCH", "/api/v1/namespaces/default/events/e", {"count": 2}, strategic))

    def test_objects_of_rights_are_checked(self):
        self.start()
        api = {"apiVersion": "rbac.authorization.k8s.io/v1", "metadata": {"name": "x"}}
        role, binding = {**api, "kind": "ClusterRole"}, {**api, "kind": "ClusterRoleBinding"}
        reference = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "x"}
        secret = {"apiVersion": "v1", "kind": "Secret", "type": "kubernetes.io/service-account-token", "metadata": {"name": "x"}}
        for found, field in (({**role, "rules": [{"apiGroups": [""], "resources": ["nodes"]}]}, "rules[0].verbs"),
                             ({**role, "rules": [{"verbs": ["get"], "resources": ["nodes"]}]}, "rules[0].apiGroups"),
                             ({**binding, "roleRef": {"kind": "ClusterRole", "name": "x"}}, "roleRef"),
                             ({**binding, "roleRef": reference, "subjects": [{"kind": "ServiceAccount", "name": "x"}]}, "subjects[0]"),
                             ({**binding, "roleRef": reference, "subjects": [{"kind": "User", "name": "x"}]}, "subjects[0].apiGroup"),
                             (secret, "metadata.annotations")):
            with self.subTest(field):
                answer = self.tool("apply", "-", text=json.dumps(found))
                self.assertEqual(answer.returncode, 1, answer.stdout)
                self.assertIn(field + ("" if field.startswith("metadata") else ": "), answer.stderr)

    def test_identities(self):
        self.start()
        self.driver.headers = {"Authorization": "Bearer wrong"}
        self.check(401, self.driver.ask("GET", SLICES))
        self.driver.headers = {}
        self.check(401, self.driver.ask("GET", SLICES))
        unknown = Client(os.path.join(self.dir, "kubelet-node-a.kubeconfig"))
        unknown.context.check_hostname, unknown.context.verify_mode = False, ssl.CERT_NONE
        other = tempfile.TemporaryDirectory(prefix="devplugd-test.")
        self.addCleanup(other.cleanup)
        subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-subj",
                        "/O=system:masters/CN=admin", "-keyout", other.name + "/key", "-out", other.name + "/crt"],
                       check=True, capture_output=True)
        unknown.context.load_cert_chain(other.name + "/crt", other.name + "/key")
        with self.assertRaises((ssl.SSLError, ConnectionError, http.client.RemoteDisconnected)):
            unknown.ask("GET", SLICES)

    # --- objects

    def test_conflicts(self):
        self.start()
        stored = self.check(201, self.kubelet.ask("POST", SLICES, make_slice("a", "gpu-0")))
        self.check(409, self.kubelet.ask("POST", SLICES, make_slice("a")))
        path = f"{SLICES}/a"
        changed = {**stored, "spec": {**stored["spec"], "devices": []}}
        newer = self.check(200, self.kubelet.ask("PUT", path, changed))
        self.assertEqual((stored["metadata"]["generation"], newer["metadata"]["generation"]), (1, 2))
        self.assertEqual(self.check(409, self.kubelet.ask("PUT", path, stored))["reason"], "Conflict")
        # The same once more is no change, and without a version it is no conflict.
        again = self.check(200, self.kubelet.ask("PUT", path, newer))
        self.assertEqual(again["metadata"]["resourceVersion"], newer["metadata"]["resourceVersion"])
        del stored["metadata"]["resourceVersion"]
        self.check(200, self.kubelet.ask("PUT", path, stored))
        self.check(409, self.kubelet.ask("DELETE", path, {"preconditions": {"uid": "another"}}))
        self.check(200, self.kubelet.ask("DELETE", path, {"preconditions": {"uid": stored["metadata"]["uid"]}}))
        self.check(404, self.admin.ask("DELETE", path))
        named = self.check(201, self.kubelet.ask("POST", SLICES, {**make_slice("x"), "metadata": {"generateName": "00000-"}}))
        self.assertRegex(named["metadata"]["name"], "^00000-.{5}$")

    def test_dry_runs(self):
        """The answer is what would be stored, and nothing is."""
        self.start("--as", "1.35")
        tainted = make_slice("a", "gpu-0")
        tainted["spec"]["devices"][0]["taints"] = [{"key": "v.e/hot", "effect": "NoSchedule"}]
        found = self.check(201, self.kubelet.ask("POST", f"{SLICES}?dryRun=All", tainted))
        self.assertNotIn("taints", found["spec"]["devices"][0])
        self.check(404, self.admin.ask("GET", f"{SLICES}/a"))
        stored = self.check(201, self.kubelet.ask("POST", SLICES, make_slice("a", "gpu-0")))
        changed = {**stored, "spec": {**stored["spec"], "devices": []}}
        self.check(200, self.kubelet.ask("PUT", f"{SLICES}/a?dryRun=All", changed))
        self.check(200, self.kubelet.ask("DELETE", f"{SLICES}/a?dryRun=All"))
        self.assertEqual(self.check(200, self.admin.ask("GET", f"{SLICES}/a")), stored)
        self.check(400, self.kubelet.ask("PUT", f"{SLICES}/a?dryRun=Some", changed))

    def test_owned_objects_are_deleted_with_the_node(self):
        self.start()
        node = self.check(200, self.admin.ask("GET", "/api/v1/nodes/node-a"))["metadata"]
        owner = {"apiVersion": "v1", "kind": "Node", "name": "node-a", "uid": node["uid"]}
        for name, owners in (("owned", [owner]), ("free", [])):
            found = make_slice(name)
            found["metadata"]["ownerReferences"] = owners
            self.check(201, self.kubelet.ask("POST", SLICES, found))
        self.check(200, self.admin.ask("DELETE", "/api/v1/nodes/node-a"))
        self.assertEqual([item["metadata"]["name"] for item in self.admin.ask("GET", SLICES)[1]["items"]], ["free"])

    def test_lists_in_pages(self):
        self.start()
        for number in range(5):
            self.check(201, self.kubelet.ask("POST", SLICES, make_slice(f"s{number}")))
        path, names = SLICES + "?limit=2", []
        for size in (2, 2, 1):
            found = self.check(200, self.admin.ask("GET", path))
            names.append([item["metadata"]["name"] for item in found["items"]])
            self.assertEqual(len(names[-1]), size)
            path = f"{SLICES}?limit=2&continue={found['metadata'].get('continue')}"
        self.assertEqual(sum(names, []), [f"s{number}" for number in range(5)])
        self.assertNotIn("continue", found["metadata"])
        self.check(400, self.admin.ask("GET", SLICES + "?fieldSelector=spec.colour%3Dred"))
        self.check(400, self.admin.ask("GET", SLICES + "?labelSelector=a%3Db"))

    def test_watches(self):
        self.start()
        self.check(201, self.kubelet.ask("POST", SLICES, make_slice("a")))
        own = SLICES + "?fieldSelector=spec.nodeName%3Dnode-a"
        version = self.check(200, self.kubelet.ask("GET", own))["metadata"]["resourceVersion"]
        with self.kubelet.watch(f"{own}&resourceVersion={version}") as following:
            self.check(201, self.admin.ask("POST", SLICES, make_slice("b", node="node-b")))
            self.check(201, self.kubelet.ask("POST", SLICES, make_slice("c")))
            self.check(200, self.kubelet.ask("DELETE", f"{SLICES}/a"))
            self.assertEqual([(event["type"], event["object"]["metadata"]["name"]) for event in (following(), following())],
                             [("ADDED", "c"), ("DELETED", "a")])
        # Without a version, and as newer clients begin, what is there comes first.
        with self.kubelet.watch(own) as following:
            self.assertEqual(following()["object"]["metadata"]["name"], "c")
        with self.kubelet.watch(own + "&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true") as following:
            self.assertEqual(following()["type"], "ADDED")
            bookmark = following()
            self.assertEqual(bookmark["type"], "BOOKMARK")
            self.assertEqual(bookmark["object"]["metadata"]["annotations"], {"k8s.io/initial-events-end": "true"})
        with self.kubelet.watch(f"{own}&resourceVersion={version}&timeoutSeconds=0") as following:
            self.assertIsNone(following())
        self.check(200, self.admin.ask("POST", "/devplug/compact", {}))
        with self.kubelet.watch(f"{own}&resourceVersion={version}") as following:
            event = following()
            self.assertEqual((event["type"], event["object"]["code"]), ("ERROR", 410))
            self.assertIsNone(following())

    def test_many_clients(self):
        """One of several writers of an object succeeds, and the others get a conflict."""
        self.start()
        self.check(201, self.kubelet.ask("POST", SLICES, make_slice("a")))
        stored = self.check(200, self.kubelet.ask("GET", f"{SLICES}/a"))

        def write(number):
            return self.kubelet.ask("PUT", f"{SLICES}/a", {**stored, "spec": {**stored["spec"], "devices": [{"name": f"d{number}"}]}})[0]
        with concurrent.futures.ThreadPoolExecutor(8) as pool:
            self.assertEqual(sorted(pool.map(write, range(8))), [200] + [409] * 7)

    def test_what_is_not_known_is_refused(self):
        self.start()
        for method, path, code in (("GET", "/apis/apps/v1/deployments", 404), ("GET", f"{SLICES}/a/scale", 404), ("POST", f"{SLICES}/a", 405)):
            with self.subTest(path):
                self.check(code, self.admin.ask(method, path, {} if method == "POST" else None))
        self.check(400, self.admin.ask("POST", SLICES, make_class()))
        self.check(415, self.admin.ask("POST", SLICES, make_slice("a"), "application/vnd.kubernetes.protobuf"))
        self.check(422, self.admin.ask("POST", SLICES, {"spec": {}}))
        with contextlib.closing(self.admin.connect()) as connection:
            connection.request("POST", SLICES, "{no JSON", {"Content-Type": "application/json"})
            self.assertEqual(connection.getresponse().status, 400)
        # A driver must not use what only a test may.
        self.check(403, self.driver.ask("PUT", "/devplug/faults", {"faults": []}))

    def test_wrong_requests_are_answered_and_recorded(self):
        self.start()
        deep = "[" * 100000
        for method, path, body, headers, code in (
                ("GET", SLICES + "?limit=x", None, {}, 400), ("GET", SLICES + "?limit=-1", None, {}, 400),
                ("GET", SLICES + "?limit=" + "9" * 5000, None, {}, 400), ("GET", SLICES + "?continue=e30=", None, {}, 200),
                ("GET", SLICES + "?watch=1&timeoutSeconds=x", None, {}, 400), ("GET", SLICES + "?watch=1&timeoutSeconds=nan", None, {}, 400),
                ("GET", SLICES + "?watch=1&resourceVersion=x", None, {}, 400), ("POST", SLICES, deep, {}, 400),
                ("POST", SLICES, None, {"Content-Length": "x"}, 400), ("POST", SLICES, None, {"Content-Length": "-1"}, 400)):
            with self.subTest(f"{method} {path[:80]} {headers}"), contextlib.closing(self.admin.connect()) as connection:
                connection.request(method, path, body, headers)
                self.assertEqual(connection.getresponse().status, code)
                self.assertIn(f"{code} {method} {path}\n", self.tool("requests").stdout)
        self.check(201, self.kubelet.ask("POST", SLICES, make_slice("a")))
        # A token of another form than those that the server gives.
        self.check(400, self.admin.ask("GET", SLICES + "?continue=e30="))

    def test_what_clients_ask_first(self):
        self.start("--as", "1.37")
        self.assertEqual(self.check(200, self.admin.ask("GET", "/version"))["gitVersion"], "v1.37.0")
        found = self.check(200, self.admin.ask("GET", "/apis/resource.k8s.io/v1"))
        self.assertIn("resourceclaims/status", [resource["name"] for resource in found["resources"]])
        self.assertIn("resource.k8s.io", [group["name"] for group in self.check(200, self.admin.ask("GET", "/apis"))["groups"]])

    # --- faults

    def test_faults(self):
        self.start()
        self.assertEqual(self.tool("fault", "429", "--method", "POST", "--path", "slices$", "--times", "2", "--retry-after", "7").returncode, 0)
        for _ in range(2):
            code, found, headers = self.kubelet.ask("POST", SLICES, make_slice("a"), headers=True)
            self.assertEqual((code, found["reason"], headers["Retry-After"]), (429, "TooManyRequests", "7"))
        self.check(201, self.kubelet.ask("POST", SLICES, make_slice("a")))
        self.assertEqual(self.tool("fault", "none").returncode, 0)
        self.assertEqual(self.tool("fault").stdout, "")
        for what in ("close", "garbage", "empty", "503", "delay:0.01"):
            with self.subTest(what):
                self.assertEqual(self.tool("fault", what, "--path", "slices").returncode, 0)
                self.assertIn(what, self.tool("fault").stdout)
                if what == "close":
                    with self.assertRaises((http.client.HTTPException, OSError)):
                        self.admin.ask("GET", SLICES)
                elif what == "garbage":
                    with self.assertRaises(ValueError):
                        self.admin.ask("GET", SLICES)
                elif what == "empty":
                    self.assertEqual(self.admin.ask("GET", SLICES), (200, None))
                else:
                    self.check(503 if what == "503" else 200, self.admin.ask("GET", SLICES))
                self.tool("fault", "none")
        # A request that hangs ends with the server.
        self.tool("fault", "hang")
        with contextlib.closing(self.admin.connect()) as connection:
            connection.request("GET", SLICES)
            until(lambda: self.tool("requests").stdout.endswith(f"- GET {SLICES}\n"), "the request")
            self.process.send_signal(signal.SIGTERM)
            with self.assertRaises((http.client.HTTPException, OSError)):
                connection.getresponse()
        self.assertEqual(self.process.wait(LIMIT), 0)
        for wrong in (("nothing",), ("200",), ("500", "--path", "("), ("500", "--times", "0"), ("500", "--times", "-1"),
                      ("429", "--retry-after", "-1")):
            with self.subTest(wrong):
                self.assertEqual(self.tool("fault", *wrong).returncode, 1)

    # --- the commands

    def test_claims_of_files(self):
        self.start()
        self.check(201, self.kubelet.ask("POST", SLICES, make_slice("a", "gpu-0", "gpu-1")))
        text = self.apply({"kind": "List", "items": [make_class(), make_claim("one"), make_claim("two", 2)]})
        self.assertEqual(text, "DeviceClass gpu: created\nResourceClaim default/one: created\n  r: gpu.vendor.example/node-a/gpu-0\n"
                         "ResourceClaim default/two: created\n  pending: node node-a: request r: 2 devices are selected, 0 of them are tainted, "
                         "1 of the others are in use; node node-b: request r: 0 devices are selected, 0 of them are tainted, 0 of the others "
                         "are in use\n")
        claim = json.loads(self.tool("get", "resourceclaims/one").stdout)
        self.assertEqual(claim["status"]["allocation"]["devices"]["results"],
                         [{"request": "r", "driver": DRIVER, "pool": "node-a", "device": "gpu-0"}])
        self.assertEqual(self.tool("delete", "resourceclaims/one").returncode, 0)
        # The next claim is served as soon as it can be.
        claim = json.loads(self.tool("get", "resourceclaims/two").stdout)
        self.assertEqual(len(claim["status"]["allocation"]["devices"]["results"]), 2)
        self.assertEqual(self.apply(make_class()), "DeviceClass gpu: configured\n")
        requests = self.tool("requests").stdout.splitlines()
        self.assertIn(f"201 POST {SLICES}", requests)
        self.assertIn(f"200 DELETE {CLAIMS}/one", requests)

    def test_wait(self):
        self.start()
        answer = self.tool("wait", DRIVER, "--timeout", "0.1")
        self.assertEqual((answer.returncode, answer.stderr), (
            1, f"devplug-apiserver: within 0.1 s, {DRIVER} has not published a complete pool: there is no ResourceSlice\n"))
        incomplete = make_slice("a")
        incomplete["spec"]["pool"]["resourceSliceCount"] = 2
        self.check(201, self.kubelet.ask("POST", SLICES, incomplete))
        self.assertIn("pool node-a of gpu.vendor.example is incomplete: 1 of 2 slices", self.tool("wait", DRIVER, "--timeout", "0.1").stderr)
        # A pool of another node is one of its own, and has its own generation.
        foreign = make_slice("c", node="node-b")
        foreign["spec"]["pool"]["generation"] = 9
        self.check(201, self.admin.ask("POST", SLICES, foreign))
        self.assertEqual(self.tool("wait", DRIVER, "--timeout", "0.1").returncode, 1)
        with subprocess.Popen([program("devplug-apiserver"), "wait", DRIVER, "--dir", self.dir, "--timeout", str(LIMIT)]) as waiting:
            other = make_slice("b")
            other["spec"]["pool"]["resourceSliceCount"] = 2
            self.check(201, self.kubelet.ask("POST", SLICES, other))
            self.assertEqual(waiting.wait(LIMIT), 0)

    def test_wrong_usage(self):
        for words, what in ((["run", "--as", "1.20"], "--as"), (["get"], "wrong number of words"), ([], "a command is missing"),
                            (["fly"], "fly is not a command"), (["run", "--flight"], "--flight"),
                            (["run", "--feature-gates", "DRAFlight=true"], "feature DRAFlight is unknown"),
                            (["run", "--feature-gates", "DRADeviceTaints"], "does not accept 'DRADeviceTaints'"),
                            (["run", "--as", "1.34", "--feature-gates", "DRAListTypeAttributes=true"], "does not have the feature")):
            with self.subTest(words):
                answer = self.tool(*words)
                self.assertEqual(answer.returncode, 2)
                self.assertIn(what, answer.stderr)
        answer = self.tool("get", "resourceslices")
        self.assertEqual(answer.returncode, 1)
        self.assertIn("no devplug-apiserver serves", answer.stderr)
        self.start()
        self.assertIn(f"another devplug-apiserver serves {self.dir}", self.tool("run").stderr)
        for text, what in (("{", "is not valid JSON"), ('{"kind": "Unknown"}', "an object needs apiVersion, kind and metadata"),
                           (json.dumps(make_class("device.colour == 1")), "does not know this part of CEL: device.colour")):
            with self.subTest(what):
                answer = self.tool("apply", "-", text=text)
                self.assertEqual(answer.returncode, 1)
                self.assertIn(what, answer.stderr)

    def test_failed_start_ends(self):
        """Whatever of the server has begun by then."""
        os.mkdir(os.path.join(self.dir, "control"))
        answer = self.tool("run")
        self.assertEqual((answer.returncode, answer.stdout), (1, ""))
        self.assertIn("control", answer.stderr)
        self.dir = os.path.join(self.dir, "x" * 100)
        for words in (("run",), ("requests",)):
            answer = self.tool(*words)
            self.assertEqual((answer.returncode, answer.stdout), (1, ""))
            self.assertRegex(answer.stderr, "the path of the control socket, .*/control, is longer than 107 bytes; give a shorter --dir\n$")

    def test_restart(self):
        """The authority stays, so that a client may be started before the server. Tokens change."""
        def authority():
            with open(os.path.join(self.dir, "pki/ca.crt")) as file:
                return file.read()
        self.start("--port", "0")
        port, before, earlier = self.admin.port, authority(), self.driver
        self.process.terminate()
        self.assertEqual(self.process.wait(LIMIT), 0)
        self.assertFalse(os.path.exists(os.path.join(self.dir, "control")))
        with self.assertRaises(OSError):
            socket.create_connection((self.admin.host, int(port)))
        self.start("--port", port)
        self.assertEqual((self.admin.port, authority()), (port, before))
        self.check(401, earlier.ask("GET", SLICES))
        self.check(200, self.driver.ask("GET", SLICES))


if __name__ == "__main__":
    unittest.main()
