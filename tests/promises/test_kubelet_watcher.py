# SPDX-License-Identifier: Apache-2.0
"""devplug-kubelet's plugin watcher: devplugd registers through plugins_registry, with a kubelet that finds it by itself
or is not there yet."""
import os
import signal
import socket
import subprocess
import threading
import time
import unittest

import http2
from node import LIMIT, NodeTest, program, static, until
from tool import ToolTest


class Watcher(NodeTest):
    def begin(self, *resources):
        self.registry = self.node.path("registry")
        os.makedirs(self.registry)
        with open(self.node.config, "w") as file:
            file.write(
                f'runtime_dir = "{self.node.run}";\n'
                f'kubelet = {{ device_plugin_dir = "{self.node.plugins}"; registration = "watcher";\n'
                f'    plugins_registry_dir = "{self.registry}"; }};\n'
                "resources = (\n" + ",\n".join(resources) + "\n);\n")
        self.node.kubelet_options = ["--plugins-registry", self.registry]
        self.node.start_kubelet()

    def events(self, name, **members):
        return [e for e in self.node.kubelet_events()
                if e.get("event") == name and all(e.get(k) == v for k, v in members.items())]

    def await_registered(self, count=1):
        """The kubelet reports the status after it has the list; until then, a registration can still fail."""
        until(lambda: len(self.events("watcher-registered", resource="vendor.example/gpu")) == count,
              f"{count} registrations to end well")

    def test_sockets_are_found_and_registered(self):
        self.begin(static("gpu", 3), static("fpga", 2))
        self.node.start()
        self.node.await_allocatable(gpu=3, fpga=2)
        got, error = self.node.pod("one", gpu=2)
        self.assertIsNone(error)
        self.assertEqual(len(got["resources"]["vendor.example/gpu"]), 2)
        # Way A's counter does not know it.
        self.assertEqual(self.node.node_resources()["vendor.example/gpu"]["registrations"], 0)
        self.await_registered()

    def test_registry_must_be_a_directory(self):
        file = self.node.path("registry")
        with open(file, "w"):
            pass
        answer = subprocess.run([program("devplug-kubelet"), "run", "--plugin-dir", self.node.plugins, "--state-dir",
                                 self.node.kubelet_state, "--plugins-registry", file],
                                capture_output=True, text=True, timeout=LIMIT)
        self.assertEqual(answer.returncode, 1)
        self.assertIn(f"cannot watch {file}: Not a directory", answer.stderr)

    def test_socket_that_goes_takes_its_resource_with_it(self):
        self.begin(static("gpu", 3))
        self.node.start()
        self.node.await_allocatable(gpu=3)
        self.await_registered()
        self.node.stop()
        self.node.await_allocatable(gpu=0)
        until(lambda: self.events("watcher-unregistered", resource="vendor.example/gpu"), "the socket to be missed")
        self.node.start()
        self.node.await_allocatable(gpu=3)

    def test_kubelet_that_restarts_finds_existing_sockets(self):
        self.begin(static("gpu", 3))
        self.node.start()
        self.node.await_allocatable(gpu=3)
        self.node.stop_kubelet()
        self.node.start_kubelet()
        self.node.await_allocatable(gpu=3)

    def test_lost_stream_is_offered_again(self):
        self.begin(static("gpu", 3))
        self.node.start()
        self.node.await_allocatable(gpu=3)
        self.await_registered()
        self.assertEqual(self.node.ask_kubelet("fault", "vendor.example/gpu", "end-stream").returncode, 0)
        self.await_registered(2)
        self.node.await_allocatable(gpu=3)

    def bind(self, name):
        bound = socket.socket(socket.AF_UNIX)
        self.addCleanup(bound.close)
        bound.bind(os.path.join(self.registry, name))
        return bound

    def test_socket_that_refuses_is_tried_again_later(self):
        self.begin(static("gpu", 1))
        began = time.monotonic()
        self.bind("dead.sock")
        self.bind(".hidden.sock")
        failed = until(lambda: len(f := self.events("watcher-failed")) >= 2 and f, "two attempts")
        # A dial alone goes on for 10 seconds, and half a second passes between the first two.
        self.assertGreaterEqual(time.monotonic() - began, 20)
        for event in failed:
            self.assertRegex(event["error"], r"^RegisterPlugin error -- dial failed at socket \S+/dead\.sock, "
                             r"err: failed to dial socket \S+/dead\.sock, err: context deadline exceeded$")
        self.assertGreaterEqual(failed[1]["time"] - failed[0]["time"], 10_500_000)

    def test_socket_that_is_served_late_is_dialled_in_time(self):
        self.begin(static("gpu", 1))
        late = self.bind("late.sock")
        # After the first attempt of the dial, which a second later is not the last one.
        time.sleep(2)
        late.listen()
        late.settimeout(10)
        late.accept()[0].close()
        failed = until(lambda: self.events("watcher-failed"), "the attempt to fail, because nobody answered")
        self.assertIn("failed to get plugin info using RPC GetInfo", failed[0]["error"])

    def closing(self, path):
        """A socket on which each client is disconnected."""
        return self.serving(path, lambda peer: None)

    def serving(self, path, serve):
        bound = socket.socket(socket.AF_UNIX)
        bound.bind(path)
        bound.listen()

        def run():
            while True:
                try:
                    peer = bound.accept()[0]
                except OSError:
                    return
                with peer:
                    serve(peer)

        thread = threading.Thread(target=run)
        thread.start()

        def end():
            bound.shutdown(socket.SHUT_RDWR)
            bound.close()
            thread.join()

        self.addCleanup(end)

    def test_failed_registration_is_repeated_from_1_36_on(self):
        """The plugin cannot be connected. What fails before that is repeated by every release."""
        self.registry = self.node.path("registry")
        os.makedirs(self.registry)
        endpoint = self.node.path("endpoint.sock")
        self.closing(endpoint)

        def field(number, text):
            return bytes([number << 3 | 2, len(text)]) + text.encode()

        def give_info(peer):
            peer.settimeout(LIMIT)
            if not http2.answer_call(peer, field(1, "DevicePlugin") + field(2, "vendor.example/gpu") +
                                     field(3, endpoint) + field(4, "v1beta1")):
                return
            # Nobody takes note of the failure that follows.
            peer.shutdown(socket.SHUT_WR)
            while peer.recv(4096):
                pass

        for number, version in enumerate(("1.35", "1.36")):
            with self.subTest(version):
                self.node.kubelet_options = ["--plugins-registry", self.registry, "--as", version]
                before = len(self.node.kubelet_events()) if number else 0
                self.node.start_kubelet()
                paths = [os.path.join(self.registry, f"{name}{number}.sock") for name in ("refused", "cut")]
                self.serving(paths[0], give_info)
                self.closing(paths[1])

                def failures(path):
                    return [e for e in self.node.kubelet_events()[before:]
                            if e["event"] == "watcher-failed" and e["socket"] == path]

                until(lambda: len(failures(paths[1])) >= 3, "the third attempt to ask for the plugin's information")
                self.assertIn("plugin registration failed with err", failures(paths[0])[0]["error"])
                self.assertEqual(len(failures(paths[0])) > 1, version == "1.36")
                self.node.stop_kubelet()
                for path in paths:
                    os.unlink(path)


class Registry(ToolTest):
    def test_removed_socket_is_made_again(self):
        registry = self.node.path("registry")
        os.mkdir(registry)
        with open(self.node.config, "w") as file:
            file.write(f'runtime_dir = "{self.node.run}";\n'
                       f'kubelet = {{ plugins_registry_dir = "{registry}"; registration = "watcher"; }};\n'
                       f'resources = ( {static("a", 1)} );\n')
        self.node.start()

        def sockets():
            # Without those that the kubelet's watcher ignores.
            return [name for name in os.listdir(registry) if not name.startswith(".")]

        before = until(sockets, "a socket")
        pid = self.node.await_state("vendor.example/a", "registering")["pid"]
        os.unlink(os.path.join(registry, before[0]))
        after = until(sockets, "another socket")
        self.assertNotEqual(after, before)
        # "kubeadm reset" removes the whole directory.
        os.rename(registry, registry + ".old")
        os.mkdir(registry)
        until(lambda: os.listdir(registry), "a socket in the new directory")
        self.assertEqual(self.node.await_state("vendor.example/a", "registering")["pid"], pid)

    def test_socket_in_the_registry(self):
        registry = self.node.path("registry")
        text = f'kubelet = {{ plugins_registry_dir = "{registry}"; registration = "watcher"; }};'
        with open(self.node.config, "w") as file:
            file.write(f'runtime_dir = "{self.node.run}";\n{text}\nresources = ( {static("a", 1)} );\n')
        self.node.start()
        until(lambda: registry in (self.node.find("vendor.example/a") or {"reason": ""})["reason"],
              "the directory to be missed")
        self.assertEqual(self.node.find("vendor.example/a")["state"], "waiting")
        os.mkdir(registry)
        self.node.await_state("vendor.example/a", "registering")
        names = sorted(os.listdir(registry), reverse=True)
        # The plugin serves on the other one, which the kubelet's watcher ignores.
        self.assertRegex(names[0], r"^devplugd-[-0-9a-f]*\.sock$")
        self.assertEqual(names[1:], ["." + names[0]])
        with socket.socket(socket.AF_UNIX) as client:
            client.connect(os.path.join(registry, names[0]))
        self.assertIn("plugin watcher", self.ctl("explain", "vendor.example/a").stdout)

        # A killed one's sockets are removed, a stopped one removes its own.
        self.node.stop(signal.SIGKILL)
        self.node.start()
        until(lambda: len(left := set(os.listdir(registry))) == 2 and not left & set(names), "other sockets")
        self.node.stop()
        self.assertEqual(os.listdir(registry), [])


if __name__ == "__main__":
    unittest.main()
