# SPDX-License-Identifier: Apache-2.0
"""The kubelet takes all devices of a resource for unhealthy, without ending our stream, because another plugin that had
registered the same name has ended. devplugd notices, says so, and has the devices offered again.
"""
import os
import signal
import socket
import stat
import unittest

from node import LIMIT, Node, path, static, until
from tool import ToolTest

GPU = "vendor.example/gpu"


class Offered(ToolTest):
    def test_P6_another_plugin_takes_the_name_and_ends(self):
        other = Node()
        self.addCleanup(other.close)
        other.plugins = self.node.plugins
        answers = os.path.join(self.node.kubelet_state, "pod-resources/kubelet.sock")
        # A shared device is listed with several ids.
        os.mkdir(self.node.path("dev"))
        for number in range(2):
            os.mknod(self.node.path(f"dev/card{number}"), stat.S_IFCHR | 0o666, os.makedev(1, 3))
        self.node.configure(static("gpu", 5), static("fpga", 2),
                            path("shared", self.node.path("dev/card*"), "share = { replicas = 10; };"),
                            kubelet=f'pod_resources_socket = "{answers}";')
        other.configure(static("gpu", 3))
        self.node.start_kubelet()
        self.node.start()
        self.node.await_allocatable(gpu=5, fpga=2, shared=20)
        before = self.node.await_serving()
        # Otherwise it may already notice the 3 devices of the other plugin.
        self.node.daemon.send_signal(signal.SIGSTOP)
        self.addCleanup(self.node.daemon.send_signal, signal.SIGCONT)
        other.start()
        self.node.await_allocatable(gpu=3)
        other.stop()
        self.node.await_allocatable(gpu=0)
        self.node.daemon.send_signal(signal.SIGCONT)
        # It asks once a minute.
        until(lambda: "the kubelet offers 0 of 5 healthy devices; the resource is registered again" in self.node.output(),
              "the difference to be noticed", limit=3 * LIMIT)
        self.node.await_allocatable(gpu=5, fpga=2)
        until(lambda: "the kubelet offers all 5 healthy devices again" in self.node.output(), "the end to be noticed")
        after = self.node.await_serving()
        self.assertEqual(after[GPU]["reason"], "")
        for name, resource in after.items():
            self.assertEqual(resource["pid"], before[name]["pid"])
        # The kubelet calls the plugin that registered last; the list alone would only make it count the devices.
        self.assertGreater(after[GPU]["session"], before[GPU]["session"])
        got, why = self.node.pod("a", gpu=1)
        self.assertIsNone(why)
        self.assertEqual(len(got["resources"][GPU]), 1)
        for name in ("fpga", "shared"):
            self.assertNotIn(f"vendor.example/{name}: the kubelet offers", self.node.output())

    def test_P6_another_plugin_has_the_name(self):
        """It is noticed by the socket that the other plugin creates, and shown before the resource is registered again."""
        other = Node()
        self.addCleanup(other.close)
        other.plugins = self.node.plugins
        answers = os.path.join(self.node.kubelet_state, "pod-resources/kubelet.sock")
        self.node.configure(static("gpu", 5), kubelet=f'pod_resources_socket = "{answers}";')
        other.configure(static("gpu", 3))
        self.node.start_kubelet()
        self.node.start()
        self.node.await_allocatable(gpu=5)
        session = self.node.await_serving()[GPU]["session"]
        other.start()
        shown = until(lambda: (r := self.node.resource(GPU))["reason"].startswith("the kubelet offers 3 of 5") and r,
                      "the other plugin to be noticed")
        self.assertEqual((shown["state"], shown["session"]), ("serving", session))
        self.assertIn("the kubelet offers 3 of 5", self.ctl("status").stdout)

    def test_P6_a_later_list_does_not_hide_it(self):
        """The kubelet counts what our stream lists, but still sends each pod's Allocate to the plugin that has ended."""
        other = Node()
        self.addCleanup(other.close)
        other.plugins = self.node.plugins
        answers = os.path.join(self.node.kubelet_state, "pod-resources/kubelet.sock")
        self.node.configure(
            static("gpu", 5, f'health = ( {{ probe = "file"; missing = "healthy"; path = "{self.node.dir}/${{id}}"; }} );'),
            kubelet=f'pod_resources_socket = "{answers}";')
        other.configure(static("gpu", 3))
        self.node.start_kubelet()
        self.node.start()
        self.node.await_allocatable(gpu=5)
        self.node.await_serving()
        other.start()
        self.node.await_allocatable(gpu=3)
        other.stop()
        until(lambda: self.node.find(GPU)["reason"].startswith("the kubelet offers 0 of 5"), "the difference to be noticed",
              limit=3 * LIMIT)
        sick = self.node.path("gpu-0")
        with open(sick, "w") as file:
            file.write("hot\n")
        self.node.await_allocatable(gpu=4)
        os.unlink(sick)
        self.node.await_allocatable(gpu=5)
        until(lambda: "the resource is registered again" in self.node.output(), "the session to be renewed", limit=3 * LIMIT)
        self.node.await_serving()
        self.node.await_allocatable(gpu=5)
        self.assertIsNone(self.node.pod("a", gpu=1)[1])

    def test_P6_what_does_not_help_is_not_repeated(self):
        # PodResources of a kubelet that never hears of the resource.
        other = Node()
        self.addCleanup(other.close)
        other.start_kubelet()
        answers = os.path.join(other.kubelet_state, "pod-resources/kubelet.sock")
        self.node.configure(static("gpu", 5), kubelet=f'pod_resources_socket = "{answers}";')
        self.node.start_kubelet()
        until(lambda: os.path.exists(os.path.join(self.node.plugins, "kubelet.sock")), "the kubelet to listen")
        with socket.socket(socket.AF_UNIX) as plugin:
            plugin.bind(os.path.join(self.node.plugins, "other-plugin.sock"))
        self.node.start()
        first = self.node.await_serving()[GPU]["session"]
        until(lambda: "the resource is registered again" in self.node.output(), "the session to be renewed")
        words = "the kubelet offers 0 of 5; another plugin may use the same resource name, sockets of others: " \
                "other-plugin.sock"
        until(lambda: (r := self.node.find(GPU))["reason"] == words and r["state"] == "serving"
              and r["session"] > first, "the new session to be checked")
        self.assertIn(words, self.ctl("explain", GPU).stdout)
        self.assertIn(words, self.ctl("status").stdout)
        self.assertEqual(self.node.output().count("the resource is registered again"), 1)
        self.assertEqual(self.node.find(GPU)["session"], first + 1)


if __name__ == "__main__":
    unittest.main()
