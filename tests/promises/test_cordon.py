# SPDX-License-Identifier: Apache-2.0
"""Devices that are taken out of service by hand, and put back."""
import os
import unittest

from node import static, until
from tool import ToolTest


class Cordon(ToolTest):
    def test_cordon(self):
        before = self.serve(static("a", 3), static("b", 1))
        answer = self.ctl("cordon", "a-1", 'fan "broken"')
        self.assertEqual(answer.returncode, 0, answer.stderr)
        self.assertIn("vendor.example/a/a-1", answer.stdout)
        self.node.await_allocatable(a=2, b=1)
        until(lambda: self.health("a")["a-1"] == ("Unhealthy", 'cordoned: fan "broken"'), "the reason")
        after = self.node.await_serving()
        for name in before:
            for key in ("pid", "session"):
                self.assertEqual(after[name][key], before[name][key])
        self.assertIn("uncordon", self.ctl("explain", "vendor.example/a").stdout)

        # It outlives the daemon.
        self.node.stop()
        self.node.start()
        self.node.await_allocatable(a=2, b=1)
        self.assertEqual(self.ctl("uncordon", "a-1").returncode, 0)
        self.node.await_allocatable(a=3, b=1)
        self.assertEqual(os.listdir(self.node.config + ".d"), [])
        answer = self.ctl("uncordon", "a-1")
        self.assertEqual(answer.returncode, 1)
        self.assertIn("not cordoned", answer.stderr)

    def test_patterns_and_names(self):
        self.serve(static("a", 3), static("b", 3))
        self.assertEqual(self.ctl("cordon", "vendor.example/b/*").returncode, 0)
        self.node.await_allocatable(a=3, b=0)
        until(lambda: self.health("b")["b-2"] == ("Unhealthy", "cordoned"), "no reason to be given")
        self.assertEqual(self.ctl("cordon", "?-0", "why").returncode, 0)
        self.node.await_allocatable(a=2, b=0)
        # One of many cannot be taken out of a pattern.
        answer = self.ctl("uncordon", "b-2")
        self.assertEqual(answer.returncode, 1)
        self.assertIn("cordon.conf", answer.stderr)
        self.assertEqual(self.ctl("uncordon", "vendor.example/b/*").returncode, 0)
        self.assertEqual(self.ctl("uncordon", "?-0").returncode, 0)
        self.node.await_allocatable(a=3, b=3)

    def test_refusals(self):
        self.serve(static("a", 1))
        for words in (["cordon", "a-7"], ["cordon", "a/b"], ["cordon", ""], ["cordon", "a-0", ""],
                      ["cordon", "a-0", "x" * 201], ["uncordon", "a-0"]):
            with self.subTest(words):
                answer = self.ctl(*words)
                self.assertEqual(answer.returncode, 1, answer.stdout)
                self.assertEqual(answer.stdout, "")
        self.assertEqual(self.health("a")["a-0"][0], "Healthy")
        # A broken file keeps it from taking effect, which is said.
        self.breaks()
        answer = self.ctl("cordon", "a-0")
        self.assertEqual(answer.returncode, 1)
        self.assertIn("not in force", answer.stderr)

    def test_in_the_file(self):
        self.serve(static("a", 2, 'cordon = ( { id = "a-0"; reason = "slow"; } );'))
        self.node.await_allocatable(a=1)
        answer = self.ctl("uncordon", "a-0")
        self.assertEqual(answer.returncode, 1)
        self.assertIn(f"{self.node.config}:", answer.stderr)


if __name__ == "__main__":
    unittest.main()
