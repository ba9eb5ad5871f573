# SPDX-License-Identifier: Apache-2.0
"""The package devplugd-cluster was called devplugd-dra: an upgrade replaces one by the other. The packages here are empty, with the
relations that the real ones declare; apt and rpm decide what happens, and change nothing of this machine."""
import os
import re
import shutil
import subprocess
import tempfile
import unittest

ROOT = os.path.realpath(os.path.join(os.path.dirname(__file__), "../.."))
BEFORE, NOW = "0.1.0-1", "1.0.0-1"


def read(path):
    with open(os.path.join(ROOT, path), encoding="utf-8") as file:
        return file.read()


class FormerPackage(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.mkdtemp()
        self.addCleanup(shutil.rmtree, self.folder)

    def write(self, name, text):
        path = os.path.join(self.folder, name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
        return path

    def do(self, *words):
        done = subprocess.run(words, cwd=self.folder, capture_output=True, text=True, env={**os.environ, "LC_ALL": "C"}, check=False)
        self.assertEqual(done.returncode, 0, f"{words}\n{done.stdout}{done.stderr}")
        return done.stdout

    def needs(self, *programs):
        for program in programs:
            if not shutil.which(program):
                self.skipTest("needs " + program)

    def relations(self, package):
        """The fields of a package in packaging/debian/control that concern other packages of devplugd."""
        control = re.search(rf"^Package: {package}\n(.*?)(?:\n\n|\Z)", read("packaging/debian/control"), re.M | re.S).group(1)
        text = ""
        for field, values in re.findall(r"^(Depends|Breaks|Conflicts|Replaces|Provides):((?:\n .*)+)", control, re.M):
            values = re.sub(r"\$\{(binary|source):Version\}", NOW, values).split(",")
            ours = [value.strip() for value in values if value.strip().startswith("devplugd")]
            if ours:
                text += f"{field}: {', '.join(ours)}\n"
        return text

    def test_debian(self):
        self.needs("apt-get")
        common = "Architecture: all\nMaintainer: a <a@a.example>\nDescription: a\n"
        index = ""
        for package in ("devplugd", "devplugd-cluster", "devplugd-dra"):
            control = f"Package: {package}\nVersion: {NOW}\n{common}{self.relations(package)}"
            index += f"{control}Filename: ./{package}.deb\nSize: 1000\n\n"
        self.write("repository/Packages", index)
        self.write("sources.list", f"deb [trusted=yes] file:{self.folder}/repository ./\n")
        self.write("status", "".join(
            f"Package: {package}\nStatus: install ok installed\nVersion: {BEFORE}\n{common}{depends}\n"
            for package, depends in (("devplugd", ""), ("devplugd-dra", f"Depends: devplugd (= {BEFORE})\n"))))
        for name in ("lists/partial", "cache/archives/partial", "parts"):
            os.makedirs(os.path.join(self.folder, name))
        options = [f"-oDir::{key}={self.folder}/{name}" for key, name in
                   (("State::status", "status"), ("State::lists", "lists"), ("Cache", "cache"), ("Etc::sourcelist", "sources.list"),
                    ("Etc::sourceparts", "parts"), ("Etc::preferencesparts", "parts"), ("State::extended_states", "extended"))]
        options += ["-oAPT::Sandbox::User=", "-oDebug::NoLocking=1", "-oAcquire::Languages=none"]
        self.do("apt-get", *options, "update")
        for how in (["upgrade", "--with-new-pkgs"], ["dist-upgrade"]):
            with self.subTest(how):
                printed = self.do("apt-get", *options, "--simulate", "--yes", *how)
                self.assertEqual(set(re.findall(r"^Inst (\S+)", printed, re.M)), {"devplugd", "devplugd-cluster", "devplugd-dra"})
                self.assertNotIn("\nRemv", printed)
                # The drop-in that allows the network is there when the service is started again.
                self.assertLess(printed.index("Inst devplugd-cluster"), printed.index("Conf devplugd "))

    def build(self, name, version, tags):
        release = version.split("-")
        path = self.write(f"{name}.spec", f"Name: {name}\nVersion: {release[0]}\nRelease: {release[1]}\nSummary: a\nLicense: a\n"
                          f"BuildArch: noarch\n{tags}\n%description\na\n%files\n")
        self.do("rpmbuild", "-bb", "--quiet", "-D", f"_topdir {self.folder}/rpm", path)
        return f"{self.folder}/rpm/RPMS/noarch/{name}-{version}.noarch.rpm"

    def test_rpm(self):
        self.needs("rpmbuild", "rpm")
        section = re.search(r"^%package cluster\n(.*?)^%", read("packaging/devplugd.spec"), re.M | re.S).group(1)
        tags = "".join(re.findall(r"^(?:Provides|Obsoletes):.*\n", section, re.M)).replace("%{name}", "devplugd")
        database = ["rpm", "--dbpath", self.folder + "/database", "--nodeps", "--justdb"]
        if os.path.exists("/etc/debian_version"):
            database.append("--force-debian")
        self.do(*database, "-U", self.build("devplugd", BEFORE, ""), self.build("devplugd-dra", BEFORE, ""))
        self.do(*database, "-U", self.build("devplugd", NOW, ""), self.build("devplugd-cluster", NOW, tags))
        self.assertEqual(sorted(self.do("rpm", "--dbpath", self.folder + "/database", "-qa").split()),
                         [f"devplugd-{NOW}.noarch", f"devplugd-cluster-{NOW}.noarch"])


if __name__ == "__main__":
    unittest.main()
