# SPDX-License-Identifier: Apache-2.0
"""P16, second part: what a peer makes gRPC keep has a ceiling. When it is exceeded, the process of the resource ends with
a message and another takes its place; no other resource is affected, and the programs that it runs are not bound by it.
"""
import os
import threading
import unittest

from http2 import CONTINUATION, HEADERS, connect, frame, literal_head
from node import SANITIZED, NodeTest, process_status, static, until

CEILING_MB = 512
# Much more than would be sent until the ceiling is reached.
SENT_MAX_MB = 2048
# What a process may need for headers that are skipped.
SKIPPED_MB = 64
GPU, OTHER = "vendor.example/gpu", "vendor.example/other"


def limit_of(text, what="Max data size"):
    """Soft and hard, in the words of /proc/PID/limits."""
    return next(line[len(what):].split()[:2] for line in text.splitlines() if line.startswith(what))


@unittest.skipIf(SANITIZED, "a sanitizer reserves more than any ceiling")
class MemoryCeiling(NodeTest):
    def setUp(self):
        super().setUp()
        self.seen = self.node.path("seen")
        os.mkdir(self.seen)
        os.chmod(self.seen, 0o777)

    def serve(self, *resources, **counts):
        self.node.configure(*resources)
        self.node.start_kubelet()
        self.node.start()
        self.node.await_allocatable(**counts)
        return self.node.await_serving()

    def endpoint(self):
        name = {r["name"]: r for r in self.node.call_kubelet("status")["resources"]}[GPU]["endpoint"]
        return os.path.join(self.node.plugins, name)

    def watch(self, pid, peak):
        """The most memory that the process was seen with, in MB."""
        while not self.gone.wait(0.001):
            try:
                peak[0] = max(peak[0], int(process_status(pid)["RssAnon"].split()[0]) >> 10)
            except (FileNotFoundError, ProcessLookupError, KeyError):
                return

    def send_headers_without_end(self):
        """Well formed ones, of which gRPC bounds those of one frame, but not their sum. Returns how many MB went."""
        field = literal_head("x", 16000) + b"a" * 16000
        block = frame(CONTINUATION, 0, 1, field) * 64
        sent = 0
        with connect(self.endpoint(), frame(HEADERS, 0, 1)) as peer:
            try:
                while sent < SENT_MAX_MB << 20:
                    peer.sendall(block)
                    sent += len(block)
            except OSError:
                pass
        return sent >> 20

    def test_P16_headers_without_end(self):
        before = self.serve(static("gpu", 8), static("other", 2), gpu=8, other=2)
        for turn in range(1, 3):
            pid = self.node.find(GPU)["pid"]
            peak, self.gone = [0], threading.Event()
            watcher = threading.Thread(target=self.watch, args=(pid, peak))
            watcher.start()
            sent = self.send_headers_without_end()
            self.gone.set()
            watcher.join()
            self.assertLess(peak[0], CEILING_MB)
            if sent >= SENT_MAX_MB:
                # gRPC 1.60 and later skip what they refuse.
                self.assertLess(peak[0], SKIPPED_MB)
                self.assert_untouched(before, GPU, OTHER)
                return
            until(lambda: self.node.find(GPU)["pid"] not in (0, pid), "another process")
            self.node.await_serving()
            self.node.await_allocatable(gpu=8, other=2)
            self.assertEqual(self.node.find(GPU)["restarts"], turn)
            got, error = self.node.pod(f"p{turn}", gpu=2)
            self.assertIsNone(error)
            self.assertEqual(self.node.output().count(f"this process needed more than its limit of {CEILING_MB} MiB of memory; "
                                                      "a new one is started"), 2 * turn)
        self.assertIn("exited with status 1", self.node.output())
        self.assertNotIn("SIG", self.node.output())
        self.assert_untouched(before, OTHER)

    def assert_untouched(self, before, *names):
        for name in names:
            now = self.node.resource(name)
            for key in ("pid", "session", "restarts", "state"):
                self.assertEqual(now[key], before[name][key], (name, key))

    def test_P16_programs_are_not_bound(self):
        before = self.serve(static("gpu", 1, 'health = ( { probe = "exec"; command = [ "/bin/sh", "-c", '
                                             f'"cat /proc/self/limits > {self.seen}/new && mv {self.seen}/new {self.seen}/limits" ]; }} );'), gpu=1)
        with open(f"/proc/{before[GPU]['pid']}/limits") as file:
            text = file.read()
        own = limit_of(text)
        self.assertEqual(own[0], str(CEILING_MB << 20))
        self.assertEqual(limit_of(text, "Max open files")[0], "1024")
        until(lambda: os.path.exists(self.seen + "/limits"), "the program to have run")
        with open(self.seen + "/limits") as file:
            self.assertEqual(limit_of(file.read()), [own[1], own[1]])


if __name__ == "__main__":
    unittest.main()
