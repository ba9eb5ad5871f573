# SPDX-License-Identifier: Apache-2.0
"""docs/fleet.md: one file serves unlike nodes, its commands verify a change on a node, and a vendor's package works."""
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

from node import LIMIT, SANITIZED, Node, NodeTest, path, program, static, until
from tool import ToolTest

ROOT = os.path.realpath(os.path.join(os.path.dirname(__file__), "../.."))
PRESETS = os.path.join(ROOT, "etc/presets")
sys.path.insert(0, os.path.join(ROOT, "tests/peers"))

from test_peers import plant  # noqa: E402

with open(os.path.join(ROOT, "docs/fleet.md"), encoding="utf-8") as page:
    PAGE = page.read()


def block(kind):
    return re.search(rf"^```\w+ {kind}\n(.*?)^```$", PAGE, re.M | re.S).group(1)


def resources(kind):
    return re.search(r"resources = \(\n(.*)\n\);", block(kind), re.S).group(1)


def private_memory(pid):
    """Bytes that no other process shares."""
    with open(f"/proc/{pid}/smaps_rollup") as file:
        return 1024 * sum(int(line.split()[1]) for line in file if line.startswith("Private_"))


class OneFile(NodeTest):
    def serve(self, node, tree):
        host = node.path("host")
        os.makedirs(host + "/dev")
        plant(host, os.path.join(ROOT, f"tests/peers/{tree}.tree"))
        node.configure(resources("fleet"), text=f'host_root = "{host}";')
        node.start_kubelet()
        node.start()

    def check(self, node):
        answer = subprocess.run([program("devplugctl"), "-c", node.config, "check"], capture_output=True, text=True, timeout=60)
        return answer.stdout

    def test_unlike_nodes(self):
        """Each node registers all resources and offers what it has, also what comes later."""
        other = Node()
        self.addCleanup(other.close)
        self.serve(self.node, "amd-gpu")
        self.serve(other, "intel-gpu")
        self.node.await_allocatable(mi300x=2, mi210=0, b580=0, fuse=0)
        # The other GPU has virtual functions.
        other.await_allocatable(mi300x=0, mi210=0, b580=1, fuse=0)
        for node, found in ((self.node, "2 devices"), (other, "1 device")):
            until(lambda: self.check(node) == f"4 resources, {found}: no problem\n", f"{found} without a problem")
            node.await_serving()
        explanation = subprocess.run([program("devplugctl"), "-c", other.config, "explain", "vendor.example/mi210"],
                                     capture_output=True, text=True, timeout=60).stdout
        self.assertIn("match[0]: ", explanation)
        os.mknod(other.path("host/dev/fuse"), 0o20666, os.makedev(10, 229))
        other.await_allocatable(fuse=20)
        os.unlink(other.path("host/dev/fuse"))
        other.await_allocatable(fuse=0)

    @unittest.skipIf(SANITIZED, "a sanitizer's memory is no measure")
    def test_resources_without_devices_cost_little(self):
        self.node.configure(*(path(f"r{number}", self.node.path(f"none-{number}-*")) for number in range(50)))
        self.node.start_kubelet()
        self.node.start()
        self.node.await_allocatable(**{f"r{number}": 0 for number in range(50)})
        processes = [resource["pid"] for resource in self.node.await_serving().values()]
        self.assertEqual(len(set(processes)), 50)
        self.assertLess(sum(map(private_memory, processes)) / 50, 1 << 20)


class RollOut(ToolTest):
    def roll_out(self):
        """Runs the commands of the page until one fails. Returns its exit status and what all have printed."""
        script = re.sub(r"^(devplug\w+)", lambda match: f"{program(match.group(1))} -c {self.node.config}", block("rollout"), flags=re.M)
        answer = subprocess.run(["sh", "-e", "-c", script], capture_output=True, text=True, timeout=LIMIT)
        return answer.returncode, answer.stdout

    def test_a_change(self):
        probe = self.node.path("health")
        self.serve(static("gpu", 2))
        self.node.await_allocatable(gpu=2)
        self.node.configure(static("gpu", 3, f'health = ( {{ probe = "file"; path = "{probe}"; missing = "healthy"; }} );'),
                            static("fpga", 1))
        status, printed = self.roll_out()
        self.assertEqual(status, 0, printed)
        self.assertRegex(printed, r"~ change vendor.example/gpu.*\n(.*\n)*\+ add vendor.example/fpga\n(.*\n)*2 resources, \d devices: no problem\n\Z")
        self.node.await_allocatable(gpu=3, fpga=1)
        # What the table has: a device with a problem, and a file that is not valid.
        with open(probe, "w") as file:
            file.write("hot")
        self.node.await_allocatable(gpu=0)
        until(lambda: self.roll_out()[0] == 1, "the problem")
        os.unlink(probe)
        self.node.await_allocatable(gpu=3)
        self.node.configure(static("gpu", 3).replace("driver", "drivr"))
        self.assertEqual(self.roll_out()[0], 78)
        for words in (("devplugd", "--diff"), ("devplugctl", "reload")):
            self.assertEqual(self.run_tool(*words).returncode, 78, words)
        self.node.await_allocatable(gpu=3, fpga=1)
        self.node.stop()
        self.assertEqual(self.ctl("check").returncode, 2)

    def test_a_pod_keeps_a_device_that_a_change_leaves_out(self):
        self.serve(static("gpu", 2))
        self.node.await_allocatable(gpu=2)
        got, _ = self.node.pod("one", gpu=2)
        self.node.configure(static("gpu", 1))
        self.roll_out()
        until(lambda: self.health("gpu").get("gpu-1", ("",))[0] == "Unhealthy", "the device of the pod to stay listed")
        self.node.ask_kubelet("pod", "rm", "one")


class VendorPackage(unittest.TestCase):
    """Programs find presets beside themselves, so copies of them have the vendor's preset, too."""

    def setUp(self):
        self.dir = tempfile.mkdtemp(prefix="devplugd-test.")
        self.addCleanup(shutil.rmtree, self.dir)
        os.chmod(self.dir, 0o755)
        os.mkdir(self.dir + "/bin")
        for name in ("devplugd", "devplugctl"):
            shutil.copy(program(name), self.dir + "/bin")
        shutil.copytree(PRESETS, self.dir + "/share/devplugd/presets")
        os.makedirs(self.dir + "/devplugd.conf.d")
        os.makedirs(self.dir + "/host/dev")
        for name in ("acme0", "acme1"):
            os.mknod(f"{self.dir}/host/dev/{name}", 0o20666, os.makedev(1, 3))
        self.write("share/devplugd/presets/acme.conf", block("preset"))
        self.write("devplugd.conf", 'dra = { driver = "devices.vendor.example"; };\nresources = ( );\n')
        self.write("devplugd.conf.d/50-acme.conf", block("drop-in"))

    def write(self, name, text):
        with open(os.path.join(self.dir, name), "w") as file:
            file.write(text)

    def run_program(self, name, *words):
        answer = subprocess.run([f"{self.dir}/bin/{name}", "-c", self.dir + "/devplugd.conf", *words], capture_output=True, text=True,
                                timeout=60)
        self.assertEqual(answer.returncode, 0, answer.stderr)
        return answer.stdout

    def test_preset_and_drop_in(self):
        self.assertIn("ok, 1 resource\n", self.run_program("devplugd", "--check"))
        self.assertRegex(self.run_program("devplugctl", "presets"), r"\nacme +Acme accelerators, by their nodes.\n")
        self.assertIn('preset = "acme"', self.run_program("devplugctl", "discover", "acme", "--root", self.dir + "/host"))
        result = json.loads(self.run_program("devplugctl", "preview", "acme.example/accelerator", "--root", self.dir + "/host", "--json"))
        self.assertEqual([device["id"] for device in result["devices"]], ["acme0", "acme1"])
        self.assertEqual(result["answer"]["envs"], {"ACME_VISIBLE_DEVICES": "acme0"})

    def test_device_class(self):
        self.write("devplugd.conf.d/50-acme.conf", block("drop-in").replace('preset = "acme";', 'preset = "acme"; serve = "dra";'))
        found, = json.loads(self.run_program("devplugctl", "dra", "classes"))["items"]
        self.assertEqual(found["spec"]["extendedResourceName"], "acme.example/accelerator")
        self.assertIn("devices.vendor.example", found["spec"]["selectors"][0]["cel"]["expression"])
        driver = re.search(r'`(dra = \{ driver = "accelerator.acme.example"; \})`', PAGE)[1]
        self.write("devplugd.conf.d/50-acme.conf",
                   block("drop-in").replace('preset = "acme";', f'preset = "acme"; serve = "dra"; {driver};'))
        found, = json.loads(self.run_program("devplugctl", "dra", "classes"))["items"]
        self.assertIn("accelerator.acme.example", found["spec"]["selectors"][0]["cel"]["expression"])


class Queries(unittest.TestCase):
    def test_metrics_and_alerts_exist(self):
        with open(os.path.join(ROOT, "exporter/families.c"), encoding="utf-8") as file:
            families = file.read()
        used = set(re.findall(r"\bdevplugd_[a-z_]+", PAGE))
        self.assertGreater(len(used), 2)
        self.assertEqual([name for name in sorted(used) if f'"{name}"' not in families], [])
        with open(os.path.join(ROOT, "packaging/monitoring/devplugd.rules.yaml"), encoding="utf-8") as file:
            rules = file.read()
        for alert in re.findall(r"`(Devplugd\w+)`", PAGE):
            self.assertIn(f"alert: {alert}\n", rules)


if __name__ == "__main__":
    unittest.main()
