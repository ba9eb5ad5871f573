# SPDX-License-Identifier: Apache-2.0
"""devplugctl explain: why a resource is not served, and why its devices are not found."""
import json
import os
import sys
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.realpath(__file__)), "../peers"))
from node import BIN, static, until  # noqa: E402
from tool import ToolTest  # noqa: E402
os.environ.setdefault("DEVPLUGD_BIN", BIN)
ROOT = os.path.realpath(os.path.join(os.path.dirname(__file__), "../.."))
from test_peers import HERE as TREES, plant  # noqa: E402


class Explain(ToolTest):
    def explain(self, name, returncode=0):
        answer = self.ctl("explain", f"vendor.example/{name}")
        self.assertEqual(answer.returncode, returncode, answer.stderr)
        return answer.stdout

    def test_states(self):
        self.node.configure(static("a", 1), static("w", 1, 'registration = "watcher";'),
                            static("f", 1, 'user = "nobody-of-that-name";'),
                            '{ name = "vendor.example/g"; driver = "nvidia"; match = ( { } ); user = "nobody-of-that-name"; }', text="")
        self.node.start()
        self.node.await_state("vendor.example/a", "waiting")
        said = until(lambda: "kubelet.sock does not exist" in (text := self.explain("a")) and text, "the reason")
        self.assertIn('"waiting"', said)
        self.assertIn(str(self.node.find("vendor.example/a")["pid"]), said)

        self.node.await_state("vendor.example/f", "backoff")
        said = self.explain("f")
        self.assertIn("nobody-of-that-name", said)
        self.assertIn("Next automatic restart at", said)
        # devplugd itself runs.
        self.node.await_state("vendor.example/g", "backoff")
        answer = self.ctl("release", "vendor.example/g")
        self.assertEqual(answer.returncode, 1)
        self.assertIn("vendor.example/g has nothing to release: its process does not run", answer.stderr)

        self.node.start_kubelet()
        self.node.await_state("vendor.example/a", "serving")
        self.assertIn(" with session ", self.explain("a"))
        self.assertIn("the kubelet can allocate its healthy devices", self.explain("a"))
        self.assertEqual(self.ctl("cordon", "vendor.example/a/a-0", "test").returncode, 0)
        until(lambda: "it is registered, but none of its devices is healthy" in self.explain("a"), "no healthy device")
        self.node.stop()
        self.explain("a", 3)

    def test_failed_start_is_reported_once(self):
        self.node.configure(static("a", 1, 'user = "no-such-user";'))
        self.node.start()
        tries = set()

        def tried_often():
            state = json.loads(self.ctl("status", "--json").stdout)
            tries.update(r["next_try"] for r in state["resources"] if r["state"] == "backoff")
            return len(tries) > 3

        until(tried_often, "some tries")
        self.assertEqual(self.node.output().count('user "no-such-user" does not exist'), 1, self.node.output())

    def test_what_keeps_devices_from_being_found(self):
        good = self.node.path("good")
        self.node.configure('{ name = "vendor.example/a"; driver = "exec"; match = ( { interval = 0.2; command = [ '
                            f'"/bin/sh", "-c", "cat {good} || {{ echo no server >&2; exit 3; }}" ]; }} ); }}')
        self.node.start_kubelet()
        self.node.start()
        self.node.await_state("vendor.example/a", "serving")
        trouble = "no server; there is no list yet"
        said = until(lambda: trouble in (text := self.explain("a")) and text, "the reason")
        self.assertIn("The last scan for devices reports: /bin/sh failed with exit status 3", said)
        self.assertNotIn("No device matches", said)
        self.assertRegex(self.ctl("status").stdout, f"vendor.example/a: /bin/sh failed .*{trouble}")
        with open(good + ".new", "w") as file:
            file.write('{"version": 1, "devices": []}')
        os.rename(good + ".new", good)
        until(lambda: "No device matches" in self.explain("a"), "the end of the trouble")
        self.assertNotIn("no server", self.ctl("status").stdout)

    def test_functions_that_are_missing(self):
        """Why an interface is no device: docs/networking.md."""
        root = self.node.path("host")
        os.mkdir(root)
        plant(root, os.path.join(TREES, "sriov-netdevice.tree"))
        match = '{ name = "vendor.example/%s"; driver = "net"; match = ( { pf = "%s"; functions = "0-3"; } ); }'
        self.node.configure(match % ("nic", "ens785f0"), match % ("none", "ens785f1"), static("a", 1),
                            text=f'host_root = "{root}"; device_info_dir = "{self.node.dir}/info";')
        self.node.start_kubelet()
        self.node.start()
        self.node.await_serving()
        said = self.explain("nic")
        self.assertIn("0000:3b:02.2 is bound to vfio-pci, not to a driver of network interfaces", said)
        self.assertNotIn("virtual functions", said)
        self.assertIn("ens785f1 supports 64 virtual functions, but none exist", self.explain("none"))
        self.assertNotIn("virtual functions", self.explain("a"))

    def test_entry_that_finds_nothing(self):
        """One sentence in preview, explain, the log and JSON, and on the page about it."""
        sentence = "match[0]: 3 GPUs, none left: vendor refused 3 (0000:19:00.0 has 0x1002: write 0x)"
        typo = 'exclude[0] leaves out no device: 0000:19:00.0 has "vendor=0x1002"'
        root = self.node.path("host")
        os.mkdir(root)
        plant(root, os.path.join(TREES, "amd-gpu.tree"))
        entry = '{ name = "vendor.example/%s"; driver = "drm"; match = ( { vendor = %s; } ); overlap = true; %s }'

        def configure(vendor):
            self.node.configure(entry % ("gpu", vendor, ""),
                                entry % ("part", "0x1002", 'exclude = ( { where = "vendor=1002"; } );'), text=f'host_root = "{root}";')

        configure("1002")
        self.node.start_kubelet()
        self.node.start()
        self.node.await_serving()
        for name, words in (("gpu", sentence), ("part", typo)):
            with self.subTest(name):
                resource = f"vendor.example/{name}"
                self.assertEqual(self.node.resource(resource)["scan_notes"], [words])
                self.assertIn(f"reports: {words}.", " ".join(self.explain(name).split()))
                self.assertIn(f"Note: {words}\n", self.ctl("preview", resource).stdout)
                self.assertEqual(json.loads(self.ctl("--json", "preview", resource).stdout)["notes"], [words])
                self.assertEqual(self.node.output().count(words), 1, self.node.output())
        with open(os.path.join(ROOT, "docs/troubleshooting.md")) as file:
            self.assertIn(f"reports: {sentence}.", " ".join(file.read().split()))
        configure("0x1002")
        self.node.reload()
        until(lambda: self.node.resource("vendor.example/gpu")["scan_notes"] == [], "the end of the note")
        self.assertNotIn("reports", self.explain("gpu"))

    def test_root_that_is_not_a_host(self):
        """An empty directory, one that is missing, and a file."""
        empty, missing, file = (self.node.path(name) for name in ("empty", "missing", "file"))
        os.mkdir(empty)
        with open(file, "w"):
            pass
        entries = {"drm": "{}", "net": '{ pf = "ens1"; }', "nvidia": "{}", "path": '"/dev/video*"', "pci": "{ vendor = 0x8086; }",
                   "rdma": '{ name = "*"; }', "sysfs": '"dsa"', "usb": '{ port = "*"; }'}
        self.node.configure(*(f'{{ name = "vendor.example/{name}"; driver = "{name}"; match = ( {entry} ); }}'
                              for name, entry in entries.items()))
        for root in (empty, missing, file):
            for name in entries:
                with self.subTest(name, root=root):
                    answer = self.ctl("--json", "preview", "--root", root, f"vendor.example/{name}")
                    self.assertEqual(answer.returncode, 0, answer.stderr)
                    self.assertRegex(json.loads(answer.stdout)["notes"][-1], f"host_root {root} has no /(sys|dev)")

    def test_unknown(self):
        self.serve(static("a", 1))
        self.assertIn("no resource", self.ctl("explain", "vendor.example/b").stderr)
        self.explain("b", 1)


if __name__ == "__main__":
    unittest.main()
