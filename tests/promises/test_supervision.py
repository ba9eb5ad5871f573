# SPDX-License-Identifier: Apache-2.0
"""Supervision: kubelet restarts (P6), start without a kubelet (P5), no orphans (P7), hung children (P8), stop
(P9), siblings (P12), one session at a time (P15).

complaints.md: R1, W1, M13.
"""
import ctypes
import contextlib
import os
import shutil
import signal
import socket
import subprocess
import unittest

from node import NodeTest, is_gone, plugins_of, program, static, template_of, until

N = 5


class Supervision(NodeTest):
    def setUp(self):
        super().setUp()
        self.names = {f"r{i}": 2 for i in range(N)}
        self.node.configure(*(static(name, n) for name, n in self.names.items()))

    def pids(self):
        return {name: r["pid"] for name, r in self.node.await_serving().items()}

    def sockets(self):
        with os.scandir(self.node.plugins) as entries:
            # The type comes with the name: one may be removed meanwhile.
            return [entry.name for entry in entries
                    if not entry.is_file(follow_symlinks=False) and not entry.is_dir(follow_symlinks=False)
                    and entry.name != "kubelet.sock"]

    @unittest.skipUnless(os.geteuid() == 0, "needs a mount namespace")
    def test_slow_name_service(self):
        """As with a network directory whose server is unreachable: only a `user` that /etc/passwd lacks may need it."""
        switch = self.node.path("nsswitch.conf")
        with open(switch, "w") as file:
            file.write("passwd: files slow\ngroup: files slow\n")
        self.node.prefix = ["unshare", "--mount", "--propagation", "private", "sh", "-c",
                            'mount --bind "$0" /etc/nsswitch.conf && exec "$@"', switch]
        self.node.environment["LD_LIBRARY_PATH"] = os.path.dirname(program("libnss_slow.so.2"))
        self.node.configure(static("a", 1), static("named", 1, 'user = "daemon";'), static("number", 1, 'user = "54321";'))
        self.node.start_kubelet()
        self.node.start()
        self.node.await_allocatable(a=1, named=1, number=1)
        self.node.configure(static("a", 2), static("later", 1))
        self.node.reload()
        self.node.await_allocatable(a=2, later=1)

    def test_P5_starts_before_the_kubelet(self):
        self.node.start()
        until(lambda: self.node.status() and all(
            r["state"] == "waiting" and r["devices"] for r in self.node.status()["resources"]),
            "every child to be ready and waiting")
        self.node.start_kubelet()
        self.node.await_allocatable(**self.names)

    def test_P6_kubelet_restarts(self):
        self.node.start_kubelet()
        self.node.start()
        self.node.await_allocatable(**self.names)
        pids = self.pids()
        for round_ in range(12):
            self.node.stop_kubelet(signal.SIGKILL if round_ % 2 else signal.SIGTERM)
            self.node.start_kubelet("--as", ("1.32", "1.36")[round_ // 2 % 2])
            self.node.await_allocatable(**self.names)
        # A kubelet restart costs a session, never a process.
        self.assertEqual(self.pids(), pids)
        until(lambda: len(self.sockets()) == N, "only the sockets of live sessions to be there")

    def test_P6_plugin_directory_wiped_and_replaced(self):
        self.node.start_kubelet()
        self.node.start()
        self.node.await_allocatable(**self.names)
        self.node.stop_kubelet(signal.SIGKILL)
        os.rename(self.node.plugins, self.node.plugins + ".old")
        self.node.start_kubelet()
        self.node.await_allocatable(**self.names)

    def test_P6_kubelet_that_refuses_connections(self):
        os.makedirs(self.node.plugins)
        dead = socket.socket(socket.AF_UNIX)
        dead.bind(os.path.join(self.node.plugins, "kubelet.sock"))
        self.node.start()
        until(lambda: (state := self.node.state()) and all(r["state"] == "waiting" for r in state["resources"]), "waiting")
        dead.close()
        self.node.start_kubelet()
        self.node.await_allocatable(**self.names)

    def test_kubelet_ends_a_stream(self):
        self.node.start_kubelet()
        self.node.start()
        self.node.await_allocatable(**self.names)
        session = self.node.find("vendor.example/r1")["session"]
        self.assertEqual(self.node.ask_kubelet("fault", "vendor.example/r1", "end-stream").returncode, 0)
        until(lambda: (r := self.node.find("vendor.example/r1"))["session"] > session
              and r["state"] == "serving", "a new session")
        self.node.await_allocatable(**self.names)

    def test_P7_no_orphans(self):
        self.node.start_kubelet()
        self.node.start()
        self.node.await_allocatable(**self.names)
        children = plugins_of(self.node.daemon.pid)
        self.assertEqual(len(children), N)
        self.node.stop(signal.SIGKILL)
        until(lambda: not any(os.path.exists(f"/proc/{child}/exe") for child in children),
              "children to be gone with their supervisor")
        # The next one cleans up what the dead one left, and takes over.
        self.node.start()
        self.node.await_allocatable(**self.names)
        until(lambda: len(self.sockets()) == N, "stale sockets to be removed")

    def test_P7_sockets_of_children_that_end_late(self):
        self.node.start_kubelet()
        self.node.start()
        self.node.await_allocatable(**self.names)
        # Children of a daemon that was killed still lived when this one looked for what it left.
        name = "devplugd-01234567-89abcdef-3.sock"
        with socket.socket(socket.AF_UNIX) as late:
            late.bind(os.path.join(self.node.plugins, name))
        until(lambda: name not in self.sockets(), "the late socket to be removed")
        self.assertEqual(len(self.sockets()), N)
        self.node.await_allocatable(**self.names)

    def test_P8_stopped_child_is_replaced(self):
        self.node.start_kubelet()
        self.node.start()
        self.node.await_allocatable(**self.names)
        before = self.pids()
        os.kill(before["vendor.example/r0"], signal.SIGSTOP)
        until(lambda: (r := self.node.find("vendor.example/r0"))["state"] == "serving"
              and r["pid"] != before["vendor.example/r0"], "the hung child to be replaced")
        self.node.await_allocatable(**self.names)
        after = self.pids()
        del before["vendor.example/r0"], after["vendor.example/r0"]
        self.assertEqual(after, before)

    def test_P9_stop_leaves_nothing(self):
        self.node.start_kubelet()
        self.node.start()
        self.node.await_allocatable(**self.names)
        children = plugins_of(self.node.daemon.pid)
        self.assertEqual(self.node.stop(), 0)
        self.assertEqual(self.sockets(), [])
        self.assertFalse(any(os.path.exists(f"/proc/{child}/exe") for child in children))

    def inotify_watches(self):
        count, folder = 0, f"/proc/{self.node.daemon.pid}/fdinfo"
        for number in os.listdir(folder):
            # It may be closed by now.
            with contextlib.suppress(FileNotFoundError), open(os.path.join(folder, number)) as file:
                count += sum(line.startswith("inotify wd:") for line in file)
        return count

    def test_P9_stop_begins_with_what_takes_time(self):
        # What the kernel has begun to end by then, nobody waits for after the children.
        self.node.start_kubelet()
        self.node.start("--watch")
        children = self.pids().values()
        template = template_of(self.node.daemon.pid)
        self.assertGreater(self.inotify_watches(), 1)
        for child in children:
            os.kill(child, signal.SIGSTOP)
        self.node.daemon.send_signal(signal.SIGTERM)
        until(lambda: self.inotify_watches() == 0, "the watches to be taken away")
        until(lambda: is_gone(template), "the template to have ended")
        for child in children:
            os.kill(child, signal.SIGCONT)
        self.assertEqual(self.node.stop(), 0)

    def test_P13_random_kills(self):
        self.node.start_kubelet()
        self.node.start()
        self.node.await_allocatable(**self.names)
        for i in range(40):
            victim = self.node.find(f"vendor.example/r{i % N}")["pid"]
            try:
                os.kill(victim or plugins_of(self.node.daemon.pid)[0], signal.SIGKILL)
            except (ProcessLookupError, IndexError):
                continue  # dead already, and not back yet
        self.node.await_allocatable(**self.names)

    def test_runtime_directory_is_restored(self):
        """Removed by another process, all of it or one file: it comes back, and a second daemon is refused."""
        self.node.configure(static("a", 2))
        self.node.start_kubelet()
        self.node.start()
        self.node.await_allocatable(a=2)
        pid = self.node.find("vendor.example/a")["pid"]
        files = {"lock", "control", "last-good.conf", "health"}
        gone = self.node.path("gone")

        def second():
            result = subprocess.run([self.node.daemon_program, "-c", self.node.config], capture_output=True, text=True)
            self.assertNotEqual(result.returncode, 0)
            self.assertIn("another devplugd already uses", result.stderr)

        until(lambda: files <= set(os.listdir(self.node.run)), "the files")
        for count, victim in enumerate((self.node.run, os.path.join(self.node.run, "lock"),
                                        os.path.join(self.node.run, "health"), os.path.join(self.node.run, "last-good.conf"),
                                        os.path.join(self.node.run, "control")), 1):
            # At once: devplugd would restore the first files before the last are removed.
            os.rename(victim, gone)
            (shutil.rmtree if os.path.isdir(gone) else os.unlink)(gone)
            until(lambda: self.node.output().count("devplugd restored them") == count, "the directory to be restored")
            until(lambda: files <= set(os.listdir(self.node.run)), "the files to be written again")
            second()
            until(lambda: len((self.node.resource("vendor.example/a") or {"devices": []})["devices"]) == 2, "the devices")
        self.assertEqual(self.node.find("vendor.example/a")["pid"], pid)
        self.node.reload()

    def test_control_socket_that_cannot_be_restored(self):
        """It is reported as restored when it is, and the cause of a failure is logged once."""
        self.node.configure(static("a", 2))
        self.node.start()
        control = os.path.join(self.node.run, "control")
        until(lambda: self.node.find("vendor.example/a"), "the daemon to answer")
        os.makedirs(control + ".new/not-empty")
        # In one step, or devplugd would restore it between two.
        RENAME_EXCHANGE = 2
        self.assertEqual(ctypes.CDLL(None, use_errno=True).renameat2(
            -1, control.encode(), -1, (control + ".new").encode(), RENAME_EXCHANGE), 0)
        words = "they cannot be restored: cannot listen on the control sockets: Directory not empty"
        until(lambda: words in self.node.output(), "devplugd to fail")
        self.assertNotIn("devplugd restored them", self.node.output())
        shutil.rmtree(control)
        until(lambda: "devplugd restored them" in self.node.output(), "the socket to be restored")
        self.assertEqual(self.node.output().count(words), 1)
        self.assertIsNotNone(self.node.resource("vendor.example/a"))

    def test_second_daemon_is_refused(self):
        self.node.start_kubelet()
        self.node.start()
        self.node.await_allocatable(**self.names)
        first, self.node.daemon = self.node.daemon, None
        self.node.start()
        self.assertEqual(self.node.daemon.wait(timeout=60), 1)
        self.node.daemon = first
        self.node.await_allocatable(**self.names)


if __name__ == "__main__":
    unittest.main()
