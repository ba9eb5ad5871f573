# SPDX-License-Identifier: Apache-2.0
"""docs/tutorial.md, done as it is written: its files are put in place, its commands run, and what they print is what
it shows. All in a mount namespace, where /etc, /run and the kubelet's directory are the test's own. What is "built" is
run in the sources, without the build itself.

In it, "..." stands for any text, also of several lines where it is a line of its own. Blocks of the kind "fails" exit
with an error; "installed" and "cluster" need packages and clusters, and are not run.
"""
import os
import re
import shlex
import shutil
import subprocess
import sys
import time
import unittest

from node import BIN, LIMIT, NodeTest, program
from printed import commands, pattern

ROOT = os.path.realpath(os.path.join(os.path.dirname(__file__), "../.."))
TUTORIAL = os.path.join(ROOT, "docs/tutorial.md")

# What the unit does for these verbs.
SYSTEMCTL = f"""#!/bin/sh
[ "$2" = devplugd ] && [ "$1" = reload ] || exit 2
{program("devplugd")} --check >/dev/null && exec {program("devplugctl")} reload >/dev/null
"""


def blocks():
    with open(TUTORIAL) as file:
        return re.findall(r"^```(\w*) ?([^\n]*)\n(.*?)^```$", file.read(), re.M | re.S)


class Tutorial(NodeTest):
    def test_all_blocks(self):
        """In a process of its own, which has the mounts."""
        if subprocess.run(["unshare", "--mount", "true"], capture_output=True).returncode != 0:
            self.skipTest("needs mount namespaces")
        answer = subprocess.run(["unshare", "--mount", sys.executable, "-B", __file__, "play", self.node.dir],
                                capture_output=True, text=True, timeout=10 * LIMIT)
        if answer.returncode == 77:
            self.skipTest(answer.stdout.strip())
        self.assertEqual(answer.returncode, 0, answer.stdout + answer.stderr)

    def test_kinds(self):
        """No block is left out unseen."""
        kinds = {(language, kind.split(" ")[0] if language == "console" else "") for language, kind, _ in blocks()}
        self.assertEqual(kinds, {("console", ""), ("console", "fails"), ("console", "built"), ("console", "installed"), ("console", "cluster"),
                                 ("conf", "")})


class Player:
    def __init__(self, directory):
        self.directory = directory
        self.environment = {**os.environ, "PATH": f"{directory}/bin:{os.path.realpath(BIN)}:{os.environ['PATH']}"}
        self.background = []

    def prepare(self):
        os.mkdir(self.directory + "/bin")
        with open(self.directory + "/bin/systemctl", "w") as file:
            file.write(SYSTEMCTL)
        os.chmod(self.directory + "/bin/systemctl", 0o755)
        for name in ("etc", "work"):
            os.mkdir(f"{self.directory}/{name}")
        try:
            subprocess.run(["mount", "--make-rprivate", "/"], check=True)
            # An overlay cannot be the upper part of one.
            os.mkdir(self.directory + "/tmpfs")
            subprocess.run(["mount", "-t", "tmpfs", "tmpfs", self.directory + "/tmpfs"], check=True)
            for name in ("upper", "work"):
                os.mkdir(f"{self.directory}/tmpfs/{name}")
            subprocess.run(["mount", "-t", "overlay", "-o", f"lowerdir=/etc,upperdir={self.directory}/tmpfs/upper,"
                            f"workdir={self.directory}/tmpfs/work", "overlay", "/etc"], check=True)
            subprocess.run(["mount", "-t", "tmpfs", "-o", "mode=755", "tmpfs", "/run"], check=True)
            subprocess.run(["mount", "-t", "tmpfs", "-o", "mode=755", "tmpfs", "/var/lib"], check=True)
        except subprocess.CalledProcessError:
            print("needs overlay and tmpfs mounts")
            sys.exit(77)
        shutil.rmtree("/etc/devplugd.conf.d", ignore_errors=True)
        os.mkdir("/etc/devplugd.conf.d")
        text, = (text for language, kind, text in blocks() if kind == "built")
        for command, _ in commands(text):
            if command.endswith(" &"):
                self.start(*shlex.split(command[:-2]))
                self.wait("devplugctl", "status")
            elif not command.startswith(("make", "export PATH=")):
                subprocess.run(["sh", "-c", command], check=True, cwd=ROOT)

    def start(self, *words):
        with open(self.directory + "/log", "ab") as log:
            self.background.append(subprocess.Popen(words, stdout=log, stderr=log, env=self.environment))

    def wait(self, *words):
        end = time.monotonic() + LIMIT
        while subprocess.run(words, capture_output=True, env=self.environment).returncode != 0:
            if time.monotonic() > end:
                raise AssertionError(f"waited in vain for {words}")
            time.sleep(0.05)

    def run(self, command, shown, fails):
        if command.endswith("&"):
            words, _, _ = command.partition(" >")
            self.start(*shlex.split(words))
            self.wait("devplug-kubelet", "status")
            return
        end = time.monotonic() + LIMIT
        while True:
            answer = subprocess.run(["sh", "-c", command], capture_output=True, text=True, env=self.environment,
                                    timeout=LIMIT)
            said = answer.stdout + answer.stderr
            if (answer.returncode != 0) == fails and re.fullmatch(pattern(shown), said):
                return
            # A table may be of a moment ago; what changes something is done once.
            if not command.startswith(("devplugctl status", "devplugctl devices")) or time.monotonic() > end:
                raise AssertionError(f"$ {command}\nis to print\n{shown}\nand printed ({answer.returncode})\n{said}")
            time.sleep(0.1)

    def play(self):
        for language, kind, text in blocks():
            if language == "conf":
                with open(kind, "w") as file:
                    file.write(text)
            if language == "console" and kind in ("", "fails"):
                for command, shown in commands(text):
                    self.run(command, shown, kind == "fails")

    def close(self):
        for process in self.background:
            process.terminate()
        for process in self.background:
            process.wait(timeout=LIMIT)


def play(directory):
    player = Player(directory)
    player.prepare()
    try:
        player.play()
    except AssertionError as error:
        print(error)
        with open(directory + "/log") as file:
            print(file.read())
        return 1
    finally:
        player.close()
    return 0


if __name__ == "__main__":
    if sys.argv[1:2] == ["play"]:
        sys.exit(play(sys.argv[2]))
    unittest.main()
