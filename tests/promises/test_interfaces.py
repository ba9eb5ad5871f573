# SPDX-License-Identifier: Apache-2.0
"""What compatibility.md promises: an interface of a release stays in the later ones with the same first number."""
import os
import sys
import unittest

ROOT = os.path.realpath(os.path.join(os.path.dirname(__file__), "../.."))
STORED = os.path.join(ROOT, "tests/interfaces")
sys.path.insert(0, STORED)

from interfaces import TABLES, broken, read, stored  # noqa: E402 (it is found now)


class Interfaces(unittest.TestCase):
    def test_stay(self):
        version = read("CMakeLists.txt").split("project(devplugd VERSION ")[1].split(".")
        releases = [name for name in os.listdir(STORED) if name.startswith(version[0] + ".")]
        self.assertIn("1.0", releases)
        for release in releases:
            for name, table in TABLES.items():
                with self.subTest(f"{release}: {name}"):
                    before = stored(os.path.join(STORED, release, name))
                    self.assertGreater(len(before), 20)
                    self.assertEqual(list(broken(name, before, table())), [])

    def test_what_breaks_them(self):
        before = {"a": {"string"}, "b": {'"x"', '"y"'}}
        self.assertEqual(list(broken("keys", before, {**before, "c": {"number"}, "a": {"string", "list of strings"}})), [])
        self.assertEqual(list(broken("keys", before, {"a": {"string"}, "b": {'"x"'}})), ['keys: b was "x", "y", and is "x"'])
        self.assertEqual(list(broken("members", before, {"b": before["b"], "a": {"string", "null"}})),
                         ["members: a was string, and is null, string"])
        self.assertEqual(list(broken("metrics", before, {"b": before["b"]})), ["metrics: a was removed"])


if __name__ == "__main__":
    unittest.main()
