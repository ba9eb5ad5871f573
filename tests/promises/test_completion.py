# SPDX-License-Identifier: Apache-2.0
"""bash and zsh complete what the programs have: options, commands, and names that a running daemon knows."""
import os
import pty
import re
import select
import shutil
import subprocess
import time
import unittest

from node import LIMIT, NodeTest, program, static

ROOT = os.path.realpath(os.path.join(os.path.dirname(__file__), "../.."))
COMPLETION = os.path.join(ROOT, "packaging/completion")
FILES = {name: (f"{COMPLETION}/bash/{name}", f"{COMPLETION}/zsh/_{name}") for name in ("devplugd", "devplugctl", "devplug-kubelet", "devplug-apiserver")}
BASH_LIBRARY = "/usr/share/bash-completion/bash_completion"

BASH = r"""
. %s
. %s
COMP_WORDS=("$@" '') COMP_CWORD=$(($#)) COMP_LINE="$* " COMP_POINT=$((${#COMP_LINE}))
if [ -n "$PART" ]; then COMP_WORDS=("$@") COMP_CWORD=$(($# - 1)) COMP_LINE="$*" COMP_POINT=${#COMP_LINE}; fi
_%s 2>/dev/null
printf '%%s\n' "${COMPREPLY[@]}"
"""

# Prints what is offered, one a line, by taking the place of the builtin that offers it.
ZSH = r"""
PROMPT='' PROMPT2='' LISTMAX=10000
unsetopt zle_bracketed_paste 2>/dev/null
bindkey -e
fpath=(%s $fpath)
autoload -Uz compinit
compinit -u -D
compadd() {
	local -a offered
	builtin compadd -O offered "$@" 2>/dev/null
	(( $#offered )) && print -rl -- "offered:"$^offered >> %s
	builtin compadd "$@"
}
zstyle ':completion:*' list-prompt ''
print ready
"""


class Options(unittest.TestCase):
    def test_all_that_help_shows(self):
        """And nothing else, in both shells."""
        for name, files in FILES.items():
            text = subprocess.run([program(name), "--help"], capture_output=True, text=True).stdout
            options = set(re.findall(r"--[a-z-]+", text))
            commands = set(re.findall(r"^  ([a-z]+) ", text, re.M))
            for path in files:
                with self.subTest(path), open(path) as file:
                    lines = [line for line in file.read().splitlines() if not line.startswith("#")]
                    content = "\n".join(lines)
                    # Without the options of the commands that they run and of their own builtins.
                    said = set(re.findall(r"(?<![\w-])--[a-z][a-z-]+", content)) - {"--"}
                    self.assertEqual(said, options)
                    # A bash file offers these words; a zsh file has a description of each, or parentheses around them.
                    lists = re.findall(r"compgen -W '([^']*)'|'([a-z]+):|\(([a-z -]+)\)", content)
                    self.assertLessEqual(commands, {word for groups in lists for text in groups for word in text.split()})


class Bash(NodeTest):
    def setUp(self):
        super().setUp()
        if not os.path.exists(BASH_LIBRARY):
            self.skipTest("needs bash-completion")

    def complete(self, *words, part=False):
        """What is offered. A stand-in for the program may come first in the directory of the node."""
        name = words[0]
        script = BASH % (BASH_LIBRARY, FILES[name][0], name.replace("-", "_"))
        environment = {**os.environ, "PATH": ":".join((self.node.dir, os.path.dirname(program(name)), os.environ["PATH"])),
                       "PART": "1" if part else ""}
        answer = subprocess.run(["bash", "-c", script, "bash", *words], capture_output=True, text=True, env=environment,
                                timeout=LIMIT)
        return set(answer.stdout.split())

    def test_completion(self):
        self.node.configure(static("gpu", 2), static("fpga", 1))
        self.node.start()
        self.node.start_kubelet()
        self.node.await_serving()
        place = ("devplugctl", "-c", self.node.config)
        self.assertIn("explain", self.complete(*place))
        self.assertEqual(self.complete(*place, "status"), {"vendor.example/gpu", "vendor.example/fpga"})
        self.assertEqual(self.complete(*place, "explain", "vendor.example/g", part=True), {"vendor.example/gpu"})
        self.assertEqual(self.complete(*place, "cordon"), {"gpu-0", "gpu-1", "fpga-0"})
        self.assertIn("kvm", self.complete(*place, "discover"))
        self.assertEqual(self.complete("devplugd", "--wa", part=True), {"--watch"})
        kubelet = ("devplug-kubelet", "--state-dir", self.node.kubelet_state)
        self.node.pod("train", gpu=1)
        self.assertIn("conformance", self.complete(*kubelet))
        self.assertEqual(self.complete(*kubelet, "pod", "rm"), {"train"})
        self.assertEqual(self.complete(*kubelet, "fault", "vendor.example/g", part=True), {"vendor.example/gpu"})
        self.assertEqual(self.complete(*kubelet, "fault", "vendor.example/gpu"), {"end-stream", "close"})
        self.assertIn("resourceslices", self.complete("devplug-apiserver", "--dir", self.node.dir, "get"))
        self.assertEqual(self.complete("devplug-apiserver", "run", "--as", "1.3", part=True), {"1.34", "1.35", "1.36", "1.37", "1.38"})

    def test_names_that_are_commands(self):
        """They are not run, and not offered, because the completed line would run them."""
        hostile = [f"$(touch${{IFS}}{self.node.path('run')})", f"`touch${{IFS}}{self.node.path('run')}`", "*", "a;b"]
        texts = {"devplugctl devices": [f'{" " * 10}"id": "{name}",' for name in (*hostile, "gpu-0")],
                 "devplugctl status": [f'{" " * 6}"name": "{name}",' for name in (*hostile, "vendor.example/gpu")],
                 "devplug-kubelet pods": [f"{name}: Running" for name in ("default/train", *(f"default/{name}" for name in hostile))],
                 "devplug-kubelet status": [f"{name}: 1" for name in ("vendor.example/gpu", *(f"a/{name}" for name in hostile))]}
        for name in ("devplugctl", "devplug-kubelet"):
            with open(self.node.path(name), "w", opener=lambda path, flags: os.open(path, flags, 0o755)) as file:
                file.write("#!/bin/sh\ncase \"$1\" in\n")
                for command, lines in texts.items():
                    if command.startswith(name):
                        file.write(f"{command.split()[1]}) cat <<'END'\n" + "\n".join(lines) + "\nEND\n;;\n")
                file.write("esac\n")
        for words, names in ((("devplugctl", "cordon"), {"gpu-0"}), (("devplugctl", "explain"), {"vendor.example/gpu"}),
                             (("devplug-kubelet", "pod", "rm"), {"train"}), (("devplug-kubelet", "fault"), {"vendor.example/gpu"}),
                             (("devplug-kubelet", "conformance", "--resource"), {"vendor.example/gpu"})):
            with self.subTest(words):
                self.assertEqual(self.complete(*words), names)
        self.assertFalse(os.path.exists(self.node.path("run")))


class Zsh(NodeTest):
    def setUp(self):
        super().setUp()
        if not shutil.which("zsh"):
            self.skipTest("needs zsh")
        self.offered = self.node.path("offered")
        setup = self.node.path("zsh")
        with open(setup, "w") as file:
            file.write(ZSH % (COMPLETION + "/zsh", self.offered))
        pid, self.terminal = pty.fork()
        if pid == 0:
            os.environ["PATH"] = os.path.dirname(program("devplugctl")) + ":" + os.environ["PATH"]
            os.environ["TERM"] = "dumb"
            os.execvp("zsh", ["zsh", "-f", "-i"])
        self.addCleanup(os.waitpid, pid, 0)
        self.addCleanup(os.close, self.terminal)
        self.addCleanup(os.kill, pid, 9)
        self.say(f". {setup}\n", "ready\r")

    def say(self, text, wanted):
        """Types, and returns what is shown once that is in it."""
        os.write(self.terminal, text.encode())
        shown, end = "", time.monotonic() + LIMIT
        while wanted not in shown:
            if select.select([self.terminal], [], [], 0.2)[0]:
                shown += os.read(self.terminal, 65536).decode(errors="replace")
            self.assertLess(time.monotonic(), end, f"zsh shows no {wanted!r}: {shown!r}")
        return shown

    def complete(self, line):
        """What the key would offer at the end of the line."""
        if os.path.exists(self.offered):
            os.unlink(self.offered)
        os.write(self.terminal, line.encode() + b"\t")
        # The line is thrown away; what is shown after that comes after the completion.
        time.sleep(0.05)
        self.say("\x15print done$((1+1))\n", "done2")
        if not os.path.exists(self.offered):
            return set()
        with open(self.offered) as file:
            return {text.removeprefix("offered:").strip() for text in file.read().splitlines()}

    def test_completion(self):
        self.node.configure(static("gpu", 2), static("fpga", 1))
        self.node.start()
        self.node.start_kubelet()
        self.node.await_serving()
        place = f"devplugctl -c {self.node.config} "
        self.assertEqual(self.complete("devplugctl st"), {"status"})
        self.assertEqual(self.complete(place + "status "), {"vendor.example/gpu", "vendor.example/fpga"})
        self.assertEqual(self.complete(place + "explain vendor.example/g"), {"vendor.example/gpu"})
        self.assertEqual(self.complete(place + "cordon "), {"gpu-0", "gpu-1", "fpga-0"})
        self.assertIn("kvm", self.complete(place + "discover k"))
        self.assertEqual(self.complete("devplugd --wa"), {"--watch"})
        kubelet = f"devplug-kubelet --state-dir {self.node.kubelet_state} "
        self.node.pod("train", gpu=1)
        self.assertEqual(self.complete("devplug-kubelet conf"), {"conformance"})
        self.assertEqual(self.complete("devplug-apiserver app"), {"apply"})
        self.assertEqual(self.complete(kubelet + "pod rm "), {"train"})
        self.assertEqual(self.complete(kubelet + "fault vendor.example/g"), {"vendor.example/gpu"})


if __name__ == "__main__":
    unittest.main()
