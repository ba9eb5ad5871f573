# SPDX-License-Identifier: Apache-2.0
"""The kubelet client, the only process that registers with the kubelet: it is killed while the kubelet has not answered,
and while resources are served; it ends when there is nothing to register; and the processes of resources do not register."""
import contextlib
import os
import selectors
import signal
import socket
import threading
import unittest

import http2
from node import LIMIT, SANITIZED, NodeTest, client_of, process_status, scaled, static, until

ENDED = "devplugd's kubelet client ended before the kubelet answered"
GET_INFO = "/pluginregistration.Registration/GetInfo"
NOTIFY = "/pluginregistration.Registration/NotifyRegistrationStatus"
REGISTERED = b"\x08\x01"


class SilentKubelet:
    """Accepts connections and never answers. Knows which are open, how many calls there were, and whether a connection
    with a call has ended."""

    def __init__(self, path):
        self.path, self.peers, self.open, self.called, self.calls, self.has_end = path, [], set(), set(), 0, False
        self.listener = socket.socket(socket.AF_UNIX)
        self.listener.bind(path)
        self.listener.listen(64)
        self.thread = threading.Thread(target=self.serve)
        self.thread.start()

    def serve(self):
        with selectors.DefaultSelector() as selector:
            selector.register(self.listener, selectors.EVENT_READ)
            while True:
                for key, _ in selector.select():
                    if key.fileobj is not self.listener:
                        self.read(key.fileobj, selector)
                        continue
                    try:
                        peer = self.listener.accept()[0]
                    except OSError:
                        return
                    self.open.add(peer)
                    self.peers.append(peer)
                    selector.register(peer, selectors.EVENT_READ)

    @staticmethod
    def receive(peer):
        try:
            return peer.recv(4096, socket.MSG_DONTWAIT)
        except BlockingIOError:
            return None
        except OSError:
            return b""

    def has_ended(self, peer):
        """Also behind what it sent last."""
        while data := self.receive(peer):
            pass
        return data == b""

    def read(self, peer, selector):
        data = self.receive(peer)
        if data and peer not in self.called:
            # What ended before this call began is seen by now.
            self.has_end |= any(self.has_ended(other) for other in self.called)
            self.called.add(peer)
            self.calls += 1
        if data == b"":
            self.has_end |= peer in self.called
            selector.unregister(peer)
            self.open.discard(peer)

    def close(self):
        self.listener.shutdown(socket.SHUT_RDWR)
        self.thread.join()
        for peer in (*self.peers, self.listener):
            peer.close()
        os.unlink(self.path)


class Client(NodeTest):
    def client(self, other_than=None):
        return until(lambda: (pid := client_of(self.node.daemon.pid)) != other_than and pid, "a kubelet client")

    def kill_client(self):
        """Returns the pid that it had."""
        pid = self.client()
        os.kill(pid, signal.SIGKILL)
        # A connection that comes before devplugd knows that the client has ended waits for it, and fails with it.
        until(lambda: f"kubelet-client (pid {pid}) was killed" in self.node.output(), "the end of the client to be known")
        return pid

    def resources(self):
        return {r["name"]: r for r in self.node.state()["resources"]}

    def registrations(self, event="registered"):
        return [e for e in self.node.kubelet_events() if e.get("event") == event]


class Socket(Client):
    def begin(self, *names):
        self.node.configure(*(static(name, 2) for name in names))
        self.node.start_kubelet()
        self.node.start()
        self.node.await_allocatable(**{name: 2 for name in names})
        return self.node.await_serving()

    def assert_undisturbed(self, before):
        now = self.node.await_serving()
        for name, old in before.items():
            self.assertEqual((now[name]["pid"], now[name]["session"]), (old["pid"], old["session"]), name)

    def test_killed_during_register(self):
        os.mkdir(self.node.plugins)
        self.node.configure(static("a", 2), static("b", 2))
        kubelet = SilentKubelet(os.path.join(self.node.plugins, "kubelet.sock"))
        try:
            self.node.start()
            until(lambda: len(kubelet.open) == 2, "both to be registered")
            before = self.resources()
            first = self.kill_client()
            until(lambda: self.node.output().count(f"registration failed: {ENDED}") == 2, "both registrations to end")
            # The kubelet sees the end of the first calls before the next ones begin (P15).
            self.client(first)
            until(lambda: len(kubelet.peers) >= 4 and len(kubelet.open) == 2, "both to be registered again")
            for name, resource in self.resources().items():
                self.assertEqual((resource["pid"], resource["restarts"]), (before[name]["pid"], 0), name)
        finally:
            kubelet.close()
        self.node.start_kubelet()
        self.node.await_allocatable(a=2, b=2)
        self.assertEqual({name: (r["pid"], r["restarts"]) for name, r in self.node.await_serving().items()},
                         {name: (r["pid"], 0) for name, r in before.items()})

    def test_killed_again_and_again_while_registering(self):
        self.begin("a", "b", "c")
        before = self.resources()
        for _ in range(scaled(20)):
            self.node.stop_kubelet(signal.SIGKILL)
            self.node.start_kubelet()
            self.kill_client()
        self.node.await_allocatable(a=2, b=2, c=2)
        for name, resource in self.node.await_serving().items():
            self.assertEqual((resource["pid"], resource["restarts"]), (before[name]["pid"], 0), name)

    def test_killed_while_serving(self):
        before = self.begin("a", "b")
        self.kill_client()
        # Nothing is registered, so none is started until there is something.
        self.assertEqual(len(self.registrations()), 2)
        self.assertIsNone(self.node.pod("one", a=1)[1])
        self.node.configure(*(static(name, 2) for name in ("a", "b", "c")))
        self.node.reload()
        self.node.await_allocatable(c=2)
        self.assert_undisturbed(before)
        self.assertEqual(len(self.registrations()), 3)
        self.assertNotIn(ENDED, self.node.output())

    def test_killed_while_the_kubelet_is_replaced(self):
        self.begin("a", "b")
        before = self.resources()
        os.kill(self.client(), signal.SIGSTOP)
        control = os.path.join(self.node.kubelet_state, "control")
        hanging = os.stat(control).st_ino
        self.node.replace_kubelet()
        self.kill_client()
        # Until then, it is the hanging one that is asked.
        until(lambda: os.path.exists(control) and os.stat(control).st_ino != hanging, "the second kubelet to listen")
        self.node.await_allocatable(a=2, b=2)
        for name, resource in self.node.await_serving().items():
            self.assertEqual((resource["pid"], resource["restarts"]), (before[name]["pid"], 0), name)

    def test_ends_when_it_is_idle(self):
        before = self.begin("a")
        first = self.client()
        until(lambda: client_of(self.node.daemon.pid) is None, "the client to end")
        self.assert_undisturbed(before)
        self.node.stop_kubelet()
        self.node.start_kubelet()
        self.node.await_allocatable(a=2)
        self.assertNotEqual(self.client(), first)
        # That is no event for an administrator.
        self.assertNotIn("kubelet-client", self.node.output())

    def test_has_nothing_but_what_it_needs(self):
        self.begin("a")
        pid = self.client()
        status = process_status(pid)
        for name in ("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"):
            self.assertEqual(int(status[name], 16), 0, name)
        self.assertEqual(status["NoNewPrivs"], "1")
        own = set(status["Uid"].split())
        self.assertFalse(own & {"0", *process_status(self.resources()["vendor.example/a"]["pid"])["Uid"].split()})
        if not SANITIZED and "Seccomp_filters" in status:
            self.assertEqual(status["Seccomp_filters"], "2")

    def test_a_silent_client_is_replaced(self):
        """One that is stopped sends no heartbeat. Resources that are served do not wait for it."""
        before = self.begin("a")
        pid = self.client()
        os.kill(pid, signal.SIGSTOP)
        self.node.configure(static("a", 2), static("b", 2))
        self.node.reload()
        until(lambda: "kubelet-client sent no heartbeat" in self.node.output(), "the missing heartbeat")
        self.node.await_allocatable(a=2, b=2)
        self.assert_undisturbed(before)

    def test_more_than_can_be_registered_at_a_time(self):
        os.mkdir(self.node.plugins)
        self.node.configure(*(static(f"r{i}", 1) for i in range(70)))
        kubelet = SilentKubelet(os.path.join(self.node.plugins, "kubelet.sock"))
        try:
            self.node.start()
            for i in range(70):
                self.node.await_state(f"vendor.example/r{i}", "registering")
            until(lambda: kubelet.calls >= 64, "the most calls at a time")
            # When one is given up, the next one may be seen before its end.
            calls = kubelet.calls
            self.assertTrue(kubelet.has_end or calls == 64, calls)
            until(lambda: kubelet.calls >= 70, "all to be registered")
        finally:
            kubelet.close()
        self.node.start_kubelet()
        self.node.await_allocatable(**{f"r{i}": 1 for i in range(70)})


class Watched(Client):
    def begin(self, *names):
        self.registry = self.node.path("registry")
        os.mkdir(self.registry)
        self.node.configure(*(static(name, 2) for name in names),
                            kubelet=f'registration = "watcher"; plugins_registry_dir = "{self.registry}";')
        self.node.kubelet_options = ["--plugins-registry", self.registry]

    def visible(self):
        return sorted(name for name in os.listdir(self.registry) if not name.startswith("."))

    def connect(self, name, *frames):
        def connected():
            # The second socket appears a moment before devplugd listens there.
            with contextlib.suppress(FileNotFoundError, ConnectionRefusedError):
                return http2.connect(os.path.join(self.registry, name), *frames)
            return None

        peer = until(connected, f"a connection to {name}")
        peer.settimeout(LIMIT)
        self.addCleanup(peer.close)
        return peer

    @staticmethod
    def read_until(peer, words):
        seen = b""
        while words not in seen and (part := peer.recv(65536)):
            seen += part
        return seen

    def ask(self, name):
        """The kubelet's first question."""
        peer = self.connect(name, http2.call(1, GET_INFO))
        answer = self.read_until(peer, b"v1beta1")
        # The plugin serves on a socket that the kubelet's watcher ignores.
        self.assertIn(f"{self.registry}/.{name}".encode(), answer)
        return peer

    def test_killed_before_the_status(self):
        self.begin("a", "b")
        self.node.start()
        names = until(lambda: len(n := self.visible()) == 2 and n, "both sockets")
        before = self.resources()
        for name in names:
            self.ask(name)
        first = self.kill_client()
        until(lambda: self.node.output().count(f"registration failed: {ENDED}") == 2, "both registrations to end")
        until(lambda: len(n := self.visible()) == 2 and not set(n) & set(names), "new sockets")
        self.node.start_kubelet()
        self.node.await_allocatable(a=2, b=2)
        self.assertNotEqual(self.client(), first)
        for name, resource in self.node.await_serving().items():
            self.assertEqual((resource["pid"], resource["restarts"]), (before[name]["pid"], 0), name)

    def test_killed_while_serving(self):
        self.begin("a", "b")
        self.node.start_kubelet()
        self.node.start()
        self.node.await_allocatable(a=2, b=2)
        before, names = self.node.await_serving(), self.visible()
        # Until then the kubelet may not have the answer to its last call.
        until(lambda: len(self.registrations("watcher-registered")) == 2, "both to be registered")
        self.kill_client()
        # The next one answers.
        for name in names:
            self.ask(name)
        self.assertEqual(self.visible(), names)
        now = self.node.await_serving()
        self.assertEqual({name: (r["pid"], r["session"]) for name, r in now.items()},
                         {name: (r["pid"], r["session"]) for name, r in before.items()})
        self.assertEqual(len(self.registrations("watcher-registered")), 2)

    def test_a_process_of_a_resource_does_not_answer_for_itself(self):
        self.begin("a")
        self.node.start()
        name = until(self.visible, "the socket")[0]
        for method in (GET_INFO, NOTIFY):
            peer = self.connect("." + name, http2.call(1, method, REGISTERED if method == NOTIFY else b""))
            # Unimplemented.
            self.assertIn(b"12", self.read_until(peer, b"12"))
        self.assertEqual(self.resources()["vendor.example/a"]["state"], "registering")

    def test_a_kubelet_that_reports_no_status(self):
        self.begin("a")
        self.node.start_kubelet()
        self.node.start()
        before, name = self.node.await_serving(), self.visible()[0]
        # The end of the connection.
        self.read_until(self.ask(name), b"no such words")
        self.ask(name)
        self.assertEqual(self.node.await_serving()["vendor.example/a"]["session"], before["vendor.example/a"]["session"])

    def test_refusal_of_the_kubelet(self):
        self.begin("a")
        self.node.start()
        name = until(self.visible, "the socket")[0]
        peer = self.ask(name)
        peer.sendall(http2.call(3, NOTIFY, b"\x12\x07no room"))
        until(lambda: "registration failed: the kubelet refused the registration: no room" in self.node.output(),
              "the refusal to be logged")
        self.node.start_kubelet()
        self.node.await_allocatable(a=2)


if __name__ == "__main__":
    unittest.main()
