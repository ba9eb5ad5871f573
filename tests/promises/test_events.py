# SPDX-License-Identifier: Apache-2.0
"""What failed and what has happened: the last refusal of each kind, and the daemon's events."""
import json
import os
import signal
import socket
import subprocess
import unittest

from node import program, static, until
from tool import ToolTest

JOURNALD = "/lib/systemd/systemd-journald"
OLDER = "Older events: journalctl -u devplugd\n"


class Failures(ToolTest):
    def failures(self, name):
        return {f["call"]: f for f in self.node.resource(f"vendor.example/{name}")["failures"]}

    def test_refused_calls(self):
        self.serve(static("a", 2, 'share = { max_per_container = 1; };'),
                   static("p", 1, 'prestart = { command = [ "/bin/sh", "-c", "echo not today >&2; exit 3" ]; };'))
        self.assertEqual((self.failures("a"), self.failures("p")), ({}, {}))
        for n in range(3):
            _, refusal = self.node.pod(f"p{n}", a=2)
            self.assertIn("raise share.max_per_container", json.dumps(refusal))
        failure = until(lambda: self.failures("a").get("allocation"), "the refusal to be known")
        self.assertEqual(failure["count"], 3)
        self.assertEqual(sorted(failure["devices"]), ["a-0", "a-1"])
        self.assertIn("raise share.max_per_container", failure["text"])
        self.assertRegex(failure["last"], r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ$")
        _, refusal = self.node.pod("q", p=1)
        failure = until(lambda: self.failures("p").get("prestart"), "the failure to be known")
        self.assertEqual((failure["count"], failure["devices"]), (1, ["p-0"]))
        self.assertIn("not today", failure["text"])

        # They outlive the process.
        os.kill(self.node.find("vendor.example/a")["pid"], signal.SIGKILL)
        until(lambda: self.node.find("vendor.example/a")["restarts"] == 1, "the process to be replaced")
        self.assertEqual(self.failures("a")["allocation"]["count"], 3)
        self.assertRegex(self.ctl("status").stdout,
                         r"vendor.example/a, last failed allocation \(.*, 3 in all\): .*raise share.max_per_container")
        self.assertIn("The last preparation of a container that failed", self.ctl("explain", "vendor.example/p").stdout)

    def test_registration(self):
        """With a kubelet that closes each connection."""
        os.mkdir(self.node.plugins)
        with socket.socket(socket.AF_UNIX) as listener:
            listener.bind(os.path.join(self.node.plugins, "kubelet.sock"))
            listener.listen()
            self.node.configure(static("a", 1))
            self.node.start()
            listener.accept()[0].close()
            until(lambda: self.node.status(), "the daemon to answer")
            failure = until(lambda: self.failures("a").get("registration"), "the failure to be known")
            self.assertEqual(failure["devices"], [])
            self.assertIn(", last failed registration (", self.ctl("status").stdout)
        os.unlink(os.path.join(self.node.plugins, "kubelet.sock"))
        self.node.start_kubelet()
        self.node.await_serving()
        # It is over, and still known.
        self.assertNotIn("last failed", self.ctl("status").stdout)
        self.assertIn("The last registration that failed", self.ctl("explain", "vendor.example/a").stdout)


class Events(ToolTest):
    def events(self, *words):
        answer = self.ctl("events", "--json", *words)
        self.assertEqual(answer.returncode, 0, answer.stderr)
        document = json.loads(answer.stdout)
        self.assertEqual(document["version"], 1)
        return document["events"]

    def test_events(self):
        healthy = self.node.path("health")
        with open(healthy, "w") as file:
            file.write("ok")
        self.serve(static("a", 1, f'health = ( {{ probe = "file"; path = "{healthy}"; healthy = "ok"; }} );'),
                   static("b", 1))
        follower = subprocess.Popen([program("devplugctl"), "-c", self.node.config, "events", "-f", "vendor.example/a"],
                                    stdout=subprocess.PIPE, text=True)
        self.addCleanup(follower.stdout.close)
        self.addCleanup(follower.wait)
        self.addCleanup(follower.kill)
        with open(healthy, "w") as file:
            file.write("too hot")
        line = next(line for line in follower.stdout if "unhealthy" in line)
        self.assertRegex(line, r'^\d{4}-\S+Z  device +vendor.example/a: device "a-0" is unhealthy: .*too hot')
        with open(healthy, "w") as file:
            file.write("ok")
        next(line for line in follower.stdout if "healthy again" in line)

        self.assertEqual(self.ctl("events").stderr, "")
        events = self.events()
        self.assertEqual([e["number"] for e in events], list(range(1, len(events) + 1)))
        self.assertEqual({e["kind"] for e in events}, {"configuration", "process", "session", "device", "kubelet"})
        device = [e for e in events if e["kind"] == "device"]
        self.assertEqual({(e["resource"], e["device"]) for e in device}, {("vendor.example/a", "a-0")})
        self.assertEqual({e["resource"] for e in self.events("vendor.example/b")}, {"vendor.example/b"})

    def start_journal(self):
        """A journal in a mount namespace; returns what runs a command there, with stderr connected to it."""
        journal = subprocess.Popen(
            ["unshare", "--mount", "--propagation", "private", "sh", "-c",
             "mount -t tmpfs tmpfs /run && mkdir -p /run/systemd/journal /run/log/journal && exec " + JOURNALD],
            stderr=subprocess.DEVNULL)
        self.addCleanup(journal.wait)
        self.addCleanup(journal.terminate)
        until(lambda: os.path.exists(f"/proc/{journal.pid}/root/run/systemd/journal/socket"), "the journal to listen")
        return ["nsenter", "-t", str(journal.pid), "--mount", "--root", "sh", "-c",
                'JOURNAL_STREAM=$(stat -Lc %d:%i /proc/self/fd/2) exec "$@"', "sh"]

    @unittest.skipUnless(os.path.exists(JOURNALD), "needs systemd-journald")
    def test_older_ones_are_in_the_journal(self):
        self.node.prefix = self.start_journal()
        self.serve(static("a", 1))
        answer = self.ctl("events")
        self.assertEqual((answer.returncode, answer.stderr), (0, OLDER))
        self.assertEqual(self.ctl("events", "--json").stderr, "")

    def test_unknown_resource(self):
        self.serve(static("a", 1))
        answer = self.ctl("events", "vendor.example/aa")
        self.assertEqual(answer.returncode, 1)
        self.assertIn('did you mean "vendor.example/a"?', answer.stderr)

    def test_without_a_daemon(self):
        self.node.configure(static("a", 1))
        answer = self.ctl("events")
        self.assertEqual((answer.returncode, answer.stderr),
                         (3, f"devplugctl: devplugd is not running: nothing answers in {self.node.run}\n" + OLDER))


if __name__ == "__main__":
    unittest.main()
