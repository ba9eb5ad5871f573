# SPDX-License-Identifier: Apache-2.0
"""Each translation in docs/peers, a block fenced with "conf CASE", and each CASE.conf here, which differs too little from one on a page,
is tried on the host that CASE.tree describes: what is found and what a container gets must be that of CASE.json.

complaints.md: R20.
"""
import glob
import json
import os
import re
import shutil
import stat
import subprocess
import tempfile
import unittest

HERE = os.path.dirname(os.path.realpath(__file__))
PAGES = os.path.join(HERE, "../../docs/peers")
BLOCK = re.compile(r"^```conf ([\w-]+)\n(.*?)^```$", re.M | re.S)
# Cases that differ in the configuration alone: whose file each of these is.
SHARED = {
    "amd-gpu-health.json": "amd-gpu.json", "amd-gpu-health.tree": "amd-gpu.tree",
    "fpga-programmed.tree": "fpga-1dfft.tree", "intel-gpu-health.tree": "intel-gpu.tree",
    "intel-qat-debugfs.json": "intel-qat-services.json",
}
MANIFEST = re.compile(r"^```yaml ?([\w-]*)\n(.*?)^```$", re.M | re.S)


def program(name):
    return os.path.join(os.environ["DEVPLUGD_BIN"], name)


def translations():
    """(case, page, configuration) of every block, and of every file here."""
    for page in sorted(glob.glob(PAGES + "/*.md")):
        with open(page) as file:
            for case, text in BLOCK.findall(file.read()):
                yield case, os.path.basename(page), text
    for path in sorted(glob.glob(HERE + "/*.conf")):
        with open(path) as file:
            yield os.path.basename(path)[:-5], "here.md", file.read()


def kept_file(name):
    return os.path.join(HERE, SHARED.get(name, name))


def plant_line(root, line):
    if line.endswith("/"):
        os.makedirs(root + line, exist_ok=True)
        return
    path, kind, rest = line.split(" ", 2) if line.count(" ") > 1 else (*line.split(" "), "")
    os.makedirs(os.path.dirname(root + path), exist_ok=True)
    if kind == "->":
        os.symlink(rest, root + path)
    elif kind in "=!":
        with open(root + path, "w") as file:
            file.write(rest.replace("\\n", "\n") + "\n")
        # "!" is a program.
        os.chmod(root + path, 0o755 if kind == "!" else 0o644)
    elif kind in "cb":
        major, minor = rest.split()
        os.mknod(root + path, 0o666 | {"c": stat.S_IFCHR, "b": stat.S_IFBLK}[kind],
                 os.makedev(int(major), int(minor)))
    else:
        raise ValueError(line)


def plant(root, file_name):
    with open(file_name) as file:
        for line in file:
            line = line.rstrip("\n")
            if line and not line.startswith("#"):
                plant_line(root, line)


class Peers(unittest.TestCase):
    maxDiff = None

    def setUp(self):
        self.dir = tempfile.mkdtemp(prefix="devplugd-test.")
        # Programs run as another user, who reads the tree.
        os.chmod(self.dir, 0o755)
        self.addCleanup(shutil.rmtree, self.dir)
        self.root = os.path.join(self.dir, "host")
        os.mkdir(self.root)
        self.config = os.path.join(self.dir, "devplugd.conf")

    def preview(self, resource, ids):
        command = [program("devplugctl"), "preview", "-c", self.config, "--root", self.root, "--json", resource]
        answer = subprocess.run(command + ([",".join(ids)] if ids else []), capture_output=True, text=True, timeout=60)
        self.assertEqual(answer.returncode, 0, answer.stderr)
        return json.loads(answer.stdout)

    def check_notes(self, result, expected):
        """A tree cannot have everything: a case says which notes are due to that, by a part of each."""
        self.assertEqual(len(result["notes"]), len(expected), result["notes"])
        for note, part in zip(result["notes"], expected):
            self.assertIn(part, note)

    def try_case(self, case, text):
        try:
            plant(self.root, kept_file(case + ".tree"))
        except PermissionError:
            self.skipTest("device nodes need root")
        with open(self.config, "w") as file:
            file.write(text)
        with open(kept_file(case + ".json")) as file:
            expected = json.load(file)
        for resource in expected:
            result = self.preview(resource["resource"], None)
            self.check_notes(result, resource.get("notes", []))
            self.assertEqual(result["devices"], resource["devices"])
            for allocation in resource["allocations"]:
                result = self.preview(resource["resource"], allocation["ids"])
                # What runs before a container starts is the page's declaration, word for word.
                self.assertIsInstance(result["answer"].pop("prestart"), list)
                self.assertEqual(result["answer"], allocation["answer"])

    def check_pod(self, pod, declared):
        for container in pod["spec"]["containers"]:
            limits = container["resources"]["limits"]
            for name, count in limits.items():
                self.assertIn(name, declared)
                self.assertIs(type(count), int)
            self.assertIn(container["resources"].get("requests"), (None, limits))

    def check_kubevirt(self, resource, declared):
        for devices in resource["spec"]["configuration"]["permittedHostDevices"].values():
            for device in devices:
                self.assertIn(device["resourceName"], declared)
                self.assertIs(device["externalResourceProvider"], True)

    def test_manifests(self):
        """What pods ask for, and what KubeVirt permits, is what the same page declares."""
        try:
            import yaml
        except ImportError:
            self.skipTest("needs python3-yaml")
        checks = {"Pod": self.check_pod, "KubeVirt": self.check_kubevirt,
                  "NetworkAttachmentDefinition": lambda network, declared: self.assertIn(
                      network["metadata"]["annotations"]["k8s.v1.cni.cncf.io/resourceName"], declared)}
        seen = set()
        for page in glob.glob(PAGES + "/*.md"):
            with open(page) as file:
                text = file.read()
            declared = {name for _, block in BLOCK.findall(text) for name in re.findall(r'\bname += "([^"]+/[^"]+)"', block)}
            for _, manifest in MANIFEST.findall(text):
                for document in yaml.safe_load_all(manifest):
                    checks[document["kind"]](document, declared)
                    seen.add(document["kind"])
        self.assertLessEqual({"Pod", "KubeVirt"}, seen)

    def test_named_tests_exist(self):
        """The page about the peers' tests names tests of ours, after the file that has them."""
        with open(os.path.join(PAGES, "../contributing/peers-tests.md")) as file:
            rows = [line.split("|")[2] for line in file if line.startswith("| ")]
        count = 0
        for row in rows:
            text = None
            for word in re.findall(r"`([\w.-]+)`", row):
                if re.fullmatch(r"test-[\w-]+\.c|test_\w+\.py", word):
                    folder = "unit" if word.endswith(".c") else "promises"
                    with open(os.path.join(HERE, "..", folder, word)) as file:
                        text = file.read()
                elif word.startswith("test_") and text:
                    self.assertRegex(text, rf"\b{word}\(")
                    count += 1
        self.assertGreater(count, 30)

    def test_each_case_has_a_page(self):
        named = {case for case, _, _ in translations()}
        kept = {os.path.basename(name).rsplit(".", 1)[0] for name in [*glob.glob(HERE + "/*.tree"), *SHARED]}
        self.assertEqual(named, kept)
        self.assertGreater(len(named), 0)

    def test_the_table_has_each_page(self):
        with open(os.path.join(PAGES, "README.md")) as file:
            listed = re.findall(r"\]\(([\w-]+\.md)\)", file.read())
        self.assertEqual(sorted(listed), sorted(set(os.listdir(PAGES)) - {"README.md"}))


def make_test(case, text):
    return lambda self: self.try_case(case, text)


for case_name, page_name, configuration in translations():
    method = f"test_{page_name[:-3]}_{case_name}".replace("-", "_")
    assert not hasattr(Peers, method), f"{page_name} has {case_name} twice"
    setattr(Peers, method, make_test(case_name, configuration))

if __name__ == "__main__":
    unittest.main()
