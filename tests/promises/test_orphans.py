# SPDX-License-Identifier: Apache-2.0
"""P7: each means against orphans does it alone. The third, the cgroup of the unit, is systemd's and is tested with
the package; here the daemon is in no cgroup of its own."""
import contextlib
import os
import shutil
import signal
import subprocess
import sys
import unittest

from node import NodeTest, as_unit, command_line, is_gone, process_status, program, static, until

N = 4
# Executes its arguments in a user namespace with the same users.
OWN_COUNTS = """
import ctypes, os, sys
first, second = os.pipe(), os.pipe()
parent = os.getpid()
if os.fork() == 0:
    os.read(first[0], 1)
    for name in ("uid_map", "gid_map"):
        with open(f"/proc/{parent}/{name}", "w") as file:
            file.write("0 0 65536")
    os.write(second[1], b"x")
    os._exit(0)
CLONE_NEWUSER = 0x10000000
assert ctypes.CDLL(None).unshare(CLONE_NEWUSER) == 0
os.write(first[1], b"x")
os.read(second[0], 1)
os.wait()
os.execv(sys.argv[1], sys.argv[1:])
"""


def parent_of(pid):
    """None if the process has just been reaped."""
    with contextlib.suppress(FileNotFoundError, ProcessLookupError):
        return int(process_status(pid)["PPid"])
    return None


def has_user(pid, uid):
    with contextlib.suppress(OSError, KeyError, IndexError):
        return not is_gone(pid) and process_status(pid)["Uid"].split()[0] == uid and command_line(pid)[0].endswith("fork-bomb")
    return False


class Orphans(NodeTest):
    def begin(self):
        names = {f"r{i}": 1 for i in range(N)}
        self.node.configure(*(static(name, count) for name, count in names.items()))
        self.node.start_kubelet()
        self.node.start()
        self.node.await_allocatable(**names)
        self.node.await_serving()
        children = sorted(self.node.processes())
        self.assertEqual(len(children), N)
        return children

    def await_end(self, children):
        until(lambda: all(is_gone(child) for child in children), "children to be gone with their supervisor")

    def without_death_signal(self):
        # The signal is set between fork and exec, in devplugd where the calls are ours: not in a copy of the
        # template, which this stand-in for the program is not.
        self.node.prepare_children("")
        self.node.inject("no-death-signal")

    def test_P7_end_of_control_socket_alone(self):
        self.without_death_signal()
        children = self.begin()
        self.node.stop(signal.SIGKILL)
        self.await_end(children)

    def test_P7_death_signal_alone(self):
        children = self.begin()
        # A process that is stopped reads nothing, and ends by SIGKILL only.
        for child in children:
            os.kill(child, signal.SIGSTOP)
        self.node.stop(signal.SIGKILL)
        self.await_end(children)

    def test_P7_no_means_is_an_orphan(self):
        # That the two tests above test something: with neither means a child stays.
        self.without_death_signal()
        children = self.begin()
        for child in children:
            os.kill(child, signal.SIGSTOP)
        self.node.stop(signal.SIGKILL)
        self.assertFalse(any(is_gone(child) for child in children))
        for child in children:
            os.kill(child, signal.SIGCONT)
        self.await_end(children)

    def probe(self, text, timeout=5):
        """Health by a shell script, which appends process ids to the file "kept"."""
        probe, kept = self.node.path("probe"), self.node.path("kept")
        with open(probe, "w") as file:
            file.write(f"#!/bin/sh\nkept={kept}\n{text}")
        os.chmod(probe, 0o755)
        with open(kept, "w"):
            os.chmod(kept, 0o666)
        return f'health = ( {{ probe = "exec"; command = [ "{probe}" ]; interval = 0.2; timeout = {timeout}; }} );'

    def kept(self):
        with open(self.node.path("kept")) as file:
            return [int(word) for word in file.read().split()]

    def test_P7_processes_that_programs_leave_behind(self):
        self.node.configure(static("a", 1, self.probe("setsid sleep 1000 &\necho $! >> $kept\n")))
        self.node.start()
        left = self.kept
        # They do not accumulate: when the tenth comes, the first nine are gone but for one that is just being ended.
        pids = until(lambda: len(left()) >= 10 and left(), "the probe to have been run")
        self.assertLessEqual(len([pid for pid in pids[:9] if not is_gone(pid)]), 1)
        until(lambda: not os.path.exists(f"/proc/{pids[0]}"), "what it left behind to be ended and reaped")
        until(lambda: "that programs left behind" in self.node.output(), "the log to say so")
        # The supervisor, or process 1 where it is not that, has got none of them.
        self.assertNotIn(self.node.daemon.pid, [parent_of(pid) for pid in left()])

    def test_P7_processes_of_a_child_that_was_killed(self):
        """It cannot end them any more, so devplugd does: what its program started, and what that started."""
        self.check_processes_of_a_killed_child()

    def test_P7_processes_that_proc_hides(self):
        """As in the unit, with ProtectProc=invisible."""
        self.node.prefix = ["unshare", "-m", "sh", "-c", 'mount -t proc -o hidepid=invisible proc /proc && exec "$@"', "sh",
                            *as_unit()]
        self.check_processes_of_a_killed_child()

    def check_processes_of_a_killed_child(self):
        self.node.configure(static("a", 1, self.probe(
            "setsid sh -c 'echo $$ >> '$kept'; setsid sleep 1000 & echo $! >> '$kept'; wait' &\nsleep 1000\n", 60)))
        self.node.start_kubelet()
        self.node.start()
        self.node.await_allocatable(a=0)
        pids = until(lambda: len(self.kept()) >= 2 and self.kept(), "the probe to run")
        self.assertFalse(any(is_gone(pid) for pid in pids))
        os.kill(self.node.find("vendor.example/a")["pid"], signal.SIGKILL)
        until(lambda: not any(os.path.exists(f"/proc/{pid}") for pid in pids), "what it started to be ended and reaped")

    def test_P18_fork_bomb(self):
        """The processes of a child and of its programs are bounded and ended; no other resource notices."""
        # The kernel counts by user and user namespace: other daemons of this host have children with this uid, too.
        if subprocess.run(["unshare", "--user", "true"], capture_output=True).returncode != 0:
            self.skipTest("needs user namespaces, which the kernel does not give to a chroot")
        self.node.prefix = [sys.executable, "-c", OWN_COUNTS]
        # LeakSanitizer begins a process at the end of another, for which the bomb has left no room.
        self.node.environment["ASAN_OPTIONS"] = os.environ.get("ASAN_OPTIONS", "") + ":detect_leaks=0"
        bomb = shutil.copy(program("devplugd-fork-bomb"), self.node.path("fork-bomb"))
        os.chmod(bomb, 0o755)
        self.node.configure(static("sibling", 1), static("a", 1, self.probe(f"exec {bomb} $kept\n", 60)))
        self.node.start_kubelet()
        self.node.start()
        self.node.await_allocatable(sibling=1, a=0)
        pids = {name: self.node.find(f"vendor.example/{name}")["pid"] for name in ("sibling", "a")}
        count, = until(self.kept, "the bomb to go off")
        self.assertGreater(count, 900)
        self.assertLess(count, 1024)
        self.assertIsNone(self.node.pod("one", sibling=1)[1])
        uid = process_status(pids["a"])["Uid"].split()[0]
        # What is left of it is killed with its own means, and when it is gone, by devplugd.
        os.kill(pids["a"], signal.SIGKILL)
        self.node.configure(static("sibling", 1))
        self.node.reload()
        until(lambda: not any(has_user(name, uid) for name in os.listdir("/proc")), "what it started to be ended")
        self.assertEqual(self.node.find("vendor.example/sibling")["pid"], pids["sibling"])


if __name__ == "__main__":
    unittest.main()
