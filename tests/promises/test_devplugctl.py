# SPDX-License-Identifier: Apache-2.0
"""What a person has: --diff is the plan that the reload logs (P3), devplugctl preview and reload, and what it
makes of answers that are damaged."""
import glob
import json
import os
import re
import shutil
import signal
import subprocess
import unittest

from node import program, static, until
from tool import ToolTest, fake_daemon, run_as_nobody

# Not known while no kubelet can be asked.
NUMBER = "a number or null"

RESOURCE_MEMBERS = {
    "name": str, "driver": str, "state": str, "reason": str, "pid": int, "session": int, "restarts": int,
    "registered": bool, "devices_total": int, "devices_healthy": int, "devices_noticed": int, "since": str, "next_try": str,
    "registration": str, "refused": bool, "note": str, "allocations": int, "last_allocation": str, "devices": list,
    "scan_notes": list, "failures": list, "labels_failure": str, "offered": int, "healthy": int, "in_use": NUMBER, "free": NUMBER,
}
DEVICE_MEMBERS = {"id": str, "health": str, "reason": str, "since": str, "numa": list, "findings": list, "allocations": int,
                  "replicas": int, "pods": list, "booked": list}
MEMBERS = {"version": int, "generation": int, "pid": int, "config_file": str, "running": bool, "reloads": int,
           "reload_failed": bool, "on_last_accepted": bool, "pods_failure": str, "pods_waited": int, "metrics_failure": str,
           "resources": list}


class Preview(ToolTest):
    def setUp(self):
        super().setUp()
        self.node.configure('{ name = "vendor.example/zero"; driver = "path"; match = "/dev/zero"; share = { replicas = 2; };'
                            ' container = { env = "UNIT=${id}"; mounts = ({ host = "/usr"; read_only = true; }); }; }',
                            '{ name = "vendor.example/none"; driver = "path"; match = "/dev/none*"; }')

    def test_what_a_container_would_get(self):
        answer = self.ctl("preview", "vendor.example/zero")
        self.assertEqual((answer.returncode, answer.stderr), (0, ""))
        for line in ("A container with zero#0 gets:", "/dev/zero rw (/dev/zero)", "UNIT=zero", "/usr ro (/usr)"):
            self.assertIn(line, answer.stdout)
        result = json.loads(self.ctl("--json", "preview", "vendor.example/zero", "zero#1").stdout)
        self.assertEqual(result["devices"], [{"id": "zero", "health": "Healthy", "reason": "", "numa": []}])
        self.assertEqual(result["ids"], ["zero#1"])
        self.assertEqual(result["answer"]["envs"], {"UNIT": "zero"})

    def test_nothing_here(self):
        answer = self.ctl("preview", "vendor.example/none")
        self.assertEqual((answer.returncode, answer.stdout), (0, 'Note: match[0]: nothing matches "/dev/none*"\nvendor.example/none: no device found.\n'))

    def test_what_is_wrong(self):
        answer = self.ctl("preview", "vendor.example/zero", "one")
        self.assertEqual(answer.returncode, 1)
        self.assertIn('device "one" does not exist in vendor.example/zero', answer.stderr)
        answer = self.ctl("preview", "vendor.example/other")
        self.assertEqual(answer.returncode, 1)
        self.assertIn('has no enabled resource "vendor.example/other"', answer.stderr)
        self.breaks()
        answer = self.ctl("preview", "vendor.example/zero")
        self.assertEqual(answer.returncode, 78)
        self.assertRegex(answer.stderr, r"devplugd\.conf:\d+: ")


    def test_preview_marks_what_crio_refuses(self):
        """In a privileged container, a device whose path in the container is also one of the host's."""
        entry = '{ name = "vendor.example/%s"; driver = "path"; match = ( { path = "/dev/zero"; as = "%s"; } ); overlap = true; }'
        self.node.configure(entry % ("a", "/dev/null"), entry % ("b", "/dev/no-such-node"), entry % ("c", "/dev/zero"))
        for name, path, mark in (("a", "/dev/null", True), ("b", "/dev/no-such-node", False), ("c", "/dev/zero", False)):
            answer = self.ctl("preview", f"vendor.example/{name}").stdout
            self.assertIn(f"{path} rw (/dev/zero){' *' if mark else ''}\n", answer)
            self.assertEqual("CRI-O refuses" in answer, mark)

    def identity_in_preview(self, more="", *options):
        """User id, kind of seccomp and no-new-privileges of a program that preview runs."""
        file = self.node.path("identity")
        with open(file, "w") as stream:
            stream.write("#!/bin/sh\nfield() { sed -n \"s/^$1:\\t//p\" /proc/self/status; }\n"
                         "echo '{\"version\":1,\"devices\":[{\"id\":\"'"
                         "$(id -u)-$(field Seccomp)-$(field NoNewPrivs)'\"}]}'\n")
        os.chmod(file, 0o755)
        self.node.configure(f'{{ name = "vendor.example/who"; driver = "exec"; match = ( {{ command = [ "{file}" ]; }} ); {more} }}')
        answer = self.ctl("preview", "vendor.example/who", "--json", *options)
        self.assertEqual(answer.returncode, 0, answer.stderr)
        return json.loads(answer.stdout)["devices"][0]["id"].split("-")

    def test_P18_preview_runs_programs_as_a_child_does(self):
        uid, *rest = self.identity_in_preview()
        self.assertTrue(60706 <= int(uid) <= 65519, uid)
        self.assertEqual(rest, ["2", "1"])
        self.assertEqual(self.identity_in_preview("", "--root", "/"), [uid, "2", "1"])
        self.assertEqual(self.identity_in_preview('user = "12345";'), ["12345", "2", "1"])
        self.assertEqual(self.identity_in_preview('user = "root";')[0], "0")

    def test_preview_runs_no_probe(self):
        self.node.configure(static("a", 1, 'health = ( { probe = "file"; path = "/nothing/${id}"; healthy = "ok"; } );'))
        answer = self.ctl("preview", "vendor.example/a").stdout
        self.assertRegex(answer, r"\na-0 +not probed ")
        self.assertIn("The probes of the resource were not run.", answer)


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
        self.assertEqual(self.diff(), ["= keep 3 resources"])

        self.node.configure(static("d", 1), static("c", 2, "share = { replicas = 2; };"), static("a", 1),
                            text='log_level = "debug";')
        expected = ["~ change log_level", "+ add vendor.example/d", "~ change vendor.example/c: match, share",
                    "- remove vendor.example/b", "= keep 1 resource"]
        self.assertEqual(self.diff(), expected)
        before = len(self.node.output())
        answer = self.ctl("reload")
        self.assertEqual(answer.returncode, 0, answer.stderr)
        self.assertEqual(answer.stdout.splitlines(), expected + ["Reloaded."])
        self.assertEqual(self.plan_in_log(before), expected)
        self.node.await_allocatable(a=1, c=4, d=1)
        self.assertEqual(self.ctl("reload").stdout.splitlines()[-1], "Reloaded; nothing has changed.")

    def test_another_runtime_dir_is_refused(self):
        """The daemon's state is where it is; each way to reload says so, with the remedy, and nothing is lost."""
        self.serve(static("a", 1))
        with open(self.node.config) as file:
            text = file.read()
        with open(self.node.config, "w") as file:
            file.write(text.replace(self.node.run, self.node.run + "2"))
        before = len(self.node.output())
        self.node.daemon.send_signal(signal.SIGHUP)
        until(lambda: "rejected" in self.node.output()[before:], "the reload to be refused")
        remedy = f'runtime_dir: cannot change from "{self.node.run}" while devplugd runs: ' \
                 f'run "devplugctl allow {self.node.run}2 && systemctl restart devplugd"'
        self.assertIn(remedy, self.node.output()[before:])
        here = ("--runtime-dir", self.node.run)
        status = self.run_tool("devplugctl", *here, "status", config=False)
        self.assertEqual((status.returncode, "vendor.example/a" in status.stdout), (0, True))
        answer = self.run_tool("devplugctl", *here, "reload", config=False)
        self.assertEqual((answer.returncode, remedy in answer.stderr), (78, True))
        # As ExecReload= of the service runs it.
        service = {"RUNTIME_DIRECTORY": self.node.run}
        answer = self.run_tool("devplugd", "--check", environment=service)
        self.assertEqual((answer.returncode, remedy in answer.stderr), (78, True))
        self.assertEqual(self.run_tool("devplugd", "--diff", environment=service).stdout.splitlines(),
                         ["! change runtime_dir (refused: it needs a restart)", "= keep 1 resource"])
        self.assertEqual(self.run_tool("devplugd", "--check").returncode, 0)

    def test_a_file_that_devplugd_does_not_read_is_refused(self):
        """Nothing of it would be applied."""
        self.serve(static("a", 1))
        with open(self.node.config) as file:
            text = file.read()
        other, same = self.node.path("other.conf"), self.node.path("same.conf")
        with open(other, "w") as file:
            file.write(text.replace("/a", "/b"))
        os.symlink(self.node.config, same)
        for words in (["reload"], ["cordon", "a-0"], ["uncordon", "a-0"]):
            with self.subTest(words):
                answer = self.run_tool("devplugctl", "-c", other, *words, config=False)
                self.assertEqual((answer.returncode, answer.stdout, answer.stderr), (
                    1, "", f"devplugctl: devplugd runs with {self.node.config}, not with {other}\n"))
        self.assertFalse(os.path.exists(other + ".d"))
        answer = self.run_tool("devplugctl", "-c", same, "reload", config=False)
        self.assertEqual((answer.returncode, answer.stderr), (0, ""))

    def test_a_relative_name_is_that_of_the_directory_where_devplugd_started(self):
        self.node.configure(static("a", 1))
        self.node.prefix = ["env", "-C", self.node.dir]
        self.node.start_kubelet()
        config, self.node.config = self.node.config, "devplugd.conf"
        self.node.start()
        self.node.config = config
        self.node.await_serving()
        self.assertEqual(self.node.state()["config_file"], config)
        answer = self.ctl("reload")
        self.assertEqual((answer.returncode, answer.stderr), (0, ""))
        other = shutil.copy(config, self.node.path("other.conf"))
        answer = self.run_tool("devplugctl", "-c", other, "reload", config=False)
        self.assertEqual((answer.returncode, answer.stderr), (
            1, f"devplugctl: devplugd runs with {config}, not with {other}\n"))
        self.assertEqual(self.run_tool("devplugctl", "--runtime-dir", self.node.run, "cordon", "a-0", config=False).returncode, 0)
        self.node.await_allocatable(a=0)

    def test_changes_that_are_not_known(self):
        """The saved configuration is not valid, so nothing is said about changes."""
        self.serve(static("a", 1))
        self.node.configure(static("a", 2))
        with open(os.path.join(self.node.run, "last-good.conf"), "w") as file:
            file.write("zork")
        answer = self.ctl("reload")
        self.assertEqual((answer.returncode, answer.stdout), (0, "Reloaded.\n"))
        self.assertIn("devplugctl: cannot determine what will change: ", answer.stderr)
        self.node.await_allocatable(a=2)

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
        self.assertRegex(self.ctl("status").stdout, f"The last reload failed; .*devplugd -c {self.node.config} --check")

    def test_without_a_daemon(self):
        self.node.configure(static("a", 1))
        words = f"devplugd is not running: nothing answers in {self.node.run}"
        for command in (["status"], ["reload"], ["rescan"]):
            with self.subTest(command):
                answer = self.ctl(*command)
                self.assertEqual((answer.returncode, answer.stderr), (3, f"devplugctl: {words}\n"))
        answer = self.ctl("cordon", "--force", "vendor.example/a/a-0")
        self.assertEqual((answer.returncode, answer.stderr),
                         (0, f"devplugctl: {words}; this takes effect when it starts\n"))
        answer = self.ctl("wait", "vendor.example/a", "--timeout", "0")
        self.assertEqual((answer.returncode, answer.stderr), (1, f"devplugctl: vendor.example/a: waited 0 s; {words}\n"))
        answer = self.ctl("resume", "vendor.example/a", "a-0")
        self.assertEqual((answer.returncode, answer.stderr), (3, f"devplugctl: {words}\n"))
        answer = self.ctl("cordon", "a-0")
        self.assertEqual((answer.returncode, answer.stderr),
                         (1, f"devplugctl: {words}; name the device as RESOURCE/DEVICE\n"))

    def test_a_file_whose_name_is_not_utf8(self):
        self.node.configure(static("a", 1))
        name = os.path.join(self.node.dir.encode(), b"devplugd-\xe9.conf")
        os.rename(self.node.config, name)
        self.node.config = os.fsdecode(name)
        self.node.start_kubelet()
        self.node.start()
        self.node.await_serving()
        self.assertEqual(os.path.basename(self.node.status()["config_file"]), "devplugd-?.conf")


class Troubles(ToolTest):
    def test_shared_reasons_are_printed_once(self):
        """A reason of several resources, or of several devices."""
        probe = f'health = ( {{ probe = "file"; path = "{self.node.path("health")}"; missing = "healthy"; healthy = "ok"; }} );'
        self.serve(static("a", 5, probe), static("b", 1))
        with open(self.node.path("health"), "w") as file:
            file.write("hot")
        self.node.await_allocatable(a=0, b=1)
        until(lambda: re.search(r"(?m)^vendor.example/a, devices a-0, a-1, a-2 and 2 more \(unhealthy since .*Z\): hot$",
                                self.ctl("status").stdout), "the reason of five devices")
        self.node.stop_kubelet(signal.SIGKILL)
        for name in "ab":
            self.node.await_state(f"vendor.example/{name}", "waiting")
        until(lambda: re.search(r"(?m)^vendor.example/a, vendor.example/b \(waiting since .*Z\): .*: Connection refused$",
                                self.ctl("status").stdout), "the reason of both")
        self.assertIn("No kubelet listens on that socket", self.ctl("explain", "vendor.example/b").stdout)

    def mount(self, folder):
        os.mkdir(folder)
        subprocess.run(["mount", "-t", "tmpfs", "-o", "size=256k,mode=755", "tmpfs", folder], check=True)
        self.addCleanup(subprocess.run, ["umount", "--lazy", folder], check=True)

    def fill(self, folder):
        """Returns the file that fills it."""
        filler = os.path.join(folder, "filler")
        with open(filler, "wb", buffering=0) as file, self.assertRaises(OSError):
            while True:
                file.write(bytes(1024))
        return filler

    def test_a_full_disk(self):
        """Status shows the devices as they are, and their health is saved when there is room again."""
        self.mount(self.node.run)
        self.serve(static("a", 2, f'health = ( {{ probe = "file"; path = "{self.node.path("health")}"; missing = "healthy"; '
                          'healthy = "ok"; } );'))
        saved = os.path.join(self.node.run, "health/*.json")
        until(lambda: glob.glob(saved), "the health to be saved")
        before = os.stat(glob.glob(saved)[0]).st_ino
        filler = self.fill(self.node.run)
        with open(self.node.path("health"), "w") as file:
            file.write("hot")
        self.node.await_allocatable(a=0)
        hot = {"a-0": ("Unhealthy", "hot"), "a-1": ("Unhealthy", "hot")}
        until(lambda: self.health("a") == hot, "status to show it")
        words = "cannot save the health of the devices: No space left on device"
        until(lambda: words in self.node.output(), "devplugd to log it")
        self.assertEqual(os.stat(glob.glob(saved)[0]).st_ino, before)
        os.unlink(filler)
        until(lambda: os.stat(glob.glob(saved)[0]).st_ino != before, "the health to be saved again")
        self.assertEqual(self.node.output().count(words), 1)
        self.assertEqual(self.health("a"), hot)

    def test_a_disk_that_is_full_at_the_start(self):
        """Every file is written when there is room."""
        disk = self.node.path("disk")
        self.mount(disk)
        self.node.run = os.path.join(disk, "run")
        filler = self.fill(disk)
        probe = f'health = ( {{ probe = "file"; path = "{self.node.path("health")}"; missing = "healthy"; }} );'
        self.node.configure(
            static("a", 2, f'cdi_spec = {{ kind = "vendor.example/a"; }}; {probe} container = {{ nodes = "/dev/null"; }};'),
            text=f'cdi_dir = "{disk}/cdi"; metrics = {{ textfile = "{disk}/devplugd.prom"; interval = 1.0; }};')
        self.node.start_kubelet()
        self.node.start()
        self.node.await_allocatable(a=2)
        paths = [os.path.join(disk, name) for name in (
            "run/last-good.conf", "run/health/*.json", "cdi/*.json", "devplugd.prom")]
        until(lambda: "cannot write the metrics" in self.node.output(), "the last of them to fail")
        self.assertEqual([name for path in paths for name in glob.glob(path)], [])
        os.unlink(filler)
        for path in paths:
            until(lambda path=path: glob.glob(path), path)
        until(lambda: self.health("a") == {"a-0": ("Healthy", ""), "a-1": ("Healthy", "")}, "the devices")
        until(lambda: self.node.find("vendor.example/a")["reason"] == "", "status to report no problem")


class WaitAndCheck(ToolTest):
    def test_wait(self):
        self.node.configure(static("a", 2))
        answer = self.ctl("wait", "vendor.example/a", "--timeout", "0")
        self.assertEqual(answer.returncode, 1)
        self.node.start()
        self.node.await_state("vendor.example/a", "waiting")
        answer = self.ctl("wait", "vendor.example/a", "--timeout", "0")
        self.assertEqual(answer.returncode, 1)
        self.assertRegex(answer.stderr, "^devplugctl: vendor.example/a: waited 0 s; it is waiting: ")
        waiter = subprocess.Popen([program("devplugctl"), "-c", self.node.config, "wait", "vendor.example/a"])
        self.node.start_kubelet()
        self.assertEqual(waiter.wait(timeout=60), 0)
        self.assertEqual(self.ctl("wait", "vendor.example/a", "--for", "healthy=2").returncode, 0)
        answer = self.ctl("wait", "vendor.example/a", "--for", "healthy=3", "--timeout", "0")
        self.assertEqual((answer.returncode, answer.stderr), (1, "devplugctl: vendor.example/a: waited 0 s; 2 are healthy, at least 3 wanted\n"))
        answer = self.ctl("wait", "vendor.example/aa")
        self.assertEqual(answer.returncode, 1)
        self.assertIn('did you mean "vendor.example/a"?', answer.stderr)
        for words in (["--for", "wealthy=1"], ["--for", "healthy=x"], ["--timeout", "soon"]):
            self.assertEqual(self.ctl("wait", "vendor.example/a", *words).returncode, 2)

    def test_wait_of_another_user(self):
        """At once, because waiting does not help."""
        self.serve(static("a", 2))
        answer = run_as_nobody("devplugctl", "-c", self.node.config, "wait", "vendor.example/a", "--timeout", "600")
        self.assertEqual(answer.returncode, 1, answer.stderr)
        self.assertRegex(answer.stderr, "^devplugctl: only root and members of the group devplugd-view ")

    def test_check(self):
        self.serve(static("a", 2, 'health = ( { probe = "file"; path = "%s/${id}"; missing = "healthy"; healthy = "ok"; } );'
                          % self.node.dir), static("b", 1))
        answer = self.ctl("check")
        self.assertEqual((answer.returncode, answer.stdout), (0, "2 resources, 3 devices: no problem\n"))
        with open(self.node.path("a-1"), "w") as file:
            file.write("too hot")
        until(lambda: self.health("a")["a-1"][0] == "Unhealthy", "the device to fail")
        answer = self.ctl("check", "vendor.example/a")
        self.assertEqual(answer.returncode, 1)
        self.assertRegex(answer.stdout, "^vendor.example/a/a-1: .*too hot.*\n$")
        self.assertEqual(self.ctl("check", "vendor.example/b").returncode, 0)
        self.assertEqual(self.ctl("check", "vendor.example/c").returncode, 2)
        # Somebody has decided that.
        self.assertEqual(self.ctl("cordon", "a-1").returncode, 0)
        self.assertEqual(self.ctl("check").returncode, 0)
        self.node.stop()
        answer = self.ctl("check")
        words = f"devplugd is not running: nothing answers in {self.node.run}"
        self.assertEqual((answer.returncode, answer.stdout), (2, f"{words}\n"))
        answer = self.ctl("check", "--json")
        document = json.loads(answer.stdout)
        self.assertEqual((answer.returncode, document["status"], document["problem"]), (2, 2, words))

    def test_check_of_a_kubelet_that_hangs(self):
        self.node.configure(static("a", 2), kubelet=f'pod_resources_socket = "{self.node.kubelet_state}/pod-resources/kubelet.sock";')
        self.node.start_kubelet()
        self.node.start()
        self.node.await_serving()
        self.assertEqual(self.ctl("check").stdout, "1 resource, 2 devices: no problem\n")
        self.node.kubelet.send_signal(signal.SIGSTOP)
        self.addCleanup(self.node.kubelet.send_signal, signal.SIGCONT)
        # An answer is shared for a second.
        answer = until(lambda: (c := self.ctl("check")).returncode and c, "the problem")
        self.assertEqual(answer.returncode, 1)
        self.assertRegex(answer.stdout, r"^the kubelet has not answered for \d+ s\n$")
        self.assertEqual(json.loads(self.ctl("check", "--json").stdout)["unanswered"], 1)
        self.node.kubelet.send_signal(signal.SIGCONT)
        until(lambda: self.ctl("check").stdout == "1 resource, 2 devices: no problem\n", "the kubelet to answer")

    def test_check_of_a_discovery_program(self):
        """Its failure is a problem, although no device is known that could be unhealthy."""
        program = self.node.path("discover")

        def write(text):
            with open(program + ".new", "w") as file:
                file.write("#!/bin/sh\n" + text + "\n")
            os.chmod(program + ".new", 0o755)
            os.rename(program + ".new", program)

        write("exit 3")
        self.serve(static("a", 1), '{ name = "vendor.example/cam"; driver = "exec"; '
                   f'match = ( {{ command = [ "{program}" ]; interval = 0.2; }} ); }}')
        problem = f"vendor.example/cam: {program} failed with exit status 3; there is no list yet"
        self.assertEqual(until(lambda: (c := self.ctl("check")).returncode == 1 and c.stdout, "the problem"), problem + "\n")
        document = json.loads(self.ctl("check", "--json").stdout)
        self.assertEqual({key: document[key] for key in ("status", "problem", "failed", "undiscovered", "unhealthy")},
                         {"status": 1, "problem": problem, "failed": 0, "undiscovered": 1, "unhealthy": 0})
        self.assertEqual(self.ctl("check", "vendor.example/a").returncode, 0)
        write("""echo '{"version": 1, "devices": [{"id": "front"}]}'""")
        until(lambda: self.ctl("check").stdout == "2 resources, 2 devices: no problem\n", "the program to answer")

    def test_rescan(self):
        """Finds what nobody has told of, and probes now; the process and its stream stay."""
        script = self.node.path("probe")
        with open(script, "w") as file:
            file.write("exit 0")
        before = self.serve(static("a", 1, f'health = ( {{ probe = "exec"; command = [ "/bin/sh", "{script}" ]; '
                                   'interval = 3600; } );'), static("b", 1))
        until(lambda: self.health("a")["a-0"][0] == "Healthy", "the first probe")
        with open(script, "w") as file:
            file.write("echo broken >&2; exit 1")
        answer = self.ctl("rescan", "vendor.example/a")
        self.assertEqual((answer.returncode, answer.stdout), (0, "vendor.example/a has been scanned\n"), answer.stderr)
        until(lambda: self.health("a")["a-0"][0] == "Unhealthy", "the second probe")
        after = self.node.await_serving()
        for key in ("pid", "session"):
            self.assertEqual(after["vendor.example/a"][key], before["vendor.example/a"][key])
        self.assertEqual(self.ctl("rescan").stdout.count("has been scanned"), 2)
        answer = self.ctl("rescan", "vendor.example/z")
        self.assertEqual(answer.returncode, 1)

    def test_rescan_without_a_process(self):
        """Only what was scanned is reported so."""
        self.serve(static("a", 1))
        self.node.configure(static("a", 1), static("f", 1, 'user = "nobody-of-that-name";'))
        self.assertEqual(self.ctl("reload").returncode, 0)
        words = ('devplugctl: vendor.example/f has no process that could scan now; see "devplugctl explain '
                 'vendor.example/f"\n')
        answer = self.ctl("rescan")
        self.assertEqual((answer.returncode, answer.stdout, answer.stderr),
                         (1, "vendor.example/a has been scanned\n", words))
        answer = self.ctl("rescan", "vendor.example/f")
        self.assertEqual((answer.returncode, answer.stdout, answer.stderr), (1, "", words))

    def test_rescan_beside_a_process_that_hangs(self):
        """It waits for what it scans, and for nothing else."""
        before = self.serve(static("a", 1), static("b", 1))
        hangs = before["vendor.example/b"]["pid"]
        os.kill(hangs, signal.SIGSTOP)
        self.addCleanup(lambda: os.path.exists(f"/proc/{hangs}") and os.kill(hangs, signal.SIGCONT))
        self.node.configure(static("a", 1), static("b", 2))
        reload = subprocess.Popen([program("devplugctl"), "-c", self.node.config, "reload"],
                                  stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        self.addCleanup(reload.wait)
        until(lambda: "accepted as generation 2" in self.node.output(), "the new configuration")
        answer = self.ctl("rescan", "vendor.example/a")
        self.assertEqual((answer.returncode, answer.stdout), (0, "vendor.example/a has been scanned\n"), answer.stderr)
        self.assertEqual(self.node.processes().get(hangs), "vendor.example/b")


class NotApplied(ToolTest):
    def test_a_resource_that_is_not_applied(self):
        self.serve(static("gpu", 1))
        self.node.configure(static("gpu", 1), static("gpv", 1), static("off", 1, "enabled = false;"))
        words = (f'devplugctl: devplugd has no resource "vendor.example/gpv"; {self.node.config} declares it, but it is not '
                 'applied: run "devplugctl reload"\n')
        for command in ("status", "devices", "explain", "wait", "rescan"):
            with self.subTest(command):
                answer = self.ctl(command, "vendor.example/gpv")
                self.assertEqual((answer.returncode, answer.stdout, answer.stderr), (1, "", words))
        self.assertIn('did you mean "vendor.example/gpu"?', self.ctl("status", "vendor.example/gp").stderr)
        self.assertIn("devplugd has no resource", self.ctl("status", "vendor.example/off").stderr)
        self.breaks()
        self.assertIn('did you mean "vendor.example/gpu"?', self.ctl("status", "vendor.example/gpv").stderr)
        # A reload would not help.
        self.node.configure(static("gpv", 1))
        self.node.stop(signal.SIGKILL)
        self.assertNotIn("reload", self.ctl("status", "vendor.example/gpv").stderr)


class Mistakes(ToolTest):
    """What was probably meant, and who may do it."""

    def test_typos(self):
        self.serve(static("gpu", 2), static("b", 1))
        for words, meant in ((["statsu"], "status"), (["status", "vendor.example/gp"], "vendor.example/gpu"),
                             (["cordon", "gpu-11"], "gpu-1"), (["cordon", "vendor.example/gpu/gpu1"], "vendor.example/gpu/gpu-1"),
                             (["preview", "vendor.example/gqu"], "vendor.example/gpu"),
                             (["rescan", "vendor.example/gqu"], "vendor.example/gpu"),
                             (["release", "vendor.example/gqu"], "vendor.example/gpu"),
                             (["forget", "vendor.example/gqu/gpu-1"], "vendor.example/gpu"),
                             (["discover", "kvn"], "kvm"), (["presets", "kvn"], "kvm")):
            with self.subTest(words):
                answer = self.ctl(*words)
                self.assertNotEqual(answer.returncode, 0)
                self.assertIn(f'did you mean "{meant}"?', answer.stderr)

    def test_needs_root(self):
        self.serve(static("a", 1))
        for words in (["reload"], ["rescan"], ["cordon", "a-0"], ["uncordon", "a-0"], ["forget", "vendor.example/a/a-0"],
                      ["release", "vendor.example/a"], ["resume", "vendor.example/a"]):
            with self.subTest(words):
                answer = run_as_nobody("devplugctl", "-c", self.node.config, *words)
                self.assertEqual((answer.returncode, answer.stdout, answer.stderr),
                                 (1, "", f'devplugctl: "{words[0]}" needs root\n'))


class Damaged(ToolTest):
    """An answer that is not what devplugd sends is shown as far as it goes, and never crashes a tool."""

    def check_shape(self, document):
        self.assertEqual({key: type(value) for key, value in document.items()}, MEMBERS)
        for resource in document["resources"]:
            self.assertEqual({key: NUMBER if key in ("in_use", "free") and (value is None or type(value) is int)
                              else type(value) for key, value in resource.items()}, RESOURCE_MEMBERS)
            for device in resource["devices"]:
                self.assertEqual({key: type(value) for key, value in device.items()}, DEVICE_MEMBERS)

    def test_shape(self):
        self.serve(static("a", 2))
        answer = json.loads(self.ctl("status", "--json").stdout)
        self.check_shape(answer)
        self.assertEqual(answer["config_file"], self.node.config)
        self.assertEqual(len(answer["resources"][0]["devices"]), 2)
        self.check_shape(json.loads(self.ctl("explain", "vendor.example/a", "--json").stdout))

    def test_no_answer(self):
        self.node.configure(static("a", 1))
        answer = self.ctl("status", "--json")
        self.assertEqual(answer.returncode, 3)
        self.check_shape(json.loads(answer.stdout))

    def test_wrong_types(self):
        self.node.configure(static("a", 1))
        resource = {"name": "vendor.example/a", "state": 7, "pid": "9", "driver": ["x"], "session": {}}
        escape = {"name": "vendor.example/e\u001b[31m"}
        state = {"version": 1, "devices_follow": True, "generation": "many", "pid": None, "reload_failed": "no", "config_file": 5,
                 "resources": [resource, 7, None, escape, {"name": ["x"]}]}
        documents = {"vendor.example/a": b'{"devices": [{"id": 5, "numa": ["x", 1], "findings": [7, {"reason": 3, "text": []}]}, "y"], '
                                         b'"scan_notes": [7, "\\u001b[31m"], "allocations": {}}',
                     "vendor.example/unknown": b'{"devices": [{"id": "x"}]}'}
        with fake_daemon(self.node.run, json.dumps(state).encode(), documents):
            answer = self.ctl("status", "--json")
            self.assertEqual(answer.returncode, 0, answer.stderr)
            document = json.loads(answer.stdout)
            self.check_shape(document)
            self.assertEqual([len(r["devices"]) for r in document["resources"]], [1, 0, 0])
            self.assertEqual([len(r["scan_notes"]) for r in document["resources"]], [1, 0, 0])
            self.assertNotIn("\u001b", answer.stdout)
            for command in ("status", "devices"):
                answer = self.ctl(command)
                self.assertEqual(answer.returncode, 0, answer.stderr)
                self.assertNotIn("\u001b", answer.stdout)

    def test_garbage(self):
        self.node.configure(static("a", 1))
        for content in (b"{", b"\x00\xff" * 100, b'{"resources": ' + b"[" * 5000, b"[1, 2]", b'{"version": 2}'):
            with fake_daemon(self.node.run, content, {}):
                for command in ("status", "devices"):
                    answer = self.ctl(command)
                    self.assertEqual(answer.returncode, 1)
                    self.assertIn("must be of the same release", answer.stderr)
        answer = json.dumps({"version": 1, "resources": [{"name": "vendor.example/a"}, {"name": "vendor.example/b"}]}).encode()
        with fake_daemon(self.node.run, answer, {}):
            self.assertIn("devplugd is older than devplugctl", self.ctl("status").stderr)
        answer = answer.replace(b"{", b'{"devices_follow": true, ', 1)
        good = b'{"devices": [{"id": "b-0", "health": "Healthy"}]}'
        for content in (b"", b"{", b"[1, 2]", b"7", b"\x00\xff" * 100, b'{"devices": ' + b"[" * 5000, good + b"{"):
            with fake_daemon(self.node.run, answer, {"vendor.example/a": content, "vendor.example/b": good}):
                document = json.loads(self.ctl("status", "--json").stdout)
                self.check_shape(document)
                self.assertEqual([len(r["devices"]) for r in document["resources"]], [0, 1])

    def test_usage(self):
        for words in ([], ["dance"], ["status", "a", "b"], ["explain"], ["cordon"], ["uncordon"], ["reload", "x"],
                      ["cordon", "a", "b", "c"], ["reload", "--json"], ["--runtime-dir", "/x", "status"]):
            with self.subTest(words):
                self.assertEqual(self.ctl(*words).returncode, 2)
        self.assertIn("in quotes", self.ctl("cordon", "gpu-1", "being", "repaired").stderr)
        for tool in ("devplugctl", "devplugd"):
            answer = self.run_tool(tool, "--help")
            self.assertEqual(answer.returncode, 0)
            for line in answer.stdout.splitlines():
                if line.startswith("  "):
                    self.assertRegex(line, r"^ {2,}\S.*? {2,}\S", "what a row means has a column of its own")
            self.assertRegex(self.run_tool(tool, "--version").stdout, rf"^{tool} \d")


if __name__ == "__main__":
    unittest.main()
