# SPDX-License-Identifier: Apache-2.0
"""Failures and recoveries of devices are Events on the Node and on the pods that have the device."""
import base64
import json
import os
import time
import unittest

from api_server import write_kubeconfig
from devplug_apiserver import resources
from node import until
from report_node import REPORT, ReportTest, SECRET
from test_dra_rights import verb_of

EVENTS, PODS = "/api/v1/events", "/api/v1/namespaces/default/pods"


class NodeEvents(ReportTest):
    def begin(self, *resources):
        """With the kubelet, which knows the pods."""
        socket = os.path.join(self.node.kubelet_state, "pod-resources", "kubelet.sock")
        self.configure(*resources, text=REPORT, kubelet=f'pod_resources_socket = "{socket}";')
        self.node.start_kubelet()
        self.node.start()
        self.node.await_serving()

    def run_pod(self, name, node="node-a", **limits):
        """On the kubelet and on the API server. Returns the UID of the latter."""
        self.node.pod(name, **limits)
        pod = {"metadata": {"name": name}, "spec": {"nodeName": node}}
        answer = self.api.ask("POST", PODS, pod)
        self.assertEqual(answer.code, 201, answer.body)
        return answer.body["metadata"]["uid"]

    def await_event(self, *key):
        return until(lambda: self.api.events().get(key), f"an Event about {key}; there are {list(self.api.events())}")

    def test_events(self):
        """On the Node and on the pods that have the device, also by a replica; not on other pods."""
        self.begin(self.probed("gpu", count=2).replace("match =", "share = { replicas = 2; }; match ="))
        uids = {name: self.run_pod(name, gpu=1) for name in ("p", "q", "r")}
        until(lambda: sum(len(row["pods"]) for row in self.node.resource("vendor.example/gpu")["devices"]) == 3, "the pods to be known")
        held = {row["id"]: {pod["pod"] for pod in row["pods"]} for row in self.node.resource("vendor.example/gpu")["devices"]}
        self.set_health("gpu-0", "too hot")
        event, = self.await_event("Node", "node-a", "DeviceFailed")
        self.assertEqual((event["type"], event["metadata"]["namespace"], event["count"], event["involvedObject"]["uid"]),
                         ("Warning", "default", 1, "node-a"))
        self.assertRegex(event["message"], r"^vendor\.example/gpu: device gpu-0 has failed: .*too hot")
        self.assertEqual((event["source"], event["reportingComponent"]), ({"component": "devplugd", "host": "node-a"}, "devplugd"))
        for pod in held["gpu-0"]:
            event, = self.await_event("Pod", pod, "DeviceFailed")
            self.assertEqual((event["involvedObject"]["uid"], event["involvedObject"]["namespace"]), (uids[pod], "default"))
        self.set_health("gpu-0", "ok")
        event, = self.await_event("Node", "node-a", "DeviceRecovered")
        self.assertEqual((event["type"], event["message"]), ("Normal", "vendor.example/gpu: device gpu-0 works again"))
        for pod in held["gpu-0"]:
            self.await_event("Pod", pod, "DeviceRecovered")
        self.assertEqual({name for kind, name, _ in self.api.events() if kind == "Pod"}, held["gpu-0"])

    def test_rate(self):
        """A device that fails again and again has one Event with a count, which is not written each time."""
        self.begin(self.probed("gpu"))
        for _ in range(6):
            for text, health in (("broken", "Unhealthy"), ("ok", "Healthy")):
                self.set_health("gpu-1", text)
                until(lambda: self.health_of("gpu-1") == health, f"gpu-1 to be {health}")
        event, = self.await_event("Node", "node-a", "DeviceFailed")
        until(lambda: self.api.events()["Node", "node-a", "DeviceRecovered"][0]["count"] > 1, "a repetition")
        self.assertGreaterEqual(event["lastTimestamp"], event["firstTimestamp"])
        # Another device is not held back.
        self.set_health("gpu-2", "broken")
        until(lambda: len(self.api.events()["Node", "node-a", "DeviceFailed"]) == 2, "the Event about the other device")
        self.assertEqual(len(self.api.events()["Node", "node-a", "DeviceRecovered"]), 1)
        writes = [method for method, path, _ in self.api.requests if "/events" in path and method != "GET"]
        self.assertIn("PATCH", writes)
        # 3 for each of the two kinds, and the one of the other device.
        self.assertLessEqual(len(writes), 7)

    def test_expired_event(self):
        """The API server keeps an Event for an hour: a later occurrence is another one."""
        self.begin(self.probed("gpu"))
        self.set_health("gpu-1", "broken")
        event, = self.await_event("Node", "node-a", "DeviceFailed")
        self.set_health("gpu-1", "ok")
        self.await_event("Node", "node-a", "DeviceRecovered")
        self.assertEqual(self.api.ask("DELETE", f"/api/v1/namespaces/default/events/{event['metadata']['name']}").code, 200)
        self.set_health("gpu-1", "broken")
        again, = self.await_event("Node", "node-a", "DeviceFailed")
        self.assertEqual(again["count"], 1)
        self.assertNotEqual(again["metadata"]["name"], event["metadata"]["name"])

    def test_rights(self):
        """A ServiceAccount has the rights of the table, and uses each."""
        self.begin(self.probed("gpu", count=1))
        self.run_pod("p", gpu=1)
        items = json.loads(self.ctl("dra", "credentials").stdout)["items"]
        for found in items:
            resource = resources.find_kind(found["apiVersion"], found["kind"])
            path = resources.collection_path(resource, found["metadata"].get("namespace"))
            self.assertEqual(self.api.ask("POST", path, found).code, 201)
        role, = (found for found in items if found["kind"] == "ClusterRole")
        granted = {(verb, group, resource) for rule in role["rules"] for verb in rule["verbs"] for group in rule["apiGroups"]
                   for resource in rule["resources"]}
        data = self.api.ask("GET", SECRET).body["data"]
        write_kubeconfig(self.kubeconfig, self.api.url(), self.api.authority, token=base64.b64decode(data["token"]).decode())
        self.node.stop()
        self.api.requests.clear()
        self.node.start()
        self.node.await_serving()
        for text in ("broken", "ok", "broken"):
            self.set_health("gpu-0", text)
            until(lambda: self.health_of("gpu-0") == ("Healthy" if text == "ok" else "Unhealthy"), "the health")
        self.await_event("Pod", "p", "DeviceFailed")

        def used():
            with self.api.lock:
                paths = [(method, path) for method, path, _ in self.api.requests if path.startswith("/api") and path not in (EVENTS, SECRET)]
            return {verb_of(*one) for one in paths}

        until(lambda: used() == granted, f"each right to be used: {granted}")
        self.assertEqual([one for one in self.api.requests if one[2] == 403], [])

    def health_of(self, device):
        return next(found["health"] for found in self.node.resource("vendor.example/gpu")["devices"] if found["id"] == device)

    def test_switched_off(self):
        """Without reports nothing is written, although DRA still needs the process."""
        self.configure(self.probed("gpu", serve="dra"), text=REPORT)
        self.node.start()
        self.register()
        self.await_pool()
        self.set_health("gpu-0", "broken")
        self.await_event("Node", "node-a", "DeviceFailed")
        self.configure(self.probed("gpu", serve="dra"))
        self.node.reload()
        until(lambda: set(self.conditions()) <= {"Ready"}, "the end of reports")
        self.set_health("gpu-1", "broken")
        self.await_pool(lambda pool: sum("taints" in device for device in pool.values()) == 2)
        time.sleep(1)
        (event,) = self.api.events()["Node", "node-a", "DeviceFailed"]
        self.assertEqual(event["count"], 1)

    def test_restart(self):
        """What is known is not reported again by the next process; what fails while none runs is."""
        self.begin(self.probed("gpu"))
        self.set_health("gpu-0", "broken")
        self.await_event("Node", "node-a", "DeviceFailed")
        os.kill(until(self.process, "the process"), 9)
        self.set_health("gpu-1", "broken")
        until(lambda: any("gpu-1 has failed" in event["message"] for event in self.api.events()["Node", "node-a", "DeviceFailed"]),
              "the Event about the second device")

    def test_refusals(self):
        """A failure that may pass is repeated; an Event that the server refuses is dropped, and shown."""
        self.begin(self.probed("gpu"))
        for number, (fault, shown) in enumerate({500: ": 500", 429: ": 429", "close": "POST"}.items()):
            with self.subTest(fault):
                self.api.faults = [lambda method, path: fault if "/events" in path and method == "POST" else None]
                self.set_health(f"gpu-{number}", "broken")
                until(lambda: shown in (self.report_failure() or ""), shown)
                self.api.faults = []
                until(lambda: any(f"gpu-{number} has" in event["message"]
                                  for event in self.api.events().get(("Node", "node-a", "DeviceFailed"), [])), "the Event")
                until(lambda: self.report_failure() == "", "the failure to be over")
        for device, code in (("gpu-0", 403), ("gpu-2", 409)):
            self.api.faults = [lambda method, path: code if "/events" in path and method == "POST" else None]
            self.set_health(device, "ok")
            until(lambda: f": {code}" in (self.report_failure() or ""), "the refusal")
        self.api.faults = []
        self.set_health("gpu-1", "ok")
        self.await_event("Node", "node-a", "DeviceRecovered")
        self.assertEqual([event["message"] for event in self.api.events()["Node", "node-a", "DeviceRecovered"]],
                         ["vendor.example/gpu: device gpu-1 works again"])

    def test_pod_of_another_node(self):
        """A pod that has moved, or does not exist on the API server, gets no Event."""
        self.begin(self.probed("gpu", count=2))
        self.run_pod("moved", node="node-b", gpu=1)
        self.node.pod("unknown", gpu=1)
        for device in ("gpu-0", "gpu-1"):
            self.set_health(device, "broken")
        until(lambda: len([path for method, path, _ in self.api.requests if method == "GET" and path.startswith(PODS)]) >= 2,
              "both pods to be read")
        until(lambda: len(self.api.events().get(("Node", "node-a", "DeviceFailed"), [])) == 2, "the Events on the Node")
        self.assertEqual({kind for kind, _, _ in self.api.events()}, {"Node"})


if __name__ == "__main__":
    unittest.main()
