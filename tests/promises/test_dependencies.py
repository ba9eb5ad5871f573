# SPDX-License-Identifier: Apache-2.0
"""What is installed for a build is what CMake asks for, and what the packages declare, with the same lowest versions."""
import os
import re
import shutil
import subprocess
import tempfile
import unittest

ROOT = os.path.realpath(os.path.join(os.path.dirname(__file__), "../.."))


def read(path):
    with open(os.path.join(ROOT, path), encoding="utf-8") as file:
        return file.read()


class Dependencies(unittest.TestCase):
    def setUp(self):
        answer = subprocess.run([ROOT + "/packaging/install-dependencies", "--table"], capture_output=True, text=True,
                                check=True)
        self.rows = [line.split() for line in answer.stdout.splitlines()]
        self.assertGreater(len(self.rows), 20)
        for row in self.rows:
            self.assertEqual(len(row), 6, row)
        self.modules = dict(re.findall(r"pkg_check_modules\(\w+ REQUIRED IMPORTED_TARGET (\S+?)>=(\S+)\)",
                                       read("CMakeLists.txt")))
        self.assertIn("libsystemd", self.modules)

    def test_modules_of_cmake(self):
        table = {row[1]: row[2] for row in self.rows}
        for module, version in self.modules.items():
            with self.subTest(module):
                self.assertEqual(table.get(module), version)

    def test_specification(self):
        wanted = dict(re.findall(r"^BuildRequires: +pkgconfig\((\S+)\) >= (\S+)$", read("packaging/devplugd.spec"), re.M))
        self.assertEqual({name: wanted.get(name) for name in self.modules}, self.modules)

    def test_control(self):
        control = read("packaging/debian/control")
        for row in self.rows:
            if row[0] == "build" and row[1] in self.modules:
                found = re.search(rf"^ {re.escape(row[3])} \(>= (\S+)\)", control, re.M)
                with self.subTest(row[3]):
                    self.assertIsNotNone(found)
                    # Debian numbers gRPC as its releases are numbered, pkg-config as its core is.
                    self.assertEqual(found.group(1), "1.46" if row[1] == "grpc_unsecure" else row[2])


class Distributions(unittest.TestCase):
    """What is done on each family of distributions, with a package manager that only prints what it is asked."""

    def install(self, release, purpose="build", fails=False):
        folder = tempfile.mkdtemp()
        self.addCleanup(shutil.rmtree, folder)
        with open(folder + "/os-release", "w") as file:
            file.write(release)
        for name, text in {"rpm": "exit 1", "dpkg-query": "exit 1", "pkg-config": "exit 1", "id": "echo 0",
                           "uname": "echo x86_64", "apt-get": "echo RUN apt-get $* >&2",
                           "dnf": f"echo RUN dnf $*; exit {int(fails)}",
                           "zypper": f"echo RUN zypper $*; exit {int(fails)}"}.items():
            with open(f"{folder}/{name}", "w") as file:
                file.write(f"#!/bin/sh\n{text}\n")
            os.chmod(f"{folder}/{name}", 0o755)
        answer = subprocess.run([ROOT + "/packaging/install-dependencies", purpose], capture_output=True, text=True,
                                env={"PATH": folder + ":" + os.environ["PATH"], "OS_RELEASE": folder + "/os-release"})
        self.assertEqual(answer.returncode, int(fails), answer.stderr)
        return answer.stdout + answer.stderr

    def test_debian_and_its_derivatives(self):
        for release in 'ID=debian\nVERSION_ID="13"\n', 'ID=linuxmint\nID_LIKE="ubuntu debian"\nVERSION_ID="22"\n':
            self.assertRegex(self.install(release), r"RUN apt-get install .* libgrpc-dev .* protobuf-c-compiler")
        self.assertIn(" libclang-rt-dev", self.install('ID=debian\nVERSION_ID="13"\n', "test"))
        self.assertIn(" libclang-rt-14-dev", self.install('ID=debian\nVERSION_ID="12"\n', "test"))

    def test_fedora(self):
        release = "ID=fedora\nVERSION_ID=43\n"
        self.assertRegex(self.install(release), r"RUN dnf install .* grpc-devel .* protobuf-c-devel")
        self.assertNotIn("EPEL", self.install(release, fails=True))

    def test_repositories_of_el(self):
        for release, commands in {
                'ID="rhel"\nID_LIKE="fedora"\nVERSION_ID="9.6"\n': (
                    "subscription-manager repos --enable codeready-builder-for-rhel-9-x86_64-rpms",
                    "dnf install https://dl.fedoraproject.org/pub/epel/epel-release-latest-9.noarch.rpm"),
                'ID="ol"\nID_LIKE="fedora"\nVERSION_ID="9.5"\n': (
                    "dnf install oracle-epel-release-el9", "dnf config-manager --set-enabled ol9_codeready_builder"),
                'ID="rocky"\nID_LIKE="rhel centos fedora"\nVERSION_ID="10.0"\n': (
                    "dnf install epel-release dnf-plugins-core", "dnf config-manager --set-enabled crb")}.items():
            with self.subTest(release):
                self.assertNotIn("EPEL", self.install(release))
                answer = self.install(release, fails=True)
                self.assertIn("come from EPEL and the CRB repository", answer)
                for command in commands:
                    self.assertIn("  " + command, answer)

    def test_libraries_that_are_in_no_repository(self):
        for release in ('ID="amzn"\nID_LIKE="fedora"\nVERSION_ID="2023"\n',
                        'ID="opensuse-tumbleweed"\nID_LIKE="opensuse suse"\nVERSION_ID="20261101"\n'):
            with self.subTest(release):
                answer = self.install(release, fails=True)
                self.assertRegex(answer, r"RUN (dnf|zypper) .*install.* grpc-devel ")
                self.assertIn("  gRPC, the core library 1.46 (pkg-config: grpc_unsecure 24)\n  libprotobuf-c 1.3.3\n", answer)

    def test_compiler_of_leap(self):
        answer = self.install('ID="opensuse-leap"\nID_LIKE="suse opensuse"\nVERSION_ID="15.6"\n')
        self.assertRegex(answer, "RUN zypper .* gcc13 .* python311 ")
        self.assertIn("CC=gcc-13", answer)

    def test_unknown_distribution(self):
        for release in "ID=arch\n", "NAME=Linux\n":
            answer = self.install(release)
            self.assertNotIn("RUN", answer)
            self.assertIn("  libsystemd 252\n", answer)
            # Python is there: it runs this.
            self.assertNotIn("  python3", answer)


if __name__ == "__main__":
    unittest.main()
