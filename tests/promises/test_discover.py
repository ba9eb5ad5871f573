# SPDX-License-Identifier: Apache-2.0
"""devplugctl discover --resources: what it prints is a configuration, adds only what the file lacks, and each device is in one
resource. Also on the trees of all plugins in docs/peers."""
import glob
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

from node import program

ROOT = os.path.realpath(os.path.join(os.path.dirname(__file__), "../.."))
sys.path.insert(0, os.path.join(ROOT, "tests/peers"))

from test_peers import plant  # noqa: E402

TREES = sorted(glob.glob(os.path.join(ROOT, "tests/peers/*.tree")))
NOTHING = "resources = ( );"


class Discover(unittest.TestCase):
    def setUp(self):
        self.dir = tempfile.mkdtemp(prefix="devplugd-test.")
        self.addCleanup(shutil.rmtree, self.dir)
        os.chmod(self.dir, 0o755)
        self.host = self.dir + "/host"
        os.makedirs(self.host + "/dev")
        self.config = self.dir + "/devplugd.conf"
        self.write("")

    def write(self, *resources):
        self.text = "# Written by hand.\nresources = ( " + ",\n".join(resources) + " );\n"
        with open(self.config, "w") as file:
            file.write(self.text)

    def make_nodes(self, *names):
        """Presets with a path find a FIFO, too."""
        for name in names:
            os.makedirs(os.path.dirname(f"{self.host}/dev/{name}"), exist_ok=True)
            os.mkfifo(f"{self.host}/dev/{name}")

    def ctl(self, *words):
        return subprocess.run([program("devplugctl"), "-c", self.config, *words], capture_output=True, text=True, timeout=60)

    def discover(self, *words):
        answer = self.ctl("discover", "--resources", "--root", self.host, *words)
        self.assertEqual(answer.returncode, 0, answer.stderr)
        return answer.stdout

    def save(self, text, name="50-discovered"):
        os.makedirs(self.config + ".d", exist_ok=True)
        with open(f"{self.config}.d/{name}.conf", "w") as file:
            file.write(text)
        answer = subprocess.run([program("devplugd"), "-c", self.config, "--check"], capture_output=True, text=True, timeout=60)
        self.assertEqual(answer.returncode, 0, answer.stderr + text)

    def names(self, text):
        return re.findall(r'^    { name = "([^"]*)"', text, re.M)

    def ids(self, resource):
        answer = self.ctl("preview", resource, "--root", self.host, "--json")
        self.assertEqual(answer.returncode, 0, answer.stderr)
        return {device["id"] for device in json.loads(answer.stdout)["devices"]}

    def test_only_what_the_file_lacks(self):
        """Under names that it does not have, and the file stays as it is."""
        self.make_nodes("fuse", "kvm", "net/tun", "loop0", "loop1")
        self.write('{ name = "vendor.example/kvm"; driver = "path"; match = "/dev/fuse"; }',
                   '{ name = "vendor.example/disk"; driver = "path"; match = "/dev/loop0"; }',
                   '{ name = "vendor.example/off"; preset = "tun"; enabled = false; }')
        text = self.discover()
        self.assertEqual(self.names(text), ["vendor.example/kvm-2", "vendor.example/loop"])
        self.assertEqual(text.splitlines()[:4], [
            f"# Resources for devices on this host that no resource of {self.config} has.",
            "# Preset fuse: its devices belong to vendor.example/kvm.", "# Preset tun: its devices belong to vendor.example/off.",
            "resources = ("])
        self.save(text)
        self.assertIn(NOTHING, self.discover())
        with open(self.config) as file:
            self.assertEqual(file.read(), self.text)
        # Another node has more devices, and one preset can be asked for.
        self.make_nodes("uinput", "watchdog0", "hwrng")
        self.assertEqual(self.names(self.discover("uinput")), ["vendor.example/uinput"])
        more = self.discover()
        self.assertLessEqual({"vendor.example/hwrng", "vendor.example/uinput"}, set(self.names(more)))
        self.assertNotIn("vendor.example/tun\"", more)
        self.save(more, "60-more")
        self.assertIn(NOTHING, self.discover())

    def test_models(self):
        """Devices of different models are in different resources, and each has its own."""
        plant(self.host, os.path.join(ROOT, "tests/peers/nvidia-workstation.tree"))
        everything = self.ctl("discover", "nvidia", "--root", self.host)
        self.assertEqual(self.names(everything.stdout), ["vendor.example/nvidia"])
        for model in ("nvidia-rtx-a4000", "nvidia-t400-4gb"):
            self.assertIn(f'    # Only this model: {{ name = "vendor.example/{model}"; preset = "nvidia"; where = ( "model=', everything.stdout)
        text = self.discover("nvidia")
        self.assertEqual(sorted(self.names(text)), ["vendor.example/nvidia-rtx-a4000", "vendor.example/nvidia-t400-4gb"])
        self.save(text)
        self.assertEqual(self.ids("vendor.example/nvidia-rtx-a4000"), {"GPU-a1b2c320-1c2d-4e5f-8a9b-012345678920"})
        self.assertEqual(len(self.ids("vendor.example/nvidia-t400-4gb")), 1)

    def test_every_tree(self):
        """On hosts with all kinds of hardware: the output is valid, and is complete when it is saved."""
        self.assertGreater(len(TREES), 50)
        found = set()
        for tree in TREES:
            with self.subTest(os.path.basename(tree)):
                shutil.rmtree(self.host)
                os.makedirs(self.host + "/dev")
                shutil.rmtree(self.config + ".d", ignore_errors=True)
                plant(self.host, tree)
                text = self.discover()
                self.save(text)
                names = self.names(text)
                found.update(names)
                self.assertEqual(len(names), len(set(names)))
                again = self.discover()
                self.assertIn(NOTHING, again)
                for name in names:
                    self.assertTrue(self.ids(name), name)
        self.assertGreater(len(found), 25)

    def test_files_that_are_not_valid(self):
        with open(self.config, "w") as file:
            file.write("zork = 1;\n")
        answer = self.ctl("discover", "--resources", "--root", self.host)
        self.assertEqual((answer.returncode, answer.stdout), (78, ""))
        self.assertIn(self.config + ":1: ", answer.stderr)

    def test_wrong_usage(self):
        answer = self.ctl("discover", "--resources", "--json")
        self.assertEqual((answer.returncode, answer.stdout, answer.stderr), (2, "", "devplugctl: use either --resources or --json\n"))
        self.assertEqual(self.ctl("discover", "--resources", "--dump-tree").returncode, 2)
        self.assertEqual(self.ctl("presets", "--resources").returncode, 2)


if __name__ == "__main__":
    unittest.main()
