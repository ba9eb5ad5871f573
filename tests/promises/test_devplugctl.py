# SPDX-License-Identifier: Apache-2.0
"""What a person has: --diff is the plan that the reload logs (P3), a broken file at a restart (P1), devplugctl
reload, cordon, explain, and its answers to state files that are damaged."""
import json
import os
import re
import signal
import socket
import stat
import subprocess
import unittest

from node import NodeTest, program, static, until

RESOURCE_MEMBERS = {
    "name": str, "driver": str, "state": str, "reason": str, "pid": int, "session": int, "restarts": int,
    "registered": bool, "devices_total": int, "devices_healthy": int, "since": str, "next_try": str,
    "registration": str, "refused": bool, "note": str, "allocations": int, "last_allocation": str, "devices": list,
    "scan_notes": list,
}
DEVICE_MEMBERS = {"id": str, "health": str, "reason": str, "since": str, "numa": list, "allocations": int}
MEMBERS = {"generation": int, "pid": int, "config_file": str, "running": bool, "reloads": int,
           "reload_failed": bool, "on_last_accepted": bool, "resources": list}


class ToolTest(NodeTest):
    def run_tool(self, name, *words):
        return subprocess.run([program(name), "-c", self.node.config, *words],
                              capture_output=True, text=True, timeout=60)

    def ctl(self, *words):
        return self.run_tool("devplugctl", *words)

    def diff(self):
        answer = self.run_tool("devplugd", "--diff")
        self.assertEqual(answer.returncode, 0, answer.stderr)
        return answer.stdout.splitlines()

    def plan_in_log(self, before):
        """The lines of a plan that devplugd has logged since."""
        lines = self.node.output()[before:].splitlines()
        return [m.group(1) for line in lines if (m := re.match(r"devplugd: ([-=+~!] .*)", line))]

    def health(self, name):
        resource = self.node.resource(f"vendor.example/{name}") or {"devices": []}
        return {d["id"]: (d["health"], d["reason"]) for d in resource["devices"]}

    def serve(self, *resources, text=""):
        self.node.configure(*resources, text=text)
        self.node.start_kubelet()
        self.node.start()
        return self.node.await_serving()

    def breaks(self):
        with open(self.node.config, "a") as file:
            file.write("\nzork = ;\n")


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


class LastAccepted(ToolTest):
    def last(self):
        return os.path.join(self.node.run, "last-good.conf")

    def test_P1_broken_file_at_a_restart(self):
        self.serve(static("a", 2), static("b", 1))
        self.assertEqual(stat.S_IMODE(os.stat(self.last()).st_mode), 0o600)
        for stop in (signal.SIGKILL, signal.SIGTERM):
            with self.subTest(stop=stop):
                self.node.stop(stop)
                self.breaks()
                before = len(self.node.output())
                self.node.start()
                self.node.await_allocatable(a=2, b=1)
                self.assertTrue(self.node.status()["on_last_accepted"])
                self.assertRegex(self.node.output()[before:], rf"{self.node.config}:\d+: ")
                self.assertIn("last accepted configuration", self.ctl("status").stdout)
        # It is one to check, and to mend.
        self.assertEqual(self.run_tool("devplugd", "--check").returncode, 78)
        self.node.configure(static("a", 3))
        self.assertEqual(self.ctl("reload").returncode, 0)
        self.assertFalse(self.node.status()["on_last_accepted"])
        self.node.await_allocatable(a=3)

    def test_P1_missing_file_at_a_restart(self):
        self.serve(static("a", 2))
        self.node.stop()
        os.unlink(self.node.config)
        self.node.environment["RUNTIME_DIRECTORY"] = self.node.run
        self.node.start()
        self.node.await_allocatable(a=2)
        self.assertIn("does not exist", self.node.output())

    def test_cold_start(self):
        self.serve(static("a", 2))
        self.node.stop()
        self.breaks()
        with open(self.last()) as file:
            text = file.read()
        for what, left in (("another boot", re.sub("boot [0-9a-f]{4}", "boot zzzz", text)),
                           ("damaged", text.replace("resources", "resauces")), ("empty", ""), ("none", None)):
            with self.subTest(what):
                if left is None:
                    os.unlink(self.last())
                else:
                    with open(self.last(), "w") as file:
                        file.write(left)
                answer = self.run_tool("devplugd")
                self.assertEqual(answer.returncode, 78, answer.stderr)
                self.assertRegex(answer.stderr, rf"{self.node.config}:\d+: ")


class Cordon(ToolTest):
    def test_cordon(self):
        before = self.serve(static("a", 3), static("b", 1))
        answer = self.ctl("cordon", "a-1", 'fan "broken"')
        self.assertEqual(answer.returncode, 0, answer.stderr)
        self.assertIn("vendor.example/a/a-1", answer.stdout)
        self.node.await_allocatable(a=2, b=1)
        until(lambda: self.health("a")["a-1"] == ("Unhealthy", 'cordoned: fan "broken"'), "the reason")
        after = self.node.await_serving()
        for name in before:
            for key in ("pid", "session"):
                self.assertEqual(after[name][key], before[name][key])
        self.assertIn("uncordon", self.ctl("explain", "vendor.example/a").stdout)

        # It outlives the daemon.
        self.node.stop()
        self.node.start()
        self.node.await_allocatable(a=2, b=1)
        self.assertEqual(self.ctl("uncordon", "a-1").returncode, 0)
        self.node.await_allocatable(a=3, b=1)
        self.assertEqual(os.listdir(self.node.config + ".d"), [])
        answer = self.ctl("uncordon", "a-1")
        self.assertEqual(answer.returncode, 1)
        self.assertIn("not cordoned", answer.stderr)

    def test_patterns_and_names(self):
        self.serve(static("a", 3), static("b", 3))
        self.assertEqual(self.ctl("cordon", "vendor.example/b/*").returncode, 0)
        self.node.await_allocatable(a=3, b=0)
        until(lambda: self.health("b")["b-2"] == ("Unhealthy", "cordoned"), "no reason to be given")
        self.assertEqual(self.ctl("cordon", "?-0", "why").returncode, 0)
        self.node.await_allocatable(a=2, b=0)
        # One of many cannot be taken out of a pattern.
        answer = self.ctl("uncordon", "b-2")
        self.assertEqual(answer.returncode, 1)
        self.assertIn("cordon.conf", answer.stderr)
        self.assertEqual(self.ctl("uncordon", "vendor.example/b/*").returncode, 0)
        self.assertEqual(self.ctl("uncordon", "?-0").returncode, 0)
        self.node.await_allocatable(a=3, b=3)

    def test_refusals(self):
        self.serve(static("a", 1))
        for words in (["cordon", "a-7"], ["cordon", "a/b"], ["cordon", ""], ["cordon", "a-0", ""],
                      ["cordon", "a-0", "x" * 201], ["uncordon", "a-0"]):
            with self.subTest(words):
                answer = self.ctl(*words)
                self.assertEqual(answer.returncode, 1, answer.stdout)
                self.assertEqual(answer.stdout, "")
        self.assertEqual(self.health("a")["a-0"][0], "Healthy")
        # A broken file keeps it from taking effect, which is said.
        self.breaks()
        answer = self.ctl("cordon", "a-0")
        self.assertEqual(answer.returncode, 1)
        self.assertIn("not in force", answer.stderr)

    def test_in_the_file(self):
        self.serve(static("a", 2, 'cordon = ( { id = "a-0"; reason = "slow"; } );'))
        self.node.await_allocatable(a=1)
        answer = self.ctl("uncordon", "a-0")
        self.assertEqual(answer.returncode, 1)
        self.assertIn(f"{self.node.config}:", answer.stderr)


class Explain(ToolTest):
    def explain(self, name, returncode=0):
        answer = self.ctl("explain", f"vendor.example/{name}")
        self.assertEqual(answer.returncode, returncode, answer.stderr)
        return answer.stdout

    def test_states(self):
        self.node.configure(static("a", 1), static("w", 1, 'registration = "watcher";'),
                            static("f", 1, 'user = "nobody-of-that-name";'),
                            text="")
        self.node.start()
        self.node.await_state("vendor.example/a", "waiting")
        said = until(lambda: "kubelet.sock does not exist" in (text := self.explain("a")) and text, "the reason")
        self.assertIn('"waiting"', said)
        self.assertIn(str(self.node.resource("vendor.example/a")["pid"]), said)

        self.node.await_state("vendor.example/f", "backoff")
        said = self.explain("f")
        self.assertIn("nobody-of-that-name", said)
        self.assertIn("again at", said)

        self.node.start_kubelet()
        self.node.await_state("vendor.example/a", "serving")
        self.assertIn("session with the kubelet is number", self.explain("a"))
        self.node.stop()
        self.explain("a", 3)

    def test_start_that_fails_is_said_once(self):
        self.node.configure(static("a", 1, 'user = "no-such-user";'))
        self.node.start()
        tries = set()

        def tried_often():
            state = json.loads(self.ctl("status", "--json").stdout)
            tries.update(r["next_try"] for r in state["resources"] if r["state"] == "backoff")
            return len(tries) > 3

        until(tried_often, "some tries")
        self.assertEqual(self.node.output().count('user "no-such-user" does not exist'), 1, self.node.output())

    def test_what_keeps_devices_from_being_found(self):
        good = self.node.path("good")
        self.node.configure('{ name = "vendor.example/a"; driver = "exec"; match = ( { interval = 0.2; command = [ '
                            f'"/bin/sh", "-c", "cat {good} || {{ echo no server >&2; exit 3; }}" ]; }} ); }}')
        self.node.start_kubelet()
        self.node.start()
        self.node.await_state("vendor.example/a", "serving")
        trouble = "no server; there is no list yet"
        said = until(lambda: trouble in (text := self.explain("a")) and text, "the reason")
        self.assertIn("The last look for devices met with a problem: /bin/sh failed with exit status 3", said)
        self.assertNotIn("No device matches", said)
        self.assertRegex(self.ctl("status").stdout, f"vendor.example/a: /bin/sh failed .*{trouble}")
        with open(good + ".new", "w") as file:
            file.write('{"version": 1, "devices": []}')
        os.rename(good + ".new", good)
        until(lambda: "No device matches" in self.explain("a"), "the end of the trouble")
        self.assertNotIn("no server", self.ctl("status").stdout)

    def test_unknown(self):
        self.serve(static("a", 1))
        self.assertIn("no resource", self.ctl("explain", "vendor.example/b").stderr)
        self.explain("b", 1)


class Watcher(ToolTest):
    def test_socket_in_the_registry(self):
        registry = self.node.path("registry")
        text = f'kubelet = {{ plugins_registry_dir = "{registry}"; registration = "watcher"; }};'
        with open(self.node.config, "w") as file:
            file.write(f'runtime_dir = "{self.node.run}";\n{text}\nresources = ( {static("a", 1)} );\n')
        self.node.start()
        until(lambda: registry in (self.node.resource("vendor.example/a") or {"reason": ""})["reason"],
              "the directory to be missed")
        self.assertEqual(self.node.resource("vendor.example/a")["state"], "waiting")
        os.mkdir(registry)
        self.node.await_state("vendor.example/a", "registering")
        names = os.listdir(registry)
        self.assertEqual(len(names), 1)
        self.assertRegex(names[0], r"^devplugd-[-0-9a-f]*\.sock$")
        with socket.socket(socket.AF_UNIX) as client:
            client.connect(os.path.join(registry, names[0]))
        self.assertIn("plugin watcher", self.ctl("explain", "vendor.example/a").stdout)

        # A killed one's socket is removed, a stopped one removes its own.
        self.node.stop(signal.SIGKILL)
        self.node.start()
        until(lambda: (left := os.listdir(registry)) != names and len(left) == 1, "another socket")
        self.node.stop()
        self.assertEqual(os.listdir(registry), [])


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
