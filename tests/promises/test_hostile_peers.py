# SPDX-License-Identifier: Apache-2.0
"""P16, first part: root's processes that talk nonsense, much, or never listen, on a child's own socket. Its memory
stays bounded, and the kubelet's stream, its session and its allocations go on."""
import fcntl
import os
import random
import socket
import sys
import termios
import threading
import unittest

from http2 import (ALLOCATE, CONTINUATION, DATA, END_HEADERS, HEADERS, LIST_AND_WATCH, PING, PREFACE, PRIORITY, RST_STREAM,
                   SETTINGS, WINDOW_UPDATE, call, connect, frame, headers, literal_head, message,
                   send_without_end)
from load import Load
from node import SANITIZED, SEED, NodeTest, process_status, scaled, static, until

UPDATES = scaled(2000)
DEVICES = scaled(5000)
# Much less than what would be kept for somebody who does not read: a list is 100 kB.
GROWTH_KB = 24576
# While gRPC has more to do than it can: less than the ceiling (test_memory_ceiling.py).
FLOOD_KB = 500 << 10
# After any burst: pages that malloc cannot return, because some of each is in use. Measured: 3.1 MB after 4000 connections with
# garbage (gRPC 1.46) and after 12,000 idle ones (1.51), 2.6 MB after 20,000 calls (1.76). More bursts do not add to it.
KEPT_KB = 4096
# gRPC starts some more threads where work piles up, and keeps them.
MORE_THREADS = 6
NOBODY = 65534
CALLS_MAX = 256
REFUSALS_LOGGED = 100
GPU = "vendor.example/gpu"


def pieces(data, size=16384):
    return [data[i:i + size] for i in range(0, len(data), size)]


def unread(peer):
    return int.from_bytes(fcntl.ioctl(peer, termios.FIONREAD, bytes(4)), sys.byteorder)


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
        self.senders = []
        self.stopping = threading.Event()
        self.addCleanup(self.stop_senders)

    def kubelet(self):
        return self.node.call_kubelet("status")["resources"][0]

    def memory(self):
        """What the child has for itself alone, in kB."""
        return int(process_status(self.before["pid"])["RssAnon"].split()[0])

    def descriptors(self):
        return len(os.listdir(f"/proc/{self.before['pid']}/fd"))

    def threads(self):
        """How many there are, and how many of them are the child's own; gRPC names its own."""
        names = []
        for thread in os.listdir(f"/proc/{self.before['pid']}/task"):
            try:
                with open(f"/proc/{self.before['pid']}/task/{thread}/comm") as file:
                    names.append(file.read())
            except (FileNotFoundError, ProcessLookupError):
                pass  # it has ended
        return len(names), sum(name.startswith("devplugd") for name in names)

    def under_attack(self, attack, limit_kb=GROWTH_KB):
        """Attacks while pods come and go, and sees that nobody else noticed."""
        until(lambda: self.kubelet()["allocatable"] == DEVICES, "all devices to be healthy")
        with self.load() as load:
            until(lambda: len(load.attempts) > 50, "memory for allocations to be there")
        descriptors, (threads, own_threads), memory = self.descriptors(), self.threads(), self.memory()
        with self.load() as load:
            attack()
            # After it, and in spite of what is still open.
            count = len(load.attempts)
            until(lambda: load.error or len(load.attempts) > count + 20, "allocations to go on")
            # A kubelet may choose a device and learn just after that it is unhealthy.
            self.assertEqual([a for a in load.failures() if "is unhealthy: bad" not in a.reply.get("message", "")], [])
        self.assert_untouched()
        growth = self.memory() - memory
        if not SANITIZED:
            self.assertLess(growth, limit_kb)
        # When they go, too: the session is the kubelet's.
        self.stop_senders()
        for peer in self.peers:
            peer.close()
        # The kubelet's calls of the load come and go on one connection.
        until(lambda: self.descriptors() <= descriptors, "descriptors to be given back")
        until(lambda: self.threads()[1] <= own_threads, "threads to end")
        self.assertLessEqual(self.threads()[0], threads + MORE_THREADS)
        if not SANITIZED:
            until(lambda: self.memory() - memory < KEPT_KB, "memory to be given back")
        self.toggle("bad")
        until(lambda: self.kubelet()["allocatable"] == DEVICES - 1, "the kubelet to be told of a change")
        self.toggle("ok")
        until(lambda: self.kubelet()["allocatable"] == DEVICES, "the kubelet to be told of a change")
        self.assert_untouched()

    def load(self):
        return Load(self.node, lambda choice: {GPU: choice.randint(1, 4)}, SEED, workers=1)

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

    def send_without_end(self, data, *frames):
        """From a thread of its own, until stop_senders() or until it is cut off."""
        peer = self.open(*frames)
        peer.settimeout(1)
        self.senders.append(threading.Thread(target=send_without_end, args=(peer, data, self.stopping)))
        self.senders[-1].start()

    def read_without_end(self, peer):
        def read():
            try:
                while not self.stopping.is_set():
                    try:
                        if not peer.recv(1 << 20):
                            return
                    except socket.timeout:
                        pass
            except OSError:
                pass

        self.senders.append(threading.Thread(target=read))
        self.senders[-1].start()

    def stop_senders(self):
        self.stopping.set()
        for sender in self.senders:
            sender.join()
        self.senders.clear()
        self.stopping.clear()

    def send_raw(self, data, patience=60):
        with socket.socket(socket.AF_UNIX) as peer:
            peer.connect(self.endpoint)
            peer.settimeout(patience)
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
            lambda: PREFACE + settings + frame(PING, 0, 0, b"12345678") * 10,
            lambda: PREFACE + settings + frame(SETTINGS, 0, 0, b"\0\4\x7f\xff\xff\xff") * 1000,
            # A length of more than is ever taken.
            lambda: PREFACE + settings + headers(1, ALLOCATE) + frame(0, 0, 1, b"\0\xff\xff\xff\xff"),
        ]
        self.under_attack(lambda: [self.send_raw(choice.choice(kinds)()) for _ in range(scaled(500))])

    def test_P16_more_calls_than_may_be(self):
        def is_refused(count):
            """Whether the connection ends by itself once so many calls have begun, or the last of them is reset."""
            # The limit is in force once the settings are acknowledged. The answer to the ping comes after all calls.
            peer = self.open()
            seen = peer.recv(65536)
            peer.sendall(frame(SETTINGS, 1, 0) + b"".join(headers(1 + 2 * i, ALLOCATE) for i in range(count)) +
                         frame(PING, 0, 0, b"all came"))
            while b"all came" not in seen:
                part = peer.recv(65536)
                if not part:
                    return True
                seen += part
            # All releases of gRPC but the newest end the connection.
            return frame(RST_STREAM, 0, 1 + 2 * (count - 1), b"\0\0\0\x07") in seen

        def attack():
            self.assertFalse(is_refused(CALLS_MAX))
            self.assertTrue(is_refused(CALLS_MAX + 1))

        self.under_attack(attack)

    def test_P16_half_open_streams(self):
        # Each connection begins as many calls as it may, and ends none; what it took is there for the next one.
        def attack():
            descriptors = self.descriptors()
            for _ in range(4):
                for peer in self.peers:
                    peer.close()
                until(lambda: self.descriptors() <= descriptors, "the connections to end")
                for _ in range(20):
                    self.open(*(headers(1 + 2 * i, ALLOCATE) for i in range(250)))

        self.under_attack(attack, 20 * 250 * 24)

    def test_P16_floods_of_frames(self):
        """Floods with each kind of frame that is cheap for the sender, which does not read the answers."""
        begin = headers(1, ALLOCATE)
        kinds = {
            "SETTINGS": (frame(SETTINGS, 0, 0),),
            "PRIORITY": (frame(PRIORITY, 0, 3, b"\0\0\0\0\1"),),
            "PING": (frame(PING, 0, 0, b"12345678"),),
            "answers to PING": (frame(PING, 1, 0, b"12345678"),),
            "DATA without data": (frame(DATA, 0, 1), begin),
            "WINDOW_UPDATE": (frame(WINDOW_UPDATE, 0, 0, b"\0\0\0\1"),),
            "RST_STREAM": (frame(RST_STREAM, 0, 1, b"\0\0\0\x08"), begin),
            "frames of an unknown type": (frame(99, 0, 0, b"12345678"),),
            "CONTINUATION without a header": (frame(CONTINUATION, 0, 1), frame(HEADERS, 0, 1)),
        }

        def attack():
            for kind, (flood, *first) in kinds.items():
                with self.subTest(kind):
                    for _ in range(2):
                        try:
                            self.send_raw(PREFACE + frame(SETTINGS, 0, 0) + b"".join(first) + flood * scaled(50000), 1)
                        except socket.timeout:
                            pass  # whose answers are not read is not read either

        self.under_attack(attack, FLOOD_KB)

    def test_P16_floods_without_end(self):
        """They go on while the kubelet's calls are answered."""
        self.under_attack(lambda: [
            self.send_without_end(frame(99, 0, 0, b"x" * 1000) * 100),
            self.send_without_end(frame(WINDOW_UPDATE, 0, 0, b"\0\0\0\1") * 1000),
            self.send_without_end(frame(CONTINUATION, 0, 1) * 1000, frame(HEADERS, 0, 1))], FLOOD_KB)

    def test_P16_a_header_that_never_ends(self):
        """gRPC copies what it has of the header whenever some more comes, slower than it is sent; for as long it would
        serve nobody else. devplugd cuts the peers off."""
        def attack():
            for _ in range(2):
                self.send_without_end(frame(CONTINUATION, 0, 1, b"a" * 16384) * 16,
                                      frame(HEADERS, 0, 1, literal_head("x", 1 << 30)))

        self.under_attack(attack, FLOOD_KB)

    def test_P16_a_header_that_never_ends_beside_lists(self):
        """gRPC reads such a peer on another thread if a list is sent to it meanwhile. Lists for the kubelet can depend on
        that thread, too."""
        wide = frame(SETTINGS, 0, 0, b"\0\4\x7f\xff\xff\xff"), frame(WINDOW_UPDATE, 0, 0, b"\x7f\xff\0\0")

        def attack():
            for _ in range(2):
                self.send_without_end(frame(CONTINUATION, 0, 3, b"a" * 16384) * 16, *wide, call(1, LIST_AND_WATCH),
                                      frame(HEADERS, 0, 3, literal_head("x", 1 << 30)))
                self.read_without_end(self.peers[-1])
            while any(sender.is_alive() for sender in self.senders):
                for content, healthy in (("bad", DEVICES - 1), ("ok", DEVICES)):
                    self.toggle(content)
                    until(lambda: self.kubelet()["allocatable"] == healthy, "the kubelet to be told of a change")

        self.under_attack(attack, FLOOD_KB)

    def test_P16_headers_that_expand(self):
        """One field of 4000 bytes in the table, and 64 KiB that name it again and again: 256 MiB."""
        fields = b"\x40" + literal_head("x", 4000)[1:] + b"a" * 4000
        bomb = frame(HEADERS, 0, 1, fields) + b"".join(
            frame(CONTINUATION, END_HEADERS if i == 3 else 0, 1, b"\xbe" * 16384) for i in range(4))
        self.under_attack(lambda: [self.send_raw(PREFACE + frame(SETTINGS, 0, 0) + bomb) for _ in range(scaled(100))])

    def test_P16_messages_that_are_none(self):
        ids = [b"\xff\xfe", b"gpu-1\0", b"gpu-\xc3", b"\xed\xa0\x80"]
        requests = [b"\x0a" + bytes([len(id) + 2]) + b"\x0a" + bytes([len(id)]) + id for id in ids]
        requests += [b"\x0a\x20a", b"\x0a\xff\xff\xff\xff\x0f", b"\x08" + b"\xff" * 11, b"\x0b", b"\x0a\x02\x0a\x7f",
                     b"\x0a\x00" * 100000]
        # Lengths of 1 GiB, of 4 GiB less one, and of more than comes before the end.
        prefixes = [b"\0\x40\0\0\0", b"\0\xff\xff\xff\xff", b"\0\0\0\0\x10"]

        def attack():
            for _ in range(scaled(20)):
                for request in requests:
                    self.send_raw(PREFACE + frame(SETTINGS, 0, 0) + headers(1, ALLOCATE) + b"".join(
                        frame(DATA, 0, 1, part) for part in pieces(b"\0" + len(request).to_bytes(4, "big") + request)))
                for prefix in prefixes:
                    self.send_raw(PREFACE + frame(SETTINGS, 0, 0) + headers(1, ALLOCATE) +
                                  b"".join(frame(DATA, 0, 1, part) for part in pieces(prefix + b"x" * 10)))
                    self.send_raw(PREFACE + frame(SETTINGS, 0, 0) + headers(1, ALLOCATE) + frame(DATA, 1, 1, prefix))
                self.send_raw(PREFACE + frame(SETTINGS, 0, 0) + message(1))

        self.under_attack(attack)

    def test_P16_peers_without_privilege(self):
        os.chmod(self.node.plugins, 0o755)
        os.chmod(self.endpoint, 0o777)

        def attack():
            child = os.fork()
            if child == 0:
                os._exit(self.served_as_nobody())
            self.assertEqual(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), 0)

        self.under_attack(attack)
        until(lambda: f"of user {NOBODY}: only root may call" in self.node.output(), "the log to name the user")
        self.assertLessEqual(self.node.output().count("refused a connection"), REFUSALS_LOGGED)

    def served_as_nobody(self):
        """How many of its calls were answered; in a process of its own."""
        served = 0
        try:
            os.setgroups([])
            os.setresgid(NOBODY, NOBODY, NOBODY)
            os.setresuid(NOBODY, NOBODY, NOBODY)
            for _ in range(200):
                with socket.socket(socket.AF_UNIX) as peer:
                    peer.connect(self.endpoint)
                    peer.settimeout(60)
                    try:
                        peer.sendall(PREFACE + frame(SETTINGS, 0, 0) + call(1, LIST_AND_WATCH))
                        served += len(peer.recv(1)) > 0
                    except (BrokenPipeError, ConnectionResetError):
                        pass
            return min(served, 100)
        except BaseException:
            return 101

    def test_P16_rapid_reset(self):
        def attack():
            for _ in range(scaled(20)):
                self.send_raw(PREFACE + frame(SETTINGS, 0, 0) + b"".join(
                    call(1 + 2 * i, LIST_AND_WATCH) + frame(RST_STREAM, 0, 1 + 2 * i, b"\0\0\0\x08")
                    for i in range(500)))

        self.under_attack(attack)

    def test_P16_idle_connections(self):
        def attack():
            for _ in range(1000):
                peer = socket.socket(socket.AF_UNIX)
                peer.connect(self.endpoint)
                self.peers.append(peer)

        self.under_attack(attack)

    def test_P16_half_closed_connections(self):
        """Their peers say no more and do not read what they asked for: more than a socket holds."""
        wide = frame(SETTINGS, 0, 0, b"\0\4\x7f\xff\xff\xff"), frame(WINDOW_UPDATE, 0, 0, b"\x7f\xff\0\0")

        def attack():
            descriptors = self.descriptors()
            for _ in range(20):
                peer = self.open(*wide, *(call(1 + 2 * i, LIST_AND_WATCH) for i in range(30)))
                until(lambda: unread(peer) > 65536, "lists to come")
                peer.shutdown(socket.SHUT_WR)
                until(lambda: self.descriptors() <= descriptors, "the connection to end")

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
