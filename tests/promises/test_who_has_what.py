# SPDX-License-Identifier: Apache-2.0
"""Which pod has which device, and the numbers of the node."""
import json
import os
import random
import re
import signal
import subprocess
import unittest

from node import SEED, program, scaled, static, until
from tool import ToolTest, fake_daemon


class WhoHasWhat(ToolTest):
    def setUp(self):
        super().setUp()
        self.socket = os.path.join(self.node.kubelet_state, "pod-resources/kubelet.sock")

    def configure(self, *resources):
        self.logs = self.node.path("logs")
        self.node.configure(*resources, kubelet=f'pod_resources_socket = "{self.socket}"; pod_logs_dir = "{self.logs}";')

    def begin(self, *resources):
        self.configure(*resources)
        self.node.start_kubelet()
        self.node.start()
        names = self.node.await_serving()
        # A kubelet that has no list yet starts pods without devices.
        until(lambda: all(self.node.node_resources().get(name, {}).get("capacity") for name in names), "all lists")
        return names

    def numbers(self):
        """Offered, free and in use, as devplugctl and as the kubelet have them. What is in use may be listed as healthy for
        2 minutes after a restart of the kubelet."""
        status = self.node.status()
        ours = {r["name"]: (r["offered"], r["free"], r["in_use"]) for r in status["resources"]}
        theirs = {name: (r["capacity"], sum(d["healthy"] and not d["pod"] for d in r["devices"]), r["allocated"])
                  for name, r in self.node.node_resources().items()}
        return ours, theirs

    def await_agreement(self, when=""):
        def look():
            ours, theirs = self.numbers()
            return ours == theirs

        until(look, lambda: f"the numbers to agree{when}: {self.numbers()}")

    def holders(self, name):
        return {d["id"]: sorted(f'{p["namespace"]}/{p["pod"]}/{p["container"]}' for p in d["pods"])
                for d in self.node.resource(f"vendor.example/{name}")["devices"]}

    def test_pods_and_devices(self):
        health = self.node.path("health")
        with open(health, "w") as file:
            file.write("ok")
        self.begin(static("a", 2, f'health = ( {{ probe = "file"; path = "{health}"; healthy = "ok"; }} );'),
                   static("s", 1, "share = { replicas = 5; };"), static("t", 1, "share = { replicas = 3; };"))
        given, _ = self.node.pod("p1", a=1)
        mine = given["resources"]["vendor.example/a"][0]
        for n in range(4):
            self.node.pod(f"s{n}", s=1)
        self.node.pod("t0", t=2)
        until(lambda: self.holders("a")[mine] == ["default/p1/main"], "the holder to be known")
        until(lambda: len(self.holders("t")["t-0"]) == 2, "a container with two replicas")
        until(lambda: len(self.holders("s")["s-0"]) == 4, "all holders to be known")
        self.await_agreement()
        answer = self.ctl("devices").stdout
        self.assertRegex(answer, rf"(?m)^vendor.example/a +{mine} +Healthy +- +default/p1/main ")
        self.assertRegex(answer, r"(?m)^vendor.example/a +a-\d +Healthy +- +free ")
        self.assertRegex(answer, r"(?m)^vendor.example/s +s-0 .* default/s\d/main, .* and 1 more")
        self.assertRegex(answer, r"(?m)^vendor.example/t +t-0 .* default/t0/main \(2\)  ")
        self.assertNotRegex(answer, r"(?m) $")
        self.assertRegex(self.ctl("status").stdout, r"(?m)^vendor.example/s +serving +5 +5 +4 +1 ")
        answer = self.ctl("devices", "--pod", "default/p1").stdout.splitlines()
        self.assertEqual([line.split()[1] for line in answer], ["DEVICE", mine])
        answer = self.ctl("devices", "--pod", "default/p7")
        self.assertEqual((answer.returncode, answer.stdout), (1, ""))
        self.assertIn("no device of devplugd is assigned to a pod default/p7", answer.stderr)

        # Who is hurt by a device that fails.
        with open(health, "w") as file:
            file.write("hot")
        until(lambda: self.node.resource("vendor.example/a")["healthy"] == 0, "the devices to fail")
        self.assertIn("It is in use by default/p1/main.", self.ctl("explain", "vendor.example/a").stdout)
        self.assertEqual(self.node.resource("vendor.example/a")["free"], 0)

    def users(self):
        """What is in the column USED BY."""
        rows = [re.split("  +", line) for line in self.ctl("devices", "vendor.example/a").stdout.splitlines()]
        return {row[1]: row[4] for row in rows[1:]}

    def test_booked(self):
        """Init containers and pods that are gone are in the checkpoint only."""
        self.begin(static("a", 4))
        self.node.pod("p1", a=1)
        mine = until(lambda: [d for d, pods in self.holders("a").items() if pods], "the holder to be known")[0]
        init, gone, other = (f"a-{i}" for i in range(4) if f"a-{i}" != mine)

        def add(entries):
            entry = next(e for e in entries if mine in sum(e["DeviceIDs"].values(), []))
            entries += [{**entry, "ContainerName": "init", "DeviceIDs": {"-1": [init, mine]}},
                        {**entry, "PodUID": "00000000-gone", "DeviceIDs": {"-1": [gone]}}]

        self.change_checkpoint(add)
        wanted = {mine: "default/p1/main", init: "default/p1/init", gone: "booked, pod gone", other: "free"}
        until(lambda: self.users() == wanted, lambda: f"the checkpoint to be shown, {self.users()}, {wanted}")
        # The kubelet can allocate what no pod has.
        resource = self.node.resource("vendor.example/a")
        self.assertEqual((resource["in_use"], resource["free"]), (2, 2))
        said = self.ctl("explain", "vendor.example/a").stdout
        self.assertIn(f"Device {gone} is booked for container main of the pod with the UID 00000000-gone", said)
        devices = self.ctl("devices", "--pod", "default/p1").stdout
        self.assertEqual({line.split()[1] for line in devices.splitlines()[1:]}, {mine, init})
        self.change_checkpoint(lambda entries: entries.pop())
        until(lambda: self.users()[gone] == "free", "the booking to end")

        # A pod that was removed, as the kubelet itself writes it.
        self.assertEqual(self.node.ask_kubelet("pod", "rm", "p1").returncode, 0)
        until(lambda: self.users()[mine] in ("booked, pod gone", "free"), "the pod to be gone")
        self.assertEqual(self.node.resource("vendor.example/a")["in_use"], 0)

    def test_finished_init_containers(self):
        """PodResources shows nothing of a pod without another container that has devices. The pod has a directory of logs."""
        self.begin(static("a", 3))
        for name in ("runs", "ended"):
            self.node.call_kubelet("pod", name=name, namespace="default", containers=[
                {"name": "before", "kind": "init", "limits": {"vendor.example/a": 1}},
                {"name": "main", "kind": "main", "limits": {}}])
        with open(os.path.join(self.node.plugins, "kubelet_internal_checkpoint")) as file:
            entries = json.load(file)["Data"]["PodDeviceEntries"]
        devices = {entry["PodUID"]: entry["DeviceIDs"]["-1"][0] for entry in entries}
        uid = {pod["name"]: pod["uid"] for pod in self.node.call_kubelet("pods")["pods"]}
        runs, ended = devices[uid["runs"]], devices[uid["ended"]]
        wanted = {device: "booked, pod gone" for device in (runs, ended)}
        until(lambda: {k: v for k, v in self.users().items() if v != "free"} == wanted, "the bookings to be shown")
        os.makedirs(f"{self.logs}/default_runs_{uid['runs']}")
        wanted[runs] = "default/runs/before"
        until(lambda: {k: v for k, v in self.users().items() if v != "free"} == wanted, "the pod to be known")
        resource = self.node.resource("vendor.example/a")
        self.assertEqual((resource["in_use"], resource["free"]), (1, 2))
        said = self.ctl("explain", "vendor.example/a").stdout
        self.assertNotIn(f"Device {runs} is booked", said)
        self.assertIn(f"Device {ended} is booked for container before of the pod with the UID {uid['ended']}", said)

    def test_name_that_two_resources_use(self):
        """A container with devices of both gets one of the two variables; explain names the container."""
        env = 'container = { env = ( "FPGA=${id}" ); };'
        self.begin(static("a", 2, env), static("b", 2, env), static("c", 1))

        def explain(name):
            return " ".join(self.ctl("explain", f"vendor.example/{name}").stdout.split())

        self.node.pod("p1", a=1)
        self.node.pod("p2", b=1)
        until(lambda: "default/p1/main" in str(self.holders("a")), "the holder to be known")
        for name, other in (("a", "b"), ("b", "a")):
            self.assertIn(f"Note: vendor.example/{other} also uses the variable FPGA.", explain(name))
            self.assertNotIn("has devices of both", explain(name))
        self.assertNotIn("also uses", explain("c"))
        # Without -c, the configuration is the daemon's.
        said = subprocess.run([program("devplugctl"), "--runtime-dir", self.node.run, "explain", "vendor.example/a"],
                              stdout=subprocess.PIPE, text=True, check=True).stdout
        self.assertIn("also uses the variable FPGA.", " ".join(said.split()))
        self.node.pod("p3", a=1, b=1)
        until(lambda: "Container default/p3/main has devices of both." in explain("a"), "the container to be named")

    def test_one_device_for_two_pods(self):
        """As kubelets up to 1.37 may assign it; the answer is made by hand."""
        self.begin(static("a", 2))
        state = self.node.state()
        self.node.stop()
        holder = {"id": "a-1", "namespace": "default", "pod": "p1", "container": "main"}
        for resource in state["resources"]:
            resource["assigned"] = [holder, {**holder, "container": "second"}, {**holder, "pod": "p2"}]
        answer = {"version": 1, "pods_failure": "", **state, "devices_follow": True}
        devices = {"devices": [{"id": "a-1", "health": "Healthy"}]}
        with fake_daemon(self.node.run, json.dumps(answer).encode(), {"vendor.example/a": json.dumps(devices).encode()}):
            said = self.ctl("status").stdout
        self.assertIn("vendor.example/a, device a-1: assigned to two pods, default/p1 and default/p2, by an error of "
                      "the kubelet; recreate one of them\n", said)
        self.assertRegex(said, r"(?m)^vendor.example/a +serving +1 +1 +1 +0 ")

    def test_a_reload_names_the_pods(self):
        self.begin(static("a", 2), static("b", 1))
        given, _ = self.node.pod("p1", a=1)
        mine = given["resources"]["vendor.example/a"][0]
        until(lambda: self.holders("a")[mine], "the holder to be known")
        self.configure(static("a", 3), static("b", 1))
        answer = self.ctl("reload")
        self.assertEqual(answer.stdout.splitlines(),
                         ["~ change vendor.example/a: match", f"    {mine} is in use by default/p1/main",
                          "= keep 1 resource", "Reloaded."])
        answer = self.ctl("devices", "vendor.example/aa")
        self.assertIn('did you mean "vendor.example/a"?', answer.stderr)

    # --- steps of test_numbers_are_the_nodes

    def reload(self, chance):
        self.configure(static("a", chance.randint(6, 9), self.probe),
                       static("b", 2, f"share = {{ replicas = {chance.randint(3, 5)}; }};"))
        self.assertEqual(self.ctl("reload").returncode, 0)

    def add_pod(self, chance):
        name = f"p{len(self.names)}"
        given, _ = self.node.pod(name, **{chance.choice("ab"): chance.randint(1, 2)})
        self.names.append(name)
        self.pods += [name] if given else []

    def remove_pod(self, chance):
        if self.pods:
            self.node.ask_kubelet("pod", "rm", self.pods.pop(chance.randrange(len(self.pods))))

    def kill_child(self, chance):
        os.kill(self.node.find("vendor.example/a")["pid"], signal.SIGKILL)
        self.node.await_serving()

    def kill_daemon(self, chance):
        self.node.daemon.kill()
        self.node.daemon.wait()
        self.node.start()
        self.node.await_serving()

    def kill_kubelet(self, chance):
        self.node.stop_kubelet(signal.SIGKILL)
        self.node.start_kubelet()
        self.node.await_allocatable(b=self.node.resource("vendor.example/b")["healthy"])

    def cordon(self, chance):
        self.ctl(chance.choice(["cordon", "uncordon"]), "vendor.example/a/a-1")

    def change_health(self, chance):
        with open(self.node.path("health"), "w") as file:
            file.write(chance.choice(["ok", "ok", "hot"]))

    def test_numbers_are_the_nodes(self):
        """After each of some random steps, of which DEVPLUGD_TEST_STEPS is the number."""
        chance = random.Random(SEED)
        self.pods, self.names = [], []
        self.probe = f'health = ( {{ probe = "file"; path = "{self.node.path("health")}"; healthy = "ok"; }} );'
        with open(self.node.path("health"), "w") as file:
            file.write("ok")
        self.begin(static("a", 6, self.probe), static("b", 2, "share = { replicas = 4; };"))
        steps = [self.add_pod] * 4 + [self.remove_pod, self.kill_child, self.kill_daemon, self.kill_kubelet,
                                      self.reload, self.cordon, self.change_health]
        for number in range(int(os.environ.get("DEVPLUGD_TEST_STEPS") or scaled(40))):
            step = chance.choice(steps)
            step(chance)
            self.await_agreement(f" after step {number}, {step.__name__}")

    def test_without_a_kubelet(self):
        self.configure(static("a", 1))
        self.node.start()
        self.node.await_state("vendor.example/a", "waiting")
        resource = until(lambda: (r := self.node.resource("vendor.example/a"))["offered"] and r, "its devices")
        self.assertEqual((resource["offered"], resource["in_use"], resource["free"]), (1, None, None))
        self.assertRegex(self.ctl("status").stdout, r"(?m)^vendor.example/a +waiting +1 +1 +- +- ")
        self.assertRegex(self.ctl("devices").stdout, r"(?m)^vendor.example/a +a-0 +Healthy +- +- ")
        self.assertEqual(self.ctl("devices", "--pod", "default/p1").returncode, 1)


if __name__ == "__main__":
    unittest.main()
