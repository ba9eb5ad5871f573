# SPDX-License-Identifier: Apache-2.0
"""devplug-kubelet(1) says what the program does: its options, its commands, its events; and each behaviour that it
says is reproduced has tests, which the page's source names."""
import glob
import os
import re
import shutil
import subprocess
import unittest

from node import program

ROOT = os.path.realpath(os.path.join(os.path.dirname(__file__), "../.."))
PAGE = os.path.join(ROOT, "docs/devplug-kubelet.1")


def read(path):
    with open(path) as file:
        return file.read()


def section(text, name):
    return re.search(rf'^\.Sh "?{name}"?\n(.*?)(?=^\.Sh |\Z)', text, re.M | re.S).group(1)


class Manual(unittest.TestCase):
    def setUp(self):
        self.page = read(PAGE)
        self.help = subprocess.run([program("devplug-kubelet"), "--help"], capture_output=True, text=True, check=True).stdout

    def test_page_is_well_formed(self):
        if not shutil.which("mandoc"):
            self.skipTest("needs mandoc")
        answer = subprocess.run(["mandoc", "-T", "lint", "-W", "warning", PAGE], capture_output=True, text=True)
        self.assertEqual(answer.stdout, "")

    def test_options(self):
        documented = set(re.findall(r"Fl -([a-z-]+)", section(self.page, "DESCRIPTION") + section(self.page, "SYNOPSIS") +
                                    section(self.page, "CONFORMANCE")))
        self.assertEqual(documented, set(re.findall(r"--([a-z][a-z-]+)", self.help)))
        table = read(os.path.join(ROOT, "kubelet/kubelet-arguments.c"))
        self.assertEqual(documented, set(re.findall(r'\{ \{ "([a-z-]+)", (?:required|no)_argument', table)))

    def test_commands(self):
        table = read(os.path.join(ROOT, "kubelet/main.c"))
        verbs = set(re.findall(r'\{ "([a-z]+)", \d, \d, verb_', table))
        self.assertGreater(len(verbs), 5)
        self.assertEqual(set(re.findall(r"^\.It Cm ([a-z]+)", section(self.page, "DESCRIPTION"), re.M)), verbs)

    def test_events(self):
        emitted = set()
        for path in glob.glob(os.path.join(ROOT, "kubelet/*.c")):
            emitted |= set(re.findall(r'"event",\s*"([a-z-]+)"|tell_call\(\s*admission, "([a-z-]+)"|emit_call\(\s*operation, "([a-z-]+)"'
                                      r'|plugin_socket_emit\(\s*socket, "([a-z-]+)"', read(path)))
        emitted = {name for names in emitted for name in names if name}
        documented = {name.strip() for line in re.findall(r"^\.It ([a-z ,-]+)$", section(self.page, "EVENTS"), re.M)
                      for name in line.split(",")}
        # Its text is put together by hand, because the reader is slow already.
        self.assertEqual(documented - {"events-lost"}, emitted)
        self.assertIn("events-lost", read(os.path.join(ROOT, "kubelet/output.c")))

    def test_releases(self):
        table = read(os.path.join(ROOT, "kubelet/kubelet-version.c"))
        known = re.findall(r'\.name = "([0-9.]+)"', table)
        self.assertEqual(known, sorted(known))
        default = re.search(r'return kubelet_version_find\("([0-9.]+)"\)', table)[1]
        words = "%s or %s" % (", ".join(known[:-1]), known[-1])
        self.assertIn("imitate: " + words.replace(default, f"{default} (the default)"), self.page)
        self.assertIn(words.replace(default, f"{default} (default)"), re.sub(r"\s+", " ", self.help))

    def test_each_behaviour_is_tested(self):
        items = [item for name in ("RELEASES", "WHAT IS REPRODUCED")
                 for item in re.split(r"^\.It\n", section(self.page, name), flags=re.M)[1:]]
        self.assertGreater(len(items), 15)
        for item in items:
            references = re.findall(r'^\.\\" tests: (\S+) (.*)$', item, re.M)
            self.assertTrue(references, f"no test is named for: {item}")
            for file, names in references:
                folder = "promises" if file.endswith(".py") else "unit"
                source = read(os.path.join(ROOT, "tests", folder, file))
                for name in names.split():
                    # Both defined and, in C, run.
                    form = rf"def {name}\(self" if folder == "promises" else rf"(cmocka_unit_test\w*|TEST)\({name}[,)]"
                    self.assertTrue(re.search(form, source), f"{file} has no {name}")


if __name__ == "__main__":
    unittest.main()
