# SPDX-License-Identifier: Apache-2.0
"""A file that is broken or missing when devplugd starts again (P1)."""
import os
import re
import shutil
import signal
import stat
import unittest

from node import static, until
from tool import ToolTest


class LastAccepted(ToolTest):
    def last(self):
        return os.path.join(self.node.run, "last-good.conf")

    def test_P1_broken_file_at_a_restart(self):
        self.serve(static("a", 2), static("b", 1))
        self.assertEqual(stat.S_IMODE(os.stat(self.last()).st_mode), 0o600)
        for stop in (signal.SIGKILL, signal.SIGTERM):
            with self.subTest(stop=stop):
                self.node.stop(stop)
                self.breaks()
                before = len(self.node.output())
                self.node.start()
                self.node.await_allocatable(a=2, b=1)
                self.assertTrue(self.node.status()["on_last_accepted"])
                self.assertRegex(self.node.output()[before:], rf"{self.node.config}:\d+: ")
                self.assertIn("last accepted configuration", self.ctl("status").stdout)
                self.assertEqual(self.ctl("check").stdout,
                                 f"{self.node.config} is not valid; the last accepted configuration is applied\n")
        # The file that devplugd runs on is restored, too.
        gone = self.node.path("gone")
        for victim in (self.last(), self.node.run):
            os.rename(victim, gone)
            until(lambda: os.path.exists(self.last()), "the configuration to be saved again")
            (shutil.rmtree if os.path.isdir(gone) else os.unlink)(gone)
        self.node.stop(signal.SIGKILL)
        self.node.start()
        self.node.await_allocatable(a=2, b=1)
        # It is one to check, and to mend.
        self.assertEqual(self.run_tool("devplugd", "--check").returncode, 78)
        self.node.configure(static("a", 3))
        self.assertEqual(self.ctl("reload").returncode, 0)
        self.assertFalse(self.node.status()["on_last_accepted"])
        self.node.await_allocatable(a=3)

    def test_P1_missing_file_at_a_restart(self):
        self.serve(static("a", 2))
        self.node.stop()
        os.unlink(self.node.config)
        self.node.environment["RUNTIME_DIRECTORY"] = self.node.run
        self.node.start()
        self.node.await_allocatable(a=2)
        self.assertIn("does not exist", self.node.output())

    def test_cold_start(self):
        self.serve(static("a", 2))
        self.node.stop()
        self.breaks()
        with open(self.last()) as file:
            text = file.read()
        for what, left in (("another boot", re.sub("boot [0-9a-f]{4}", "boot zzzz", text)),
                           ("damaged", text.replace("resources", "resauces")), ("another valid value", text.replace("plugins", "plugint")),
                           ("cut", text[:-20]), ("another checksum", text.replace("follows: ", "follows: 0", 1)), ("empty", ""), ("none", None)):
            with self.subTest(what):
                if left is None:
                    os.unlink(self.last())
                else:
                    with open(self.last(), "w") as file:
                        file.write(left)
                answer = self.run_tool("devplugd")
                self.assertEqual(answer.returncode, 78, answer.stderr)
                self.assertRegex(answer.stderr, rf"{self.node.config}:\d+: ")

    def test_P1_largest_configuration(self):
        # More than one file may have, because it is of several files, all accepted.
        self.node.configure(static("a", 2))
        os.mkdir(self.node.config + ".d")
        long = "x" * 1000
        for number in range(5):
            with open(f"{self.node.config}.d/{number}.conf", "w") as file:
                env = ", ".join(f'"N{i}={long}"' for i in range(500))
                file.write("resources = (" + ", ".join(
                    static(f"r{number}-{i}", 1, f"container = {{ env = ( {env} ); }};") for i in range(2)) + ");\n")
        self.node.start_kubelet()
        self.node.start()
        self.node.await_allocatable(a=2)
        self.assertGreater(os.path.getsize(self.last()), 4 << 20)
        self.node.stop()
        self.breaks()
        self.node.start()
        self.node.await_allocatable(**{"a": 2, "r4-1": 1})


if __name__ == "__main__":
    unittest.main()
