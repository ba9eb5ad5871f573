# SPDX-License-Identifier: Apache-2.0
"""The manual is what the option tables say, and every example in it, and elsewhere in the texts, is valid.

complaints.md: R16.
"""
import glob
import os
import re
import shutil
import subprocess
import tempfile
import textwrap
import unittest

from node import program

ROOT = os.path.realpath(os.path.join(os.path.dirname(__file__), "../.."))
EXAMPLES = os.path.join(ROOT, "docs/examples")
PAGES = ("devplugd.conf.5", "devplugd-drivers.7")
TEXTS = [os.path.join(ROOT, "README.md")] + sorted(glob.glob(ROOT + "/docs/*.md"))

# Bytes of all pages for administrators, and of those that one of them reads to install, configure and run devplugd.
PAGES_MAX, PATH_MAX = 240 * 1000, 51 * 1000


def manual(document):
    return subprocess.run([program("generate-manual"), document, EXAMPLES], capture_output=True, text=True, check=True).stdout


def blocks(text):
    """Configurations between fences."""
    for _, block in re.findall(r"^( *)```[a-z]*\n(.*?)^\1```$", text, re.M | re.S):
        block = textwrap.dedent(block)
        if re.match(r"(?:#.*\n|dra = .*\n|\s)*(?:resources = \(|\{ *name *=)", block):
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
        for path in TEXTS + sorted(glob.glob(ROOT + "/docs/peers/*.md")):
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

    def test_links(self):
        """Each leads to a file and a heading that exist."""
        for path in TEXTS + sorted(glob.glob(ROOT + "/docs/*/*.md")):
            with open(path, encoding="utf-8") as file:
                links = re.findall(r"\]\(([^)\s]+)\)", file.read())
            for link in (link for link in links if "://" not in link):
                with self.subTest(f"{os.path.relpath(path, ROOT)}: {link}"):
                    target, _, anchor = link.partition("#")
                    target = os.path.normpath(os.path.join(os.path.dirname(path), target)) if target else path
                    self.assertTrue(os.path.exists(target))
                    if anchor:
                        with open(target, encoding="utf-8") as file:
                            headings = re.findall(r"^#+ (.*)$", file.read(), re.M)
                        self.assertIn(anchor, [re.sub(r"[^\w -]", "", h.lower()).replace(" ", "-") for h in headings])

    def test_reports_have_tests(self):
        """Each row of docs/contributing/reports-coverage.md names tests that exist, or a page."""
        n = 0
        with open(ROOT + "/docs/contributing/reports-coverage.md") as file:
            rows = [line for line in file if line.startswith("| ") and not line.rstrip().endswith(("| tests |", "| page |"))]
        for row in rows:
            with self.subTest(row[:60]):
                tests = re.findall(r"`(tests/[^`]+)`: ((?:`\w+`(?:, )?)+)", row)
                self.assertTrue(tests or re.search(r"\]\([^)]+\.md#[^)]+\) \|$", row))
                for path, names in tests:
                    with open(os.path.join(ROOT, path)) as file:
                        source = file.read()
                    for name in re.findall(r"`(\w+)`", names):
                        self.assertTrue(re.search(rf"(static void|def) {name}\(", source), f"{path} has no {name}")
                        n += 1
        self.assertGreater(n, 100)

    def test_kubeconfig_files(self):
        """compatibility.md names each place of a kubelet's kubeconfig file that devplugd knows, in the order of the search."""
        with open(ROOT + "/supervisor/helpers/dra-identity.c") as file:
            known = re.findall(r'^\t"(/[^"]+)", +/\*', file.read(), re.M)
        self.assertGreater(len(known), 5)
        with open(ROOT + "/docs/compatibility.md") as file:
            section = file.read().partition("\n## Credentials for the API server\n")[2].partition("\n## ")[0]
        self.assertEqual(list(dict.fromkeys(re.findall(r"^\| [^|`]+ \| [^|`]+ \| `(/[^`]+)`", section, re.M))), known)

    def test_installed_pages(self):
        """Their links lead to what is installed with them, and examples that are programs can be run."""
        with tempfile.TemporaryDirectory() as directory:
            subprocess.run([ROOT + "/docs/install-pages", directory], check=True)
            pages = glob.glob(directory + "/**/*.md", recursive=True)
            self.assertGreater(len(pages), 30)
            for path in pages:
                with open(path, encoding="utf-8") as file:
                    links = re.findall(r"\]\(([^)\s#]+)[^)]*\)", file.read())
                for link in (link for link in links if "://" not in link):
                    with self.subTest(f"{os.path.relpath(path, directory)}: {link}"):
                        self.assertTrue(os.path.exists(os.path.join(os.path.dirname(path), link)))
            for path in glob.glob(EXAMPLES + "/**/*", recursive=True):
                installed = os.path.join(directory, "examples", os.path.relpath(path, EXAMPLES))
                self.assertEqual(os.access(path, os.X_OK), os.access(installed, os.X_OK), path)

    def test_sizes(self):
        """What an administrator can open is short: all pages that are installed but the generated list of keys, and each path."""
        sizes = {os.path.relpath(path, ROOT): os.path.getsize(path) for path in TEXTS + glob.glob(ROOT + "/docs/peers/*.md")}
        del sizes["docs/configuration.md"]
        self.assertLessEqual(sum(sizes.values()), PAGES_MAX)
        path = sum(sizes[page] for page in ("README.md", "docs/tutorial.md", "docs/troubleshooting.md", "docs/operations.md"))
        for last in ("docs/monitoring.md", "docs/dra.md"):
            with self.subTest(last):
                self.assertLessEqual(path + sizes[last], PATH_MAX)

    def test_index_is_whole(self):
        with open(ROOT + "/docs/README.md") as file:
            index = file.read()
        pages = [os.path.relpath(path, ROOT + "/docs") for path in TEXTS[1:] + glob.glob(ROOT + "/docs/contributing/*.md")]
        self.assertEqual([name for name in pages if name != "README.md" and f"]({name}" not in index], [])

    def test_compared_interface(self):
        """tests/compare-api, on a tree like Kubernetes', and on one that differs."""
        paths = [("deviceplugin", "deviceplugin/v1beta1"), ("podresources", "podresources/v1"),
                 ("pluginregistration", "pluginregistration/v1"), ("dra", "dra/v1"), ("dra", "dra/v1beta1"),
                 ("drahealth", "dra-health/v1alpha1"), ("drahealth", "dra-health/v1")]

        def compare(directory):
            return subprocess.run([ROOT + "/tests/compare-api", directory], capture_output=True, text=True)

        with tempfile.TemporaryDirectory() as directory:
            for name, path in paths:
                os.makedirs(f"{directory}/pkg/apis/{path}")
                shutil.copy(f"{ROOT}/proto/{name}.proto", f"{directory}/pkg/apis/{path}/api.proto")
            answer = compare(directory)
            self.assertEqual((answer.returncode, answer.stdout), (0, "0 differences on the wire\n"), answer.stderr)
            path = f"{directory}/pkg/apis/deviceplugin/v1beta1/api.proto"
            with open(path) as file:
                text = file.read()
            with open(path, "w") as file:
                file.write(text.replace("string ID = 1;", "int64 ID = 1; string class = 9;").replace("bool read_only = 3;", ""))
            answer = compare(directory)
            self.assertEqual(answer.returncode, 1)
            self.assertEqual(answer.stdout.splitlines(), [
                "! deviceplugin.proto: Device: field 1 is string ID, upstream int64 ID",
                "+ deviceplugin.proto: upstream also has Device.class = 9",
                "! deviceplugin.proto: Mount.read_only = 3 is not upstream", "2 differences on the wire"])
            # Interfaces come and go with releases; a tree without any is another one.
            os.unlink(f"{directory}/pkg/apis/dra-health/v1/api.proto")
            self.assertIn("+ drahealth.proto: not in this release: pkg/apis/dra-health/v1/api.proto", compare(directory).stdout)
            self.assertIn("has none of the files", compare(directory + "/pkg").stderr)

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

    def test_words_that_are_rejected(self):
        """tests/words/check-words finds a planted word in each kind of text, and nowhere else."""
        planted = {
            "README.md": ("A device vanishes.\n", "`vanishes`, and [a link](vanishes.md)\n```\nvanishes\n```\n"),
            "docs/devplugd.8": (".B devplugd\nlends a device.\n", '.\\" lends\n.nf\nlends\n.fi\n'),
            "common/text.c": ('f("the kubelet" "\\n"\n  " is told");\n', "/* is sent */ f(\"told\"); int told;\n"),
            "common/text.h": ("/* It\n * vanishes. */\n", "int vanishes;\n"),
            "etc/devplugd.conf": ("# A stranger.\n", 'path = "stranger";\n'),
            "tests/unit/test-text.c": ("/* is told */\n", 'f("the kubelet is told");\n'),
            "tests/unit/test-log.c": ("static void test_is_told(void **state)\n", "static void is_told(void)\n"),
            "common/log.h": ("/* Of what is left. */\n", "/* of the list; in terms of those of a host */\n"),
            "tests/promises/text.py": ('    """Those of the host."""\n', '# is told of those\nnames = "Of these"\n'),
            "tests/demo/text": ("# The same of a claim.\n", 'echo "That of a claim."\n'),
            "tests/promises/test_text.py": ("    def test_is_told(self):\n", "    # is told\n    def is_told(self):\n"),
        }
        with tempfile.TemporaryDirectory() as directory:
            words = os.path.join(directory, "tests/words")
            shutil.copytree(os.path.join(ROOT, "tests/words"), words)
            with open(os.path.join(words, "exceptions"), "w") as file:
                file.write("README.md\ta verdict of a court\tthe word is meant\n")

            def check(path, text):
                full = os.path.join(directory, path)
                os.makedirs(os.path.dirname(full), exist_ok=True)
                with open(full, "w") as file:
                    file.write(text)
                return subprocess.run([os.path.join(words, "check-words"), path], capture_output=True, text=True)

            for path, (bad, good) in planted.items():
                with self.subTest(path):
                    self.assertEqual((check(path, good).stdout, check(path, good).returncode), ("", 0))
                    if bad:
                        answer = check(path, good + bad)
                        self.assertEqual(answer.returncode, 1)
                        self.assertRegex(answer.stdout, rf"^{path}:\d+: .*: write ")
            self.assertEqual(check("README.md", "a verdict\nof a court\n").returncode, 0)
            self.assertEqual(check("README.md", "a verdict of a judge\n").returncode, 1)


if __name__ == "__main__":
    unittest.main()
