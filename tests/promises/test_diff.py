# SPDX-License-Identifier: Apache-2.0
"""P3: what devplugd --diff prints is what the reload then logs, and looking changes nothing. 40 random edits
($DEVPLUGD_TEST_SCALE scales that; a build with sanitizers has 8)."""
import random
import re
import signal
import subprocess
import unittest

from node import SEED, program, scaled, until
from test_reload_edits import EditedNode, Model

EDITS = scaled(40)
LINE = re.compile(r"^devplugd: (?:\S+: )?([=+~-] .*)$", re.M)


class Diff(EditedNode):
    def diff(self):
        answer = subprocess.run([program("devplugd"), "-c", self.node.config, "--diff"], capture_output=True,
                                text=True)
        self.assertEqual(answer.returncode, 0, answer.stderr)
        self.assertEqual(answer.stderr, "")
        return answer.stdout.splitlines()

    def test_P3_diff_is_the_plan_of_the_reload(self):
        print(f"seed {SEED}, {EDITS} edits", end=" ", flush=True)
        self.begin(Model(random.Random(SEED)))
        self.assertEqual({line[:1] for line in self.diff()}, {"="})
        for number in range(EDITS):
            old = self.model.snapshot()
            edits = [self.model.edit() for _ in range(3)]
            self.write()
            plan = self.diff()
            said, generation = len(self.node.output()), self.node.state()["generation"]
            self.assertEqual(plan, self.diff(), "looking changed something")
            self.node.daemon.send_signal(signal.SIGHUP)
            until(lambda: self.node.state()["generation"] == generation + 1, "the reload")
            self.assertEqual(LINE.findall(self.node.output()[said:]), plan, f"edit {number}: {edits}")
            # And it is the truth: what the model says was added, removed, changed and kept.
            new = self.model.snapshot()
            changed = {name for name in old if name in new and old[name] != new[name]}
            kept = len(set(old) & set(new) - changed)
            self.assertEqual(self.by_verb(plan), {
                "+ add": set(new) - set(old), "- remove": set(old) - set(new), "~ change": changed,
                "= keep": {str(kept)} if kept else set()})

    def by_verb(self, plan):
        found = {"+ add": set(), "- remove": set(), "~ change": set(), "= keep": set()}
        for line in plan:
            sign, verb, name = line.split()[:3]
            found[f"{sign} {verb}"].add(name.rstrip(":"))
        return found

    def test_P3_broken_file_has_no_plan(self):
        self.begin(Model(random.Random(SEED)))
        with open(self.node.config, "a") as file:
            file.write("resources = (")
        answer = subprocess.run([program("devplugd"), "-c", self.node.config, "--diff"], capture_output=True)
        self.assertEqual(answer.returncode, 78, answer.stderr)
        self.assertEqual(answer.stdout, b"")


if __name__ == "__main__":
    unittest.main()
