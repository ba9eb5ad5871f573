# SPDX-License-Identifier: Apache-2.0
"""The pod of the DaemonSet with the component dra, run by podman: it serves claims with the identity and the rights of the manifests.

devplug-apiserver and devplug-kubelet are on this host, so the pod has the host's network. What a kubelet does for a pod is done here: the
token of the service account is mounted, and the variables that lead to the API server are set.
"""
import base64
import json
import os
import sys

import yaml

from pod import NODE, Pod
from waiting import check, until

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "../../tests/promises"))

from api_server import ApiServer  # noqa: E402 (it is found now)
from devplug_apiserver import resources  # noqa: E402

COMPONENT = os.path.join(HERE, "../container/components/dra")
NAMESPACE, ACCOUNT = "devplugd", "devplugd"
DRIVER = "devices.vendor.example"
RESOURCES = f"""dra = {{ driver = "{DRIVER}"; }};
kubelet = {{ plugins_registry_dir = "%s"; }};
resources = (
    {{ name = "vendor.example/gpu"; driver = "static"; match = ( {{ count = 3; }} ); serve = "dra";
      container = {{ env = "GPU=${{ids:,}}"; }}; }}
);
"""


class DraPod(Pod):
    NETWORK = "host"

    def start(self):
        self.registry, self.account = self.scratch + "/plugins-registry", self.scratch + "/account"
        os.mkdir(self.registry)
        os.mkdir(self.account)
        self.api = ApiServer(self.scratch + "/api", node=NODE)
        self.create_account()
        super().start()

    def close(self):
        super().close()
        self.api.stop()

    def create_account(self):
        """With the rights of the component, as it would be mounted."""
        metadata = {"name": ACCOUNT, "namespace": NAMESPACE}
        objects = [{"apiVersion": "v1", "kind": "ServiceAccount", "metadata": metadata},
                   {"apiVersion": "v1", "kind": "Secret", "type": "kubernetes.io/service-account-token",
                    "metadata": {**metadata, "annotations": {"kubernetes.io/service-account.name": ACCOUNT}}}]
        with open(COMPONENT + "/rights.yaml") as file:
            objects[1:1] = yaml.safe_load_all(file)
        for found in objects:
            for subject in found.get("subjects", []):
                subject["namespace"] = NAMESPACE
            resource = resources.find_kind(found["apiVersion"], found["kind"])
            answer = self.api.ask("POST", resources.collection_path(resource, found["metadata"].get("namespace")), found)
            check(answer.code == 201, answer.body)
        secret = self.api.ask("GET", f"/api/v1/namespaces/{NAMESPACE}/secrets/{ACCOUNT}").body
        for name, value in secret["data"].items():
            with open(os.path.join(self.account, name), "wb", opener=lambda path, flags: os.open(path, flags, 0o600)) as file:
                file.write(base64.b64decode(value))

    def kubelet_options(self):
        return ["--plugins-registry", self.registry]

    def configuration_files(self):
        return {"resources.conf": RESOURCES % self.registry}

    def adapt(self, spec):
        container = spec["containers"][0]
        # devplug-kubelet gets the paths of sockets.
        next(mount for mount in container["volumeMounts"] if mount["name"] == "plugins-registry")["mountPath"] = self.registry
        container["volumeMounts"].append(
            {"name": "account", "mountPath": "/var/run/secrets/kubernetes.io/serviceaccount", "readOnly": True})
        spec["volumes"].append({"name": "account", "hostPath": {"path": self.account}})
        container["env"] += [{"name": "KUBERNETES_SERVICE_HOST", "value": "127.0.0.1"},
                             {"name": "KUBERNETES_SERVICE_PORT", "value": str(self.api.port)}]

    def dra(self):
        answer = self.devplugctl("status", "--json")
        return json.loads(answer.stdout).get("dra") if answer.returncode == 0 else None

    def await_driver(self):
        """The pod that exists now is registered, and its slices are stored."""
        def look():
            answer = self.ask_kubelet("status", "--json")
            return (answer.returncode == 0 and json.loads(answer.stdout)["drivers"] and len(self.api.pool() or {}) == 3 and
                    (self.dra() or {}).get("registered"))

        until(look, lambda: f"the driver: {self.dra()} {self.log()}")

    def run_pod(self, name, count):
        claim = self.api.schedule_limits(name, [{"vendor.example/gpu": count}])
        check(claim, f"no claim for {name}")
        file = os.path.join(self.scratch, name + ".json")
        with open(file, "w") as stream:
            json.dump(claim, stream)
        answer = self.ask_kubelet("pod", name, "--claim", file, "--container", f"main:vendor.example/gpu={count}", "--json")
        check(answer.returncode == 0 and json.loads(answer.stdout)["phase"] == "Running", answer.stdout + answer.stderr)
        return claim

    def documents(self):
        return {name: open(os.path.join(self.scratch, "cdi", name)).read()
                for name in sorted(os.listdir(self.scratch + "/cdi")) if name.startswith("devplugd.dra-")}


steps = []


def step(function):
    steps.append(function)
    return function


@step
def publishes_slices_as_its_service_account(pod):
    pod.await_driver()
    check((pod.dra()["identity"], pod.dra()["node"]) == ("ServiceAccount", NODE), f"{pod.dra()}")
    classes = pod.devplugctl("dra", "classes")
    check(classes.returncode == 0, classes.stderr)
    pod.api.apply(classes.stdout)


@step
def serves_a_pod_with_a_claim(pod):
    pod.claim = pod.run_pod("trainer", 2)
    document = json.loads("".join(pod.documents().values()))
    names = [edits for device in document["devices"] for edits in device["containerEdits"]["env"]]
    check(names == ["GPU=gpu-0,gpu-1"], f"{document}")


@step
def keeps_the_claim_when_the_pod_is_replaced(pod):
    before, old = pod.documents(), pod.name
    pod.name, pod.container = "pod-2", "pod-2-devplugd"
    pod.create()
    until(lambda: "this one starts when it has ended" in pod.log(), lambda: "the new pod to wait: " + pod.log())
    pod.do("stop", "-t", "15", old + "-devplugd")
    until(lambda: (pod.dra() or {}).get("registered"), lambda: "the new pod to serve: " + pod.log())
    pod.await_driver()
    check(pod.documents() == before, "the claim's file has changed")
    pod.run_pod("second", 1)
    check(len(pod.documents()) == 2, f"{pod.documents()}")


@step
def releases_the_claim(pod):
    answer = pod.ask_kubelet("pod", "rm", "trainer")
    check(answer.returncode == 0, answer.stderr)
    check(len(pod.documents()) == 1, f"{pod.documents()}")


@step
def needs_no_other_rights(pod):
    check(": 403" not in pod.log(), pod.log())
