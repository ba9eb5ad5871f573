# SPDX-License-Identifier: Apache-2.0
"""devplugctl pod shows all that a pod got, of any plugin and driver, and whether it is on one NUMA node."""
import json
import os
import unittest

import test_json
from dra_node import DraPodTest
from node import until
from test_metrics import parse
from tool import ToolTest, fake_daemon
from unix_http import get

SLOTS = ('{ name = "vendor.example/slot"; driver = "static"; '
         'match = ( { id = "upper"; numa = 0; }, { id = "lower"; numa = 1; } ); }')
CPUS = {"node0": "0-3,8-11", "node1": "4-7,12-15"}


def plant_cpus(root):
    for name, cpus in CPUS.items():
        os.makedirs(f"{root}/sys/devices/system/node/{name}")
        with open(f"{root}/sys/devices/system/node/{name}/cpulist", "w") as file:
            file.write(cpus + "\n")
    os.makedirs(f"{root}/sys/devices/system/node/power")
    return f'host_root = "{root}";'


class Pods(ToolTest):
    def setUp(self):
        super().setUp()
        self.host = plant_cpus(self.node.path("host"))

    def begin(self, *resources, more=""):
        self.node.configure(*resources, text=self.host + more, kubelet="pod_resources_socket = "
                            f'"{self.node.kubelet_state}/pod-resources/kubelet.sock";')
        self.node.start_kubelet()
        self.node.start()
        self.node.await_allocatable(slot=2)

    def run_pod(self, name, *words):
        answer = self.node.ask_kubelet("pod", name, *words, "--json")
        self.assertEqual(answer.returncode, 0, answer.stderr)

    def shown(self, name):
        answer = self.ctl("pod", f"default/{name}", "--json")
        self.assertEqual((answer.returncode, answer.stderr), (0, ""))
        document = json.loads(answer.stdout)
        self.assertEqual((document["namespace"], document["pod"]), ("default", name))
        return {c["name"]: c for c in document["containers"]}

    def test_near_and_away(self):
        self.begin(SLOTS)
        memory = {"memory_type": "memory", "size": 2 << 30, "nodes": [0]}
        foreign = {"claim_name": "nic", "claim_namespace": "default", "claim_resources": [
            {"driver_name": "nic.example", "pool_name": "node", "device_name": "eth1", "cdi_devices": []}]}
        self.run_pod("two", "--container", "a:vendor.example/slot=1", "--container", "b:vendor.example/slot=1",
                     "--container", "idle", "--other", "a:" + json.dumps({"cpu_ids": [2, 3], "memory": [memory]}),
                     "--other", "b:" + json.dumps({"cpu_ids": [8, 9], "dynamic_resources": [foreign]}))
        got = self.shown("two")
        self.assertEqual(list(got), ["a", "b", "idle"])
        ids = {name: got[name]["devices"][0]["id"] for name in "ab"}
        self.assertEqual(sorted(ids.values()), ["lower", "upper"])
        for name in "ab":
            near = ids[name] == "upper"
            self.assertEqual(got[name]["cpu_nodes"], [0])
            self.assertEqual(got[name]["devices"][0]["numa"], [0 if near else 1])
            self.assertEqual(got[name]["aligned"], near)
            self.assertEqual(got[name]["difference"],
                             "" if near else "CPUs on NUMA node 0, vendor.example/slot/lower on NUMA node 1")
        self.assertEqual(got["a"]["memory"], [{"type": "memory", "bytes": 2 << 30, "numa": [0]}])
        self.assertEqual(got["b"]["devices"][1], {"resource": "", "id": "", "claim": "default/nic", "driver": "nic.example",
                                                  "pool": "node", "device": "eth1", "numa": []})
        self.assertIsNone(got["idle"]["aligned"])
        test_json.Json.compare(self, "pod", self.ctl("pod", "default/two", "--json"))
        text = self.ctl("pod", "default/two").stdout
        self.assertRegex(text, r"(?m)^a +CPUs +2,3 +0$")
        self.assertRegex(text, r"(?m)^a +memory +memory, 2048 MiB +0$")
        self.assertRegex(text, r"(?m)^b +device +nic.example/eth1 \(claim default/nic\) +-$")
        self.assertRegex(text, r"(?m)^idle +nothing +-$")
        self.assertIn(": aligned\n", text)
        self.assertIn(": not aligned: CPUs on NUMA node 0, vendor.example/slot/lower on NUMA node 1\n", text)

    def test_devices_without_cpus(self):
        """Without exclusive CPUs, the devices are compared with each other."""
        self.begin(SLOTS)
        self.run_pod("both", "--limits", "vendor.example/slot=2")
        both = self.shown("both")["main"]
        self.assertEqual((both["cpus"], both["aligned"], len(both["devices"])), ("", False, 2))
        for members, resources in (({}, ["vendor.example/slot"]), ({"devices": False}, [])):
            answer, documents = self.node.ask("pod", namespace="default", pod="both", **members)
            self.assertEqual((answer["devices_follow"], list(documents)), (not members, resources))

    def test_init_container_and_sidecar(self):
        """A sidecar is a container of the pod; an init container has ended, and its device is the pod's still."""
        self.begin(SLOTS)
        self.run_pod("one", "--init", "prep:vendor.example/slot=2", "--sidecar", "log:vendor.example/slot=1", "--container", "work")
        until(lambda: self.shown("one").keys() == {"prep", "log", "work"}, "the checkpoint to be read")
        got = self.shown("one")
        self.assertEqual({name: c["kind"] for name, c in got.items()}, {"prep": "init", "log": "container", "work": "container"})
        self.assertEqual(len(got["prep"]["devices"]) + len(got["log"]["devices"]), 2)
        self.assertIn("prep (init)", self.ctl("pod", "default/one").stdout)
        self.assertEqual(self.node.ask_kubelet("pod", "rm", "one").returncode, 0)
        until(lambda: self.ctl("pod", "default/one").returncode == 1, "the pod to be gone")
        self.assertIn("the kubelet of this node has no pod default/one", self.ctl("pod", "default/one").stderr)

    def test_any_answer(self):
        """Only the checkpoint has the devices of a pod that has ended; names may have any bytes, and members any type."""
        odd = {"version": 1, "namespace": "n\x1b[2J", "pod": 7, "devices_follow": True, "cpus": {"0": 1, "1": "0"},
               "containers": [7, {}, {"name": "a\x1b", "cpus": "0", "devices": [3, {"resource": "r\x1b", "nodes": "0"}],
                                      "memory": [None, {"type": 1, "bytes": -1}], "claims": [[], {"driver": "d", "id": 5}]}]}
        ended = {"version": 1, "namespace": "default", "pod": "p", "devices_follow": True, "containers": [],
                 "unlisted": [{"container": "main", "resource": "v.e/a", "id": i} for i in "xy"]}
        run = self.node.path("fake")
        for answer in (odd, ended):
            with fake_daemon(run, json.dumps(answer).encode(), {"v.e/a": b'{"devices": [7, {"id": "x", "numa": "0"}]}'}):
                for more in ((), ("--json",)):
                    got = self.run_tool("devplugctl", f"--runtime-dir={run}", "pod", "default/p", *more, config=False)
                    self.assertEqual((got.returncode, got.stderr), (0, ""))
                    self.assertNotIn("\x1b", got.stdout)
        self.assertEqual([(c["name"], c["kind"], len(c["devices"])) for c in json.loads(got.stdout)["containers"]],
                         [("main", "ended", 2)])

    def test_refused(self):
        self.begin(SLOTS)
        for words, status, text in ((("pod",), 2, "NAMESPACE/NAME"), (("pod", "one"), 1, '"one" is not NAMESPACE/NAME'),
                                    (("pod", "/one"), 1, "is not NAMESPACE/NAME"), (("pod", "a/b/c"), 1, "is not NAMESPACE/NAME"),
                                    (("pod", "default/none"), 1, "has no pod default/none")):
            answer = self.ctl(*words)
            self.assertEqual((answer.returncode, answer.stdout), (status, ""), words)
            self.assertIn(text, answer.stderr)
        self.node.stop_kubelet()
        until(lambda: "does not report which pod" in self.ctl("pod", "default/none").stderr, "the kubelet to be missed")
        self.node.stop()
        self.assertEqual(self.ctl("pod", "default/none").returncode, 3)

    def test_metric(self):
        socket = self.node.path("metrics")
        self.begin(SLOTS, more=f'metrics = {{ listen = "{socket}"; pods = true; }};')
        self.run_pod("both", "--container", "a:vendor.example/slot=1", "--container", "b:vendor.example/slot=1",
                     "--other", 'a:{"cpu_ids": [0]}', "--other", 'b:{"cpu_ids": [8]}')
        self.run_pod("none", "--other", 'main:{"cpu_ids": [4]}')

        def misplaced():
            return parse(get(socket)[1])["devplugd_misplaced_containers", frozenset()]

        until(lambda: misplaced() == 1, "one container to be counted")


class Claims(DraPodTest):
    def test_a_claim(self):
        """The device of a claim has the nodes that devplugd knows."""
        self.serve_api()
        host = plant_cpus(self.node.path("host"))
        self.begin('{ name = "vendor.example/slot"; driver = "static"; serve = "dra"; match = ( { id = "lower"; numa = 1; } ); }',
                   pods=True, text=host)
        claim = self.api.schedule("gpu", [("gpu", "slot.vendor.example", 1)])
        self.assertEqual(self.pod("p", claim)["phase"], "Running")
        until(lambda: self.ctl("pod", "default/p").returncode == 0, "the kubelet to tell")
        device = json.loads(self.ctl("pod", "default/p", "--json").stdout)["containers"][0]["devices"][0]
        self.assertEqual((device["resource"], device["id"], device["numa"]), ("vendor.example/slot", "lower", [1]))
        self.assertEqual(device["claim"], "default/gpu")


if __name__ == "__main__":
    unittest.main()
