# SPDX-License-Identifier: Apache-2.0
"""P18: a child that has been taken over can falsify what concerns its own resource, and nothing else. A program that
takes the place of a child tries it (tests/sandbox/hostile-child.c), with devplugd started by root and as by the unit,
with and without Landlock."""
import contextlib
import json
import os
import re
import shutil
import signal
import subprocess
import unittest

from node import (
    SANITIZED, UNIT_UID, NodeTest, as_unit, client_of, files_for_others, process_status, program, static, until)

CARD = 'cdi_spec = { kind = "vendor.example/card"; }; container = { env = ( "CARD=${id}" ); };'


class Boundary(NodeTest):
    def turn(self, kind):
        """From now on the hostile program makes that attack."""
        folder = self.node.path("bin")
        with open(os.path.join(folder, "hostile.new"), "w") as file:
            file.write(f"{folder}/honest\n{kind}\n{self.node.run}\n{self.node.dir}/cdi\n")
        os.rename(file.name, os.path.join(folder, "hostile"))

    def configure(self, *more):
        self.node.configure(static("card", 1, CARD), static("sibling", 1), static("evil-nic", 1),
                            static("evil", 1, 'cdi_spec = { kind = "vendor.example/evil"; }; ' + self.evil), *more, kubelet=self.kubelet,
                            text=f'cdi_dir = "{self.node.dir}/cdi"; device_info_dir = "{self.node.dir}/info"; {self.text}')

    def begin(self, kind, prefix, text="", programs=(), watcher=False, evil=""):
        """`programs`: with the hostile program's name, it takes their place, too."""
        self.node.prefix, self.text, self.evil, self.kubelet = prefix, text, evil, ""
        folder, registry = self.node.path("bin"), self.node.path("registry")
        os.mkdir(folder)
        os.mkdir(registry)
        if watcher:
            self.kubelet = f'registration = "watcher"; plugins_registry_dir = "{registry}";'
            self.node.kubelet_options = ["--plugins-registry", registry]
        self.node.daemon_program = shutil.copy(program("devplugd"), folder)
        shutil.copy(program("devplugd-hostile-child"), os.path.join(folder, "devplugd-plugin"))
        # Where its user may enter: the build may be in root's home.
        shutil.copy(program("devplugd-plugin"), os.path.join(folder, "honest"))
        self.turn(kind)
        self.configure()
        for name, taken in programs:
            shutil.copy(program(name), os.path.join(folder, taken))
        self.node.start_kubelet()
        self.node.start()
        self.node.await_allocatable(card=1, sibling=1)
        # A busy devplugd may answer late.
        self.before = {name: until(lambda name=name: self.node.find(f"vendor.example/{name}"), "the status")["pid"]
                       for name in ("card", "sibling")}

    def await_words(self, words):
        """Logged once for each attempt, of which there is one by each process that takes the place of the last one."""
        until(lambda: self.node.output().count("evil: attempt:") > 1, "another attempt")
        until(lambda: words in self.node.output(), f"devplugd to log \"{words}\"")
        self.assertIn(self.node.output().count("evil: attempt:") - self.node.output().count(words), (0, 1))
        for name, pid in self.before.items():
            self.assertEqual(self.node.find(f"vendor.example/{name}")["pid"], pid)
        # The loop goes round: a reload is answered.
        self.node.reload()

    def touch(self, prefix, kind="touch", **more):
        self.begin(kind, prefix, **more)
        until(lambda: "possible:" in self.node.output(), "the attempts")
        self.assertIn("possible: -\n", self.node.output())

    def test_P18_by_root(self):
        self.touch([])

    def test_P18_by_the_unit(self):
        self.touch(as_unit())

    def test_P18_without_landlock(self):
        self.touch([program("devplugd-without-landlock")])
        self.assertIn("this kernel has no Landlock", self.node.output())

    def test_P18_by_the_unit_without_landlock(self):
        self.touch([*as_unit(), program("devplugd-without-landlock")])
        self.assertEqual(self.node.output().count("this kernel has no Landlock"), 1)

    def test_P18_without_programs(self):
        self.touch(as_unit(), "serve")

    def test_P18_by_the_watcher(self):
        self.touch([], watcher=True)

    def test_P18_by_the_unit_and_the_watcher(self):
        self.touch(as_unit(), watcher=True)

    def exporter(self, prefix):
        self.begin("touch", prefix, text=f'metrics = {{ listen = "{self.node.dir}/metrics.sock"; }};',
                   programs=[("devplugd-hostile-child", "devplugd-exporter")])
        until(lambda: "devplugd-exporter: possible:" in self.node.output(), "the attempts")
        self.assertIn("devplugd-exporter: possible: -\n", self.node.output())

    def test_P18_from_the_exporter(self):
        self.exporter(as_unit())

    def test_P18_from_the_exporter_without_landlock(self):
        self.exporter([program("devplugd-without-landlock")])

    def test_P18_from_a_terminal(self):
        """A shell of root waits there for the next command."""
        ours, theirs = os.openpty()
        self.addCleanup(os.close, ours)
        self.addCleanup(os.close, theirs)
        self.touch(["setsid", "sh", "-c", '(sh <"$0" &); exec "$@" <"$0"', os.ttyname(theirs)])
        os.write(ours, f"id >{self.node.dir}/next\n".encode())
        until(lambda: os.path.exists(self.node.path("next")), "the shell to execute a command")
        self.assertFalse(os.path.exists(self.node.path("typed")))

    def test_P18_descriptor_that_blocks(self):
        self.begin("linger", as_unit())
        self.await_words("the child sent a malformed message")

    def test_P18_descriptor_that_blocks_root(self):
        self.begin("linger", [])
        self.await_words("the child sent a malformed message")

    def refuse_claims(self, prefix):
        """They are refused, and no process is killed for that."""
        self.begin("claims", prefix)
        words = "the devices that were found last are not offered"
        until(lambda: "evil: attempt:" in self.node.output(), "the attempt")
        until(lambda: words in self.node.output(), f"devplugd to log \"{words}\"")
        pid = self.node.find("vendor.example/evil")["pid"]
        for _ in range(3):
            self.node.reload()
        self.assertEqual(self.node.output().count("evil: attempt:"), 1)
        self.assertEqual(self.node.output().count(words), 1)
        self.before["evil"] = pid
        self.assertEqual({name: self.node.find(f"vendor.example/{name}")["pid"] for name in self.before}, self.before)

    def test_P18_many_claims(self):
        self.refuse_claims(as_unit())

    def test_P18_many_claims_root(self):
        self.refuse_claims([program("devplugd-without-landlock")])

    def test_P18_as_many_claims_as_are_allowed(self):
        """Again and again: others are answered between two decisions."""
        self.begin("most", as_unit())
        until(lambda: self.node.output().count("evil: attempt:") > 3, "some of them")
        for _ in range(5):
            self.node.reload()
            self.assertIsNotNone(self.node.status())
        self.assertEqual({name: self.node.find(f"vendor.example/{name}")["pid"] for name in self.before}, self.before)

    def test_P18_many_devices_that_are_allocated(self):
        """They cost little, so that the watchdog of devplugd is notified in time."""
        self.begin("take", as_unit(), evil='overlap = "exclusive";')
        until(lambda: "possible: -" in self.node.output(), "all messages to be answered")
        with open(f"/proc/{self.node.daemon.pid}/stat") as file:
            ticks = sum(map(int, file.read().rsplit(")", 1)[1].split()[11:13]))
        self.assertLess(ticks / os.sysconf("SC_CLK_TCK"), 10)
        self.assertEqual({name: self.node.find(f"vendor.example/{name}")["pid"] for name in self.before}, self.before)

    def test_P18_much_to_log(self):
        self.begin("complain", as_unit())
        until(lambda: "further ones are not logged" in self.node.output(), "the end of its messages")
        until(lambda: next(r for r in self.node.state()["resources"] if r["name"] == "vendor.example/evil")
              ["failures"][0]["count"] >= 3000, "all of them to be counted")
        # 100 in each 10 s.
        self.assertLess(self.node.output().count("allocation refused: complaint"), 1000)

    def test_P18_text_in_disguise(self):
        """Neither the log nor what devplugctl prints reorders it, breaks its line, or hides a part."""
        self.begin("disguise", as_unit())

        def shown(*words):
            return subprocess.run([program("devplugctl"), "-c", self.node.config, *words], capture_output=True,
                                  text=True, timeout=60).stdout
        for where in (self.node.output, lambda: shown("events"), lambda: shown("status"),
                      lambda: shown("explain", "vendor.example/evil"), lambda: shown("status", "--json")):
            until(lambda: "reordered" in where(), "the text to be shown")
            self.assertFalse(re.search("[\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff]", where()), where())
            self.assertIn("disguise ???reordered??? in???lines with???no???width???", where())

    def test_P18_much_to_store(self):
        self.begin("store", as_unit())
        words = "the description of the devices is larger than 64 MiB, so devplugctl, metrics and DRA do not include these devices"
        until(lambda: words in self.node.output(), "devplugd to refuse it")
        self.assertEqual(self.node.resource("vendor.example/evil")["devices"], [])
        self.node.reload()
        self.assertEqual(self.node.output().count(words), 1)
        size = sum(os.path.getsize(os.path.join(folder, name)) for folder, _, names in os.walk(self.node.run)
                   for name in names if not name.endswith(".sock"))
        self.assertLess(size, 1 << 20)

    def test_P18_document_that_can_change(self):
        """It is not passed on to anybody."""
        self.begin("unsealed", as_unit())
        self.await_words("the child sent an invalid inventory")
        self.assertNotIn("vendor.example/evil", self.node.ask(devices=True)[1])

    def publish(self, kind):
        self.begin(kind, as_unit())
        until(lambda: "possible:" in self.node.output(), "the attempts")
        self.assertIn("possible: -\n", self.node.output())

    def test_P18_device_information(self):
        self.publish("information")
        self.assertFalse(os.path.exists(self.node.path("info")) and files_for_others(self.node.path("info")))

    def test_P18_storm_of_files(self):
        self.publish("storm")

    def test_P18_complete_lists(self):
        """Only a list that has as many devices as the resource should have is saved."""
        self.begin("complete-number", as_unit(), evil="expect = 2;")
        folder = os.path.join(self.node.run, "complete")
        names = until(lambda: os.path.isdir(folder) and os.listdir(folder), "the list")
        self.assertEqual(len(names), 1)
        with open(os.path.join(folder, names[0])) as file:
            self.assertEqual(json.load(file)["devices"], ["mine", "other"])

    def test_P18_malformed_list(self):
        self.begin("complete-nonsense", as_unit(), evil="expect = 2;")
        self.await_words("the child sent an invalid list of devices")
        self.assertFalse(os.listdir(os.path.join(self.node.run, "complete")))

    def label(self, kind):
        features = self.node.path("features.d")
        os.mkdir(features)
        os.chown(features, UNIT_UID, UNIT_UID)
        self.begin(kind, as_unit(), text=f'features_dir = "{features}";', evil='labels = ( "mine.${id}=x" );')
        self.await_words("the child sent invalid labels")
        self.assertEqual(os.listdir(features), [])

    def test_P18_label_of_another(self):
        """A control plane's, on which pods would be scheduled."""
        self.label("label-another")

    def test_P18_label_with_directive(self):
        self.label("label-directive")

    def test_P18_counts(self):
        """They concern nothing but the resource: the metrics of the others are there, and no sum is negative."""
        metrics = self.node.path("metrics/devplugd.prom")
        os.mkdir(os.path.dirname(metrics))
        os.chown(os.path.dirname(metrics), UNIT_UID, UNIT_UID)
        self.begin("counts", as_unit(), text=f'metrics = {{ textfile = "{metrics}"; interval = 1.0; }};',
                   programs=[("devplugd-exporter", "devplugd-exporter")])
        failures = until(lambda: next(r for r in self.node.state()["resources"] if r["name"] == "vendor.example/evil")
                         ["failures"], "the failures")
        self.assertEqual((failures[0]["text"], failures[0]["count"]), ("complaint", 1 << 48))

        def look():
            with contextlib.suppress(FileNotFoundError), open(metrics) as file:
                return 'devplugd_scan_errors_total{resource="vendor.example/evil"} 281474976710656\n' in file.read()
            return False

        until(look, lambda: f"metrics with the counts:\n{self.node.output()}")

    # --- the kubelet client

    def turn_client(self, kind, prefix, **more):
        """The next registration is that of another resource, by a client that was taken over."""
        self.begin("honest", prefix, **more)
        self.sessions = {name: (r["pid"], r["session"]) for name, r in self.node.await_serving().items()}
        self.turn(kind)
        self.end_client()
        self.configure(static("new", 1))
        self.node.reload()
        until(lambda: f"kubelet-client: attempt: {kind}" in self.node.output(), "the attempt")

    def end_client(self):
        pid = client_of(self.node.daemon.pid)
        if pid:
            os.kill(pid, signal.SIGKILL)
            until(lambda: client_of(self.node.daemon.pid) != pid, "the client to be reaped")

    def undo(self):
        """What was served was not disturbed, and with an honest client everything is registered."""
        self.turn("honest")
        self.end_client()
        self.node.await_allocatable(card=1, sibling=1, new=1, **{"evil-nic": 1})
        serving = self.node.await_serving()
        self.assertEqual({name: (serving[name]["pid"], serving[name]["session"]) for name in self.sessions}, self.sessions)
        self.assertEqual(serving["vendor.example/new"]["restarts"], 0)

    def touch_by_client(self, prefix, **more):
        self.turn_client("client-touch", prefix, **more)
        until(lambda: "kubelet-client: possible:" in self.node.output(), "the attempts")
        self.assertIn("kubelet-client: possible: -\n", self.node.output())
        self.undo()

    def test_P18_client(self):
        self.touch_by_client([])

    def test_P18_client_of_the_unit(self):
        self.touch_by_client(as_unit())

    def test_P18_client_without_landlock(self):
        self.touch_by_client([*as_unit(), program("devplugd-without-landlock")])

    def test_P18_client_that_lies(self):
        """About sessions that it was not given, and about what it has not registered."""
        self.turn_client("client-lie", as_unit())
        until(lambda: "kubelet-client: lied" in self.node.output(), "the lies")
        self.node.reload()
        self.assertEqual(self.node.find("vendor.example/new")["state"], "registering")
        self.assertNotIn("lie;", self.node.output())
        self.undo()

    def test_P18_client_that_reports_what_it_may_not(self):
        self.turn_client("client-unused", [])
        until(lambda: "kubelet-client sent a message that it may not send; killing" in self.node.output(), "its end")
        self.undo()

    def test_P18_client_that_floods(self):
        self.turn_client("client-flood", [])
        until(lambda: "kubelet-client sent too many messages; killing" in self.node.output(), "its end")
        self.undo()

    def test_P18_client_that_shuts_down_connections(self):
        self.turn_client("client-shut-down", [])
        until(lambda: "new: registration failed: shut down" in self.node.output(), "the failure")
        self.undo()

    def test_P18_client_that_shuts_down_sockets(self):
        self.turn_client("client-shut-down", as_unit(), watcher=True)
        until(lambda: "new: registration failed: the socket that the kubelet finds was shut down" in self.node.output(),
              "the failure")
        self.undo()


# A runtime runs such a hook as root, for each container that names the device.
HOOKS = {"cdiVersion": "0.3.0", "kind": "vendor.example/card", "devices": [{"name": "card-0", "containerEdits": {
    "hooks": [{"hookName": "createRuntime", "path": "/bin/sh", "args": ["sh", "-c", "id"]}],
    "mounts": [{"hostPath": "/", "containerPath": "/host", "options": ["rbind", "rprivate", "rw"]}]}}]}


def device(name, **more):
    """A device as devplugd-cluster sends it, with members that it may not send."""
    return {"request": "r", "pool": "n", "name": "d", "admin": False, "resource": f"vendor.example/{name}", "id": f"{name}-0",
            **more}


class DraBoundary(NodeTest):
    """The same for a program in the place of devplugd-cluster: it gains what it has to do, and nothing of devplugd, of the
    other processes, and of resources that are not served by DRA."""

    def begin(self, kind, claims=0, claim=None, child=False):
        """With as many claims that are prepared already; `claim` is what the program sends. `child`: it is also in the place
        of the process of the resource evil."""
        self.node.prefix = as_unit()
        folder = self.node.path("bin")
        os.mkdir(folder)
        self.node.daemon_program = shutil.copy(program("devplugd"), folder)
        honest = shutil.copy(program("devplugd-plugin"), os.path.join(folder, "honest" if child else ""))
        if child:
            shutil.copy(program("devplugd-hostile-child"), os.path.join(folder, "devplugd-plugin"))
        if claims:
            os.mkdir(self.node.run)
            os.mkdir(os.path.join(self.node.run, "claims"))
            for i in range(claims):
                with open(os.path.join(self.node.run, "claims", f"old-{i}.json"), "w") as file:
                    json.dump({"version": 1, "boot": "", "uid": f"old-{i}", "namespace": "n", "name": "c", "devices": []}, file)
                os.chown(file.name, UNIT_UID, UNIT_UID)
            for path in (self.node.run, os.path.join(self.node.run, "claims")):
                os.chown(path, UNIT_UID, UNIT_UID)
        shutil.copy(program("devplugd-hostile-child"), os.path.join(folder, "devplugd-cluster"))
        with open(os.path.join(folder, "hostile"), "w") as file:
            file.write(f"{honest}\n{kind}\n{self.node.run}\n{self.node.dir}/cdi\n")
        with open(os.path.join(folder, "claim"), "w") as file:
            json.dump(claim, file)
        kubeconfig = self.node.path("kubeconfig")
        with open(kubeconfig, "w") as file:
            file.write("users:\n- user: {tokenFile: token}\n")
        os.chmod(kubeconfig, 0o644)
        self.node.configure(static("card", 1, CARD), static("sibling", 1), static("fast", 1, 'serve = "dra";'),
                            static("evil", 1, 'serve = "dra"; container = { env = ( "EVIL=${id}" ); };'),
                            kubelet=f'plugins_registry_dir = "{self.node.dir}/registry";',
                            text=f'cdi_dir = "{self.node.dir}/cdi"; device_info_dir = "{self.node.dir}/info"; '
                                 f'dra = {{ driver = "d.example"; kubeconfig = "{kubeconfig}"; node = "n"; }};')
        os.mkdir(self.node.path("registry"))
        self.node.start_kubelet()
        self.node.start()
        self.node.await_allocatable(card=1, sibling=1)
        self.before = {name: self.node.find(f"vendor.example/{name}")["pid"] for name in ("card", "sibling", "evil")}

    def tearDown(self):
        self.assertEqual({name: self.node.find(f"vendor.example/{name}")["pid"] for name in self.before}, self.before)
        self.node.reload()
        super().tearDown()

    def test_P18_reach(self):
        self.begin("touch")
        until(lambda: "possible:" in self.node.output(), "the attempts")
        self.assertIn("possible: -\n", self.node.output())

    def test_P18_questions(self):
        self.begin("dra-questions")
        until(lambda: "possible:" in self.node.output(), "the attempts")
        self.assertIn("possible: -\n", self.node.output())
        self.assertIn("refused: vendor.example/card is not served by DRA on this node", self.node.output())
        self.assertIn("does not name /etc/shadow", self.node.output())

    def check_claim(self, devices, **more):
        """A claim with a member that devplugd adds, or with an unknown one, is refused: no CDI file is written or saved."""
        self.begin("dra-claim", claim={"uid": "u-0", "namespace": "n", "name": "c", "devices": devices, **more})
        refused = "devplugd-cluster sent a message that it may not send"
        until(lambda: refused in self.node.output() or "possible:" in self.node.output(), "the attempt")
        folders = [folder for folder in (self.node.path("cdi"), self.node.run) if os.path.isdir(folder)]
        self.assertEqual([name for folder in folders for name in os.listdir(folder) if "dra-" in name or name == "claims"], [])
        self.assertIn(refused, self.node.output())

    def test_P18_claim_with_hooks(self):
        self.check_claim([], spec=HOOKS)

    def test_P18_claim_with_hooks_and_a_device(self):
        self.check_claim([device("evil", cdi=[])], spec=HOOKS)

    def test_P18_claim_with_a_device_of_a_plugin(self):
        self.check_claim([device("card", cdi=["any.vendor/device=all"])])

    def test_P18_claim_with_an_unknown_member(self):
        self.check_claim([], more=1)

    def test_P18_device_with_an_unknown_member(self):
        self.check_claim([device("evil", forgotten=True)])

    def test_P18_metadata_with_a_path(self):
        self.check_claim([device("evil")], metadata={"attributes": {}, "alternatives": {"r": "r/../../../../etc/x"}})

    def test_P18_metadata_of_another_device(self):
        self.check_claim([device("evil")], metadata={"attributes": {"other": {}}, "alternatives": {}})

    def test_P18_malformed_attributes(self):
        self.begin("dra-malformed")
        until(lambda: "devplugd-cluster sent a message that it may not send" in self.node.output(), "the end of the process")

    def test_P18_attributes_without_end(self):
        """They are written a few times a second, whatever the process sends, and the last ones in the end."""
        self.begin("dra-attributes")
        until(lambda: "changed: -\n" in self.node.output(), "the messages")
        path = os.path.join(self.node.dir, "cdi/devplugd.metadata/devplugd.metadata-u-0_r.json")

        def found():
            with open(path) as file:
                return json.loads(file.readline() or "{}")

        until(lambda: found()["requests"][0]["devices"][0]["attributes"] == {"lanes": {"int": 9000}}, "the last attributes")
        self.assertEqual([name for name in os.listdir(os.path.dirname(path)) if not name.startswith(".devplugd-files-")],
                         [os.path.basename(path)])

    def test_P18_path(self):
        self.begin("dra-path")
        until(lambda: "devplugd-cluster sent a message that it may not send" in self.node.output(), "the end of the process")

    def test_P18_claims_without_end(self):
        self.begin("dra-claims", claims=1000)
        until(lambda: "prepared: 24: 1024 claims are prepared on this node" in self.node.output(), "the limit")
        self.assertEqual(self.node.status()["dra"]["claims"], 24)

    def test_P18_child_that_never_answers(self):
        """The claims of its resource wait, and those of another one are prepared."""
        self.begin("dra-mute", child=True)
        until(lambda: "fast: prepared\n" in self.node.output(), "the other claim")

    def test_P18_much_for_each_claim(self):
        """All claims have a limit of size, whatever a child and devplugd-cluster do together."""
        self.begin("dra-fill", child=True)
        until(lambda: "filled: " in self.node.output(), "the limit")
        self.assertRegex(self.node.output(), "filled: 1[0-9]: the claims on this node would take more than 16 MiB")
        folder = os.path.join(self.node.run, "claims")
        self.assertLessEqual(sum(os.path.getsize(os.path.join(folder, name)) for name in os.listdir(folder)), 16 << 20)
        if not SANITIZED:
            self.assertLess(int(process_status(self.node.daemon.pid)["VmRSS"].split()[0]), 160 << 10)

    def test_P18_much_to_log(self):
        self.begin("dra-complain")
        until(lambda: self.node.state()["dra"]["api_failure"] == "complaint 899", "all of it")
        self.assertLess(self.node.output().count("API server: complaint"), 600)


if __name__ == "__main__":
    unittest.main()
