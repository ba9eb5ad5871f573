# SPDX-License-Identifier: Apache-2.0
"""The release archive: the same bytes of the same commit, from every clone."""
import os
import shutil
import subprocess
import tempfile
import unittest

ROOT = os.path.realpath(os.path.join(os.path.dirname(__file__), "../.."))


class Archive(unittest.TestCase):
    def setUp(self):
        if not os.path.exists(ROOT + "/.git") or not shutil.which("git") or not shutil.which("xz"):
            self.skipTest("needs a checkout, git and xz")
        self.folder = tempfile.mkdtemp()
        self.addCleanup(shutil.rmtree, self.folder)

    def make(self, sources, **environment):
        """Returns the path of the archive that these sources make."""
        output = tempfile.mkdtemp(dir=self.folder)
        answer = subprocess.run([sources + "/packaging/make-dist", output], capture_output=True, text=True, check=True,
                                env=dict(os.environ, **environment))
        return answer.stdout.strip()

    def test_same_bytes(self):
        """A clone with other settings, and the archive itself after a build in it, give the same bytes."""
        clone = self.folder + "/clone"
        subprocess.run(["git", "clone", "-q", ROOT, clone], check=True, umask=0o077)
        for setting, value in ("core.autocrlf", "true"), ("tar.umask", "0077"):
            subprocess.run(["git", "-C", clone, "config", setting, value], check=True)
        archive = self.make(clone, TZ="Asia/Tokyo")
        subprocess.run(["tar", "-xf", archive, "-C", self.folder], check=True)
        unpacked = os.path.join(self.folder, os.path.basename(archive).removesuffix(".tar.xz"))
        for name in "build", "build-packages", "build-asan":
            os.mkdir(os.path.join(unpacked, name))
            with open(os.path.join(unpacked, name, "built"), "w"):
                pass
        again = self.make(unpacked)
        listing = subprocess.run(["tar", "-tvf", archive], capture_output=True, text=True, check=True).stdout.splitlines()
        self.assertGreater(len(listing), 1000)
        self.assertEqual({line.split()[0] for line in listing}, {"drwxr-xr-x", "-rw-r--r--", "-rwxr-xr-x"})
        with open(archive, "rb") as one, open(again, "rb") as other:
            self.assertTrue(one.read() == other.read(), "the archives differ")
        # Line ends are as they were committed.
        with open(unpacked + "/Makefile", "rb") as file:
            self.assertNotIn(b"\r", file.read())


if __name__ == "__main__":
    unittest.main()
