# SPDX-License-Identifier: Apache-2.0
"""Whatever the kubelet answers about its pods, devplugd and its tools serve on, and count what is in the answer."""
import os
import unittest

from node import static, until
from pod_resources import Lister, container, pod
from tool import ToolTest
from unix_http import get

A = "vendor.example/a"
# Every command that shows what the daemon knows; the first one has the daemon ask.
COMMANDS = (("status",), ("status", "--json"), ("devices",), ("devices", "--pod", "default/p1"), ("explain", A), ("check",),
            ("check", "--json"), ("wait", A, "--for", "free=0", "--timeout", "0"), ("events",), ("rescan", A),
            ("cordon", "--list"), ("dra", "slices"), ("forget", A + "/a-0"))


class PodAnswers(ToolTest):
    def setUp(self):
        super().setUp()
        self.socket = self.node.path("pod-resources/kubelet.sock")
        self.lister = Lister(self.socket)
        self.addCleanup(self.lister.stop)
        os.makedirs(self.node.plugins)

    def configure(self, *resources, text=""):
        self.node.configure(*resources, text=text, kubelet=f'pod_resources_socket = "{self.socket}"; '
                            f'plugins_registry_dir = "{self.node.path("registry")}";')

    def run_commands(self):
        """Each command gets its answer."""
        for words in COMMANDS:
            answer = self.ctl(*words)
            self.assertIn(answer.returncode, (0, 1), (words, answer.stderr))
            for text in ("Sanitizer", "runtime error", "not running", "did not answer", "closed the connection"):
                self.assertNotIn(text, answer.stderr, words)

    def test_claims_of_other_drivers(self):
        """No resource is served by DRA, and the node's pods have claims of other drivers."""
        self.lister.answer = pod("default", "p1", [container("main", claims=[
            ("default", "c", [("gpu.example.com", "node-a", "gpu-0")]), ("default", "no-devices", [])])])
        for text in ("", 'dra = { };', 'dra = { driver = "devices.vendor.example"; };'):
            address = self.node.path("metrics.sock")
            self.configure(static("a", 2), text=f'{text} metrics = {{ listen = "{address}"; pods = true; }};')
            self.node.start()
            self.node.await_state(A, "waiting")
            self.run_commands()
            resource = self.node.resource(A)
            self.assertEqual((resource["offered"], resource["in_use"], resource["free"]), (2, 0, 2))
            self.await_scrape(address)
            self.assertEqual(self.node.stop(), 0)

    def await_scrape(self, address):
        def look():
            try:
                answer, text = get(address)
            except OSError:
                return None
            return answer.status == 200 and text

        return until(look, "the metrics")


if __name__ == "__main__":
    unittest.main()
