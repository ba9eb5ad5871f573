# SPDX-License-Identifier: Apache-2.0
"""Programs that driver "exec" asks at Allocate, end to end: what a container gets of their answers, what its pod shows
when there is none, and that nothing else waits for them."""
import json
import os
import re
import signal
import struct
import subprocess
import unittest

from http2 import ALLOCATE, PRE_START, RST_STREAM, call, connect, frame
from node import NodeTest, children_of, command_line, is_gone, process_status, program, until

ROOT = os.path.realpath(os.path.join(os.path.dirname(__file__), "../.."))
EXAMPLES = os.path.join(ROOT, "docs/examples/exec")
NAME = "vendor.example/cam"
# As in proto/plugin/allocate.h.
RUNNING_MAX, CALLS_MAX = 16, 256


def document(*ids, **more):
    return json.dumps({"version": 1, "devices": [{"id": i, **more} for i in ids]})


def request(*ids):
    """An AllocateRequest for a container."""
    container = b"".join(b"\x0a" + bytes([len(i)]) + i.encode() for i in ids)
    return b"\x0a" + bytes([len(container)]) + container


class Allocate(NodeTest):
    def setUp(self):
        super().setUp()
        # Programs write there.
        self.out = self.node.path("out")
        os.mkdir(self.out)
        os.chmod(self.out, 0o777)
        self.tell("list", document("a", "b"))
        self.script("discover", "cat ../list")

    def tell(self, name, text):
        with open(self.node.path(name + ".new"), "w") as file:
            file.write(text + "\n")
        os.rename(self.node.path(name + ".new"), self.node.path(name))

    def script(self, name, text):
        with open(self.node.path(name + ".new"), "w") as file:
            file.write(f"#!/bin/sh\ncd {self.out}\n{text}\n")
        os.chmod(self.node.path(name + ".new"), 0o755)
        os.rename(self.node.path(name + ".new"), self.node.path(name))

    def entry(self, allocate="allocate", discover="discover", keys="allocate_timeout = 10;"):
        return (f'{{ command = [ "{self.node.path(discover)}" ]; interval = 0.2; '
                f'allocate = [ "{self.node.path(allocate)}", "a word" ]; {keys} }}')

    def resource(self, *entries, more=""):
        return f'{{ name = "{NAME}"; driver = "exec"; match = ( {", ".join(entries)} ); {more} }}'

    def begin(self, *entries, more="", count=2):
        self.node.configure(self.resource(*(entries or [self.entry()]), more=more))
        self.node.start_kubelet()
        self.node.start()
        self.node.await_allocatable(cam=count)

    def read(self, name):
        try:
            with open(os.path.join(self.out, name)) as file:
                return file.read()
        except FileNotFoundError:
            return ""

    def let(self, name):
        """Makes the file that programs wait for."""
        with open(os.path.join(self.out, name), "w"):
            pass

    def child(self):
        return next(pid for pid, name in self.node.processes().items() if name == NAME)

    def running(self):
        """Processes of programs of Allocate."""
        return [pid for pid in children_of(self.child()) if "a word" in command_line(pid)]

    def peer(self, *frames):
        """A connection to the resource's own socket, as a kubelet that makes many calls at once."""
        kubelet = self.node.call_kubelet("status")["resources"][0]
        peer = connect(os.path.join(self.node.plugins, kubelet["endpoint"]), *frames)
        self.addCleanup(peer.close)
        return peer

    def read_until(self, peer, done):
        data = bytearray()
        while not done(data):
            part = peer.recv(1 << 16)
            self.assertTrue(part, "the connection ended")
            data += part
        return bytes(data)

    def refused(self, name):
        given, pod = self.node.pod(name, cam=1)
        self.assertIsNone(given)
        self.assertEqual(pod["reason"], "UnexpectedAdmissionError")
        return pod["message"]

    # --- what a container gets

    def test_answer_reaches_the_container(self):
        self.tell("list", document("front door", env={"SAME": "s", "URL": "device"}, properties={"P": "p"},
                                   nodes=[{"host": "/dev/null", "path": "/dev/cam"}]))
        answer = {"version": 1, "env": {"TOKEN": "t 1", "SAME": "s", "URL": "program", "OURS": "theirs"},
                  "nodes": [{"host": "/dev/zero", "path": "/dev/z", "permissions": "r"}],
                  "mounts": [{"host": self.out, "path": "/out", "read_only": True}],
                  "annotations": {"vendor.example/lease": "1"}, "cdi": ["vendor.example/cam=1"]}
        self.script("allocate", f"echo \"$@\" > words; cat > told; cat <<'END'\n{json.dumps(answer)}\nEND")
        self.begin(more='share = { replicas = 3; }; container = { env = ( "OURS=ours" ); };', count=3)
        given, _ = self.node.pod("p1", cam=2)
        self.assertEqual(given["env"], {"OURS": "ours", "TOKEN": "t 1", "SAME": "s", "URL": "device,program"})
        self.assertEqual([(d["host_path"], d["container_path"], d["permissions"]) for d in given["devices"]],
                         [("/dev/null", "/dev/cam", "rw"), ("/dev/zero", "/dev/z", "r")])
        self.assertEqual([(m["host_path"], m["container_path"], m["read_only"]) for m in given["mounts"]],
                         [(self.out, "/out", True)])
        self.assertEqual((given["annotations"], given["cdi"]),
                         ({"vendor.example/lease": "1"}, ["vendor.example/cam=1"]))
        told = json.loads(self.read("told"))
        self.assertEqual((told["version"], told["resource"], len(told["devices"])), (1, NAME, 1))
        device = told["devices"][0]
        offered = given["resources"][NAME]
        self.assertEqual(sorted(device.pop("offered_ids")), sorted(offered))
        self.assertEqual(device.pop("device_id"), offered[0].split("#")[0])
        self.assertEqual(device, {
            "id": "front door", "numa": [], "mounts": [], "annotations": {}, "cdi": [], "properties": {"P": "p"},
            "env": {"SAME": "s", "URL": "device"},
            "nodes": [{"host": "/dev/null", "path": "/dev/cam", "permissions": "rw", "optional": False}]})
        self.assertEqual(self.read("words"), "a word\n")
        until(lambda: re.search(r"allocated front-door-[0-9a-f]+#\d and 1 more", self.node.output()), "it to be said")

    def test_each_program_gets_its_own_devices(self):
        self.tell("other", document("c"))
        self.script("discover-other", "cat ../other")
        for name, value in (("allocate", "1"), ("allocate-other", "2")):
            self.script(name, f"""cat > told-{name}; echo '{{"version": 1, "env": {{"X": "{value}"}}}}'""")
        self.begin(self.entry(), self.entry("allocate-other", "discover-other"), count=3)
        given, _ = self.node.pod("p1", cam=3)
        self.assertEqual(given["env"], {"X": "1,2"})
        self.assertEqual([[d["id"] for d in json.loads(self.read("told-" + name))["devices"]]
                          for name in ("allocate", "allocate-other")], [["a", "b"], ["c"]])

    def test_program_makes_what_it_gives(self):
        """Also what the configuration mounts: nothing is looked for before the program has answered."""
        self.script("allocate", """mkdir -p lease; echo '{"version": 1}'""")
        self.begin(more=f'container = {{ mounts = ( {{ host = "{self.out}/lease"; path = "/lease"; }} ); }};')
        given, _ = self.node.pod("p1", cam=1)
        self.assertEqual([m["container_path"] for m in given["mounts"]], ["/lease"])

    def test_with_a_cdi_file(self):
        self.tell("list", document("a", nodes=[{"host": "/dev/null"}]))
        self.script("allocate", """echo '{"version": 1, "env": {"T": "1"}, "nodes": [{"host": "/dev/zero"}]}'""")
        folder = self.node.path("cdi")
        self.node.configure(self.resource(self.entry(), more='cdi_spec = { kind = "vendor.example/cam"; };'),
                            text=f'cdi_dir = "{folder}";')
        self.node.start_kubelet()
        self.node.start()
        self.node.await_allocatable(cam=1)
        given, _ = self.node.pod("p1", cam=1)
        # The file says nothing of what only this container has.
        self.assertEqual((given["cdi"], given["env"], [d["host_path"] for d in given["devices"]]),
                         (["vendor.example/cam=a"], {"T": "1"}, ["/dev/zero"]))
        with open(os.path.join(folder, os.listdir(folder)[0])) as file:
            self.assertNotIn("/dev/zero", file.read())

    def test_program_has_no_privilege(self):
        self.script("allocate", "echo $$ > pid.new; mv pid.new pid; until [ -e go ]; do sleep 0.01; done; "
                                """echo '{"version": 1}'""")
        self.begin()
        self.peer(call(1, ALLOCATE, request("a")))
        pid = int(until(lambda: self.read("pid"), "the program to run"))
        status = process_status(pid)
        self.assertEqual((status["CapEff"], status["CapPrm"], status["CapBnd"], status["NoNewPrivs"]),
                         ("0" * 16, "0" * 16, "0" * 16, "1"))
        self.assertEqual((status["Seccomp"], status["NSpgid"]), ("2", status["Pid"]))
        self.assertNotIn("0", status["Uid"].split())
        self.assertIn("memfd:", os.readlink(f"/proc/{pid}/fd/0"))
        with open(f"/proc/{pid}/environ", "rb") as file:
            names = {word.split(b"=")[0] for word in file.read().split(b"\0") if word}
        self.assertLessEqual(names, {b"PATH", b"LANG", b"PWD", b"OLDPWD", b"_", b"SHLVL"})
        self.let("go")

    # --- what its pod shows

    def test_failures_reach_the_pod(self):
        self.begin()
        lists = len(self.node.kubelet_events())
        path = re.escape(self.node.path("allocate"))
        for n, (text, expected) in enumerate((
                ("echo first >&2; echo 'no lease left' >&2; exit 4",
                 f'FailedPrecondition desc = device "[ab]" of {NAME}: {path} failed with exit status 4: no lease left; correct this and create the pod again'),
                ("echo leased", f"the answer of {path} is invalid: line 1, column .* is not valid JSON: .*; correct the program"),
                ("""echo '{"version": 1, "mounts": [{"host": "/"}, {"host": "x"}]}'""",
                 r'is invalid: mounts\[1\]: "host" must be an absolute path beginning with "/", not "x"'),
                ("""echo '{"version": 1, "nodes": [{"host": "/dev/none"}]}'""",
                 f"NotFound desc = {path} gives a container of {NAME} /dev/none, which is missing on the host"),
                ("exec yes", f"{path} was killed: its answer exceeded 4194304 bytes; correct the program"),
                ("kill -9 $$", "was killed by signal 9"))):
            with self.subTest(text):
                self.script("allocate", text)
                message = self.refused(f"p{n}")
                self.assertRegex(message, expected)
                said = message.split(" desc = ")[1].split(", which is unexpected")[0]
                logged = "allocation refused: " + said.split("; ")[0]
                until(lambda logged=logged: logged in self.node.output(), "the log to say so, too")
                self.assertEqual(self.node.output().count(logged), 1, said)
        os.unlink(self.node.path("allocate"))
        self.assertRegex(self.refused("gone"),
                         f"{path} cannot be started: No such file or directory; correct allocate in entry 1 of match")
        # Nothing of it is left: the next one gets all devices.
        self.script("allocate", """echo '{"version": 1}'""")
        given, _ = self.node.pod("after", cam=2)
        self.assertEqual(len(given["resources"][NAME]), 2)
        self.assertEqual(self.running(), [])
        self.assertEqual([e for e in self.node.kubelet_events()[lists:] if e.get("event") == "list"], [])

    def test_time_is_over(self):
        self.script("allocate", "echo waiting >&2; sleep 1000 & echo $$ $! > pids; wait")
        self.begin(self.entry(keys="allocate_timeout = 0.5;"))
        self.assertIn(f"{self.node.path('allocate')} did not exit within 0.5 s and was killed: waiting; make it faster or "
                      "raise allocate_timeout", self.refused("p1"))
        self.assert_gone([int(word) for word in self.read("pids").split()])
        self.assertIn("code = DeadlineExceeded", self.refused("p2"))

    # --- that nothing else waits

    def test_several_at_once_and_the_list_goes_on(self):
        self.script("allocate", "cat > told.$$; id=$(sed 's/.*\"device_id\": \"\\([^\"]*\\)\".*/\\1/' told.$$); "
                                "echo > in.$id; until [ -e go ]; do sleep 0.01; done; "
                                """printf '{"version": 1, "env": {"TOKEN": "token of %s"}}' $id""")
        self.begin()
        peer = self.peer(call(1, ALLOCATE, request("a")), call(3, ALLOCATE, request("b")))
        until(lambda: {"in.a", "in.b"} <= set(os.listdir(self.out)), "both programs to run")
        self.tell("list", document("a", "b", "c"))
        self.node.await_allocatable(cam=3)
        self.tell("list", document("a", "b", "c", healthy=False, reason="dark"))
        self.node.await_allocatable(cam=0)
        # As the devices were when the calls came.
        self.let("go")
        data = self.read_until(peer, lambda data: b"token of a" in data and b"token of b" in data)
        self.assertEqual((data.count(b"token of a"), data.count(b"token of b")), (1, 1))
        self.assertEqual(self.node.state()["resources"][0]["restarts"], 0)

    def test_reload_meanwhile(self):
        self.script("allocate", "echo > in; until [ -e go ]; do sleep 0.01; done; "
                                """echo '{"version": 1, "env": {"T": "asked-before"}}'""")
        self.begin(more='container = { env = ( "E=edition-one" ); };')
        peer = self.peer(call(1, ALLOCATE, request("a")))
        until(lambda: "in" in os.listdir(self.out), "the program to run")
        self.node.configure(f'{{ name = "{NAME}"; driver = "static"; match = "x"; }}')
        self.node.reload()
        self.node.await_allocatable(cam=1)
        self.let("go")
        self.read_until(peer, lambda data: b"asked-before" in data and b"edition-one" in data)
        given, _ = self.node.pod("p1", cam=1)
        self.assertEqual(given["env"], {})

    def test_many(self):
        """A bounded number of programs at a time; the others wait, and too many are refused."""
        self.script("allocate", "until [ -e go ]; do sleep 0.05; done; "
                                """echo '{"version": 1, "env": {"T": "answer"}}'""")
        self.begin()
        few = self.peer(*(call(1 + 2 * i, ALLOCATE, request("a")) for i in range(RUNNING_MAX + 4)))
        until(lambda: len(self.running()) == RUNNING_MAX, "programs to run")
        refusal = f"allocation refused: programs of {NAME} are running for {CALLS_MAX} other containers"
        many = self.peer(*(call(1 + 2 * i, ALLOCATE, request("b")) for i in range(CALLS_MAX - RUNNING_MAX - 4 + 1)))
        until(lambda: refusal in self.node.output(), "one to be refused")
        self.assertEqual(len(self.running()), RUNNING_MAX)
        # They are not asked for any more; what came before is.
        many.close()
        self.let("go")
        self.read_until(few, lambda data: data.count(b"answer") == RUNNING_MAX + 4)
        until(lambda: self.running() == [], "all programs to end")
        self.assertEqual(self.node.output().count(refusal), 1)
        self.assertEqual(self.node.state()["resources"][0]["restarts"], 0)

    # --- ends

    def endless(self):
        """A call whose program, and what that started, go on for as long as they may."""
        for name in os.listdir(self.out):
            os.unlink(os.path.join(self.out, name))
        peer = self.peer(call(1, ALLOCATE, request("a")))
        return peer, [int(word) for word in until(lambda: self.read("pids"), "the program to run").split()]

    def assert_gone(self, pids):
        until(lambda: all(map(is_gone, pids)), f"the programs {pids} to be gone")

    def test_given_up(self):
        self.script("allocate", "sleep 1000 & echo $$ $! > pids.new; mv pids.new pids; wait")
        self.begin()
        # The call, the connection, and the kubelet.
        peer, pids = self.endless()
        peer.sendall(frame(RST_STREAM, 0, 1, struct.pack(">I", 8)))
        self.assert_gone(pids)
        peer, pids = self.endless()
        peer.close()
        self.assert_gone(pids)
        until(lambda: self.node.output().count("the kubelet cancelled an allocation") == 2, "it to be said")
        self.script("allocate", """echo '{"version": 1}'""")
        self.assertIsNotNone(self.node.pod("p1", cam=2)[0])

    def test_prestart_given_up(self):
        """The kubelet starts the container again, with another run of the program."""
        self.script("prepare", "sleep 1000 & echo $$ $! > pids.new; mv pids.new pids; wait")
        self.begin(more=f'prestart = {{ command = [ "{self.node.path("prepare")}" ]; }};')
        for count in (1, 2):
            peer = self.peer(call(1, PRE_START, b"\x0a\x01a"))
            pids = [int(word) for word in until(lambda: self.read("pids"), "the program to run").split()]
            os.unlink(os.path.join(self.out, "pids"))
            if count == 1:
                peer.sendall(frame(RST_STREAM, 0, 1, struct.pack(">I", 8)))
            else:
                peer.close()
            self.assert_gone(pids)
            until(lambda: self.node.output().count("the kubelet cancelled the start of a container") == count, "it to be logged")

    def test_P7_stop(self):
        self.script("allocate", "sleep 1000 & echo $$ $! > pids.new; mv pids.new pids; wait")
        self.begin()
        _, pids = self.endless()
        self.assertEqual(self.node.stop(), 0)
        self.assert_gone(pids)

    def test_P7_killed_child(self):
        self.script("allocate", "echo $$ > pids.new; mv pids.new pids; exec sleep 1000")
        self.begin()
        _, pids = self.endless()
        os.kill(self.child(), signal.SIGKILL)
        self.assert_gone(pids)
        self.node.await_allocatable(cam=2)

    def test_nothing_is_kept(self):
        """Descriptors and memory of failed, answered and cancelled calls."""
        self.script("allocate", """[ ! -e fail ] || exit 1; echo '{"version": 1}'""")
        self.begin()
        self.assertIsNotNone(self.node.pod("first", cam=1)[0])
        pid = self.child()

        def descriptors():
            return len(os.listdir(f"/proc/{pid}/fd"))

        before = descriptors()
        for i in range(20):
            if i % 2:
                self.let("fail")
            elif "fail" in os.listdir(self.out):
                os.unlink(os.path.join(self.out, "fail"))
            self.node.ask_kubelet("delete", "first")
            self.peer(call(1, ALLOCATE, request("a")), call(3, ALLOCATE, request("a", "x"))).close()
        until(lambda: descriptors() <= before, f"descriptors to be closed: {before} before")
        self.assertEqual(self.child(), pid)

    # --- before it is in force

    def test_preview(self):
        self.script("allocate", """echo > ran; echo '{"version": 1, "env": {"TOKEN": "t1"}}'""")
        self.node.configure(self.resource(self.entry()))

        def preview(*words):
            answer = subprocess.run([program("devplugctl"), "-c", self.node.config, "preview", NAME, *words],
                                    capture_output=True, text=True)
            return answer.returncode, answer.stdout, answer.stderr

        code, out, _ = preview()
        self.assertEqual(code, 0)
        self.assertIn(f"{self.node.path('allocate')} was not run; use --allocate to include its output", out)
        self.assertNotIn("TOKEN", out)
        self.assertEqual(self.read("ran"), "")
        code, out, _ = preview("--allocate", "--json", "a,b")
        self.assertEqual((code, json.loads(out)["answer"]["envs"], json.loads(out)["notes"]), (0, {"TOKEN": "t1"}, []))
        self.assertNotEqual(self.read("ran"), "")
        self.script("allocate", "echo no lease >&2; exit 1")
        code, _, err = preview("--allocate")
        self.assertEqual(code, 1)
        self.assertIn("failed with exit status 1: no lease", err)


if __name__ == "__main__":
    unittest.main()
