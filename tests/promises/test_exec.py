# SPDX-License-Identifier: Apache-2.0
"""Driver "exec" end to end: programs that answer, change, fail, are killed and are replaced; and the examples of the protocol."""
import json
import os
import re
import shutil
import signal
import subprocess
import unittest

from node import NodeTest, children_of, command_line, is_gone, process_status, until

ROOT = os.path.realpath(os.path.join(os.path.dirname(__file__), "../.."))
EXAMPLES = os.path.join(ROOT, "docs/examples/exec")
NAME = "vendor.example/cam"


def document(*ids, **more):
    return json.dumps({"version": 1, "devices": [{"id": i, **more} for i in ids]})


class Exec(NodeTest):
    def setUp(self):
        super().setUp()
        self.tell("list", document("front", "back"))

    def tell(self, name, text):
        with open(self.node.path(name + ".new"), "w") as file:
            file.write(text + "\n")
        os.rename(self.node.path(name + ".new"), self.node.path(name))

    def script(self, name, text):
        """A program in the node's folder; $1 is the folder."""
        with open(self.node.path(name), "w") as file:
            file.write("#!/bin/sh\ncd $1\n" + text + "\n")
        os.chmod(self.node.path(name), 0o755)

    def resource(self, name, keys="interval = 0.2;", more=""):
        return (f'{{ name = "{NAME}"; driver = "exec"; match = ( {{ {keys} '
                f'command = [ "{self.node.path(name)}", "{self.node.dir}" ]; }} ); {more} }}')

    def begin(self, *words, **more):
        self.node.configure(self.resource(*words, **more))
        self.node.start_kubelet()
        self.node.start()

    def await_devices(self, **expected):
        """Health by id as the kubelet was told."""
        def look():
            resource = self.node.resource(NAME)
            return resource and {d["id"]: d["health"] for d in resource["devices"]} == expected and resource

        return until(look, lambda: f"{expected}; last {self.node.resource(NAME)}")

    def messages(self):
        """Lists that the kubelet was sent."""
        return [e for e in self.node.kubelet_events() if e.get("event") == "list" and e.get("resource") == NAME]

    def program_pids(self):
        pids = [pid for pid, name in self.node.processes().items() if name == NAME]
        return children_of(pids[0]) if pids else []

    def test_faults_that_alternate_are_logged_once(self):
        """Also if they are in other lines of the output each time, until a document is valid."""
        self.tell("first", '{"version": 1, "devices": [{}]}')
        self.tell("second", "[]")
        with open(self.node.path("runs"), "w") as file:
            os.fchmod(file.fileno(), 0o666)
        self.script("watch", "while [ ! -e good ]; do cat first; sleep 1.2; cat second; sleep 1.2; echo x >> runs; done\n"
                             "cat list; sleep 1.2; cat first; exec sleep 1000")
        self.begin("watch", 'mode = "watch";')
        until(lambda: os.path.getsize(self.node.path("runs")) >= 8, "several rounds")
        fault = "is invalid: devices[0]"
        self.assertEqual(self.node.output().count(fault), 1, self.node.output())
        self.assertEqual(self.node.output().count("is invalid: "), 2, self.node.output())
        self.tell("good", "")
        until(lambda: self.node.output().count(fault) == 2, "it to be logged again after a valid list")

    def test_polled(self):
        self.script("discover", "cat list")
        self.begin("discover", more='container = { env = ( "CAM=${original_id}" ); };')
        self.node.await_allocatable(cam=2)
        given, _ = self.node.pod("p1", cam=2)
        self.assertEqual(given["envs"] if "envs" in given else given["env"], {"CAM": "back,front"})
        self.tell("list", document("front", "side"))
        self.await_devices(front="Healthy", side="Healthy", back="Unhealthy")
        self.node.await_allocatable(cam=2)

    def test_log_of_devices(self):
        shared = '{ name = "vendor.example/slot"; driver = "static"; match = ( "a" ); share = { replicas = 20; }; }'
        self.script("discover", "cat list")
        self.node.configure(self.resource("discover"), shared)
        self.node.start_kubelet()
        self.node.start()
        self.node.await_allocatable(cam=2, slot=20)
        until(lambda: "vendor.example/slot: serves 1 device as 20 ids to the kubelet" in self.node.output(), "the log to count")
        self.tell("list", document("front", "side"))
        for record in ('device "side" appeared', 'device "back" is unhealthy: back is not listed any more'):
            until(lambda record=record: record in self.node.output(), record)

    def test_failing_program_keeps_the_list(self):
        self.script("discover", "cat list 2>/dev/null || { echo no server >&2; exit 1; }")
        self.begin("discover")
        self.node.await_allocatable(cam=2)
        os.unlink(self.node.path("list"))
        until(lambda: "failed with exit status 1: no server; the last list stays in use" in self.node.output(),
              "the failure to be said")
        self.tell("list", "nonsense")
        until(lambda: "is invalid: line 1" in self.node.output(), "the nonsense to be said")
        self.tell("list", document("front", "back") + "\x00")
        self.tell("list", '{"version": 1, "devices": [{"id": "front"}, {"id": 7}]}')
        until(lambda: 'devices[1]: "id" must be a string' in self.node.output(), "the field to be said")
        self.await_devices(front="Healthy", back="Healthy")
        self.tell("list", document("front", healthy=False, reason="lens cap on"))
        resource = self.await_devices(front="Unhealthy", back="Unhealthy")
        self.assertEqual({d["id"]: d["reason"] for d in resource["devices"]},
                         {"front": "lens cap on", "back": "back is not listed any more"})
        # Once for each, and it ran many times.
        self.assertEqual(self.node.output().count("failed with exit status 1"), 1)

    def test_watched_and_killed(self):
        os.mkfifo(self.node.path("go"), 0o666)
        os.chmod(self.node.path("go"), 0o666)
        self.script("watch", "while :; do cat list; read line < go || :; done")
        self.begin("watch", 'mode = "watch";')
        self.node.await_allocatable(cam=2)
        first = until(self.program_pids, "the program to run")
        self.tell("list", document("front", "back", "side"))
        with open(self.node.path("go"), "w") as file:
            file.write("\n")
        self.node.await_allocatable(cam=3)
        self.tell("list", document("front"))
        os.kill(first[0], signal.SIGKILL)
        # Started again, it says what is so now.
        self.await_devices(front="Healthy", back="Unhealthy", side="Unhealthy")
        self.assertNotEqual(self.program_pids(), first)
        until(lambda: "was killed by signal 9" in self.node.output(), "the log to say so")

    def test_program_has_no_privilege(self):
        self.script("watch", "cat list; exec sleep 1000")
        self.begin("watch", 'mode = "watch";')
        self.node.await_allocatable(cam=2)
        pid = until(self.program_pids, "the program to run")[0]
        # The shell before it has a descriptor for the script.
        until(lambda: command_line(pid)[:1] == ["sleep"], "the shell to be replaced")
        status = process_status(pid)
        self.assertEqual((status["CapEff"], status["CapPrm"], status["CapBnd"], status["NoNewPrivs"]),
                         ("0" * 16, "0" * 16, "0" * 16, "1"))
        self.assertNotIn("0", status["Uid"].split())
        self.assertEqual(status["NSpgid"], status["Pid"])
        with open(f"/proc/{pid}/environ", "rb") as file:
            names = {word.split(b"=")[0] for word in file.read().split(b"\0") if word}
        self.assertLessEqual(names, {b"PATH", b"LANG", b"PWD", b"OLDPWD", b"_", b"SHLVL"})
        self.assertEqual(os.readlink(f"/proc/{pid}/fd/0"), "/dev/null")
        self.assertEqual(sorted(os.listdir(f"/proc/{pid}/fd")), ["0", "1", "2"])

    def test_P7_program_dies_with_the_child(self):
        self.script("watch", "cat list; exec sleep 1000")
        self.begin("watch", 'mode = "watch";')
        self.node.await_allocatable(cam=2)
        program = until(self.program_pids, "the program to run")[0]
        child = self.node.find(NAME)["pid"]
        os.kill(child, signal.SIGKILL)
        until(lambda: is_gone(program), "the program to be gone")
        self.node.await_allocatable(cam=2)
        program = until(lambda: self.node.processes() and self.program_pids(), "the program to run again")[0]
        self.assertEqual(self.node.stop(), 0)
        until(lambda: is_gone(program), "the program to be gone")

    def test_P2_reload_replaces_the_program(self):
        self.script("one", "cat list; exec sleep 1000")
        self.script("two", "until [ -e go ]; do sleep 0.05; done; cat other; exec sleep 1000")
        self.begin("one", 'mode = "watch";')
        self.node.await_allocatable(cam=2)
        before = self.node.await_serving()[NAME]
        lists = len(self.messages())
        self.tell("other", document("front", "new"))
        self.node.configure(self.resource("two", 'mode = "watch";'))
        self.node.reload()
        # The list of the program before, until the new one answers.
        self.await_devices(front="Healthy", back="Healthy")
        self.assertEqual(len(self.messages()), lists)
        self.tell("go", "")
        self.await_devices(front="Healthy", new="Healthy", back="Unhealthy")
        self.node.await_allocatable(cam=2)
        after = self.node.await_serving()[NAME]
        for key in ("pid", "session", "restarts"):
            self.assertEqual(before[key], after[key], key)
        until(lambda: len(self.messages()) == lists + 1, "one list")
        # Other keys change nothing that the kubelet sees.
        self.node.configure(self.resource("two", 'mode = "watch";', 'container = { env = ( "A=b" ); };'))
        self.node.reload()
        until(lambda: len(self.program_pids()) == 1, "one program to run")
        self.assertEqual(len(self.messages()), lists + 1)

    def test_hostile_program(self):
        self.script("discover", "cat list; [ ! -e evil ] || . ./evil")
        self.begin("discover", 'mode = "watch";')
        self.node.await_allocatable(cam=2)
        pid = self.node.find(NAME)["pid"]
        for evil in ("while :; do cat list; done", "exec yes", "exec cat /dev/zero", "exec cat /dev/urandom",
                     "exec yes >&2", "exec tr '\\000' '[' < /dev/zero", "trap '' TERM; kill -STOP $$"):
            self.tell("evil", evil)
            for program in self.program_pids():
                os.kill(program, signal.SIGKILL)
            until(self.program_pids, "the program to run")
            # The service goes on meanwhile.
            self.node.await_allocatable(cam=2)
            self.await_devices(front="Healthy", back="Healthy")
        resource = self.node.resource(NAME)
        self.assertEqual((resource["pid"], resource["restarts"]), (pid, 0))


class Examples(NodeTest):
    def setUp(self):
        super().setUp()
        self.seats = self.node.path("seats")
        os.mkdir(self.seats)
        self.put("one", "ok")
        self.put("t\"w\\o \x07", 'no "answer"\nfor long')

    def put(self, name, text):
        with open(os.path.join(self.seats, name), "w") as file:
            file.write(text + "\n")

    def compile(self, name="seats-watch"):
        compiler = shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")
        if not compiler:
            self.skipTest("needs a C compiler")
        subprocess.run([compiler, "-std=c11", "-D_GNU_SOURCE", "-O2", "-Wall", "-Wextra", "-Werror", "-o",
                        self.node.path(name), os.path.join(EXAMPLES, name + ".c")], check=True)
        return self.node.path(name)

    def check_document(self, text):
        devices = {d["id"]: d for d in json.loads(text)["devices"]}
        self.assertEqual(len(devices), 2)
        self.assertEqual(devices["one"], {"id": "one", "properties": {"SEAT": "one"}})
        other = next(d for name, d in devices.items() if name != "one")
        self.assertTrue(other["id"].startswith('t"w\\o'))
        self.assertFalse(other["healthy"])
        self.assertTrue(other["reason"].startswith('no "answer"'))

    def serve(self, mode, program):
        self.node.configure(f'{{ name = "vendor.example/seat"; driver = "exec"; match = ( {{ {mode} command = '
                            f'[ "{program}", "{self.seats}" ]; }} ); container = {{ env = ( "SEATS=${{property:SEAT}}" ); }}; }}')
        self.node.start_kubelet()
        self.node.start()
        self.node.await_allocatable(seat=1)
        given, _ = self.node.pod("p1", seat=1)
        self.assertEqual(given["envs"] if "envs" in given else given["env"], {"SEATS": "one"})
        self.put("three", "ok")
        self.node.await_allocatable(seat=2)

    def test_shell(self):
        program = os.path.join(EXAMPLES, "seats-poll")
        answer = subprocess.run([program, self.seats], capture_output=True, text=True, check=True)
        self.check_document(answer.stdout)
        # Where the tests run may be closed to the program's user.
        self.serve("interval = 0.2;", shutil.copy(program, self.node.dir))

    def test_c(self):
        self.compile()
        # Root's inotify instances, 128 on the whole host, may all be in use.
        user = 64000 + os.getpid() % 1000 if os.geteuid() == 0 else None
        program = subprocess.Popen([self.node.path("seats-watch"), self.seats], stdout=subprocess.PIPE, text=True, user=user)
        self.addCleanup(program.stdout.close)
        self.addCleanup(program.wait)
        self.addCleanup(program.kill)
        self.check_document(program.stdout.readline())
        self.serve('mode = "watch";', self.node.path("seats-watch"))

    def lease(self, program):
        """What a container gets of two seats, and the leases that lie in the server's directory."""
        leases = self.node.path("leases")
        os.mkdir(leases)
        poll = shutil.copy(os.path.join(EXAMPLES, "seats-poll"), self.node.dir)
        self.put("two", "ok")
        self.node.configure(f'{{ name = "vendor.example/seat"; driver = "exec"; share = {{ replicas = 2; }}; match = ( {{ command = '
                            f'[ "{poll}", "{self.seats}" ]; interval = 0.2; allocate = [ "{program}", "{leases}" ]; }} ); }}')
        self.node.start_kubelet()
        self.node.start()
        self.node.await_allocatable(seat=4)
        _, pod = self.node.pod("p0", seat=1)
        self.assertRegex(pod["message"], f"failed with exit status 1: .*{leases}")
        os.chmod(leases, 0o777)
        given, _ = self.node.pod("p1", seat=4)
        files = {}
        for name in os.listdir(leases):
            with open(os.path.join(leases, name)) as file:
                files[name] = file.read().strip()
        self.assertEqual(sorted(files), ["one#0", "one#1", "two#0", "two#1"])
        self.assertEqual(len(set(files.values())), 4)
        return given, files

    def test_shell_lease(self):
        given, files = self.lease(shutil.copy(os.path.join(EXAMPLES, "seats-lease"), self.node.dir))
        self.assertEqual(given["env"], {"SEAT_LEASES": ",".join(files[name] for name in sorted(files))})

    def test_c_lease(self):
        given, files = self.lease(self.compile("seats-lease"))
        self.assertEqual({m["container_path"]: os.path.basename(m["host_path"]) for m in given["mounts"]},
                         {f"/run/seats/{name}": name for name in files})
        self.assertTrue(all(m["read_only"] for m in given["mounts"]))

    def test_conversation_of_the_protocol(self):
        """What the protocol shows for Allocate: the answer is taken, and the question has the members of ours."""
        with open(os.path.join(ROOT, "docs/exec-protocol.md")) as file:
            blocks = re.findall(r"^```\n(\{\"version\".*?)^```$", file.read(), re.M | re.S)
        question, answer = (json.loads(block) for block in blocks[1:])
        out = self.node.path("out")
        os.mkdir(out)
        os.chmod(out, 0o777)
        answer["mounts"][0]["host"] = out
        script = self.node.path("allocate")
        with open(script, "w") as file:
            file.write(f"#!/bin/sh\ncat > {out}/told\ncat <<'END'\n{json.dumps(answer)}\nEND\n")
        os.chmod(script, 0o755)
        self.node.configure(f'{{ name = "vendor.example/seat"; driver = "exec"; match = ( {{ command = [ "/bin/echo", '
                            f'"{json.dumps(document("seat 7"))[1:-1]}" ]; allocate = "{script}"; }} ); }}')
        self.node.start_kubelet()
        self.node.start()
        self.node.await_allocatable(seat=1)
        given, _ = self.node.pod("p1", seat=1)
        self.assertEqual((given["env"], [m["container_path"] for m in given["mounts"]]),
                         (answer["env"], ["/run/lease"]))
        with open(os.path.join(out, "told")) as file:
            told = json.load(file)
        self.assertEqual((list(told), list(told["devices"][0])), (list(question), list(question["devices"][0])))
        self.assertEqual(told["devices"][0]["device_id"], question["devices"][0]["device_id"])

    def test_document_of_the_protocol(self):
        """The one that the protocol shows is taken as it is."""
        with open(os.path.join(ROOT, "docs/exec-protocol.md")) as file:
            document_text = re.search(r"^```\n(\{\"version\".*?)^```$", file.read(), re.M | re.S).group(1)
        with open(self.node.path("document"), "w") as file:
            file.write(document_text)
        self.node.configure(f'{{ name = "vendor.example/cam"; driver = "exec"; match = ( {{ command = '
                            f'[ "/bin/cat", "{self.node.path("document")}" ]; }} ); }}')
        self.node.start_kubelet()
        self.node.start()

        def look():
            resource = self.node.resource("vendor.example/cam")
            return resource and resource["devices"]

        device = until(look, "the camera")[0]
        self.assertEqual((device["health"], device["reason"], device["numa"]), ("Unhealthy", "no answer for 30 s", [0]))


if __name__ == "__main__":
    unittest.main()
