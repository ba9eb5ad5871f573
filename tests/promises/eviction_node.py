# SPDX-License-Identifier: Apache-2.0
"""A node whose failed devices lose their pods: devplugd, a kubelet, and an API server that has the pods."""
import json
import os
import signal

from api_server import ApiServer
from devplug_apiserver.resources import PODS, collection_path
from node import static, until
from tool import ToolTest

GPU = "vendor.example/gpu"
NODE = "/api/v1/nodes/node-a"
POD_PATH = collection_path(PODS, "default")
BUDGETS = "/apis/policy/v1/namespaces/default/poddisruptionbudgets"
SETTLING = 600  # seconds: EVICTION_SETTLING


def owner(kind):
    return [{"apiVersion": "apps/v1", "kind": kind, "name": "x", "uid": "u", "controller": True}]


class EvictionTest(ToolTest):
    def setUp(self):
        super().setUp()
        self.kubeconfig = self.node.path("kubeconfig")
        self.api = ApiServer(self.node.path("api"))
        self.addCleanup(self.api.stop)
        self.api.kubeconfig(self.kubeconfig)
        os.mkdir(self.node.path("health"))

    # --- the node

    def gpu(self, more="", count=4, probe="", after=0):
        path = self.node.path("health/${id}")
        return static("gpu", count, f'health = ( {{ probe = "file"; path = "{path}"; missing = "healthy"; severity = "evict"; '
                                    f"evict_after = {after}; {probe} }} ); {more}")

    def configure(self, *resources, text=""):
        socket = os.path.join(self.node.kubelet_state, "pod-resources/kubelet.sock")
        self.node.configure(*resources, kubelet=f'pod_resources_socket = "{socket}"; pod_resources_interval = 1; '
                                                f'pod_logs_dir = "{self.node.kubelet_state}/pod-logs";',
                            text=f'dra = {{ kubeconfig = "{self.kubeconfig}"; node = "node-a"; }}; {text}')

    def begin(self, *resources, settled=True, count=4, text=""):
        """With a configuration that has not changed for some time, if `settled`."""
        self.configure(*resources, text=text)
        self.node.start_kubelet()
        self.node.start()
        self.node.await_serving()
        if settled:
            self.settle()
        self.node.await_allocatable(gpu=count)
        self.show_allocatable(count)

    def saved_plans(self):
        try:
            with open(os.path.join(self.node.run, "evictions.json")) as file:
                return json.load(file)
        except FileNotFoundError:
            return None

    def settle(self):
        self.restart_settled()
        self.node.await_serving()

    def restart_settled(self):
        """As if the configuration had been changed long ago."""
        until(lambda: (self.saved_plans() or {"resources": {}})["resources"].get(GPU), "the plan to be saved")
        self.node.stop()
        saved = self.saved_plans()
        for plan in saved["resources"].values():
            plan["changed_at"] -= (SETTLING + 1) * 1000000
        with open(os.path.join(self.node.run, "evictions.json"), "w") as file:
            json.dump(saved, file)
        self.node.start()

    def write(self, device, text):
        path = self.node.path(f"health/{device}")
        with open(path + ".new", "w") as file:
            file.write(text)
        os.rename(path + ".new", path)

    def kill_daemon(self):
        self.node.daemon.send_signal(signal.SIGKILL)
        self.node.daemon.wait()
        self.node.start()
        self.node.await_serving()

    # --- the cluster

    def show_allocatable(self, number):
        """As the kubelet does with its next status of the node."""
        answer = self.api.ask("PATCH", NODE + "/status", {"status": {"allocatable": {GPU: str(number)}}},
                              content="application/merge-patch+json")
        self.assertEqual(answer.code, 200, answer.body)

    def add_pod(self, name, uid, owners="ReplicaSet", phase="Running", node="node-a", status=None, **metadata):
        found = {"apiVersion": "v1", "kind": "Pod", "metadata": {
            "name": name, "namespace": "default", "uid": uid, "labels": {"app": name},
            **({"ownerReferences": owner(owners)} if owners else {}), **metadata},
            "spec": {"nodeName": node, "containers": []}, "status": {"phase": phase, **(status or {})}}
        with self.api.lock:
            self.api.store.change(PODS, "ADDED", found)

    def run_pod(self, name, **options):
        """A pod with one device, on the node and in the cluster. Returns the device."""
        given, refused = self.node.pod(name, gpu=1)
        self.assertIsNone(refused)
        self.add_pod(name, self.uid_of(name), **options)
        return given["resources"][GPU][0]

    def uid_of(self, name):
        return next(pod["uid"] for pod in self.node.call_kubelet("pods")["pods"] if pod["name"] == name)

    def end_pod(self, name):
        """The kubelet has stopped it."""
        self.node.ask_kubelet("pod", "rm", name)
        self.remove_pod(name)

    def remove_pod(self, name):
        with self.api.lock:
            self.api.remove(PODS, self.api.table(PODS)["default", name])

    def is_ending(self, name):
        pod = self.api.ask("GET", f"{POD_PATH}/{name}")
        return pod.code == 404 or "deletionTimestamp" in pod.body["metadata"]

    def evictions(self):
        """Names of the pods for which an eviction or a deletion was accepted, in their order."""
        with self.api.lock:
            return [path.split("/pods/")[1].split("/")[0] for method, path, code in self.api.requests
                    if "/pods/" in path and method in ("POST", "DELETE") and code in (200, 201)]

    def budget(self, name, allowed, label=None):
        self.api.ask("POST", BUDGETS, {"metadata": {"name": name}, "spec": {"selector": {"matchLabels": {"app": label or name}}}})
        self.allow(name, allowed)

    def allow(self, name, allowed):
        answer = self.api.ask("PATCH", f"{BUDGETS}/{name}/status", {"status": {
            "disruptionsAllowed": allowed, "desiredHealthy": 2, "currentHealthy": 2}}, content="application/merge-patch+json")
        self.assertEqual(answer.code, 200, answer.body)

    # --- what is shown

    def failures(self):
        """By device."""
        eviction = (self.node.find(GPU) or {}).get("eviction") or {"failures": []}
        return {failure["device"]: failure for failure in eviction["failures"]}

    def state(self, device):
        failure = self.failures().get(device)
        return failure and (failure["state"], failure["hold"])

    def await_state(self, device, state, hold=""):
        until(lambda: self.state(device) == (state, hold), lambda: f"{device} to be {state} {hold}: {self.failures()}\n{self.node.output()}")

    def pod_state(self, device, name):
        """(state, text) of a pod, or None."""
        found = [pod for pod in self.failures().get(device, {"pods": []})["pods"] if pod["pod"] == name]
        return (found[0]["state"], found[0]["text"]) if found else None

    def await_pod(self, device, name, state, words=""):
        def look():
            found = self.pod_state(device, name)
            return found and found[0] == state and words in found[1]

        until(look, lambda: f"{name} to be {state} {words!r}: {self.failures()}\n{self.node.output()}")

    def requests(self, method, word):
        with self.api.lock:
            return [one for one in self.api.requests if one[0] == method and word in one[1]]


__all__ = ["EvictionTest", "GPU", "POD_PATH"]
