# SPDX-License-Identifier: Apache-2.0
"""P16, first part: root's processes that talk nonsense, much, or never listen, on a child's own socket. Its memory
stays bounded, and the kubelet's stream, its session and its allocations go on."""
import os
import random
import socket
import unittest

from http2 import (ALLOCATE, END_HEADERS, HEADERS, LIST_AND_WATCH, PING, PREFACE, RST_STREAM, SETTINGS, WINDOW_UPDATE,
                   call, connect, frame, headers)
from load import Load
from node import SANITIZED, SEED, NodeTest, process_status, scaled, static, until

UPDATES = scaled(2000)
DEVICES = 5000
# Much less than what would be kept for somebody who does not read: a list is 100 kB.
GROWTH_KB = 24576
# What allocations to pods take is in it.
KEPT_KB = 4096
GPU = "vendor.example/gpu"


class HostilePeers(NodeTest):
    def setUp(self):
        super().setUp()
        self.folder = self.node.path("health")
        os.mkdir(self.folder)
        self.node.configure(
            static("gpu", DEVICES, f'health = ( {{ probe = "file"; path = "{self.folder}/${{id}}"; '
                                   'missing = "healthy"; interval = 3600; } );'))
        self.node.start_kubelet()
        self.node.start()
        self.node.await_allocatable(gpu=DEVICES)
        self.before = self.node.await_serving()[GPU]
        self.endpoint = os.path.join(self.node.plugins, self.kubelet()["endpoint"])
        self.stream = self.kubelet()["connection"]
        self.peers = []
        self.addCleanup(lambda: [peer.close() for peer in self.peers])

    def kubelet(self):
        return self.node.call_kubelet("status")["resources"][0]

    def memory(self):
        return int(process_status(self.before["pid"])["VmRSS"].split()[0])

    def under_attack(self, attack, limit_kb=GROWTH_KB):
        """Attacks while pods come and go, and sees that nobody else noticed."""
        until(lambda: self.kubelet()["allocatable"] == DEVICES, "all devices to be healthy")
        memory = self.memory()
        with Load(self.node, lambda choice: {GPU: choice.randint(1, 4)}, SEED, workers=1) as load:
            attack()
            # After it, and in spite of what is still open.
            count = len(load.attempts)
            until(lambda: load.error or len(load.attempts) > count + 20, "allocations to go on")
            self.assertEqual(load.failures(), [])
        self.assert_untouched()
        growth = self.memory() - memory
        if not SANITIZED:
            self.assertLess(growth, limit_kb)
        # When they go, too: the session is the kubelet's.
        for peer in self.peers:
            peer.close()
        if not SANITIZED:
            until(lambda: self.memory() - memory < KEPT_KB, "memory to be given back")
        self.toggle("bad")
        until(lambda: self.kubelet()["allocatable"] == DEVICES - 1, "the kubelet to be told of a change")
        self.toggle("ok")
        until(lambda: self.kubelet()["allocatable"] == DEVICES, "the kubelet to be told of a change")
        self.assert_untouched()

    def assert_untouched(self):
        now = {r["name"]: r for r in self.node.state()["resources"]}[GPU]
        for key in ("pid", "session", "restarts", "state"):
            self.assertEqual(now[key], self.before[key], key)
        self.assertEqual(self.kubelet()["connection"], self.stream)
        self.assertEqual(self.kubelet()["state"], "serving")

    def toggle(self, content, number=0):
        path = os.path.join(self.folder, f"gpu-{number}")
        with open(path + ".new", "w") as file:
            file.write(content)
        os.rename(path + ".new", path)

    def open(self, *frames):
        self.peers.append(connect(self.endpoint, *frames))
        return self.peers[-1]

    def send_raw(self, data):
        with socket.socket(socket.AF_UNIX) as peer:
            peer.connect(self.endpoint)
            peer.settimeout(60)
            try:
                peer.sendall(data)
                peer.shutdown(socket.SHUT_WR)
                while peer.recv(65536):
                    pass
            except (BrokenPipeError, ConnectionResetError):
                pass  # what it deserves

    def test_P16_garbage(self):
        choice = random.Random(SEED)
        print(f"seed {SEED}", end=" ", flush=True)
        settings = frame(SETTINGS, 0, 0)
        kinds = [
            lambda: choice.randbytes(choice.randint(1, 5000)),
            lambda: b"GET / HTTP/1.1\r\nHost: x\r\n\r\n",
            lambda: PREFACE[:choice.randint(1, len(PREFACE) - 1)],
            lambda: PREFACE + choice.randbytes(2000),
            lambda: PREFACE + settings + frame(HEADERS, END_HEADERS, 1, choice.randbytes(200)),
            lambda: PREFACE + settings + frame(choice.randrange(256), choice.randrange(256), choice.randrange(1 << 31),
                                               choice.randbytes(choice.randint(0, 1000))),
            lambda: PREFACE + settings + call(1, LIST_AND_WATCH)[:choice.randint(1, 100)],
            lambda: PREFACE + settings + call(1, ALLOCATE, choice.randbytes(100)),
            lambda: PREFACE + settings + call(1, "/v1beta1.DevicePlugin/Nothing"),
            lambda: PREFACE + settings + frame(WINDOW_UPDATE, 0, 0, b"\x7f\xff\xff\xff") * 4,
            lambda: PREFACE + settings + frame(PING, 0, 0, b"12345678") * 1000,
            lambda: PREFACE + settings + frame(SETTINGS, 0, 0, b"\0\4\x7f\xff\xff\xff") * 1000,
            # A length of more than is ever taken.
            lambda: PREFACE + settings + headers(1, ALLOCATE) + frame(0, 0, 1, b"\0\xff\xff\xff\xff"),
        ]
        self.under_attack(lambda: [self.send_raw(choice.choice(kinds)()) for _ in range(scaled(500))])

    def test_P16_half_open_streams(self):
        # Each connection begins as many calls as it may, and ends none; what it took is there for the next one.
        def attack():
            for _ in range(4):
                for peer in self.peers:
                    peer.close()
                for _ in range(20):
                    self.open(*(headers(1 + 2 * i, ALLOCATE) for i in range(250)))

        self.under_attack(attack, 20 * 250 * 16)

    def test_P16_rapid_reset(self):
        def attack():
            for _ in range(scaled(20)):
                self.send_raw(PREFACE + frame(SETTINGS, 0, 0) + b"".join(
                    call(1 + 2 * i, LIST_AND_WATCH) + frame(RST_STREAM, 0, 1 + 2 * i, b"\0\0\0\x08")
                    for i in range(500)))

        self.under_attack(attack)

    def test_P16_idle_connections(self):
        def attack():
            for _ in range(200):
                peer = socket.socket(socket.AF_UNIX)
                peer.connect(self.endpoint)
                self.peers.append(peer)

        self.under_attack(attack)

    def test_P16_clients_that_never_read(self):
        # 2000 changes of health, of which the kubelet sees as many lists as the pause between two allows.
        def attack():
            for _ in range(8):
                self.open(call(1, LIST_AND_WATCH), frame(WINDOW_UPDATE, 0, 0, b"\x00\x00\x00\x01"))
            lists = self.kubelet()["lists"]
            for i in range(UPDATES):
                self.toggle("bad" if i % 2 == 0 else "ok", i // 2 % 50)
                if i % 20 == 0:
                    # Not faster than lists go out, or they would all be merged to a few.
                    until(lambda: self.kubelet()["lists"] > lists, "the kubelet to be told")
                    lists = self.kubelet()["lists"]
            for i in range(50):
                self.toggle("ok", i)
            until(lambda: self.kubelet()["allocatable"] == DEVICES, "all to be healthy again")
            self.assertGreater(lists, UPDATES // 20)

        self.under_attack(attack)


if __name__ == "__main__":
    unittest.main()
