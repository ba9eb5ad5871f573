# SPDX-License-Identifier: Apache-2.0
"""The manual is what the option tables say, and every example in it, and elsewhere in the texts, is valid.

docs/complaints.md: R16.
"""
import glob
import os
import re
import shutil
import subprocess
import tempfile
import unittest

from node import program

ROOT = os.path.realpath(os.path.join(os.path.dirname(__file__), "../.."))
EXAMPLES = os.path.join(ROOT, "docs/examples")
PAGES = ("devplugd.conf.5", "devplugd-drivers.7")
TEXTS = [os.path.join(ROOT, "README.md")] + sorted(glob.glob(ROOT + "/docs/*.md"))


def manual(document):
    return subprocess.run([program("generate-manual"), document, EXAMPLES], capture_output=True, text=True, check=True).stdout


def blocks(text):
    """Configurations between fences."""
    for block in re.findall(r"^```[a-z]*\n(.*?)^```$", text, re.M | re.S):
        if re.match(r"\s*resources = \(", block):
            yield block


class Documentation(unittest.TestCase):
    def check(self, path):
        answer = subprocess.run([program("devplugd"), "-c", path, "--check"], capture_output=True, text=True, timeout=60)
        self.assertEqual(answer.returncode, 0, answer.stderr)

    def test_manual_is_new(self):
        with open(ROOT + "/docs/configuration.md") as file:
            self.assertEqual(file.read(), manual("configuration.md"),
                             "docs/configuration.md is old: cmake --build BUILD --target manual")

    def test_every_key_is_explained(self):
        text = manual("configuration.md")
        self.assertNotIn("(null)", text)
        for row in re.findall(r"^\| `.*$", text, re.M):
            with self.subTest(row):
                self.assertRegex(row, r"\| [^|]*[A-Za-z][^|]*[.;] \|$")

    def test_pages_are_well_formed(self):
        if not shutil.which("mandoc"):
            self.skipTest("needs mandoc")
        for page in PAGES:
            answer = subprocess.run(["mandoc", "-T", "lint", "-W", "warning"], input=manual(page), capture_output=True,
                                    text=True)
            # The pages have no date, so that they are the same whenever they are built.
            complaints = [line for line in answer.stdout.splitlines() if "missing date" not in line]
            self.assertEqual(complaints, [], page)

    def test_pages_have_it_all(self):
        """What the browser is shown is in one of the pages, too: headings, keys and examples."""
        pages = "".join(manual(page) for page in PAGES)
        plain = re.sub(r"\\f[BR]", "", pages)
        for escape, character in (("\\-", "-"), ("\\(aq", "'"), ("\\(ti", "~"), ("\\(ha", "^"), ("\\&", ""), ("\\e", "\\")):
            plain = plain.replace(escape, character)
        text = manual("configuration.md")
        wanted = re.findall(r"^##+ (.*)$", text, re.M)
        for name in os.listdir(EXAMPLES):
            if name.endswith(".conf"):
                with open(os.path.join(EXAMPLES, name)) as file:
                    wanted += [line[2:].strip() for line in file if line.startswith("# ") and "SPDX" not in line][:1]
        missing = [words for words in wanted if words.replace("`", "").upper() not in plain.upper()]
        keys = set(re.findall(r"^\| `([a-z_]+)` \|", text, re.M))
        self.assertEqual((missing, [key for key in keys if f"\\fB{key}\\fR" not in pages]), ([], []))

    def test_every_driver_has_an_example(self):
        page = manual("devplugd-drivers.7")
        found = re.findall(r"^\.SH DRIVER \\fB(.*?)\\fR$(.*?)(?=^\.SH )", page, re.M | re.S)
        self.assertGreater(len(found), 1)
        for name, text in found:
            with self.subTest(name):
                self.assertRegex(text, rf'driver = "{name}"')

    def test_examples(self):
        files = sorted(glob.glob(EXAMPLES + "/*.conf"))
        self.assertGreater(len(files), 10)
        for path in files:
            with self.subTest(os.path.basename(path)):
                self.check(path)

    def test_every_key_has_an_example(self):
        examples = ""
        for path in glob.glob(EXAMPLES + "/**/*.conf", recursive=True):
            with open(path) as file:
                examples += re.sub(r"^\s*#.*$", "", file.read(), flags=re.M)
        keys = set(re.findall(r"^\| `([a-z_]+)` \|", manual("configuration.md"), re.M))
        self.assertGreater(len(keys), 40)
        for key in sorted(keys):
            with self.subTest(key):
                self.assertTrue(re.search(rf"\b{key}\s*=", examples), f"no example has {key}")

    def test_blocks_in_texts(self):
        n = 0
        for path in TEXTS:
            with open(path) as file:
                text = file.read()
            for block in blocks(text):
                n += 1
                with self.subTest(f"{os.path.basename(path)}: {block[:60]}"), tempfile.TemporaryDirectory() as directory:
                    config = os.path.join(directory, "devplugd.conf")
                    with open(config, "w") as file:
                        file.write(block)
                    self.check(config)
        self.assertGreater(n, 10)

    def test_shipped_file(self):
        """As it is, and with its examples taken out of their comments."""
        with open(ROOT + "/etc/devplugd.conf") as file:
            text = file.read()
        self.check(ROOT + "/etc/devplugd.conf")
        with tempfile.TemporaryDirectory() as directory:
            config = os.path.join(directory, "devplugd.conf")
            with open(config, "w") as file:
                file.write(re.sub(r"^( *)#(?=[a-z{}]|  )", r"\1", text, flags=re.M))
            self.check(config)


if __name__ == "__main__":
    unittest.main()
