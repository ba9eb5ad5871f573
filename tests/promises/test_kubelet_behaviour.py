# SPDX-License-Identifier: Apache-2.0
"""What devplug-kubelet(1) says it reproduces, as far as it takes a kubelet and a plugin to see it; unit tests of the
model have the rest."""
import json
import os
import pty
import re
import select
import signal
import socket
import subprocess
import time
import unittest

import http2
from node import LIMIT, NodeTest, program, static, until

NAME = "vendor.example/test"


def text_field(number, text):
    return bytes([number << 3 | 2, len(text.encode())]) + text.encode()


class Behaviour(NodeTest):
    def begin(self, *options):
        before = len(self.events("listening"))
        self.node.start_kubelet(*(options or ("--as", "1.36")))
        until(lambda: len(self.events("listening")) > before, "the kubelet to listen")

    def plugin(self, fault="none"):
        plugin = subprocess.Popen([program("faulty-plugin"), fault], stderr=subprocess.DEVNULL,
                                  env={**os.environ, "DEVPLUG_KUBELET_PLUGIN_DIR": self.node.plugins})

        def end():
            plugin.kill()
            plugin.wait()

        self.addCleanup(end)
        return plugin

    def events(self, name, **members):
        if not os.path.exists(self.node.path("kubelet.log")):
            return []
        return [e for e in self.node.kubelet_events()
                if e["event"] == name and all(e.get(key) == value for key, value in members.items())]

    def await_event(self, name, **members):
        return until(lambda: self.events(name, **members), f"event {name} {members}")[0]

    def resource(self):
        return self.node.node_resources().get(NAME, {})

    def register(self, version="v1beta1", name=NAME, endpoint="absent.sock"):
        peer = http2.connect(os.path.join(self.node.plugins, "kubelet.sock"), http2.call(
            1, "/v1beta1.Registration/Register",
            text_field(1, version) + text_field(2, endpoint) + text_field(3, name)))
        self.addCleanup(peer.close)
        return peer

    # --- the control socket

    def ask(self, size):
        """What is said to a question of that many bytes; nothing, if the connection is closed."""
        question = json.dumps({"command": "status"}).ljust(size - 1).encode() + b"\n"
        with socket.socket(socket.AF_UNIX) as peer:
            peer.settimeout(LIMIT)
            peer.connect(os.path.join(self.node.kubelet_state, "control"))
            try:
                peer.sendall(question)
                return peer.recv(1)
            except (BrokenPipeError, ConnectionResetError):
                return b""

    def test_questions_of_up_to_a_mebibyte(self):
        self.begin()
        for size in 22, 4096, 4097, 1 << 16, 1 << 20:
            self.assertEqual(self.ask(size), b"{", size)
        self.assertEqual(self.ask((1 << 20) + 1), b"")
        self.assertEqual(self.ask(22), b"{")

    # --- what is shown

    def test_table_on_a_terminal(self):
        pid, terminal = pty.fork()
        if pid == 0:
            os.execv(program("devplug-kubelet"), ["devplug-kubelet", "run", "--plugin-dir", self.node.plugins,
                                                  "--state-dir", self.node.kubelet_state])
        self.addCleanup(os.close, terminal)
        self.addCleanup(os.waitpid, pid, 0)
        self.addCleanup(os.kill, pid, signal.SIGKILL)
        shown = b""

        def shows(pattern):
            nonlocal shown
            if select.select([terminal], [], [], 0.2)[0]:
                shown += os.read(terminal, 65536)
            return re.search(pattern, shown)

        until(lambda: shows(rb"RESOURCE +CAPACITY +ALLOCATABLE +ALLOCATED +ENDPOINT"), "the head of the table")
        self.plugin()
        until(lambda: shows(rb"vendor.example/test +4 +4 +0  test\.\d+\.\d+\.sock"), "the plugin in the table")
        # What a plugin says does not drive the terminal.
        self.register(name="x", endpoint="a\x1b[31m\x7f\u009bb")
        until(lambda: shows(rb"the ResourceName"), "the refused plugin")
        self.assertEqual(re.findall(rb"\x1b\[(?![HJ])|\x7f|\xc2[\x80-\x9f]", shown), [])

    # --- the checkpoint

    def test_checkpoint_of_a_real_kubelet_is_used_and_kept(self):
        text = ('{"Data":{"PodDeviceEntries":null,"RegisteredDevices":{"nvidia.com/gpu":'
                '["GPU-0650a168-e770-3ea8-8ac3-8a1d419763e0"]}},"Checksum":3952659280}')
        kept = os.path.join(self.node.kubelet_state, "kubelet_internal_checkpoint.kept")
        os.mkdir(self.node.plugins)
        with open(os.path.join(self.node.plugins, "kubelet_internal_checkpoint"), "w") as file:
            file.write(text)
        self.begin()
        self.assertEqual(self.node.node_resources()["nvidia.com/gpu"]["capacity"], 0)
        with open(kept) as file:
            self.assertEqual(file.read(), text)
        # One of our own is not kept.
        self.plugin()
        self.await_event("list", healthy=4)
        self.node.stop_kubelet()
        os.unlink(kept)
        self.begin()
        self.assertFalse(os.path.exists(kept))

    def test_bookings_of_removed_pods_stay_until_the_next_admission(self):
        def booked():
            with open(os.path.join(self.node.plugins, "kubelet_internal_checkpoint")) as file:
                entries = json.load(file)["Data"]["PodDeviceEntries"]
            return [id for entry in entries for ids in entry["DeviceIDs"].values() for id in ids]

        self.begin()
        self.plugin()
        self.await_event("list", healthy=4)
        self.assertEqual(self.node.ask_kubelet("pod", "a", "--limits", f"{NAME}=4").returncode, 0)
        self.assertEqual(self.node.ask_kubelet("pod", "rm", "a").returncode, 0)
        self.assertEqual((len(booked()), self.resource()["allocated"]), (4, 4))
        self.assertEqual(self.node.ask_kubelet("pod", "b", "--limits", f"{NAME}=1").returncode, 0)
        self.assertEqual((len(booked()), self.resource()["allocated"]), (1, 1))

    # --- Register

    def assert_refused(self, said, **arguments):
        peer = self.register(**arguments)
        received = b""
        while said.encode() not in received:
            part = peer.recv(65536)
            self.assertTrue(part, received)
            received += part
        # UNKNOWN, whatever it is.
        self.assertRegex(received, rb"grpc-status\x012")

    def test_register_is_refused_in_the_kubelets_words(self):
        self.begin()
        self.assert_refused('requested API version "v9" is not supported by kubelet. Supported version is '
                            '["v1beta1"]', version="v9", name="bad")
        self.assert_refused('the ResourceName "bad" is invalid', name="bad")
        self.assertEqual(self.events("registered"), [])

    def test_register_dials_for_ten_seconds(self):
        self.begin("--as", "1.32")
        peer = self.register()
        registered = self.await_event("register")
        # The caller is of no interest in 1.32.
        peer.close()
        refused = self.await_event("register-refused")
        self.assertEqual(refused["error"], "failed to dial device plugin: context deadline exceeded")
        self.assertGreaterEqual(refused["time"] - registered["time"], 10_000_000)

    def test_register_ends_with_its_caller(self):
        self.begin("--as", "1.36")
        peer = self.register()
        self.await_event("register")
        peer.close()
        refused = self.await_event("register-refused")
        self.assertEqual(refused["error"], "failed to dial device plugin: context canceled")

    # --- two registrations

    def two_plugins(self, race):
        self.begin("--stale-stream-race", race)
        first = self.plugin()
        self.await_event("list", connection=1)
        self.plugin()
        self.await_event("list", connection=2)
        first.kill()
        return self.await_event("stream-ended", connection=1)

    def test_end_of_an_old_stream_disconnects_the_newer_plugin(self):
        self.assertEqual(self.two_plugins("on")["disconnects"], 2)
        self.await_event("disconnected", connection=2)

    def test_end_of_the_newer_plugin_leaves_the_older_stream_open(self):
        self.begin()
        older = self.plugin()
        self.await_event("list", connection=1)
        newer = self.plugin()
        self.await_event("list", connection=2)
        newer.kill()
        self.await_event("disconnected", connection=2)
        self.assertEqual((self.resource()["capacity"], self.resource()["allocatable"]), (4, 0))
        self.assertEqual(self.events("stream-ended", connection=1), [])
        # A list of the older one is read, and its devices are healthy; but it is not called.
        older.send_signal(signal.SIGUSR1)
        self.await_event("list", connection=1, healthy=3)
        self.assertEqual(self.resource()["allocatable"], 3)
        answer = self.node.ask_kubelet("pod", "one", "--limits", f"{NAME}=1", "--json")
        self.assertRegex(json.loads(answer.stdout)["message"], "endpoint .* has been stopped")

    def test_kubelet_beside_one_that_hangs(self):
        self.begin()
        older = self.plugin()
        self.await_event("list", connection=1)
        path = os.path.join(self.node.plugins, "kubelet.sock")
        before = os.stat(path).st_ino
        refused = subprocess.run([program("devplug-kubelet"), "run", "--plugin-dir", self.node.plugins, "--state-dir",
                                  self.node.path("other")], capture_output=True, text=True, timeout=LIMIT)
        self.assertEqual(refused.returncode, 1)
        hanging = self.node.replace_kubelet()
        until(lambda: len(self.events("listening")) == 2, "the second kubelet to listen")
        self.assertNotEqual(os.stat(path).st_ino, before)
        # Another plugin comes to the new one; the first has its stream still, to the old one.
        self.plugin()
        until(lambda: len(self.events("list")) == 2, "another plugin's list")
        self.assertEqual(len(self.events("register")), 2)
        self.assertIsNone(older.poll())
        hanging.kill()
        until(lambda: len(self.events("list")) == 3, "the first plugin's list")

    def test_later_kubelets_distinguish_registrations(self):
        self.assertEqual(self.two_plugins("off")["disconnects"], 1)
        self.assertEqual((self.resource()["allocatable"], self.resource()["state"]), (4, "serving"))
        self.assertEqual(self.events("disconnected"), [])

    def test_connections_that_break_while_they_are_made(self):
        names = {f"r{i}": 2 for i in range(20)}
        self.node.configure(*(static(name, count) for name, count in names.items()))
        self.begin()
        self.node.start()
        self.node.await_allocatable(**names)
        # Before the options are asked for, while they are, and between the answer and the stream.
        for _ in range(8):
            self.node.stop(signal.SIGKILL)
            self.node.start()
            end = time.monotonic() + 0.6
            while time.monotonic() < end:
                for name in names:
                    self.node.call_kubelet("fault", resource=f"vendor.example/{name}", fault="close")
            self.assertIsNone(self.node.kubelet.poll(), "devplug-kubelet died")
        self.node.await_allocatable(**names)

    # --- restarts with devices that are booked

    def book(self, *options, fault="drops-device", pod=()):
        """All devices are on node 0 and booked by one pod; d2 is then unplugged, which the kubelet bears."""
        self.begin("--topology-policy", "restricted", *options)
        plugin = self.plugin(fault)
        self.await_event("list", healthy=4)
        self.assertEqual(self.node.ask_kubelet("pod", "holder", *pod, "--limits", f"{NAME}=4").returncode, 0)
        plugin.send_signal(signal.SIGHUP)
        self.await_event("list", healthy=3)
        self.node.stop_kubelet(signal.SIGKILL)
        return plugin

    def await_panic(self):
        self.assertEqual(self.node.kubelet.wait(timeout=LIMIT), 3)
        self.node.kubelet = None

    def test_booked_device_that_is_not_listed_ends_the_kubelet(self):
        plugin = self.book()
        self.await_event("allocated-device-missing", devices=1, example="d2")
        # At each start, until it is back.
        for _ in range(2):
            self.begin("--topology-policy", "restricted")
            self.await_panic()
        self.assertEqual(len(self.events("panic")), 2)
        with open(self.node.path("kubelet.log")) as file:
            self.assertIn('kubelet 1.36 panics here: nil pointer in generateDeviceTopologyHints(): '
                          f'device "d2" of {NAME} is booked and not listed', file.read())
        plugin.send_signal(signal.SIGWINCH)
        self.begin("--topology-policy", "restricted")
        until(self.is_readmitted, lambda: f"the pod; exit status of the kubelet: {self.node.kubelet.poll()}; its last events: "
                                          f"{self.node.kubelet_events()[-20:]}")

    def is_readmitted(self):
        """Registering before the device is back ends the kubelet again."""
        if self.node.kubelet.poll() is not None:
            self.await_panic()
            self.begin("--topology-policy", "restricted")
        return self.events("pod-readmitted", pod="holder")

    def test_booked_device_that_is_not_listed_fails_the_pod_up_to_1_33(self):
        self.book("--as", "1.33")
        self.begin("--topology-policy", "restricted", "--as", "1.33")
        refused = self.await_event("pod-rejected", pod="holder")
        self.assertEqual((refused["reason"], refused["message"]),
                         ("TopologyAffinityError",
                          "Pod was rejected: Resources cannot be allocated with Topology locality"))
        shown = json.loads(self.node.ask_kubelet("pods", "--json").stdout)["pods"][0]
        self.assertEqual((shown["phase"], shown["reason"]), ("Failed", "TopologyAffinityError"))
        # Its devices are free for the next one.
        self.assertEqual(self.node.ask_kubelet("pod", "next", "--limits", f"{NAME}=3").returncode, 0)

    def test_booked_device_that_is_listed_as_unhealthy_leaves_the_pod_alone(self):
        self.book(fault="none")
        self.begin("--topology-policy", "restricted")
        self.await_event("pod-readmitted", pod="holder")
        pod = json.loads(self.node.ask_kubelet("pods", "--json").stdout)["pods"][0]
        self.assertEqual((pod["phase"], len(pod["resources"][NAME])), ("Running", 4))
        self.assertEqual(pod["containers"][0]["topology"], {"nodes": [0], "preferred": True})

    def test_device_that_leaves_the_list_during_allocate_ends_the_kubelet(self):
        # All devices are on the only node, so that the plugin is not asked what it prefers.
        self.begin("--topology-policy", "restricted")
        first = self.plugin()
        self.await_event("list", connection=1)
        os.kill(first.pid, signal.SIGSTOP)
        pod = subprocess.Popen([program("devplug-kubelet"), "pod", "one", "--limits", f"{NAME}=4",
                                "--state-dir", self.node.kubelet_state],
                               stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        self.addCleanup(lambda: (pod.kill(), pod.wait()))
        until(lambda: self.resource()["allocated"] == 4, "the devices to be taken")
        # Another plugin's list, without d2; the first one is still asked to allocate.
        second = self.plugin("drops-device")
        self.await_event("list", connection=2)
        second.send_signal(signal.SIGHUP)
        self.await_event("list", devices=3)
        os.kill(first.pid, signal.SIGCONT)
        self.await_panic()
        self.assertIn("allocateContainerResources", self.events("panic")[0]["error"])

    def test_static_pods_up_to_1_33_need_healthy_devices(self):
        self.book("--as", "1.33", fault="none", pod=["--static"])
        self.begin("--as", "1.33")
        refused = self.await_event("pod-rejected", pod="holder")
        self.assertEqual(refused["reason"], "UnexpectedAdmissionError")
        self.assertIn("previously allocated devices are no longer healthy", refused["message"])

    def test_restart_of_the_host(self):
        """No container runs then, until it is started again."""
        plugin = self.book(fault="none")

        def admit_again():
            before = len(self.events("pod-readmitted"))
            self.node.stop_kubelet(signal.SIGKILL)
            self.begin("--topology-policy", "restricted")
            until(lambda: len(self.events("pod-readmitted")) > before, "the pod to be admitted again")

        def change(number, healthy):
            plugin.send_signal(number)
            until(lambda: self.events("list")[-1]["healthy"] == healthy, "the list")

        self.begin("--topology-policy", "restricted")
        self.await_event("pod-readmitted", pod="holder")
        change(signal.SIGWINCH, 4)
        self.assertEqual(self.node.ask_kubelet("reboot").returncode, 0)
        admit_again()
        self.assertEqual(self.node.ask_kubelet("pod", "restart", "holder").returncode, 0)
        change(signal.SIGHUP, 3)
        admit_again()
        self.assertEqual(self.node.ask_kubelet("reboot").returncode, 0)
        self.node.stop_kubelet(signal.SIGKILL)
        self.begin("--topology-policy", "restricted")
        refused = self.await_event("pod-rejected", pod="holder")
        self.assertIn("previously allocated devices are no longer healthy", refused["message"])

    # --- ListAndWatch

    def test_list_that_is_too_large_ends_the_stream(self):
        self.begin()
        self.plugin("oversize-list")
        self.assertIn("larger than max", self.await_event("stream-ended")["error"])
        self.assertEqual(self.resource()["lists"], 0)

    def test_list_that_is_not_utf8(self):
        self.begin("--as", "1.36")
        self.plugin("not-utf8")
        self.assertIn("UTF-8", self.await_event("stream-ended")["error"])
        self.node.stop_kubelet()
        # It is no matter for 1.32.
        self.begin("--as", "1.32")
        self.plugin("not-utf8")
        self.await_event("list", healthy=4)

    def test_end_of_a_stream_and_the_grace(self):
        # Five minutes are three seconds.
        self.begin("--time-scale", "100")
        plugin = self.plugin()
        self.await_event("list", healthy=4)
        plugin.send_signal(signal.SIGKILL)
        ended = self.await_event("disconnected")
        self.assertEqual((self.resource()["capacity"], self.resource()["allocatable"]), (4, 0))
        forgotten = self.await_event("forgotten")
        self.assertGreaterEqual(forgotten["time"] - ended["time"], 3_000_000)
        self.assertEqual((self.resource()["capacity"], self.resource()["state"]), (0, "forgotten"))
        refused = json.loads(self.node.ask_kubelet("pod", "a", "--limits", f"{NAME}=1", "--json").stdout)
        self.assertEqual(refused["reason"], "OutOf" + NAME)

    # --- pods

    def test_refused_pod_leaks_its_devices_until_another_ends(self):
        self.begin()
        self.plugin("empty-answer")
        self.await_event("list", healthy=4)
        refused = json.loads(self.node.ask_kubelet("pod", "a", "--limits", f"{NAME}=3", "--json").stdout)
        self.assertEqual((refused["reason"], refused["message"]),
                         ("UnexpectedAdmissionError", "Pod was rejected: Allocate failed due to no containers return in "
                          "allocation response, which is unexpected"))
        refused = json.loads(self.node.ask_kubelet("pod", "b", "--limits", f"{NAME}=2", "--json").stdout)
        self.assertIn(f"requested number of devices unavailable for {NAME}. Requested: 2, Available: 1",
                      refused["message"])

    def test_containers_start_with_what_was_allocated(self):
        self.begin()
        self.plugin()
        self.await_event("list", healthy=4)
        first = json.loads(self.node.ask_kubelet("pod", "a", "--limits", f"{NAME}=2", "--json").stdout)
        again = json.loads(self.node.ask_kubelet("pod", "restart", "a", "--json").stdout)
        self.assertEqual(first["container"], again["container"])
        self.assertEqual((len(self.events("allocate")), len(self.events("pre-start"))), (1, 2))

    def test_arbitrary_order_is_repeatable_by_its_seed(self):
        chosen = []
        for seed in ("7", "7", "8", "9", "10"):
            self.begin("--seed", seed)
            plugin = self.plugin("preferred-wrong")
            self.await_event("list", healthy=4)
            self.node.ask_kubelet("pod", "a", "--limits", f"{NAME}=2")
            chosen.append(tuple(self.events("allocate")[-1]["devices"]))
            plugin.kill()
            self.node.ask_kubelet("pod", "rm", "a")
            self.node.stop_kubelet()
            os.unlink(self.node.path("kubelet.log"))
        self.assertEqual(chosen[0], chosen[1])
        self.assertGreater(len(set(chosen)), 1)


if __name__ == "__main__":
    unittest.main()
