# SPDX-License-Identifier: Apache-2.0
"""Network devices end to end: what devplugd offers is moved into a pod by the CNI plugins that a node has, called as Multus
and a container runtime call them, in network namespaces of their own. The networks are those of docs/examples/networks.

complaints.md: M7.
"""
import json
import os
import shutil
import signal
import subprocess
import sys
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.realpath(__file__)), "../peers"))
from multus import Failed, Multus  # noqa: E402
from node import BIN, NodeTest, files_for_others, static, until  # noqa: E402
os.environ.setdefault("DEVPLUGD_BIN", BIN)
from test_peers import HERE as TREES, plant  # noqa: E402

try:
    import yaml
except ImportError:
    yaml = None

EXAMPLES = os.path.join(os.path.dirname(os.path.realpath(__file__)), "../../docs/examples/networks")
PLUGIN_DIRS = ("/usr/lib/cni", "/opt/cni/bin", "/usr/libexec/cni")
VFS = {"0000:3b:02.0": "ens785f0v0", "0000:3b:02.1": "ens785f0v1"}
NIC = "vendor.example/nic"
# Stands for sriov-cni, which is in no distribution: it keeps what it is given.
RECORDER = """#!/bin/sh
cat > "%s/$CNI_COMMAND-$CNI_IFNAME"
echo '{"cniVersion": "1.0.0", "interfaces": []}'
"""


def example(name):
    """(networks by name, the pod) of an example."""
    with open(os.path.join(EXAMPLES, name)) as file:
        documents = list(yaml.safe_load_all(file))
    networks = {d["metadata"]["name"]: d for d in documents if d["kind"] == "NetworkAttachmentDefinition"}
    return networks, next(d for d in documents if d["kind"] == "Pod")


class Host:
    """Network and mount namespaces that are the host to CNI plugins."""

    SETUP = """mount --make-rprivate / && mkdir -p /run/netns && mount -t tmpfs none /run/netns &&
               mount -t tmpfs none /sys/bus/pci && ip link set lo up && echo ready && exec sleep 600"""

    def __init__(self, test):
        self.process = subprocess.Popen(["unshare", "--net", "--mount", "sh", "-c", self.SETUP], stdout=subprocess.PIPE,
                                        stderr=subprocess.DEVNULL, text=True)
        test.addCleanup(self.process.stdout.close)
        test.addCleanup(self.process.wait)
        test.addCleanup(self.process.kill)
        if self.process.stdout.readline() != "ready\n":
            test.skipTest("needs network and mount namespaces")
        # With the root directory, too: that of the mount namespace may be another (a chroot).
        self.enter = ["nsenter", "-t", str(self.process.pid), "--net", "--mount", "--root", "--"]

    def run(self, *words, check=True):
        return subprocess.run([*self.enter, *words], capture_output=True, text=True, check=check).stdout

    def pod(self, name):
        self.run("ip", "netns", "add", name)
        return f"/run/netns/{name}"

    def links(self, pod=None):
        words = ["ip", "-n", pod] if pod else ["ip"]
        return {link["ifname"]: link for link in json.loads(self.run(*words, "-j", "-d", "link"))}

    def plant_function(self, address, interface, driver="iavf"):
        """A veth in the place of a virtual function's interface, found through the function as in the kernel's sysfs."""
        self.run("ip", "link", "add", interface, "type", "veth", "peer", "name", interface + "p")
        place = f"/sys/bus/pci/devices/{address}"
        self.run("mkdir", "-p", f"{place}/net/{interface}", f"/sys/bus/pci/drivers/{driver}")
        self.run("ln", "-s", f"../../drivers/{driver}", f"{place}/driver")


class Cni(NodeTest):
    def setUp(self):
        if not yaml:
            self.skipTest("needs python3-yaml")
        if os.geteuid() != 0 or not all(shutil.which(name) for name in ("ip", "unshare", "nsenter", "tc", "nft")):
            self.skipTest("needs root, ip, tc, nft, unshare and nsenter")
        self.plugins = [path for path in PLUGIN_DIRS if os.path.isdir(path)]
        for name in ("host-device", "static", "portmap", "bandwidth", "loopback", "ptp"):
            if not any(os.access(os.path.join(path, name), os.X_OK) for path in self.plugins):
                self.skipTest(f"needs the CNI plugin {name}, of the package containernetworking-plugins")
        super().setUp()
        self.host = Host(self)
        self.info = self.node.path("devinfo")
        self.multus = Multus(self.node, self.info, self.plugins, self.host.enter)

    def begin(self):
        """devplugd offers two virtual functions."""
        self.tree = self.node.path("host")
        os.mkdir(self.tree)
        plant(self.tree, os.path.join(TREES, "sriov-netdevice.tree"))
        self.node.configure(
            f'{{ name = "{NIC}"; driver = "net"; match = ( {{ pf = "ens785f0"; functions = "0-1"; driver = "iavf"; }} );'
            '   container = { env = ( "PCIDEVICE_${env_name}=${ids:,}" ); }; }',
            text=f'host_root = "{self.tree}"; device_info_dir = "{self.info}";')
        self.node.start_kubelet()
        self.node.start()
        self.node.await_allocatable(nic=2)
        # Complete before the device is offered.
        for address in VFS:
            self.assertEqual(self.device_info(address), self.expected_info(address))

    def info_file(self, address):
        return os.path.join(self.info, f"{NIC}-{address}-device.json".replace("/", "-"))

    def device_info(self, address):
        try:
            with open(self.info_file(address)) as file:
                return json.load(file)
        except FileNotFoundError:
            return None

    @staticmethod
    def expected_info(address):
        return {"type": "pci", "version": "1.1.0", "pci": {"pci-address": address, "pf-pci-address": "0000:3b:00.0"}}

    def admit(self, pod):
        """The pod of an example. Returns its devices of the resource."""
        limits = {name: count for c in pod["spec"]["containers"] for name, count in c["resources"]["limits"].items()}
        name = pod["metadata"]["name"]
        answer = self.node.ask_kubelet("pod", name, "--json", "--limits", ",".join(f"{n}={c}" for n, c in limits.items()))
        self.assertEqual(answer.returncode, 0, answer.stdout)
        return json.loads(answer.stdout)

    def see(self, address, there):
        """In the host's sysfs a function has an interface only while that is in the host's namespace."""
        function = f"{self.tree}/sys/bus/pci/devices/{address}"
        place, away = f"{function}/net/{VFS[address]}", self.node.path("away-" + VFS[address])
        os.rename(*((away, place) if there else (place, away)))

    def device(self, address):
        return next((d for d in self.node.resource(NIC)["devices"] if d["id"] == address), None)

    def check(self, attached):
        """CHECK of portmap 1.1 looks for rules of IPv4 in the tables of IPv6, after those of IPv4 were found."""
        try:
            self.multus.check(attached)
        except Failed as error:
            if "portmap CHECK" not in str(error) or "could not check ipv6 dnat" not in str(error):
                raise

    def test_host_device_with_static_addresses_and_portmap(self):
        networks, pod = example("host-device.yaml")
        for address, interface in VFS.items():
            self.host.plant_function(address, interface)
        self.begin()
        given = self.admit(pod)["resources"][NIC][0]
        netns = self.host.pod("server")
        attached = self.multus.attach(pod, netns, networks)
        self.see(given, False)
        self.assertEqual(Multus.info(attached), [self.expected_info(given)])
        self.assertNotIn(VFS[given], self.host.links())
        link = self.host.links("server")["net1"]
        self.assertIn("UP", link["flags"])
        self.assertEqual(link["ifalias"], VFS[given])
        self.assertIn("192.0.2.10/24", self.host.run("ip", "-n", "server", "address", "show", "net1"))
        self.assertIn("8080", self.host.run("nft", "list", "ruleset", check=False))
        self.check(attached)

        # Neither a crash nor a restart of devplugd in between matters to the pod.
        for number in (signal.SIGKILL, signal.SIGTERM):
            self.node.stop(number)
            self.node.start()
            self.node.await_serving()
            self.assertEqual(self.device_info(given), self.expected_info(given))
            until(lambda: (d := self.device(given)) and d["health"] == "Healthy", "the device to be healthy")
            self.check(attached)
        self.multus.detach(attached)
        self.see(given, True)
        self.assertIn(VFS[given], self.host.links())
        self.assertNotIn("net1", self.host.links("server"))
        self.assertNotIn("8080", self.host.run("nft", "list", "ruleset", check=False))
        self.node.ask_kubelet("pod", "rm", "server")
        self.node.await_allocatable(nic=2)

    def test_device_information_comes_back(self):
        self.begin()
        address = min(VFS)
        os.unlink(self.info_file(address))
        until(lambda: self.device_info(address) == self.expected_info(address), "a removed file to be written again")
        # An upgrade that stops the service, which removes runtime_dir: the files stay for CNI plugins.
        self.node.stop()
        for address in VFS:
            self.assertEqual(self.device_info(address), self.expected_info(address))
        shutil.rmtree(self.node.run)
        self.node.start()
        self.node.await_allocatable(nic=2)
        self.assertEqual(files_for_others(self.info), sorted(os.path.basename(self.info_file(address)) for address in VFS))
        # A reboot: /run is empty, and what devplugd knew is lost.
        self.node.stop(signal.SIGKILL)
        shutil.rmtree(self.info)
        shutil.rmtree(self.node.run)
        self.node.stop_kubelet(signal.SIGKILL)
        self.node.start()
        self.node.start_kubelet()
        self.node.await_allocatable(nic=2)
        for address in VFS:
            self.assertEqual(self.device_info(address), self.expected_info(address))
        # Stopped, and started without the resource.
        self.node.stop()
        shutil.rmtree(self.node.run)
        self.node.configure(static("other", 1), text=f'device_info_dir = "{self.info}";')
        self.node.start()
        self.node.await_allocatable(other=1)
        self.assertEqual(os.listdir(self.info), [])

    def test_check_finds_what_is_missing(self):
        networks, pod = example("host-device.yaml")
        for address, interface in VFS.items():
            self.host.plant_function(address, interface)
        self.begin()
        self.admit(pod)
        attached = self.multus.attach(pod, self.host.pod("server"), networks)
        self.host.run("ip", "-n", "server", "address", "flush", "dev", "net1")
        with self.assertRaises(Failed):
            self.multus.check(attached)
        self.multus.detach(attached)

    def test_sriov(self):
        """Two networks of one resource: each plugin is told another function, in the order of the container's variable."""
        networks, pod = example("sriov.yaml")
        folder = self.node.path("plugins")
        os.mkdir(folder)
        with open(os.path.join(folder, "sriov"), "w") as file:
            file.write(RECORDER % folder)
        os.chmod(os.path.join(folder, "sriov"), 0o755)
        self.multus.path = [folder]
        self.begin()
        container = self.admit(pod)["container"]
        attached = self.multus.attach(pod, self.host.pod("store"), networks)
        told = []
        for interface in ("net1", "net2"):
            with open(os.path.join(folder, f"ADD-{interface}")) as file:
                conf = json.load(file)
            self.assertEqual(conf["deviceID"], conf["pciBusID"])
            self.assertEqual((conf["type"], conf["vlan"]), ("sriov", 100))
            self.assertTrue(os.path.exists(conf["runtimeConfig"]["CNIDeviceInfoFile"]))
            told.append(conf["deviceID"])
        self.assertEqual(container["env"]["PCIDEVICE_VENDOR_EXAMPLE_NIC"].split(","), told)
        self.assertEqual(Multus.info(attached), [self.expected_info(address) for address in told])
        # One more network than devices.
        pod["metadata"]["annotations"]["k8s.v1.cni.cncf.io/networks"] = json.dumps([{"name": "storage"}] * 3)
        with self.assertRaises(Failed) as raised:
            self.multus.attach(pod, self.host.pod("more"), networks)
        self.assertIn("has 2 devices", str(raised.exception))

    def test_socketcan(self):
        """The kernel that runs this may have no CAN: a veth has the controller's name."""
        networks, pod = example("socketcan.yaml")
        self.host.run("ip", "link", "add", "can1", "type", "veth", "peer", "name", "can1p")
        netns = self.host.pod("gateway")
        attached = self.multus.attach(pod, netns, networks)
        self.assertIn("can1", self.host.links("gateway"))
        self.multus.check(attached)
        self.multus.detach(attached)
        self.assertIn("can1", self.host.links())
        # Why the example has no annotation: an id that is no PCI address.
        conf = json.loads(networks["can1"]["spec"]["config"])
        with self.assertRaises(Failed):
            self.multus.call("ADD", {**conf, "deviceID": "can1", "pciBusID": "can1"}, "c", netns, "can1", None)

    def try_vcan(self, kind):
        networks, pod = example("vcan.yaml")
        conf = json.loads(networks["vcan"]["spec"]["config"])
        networks["vcan"]["spec"]["config"] = json.dumps({**conf, "kind": kind})
        self.multus.path = [EXAMPLES]
        self.node.configure('{ name = "k8s.collabora.com/vcan"; driver = "static"; match = ( { count = 100; } ); }')
        self.node.start_kubelet()
        self.node.start()
        self.node.await_serving()
        until(lambda: "k8s.collabora.com/vcan" in self.node.node_resources(), "the kubelet to know the resource")
        self.admit(pod)
        netns = self.host.pod("simulator")
        try:
            attached = self.multus.attach(pod, netns, networks)
        except Failed as error:
            if "Unknown device type" in str(error) or "not supported" in str(error):
                self.skipTest(f"the kernel has no {kind}: {error}")
            raise
        self.assertIn("UP", self.host.links("simulator")["vcan0"]["flags"])
        self.assertNotIn("vcan0", self.host.links())
        self.multus.check(attached)
        with self.assertRaises(Failed):
            self.multus.attach(pod, netns, networks)
        self.multus.detach(attached)
        self.assertNotIn("vcan0", self.host.links("simulator"))
        with self.assertRaises(Failed):
            self.multus.check(attached)
        self.multus.detach(attached)

    def test_vcan(self):
        self.try_vcan("vcan")

    def test_vcan_by_another_kind(self):
        """Tries test_vcan() on a kernel without CAN."""
        self.try_vcan("bridge")

    def test_loopback(self):
        netns = self.host.pod("idle")
        conf = {"cniVersion": "1.0.0", "name": "lo", "type": "loopback"}
        result = self.multus.call("ADD", conf, "c", netns, "lo", None)
        self.assertIn("UP", self.host.links("idle")["lo"]["flags"])
        self.multus.call("CHECK", conf, "c", netns, "lo", result)
        self.multus.call("DEL", conf, "c", netns, "lo", result)
        self.assertNotIn("UP", self.host.links("idle")["lo"]["flags"])

    def test_bandwidth(self):
        """Limits on a veth whose other end the host has; not on an interface that was handed over."""
        netns = self.host.pod("slow")
        head = {"cniVersion": "1.0.0", "name": "slow"}
        address = {"type": "static", "addresses": [{"address": "192.0.2.9/24", "gateway": "192.0.2.1"}]}
        limits = {**head, "type": "bandwidth", "ingressRate": 1000000, "ingressBurst": 100000, "egressRate": 1000000,
                  "egressBurst": 100000}
        veth = {**head, "type": "ptp", "ipam": address}
        result = self.multus.call("ADD", veth, "c", netns, "eth0", None)
        try:
            result = self.multus.call("ADD", limits, "c", netns, "eth0", result)
        except Failed as error:
            if "not supported" in str(error) or "no such file" in str(error):
                self.skipTest(f"the kernel has no tbf or ifb: {error}")
            raise
        self.assertIn("tbf", self.host.run("tc", "qdisc"))
        self.multus.call("CHECK", limits, "c", netns, "eth0", result)
        self.multus.call("DEL", limits, "c", netns, "eth0", result)
        self.multus.call("DEL", veth, "c", netns, "eth0", result)
        self.host.run("ip", "tuntap", "add", "mode", "tap", "name", "tap7")
        result = self.multus.call("ADD", {**head, "type": "host-device", "device": "tap7"}, "c", netns, "net1", None)
        with self.assertRaises(Failed) as raised:
            self.multus.call("ADD", limits, "c", netns, "net1", result)
        self.assertIn("was not a veth interface", str(raised.exception))


if __name__ == "__main__":
    unittest.main()
