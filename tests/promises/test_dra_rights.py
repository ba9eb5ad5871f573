# SPDX-License-Identifier: Apache-2.0
"""The rights of devplugd in a cluster are one table: what it asks for is what it uses, and manifests and documents have it."""
import base64
import importlib.machinery
import importlib.util
import json
import os
import re
import shutil
import subprocess
import textwrap
import unittest
import urllib.parse

from api_server import APISERVER, SLICES_PATH as SLICES, rights_of, write_kubeconfig
from devplug_apiserver import resources
from dra_node import DRIVER, DraTest
from node import program, until

TOP = os.path.join(os.path.dirname(os.path.realpath(__file__)), "../..")
TOOL, MANUAL = os.path.join(TOP, "packaging/make-rights"), os.path.join(TOP, "docs/dra.md")
SECRET = "/api/v1/namespaces/kube-system/secrets/devplugd"


def load_program(path):
    """A program in Python, as a module."""
    loader = importlib.machinery.SourceFileLoader(os.path.basename(path).replace("-", "_"), path)
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader(loader.name, loader))
    loader.exec_module(module)
    return module


def load_models(folder):
    """A function that checks an object by the models of @kubernetes/client-node, which are made from the API's description."""
    make_fields = load_program(os.path.join(APISERVER, "make-fields"))

    def check(path, value, kind, names):
        if kind in ("any", "string", "boolean", "integer", "time"):
            expected = {"string": str, "boolean": bool, "integer": int}.get(kind, object)
            assert isinstance(value, expected), f"{path}: {value!r} is not a {kind}"
        elif kind.startswith("["):
            assert isinstance(value, list), f"{path}: {value!r} is not a list"
            for i, item in enumerate(value):
                check(f"{path}[{i}]", item, kind[1:-1], names)
        elif kind.startswith("{"):
            for key, item in value.items():
                check(f"{path}.{key}", item, kind[1:-1], names)
        else:
            check_model(path, value, names[kind])

    def check_model(path, value, model):
        models = []
        _, fields = make_fields.read_model(f"{folder}/dist/gen/models", model, models)
        names = {make_fields.type_name(name): name for name in models}
        kinds = {name.rstrip("!"): kind for name, kind in fields.items()}
        missing = {name[:-1] for name in fields if name.endswith("!")} - set(value)
        assert not missing, f"{path} lacks {missing}"
        for name, item in value.items():
            assert name in kinds, f"{path}.{name} is not a field of {model}"
            check(f"{path}.{name}", item, kinds[name], names)

    return check_model


def verb_of(method, path):
    """(verb, API group, resource) of a request, or None."""
    url = urllib.parse.urlsplit(path)
    place = resources.find_place(urllib.parse.unquote(url.path))
    if not place:
        return None
    listing = "watch" if "watch=1" in url.query or "watch=true" in url.query else "list"
    verb = {"GET": "get" if place.name else listing, "POST": "create", "PUT": "update", "PATCH": "patch", "DELETE": "delete"}[method]
    return verb, place.resource.group, "/".join(filter(None, (place.resource.plural, place.subresource)))


class DraRights(DraTest):
    def print_objects(self):
        answer = self.ctl("dra", "credentials")
        self.assertEqual((answer.returncode, answer.stderr), (0, ""))
        return json.loads(answer.stdout)["items"]

    def rights(self, objects):
        role, = (found for found in objects if found["kind"] == "ClusterRole")
        return rights_of(role["rules"])

    def become_account(self):
        """Applies the objects of "dra credentials", and writes a kubeconfig with the token. Returns the objects."""
        objects = self.print_objects()
        for found in objects:
            resource = resources.find_kind(found["apiVersion"], found["kind"])
            path = resources.collection_path(resource, found["metadata"].get("namespace"))
            answer = self.api.ask("POST", path, found)
            self.assertEqual(answer.code, 201, answer.body)
        data = self.api.ask("GET", SECRET).body["data"]
        write_kubeconfig(self.kubeconfig, self.api.url(), self.api.authority, token=base64.b64decode(data["token"]).decode())
        self.api.requests.clear()
        return objects

    def test_what_is_asked_for_is_used(self):
        """A ServiceAccount with the rights of the table serves DRA, no request is refused, and each right is used."""
        self.serve_api()
        self.configure(self.resource("gpu", count=130))
        objects = self.become_account()
        self.node.start()
        self.register()
        self.await_pool(lambda pool: len(pool) == 130)
        claim = "default", "c", self.api.allocate("c", DRIVER, [("a", self.api.device_named("vendor.example/gpu", 0))])
        self.assertNotIsInstance(self.prepare(claim)[claim[2]], str)
        # Another slice fewer, and a changed one.
        self.configure(self.resource("gpu", count=1))
        self.node.reload()
        self.await_pool(lambda pool: len(pool) == 1)
        until(lambda: len(self.api.slices) == 1, "the other slices to be deleted")
        self.assertEqual(self.dra()["api_failure"], "")
        with self.api.lock:
            requests = list(self.api.requests)
        self.assertEqual([one for one in requests if one[2] == 403], [])
        used = {verb_of(method, path) for method, path, _ in requests if path.startswith("/api")}
        self.assertEqual(used, self.rights(objects))

    def check_allowed(self, account, granted):
        """The account may do what was granted, and gets 403 for the rest."""
        for resource in resources.RESOURCES:
            subresources = ("", *(["/status"] if resource.status else []), *(["/eviction"] if resource.plural == "pods" else []))
            for subresource in subresources:
                collection = resources.collection_path(resource, "default")
                one = f"{collection}/x{subresource}"
                for verb, method, path in (("get", "GET", one), ("list", "GET", collection),
                                           ("create", "POST", one if subresource == "/eviction" else collection),
                                           ("update", "PUT", one), ("patch", "PATCH", one), ("delete", "DELETE", one),
                                           ("deletecollection", "DELETE", collection)):
                    if subresource and path == collection:
                        continue
                    with self.subTest(f"{verb} {resource.plural}{subresource}"):
                        content = "application/merge-patch+json" if method == "PATCH" else "application/json"
                        body = {"metadata": {"name": "x"}} if method in ("POST", "PUT", "PATCH") else None
                        code = self.api.ask(method, path, body, user=account, content=content).code
                        self.assertEqual(code in (403, 405), (verb, resource.group, resource.plural + subresource) not in granted, code)

    def test_nothing_else_is_allowed(self):
        """With each feature, the account of the objects may do what the table has for it."""
        account = "system:serviceaccount:kube-system:devplugd"
        sizes = {}
        self.serve_api()
        for feature, text in load_program(TOOL).FEATURES.items():
            with self.subTest(feature):
                with open(self.node.config, "w") as file:
                    file.write(text)
                objects = self.become_account()
                granted = self.rights(objects)
                sizes[feature] = len(granted)
                self.check_allowed(account, granted)
                for found in objects:
                    resource = resources.find_kind(found["apiVersion"], found["kind"])
                    path = resources.collection_path(resource, found["metadata"].get("namespace"))
                    self.assertEqual(self.api.ask("DELETE", f"{path}/{found['metadata']['name']}").code, 200)
        self.assertEqual(sizes, {"report": 5, "labels": 2, "evict": 3, "delete": 4, "serve": 7, "claim_status": 9})

    def test_chart(self):
        """With each value, the pods of the chart may do what the table has for it, and with the rest, nothing."""
        rules = {feature: rights_of(load_program(TOOL).read_rules(program("devplugctl"), feature))
                 for feature in load_program(TOOL).FEATURES}
        self.serve_api()
        for values, features in (({"dra": {"enabled": True}}, ["serve"]), ({"rights": {"report": True}}, ["report"]),
                                 ({"rights": {"nodeLabels": True}}, ["labels"]),
                                 ({"rights": {"report": True, "forceAfter": True, "claimStatus": True}}, ["report"]),
                                 ({"rights": {"eviction": True}}, ["evict"]),
                                 ({"rights": {"eviction": True, "forceAfter": True}}, ["delete"]),
                                 ({"rights": {"forceAfter": True, "claimStatus": True}}, []), ({}, []),
                                 ({"dra": {"enabled": True}, "rights": {"report": True, "claimStatus": True}}, ["report", "claim_status"])):
            with self.subTest(features):
                granted = self.api.become_pod(self.kubeconfig, values)
                wanted = {(verb.replace("arbitrary-", "associated-"), *rest) for feature in features for verb, *rest in rules[feature]}
                self.assertEqual(granted, wanted)
                self.check_allowed("system:serviceaccount:devplugd:devplugd", granted)
                for kind in ("clusterroles", "clusterrolebindings"):
                    self.api.ask("DELETE", f"/apis/rbac.authorization.k8s.io/v1/{kind}/devplugd")

    @unittest.skipIf("DEVPLUGD_CLIENT_NODE" not in os.environ, "DEVPLUGD_CLIENT_NODE: an unpacked @kubernetes/client-node of npm")
    def test_objects_have_fields_of_the_api(self):
        self.node.configure(self.resource("gpu"), text=f'dra = {{ driver = "{DRIVER}"; }};')
        check = load_models(os.environ["DEVPLUGD_CLIENT_NODE"])
        objects = self.print_objects()
        self.assertEqual([found["kind"] for found in objects], ["ServiceAccount", "ClusterRole", "ClusterRoleBinding", "Secret"])
        for found in objects:
            check(found["kind"], found, f"V1{found['kind']}")
        role = json.loads(json.dumps(objects[1]))
        role["rules"][0]["verb"] = ["get"]
        with self.assertRaisesRegex(AssertionError, r"rules\[0\]\.verb is not a field of V1PolicyRule"):
            check("ClusterRole", role, "V1ClusterRole")

    @unittest.skipUnless(shutil.which("kubectl"), "needs kubectl")
    def test_steps_of_the_manual(self):
        """The steps of docs/dra.md give a node an identity, with kubectl as it is."""
        self.serve_api()
        self.api.write_kubeconfigs()
        with open(MANUAL, encoding="utf-8") as file:
            section = file.read().partition("## A ServiceAccount for hosts\n")[2].partition("\n## ")[0]
        create, files, write, configuration = (textwrap.dedent(block) for block in re.findall(r"```\n(.*?)```", section, re.S))
        folder = self.node.path("etc")
        os.mkdir(folder)
        # The kubelet of the node gets its credentials from a program.
        kubelet = self.node.path("host/var/lib/kubelet/kubeconfig")
        os.makedirs(os.path.dirname(kubelet))
        write_kubeconfig(kubelet, self.api.url(), self.api.authority, token="x")
        with open(kubelet) as file:
            text = file.read()
        with open(kubelet, "w") as file:
            file.write(text.replace("token: x", "exec: { command: aws }"))
        self.configure(self.resource("gpu"), text=f'host_root = "{self.node.path("host")}";')
        commands = (create + files + write).replace("devplugctl ", f"{program('devplugctl')} -c {self.node.config} ")
        # The API server of the test has no schemas for kubectl.
        commands = commands.replace("kubectl apply ", "kubectl apply --validate=false ").replace("/etc/devplugd", folder)
        answer = subprocess.run(["sh", "-e", "-c", commands], cwd=folder, capture_output=True, text=True, timeout=120,
                                env={**os.environ, "KUBECONFIG": self.node.path("api/admin.kubeconfig")})
        self.assertEqual((answer.returncode, answer.stderr), (0, ""))
        self.assertIn('kubeconfig = "/etc/devplugd/kubeconfig"', configuration)
        self.kubeconfig = os.path.join(folder, "kubeconfig")
        self.begin(self.resource("gpu"))
        self.await_pool(lambda pool: len(pool) == 3)
        self.assertEqual(self.dra()["identity"], "dra.kubeconfig")

    def test_kubeconfig_without_a_kubelet(self):
        """The address of the API server is not known, and is left to the user."""
        self.node.configure(self.resource("gpu", serve="plugin"), text=f'host_root = "{self.node.dir}";')
        answer = self.ctl("dra", "kubeconfig")
        self.assertEqual(answer.returncode, 0)
        self.assertIn('server: "https://API-SERVER:6443", certificate-authority: ca.crt', answer.stdout)
        self.assertIn("replace https://API-SERVER:6443", answer.stderr)

    def test_a_missing_right_is_shown(self):
        self.serve_api()
        self.configure(self.resource("gpu"))
        self.become_account()
        path = "/apis/rbac.authorization.k8s.io/v1/clusterroles/devplugd"
        role = self.api.ask("GET", path).body
        self.api.ask("PUT", path, {**role, "rules": [rule for rule in role["rules"] if rule["resources"] != ["resourceslices"]]})
        self.node.start()
        self.register()
        until(lambda: "403" in (self.dra() or {}).get("api_failure", ""), "the refusal")
        self.assertIn("resourceslices", self.dra()["api_failure"])
        self.assertEqual(self.api.pool(), None)
        self.api.ask("PUT", path, {**role, "metadata": {"name": "devplugd"}})
        self.await_pool(lambda pool: len(pool) == 3)
        self.assertEqual(self.api.ask("GET", SLICES).code, 200)

    def test_a_feature_that_is_off_asks_for_nothing(self):
        self.node.configure(self.resource("gpu", serve="plugin"))
        answer = self.ctl("dra", "credentials")
        self.assertEqual((answer.returncode, json.loads(answer.stdout)["items"]), (0, []))
        self.assertIn('no resource has serve = "dra" or severity = "evict", and neither cluster.report nor cluster.labels is in use', answer.stderr)

    def test_manifests_and_documents(self):
        answer = subprocess.run([TOOL, "--check", program("devplugctl")], capture_output=True, text=True)
        self.assertEqual((answer.returncode, answer.stderr), (0, ""))
        # Something else in a file is found.
        with open(os.path.join(TOP, "docs/dra-reference.md"), encoding="utf-8") as file:
            self.assertIn("<!-- rights: serve -->", file.read())


if __name__ == "__main__":
    unittest.main()
