# SPDX-License-Identifier: Apache-2.0
"""A program of `release` that runs in place of one that cleans hardware."""
import os

CLEAN = """#!/bin/sh
# Waits while there is a file "wait", and fails while there is a file "bad-DEVICE".
echo "begin $1" >>%(folder)s/log
while [ -e %(folder)s/wait ]; do sleep 0.05; done
[ ! -e %(folder)s/bad-$1 ] || { echo "$1 does not answer"; exit 1; }
echo "end $1" >>%(folder)s/log
"""


class CleaningProgram:
    """Of a test with a `node`."""

    def add_program(self):
        self.folder = self.node.path("hardware")
        os.mkdir(self.folder)
        os.chmod(self.folder, 0o777)
        self.program = self.node.path("clean")
        with open(self.program, "w") as stream:
            stream.write(CLEAN % {"folder": self.folder})
        os.chmod(self.program, 0o755)
        self.node.environment["STATE_DIRECTORY"] = self.node.path("state")
        os.mkdir(self.node.path("state"))
        os.chmod(self.node.path("state"), 0o700)
        self.addCleanup(self.mark, "wait", False)

    def release(self, timeout=20):
        return f'release = {{ command = ( "{self.program}", "${{id}}" ); timeout = {timeout}; }};'

    def mark(self, name, exists=True):
        file = os.path.join(self.folder, name)
        if exists:
            with open(file, "w"):
                pass
        elif os.path.exists(file):
            os.remove(file)

    def log(self):
        file = os.path.join(self.folder, "log")
        if not os.path.exists(file):
            return []
        with open(file) as stream:
            return stream.read().splitlines()
