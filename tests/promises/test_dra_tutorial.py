# SPDX-License-Identifier: Apache-2.0
"""docs/dra-tutorial.md as tests/demo/cluster-demo plays it: each command prints what the page shows, and nothing stays behind
at the end, after an error, and after an interruption at any place."""
import os
import re
import shutil
import signal
import subprocess
import tempfile
import unittest

from node import BIN, LIMIT
from printed import commands, pattern

ROOT = os.path.realpath(os.path.join(os.path.dirname(__file__), "../.."))
PAGE = os.path.join(ROOT, "docs/dra-tutorial.md")
DEMO = os.path.join(ROOT, "tests/demo/cluster-demo")
PROMETHEUS = ("prometheus", "promtool")


def blocks():
    with open(PAGE, encoding="utf-8") as file:
        return re.findall(r"^```(\w*) ?([^\n]*)\n(.*?)^```$", file.read(), re.M | re.S)


def folder_of(printed):
    return re.search(r'^runtime_dir = "(.*)/run";$', printed, re.M).group(1)


def working_directory(pid):
    try:
        return os.readlink(f"/proc/{pid}/cwd")
    except OSError:
        return ""


def as_in_page(printed):
    """With the folder and the ports of the page."""
    printed = printed.replace(folder_of(printed), "/tmp/cluster")
    for found, page in ((r'listen = "(127.0.0.1:\d+)"', "127.0.0.1:10970"), (r"--web.listen-address=(\S+)", "127.0.0.1:9090")):
        place = re.search(found, printed)
        if place:
            printed = printed.replace(place.group(1), page)
    return printed


@unittest.skipUnless(os.geteuid() == 0, "needs root")
class DraTutorial(unittest.TestCase):
    def setUp(self):
        self.tmp = tempfile.mkdtemp(prefix="devplugd-test.")
        self.addCleanup(shutil.rmtree, self.tmp)
        self.environment = dict(os.environ)

    def hide(self, *names):
        """A PATH without these programs."""
        os.mkdir(self.tmp + "/path")
        for folder in os.environ["PATH"].split(":"):
            for name in os.listdir(folder) if os.path.isdir(folder) else ():
                if name not in names and not os.path.lexists(f"{self.tmp}/path/{name}"):
                    os.symlink(os.path.join(folder, name), f"{self.tmp}/path/{name}")
        self.environment["PATH"] = self.tmp + "/path"

    def run_demo(self, build=os.path.dirname(os.path.realpath(BIN))):
        return subprocess.run([DEMO, build], env=self.environment, capture_output=True, text=True, stdin=subprocess.DEVNULL,
                              timeout=10 * LIMIT)

    def check_nothing_is_left(self, printed):
        """Neither the folder nor a process that works in it."""
        folder = folder_of(printed)
        self.assertFalse(os.path.lexists(folder))
        self.assertEqual([pid for pid in os.listdir("/proc") if pid.isdigit() and working_directory(pid).startswith(folder)], [])

    def check_output(self, printed, with_prometheus):
        printed = as_in_page(printed)
        for language, kind, body in blocks():
            if language in ("conf", "json", "yaml"):
                self.assertIn(f"$ cat {kind}\n{body}", printed)
            elif kind in ("", "fails") or kind == "prometheus" and with_prometheus:
                for command, shown in commands(body):
                    with self.subTest(command):
                        before, found, after = printed.partition(f"$ {command}\n")
                        self.assertTrue(found, printed)
                        output = re.split(r"^(?:[$#] |\n|\(skipped)", after, maxsplit=1, flags=re.M)[0]
                        if "\n\n" in shown:
                            # The output has empty lines of its own.
                            output = after.partition("\n\n# ")[0] + "\n"
                        self.assertRegex(output, re.compile(rf"\A(?:{pattern(shown)})\Z"))
                        printed = after

    def test_all_blocks(self):
        has_prometheus = all(shutil.which(name) for name in PROMETHEUS)
        answer = self.run_demo()
        self.assertEqual(answer.returncode, 0, answer.stdout + answer.stderr)
        self.check_output(answer.stdout, has_prometheus)
        self.assertEqual("skipped: prometheus" in answer.stdout, not has_prometheus)
        self.check_nothing_is_left(answer.stdout)

    def test_without_prometheus(self):
        self.hide(*PROMETHEUS)
        answer = self.run_demo()
        self.assertEqual(answer.returncode, 0, answer.stdout + answer.stderr)
        self.check_output(answer.stdout, False)
        self.assertIn("skipped: prometheus and promtool are not installed", answer.stdout)
        self.check_nothing_is_left(answer.stdout)

    def test_kinds(self):
        """No block is left out unseen."""
        self.assertEqual({(language, kind) for language, kind, _ in blocks() if language == "console"},
                         {("console", kind) for kind in ("", "by hand", "fails", "prometheus")})

    def test_interruption(self):
        """By Ctrl-C in a terminal, and by other signals."""
        for number, place in ((signal.SIGINT, "devplug-apiserver run"), (signal.SIGINT, "devplugd -c devplugd.conf >"),
                              (signal.SIGTERM, "devplug-kubelet pod train"), (signal.SIGHUP, "devplugctl -c devplugd.conf check")):
            with self.subTest(place):
                process = subprocess.Popen([DEMO, os.path.dirname(os.path.realpath(BIN))], env=self.environment, text=True,
                                           stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                           start_new_session=True)
                self.addCleanup(process.kill)
                printed = ""
                while not printed.rpartition("\n$ ")[2].startswith(place):
                    line = process.stdout.readline()
                    self.assertTrue(line, printed)
                    printed += line
                os.killpg(process.pid, number)
                _, errors = process.communicate(timeout=LIMIT)
                self.assertEqual((process.returncode, errors), (128 + number, ""))
                self.check_nothing_is_left(printed)

    def test_failure(self):
        """A program that does not start: its log is printed."""
        os.mkdir(self.tmp + "/bin")
        for name in os.listdir(BIN):
            os.symlink(os.path.join(os.path.realpath(BIN), name), f"{self.tmp}/bin/{name}")
        os.unlink(self.tmp + "/bin/devplug-kubelet")
        with open(self.tmp + "/bin/devplug-kubelet", "w") as file:
            file.write("#!/bin/sh\nexit 1\n")
        os.chmod(self.tmp + "/bin/devplug-kubelet", 0o755)
        answer = self.run_demo(self.tmp)
        self.assertEqual(answer.returncode, 1)
        self.assertIn("cluster-demo: does not start: devplug-kubelet run", answer.stderr)
        self.assertIn('"event": "listening"', answer.stderr)
        self.check_nothing_is_left(answer.stdout)


if __name__ == "__main__":
    unittest.main()
