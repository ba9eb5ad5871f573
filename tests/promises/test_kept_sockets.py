# SPDX-License-Identifier: Apache-2.0
"""Where systemd keeps the sockets of DRA drivers, a devplugd that is killed costs the kubelet no call."""
import concurrent.futures
import os
import socket
import threading
import unittest

from dra_node import DRIVER, DraTest
from node import LIMIT, until
from service_manager import ServiceManager

TAKEN = f"the sockets of the DRA driver {DRIVER}, which systemd kept, are used again"


class KeptSockets(DraTest):
    def setUp(self):
        super().setUp()
        self.systemd = ServiceManager(self, self.node)
        self.calls = concurrent.futures.ThreadPoolExecutor()
        self.addCleanup(self.calls.shutdown)

    def begin_kept(self, count=3):
        self.serve_api()
        self.begin(self.resource("gpu", count=count))
        self.await_pool()
        until(lambda: len(self.systemd.names()) == 2, "systemd to have both sockets")

    def claim(self, name, number=0):
        return "default", name, self.api.allocate(name, DRIVER, [("a", self.api.device_named("vendor.example/gpu", number))])

    def kill(self):
        self.before = len(self.node.output())
        self.node.daemon.kill()
        self.node.daemon.wait()

    def printed(self):
        return self.node.output()[self.before:]

    def await_next(self, socket_path):
        """The next one registers the driver with a socket of its own."""
        self.socket = until(lambda: self.kubelet.find_other(socket_path), "another socket")
        self.assertNotIn(TAKEN, self.printed())
        self.assertFalse(os.path.exists(socket_path))
        self.kubelet.register(self.socket)
        until(lambda: len(self.systemd.names()) == 2, "systemd to have the next sockets")

    def test_calls_while_no_devplugd_runs(self):
        """They wait for the next one, at the same socket; the kubelet does not register the driver again."""
        self.begin_kept()
        kept = self.systemd.names()
        for number in range(3):
            self.kill()
            claim = self.claim(f"c{number}", number)
            sent = threading.Event()
            call = self.calls.submit(self.prepare, claim, on_sent=sent.set)
            self.assertTrue(sent.wait(LIMIT))
            self.systemd.start()
            self.assertEqual(len(call.result()[claim[2]]), 1)
            self.assertIn(TAKEN, self.printed())
            self.assertEqual(self.kubelet.sockets(), [self.socket])
            self.assertTrue(self.dra()["registered"])
            self.assertEqual(self.node.await_state("vendor.example/gpu", "serving")["state"], "serving")
            self.assertEqual(self.systemd.names(), kept)
        # The sockets are those of any session: an unprepare, a kubelet that registers the driver again, a stop.
        self.assertEqual(self.unprepare(claim), {claim[2]: ""})
        self.kubelet.register(self.socket)
        self.node.stop()
        self.assertEqual(self.systemd.names(), [])
        self.assertEqual(os.listdir(self.registry), [])

    def test_removed_sockets(self):
        """A kubelet has cleared its directory meanwhile: what systemd kept leads nowhere."""
        self.begin_kept()
        for name in ("visible", "service"):
            with self.subTest(name):
                path = self.socket if name == "visible" else self.kubelet.service(self.socket)
                self.kill()
                os.unlink(path)
                self.systemd.start()
                self.await_next(self.socket)
        self.assertIn("the sockets of the DRA driver devices.vendor.example that systemd kept are not used: Stale file handle",
                      self.printed())

    def test_replaced_socket(self):
        """Another file is at the path: it stays."""
        self.begin_kept()
        self.kill()
        os.unlink(self.socket)
        with socket.socket(socket.AF_UNIX) as other:
            other.bind(self.socket)
            other.listen()
            self.systemd.start()
            until(lambda: len(self.kubelet.sockets()) == 2, "the next socket")
            self.assertIn("are not used: Stale file handle", self.printed())
            self.assertIn(self.socket, self.kubelet.sockets())

    def test_odd_descriptors(self):
        """What is no pair of listening sockets in the registry is closed, and dropped from the store."""
        self.begin_kept()

        def client():
            return socket.socket(socket.AF_UNIX).detach()

        def bound(path, kind=socket.SOCK_STREAM):
            made = socket.socket(socket.AF_UNIX, kind)
            made.bind(path)
            return made

        def listener(name):
            made = bound(self.node.path(name))
            made.listen()
            return made.detach()

        def shut_down():
            made = bound(self.node.path("down"))
            made.listen()
            made.shutdown(socket.SHUT_RDWR)
            return made.detach()

        network = socket.create_server(("127.0.0.1", 0))
        odd = {
            "file": lambda: os.open("/dev/null", os.O_RDONLY),
            "not bound": client,
            "bound only": lambda: bound(self.node.path("only")).detach(),
            "datagrams": lambda: bound(self.node.path("datagrams"), socket.SOCK_DGRAM).detach(),
            "elsewhere": lambda: listener("elsewhere"),
            "shut down": shut_down,
            "network": network.detach,
        }
        for name, make in odd.items():
            with self.subTest(name):
                self.kill()
                with self.systemd.lock:
                    visible, = (kept for kept in self.systemd.store if "visible" in kept.name)
                    visible.replace(make())
                self.systemd.start()
                self.await_next(self.socket)
                self.assertIn("are not used: ", self.printed())
                self.assertNotIn(visible, self.systemd.store)
                claim = self.claim(name.replace(" ", "-"))
                self.assertEqual(len(self.prepare(claim)[claim[2]]), 1)
                self.assertEqual(self.unprepare(claim), {claim[2]: ""})

    def test_odd_names(self):
        """Half a pair, another driver, and names that devplugd never gave."""
        self.begin_kept()
        half, = (name for name in self.systemd.names() if "visible" in name)
        self.kill()
        for name in ("stored", "dra-socket/other.example/1/2", "dra-visible/other.example/1/2", "dra-socket/devices.vendor.example",
                     "dra-socket/devices.vendor.example/1/2/3", "dra-visible/devices.vendor.example/x/y", "dra-", ""):
            self.systemd.put(name, os.open("/dev/null", os.O_RDONLY))
        with self.systemd.lock:
            self.systemd.follow({"FDSTOREREMOVE": "1", "FDNAME": half}, [])
        self.systemd.start()
        self.await_next(self.socket)

    def test_driver_that_does_not_come_back(self):
        """The configuration no longer has it: no call waits for it."""
        self.begin_kept()
        self.kill()
        self.configure(self.resource("gpu", serve="plugin"))
        self.systemd.start()
        until(lambda: self.systemd.names() == [] and not os.listdir(self.registry), "the sockets to be closed and removed")

    def test_driver_that_is_not_registered(self):
        """Only the sockets of a session that the kubelet has registered are kept."""
        self.serve_api()
        self.configure(self.resource("gpu"))
        self.systemd.start()
        path = until(self.kubelet.find, "the driver's socket")
        self.assertEqual(self.systemd.names(), [])
        self.kubelet.register(path)
        until(lambda: len(self.systemd.names()) == 2, "systemd to have both sockets")
        self.kubelet.register(path, error="not this one")
        until(lambda: self.systemd.names() == [], "the sockets to be dropped")


if __name__ == "__main__":
    unittest.main()
