# SPDX-License-Identifier: Apache-2.0
"""docs/troubleshooting.md: each symptom is provoked, and the commands that it names print the words by which it is found there."""
import os
import re
import socket
import subprocess
import unittest

from node import NodeTest, program, static, until

ROOT = os.path.realpath(os.path.join(os.path.dirname(__file__), "../.."))


class Troubleshooting(NodeTest):
    def setUp(self):
        super().setUp()
        with open(ROOT + "/docs/troubleshooting.md") as file:
            self.page = file.read()

    def run_tool(self, name, *words):
        answer = subprocess.run([program(name), "-c", self.node.config, *words], capture_output=True, text=True)
        return answer.stdout + answer.stderr

    def shown(self, words, *command, name="devplugctl"):
        """The page has the words, and the command prints them, now or soon."""
        self.assertIn(words, self.page)
        until(lambda: words in self.run_tool(name, *command), f"{words}, printed by {name} {command}")

    def test_daemon(self):
        self.node.configure()
        self.shown("devplugd is not running", "status")
        with open(self.node.config, "w") as file:
            file.write("nonsense = 1;")
        self.node.start()
        self.assertEqual(self.node.daemon.wait(), 78)
        self.assertIn("`status=78`", self.page)
        self.node.configure()
        self.node.start()
        self.shown("no resources are configured", "status")
        self.node.configure(static("gpu", 2))
        self.shown("no resources are configured", "status")
        self.assertIn("+ add vendor.example/gpu", self.run_tool("devplugd", "--diff"))
        self.shown("it is not applied", "explain", "vendor.example/gpu")

    def test_sessions(self):
        self.node.configure(static("gpu", 2))
        self.node.start()
        self.shown("kubelet.sock does not exist", "explain", "vendor.example/gpu")
        left = socket.socket(socket.AF_UNIX)
        self.addCleanup(left.close)
        os.makedirs(self.node.plugins, exist_ok=True)
        left.bind(self.node.plugins + "/kubelet.sock")
        self.shown("Connection refused", "explain", "vendor.example/gpu")
        registry = self.node.path("registry")
        os.mkdir(registry)
        self.node.configure(static("gpu", 2), kubelet=f'registration = "watcher"; plugins_registry_dir = "{registry}";')
        self.node.reload()
        self.shown("the kubelet's plugin watcher has not registered the socket yet", "explain", "vendor.example/gpu")

    def test_devices(self):
        reason = "temperature 105 C"
        with open(self.node.path("gpu-2"), "w") as file:
            file.write(reason)
        probe = f'health = ( {{ probe = "file"; path = "{self.node.dir}/${{id}}"; healthy = "ok"; missing = "healthy"; }} );'
        self.node.configure(
            '{ name = "vendor.example/none"; driver = "path"; match = "/dev/nothing*"; }',
            f'{{ name = "vendor.example/gpu"; driver = "static"; match = ( {{ id = "gpu-1"; }}, {{ id = "gpu-2"; }} ); {probe} }}',
            '{ name = "vendor.example/needy"; driver = "static"; match = ( { count = 1; } ); container = { nodes = "/dev/kfd"; }; }',
            '{ name = "vendor.example/full"; driver = "path"; match = "/dev/full"; }',
            '{ name = "vendor.example/late"; driver = "path"; match = "/dev/ful[l]"; }')
        self.node.start_kubelet()
        self.node.start()
        self.shown("no device found", "preview", "vendor.example/none")
        self.shown(reason, "devices", "vendor.example/gpu")
        table = re.search(r"\$ devplugctl devices vendor\.example/gpu\n((?:\S.*\n)+)```", self.page).group(1)
        self.assertEqual(table.splitlines()[0].split(), self.run_tool("devplugctl", "devices").splitlines()[0].split())
        if not os.path.exists("/dev/kfd"):
            self.shown("needs /dev/kfd, which is missing on the host", "devices", "vendor.example/needy")
        self.shown("Claimed", "devices", "vendor.example/late")
        self.run_tool("devplugctl", "cordon", "gpu-1")
        self.shown("cordoned", "devices", "vendor.example/gpu")
        self.assertIn("gpu-1", self.run_tool("devplugctl", "cordon", "--list"))
        answer = self.node.ask_kubelet("pod", "two", "--limits", "vendor.example/gpu=2")
        for words in ("UnexpectedAdmissionError", "no healthy devices present"):
            self.assertIn(words, answer.stdout)
            self.assertIn(words, self.page)

    def test_pods_are_not_known(self):
        self.node.configure(static("gpu", 2), kubelet=f'pod_resources_socket = "{self.node.path("none.sock")}";')
        self.node.start_kubelet()
        self.node.start()
        self.shown("IN USE and FREE are not known", "status")
        self.assertIn("none.sock", self.run_tool("devplugctl", "status"))

    @unittest.skipUnless(os.geteuid() == 0, "needs root")
    def test_backoff(self):
        self.node.configure(static("gpu", 2, 'user = "nobody-has-this-name";'))
        self.node.start()
        self.shown("backoff", "status")
        self.assertIn("does not exist; create it or correct `user`", self.run_tool("devplugctl", "explain", "vendor.example/gpu"))

    def test_other_messages(self):
        """Messages that other tests provoke are in the sources in the form of the page."""
        sources = ""
        for directory in ("supervisor", "drivers"):
            for folder, _, names in os.walk(os.path.join(ROOT, directory)):
                for name in names:
                    with open(os.path.join(folder, name)) as file:
                        sources += re.sub(r'"\s*"', "", file.read())
        for words in ("is read-only for devplugd", "another process has removed or changed", "was removed on the host and created again",
                      "excluded by the configuration, but assigned to a pod", "the kubelet offers"):
            with self.subTest(words):
                self.assertIn(words, self.page)
                self.assertIn(words, sources)


if __name__ == "__main__":
    unittest.main()
