# SPDX-License-Identifier: Apache-2.0
"""P1 at a reload: a broken file changes nothing (generation, processes, sessions, streams), is told in the log and
in the status, and the next good file works."""
import json
import os
import shutil
import signal
import subprocess
import unittest

from node import NodeTest, program, static, until
from test_bad_configuration import BAD


class BadReload(NodeTest):
    def setUp(self):
        super().setUp()
        self.node.configure(static("a", 2), static("b", 3))
        self.node.start_kubelet()
        self.node.start()
        self.node.await_allocatable(a=2, b=3)
        self.node.await_serving()
        with open(self.node.config) as file:
            self.good = file.read()
        self.before = self.picture()

    def picture(self):
        """All that must not change."""
        state = self.node.state()
        seen = {r["name"]: (r["connection"], r["lists"], r["allocatable"])
                for r in self.node.call_kubelet("status")["resources"]}
        return state["generation"], [(r["name"], r["pid"], r["session"], r["restarts"], r["state"])
                                     for r in state["resources"]], seen

    def write(self, content):
        """Makes the file what it should be; a function makes it something that is no file."""
        if os.path.isdir(self.node.config):
            os.rmdir(self.node.config)
        elif os.path.lexists(self.node.config):
            os.unlink(self.node.config)
        if callable(content):
            content(self.node.config)
        else:
            # In one step: the reload of an earlier signal must not find the file empty, which is valid.
            with open(self.node.config + ".new", "wb") as file:
                file.write(content if isinstance(content, bytes) else content.encode())
            os.rename(self.node.config + ".new", self.node.config)

    def status(self):
        answer = subprocess.run([program("devplugctl"), "--runtime-dir", self.node.run, "status", "--json"],
                                capture_output=True)
        self.assertEqual(answer.returncode, 0, answer.stderr)
        return json.loads(answer.stdout)

    def check(self):
        answer = subprocess.run([program("devplugctl"), "--runtime-dir", self.node.run, "check"], capture_output=True, text=True)
        return answer.returncode, answer.stdout

    def kinds(self):
        def broken(text):
            return self.good.replace("resources = (", text + "\nresources = (")

        kinds = {what: self.good.split("resources")[0] + "resources = (\n" + ",\n".join(resources) + "\n);\n"
                 for what, (resources, _) in BAD.items()}
        kinds.update({
            "cut in the middle": self.good[: len(self.good) * 2 // 3],
            "not libconfig": "resources:\n  - name: vendor.example/a\n",
            "bytes": bytes(range(256)) * 8,
            "a NUL byte": self.good.encode() + b"\0\n",
            "unknown key above": broken("resourcs = ( );"),
            "key twice": broken("log_level = 3; log_level = 4;"),
            "resources is no list": self.good.split("resources")[0] + 'resources = "all";\n',
            "include of nothing": '@include "/nonexistent/devplugd.conf"\n' + self.good,
            "include of itself": f'@include "{self.node.config}"\n' + self.good,
            "larger than 4 MiB": self.good + "#" * (4 << 20),
            "unterminated comment": self.good + "/*",
            "unterminated string": self.good + 'x = "',
            "removed": lambda path: None,
            "a directory": os.mkdir,
            "dangling link": lambda path: os.symlink("nowhere", path),
            "link to itself": lambda path: os.symlink(path, path),
            "a user that does not exist": self.good.replace(static("a", 2), static("a", 2, 'user = "no-such-user";')),
        })
        return kinds

    def test_P1_broken_files_change_nothing(self):
        kinds = self.kinds()
        self.assertGreaterEqual(len(kinds), 20)
        for what, content in kinds.items():
            with self.subTest(what):
                self.write(content)
                said = len(self.node.output())
                self.node.daemon.send_signal(signal.SIGHUP)
                until(lambda: "rejected" in self.node.output()[said:], f"{what} to be rejected")
                until(lambda: self.node.state()["reload_failed"], "the status to say so")
                # One line for the file and at least one for what is wrong with it.
                self.assertRegex(self.node.output()[said:], rf"(?m)^devplugd: {self.node.config}(:\d+)?: .")
                self.assertEqual(self.picture(), self.before)
                # Also to people, who need not have a file that can be read for it.
                self.assertTrue(self.status()["reload_failed"])
                self.assertEqual(self.check(), (1, f"{self.node.config} is not applied, because the last reload failed\n"))
                # And it is no longer so after the next good one, which changes nothing either.
                self.write(self.good)
                self.node.reload()
                self.assertFalse(self.node.status()["reload_failed"])
                self.assertEqual(self.check(), (0, "2 resources, 5 devices: no problem\n"))
                self.before = self.before[0] + 1, *self.before[1:]
                self.assertEqual(self.picture(), self.before)
        got, error = self.node.pod("one", a=2, b=3)
        self.assertIsNone(error)
        self.assertEqual(len(got["resources"]), 2)

    def test_P1_configuration_that_a_process_refuses(self):
        self.write(self.good.replace(static("a", 2), static("a", 2, 'host_root = "/nonexistent";')))
        self.node.daemon.send_signal(signal.SIGHUP)
        until(lambda: self.node.find("vendor.example/a")["refused"], "the process to refuse it")
        status, text = self.check()
        self.assertEqual(status, 1)
        self.assertTrue(text.startswith("vendor.example/a: new configuration refused, the previous one stays applied: "), text)
        document = json.loads(subprocess.run([program("devplugctl"), "--runtime-dir", self.node.run, "check", "--json"],
                                             stdout=subprocess.PIPE).stdout)
        self.assertEqual((document["degraded"], document["failed"]), (1, 0))

    def test_P1_broken_drop_in(self):
        folder = self.node.config + ".d"
        os.mkdir(folder)
        with open(folder + "/50-broken.conf", "w") as file:
            file.write("resources = ( { name = ; } );\n")
        self.node.daemon.send_signal(signal.SIGHUP)
        until(lambda: self.node.state()["reload_failed"], "the drop-in to be rejected")
        self.assertIn("50-broken.conf:1:", self.node.output())
        self.assertEqual(self.picture(), self.before)
        shutil.rmtree(folder)
        self.node.reload()
        self.assertFalse(self.node.status()["reload_failed"])

    def test_P1_good_file_after_many_bad_ones(self):
        for _ in range(20):
            self.write("resources = (")
            self.node.daemon.send_signal(signal.SIGHUP)
        until(lambda: self.node.state()["reload_failed"], "the status to say so")
        self.assertEqual(self.picture(), self.before)
        self.node.configure(static("a", 4), static("c", 1))
        self.node.reload()
        self.node.await_allocatable(a=4, c=1)


if __name__ == "__main__":
    unittest.main()
