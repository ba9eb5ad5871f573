# SPDX-License-Identifier: Apache-2.0
"""The programs for health probes in docs/examples/exec, against small servers of our own.

complaints.md: none; the ROCm plugin asks AMD's metrics exporter in the same way.
"""
import contextlib
import importlib.machinery
import importlib.util
import os
import socket
import struct
import subprocess
import tempfile
import unittest

from node import NodeTest, static
from http2 import DATA, END_HEADERS, END_STREAM, HEADERS, PING, PREFACE, SETTINGS, frame, literal, receive_exactly
from threads import in_thread

EXPORTER = os.path.join(os.path.dirname(os.path.realpath(__file__)), "../../docs/examples/exec/amd-exporter-health")


def field(number, data):
    return bytes([number << 3 | 2, len(data)]) + data


def state(address, health):
    return field(1, field(1, b"0") + field(2, b"uuid") + field(3, health.encode()) + field(4, b"pod") + field(5, address.encode()))


ANSWER = state("0000:19:00.0", "healthy") + state("0000:49:00.0", "unhealthy") + state("0000:59:00.0", "unknown")


class Exporter(unittest.TestCase):
    """PopulatePerGPUDHealth() of the ROCm plugin, case by case."""

    def setUp(self):
        directory = tempfile.TemporaryDirectory(prefix="devplugd-test.")
        self.addCleanup(directory.cleanup)
        self.path = os.path.join(directory.name, "socket")

    def ask(self, address):
        answer = subprocess.run([EXPORTER, "--socket", self.path, address], capture_output=True, text=True, timeout=60)
        self.assertNotIn("Traceback", answer.stderr)
        return answer.returncode, answer.stderr.strip()

    def serve(self, frames, count):
        """Answers `count` calls with the frames, after a ping and settings as gRPC sends them."""
        listener = socket.socket(socket.AF_UNIX)
        listener.bind(self.path)
        listener.listen()
        self.addCleanup(listener.close)
        self.seen = []

        def answer():
            for _ in range(count):
                try:
                    peer, _ = listener.accept()
                except OSError:
                    return
                with peer:
                    peer.settimeout(60)
                    peer.sendall(frame(SETTINGS, 0, 0, struct.pack(">HI", 3, 100)) + frame(PING, 0, 0, bytes(8)))
                    self.seen.append(receive_exactly(peer, len(PREFACE)))
                    peer.sendall(frames)
                    with contextlib.suppress(ConnectionResetError):
                        while peer.recv(65536):
                            pass

        in_thread(self, answer)
        self.addCleanup(lambda: listener.shutdown(socket.SHUT_RDWR))

    def good(self, message):
        body = b"\0" + struct.pack(">I", len(message)) + message
        return (frame(HEADERS, END_HEADERS, 1, literal("content-type", "application/grpc")) +
                frame(DATA, 8, 1, b"\3" + body[:20] + bytes(3)) + frame(DATA, 0, 1, body[20:]) +
                frame(HEADERS, END_HEADERS | END_STREAM, 1, literal("grpc-status", "0")))

    def test_states(self):
        self.serve(self.good(ANSWER), 4)
        self.assertEqual(self.ask("0000:19:00.0"), (0, ""))
        self.assertEqual(self.ask("0000:49:00.0"), (1, "AMD's metrics exporter reports it as unhealthy"))
        self.assertEqual(self.ask("0000:59:00.0"), (0, ""))
        self.assertEqual(self.ask("0000:99:00.0"), (0, ""))
        self.assertEqual(self.seen, [PREFACE] * 4)

    def test_no_exporter(self):
        code, said = self.ask("0000:19:00.0")
        self.assertEqual(code, 0)
        self.assertIn("No such file", said)

    def test_bad_answers(self):
        refused = frame(HEADERS, END_HEADERS | END_STREAM, 1, literal("grpc-status", "12"))
        for frames in (refused, frame(7, 0, 0, bytes(8)), b"garbage!!garbage", self.good(ANSWER[:-3]), self.good(b"\x07"),
                       self.good(b"\x0a\xff")):
            with self.subTest(frames=frames):
                if os.path.exists(self.path):
                    os.unlink(self.path)
                self.serve(frames, 1)
                self.assertEqual(self.ask("0000:49:00.0")[0], 0)


class RealServer(NodeTest):
    def test_answer_of_grpc(self):
        """The call as a server of gRPC understands it: the stand-in kubelet's, with another method."""
        spec = importlib.util.spec_from_loader("exporter", importlib.machinery.SourceFileLoader("exporter", EXPORTER))
        program = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(program)
        self.node.configure(static("licence", 1))
        self.node.start_kubelet()
        self.node.start()
        self.node.await_allocatable(licence=1)
        self.node.pod("pod", licence=1)
        program.METHOD = "/v1.PodResourcesLister/List"
        connection = program.Connection(os.path.join(self.node.kubelet_state, "pod-resources/kubelet.sock"))
        body = connection.call()
        connection.socket.close()
        pods = [dict(program.fields(pod)) for _, pod in program.fields(body[5:])]
        self.assertEqual([pod[1] for pod in pods], [b"pod"])


if __name__ == "__main__":
    unittest.main()
