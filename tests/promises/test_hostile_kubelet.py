# SPDX-License-Identifier: Apache-2.0
"""P16, third part: what listens on kubelet.sock is no kubelet: it never answers, resets, talks nonsense, or answers
without measure. No process of a resource ends by it, none of devplugd grows, and a kubelet that comes after it is given everything."""
import contextlib
import os
import socket
import threading
import unittest

from http2 import CONTINUATION, DATA, END_HEADERS, END_STREAM, HEADERS, PING, SETTINGS, frame, literal, literal_head, send_without_end
from node import SANITIZED, NodeTest, children_of, command_line, process_status, static, until

GROWTH_KB = 8192
# What has come of a header is kept until the connection ends: less than the ceiling (test_memory_ceiling.py).
FLOOD_KB = 500 << 10
NAMES = ("a", "b", "c")
BEGIN = frame(SETTINGS, 0, 0)
OK = frame(HEADERS, END_HEADERS, 1, literal(":status", "200") + literal("content-type", "application/grpc"))
# How often each of the resources must have tried.
TRIES = 3


class FalseKubelet:
    """Answers each connection with the bytes, or, without any, never; `rude`: closes it with what came unread; `more`:
    is sent after the answer, again and again."""

    def __init__(self, path, answer=b"", rude=False, more=b""):
        self.answer, self.rude, self.more, self.calls, self.open = answer, rude, more, 0, []
        self.senders, self.stopping = [], threading.Event()
        self.listener = socket.socket(socket.AF_UNIX)
        self.path = path
        self.listener.bind(path)
        self.listener.listen(64)
        self.thread = threading.Thread(target=self.serve)
        self.thread.start()

    def serve(self):
        while True:
            try:
                peer, _ = self.listener.accept()
            except OSError:
                return
            self.calls += 1
            peer.settimeout(5)
            try:
                if self.answer:
                    self.await_request(peer)
                    peer.sendall(self.answer)
            except OSError:
                pass
            if self.more:
                self.senders.append(threading.Thread(target=send_without_end, args=(peer, self.more, self.stopping)))
                self.senders[-1].start()
            if self.rude:
                peer.close()
            else:
                self.open.append(peer)

    @staticmethod
    def await_request(peer):
        """What comes before a stream was opened is ignored, as by any HTTP/2 client."""
        seen = b""
        while b"v1beta1" not in seen and (part := peer.recv(65536)):
            seen += part

    def close(self):
        self.listener.shutdown(socket.SHUT_RDWR)
        self.thread.join()
        self.stopping.set()
        for sender in self.senders:
            sender.join()
        self.listener.close()
        for peer in self.open:
            peer.close()
        os.unlink(self.path)


class HostileKubelet(NodeTest):
    def setUp(self):
        super().setUp()
        os.mkdir(self.node.plugins)
        self.node.configure(*(static(name, 4) for name in NAMES))
        self.node.start()
        until(lambda: len(self.resources()) == len(NAMES) and all(
            r["state"] == "waiting" and r["pid"] for r in self.resources().values()), "all to wait for a kubelet")
        self.pids = {name: r["pid"] for name, r in self.resources().items()}

    def resources(self):
        state = self.node.state()
        return {r["name"]: r for r in state["resources"]} if state else {}

    def memory(self):
        """By the words of the command line: the process that registers may be another one each time."""
        pids = [self.node.daemon.pid, *children_of(self.node.daemon.pid)]
        sizes = {}
        for pid in pids:
            with contextlib.suppress(FileNotFoundError, ProcessLookupError, KeyError):
                sizes[tuple(command_line(pid)[1:])] = int(process_status(pid)["RssAnon"].split()[0])
        return sizes

    def nobody_was_answered(self):
        said = self.node.output()
        return all(f"{name}: registration failed: the kubelet did not answer Register within 20 s" in said
                   for name in self.pids)

    def bears(self, answer=b"", rude=False, more=b"", until_this=None, growth=GROWTH_KB):
        # gRPC starts with the first call.
        memory = None
        kubelet = FalseKubelet(self.node.plugins + "/kubelet.sock", answer, rude, more)
        try:
            until(lambda: kubelet.calls >= len(NAMES), "all to register")
            memory = until(lambda: ("kubelet-client",) in (sizes := self.memory()) and sizes, "the kubelet client")
            until(lambda: until_this and until_this() or kubelet.calls >= TRIES * len(NAMES), "all to register again")
            if not SANITIZED:
                for words, now in self.memory().items():
                    self.assertLess(now - memory[words], growth, words)
        finally:
            kubelet.close()
        self.node.start_kubelet()
        self.node.await_allocatable(**{name: 4 for name in NAMES})
        for name, resource in self.node.await_serving().items():
            self.assertEqual((resource["pid"], resource["restarts"]), (self.pids[name], 0), name)

    def test_kubelet_of_another_api_version(self):
        refusal = 'requested API version "v1beta1" is not supported by kubelet. Supported version is ["v2"]'
        trailers = frame(HEADERS, END_HEADERS | END_STREAM, 1, literal(":status", "200") + literal(
            "content-type", "application/grpc") + literal("grpc-status", "2") + literal("grpc-message", refusal))
        kubelet = FalseKubelet(self.node.plugins + "/kubelet.sock", BEGIN + trailers)
        try:
            words = "the kubelet refused the registration: " + refusal
            until(lambda: all(r["state"] == "waiting" and r["reason"] == words and r["next_try"]
                              for r in self.resources().values()), "every resource to know the reason")
        finally:
            kubelet.close()
        self.node.start_kubelet()
        self.node.await_allocatable(**{name: 4 for name in NAMES})

    def test_P16_never_answers(self):
        self.bears(until_this=self.nobody_was_answered)
        self.assertTrue(self.nobody_was_answered())

    def test_P16_resets(self):
        self.bears(b"\0", rude=True)

    def test_P16_a_header_that_never_ends(self):
        # gRPC before 1.60 waits for its end; later releases refuse the answer at once.
        self.bears(BEGIN + frame(HEADERS, 0, 1, literal_head("x", 1 << 30)), more=frame(CONTINUATION, 0, 1, b"a" * 16384),
                   until_this=self.nobody_was_answered, growth=FLOOD_KB)

    def test_P16_closes_at_once(self):
        self.bears(rude=True)

    def test_P16_nonsense(self):
        self.bears(b"HTTP/1.1 200 OK\r\nContent-Length: 1000000000\r\n\r\n" + os.urandom(4096))

    def test_P16_a_message_of_1_GiB(self):
        self.bears(BEGIN + OK + frame(DATA, 0, 1, b"\0\x40\0\0\0" + b"x" * 16000) * 3, rude=True)

    def test_P16_a_long_answer(self):
        size = 5 << 20
        message = b"\0" + size.to_bytes(4, "big") + b"x" * size
        self.bears(BEGIN + OK + b"".join(frame(DATA, 0, 1, message[i:i + 16384]) for i in range(0, len(message), 16384)),
                   rude=True)

    def test_P16_many_headers(self):
        field = literal("x", "a" * 120) * 100
        self.bears(BEGIN + frame(HEADERS, 0, 1, literal(":status", "200")) + frame(CONTINUATION, 0, 1, field) * 200,
                   rude=True)

    def test_P16_a_flood_of_pings(self):
        self.bears(BEGIN + frame(PING, 0, 0, b"12345678") * 20000, rude=True)

    def test_P16_a_long_refusal(self):
        words = "%41" * 40 * 60
        text = b"".join([b"\0\x0cgrpc-message\x7f", bytes([128 + (len(words) - 127) % 128, (len(words) - 127) // 128]),
                         words.encode()])
        self.bears(BEGIN + frame(HEADERS, END_HEADERS | 1, 1, literal(":status", "200") +
                                 literal("content-type", "application/grpc") + literal("grpc-status", "2") + text), rude=True)


if __name__ == "__main__":
    unittest.main()
