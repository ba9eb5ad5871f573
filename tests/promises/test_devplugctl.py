# SPDX-License-Identifier: Apache-2.0
"""What a person has: --diff is the plan that the reload logs (P3), devplugctl preview and reload, and its answers to state
files that are damaged."""
import json
import os
import signal
import subprocess
import unittest

from node import program, static, until
from tool import ToolTest

RESOURCE_MEMBERS = {
    "name": str, "driver": str, "state": str, "reason": str, "pid": int, "session": int, "restarts": int,
    "registered": bool, "devices_total": int, "devices_healthy": int, "since": str, "next_try": str,
    "registration": str, "refused": bool, "note": str, "allocations": int, "last_allocation": str, "devices": list,
    "scan_notes": list,
}
DEVICE_MEMBERS = {"id": str, "health": str, "reason": str, "since": str, "numa": list, "allocations": int}
MEMBERS = {"generation": int, "pid": int, "config_file": str, "running": bool, "reloads": int,
           "reload_failed": bool, "on_last_accepted": bool, "resources": list}


class Preview(ToolTest):
    def setUp(self):
        super().setUp()
        self.node.configure('{ name = "vendor.example/zero"; driver = "path"; match = "/dev/zero"; share = { replicas = 2; };'
                            ' container = { env = "UNIT=${id}"; mounts = ({ host = "/usr"; read_only = true; }); }; }',
                            '{ name = "vendor.example/none"; driver = "path"; match = "/dev/none*"; }')

    def test_what_a_container_would_be_given(self):
        answer = self.ctl("preview", "vendor.example/zero")
        self.assertEqual((answer.returncode, answer.stderr), (0, ""))
        for line in ("A container with zero#0 is given:", "/dev/zero rw (/dev/zero)", "UNIT=zero", "/usr ro (/usr)"):
            self.assertIn(line, answer.stdout)
        result = json.loads(self.ctl("--json", "preview", "vendor.example/zero", "zero#1").stdout)
        self.assertEqual(result["devices"], [{"id": "zero", "healthy": True, "numa": []}])
        self.assertEqual(result["ids"], ["zero#1"])
        self.assertEqual(result["answer"]["envs"], {"UNIT": "zero"})

    def test_nothing_here(self):
        answer = self.ctl("preview", "vendor.example/none")
        self.assertEqual((answer.returncode, answer.stdout), (0, "vendor.example/none: no device is found here.\n"))

    def test_what_is_wrong(self):
        answer = self.ctl("preview", "vendor.example/zero", "one")
        self.assertEqual(answer.returncode, 1)
        self.assertIn('device "one" is not one of vendor.example/zero', answer.stderr)
        answer = self.ctl("preview", "vendor.example/other")
        self.assertEqual(answer.returncode, 1)
        self.assertIn('declares no "vendor.example/other"', answer.stderr)
        self.breaks()
        answer = self.ctl("preview", "vendor.example/zero")
        self.assertEqual(answer.returncode, 78)
        self.assertRegex(answer.stderr, r"devplugd\.conf:\d+: ")


class Devices(ToolTest):
    def test_allocations_are_counted(self):
        """For each device, although nothing else of it has changed."""
        self.serve(static("a", 3))
        given, _ = self.node.pod("p1", a=1)
        chosen = given["resources"]["vendor.example/a"][0]
        until(lambda: {d["id"]: d["allocations"] for d in self.node.resource("vendor.example/a")["devices"]}
              == {f"a-{i}": int(f"a-{i}" == chosen) for i in range(3)}, "the allocation to be shown")


class Reload(ToolTest):
    def test_P3_diff_is_the_plan(self):
        self.node.configure(static("a", 1), static("b", 1), static("c", 1))
        self.assertEqual(self.diff(), [f"+ add vendor.example/{name}" for name in "abc"])
        self.assertFalse(os.path.exists(self.node.run))
        self.serve(static("a", 1), static("b", 1), static("c", 1))
        self.assertEqual(self.diff(), [f"= keep vendor.example/{name}" for name in "abc"])

        self.node.configure(static("d", 1), static("c", 2, "share = { replicas = 2; };"), static("a", 1),
                            text='log_level = "debug";')
        expected = ["~ change log_level", "+ add vendor.example/d", "~ change vendor.example/c: match, share",
                    "= keep vendor.example/a", "- remove vendor.example/b"]
        self.assertEqual(self.diff(), expected)
        before = len(self.node.output())
        answer = self.ctl("reload")
        self.assertEqual(answer.returncode, 0, answer.stderr)
        self.assertEqual(answer.stdout.splitlines(), expected + ["Reloaded."])
        self.assertEqual(self.plan_in_log(before), expected)
        self.node.await_allocatable(a=1, c=4, d=1)
        self.assertEqual(self.ctl("reload").stdout.splitlines()[-1], "Reloaded; nothing has changed.")

    def test_runtime_dir_at_the_next_start(self):
        self.serve(static("a", 1))
        before = len(self.node.output())
        with open(self.node.config) as file:
            text = file.read()
        with open(self.node.config, "w") as file:
            file.write(text.replace(self.node.run, self.node.run + "2"))
        self.node.daemon.send_signal(signal.SIGHUP)
        until(lambda: self.plan_in_log(before), "the plan to be logged")
        self.assertIn("! change runtime_dir (takes effect at the next start)", self.plan_in_log(before))
        answer = subprocess.run([program("devplugctl"), "--runtime-dir", self.node.run, "status"],
                                capture_output=True)
        self.assertEqual(answer.returncode, 0)

    def test_bad_file_is_not_sent(self):
        self.serve(static("a", 1))
        self.breaks()
        for answer in (self.ctl("reload"), self.run_tool("devplugd", "--diff")):
            self.assertEqual(answer.returncode, 78)
            self.assertRegex(answer.stderr, rf"{self.node.config}:\d+: ")
        self.assertFalse(self.node.status()["reload_failed"])
        self.assertEqual(self.node.status()["reloads"], 0)
        # By hand it is refused, and that is seen.
        self.node.daemon.send_signal(signal.SIGHUP)
        until(lambda: self.node.status()["reload_failed"], "the reload to be refused")
        self.assertEqual(self.node.generation(), 1)
        self.assertIn("The last reload failed", self.ctl("status").stdout)

    def test_without_a_daemon(self):
        self.node.configure(static("a", 1))
        answer = self.ctl("reload")
        self.assertEqual(answer.returncode, 3, answer.stderr)
        self.assertIn("not running", answer.stderr)


class Damaged(ToolTest):
    """Files that are not what devplugd writes are shown as far as they go, and never crash a tool."""

    def write(self, name, content):
        path = os.path.join(self.node.run, name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "wb") as file:
            file.write(content)

    def check_shape(self, document):
        self.assertEqual({key: type(value) for key, value in document.items()}, MEMBERS)
        for resource in document["resources"]:
            self.assertEqual({key: type(value) for key, value in resource.items()}, RESOURCE_MEMBERS)
            for device in resource["devices"]:
                self.assertEqual({key: type(value) for key, value in device.items()}, DEVICE_MEMBERS)

    def test_shape(self):
        self.serve(static("a", 2))
        answer = json.loads(self.ctl("status", "--json").stdout)
        self.check_shape(answer)
        self.assertEqual(answer["config_file"], self.node.config)
        self.assertEqual(len(answer["resources"][0]["devices"]), 2)
        self.check_shape(json.loads(self.ctl("explain", "vendor.example/a", "--json").stdout))

    def test_no_state(self):
        self.node.configure(static("a", 1))
        answer = self.ctl("status", "--json")
        self.assertEqual(answer.returncode, 3)
        self.check_shape(json.loads(answer.stdout))

    def test_wrong_types(self):
        self.node.configure(static("a", 1))
        resource = {"name": ["x"], "state": 7, "pid": "9", "devices_file": "devices/a.json", "session": {}}
        escape = {"name": "vendor.example/e\u001b[31m", "devices_file": "devices/../../secret"}
        self.write("state.json", json.dumps({
            "generation": "many", "pid": None, "reload_failed": "no", "config_file": 5,
            "resources": [resource, 7, None, escape]}).encode())
        self.write("devices/a.json", b'{"devices": [{"id": 5, "numa": ["x", 1]}, "y"], '
                   b'"scan_notes": [7, "\\u001b[31m"], "allocations": {}}')
        self.write("secret", b'{"devices": [{"id": "stolen"}]}')
        answer = self.ctl("status", "--json")
        self.assertEqual(answer.returncode, 3, answer.stderr)
        document = json.loads(answer.stdout)
        self.check_shape(document)
        self.assertEqual([len(r["devices"]) for r in document["resources"]], [1, 0])
        self.assertEqual([len(r["scan_notes"]) for r in document["resources"]], [1, 0])
        self.assertNotIn("\u001b", answer.stdout)
        for command in ("status", "devices"):
            answer = self.ctl(command)
            self.assertEqual(answer.returncode, 3, answer.stderr)
            self.assertNotIn("\u001b", answer.stdout)

    def test_garbage(self):
        self.node.configure(static("a", 1))
        os.makedirs(self.node.run)
        for content in (b"", b"{", b"\x00\xff" * 100, b'{"resources": ' + b"[" * 5000):
            self.write("state.json", content)
            for command in ("status", "devices", "reload"):
                answer = self.ctl(command)
                self.assertEqual(answer.returncode, 1)
                self.assertIn("not a state file", answer.stderr)
        self.write("state.json", b'[1, 2]')
        self.assertEqual(self.ctl("status").returncode, 3)
        os.unlink(os.path.join(self.node.run, "state.json"))
        os.mkfifo(os.path.join(self.node.run, "state.json"))
        self.assertEqual(self.ctl("status").returncode, 1)

    def test_usage(self):
        for words in ([], ["dance"], ["status", "a", "b"], ["explain"], ["cordon"], ["uncordon"], ["reload", "x"],
                      ["cordon", "a", "b", "c"], ["reload", "--json"], ["--runtime-dir", "/x", "status"]):
            with self.subTest(words):
                self.assertEqual(self.ctl(*words).returncode, 2)
        for tool in ("devplugctl", "devplugd"):
            self.assertEqual(self.run_tool(tool, "--help").returncode, 0)
            self.assertRegex(self.run_tool(tool, "--version").stdout, rf"^{tool} \d")


if __name__ == "__main__":
    unittest.main()
