# SPDX-License-Identifier: Apache-2.0
"""devplug-kubelet's pods: init containers and sidecars, and the PodResources API that tells who has what."""
import concurrent.futures
import json
import os
import time
import unittest

from node import NodeTest, static, until
from pod_resources import ask, field, fields


class Pods(NodeTest):
    def begin(self, *resources):
        self.node.configure(*resources)
        self.node.start_kubelet()
        self.node.start()

    def pod(self, *words):
        answer = self.node.ask_kubelet("pod", *words, "--json")
        return json.loads(answer.stdout) if answer.stdout else answer.stderr

    def ask(self, method, request=b"", version="/v1"):
        return ask(os.path.join(self.node.kubelet_state, "pod-resources/kubelet.sock"), method, request, version)

    def listed(self, version="/v1"):
        """{pod: {container: {ids}}}"""
        message, _ = self.ask("List", version=version)
        pods = {}
        for pod in map(fields, fields(message).get(1, [])):
            containers = pods[pod[1][0].decode()] = {}
            for container in map(fields, pod.get(3, [])):
                containers[container[1][0].decode()] = {
                    fields(device)[2][0].decode() for device in container.get(2, [])}
        return pods

    def test_containers_and_what_the_api_reports(self):
        self.begin(static("gpu", 5, 'container = { env = ( "GPUS=${ids:,}" ); };'))
        self.node.await_allocatable(gpu=5)
        got = self.pod("one", "--init", "prep:vendor.example/gpu=2", "--sidecar", "log:vendor.example/gpu=1",
                       "--container", "work:vendor.example/gpu=2", "--container", "idle")
        self.assertEqual([c["name"] for c in got["containers"]], ["prep", "log", "work", "idle"])
        prep, log, work, idle = (c["resources"].get("vendor.example/gpu", []) for c in got["containers"])
        self.assertEqual((len(prep), len(log), len(work), idle), (2, 1, 2, []))
        # The sidecar takes one of the init container's devices for good; the main container has the other.
        self.assertLess(set(log), set(prep))
        self.assertFalse(set(log) & set(work))
        self.assertEqual(set(prep) - set(log), set(prep) & set(work))
        for container in got["containers"][:3]:
            self.assertEqual(sorted(container["container"]["env"]["GPUS"].split(",")),
                             sorted(container["resources"]["vendor.example/gpu"]))
        self.assertEqual(got["container"], got["containers"][2]["container"])
        self.assertEqual(self.listed(), {"one": {"log": set(log), "work": set(work), "idle": set()}})
        self.assertEqual(self.listed("/v1alpha1"), {"one": {"work": set(work), "idle": set()}})
        message, _ = self.ask("GetAllocatableResources")
        self.assertEqual(len(fields(message)[1]), 5)

        message, _ = self.ask("Get", field(1, b"one") + field(2, b"default"))
        self.assertEqual(fields(fields(message)[1][0])[1], [b"one"])
        message, refused = self.ask("Get", field(1, b"two") + field(2, b"default"))
        self.assertIsNone(message)
        self.assertIn(b"pod two in namespace default not found", refused)

        # It outlives a restart of the kubelet, and goes with the pod.
        self.node.stop_kubelet()
        self.node.start_kubelet()
        self.node.await_allocatable(gpu=5)
        self.assertEqual(self.listed()["one"]["work"], set(work))
        self.assertEqual(self.node.ask_kubelet("pod", "rm", "one").returncode, 0)
        self.assertEqual(self.listed(), {})
        self.assertEqual(self.node.node_resources()["vendor.example/gpu"]["allocated"], 0)

    def test_cpus_memory_and_claims(self):
        memory = {"memory_type": "memory", "size": 1 << 30, "nodes": [0]}
        claim = {"claim_name": "claim", "claim_namespace": "default", "claim_resources": [
            {"driver_name": "driver", "pool_name": "pool", "device_name": "device", "cdi_devices": ["v.e/c=1"]}]}
        self.node.kubelet_options = ["--node-other", json.dumps({"cpu_ids": [0, 1, 2, 3], "memory": [memory]})]
        self.begin(static("gpu", 1))
        self.node.await_allocatable(gpu=1)
        got = self.pod("one", "--limits", "vendor.example/gpu=1", "--container", "idle", "--other",
                       "main:" + json.dumps({"cpu_ids": [2, 3], "memory": [memory], "dynamic_resources": [claim]}))
        self.assertEqual(got["phase"], "Running")
        # With the pod they outlive a restart.
        for _ in range(2):
            message, _ = self.ask("List")
            containers = {c[1][0]: c for c in map(fields, fields(fields(message)[1][0])[3])}
            main, idle = containers[b"main"], containers[b"idle"]
            self.assertEqual((main[3], idle.get(3)), ([b"\2\3"], None))
            self.assertEqual(fields(main[4][0])[1], [b"memory"])
            self.assertEqual(fields(main[5][0])[2], [b"claim"])
            message, _ = self.ask("GetAllocatableResources")
            self.assertEqual((fields(message)[2], len(fields(message)[3])), ([b"\0\1\2\3"], 1))
            self.node.stop_kubelet()
            self.node.start_kubelet()
            self.node.await_allocatable(gpu=1)
        self.assertIn("see devplug-kubelet(1)", self.pod("two", "--other", 'main:{"cpu_ids": 1}'))
        for words in (("run", "--node-other", "[]"), ("pod", "two", "--other", "main:{"), ("pod", "two", "--other", "{}")):
            self.assertEqual(self.node.ask_kubelet(*words).returncode, 2, words)

    def test_a_manifest_is_refused(self):
        self.node.start_kubelet()
        until(self.node.kubelet_status, "the kubelet to listen")
        for name in ("pod.yaml", "./pod.yml", "pod.JSON"):
            answer = self.node.ask_kubelet("pod", name)
            self.assertEqual((answer.returncode, answer.stdout), (2, ""), name)
            self.assertIn("reads no manifests", answer.stderr)
        self.assertEqual(self.node.ask_kubelet("pod", "pod.yaml.x").returncode, 0)

    def test_get_is_off_before_1_34(self):
        self.node.start_kubelet("--as", "1.33")
        until(self.node.kubelet_status, "the kubelet to listen")
        message, refused = self.ask("Get", field(1, b"one") + field(2, b"default"))
        self.assertIsNone(message)
        self.assertIn(b"PodResources API Get method disabled", refused)

    def test_rate_limit(self):
        self.begin(static("gpu", 1))
        self.node.await_allocatable(gpu=1)
        began = time.monotonic()
        with concurrent.futures.ThreadPoolExecutor(max_workers=8) as pool:
            answers = list(pool.map(lambda _: self.ask("List"), range(200)))
        served = [answer for answer, _ in answers if answer is not None]
        refused = [text for _, text in answers if text is not None]
        self.assertGreaterEqual(len(served), 10)
        # A burst of 10, then 100 each second, however long it took.
        self.assertLessEqual(len(served), 11 + 100 * (time.monotonic() - began))
        self.assertTrue(all(b"rejected by rate limit" in text for text in refused))
        until(lambda: self.ask("List")[0] is not None, "the limit to pass")

    def test_the_socket_appears_whole(self):
        self.begin(static("gpu", 1))
        self.node.await_allocatable(gpu=1)
        folder = os.path.join(self.node.kubelet_state, "pod-resources")
        self.assertEqual(os.listdir(folder), ["kubelet.sock"])
        self.assertEqual(os.stat(folder).st_mode & 0o777, 0o750)

    def test_wrong_pods(self):
        self.begin(static("gpu", 1))
        self.node.await_allocatable(gpu=1)
        for words, said in ((("--container", "a:vendor.example/gpu=1", "--init", "a:"), "the same name"),
                            (("--container", "A:vendor.example/gpu=1"), "lower-case letters"),
                            (("--container", "a:gpu=1"), "not a name of an extended resource")):
            self.assertIn(said, self.pod("one", *words))
        self.assertIn("NAME:RESOURCE=N", self.pod("one", "--container", "a:vendor.example/gpu"))
        # Neither is the name of a pod that is meant to be admitted.
        for word in ("rm", "restart"):
            self.assertEqual(self.node.ask_kubelet("pod", word).returncode, 2)
        self.assertEqual(json.loads(self.node.ask_kubelet("pods", "--json").stdout), {"pods": []})

    def test_what_is_shown_of_a_refused_pod(self):
        self.begin(static("gpu", 1))
        self.node.await_allocatable(gpu=1)
        # The resource is known to the node, but no longer to the kubelet: OutOf, and nothing starts.
        self.node.stop()
        self.node.stop_kubelet()
        self.node.start_kubelet("--time-scale", "1000")
        until(lambda: self.node.node_resources().get("vendor.example/gpu", {}).get("state") == "forgotten",
              "the grace to pass")
        answer = self.node.ask_kubelet("pod", "one", "--limits", "vendor.example/gpu=1")
        self.assertEqual(answer.returncode, 1)
        self.assertIn("OutOfvendor.example/gpu", answer.stdout)
        self.assertNotIn("starts without", answer.stdout)


if __name__ == "__main__":
    unittest.main()
