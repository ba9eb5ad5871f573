# SPDX-License-Identifier: Apache-2.0
"""devplug-kubelet's pods: init containers and sidecars, and the PodResources API that tells who has what."""
import concurrent.futures
import json
import os
import time
import unittest

import http2
from node import NodeTest, static, until

SERVICE = ".PodResourcesLister/"


def field(number, value):
    return bytes([number << 3 | 2, len(value)]) + value


def fields(data):
    """The members of a message, strings and messages alike as bytes."""
    found, at = {}, 0
    while at < len(data):
        number, kind = data[at] >> 3, data[at] & 7
        at += 1
        size = shift = 0
        while True:
            size |= (data[at] & 0x7F) << shift
            shift += 7
            at += 1
            if data[at - 1] < 0x80:
                break
        value = size
        if kind == 2:
            value, at = data[at:at + size], at + size
        found.setdefault(number, []).append(value)
    return found


class Pods(NodeTest):
    def begin(self, *resources):
        self.node.configure(*resources)
        self.node.start_kubelet()
        self.node.start()

    def pod(self, *words):
        answer = self.node.ask_kubelet("pod", *words, "--json")
        return json.loads(answer.stdout) if answer.stdout else answer.stderr

    def ask(self, method, request=b"", version="/v1"):
        """The answer of a call: (message, None) or (None, all bytes that came instead)."""
        peer = http2.connect(os.path.join(self.node.kubelet_state, "pod-resources/kubelet.sock"),
                             http2.call(1, version + SERVICE + method, request))
        with peer:
            received = b""
            while True:
                part = peer.recv(65536)
                received += part
                at, data, ended = 0, b"", not part
                while at + 9 <= len(received):
                    size = int.from_bytes(received[at:at + 3], "big")
                    kind, flags = received[at + 3], received[at + 4]
                    stream = int.from_bytes(received[at + 5:at + 9], "big")
                    if at + 9 + size > len(received):
                        break
                    if stream == 1:
                        data += received[at + 9:at + 9 + size] if kind == http2.DATA else b""
                        ended = ended or bool(flags & http2.END_STREAM)
                    at += 9 + size
                if ended:
                    return (data[5:], None) if data else (None, received)

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

    def test_containers_and_what_the_api_says(self):
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
                            (("--container", "A:vendor.example/gpu=1"), "name is lower case"),
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
