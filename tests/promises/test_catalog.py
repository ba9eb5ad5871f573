# SPDX-License-Identifier: Apache-2.0
"""P11: every message that has an identity is explained in the journal's catalog, and nothing else is."""
import os
import re
import shutil
import subprocess
import tempfile
import unittest

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../..")


def read(name):
    with open(os.path.join(ROOT, name)) as file:
        return file.read()


class Catalog(unittest.TestCase):
    def setUp(self):
        self.text = read("units/devplugd.catalog")

    def test_identities(self):
        declared = re.findall(r'#define MESSAGE_ID_\w+\s+"([0-9a-f]{32})"',
                              read("common/message-id.h"))
        explained = re.findall(r"^-- ([0-9a-f]{32})$", self.text, re.M)
        self.assertGreater(len(declared), 5)
        self.assertEqual(len(set(declared)), len(declared))
        self.assertEqual(sorted(explained), sorted(declared))

    def test_events(self):
        """Each is of a kind, and docs/metrics.md has both."""
        declared = dict(re.findall(r'#define (MESSAGE_ID_\w+)\s+"([0-9a-f]{32})"', read("common/message-id.h")))
        kinds = re.findall(r'\{ (MESSAGE_ID_\w+), "(\w+)" \}', read("supervisor/ctl/verb-events.c"))
        documented = re.findall(r"^\| (\w+) \| `([0-9a-f]{32})` \|", read("docs/metrics.md"), re.M)
        self.assertEqual({declared[name]: kind for name, kind in kinds}, {number: kind for kind, number in documented})
        self.assertEqual({name for name, _ in kinds}, set(declared))

    def test_fields_are_ours(self):
        for field in re.findall(r"@(\w+)@", self.text):
            self.assertIn(f'"{field}=%', read("common/log.c"))

    def test_entries(self):
        for entry in re.split(r"^-- ", self.text, flags=re.M)[1:]:
            self.assertRegex(entry, r"\A[0-9a-f]{32}\nSubject: \S.*\nDefined-By: devplugd\n\n\S")

    @unittest.skipUnless(shutil.which("journalctl"), "needs journalctl")
    def test_journalctl_reads_it(self):
        with tempfile.TemporaryDirectory() as root:
            folder = os.path.join(root, "usr/lib/systemd/catalog")
            os.makedirs(folder)
            os.makedirs(os.path.join(root, "var/lib/systemd/catalog"))
            shutil.copy(os.path.join(ROOT, "units/devplugd.catalog"), folder)
            update = subprocess.run(["journalctl", f"--root={root}", "--update-catalog"],
                                    capture_output=True, text=True)
            self.assertEqual((update.returncode, update.stderr), (0, ""))
            listed = subprocess.run(["journalctl", f"--root={root}", "--list-catalog"],
                                    capture_output=True, text=True)
            self.assertEqual(listed.stdout.count(" devplugd: "), self.text.count("\n-- "))


if __name__ == "__main__":
    unittest.main()
