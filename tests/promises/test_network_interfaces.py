# SPDX-License-Identifier: Apache-2.0
"""Interfaces of the kernel that runs this are plugged in, given to a pod, moved into a network namespace as CNI does, and
plugged out (M7)."""
import json
import os
import shutil
import signal
import subprocess
import unittest

from node import NodeTest, program, until

# Names are of 15 letters at most; two runs at a time must not meet.
PREFIX = f"dp{os.getpid() % 1000000:06d}"


def ip(*words):
    return subprocess.run(["ip", *words], capture_output=True, text=True)


class NetworkInterfaces(NodeTest):
    def setUp(self):
        if not shutil.which("ip"):
            self.skipTest("needs ip, of iproute2")
        super().setUp()
        self.addCleanup(self.delete_all)

    def delete_all(self):
        for name in os.listdir("/sys/class/net"):
            if name.startswith(PREFIX):
                ip("link", "delete", name)

    def add(self, number, kind):
        """An interface, for veth with its other end under a name that no resource matches."""
        peer = ("peer", "name", f"{PREFIX}p{number}") if kind == "veth" else ()
        answer = ip("link", "add", f"{PREFIX}x{number}", "type", kind, *peer)
        if "Unknown device type" in answer.stderr or "not supported" in answer.stderr:
            self.skipTest(f"the kernel has no {kind}")
        self.assertEqual(answer.returncode, 0, answer.stderr)

    def configure(self):
        self.node.configure('{ name = "vendor.example/nic"; driver = "net";'
                            f'  match = ( {{ type = "interface"; interface = "{PREFIX}x*"; }} );'
                            '   container = { env = ( "NIC=${interface}" ); }; }')

    def device(self, number):
        name = f"{PREFIX}x{number}"
        resource = self.node.resource("vendor.example/nic")
        return next((d for d in resource["devices"] if d["id"] == name), None) if resource else None

    def await_health(self, number, health):
        return until(lambda: (d := self.device(number)) and d["health"] == health and d, f"device {number} to be {health}")

    def namespace(self):
        """A process with a network namespace of its own; returns its pid."""
        process = subprocess.Popen(["unshare", "--net", "sh", "-c", "echo; exec sleep 600"], stdout=subprocess.PIPE)
        self.addCleanup(process.stdout.close)
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        process.stdout.readline()
        return process.pid

    def try_kind(self, kind):
        self.add(0, kind)
        self.configure()
        self.node.start_kubelet()
        self.node.start()
        self.node.await_allocatable(nic=1)
        self.add(1, kind)
        self.node.await_allocatable(nic=2)

        # The pod's own stays healthy where the host cannot see it; nobody has the other one.
        container, _ = self.node.pod("one", nic=1)
        self.assertEqual(container["env"]["NIC"], container["resources"]["vendor.example/nic"][0])
        given = int(container["env"]["NIC"][-1])
        namespace = self.namespace()
        for number in (given, 1 - given):
            answer = ip("link", "set", f"{PREFIX}x{number}", "netns", str(namespace))
            self.assertEqual(answer.returncode, 0, answer.stderr)
        self.assertIn("has disappeared", self.await_health(1 - given, "Unhealthy")["reason"])
        self.assertEqual(self.device(given)["health"], "Healthy")

        # Nor can the next process of the resource see it, or the next devplugd.
        process = self.node.find("vendor.example/nic")["pid"]
        os.kill(process, signal.SIGKILL)
        until(lambda: (r := self.node.find("vendor.example/nic")) and r["state"] == "serving" and r["pid"] != process,
              "another process")
        self.assertEqual(self.device(given)["health"], "Healthy")
        self.assertEqual(self.node.stop(), 0)
        self.node.start()
        self.node.await_state("vendor.example/nic", "serving")
        self.assertEqual(self.device(given)["health"], "Healthy")

        # Back, as after CNI's DEL, and then plugged out.
        for number in (given, 1 - given):
            answer = subprocess.run(["nsenter", "-t", str(namespace), "--net", "ip", "link", "set", f"{PREFIX}x{number}",
                                     "netns", str(os.getpid())], capture_output=True, text=True)
            self.assertEqual(answer.returncode, 0, answer.stderr)
        self.await_health(1 - given, "Healthy")
        self.assertEqual(ip("link", "delete", f"{PREFIX}x{given}").returncode, 0)
        self.await_health(given, "Unhealthy")
        self.node.await_allocatable(nic=1)

    def test_port_of_a_bridge(self):
        """The host needs an interface while it is a port."""
        self.add(0, "veth")
        bridge = f"{PREFIX}b0"
        if ip("link", "add", bridge, "type", "bridge").returncode != 0:
            self.skipTest("the kernel has no bridge")
        self.configure()
        self.node.start_kubelet()
        self.node.start()
        self.node.await_allocatable(nic=1)
        for words, number in ((("master", bridge), 0), (("nomaster",), 1)):
            answer = ip("link", "set", f"{PREFIX}x0", *words)
            self.assertEqual(answer.returncode, 0, answer.stderr)
            self.node.await_allocatable(nic=number)

    def test_veth(self):
        self.try_kind("veth")

    def test_default_route_of_two_interfaces(self):
        """Equal-cost routes: the host needs each interface that its default route leads through."""
        self.configure()
        script = f"""
            set -e
            mount -t sysfs sysfs /sys
            for number in 0 1 2; do
                ip link add {PREFIX}x$number type veth peer name {PREFIX}p$number
                ip address add 192.0.2.$((number * 16 + 1))/28 dev {PREFIX}x$number
                ip link set {PREFIX}p$number up
                ip link set {PREFIX}x$number up
            done
            ip route add default nexthop via 192.0.2.2 dev {PREFIX}x0 nexthop via 192.0.2.18 dev {PREFIX}x1
            exec {program("devplugctl")} -c {self.node.config} --json preview vendor.example/nic
            """
        answer = subprocess.run(["unshare", "--net", "--mount", "sh", "-c", script], capture_output=True, text=True)
        self.assertEqual(answer.returncode, 0, answer.stderr)
        self.assertEqual([device["id"] for device in json.loads(answer.stdout)["devices"]], [f"{PREFIX}x2"])

    def test_dummy(self):
        self.try_kind("dummy")

    def test_vcan(self):
        self.try_kind("vcan")


if __name__ == "__main__":
    unittest.main()
