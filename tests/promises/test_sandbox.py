# SPDX-License-Identifier: Apache-2.0
"""What a child may do, by hand as under systemd: nothing with privilege, little with the kernel, nothing with the
plugin directory or with its siblings. What it executes is held by the same."""
import ctypes
import os
import resource
import shutil
import signal
import subprocess

from node import UNIT_CAPABILITIES, UNIT_UID, NodeTest, as_unit, process_status, program, static, template_of, until

PROBED = 'health = ( { probe = "exec"; command = ( "%s" ); interval = 0.2; } );'


def landlock_version():
    """0: this kernel has none, or it is switched off."""
    create_ruleset, tell_version = 444, 1
    return max(0, ctypes.CDLL(None).syscall(create_ruleset, None, 0, tell_version))


def file_limits(pid):
    with open(f"/proc/{pid}/limits") as file:
        return [int(word) for line in file if line.startswith("Max open files") for word in line.split()[3:5]]


class Sandbox(NodeTest):
    def begin(self, *resources):
        # As the kubelet makes them: what keeps others out is the mode of its root directory.
        root = self.node.path("root")
        os.mkdir(root, 0o750)
        self.node.plugins = os.path.join(root, "plugins")
        self.node.configure(*resources)
        self.node.start_kubelet()
        self.node.start()
        return {name.split("/")[1]: r["pid"] for name, r in self.node.await_serving().items()}

    def probe(self, *words):
        """A command that a child may execute."""
        file = shutil.copy(program("devplugd-try-sandbox"), self.node.path("try"))
        os.chmod(file, 0o755)
        return PROBED % '", "'.join((file, *words))

    def reason(self, name):
        """What the probe said, or None until it ended."""
        found = self.node.resource(f"vendor.example/{name}")
        for device in found["devices"] if found else []:
            if device["reason"] != "not probed yet":
                return device["reason"] or device["health"]
        return None

    def check_fields(self, pid):
        fields = process_status(pid)
        for key in ("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"):
            # Without CAP_SETPCAP, which the unit does not have, the bounding set cannot be changed.
            if key != "CapBnd" or not self.node.prefix:
                self.assertEqual(int(fields[key], 16), 0, key)
        self.assertEqual(fields["NoNewPrivs"], "1")
        self.assertEqual(fields["Seccomp"], "2")
        self.assertGreaterEqual(int(fields["Seccomp_filters"]), 1)
        self.assertNotIn("0", fields["Uid"].split())
        self.assertEqual(fields["Groups"].strip(), "")
        uid, = set(fields["Uid"].split() + fields["Gid"].split())
        return int(uid)

    def test_fields(self):
        """Checks a copy of the template, and a child that was executed."""
        pid = self.begin(static("a", 1))["a"]
        self.check_fields(pid)
        os.kill(template_of(self.node.daemon.pid), signal.SIGSTOP)
        os.kill(pid, signal.SIGKILL)
        executed = until(lambda: (r := self.node.resource("vendor.example/a"))["state"] == "serving"
                         and r["pid"] != pid and r["pid"], "the child to be replaced")
        self.check_fields(executed)

    def check_users(self):
        """P18: no child has a user that another child or the supervisor has; it keeps it when it is replaced."""
        pids = self.begin(static("a", 1), static("b", 1))
        users = {name: self.check_fields(pid) for name, pid in pids.items()}
        uids = {*users.values(), *(int(word) for word in process_status(self.node.daemon.pid)["Uid"].split())}
        self.assertEqual(len(uids), 3, uids)
        os.kill(pids["a"], signal.SIGKILL)
        again = until(lambda: (r := self.node.resource("vendor.example/a"))["state"] == "serving"
                      and r["pid"] != pids["a"] and r["pid"], "the child to be replaced")
        self.assertEqual(self.check_fields(again), users["a"])

    def test_P18_users(self):
        self.check_users()

    def test_P18_users_under_the_unit(self):
        self.node.prefix = as_unit()
        self.check_users()
        self.assertIn(str(UNIT_UID), process_status(self.node.daemon.pid)["Uid"].split())
        # A child that does not end by itself is ended.
        pid = self.node.find("vendor.example/b")["pid"]
        os.kill(pid, signal.SIGSTOP)
        until(lambda: self.node.find("vendor.example/b")["pid"] != pid, "the stopped child to be replaced")
        # What makes the children has what that takes, and no more.
        fields = process_status(template_of(self.node.daemon.pid))
        self.assertEqual(bin(int(fields["CapEff"], 16)).count("1"), len(UNIT_CAPABILITIES) - 2)
        self.assertFalse(int(fields["CapEff"], 16) & 1 << 1, "CAP_DAC_OVERRIDE")

    def test_P18_the_user_of_the_supervisor(self):
        self.node.prefix = as_unit()
        self.node.configure(static("a", 1, f'user = "{UNIT_UID}";'))
        self.node.start_kubelet()
        self.node.start()
        until(lambda: "is the user of devplugd, so" in self.node.output(), "the user to be refused")

    def test_trials(self):
        pids = self.begin(static("sibling", 1))
        trial = self.probe(self.node.plugins, str(pids["sibling"]))
        outside = subprocess.run([self.node.path("try"), self.node.plugins, str(pids["sibling"])],
                                 capture_output=True, text=True)
        self.assertIn("list stat connect create", outside.stdout)
        self.assertIn("signal", outside.stdout)
        self.node.configure(static("sibling", 1), static("a", 1, trial))
        self.node.reload()
        allowed = until(lambda: self.reason("a"), "an answer of the probe")
        version = landlock_version()
        if version == 0:
            print("without Landlock, siblings are not kept apart")
        possible = set() if allowed == "Healthy" else set(allowed.split()) - {"exited", "with", "status", "1:"}
        # Before Linux 6.12, siblings of one user can signal each other.
        self.assertEqual(possible - ({"signal"} if version < 6 else set())
                         - ({"read-memory"} if version == 0 else set()), set(), allowed)

    def test_programs_still_run(self):
        """Probes start threads, processes and shells, and move their files."""
        script = self.node.path("probe")
        with open(script, "w") as file:
            file.write("#!/bin/sh\nset -e\nd=$(mktemp -d)\ntrap 'rm -r $d' EXIT\nmkdir $d/a $d/b\necho x >$d/a/x\n"
                       "mv $d/a/x $d/b/x\n[ \"$(cat $d/b/x | sort)\" = x ]\n(sleep 10 & kill $!)\n")
        os.chmod(script, 0o755)
        self.begin(static("a", 1, PROBED % script))
        until(lambda: self.reason("a") == "Healthy", "the probe to succeed")

    def test_limits_of_open_files(self):
        """A child that runs no programs cannot raise its own; a program may need more than its child."""
        kept = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
        if kept <= 1024:
            self.skipTest("the limit is as low already")
        pids = self.begin(static("a", 1), static("programs", 1, PROBED % "/bin/true"))
        self.assertEqual(file_limits(pids["a"]), [1024, 1024])
        self.assertEqual(file_limits(pids["programs"]), [1024, kept])

    def test_root_under_the_unit(self):
        """It has the files of root and the capabilities of the service."""
        self.node.prefix = as_unit()
        fields = process_status(self.begin(static("root", 1, 'user = "root";'))["root"])
        self.assertEqual(fields["Uid"].split(), ["0"] * 4)
        self.assertEqual(fields["CapEff"], process_status(self.node.daemon.pid)["CapEff"])

    def test_root_that_was_asked_for(self):
        """It has what the service has; what the others have does not change."""
        pids = self.begin(static("a", 1), static("root", 1, 'user = "root";'))
        self.check_fields(pids["a"])
        fields = process_status(pids["root"])
        self.assertEqual(fields["Uid"].split(), ["0"] * 4)
        self.assertEqual(fields["Seccomp"], process_status(self.node.daemon.pid)["Seccomp"])


if __name__ == "__main__":
    import unittest
    unittest.main()
