# SPDX-License-Identifier: Apache-2.0
"""A kubelet repeats a failed preparation after a minute or more, so one call waits for what passes."""
import concurrent.futures
import contextlib
import json
import os
import signal
import threading
import time
import unittest

from dra_kubelet import Call, Calls
from dra_node import DRIVER, DraPodTest, DraTest
from node import LIMIT, until
from service_manager import ServiceManager

# How long the API server is away, in seconds.
OUTAGE = float(os.environ.get("DEVPLUGD_TEST_DRA_OUTAGE") or 3)


class DraPatience(DraTest):
    def setUp(self):
        super().setUp()
        self.calls = concurrent.futures.ThreadPoolExecutor()
        self.addCleanup(self.calls.shutdown)

    def claim(self, name, number=0):
        return "default", name, self.api.allocate(name, DRIVER, [("a", self.api.device_named("vendor.example/gpu", number))])

    def begin_one(self, *more, count=1):
        self.serve_api()
        self.begin(self.resource("gpu", " ".join(more), count=count))
        self.await_pool()

    def await_wait(self, claim, reason):
        until(lambda: f"the claim {claim[0]}/{claim[1]} waits: " in self.node.output(), "the claim to wait")
        line = next(line for line in self.node.output().splitlines() if f"{claim[1]} waits: " in line)
        self.assertIn(reason, line)

    def begin_waiting(self):
        """A claim waits for the device of another one. Returns both, and the call that waits."""
        first, second = self.claim("first"), self.claim("second")
        self.assertEqual(len(self.prepare(first)[first[2]]), 1)
        call = self.calls.submit(self.prepare, second)
        self.await_wait(second, "still prepared for the claim default/first")
        self.assertFalse(call.done())
        return first, second, call

    def refused(self):
        """The texts of the events about refusals."""
        events = json.loads(self.ctl("events", "--json").stdout)["events"]
        return [event["text"] for event in events if event["kind"] == "refusal"]

    def expect_nothing(self, claim):
        self.assertEqual(self.files(), [])
        self.assertFalse(os.path.exists(self.saved(claim[2])))
        until(lambda: self.dra()["claims"] == 0, "no claim")

    def test_new_claim(self):
        """It is read from the API server before devplugd, which cannot know it, is asked about it."""
        self.begin_one()
        claim = self.claim("first")
        os.kill(self.node.daemon.pid, signal.SIGSTOP)
        try:
            call = self.calls.submit(self.prepare, claim)
            until(lambda: any(path.endswith("/resourceclaims/first") for _, path, _ in list(self.api.requests)), "the claim to be read")
        finally:
            os.kill(self.node.daemon.pid, signal.SIGCONT)
        self.assertEqual(len(call.result()[claim[2]]), 1)

    def test_device_of_a_deleted_pod(self):
        """The scheduler allocates the device of a pod that was deleted by force, before the kubelet has unprepared its claim."""
        self.begin_one()
        first, second, call = self.begin_waiting()
        self.assertEqual(self.unprepare(first), {first[2]: ""})
        self.assertEqual(len(call.result()[second[2]]), 1)
        self.assertEqual(self.files(), [f"devplugd.dra-{second[2]}.json"])

    def test_time_of_the_call(self):
        """The reason comes before the kubelet gives up."""
        self.begin_one()
        first, second = self.claim("first"), self.claim("second")
        self.prepare(first)
        begin = time.monotonic()
        answer = self.prepare(second, deadline=12)[second[2]]
        self.assertIn("still prepared for the claim default/first", answer)
        self.assertGreaterEqual(time.monotonic() - begin, 7)
        until(lambda: f"cannot prepare the claim default/second: {answer}" in self.node.output(), "the log to name it")
        self.assertEqual(self.node.output().count("default/second"), 2)
        self.assertIn(f"cannot prepare the claim default/second: {answer}", self.refused())

    def test_time_of_programs(self):
        """One budget for all: a claim that has waited for a device, then for its program, and one that waits for the program of
        another claim, have their reasons before the call ends, and not its end. Later calls find what was begun, without the
        API server, although the list of claims has changed meanwhile."""
        folder = self.node.path("marks")
        os.mkdir(folder)
        os.chmod(folder, 0o777)
        runs, go = os.path.join(folder, "runs"), os.path.join(folder, "go")
        open(go, "w").close()
        program = self.script("prestart", f'echo "$1" >> "{runs}"\nuntil [ -e "{go}" ]; do sleep 0.05; done\n')
        self.begin_one(f'prestart = {{ command = [ "{program}", "${{id}}" ]; timeout = 25; }};', count=3)
        first, second, third, fourth = (self.claim(name, number) for name, number in
                                        (("first", 0), ("second", 0), ("third", 1), ("fourth", 2)))
        self.assertEqual([len(devices) for devices in self.prepare(first, fourth).values()], [1, 1])
        os.unlink(go)
        call = self.calls.submit(self.prepare, second, deadline=12)
        self.await_wait(second, "still prepared for the claim default/first")
        self.assertEqual(self.unprepare(first), {first[2]: ""})

        def count():
            with open(runs) as file:
                return file.read().split()

        until(lambda: count() == ["gpu-0", "gpu-2", "gpu-0"], "the program of the second claim")
        other = self.calls.submit(self.prepare, third, deadline=12)
        self.assertIn("did not answer in time; what it runs for the claim goes on", call.result()[second[2]])
        self.assertIn("still prepares the claim default/second", other.result()[third[2]])
        self.api.stop()
        self.assertIn("what it runs for the claim goes on", self.prepare(second, deadline=7)[second[2]])
        self.assertEqual(self.unprepare(fourth), {fourth[2]: ""})
        until(lambda: self.dra()["claims"] == 0, "no claim")
        open(go, "w").close()
        self.assertEqual(len(self.prepare(second, deadline=12)[second[2]]), 1)
        self.api.start()
        self.assertEqual(len(self.prepare(third)[third[2]]), 1)
        self.assertEqual(count(), ["gpu-0", "gpu-2", "gpu-0", "gpu-1"])

    def test_unprepare_ends_the_wait(self):
        self.begin_one()
        first, second, call = self.begin_waiting()
        self.assertEqual(self.unprepare(second), {second[2]: ""})
        self.assertIn("unprepared while it was being prepared", call.result()[second[2]])
        self.assertEqual(self.unprepare(first), {first[2]: ""})
        self.expect_nothing(second)

    def test_unprepare_during_an_attempt(self):
        """The answer to the attempt, which began before, does not have the claim wait again."""
        self.begin_one()
        first, second = self.claim("first"), self.claim("second")
        self.prepare(first)
        read = threading.Event()
        self.api.faults = [lambda method, path: 500 if path.endswith("/second") else None]
        call = self.calls.submit(self.prepare, second)
        self.await_wait(second, "cannot read the claim")
        self.node.daemon.send_signal(signal.SIGSTOP)
        self.api.faults = [lambda method, path: path.endswith("/second") and read.set()]
        self.assertTrue(read.wait(LIMIT))
        # devplugd is asked about the claim, and then about its unprepare.
        time.sleep(0.5)
        calls = Calls(self.kubelet.service(self.socket))
        self.addCleanup(calls.peer.close)
        end = calls.begin("NodeUnprepareResources", second)
        # devplugd-cluster answers this itself, after it has read the call before.
        calls.read_until_end(calls.begin("NodeUnprepareResources", ("", "", "")))
        self.node.daemon.send_signal(signal.SIGCONT)
        calls.read_until_end(end)
        self.assertIn("unprepared while it was being prepared", call.result()[second[2]])
        self.assertEqual(self.unprepare(first), {first[2]: ""})
        self.expect_nothing(second)

    def test_cancelled_call(self):
        """As when the kubelet ends."""
        self.begin_one()
        first, second = self.claim("first"), self.claim("second")
        self.prepare(first)
        calls = Calls(self.kubelet.service(self.socket))
        calls.begin("NodePrepareResources", second)
        self.await_wait(second, "still prepared")
        calls.peer.close()
        until(lambda: "the claim default/second no longer waits: the call was cancelled" in self.node.output(), "the end of the wait")
        self.assertEqual(self.refused(), [])
        self.assertEqual(self.unprepare(first), {first[2]: ""})
        self.expect_nothing(second)

    def test_cancelled_call_behind_another_claim(self):
        """A claim that waits until the programs for another one have ended is dropped with its call."""
        runs, go = self.node.path("runs"), self.node.path("go")
        program = self.script("prestart", f'echo "$1" >> "{runs}"\nuntil [ -e "{go}" ]; do sleep 0.1; done\n')
        with open(runs, "w"):
            os.chmod(runs, 0o666)
        self.begin_one(f'prestart = {{ command = [ "{program}", "${{id}}" ]; timeout = 25; }};', count=2)
        first, second = self.claim("first"), self.claim("second", 1)
        call = self.calls.submit(self.prepare, first)
        until(lambda: os.path.getsize(runs), "the program to run")
        calls = Calls(self.kubelet.service(self.socket))
        calls.begin("NodePrepareResources", second)
        until(lambda: any(second[2] in path for _, path, _ in self.api.requests) or
              any(path.endswith("/second") for _, path, _ in self.api.requests), "the claim to be read")
        calls.peer.close()
        # The claim is free for another call at once.
        self.assertIn("unprepared", self.unprepare_and_ask(second, go))
        self.assertEqual(len(call.result()[first[2]]), 1)
        self.assertEqual(self.files(), [f"devplugd.dra-{first[2]}.json"])
        with open(runs) as file:
            self.assertEqual(file.read().split(), ["gpu-0"])

    def unprepare_and_ask(self, claim, go):
        """Lets the programs end after the unprepare."""
        self.assertEqual(self.unprepare(claim), {claim[2]: ""})
        with open(go, "w"):
            pass
        return "unprepared"

    def test_many_waits(self):
        """256 calls wait, and the next one is refused. An unprepare on the same connection is answered at once."""
        self.begin_one(count=2)
        first = self.claim("first")
        self.prepare(first)
        calls = Calls(self.kubelet.service(self.socket))
        waiting = [self.claim(f"c{i}") for i in range(256)]
        streams = [calls.begin("NodePrepareResources", claim) for claim in waiting]
        until(lambda: self.node.output().count(" waits: ") == 256, "all to wait")
        self.assertFalse(calls.ended)
        more = self.claim("more", 1)
        with self.assertRaises(Call):
            self.prepare(more)
        calls.read_until_end(calls.begin("NodeUnprepareResources", ("default", "other", "0-0")))
        self.assertFalse(calls.ended.keys() & set(streams))
        calls.read_until_end(calls.begin("NodeUnprepareResources", first))
        # One of them gets the device.
        until(lambda: len(self.files()) == 1, "a claim")
        holder, = self.files()
        for claim in waiting:
            if claim[2] not in holder:
                calls.read_until_end(calls.begin("NodeUnprepareResources", claim))
        self.assertEqual(self.files(), [holder])

    def test_more_claims_than_may_wait(self):
        """They fail with the reason at once."""
        self.begin_one()
        first = self.claim("first")
        self.prepare(first)
        claims = [self.claim(f"c{i}") for i in range(260)]
        answers = self.prepare(*claims, deadline=20)
        self.assertEqual({"still prepared for the claim default/first" in answers[uid] for _, _, uid in claims}, {True})
        self.assertEqual(self.node.output().count(" waits: "), 256)

    def test_burst_of_answers(self):
        """While devplugd-cluster is busy, answers wait, also more than fit into its socket."""
        self.begin_one()
        first = self.claim("first")
        self.prepare(first)
        claims, pid, read = [self.claim(f"c{i}") for i in range(250)], self.process(), set()

        def refuse(method, path):
            read.add(path)
            return 500 if "/resourceclaims/" in path else None

        self.api.faults = [refuse]
        call = self.calls.submit(self.prepare, *claims, deadline=25)
        until(lambda: self.node.output().count(" waits: ") == len(claims), "all to wait")
        # Their next questions wait for devplugd.
        self.node.daemon.send_signal(signal.SIGSTOP)
        read.clear()
        self.api.faults = [lambda method, path: read.add(path)]
        until(lambda: len(read) >= len(claims), "all to be read")
        os.kill(pid, signal.SIGSTOP)
        self.node.daemon.send_signal(signal.SIGCONT)
        # It answers all.
        until(lambda: self.node.status(), "devplugd to run")
        time.sleep(0.5)
        os.kill(pid, signal.SIGCONT)
        answers = call.result()
        self.assertEqual({"still prepared for the claim default/first" in answers[uid] for _, _, uid in claims}, {True})
        self.assertEqual(self.process(), pid)

    def test_process_of_the_resource_ends(self):
        """Both while it is asked, and before."""
        go = self.node.path("go")
        program = self.script("prestart", f'until [ -e "{go}" ]; do sleep 0.1; done\n')
        self.begin_one(f'prestart = {{ command = [ "{program}" ]; timeout = 25; }};')
        claim = self.claim("c")
        call = self.calls.submit(self.prepare, claim)
        pid = self.node.find("vendor.example/gpu")["pid"]
        until(lambda: os.path.isdir(f"/proc/{pid}") and self.node.output() and self.runs_program(program), "the program to run")
        os.kill(pid, signal.SIGKILL)
        self.await_wait(claim, "ended before it answered")
        with open(go, "w"):
            pass
        self.assertEqual(len(call.result()[claim[2]]), 1)

    def runs_program(self, program):
        for pid in filter(str.isdigit, os.listdir("/proc")):
            with contextlib.suppress(OSError), open(f"/proc/{pid}/cmdline", "rb") as file:
                if program.encode() in file.read():
                    return True
        return False

    def test_devplugd_cluster_is_killed(self):
        """Calls wait for the next process, at the same socket: no kubelet has to register the driver again."""
        self.begin_one(count=4)
        until(lambda: self.dra()["registered"], "the registration")
        pid = self.process()
        claims = [self.claim(f"c{i}", i) for i in range(4)]
        for claim in claims:
            os.kill(self.process() or pid, signal.SIGKILL)
            self.assertEqual(len(self.prepare(claim)[claim[2]]), 1)
        self.assertNotEqual(self.process(), pid)
        self.assertEqual(self.kubelet.sockets(), [self.socket])
        self.assertTrue(self.dra()["registered"])
        self.assertNotIn("session ended", self.node.output())
        self.assertEqual(self.node.find("vendor.example/gpu")["state"], "serving")
        # The one that runs now publishes changes.
        self.assertEqual(self.ctl("cordon", "vendor.example/gpu/gpu-0").returncode, 0)
        self.await_pool(lambda pool: any("taints" in device for device in pool.values()))

    def test_devplugd_is_killed(self):
        """The next one is asked before it knows its devices."""
        self.begin_one(count=3)
        for number in range(3):
            claim = self.claim(f"c{number}", number)
            self.node.daemon.kill()
            self.node.daemon.wait()
            self.node.start()
            self.register_again()
            self.assertEqual(len(self.prepare(claim)[claim[2]]), 1)

    def test_stop_while_claims_wait(self):
        """Whatever a call waits for, the kubelet gets the reason why it ends, and nothing is left over."""
        self.marks = self.node.path("marks")
        os.mkdir(self.marks)
        os.chmod(self.marks, 0o777)
        begun, go = os.path.join(self.marks, "begun"), os.path.join(self.marks, "go")
        open(go, "w").close()
        program = self.script("prestart", f'until [ -e "{go}" ]; do echo > "{begun}"; sleep 0.05; done\n')
        self.begin_one(f'prestart = {{ command = [ "{program}" ]; timeout = 25; }};', count=4)
        first = self.claim("first")
        self.assertEqual(len(self.prepare(first)[first[2]]), 1)
        os.unlink(go)
        waiting = {name: self.claim(name, number) for name, number in
                   (("device", 0), ("program", 1), ("queue", 2), ("server", 3), ("turn", 3))}
        calls, read = {}, set()

        def begin(name):
            calls[name] = self.calls.submit(self.prepare, waiting[name])

        def note(method, path):
            read.add(path.rpartition("/")[2])
            return "hang" if path.endswith("/server") else None

        self.api.faults = [note]
        begin("device")
        self.await_wait(waiting["device"], "still prepared for the claim default/first")
        begin("program")
        until(lambda: os.path.exists(begun), "the program to run")
        begin("queue")
        until(lambda: "queue" in read, "the claim to be read")
        # Claims are read one after the other.
        calls["server"] = self.calls.submit(self.prepare, waiting["server"], waiting["turn"])
        until(lambda: "server" in read, "the server to hang")
        self.node.stop()
        for name, call in calls.items():
            with self.subTest(name), self.assertRaisesRegex(Call, "devplugd is restarting; the kubelet will retry"):
                call.result()
        self.assertEqual([name for name, claim in waiting.items() if os.path.exists(self.saved(claim[2]))], [])

    def test_prestart_that_fails_once(self):
        marker = self.node.path("marker")
        os.mkdir(marker)
        os.chmod(marker, 0o777)
        program = self.script("prestart", f'[ -e "{marker}/again" ] && exit 0\necho > "{marker}/again"\necho not yet >&2\nexit 1\n')
        self.begin_one(f'prestart = {{ command = [ "{program}" ]; }};')
        claim = self.claim("c")
        self.assertEqual(len(self.prepare(claim)[claim[2]]), 1)
        self.await_wait(claim, "not yet")

    def test_prestart_that_always_fails(self):
        """It runs four times, and the reason comes long before the call ends."""
        runs = self.node.path("runs")
        with open(runs, "w"):
            os.chmod(runs, 0o666)
        program = self.script("prestart", f'echo x >> "{runs}"\necho never >&2\nexit 1\n')
        self.begin_one(f'prestart = {{ command = [ "{program}" ]; }};')
        claim = self.claim("c")
        self.assertIn("never", self.prepare(claim)[claim[2]])
        with open(runs) as file:
            self.assertEqual(len(file.readlines()), 4)
        self.expect_nothing(claim)

    def test_outage_of_the_api_server(self):
        """Claims of several calls wait until it answers."""
        self.begin_one(count=3)
        claims = [self.claim(f"c{i}", i) for i in range(3)]
        self.api.stop()
        calls = [self.calls.submit(self.prepare, claim) for claim in claims]
        for claim in claims:
            self.await_wait(claim, "cannot read the claim")
        time.sleep(OUTAGE)
        self.assertFalse(any(call.done() for call in calls))
        self.api.start()
        for claim, call in zip(claims, calls):
            self.assertEqual(len(call.result()[claim[2]]), 1)

    def test_token_that_has_rotated(self):
        """The server refuses the one that is known, and the request is sent again with the next one."""
        self.serve_api()
        token = self.node.path("token")
        with open(token, "w") as file:
            file.write("secret-token")
        self.api.kubeconfig(self.kubeconfig, token_file=token)
        self.begin(self.resource("gpu", count=2))
        self.await_pool()
        self.api.tokens = {"newer-token": self.api.user}
        with open(token, "w") as file:
            file.write("newer-token")
        claim = self.claim("c")
        self.assertEqual(len(self.prepare(claim)[claim[2]]), 1)
        self.assertNotIn(" waits: ", self.node.output())
        # One that stays refused is named.
        self.api.tokens = {}
        claim = self.claim("d", 1)
        self.assertIn(": 401", self.refusal(claim))

    def test_server_that_asks_for_a_pause(self):
        """It is not asked before; a prepared claim is not delayed."""
        self.begin_one(count=2)
        known, new = self.claim("known"), self.claim("new", 1)
        answer = self.prepare(known)
        reads = []

        def busy(method, path):
            if "/resourceclaims/" not in path:
                return None
            reads.append(time.monotonic())
            return 429 if len(reads) < 3 else None

        self.api.retry_after = 2
        self.api.faults = [busy]
        call = self.calls.submit(self.prepare, new)
        until(lambda: reads, "the first read")
        self.assertEqual(self.prepare(known), answer)
        self.assertEqual(len(call.result()[new[2]]), 1)
        self.assertEqual(len(reads), 3)
        self.assertGreaterEqual(reads[2] - reads[0], 4)


class DraPodPatience(DraPodTest):
    """With devplug-kubelet: each pod starts by one call."""
    CLAIM_TIMEOUT = "45"

    def setUp(self):
        super().setUp()
        self.systemd = ServiceManager(self, self.node)
        self.calls = concurrent.futures.ThreadPoolExecutor()
        self.addCleanup(self.calls.shutdown)
        self.serve_api()

    def begin(self, *more):
        super().begin(self.resource("gpu", " ".join(more), count=2))
        until(lambda: len(self.systemd.names()) == 2, "systemd to have the sockets")

    def start_pod(self, name, number=0):
        self.api.allocate(name, DRIVER, [("a", self.api.device_named("vendor.example/gpu", number))])
        return self.calls.submit(self.pod, name, self.api.claims["default", name])

    def kill(self, pid):
        """The kubelet notices it, as kubelets do at once, and makes its next call on another connection."""
        until(lambda: self.count_events("driver-health") > self.count_events("driver-health-ended"), "the stream of health")
        before = self.count_events("driver-health-ended")
        os.kill(pid, signal.SIGKILL)
        until(lambda: self.count_events("driver-health-ended") > before, "the kubelet to lose the connection")

    def expect_one_call(self, *pods):
        """Each of them has one, which did not fail."""
        made = [(event["pod"], event.get("error")) for event in self.node.kubelet_events() if event["event"] == "prepare"]
        self.assertEqual(made, [(name, None) for name in pods])

    def test_device_of_a_deleted_pod(self):
        self.begin()
        self.assertEqual(self.start_pod("first").result()["phase"], "Running")
        second = self.start_pod("second")
        until(lambda: "the claim default/second waits: " in self.node.output(), "the claim to wait")
        self.assertEqual(self.remove("first"), "")
        self.assertEqual(second.result()["phase"], "Running")
        self.expect_one_call("first", "second")

    def test_devplugd_cluster_is_killed(self):
        self.begin()
        for number, name in enumerate(("first", "second")):
            self.kill(self.process())
            self.assertEqual(self.start_pod(name, number).result()["phase"], "Running")
        self.expect_one_call("first", "second")

    def test_devplugd_is_killed(self):
        self.begin()
        for number, name in enumerate(("first", "second")):
            self.kill(self.node.daemon.pid)
            self.node.daemon.wait()
            pod = self.start_pod(name, number)
            self.systemd.start()
            self.assertEqual(pod.result()["phase"], "Running")
        self.expect_one_call("first", "second")

    def test_outage_of_the_api_server(self):
        self.begin()
        self.api.stop()
        pod = self.start_pod("first")
        until(lambda: "the claim default/first waits: " in self.node.output(), "the claim to wait")
        time.sleep(OUTAGE)
        self.api.start()
        self.assertEqual(pod.result()["phase"], "Running")
        self.expect_one_call("first")

    def test_prestart_that_fails_once(self):
        folder = self.node.path("marker")
        os.mkdir(folder)
        os.chmod(folder, 0o777)
        program = self.script("prestart", f'[ -e "{folder}/again" ] && exit 0\necho > "{folder}/again"\nexit 1\n')
        self.begin(f'prestart = {{ command = [ "{program}" ]; }};')
        self.assertEqual(self.start_pod("first").result()["phase"], "Running")
        self.expect_one_call("first")


if __name__ == "__main__":
    unittest.main()
