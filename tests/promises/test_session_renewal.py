# SPDX-License-Identifier: Apache-2.0
"""Sessions that are no longer valid although their streams are open (P6, P15): the kubelet hangs and another one
has taken its place, or the socket of the session was removed.
"""
import os
import signal
import unittest

from node import NodeTest, static, until

N = 5


class Renewal(NodeTest):
    def setUp(self):
        super().setUp()
        self.names = {f"r{i}": 2 for i in range(N)}
        self.node.configure(*(static(name, n) for name, n in self.names.items()))
        self.node.start_kubelet()
        self.node.start()
        self.node.await_allocatable(**self.names)
        self.before = self.node.await_serving()

    def registrations(self):
        return {name: r["registrations"] for name, r in self.node.node_resources().items()}

    def assert_same_processes(self):
        for name, resource in self.node.await_serving().items():
            self.assertEqual(resource["pid"], self.before[name]["pid"])

    def test_P6_kubelet_that_hangs_is_replaced(self):
        hung = self.node.kubelet
        self.addCleanup(hung.wait)
        self.addCleanup(hung.kill)
        hung.send_signal(signal.SIGSTOP)
        self.node.kubelet_state = self.node.path("second-kubelet")
        self.node.start_kubelet("--replace")
        self.node.await_allocatable(**self.names)
        self.assertEqual(set(self.registrations().values()), {1})
        # When the old one goes on, nothing of its sessions is left that could disturb the new ones.
        hung.send_signal(signal.SIGCONT)
        hung.send_signal(signal.SIGTERM)
        hung.wait()
        self.node.await_allocatable(**self.names)
        self.assertEqual(set(self.registrations().values()), {1})
        self.assert_same_processes()

    def test_P6_kubelet_is_killed_while_it_registers(self):
        """It has refused nothing, and people are told so."""
        self.node.stop()
        self.node.kubelet.send_signal(signal.SIGSTOP)
        self.node.start()
        until(lambda: (state := self.node.state()) and [r["state"] for r in state["resources"]] == ["registering"] * N,
              "Register to be sent")
        self.node.stop_kubelet(signal.SIGKILL)
        words = "the kubelet closed the connection before it answered Register"
        until(lambda: self.node.output().count(words) >= N, "every resource to say what happened")
        self.assertNotIn("refused the registration", self.node.output())
        self.assertNotIn("Socket closed", self.node.output())
        self.node.start_kubelet()
        self.node.await_allocatable(**self.names)

    def test_P6_socket_is_removed(self):
        for name in self.node.sockets():
            os.unlink(os.path.join(self.node.plugins, name))
        until(lambda: set(self.registrations().values()) >= {2}, "every resource to register again")
        self.node.await_allocatable(**self.names)
        until(lambda: len(self.node.sockets()) == N, "a socket for each session")
        self.assert_same_processes()

    def test_P6_directory_is_replaced_under_a_kubelet_that_hangs(self):
        hung = self.node.kubelet
        self.addCleanup(hung.wait)
        self.addCleanup(hung.kill)
        hung.send_signal(signal.SIGSTOP)
        os.rename(self.node.plugins, self.node.plugins + ".old")
        self.node.kubelet_state = self.node.path("second-kubelet")
        self.node.start_kubelet()
        self.node.await_allocatable(**self.names)
        self.assert_same_processes()

    def test_P15_what_does_not_replace_the_kubelet_changes_nothing(self):
        kubelet, moved = (os.path.join(self.node.plugins, name) for name in ("kubelet.sock", "moved.sock"))
        os.chmod(kubelet, 0o700)
        os.utime(kubelet)
        os.rename(kubelet, moved)
        os.rename(moved, kubelet)
        directory = self.node.plugins
        os.rename(directory, directory + ".moved")
        # Nobody accepts a session now: the open ones are worth more than none.
        until(lambda: "kubelet.sock was removed" in self.node.output(), "the removal of the directory to be logged")
        os.rename(directory + ".moved", directory)
        until(lambda: self.node.output().count("kubelet.sock appeared") >= 2, "the directory to be found")
        self.node.await_allocatable(**self.names)
        self.assertEqual(set(self.registrations().values()), {1})
        self.assertEqual({r["session"] for r in self.node.await_serving().values()},
                         {r["session"] for r in self.before.values()})


if __name__ == "__main__":
    unittest.main()
