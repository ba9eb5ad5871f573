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
        self.assertIn("""run "devplugctl uncordon 'vendor.example/b/*'\"""", answer.stderr)
        self.assertEqual(self.ctl("uncordon", "vendor.example/b/*").returncode, 0)
        self.assertEqual(self.ctl("uncordon", "?-0").returncode, 0)
        self.node.await_allocatable(a=3, b=3)

    def test_a_device_that_another_cordon_covers(self):
        """What still cordons it is named, with how to lift it."""
        self.serve(static("lic", 2), static("b", 2, 'cordon = ( "b-0" );'), static("c", 1))
        self.node.await_allocatable(lic=2, b=1, c=1)
        self.assertEqual(self.ctl("cordon", "lic-0").returncode, 0)
        self.assertEqual(self.ctl("cordon", "vendor.example/lic/*").returncode, 0)
        self.assertEqual(self.ctl("cordon", "b-*").returncode, 0)
        self.node.await_allocatable(lic=0, b=0)
        remedy = """cordoned by "vendor.example/lic/*": run "devplugctl uncordon 'vendor.example/lic/*'"\n"""
        for name, is_ in (("vendor.example/lic/lic-0", "is still"), ("vendor.example/lic/lic-0", "is"), ("lic-1", "is")):
            answer = self.ctl("uncordon", name)
            self.assertEqual((answer.returncode, answer.stdout, answer.stderr), (1, "", f"devplugctl: {name} {is_} {remedy}"))
        self.assertEqual(self.health("lic")["lic-0"][0], "Unhealthy")
        # The pattern is of another resource.
        self.assertIn("c-0 is not cordoned; see", self.ctl("uncordon", "c-0").stderr)
        # One entry is lifted, one of the configuration file remains.
        answer = self.ctl("uncordon", "b-*")
        self.assertEqual((answer.returncode, answer.stdout, answer.stderr),
                         (0, "vendor.example/b/b-* is not cordoned any more\n", ""))
        self.assertEqual(self.ctl("cordon", "b-0").returncode, 0)
        answer = self.ctl("uncordon", "b-0")
        self.assertEqual((answer.returncode, answer.stdout), (1, ""))
        self.assertRegex(answer.stderr, rf'^devplugctl: vendor.example/b/b-0 is still cordoned by "b-0" at {self.node.config}:\d+: '
                                        'remove that entry\n$')
        self.assertEqual(self.ctl("uncordon", "vendor.example/lic/*").returncode, 0)
        self.node.await_allocatable(lic=2, b=1)

    def test_a_device_that_a_later_file_cordons(self):
        """The files are read in the order of their names; the cordon of another file counts, not the command's."""
        os.mkdir(self.node.config + ".d")
        with open(os.path.join(self.node.config + ".d", "site.conf"), "w") as file:
            file.write('cordon = ( { id = "b-0"; reason = "slow"; } );\n')
        self.serve(static("b", 2))
        self.node.await_allocatable(b=1)
        self.assertEqual(self.ctl("cordon", "b-0", "mine").returncode, 0)
        answer = self.ctl("uncordon", "b-0")
        self.assertEqual((answer.returncode, answer.stdout), (1, ""))
        self.assertRegex(answer.stderr, r'vendor.example/b/b-0 is still cordoned by "b-0" at \S*/site.conf:1: remove that entry\n$')
        self.assertEqual(self.health("b")["b-0"], ("Unhealthy", "cordoned: slow"))
        self.node.await_allocatable(b=1)

    def test_refusals(self):
        self.serve(static("a", 1))
        for words in (["cordon", "a-7"], ["cordon", "a/b"], ["cordon", ""], ["cordon", "a-0", ""],
                      ["cordon", "a-0", "x" * 201], ["uncordon", "a-0"]):
            with self.subTest(words):
                answer = self.ctl(*words)
                self.assertEqual(answer.returncode, 1, answer.stdout)
                self.assertEqual(answer.stdout, "")
        self.assertEqual(self.health("a")["a-0"][0], "Healthy")

    def test_typing_errors(self):
        self.serve(static("a", 3), static("b", 1))
        self.assertEqual(self.ctl("cordon", "a-1").returncode, 0)
        for typed, meant in (("a1", "a-1"), ("vendor.example/a/a_1", "vendor.example/a/a-1"), ("b0", "b-0")):
            with self.subTest(typed):
                answer = self.ctl("uncordon", typed)
                self.assertEqual((answer.returncode, answer.stdout), (1, ""))
                self.assertIn(f'{typed} is not cordoned, did you mean "{meant}"?', answer.stderr)
        # The name is right.
        for there in ("b-0", "a-2"):
            self.assertIn(f'{there} is not cordoned; see', self.ctl("uncordon", there).stderr)

    def test_beside_files_that_are_not_valid(self):
        """A cordon takes effect, and nothing else of the files does, not even after a restart."""
        self.serve(static("a", 3, 'cordon = ( { id = "a-0"; reason = "slow"; } );'))
        self.node.await_allocatable(a=2)
        self.node.configure(static("a", 7))
        self.assertEqual(self.ctl("cordon", "a-1", "dust").returncode, 0)
        self.node.await_allocatable(a=1)
        self.breaks()
        with open(os.path.join(self.node.config + ".d", "other.conf"), "w") as file:
            file.write("zork;")
        answer = self.ctl("cordon", "vendor.example/a/a-2")
        self.assertEqual((answer.returncode, answer.stderr), (0, ""))
        self.node.await_allocatable(a=0)
        self.assertFalse(self.node.state()["reload_failed"])
        answer = self.ctl("cordon", "--list")
        self.assertEqual(answer.returncode, 0)
        self.assertIn("other.conf:1: ", answer.stderr)
        self.assertEqual(sorted(line.split()[0] for line in answer.stdout.splitlines()[1:]),
                         [f"vendor.example/a/a-{number}" for number in range(3)])
        self.assertIn("other files cannot be searched", self.ctl("uncordon", "a-0").stderr)

        self.node.daemon.kill()
        self.node.daemon.wait()
        self.assertEqual(self.ctl("uncordon", "a-1").returncode, 0)
        self.node.start()
        self.node.await_allocatable(a=1)
        self.assertEqual(self.ctl("uncordon", "*").returncode, 0)
        self.node.await_allocatable(a=2)
        self.assertTrue(self.node.state()["on_last_accepted"])

    def test_list_and_force(self):
        self.serve(static("a", 3, 'cordon = ( { id = "a-0"; reason = "slow"; } );'))
        self.node.await_allocatable(a=2)
        answer = self.ctl("cordon", "vendor.example/a/a-9")
        self.assertEqual((answer.returncode, answer.stdout), (1, ""))
        self.assertIn("does not exist", answer.stderr)
        self.assertEqual(self.ctl("cordon", "--force", "vendor.example/a/a-9", "to come").returncode, 0)
        self.assertEqual(self.ctl("cordon", "a-1").returncode, 0)
        self.assertEqual(self.ctl("cordon", "a-2", "dust").returncode, 0)
        lines = [line.split() for line in self.ctl("cordon", "--list").stdout.splitlines()]
        self.assertEqual(sorted((line[0], " ".join(line[2:])) for line in lines[1:]),
                         [("vendor.example/a/a-0", "slow"), ("vendor.example/a/a-1", ""),
                          ("vendor.example/a/a-2", "dust"), ("vendor.example/a/a-9", "to come")])
        # A pattern lifts what it matches, and nothing of the file.
        answer = self.ctl("uncordon", "a-[12]")
        self.assertEqual(answer.returncode, 0, answer.stderr)
        self.node.await_allocatable(a=2)
        self.assertEqual(self.ctl("uncordon", "*").returncode, 0)
        self.assertEqual(len(self.ctl("cordon", "--list").stdout.splitlines()), 2)

    def test_in_the_file(self):
        self.serve(static("a", 2, 'cordon = ( { id = "a-0"; reason = "slow"; } );'))
        self.node.await_allocatable(a=1)
        answer = self.ctl("uncordon", "a-0")
        self.assertEqual(answer.returncode, 1)
        self.assertIn(f"{self.node.config}:", answer.stderr)


if __name__ == "__main__":
    unittest.main()
