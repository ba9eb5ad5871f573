# SPDX-License-Identifier: Apache-2.0
"""devplug-kubelet's topology manager: what a pod gets, and in which words it is refused."""
import json
import unittest

from node import NodeTest

UPPER = '{ name = "vendor.example/gpu"; driver = "static"; %s match = ( %s ); }'


class Topology(NodeTest):
    def begin(self, policy, *options, more=""):
        devices = ", ".join(f'{{ id = "gpu-{i}"; numa = {i // 2}; }}' for i in range(4))
        self.node.configure(UPPER % (more, devices))
        self.node.start_kubelet("--topology-policy", policy, *options)
        self.node.start()
        self.node.await_allocatable(gpu=4)

    def pod(self, name, *words):
        answer = self.node.ask_kubelet("pod", name, *words, "--json")
        return json.loads(answer.stdout)

    def gpus(self, pod):
        return set(pod["resources"]["vendor.example/gpu"])

    def test_none_aligns_nothing(self):
        self.begin("none")
        self.assertEqual(self.node.ask_kubelet("status", "--json").returncode, 0)
        pod = self.pod("a", "--limits", "vendor.example/gpu=3")
        self.assertIsNone(pod["containers"][0]["topology"])
        self.assertEqual(len(self.gpus(pod)), 3)

    def test_restricted(self):
        self.begin("restricted")
        self.pod("taker", "--limits", "vendor.example/gpu=1")
        pod = self.pod("pair", "--limits", "vendor.example/gpu=2")
        self.assertEqual(pod["containers"][0]["topology"], {"nodes": [1], "preferred": True})
        self.assertEqual(self.gpus(pod), {"gpu-2", "gpu-3"})
        pod = self.pod("late", "--limits", "vendor.example/gpu=2")
        self.assertEqual((pod["phase"], pod["reason"], pod["message"]),
                         ("Failed", "TopologyAffinityError",
                          "Pod was rejected: Resources cannot be allocated with Topology locality"))
        self.assertTrue([e for e in self.node.kubelet_events()
                         if e["event"] == "pod-rejected" and e["reason"] == "TopologyAffinityError"])
        # A refused pod has taken nothing.
        self.assertEqual(self.node.node_resources()["vendor.example/gpu"]["allocated"], 3)
        shown = self.node.ask_kubelet("pods").stdout
        self.assertIn("NUMA nodes: 1, preferred", shown)

    def test_single_numa_node(self):
        self.begin("single-numa-node")
        self.assertEqual(self.pod("three", "--limits", "vendor.example/gpu=3")["reason"], "TopologyAffinityError")
        self.assertIn(self.gpus(self.pod("two", "--limits", "vendor.example/gpu=2")), [{"gpu-0", "gpu-1"}])

    def test_best_effort_sends_the_plugin_what_must_be(self):
        self.begin("best-effort", more='prefer = "packed";')
        self.assertEqual(self.gpus(self.pod("one", "--limits", "vendor.example/gpu=1")) & {"gpu-2", "gpu-3"}, set())
        pod = self.pod("three", "--limits", "vendor.example/gpu=3")
        self.assertEqual(pod["phase"], "Running")
        self.assertEqual(pod["containers"][0]["topology"], {"nodes": [0, 1], "preferred": True})

    def test_scope_pod(self):
        self.begin("single-numa-node", "--topology-scope", "pod", "--numa-nodes", "2")
        words = [word for name in "abc" for word in ("--container", f"{name}:vendor.example/gpu=1")]
        self.assertEqual(self.pod("three", *words)["reason"], "TopologyAffinityError")
        pod = self.pod("two", *words[:4])
        self.assertEqual([c["topology"]["nodes"] for c in pod["containers"]], [[0], [0]])
        got = {i for c in pod["containers"] for i in c["resources"]["vendor.example/gpu"]}
        self.assertEqual(got, {"gpu-0", "gpu-1"})

    def test_unknown_nodes_and_options(self):
        for words in (("--topology-policy", "strict"), ("--topology-scope", "node"), ("--numa-nodes", "9"),
                      ("--numa-nodes", "0")):
            self.assertEqual(self.node.ask_kubelet("status", *words).returncode, 2, words)
        # The devices of node 1 are on none that this machine has.
        self.begin("restricted", "--numa-nodes", "1")
        self.assertEqual(self.gpus(self.pod("two", "--limits", "vendor.example/gpu=2")), {"gpu-0", "gpu-1"})
        self.assertEqual(self.pod("one", "--limits", "vendor.example/gpu=1")["reason"], "TopologyAffinityError")


if __name__ == "__main__":
    unittest.main()
