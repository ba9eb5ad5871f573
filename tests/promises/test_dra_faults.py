# SPDX-License-Identifier: Apache-2.0
"""The API server is slow, away, or answers with each kind of failure: what is prepared goes on."""
import concurrent.futures
import itertools
import os
import resource
import time
import unittest

from api_server import SLICES_PATH, Authority
from dra_node import DRIVER, DraTest
from node import until


class DraFaults(DraTest):
    def test_api_failures(self):
        """Whatever the API server does, status names it, what is prepared goes on, a new claim waits with the reason, and all
        is well when it is over."""
        self.serve_api()
        self.begin(self.resource("gpu"))
        self.await_pool()
        devices = [self.api.device_named("vendor.example/gpu", i) for i in range(2)]
        known, new = (("default", name, self.api.allocate(name, DRIVER, [("a", device)]))
                      for name, device in zip(("known", "new"), devices))
        answer = self.prepare(known)

        def check(what):
            until(lambda: what in self.dra()["api_failure"].lower(), what)
            reported = self.ctl("check")
            self.assertEqual(reported.returncode, 1)
            self.assertRegex(reported.stdout, "^API server: ")
            self.assertEqual(self.prepare(known), answer)
            self.assertIn("cannot read the claim: ", self.refusal(new))

        def recover():
            self.await_pool()
            until(lambda: not self.dra()["api_failure"], "the failure to be over")

        faults = {code: f": {code}" for code in (401, 403, 409, 410, 429, 500, 503)}
        for fault, what in {**faults, "garbage": "not json", "close": "get", "hang": "has not answered for 5 s"}.items():
            with self.subTest(fault):
                self.api.faults = [lambda method, path: fault if "/api" in path else None]
                self.api.change("DELETED", next(iter(self.api.slices)))
                check(what)
                self.api.faults = []
                recover()

        with self.subTest("another certificate"):
            self.api.stop()
            trusted, self.api.certificate = self.api.certificate, self.api.issue_server(Authority(self.node.path("other")))
            self.api.start()
            check("certificate")
            self.api.stop()
            self.api.certificate = trusted
            self.api.start()
            recover()
        self.assertNotIsInstance(self.prepare(new)[new[2]], str)

    def reads(self):
        """How often the server was asked for the node, for the list of slices, and for a watch of them."""
        with self.api.lock:
            paths = [path for method, path, _ in self.api.requests if method == "GET"]
        watches = [path for path in paths if "watch=1" in path]
        return (sum("/nodes/" in path for path in paths), sum("/resourceslices?" in path for path in paths) - len(watches),
                len(watches))

    def test_refused_watch(self):
        """Where only the watch is refused, changes are published without a new list, and the watch waits as long as the
        server asks."""
        self.serve_api()
        self.api.retry_after = 300
        self.api.faults = [lambda method, path: 429 if "watch=1" in path else None]
        self.begin(self.resource("gpu"))
        self.await_pool()
        until(lambda: ": 429" in self.dra()["api_failure"], "the reason")
        # The registration has the node and the list read again; nothing else may.
        until(lambda: self.dra()["registered"], "the registration")
        name = self.api.device_named("vendor.example/gpu", 0)
        for _ in range(3):
            self.assertEqual(self.ctl("cordon", "vendor.example/gpu/gpu-0").returncode, 0)
            self.await_pool(lambda pool: "taints" in pool[name])
            self.assertEqual(self.ctl("uncordon", "vendor.example/gpu/gpu-0").returncode, 0)
            self.await_pool(lambda pool: "taints" not in pool[name])
        nodes, lists, watches = self.reads()
        self.assertEqual(watches, 1)
        self.assertLessEqual(max(nodes, lists), 2)
        self.assertIn(": 429", self.dra()["api_failure"])
        self.assertNotIn("answers again", self.node.output())

    def check_watches(self, fault, what):
        began = []

        def end(method, path):
            if "watch=1" not in path:
                return None
            began.append(time.monotonic())
            return fault

        self.serve_api()
        self.api.faults = [end]
        self.begin(self.resource("gpu"))
        wanted = self.await_pool()
        until(lambda: len(began) >= 3, "the third watch")
        # The next delay begins when the answer arrives, so no load makes these times shorter.
        self.assertGreaterEqual(began[1] - began[0], 1)
        self.assertGreaterEqual(began[2] - began[1], 2)
        # The node is read before the list.
        nodes, lists, _ = self.reads()
        self.assertLessEqual(nodes, lists + 1)
        until(lambda: what in self.dra()["api_failure"], "the reason")
        self.api.change("DELETED", next(iter(self.api.slices)))
        until(lambda: self.api.pool() == wanted, "the deleted slice")
        self.assertNotIn("answers again", self.node.output())
        self.api.faults = []
        until(lambda: not self.dra()["api_failure"], "a watch that works")

    def test_forbidden_watch(self):
        """Watches that fail are begun ever more rarely; slices are still repaired."""
        self.check_watches(403, ": 403")

    def test_watch_that_ends(self):
        """The same for watches that end at once without an error."""
        self.check_watches("empty", "")

    def test_changes_without_a_pause(self):
        """A device that changes again and again delays no taint of another resource of the driver."""
        health = self.node.path("health")
        texts = itertools.count()
        self.serve_api()
        probe = f'health = ( {{ probe = "file"; path = "{health}"; healthy = "ok"; missing = "healthy"; }} );'
        self.begin(self.resource("gpu"), self.resource("fpga", probe, count=1))
        self.await_pool(lambda pool: len(pool) == 4)
        name = self.api.device_named("vendor.example/gpu", 0)

        def change():
            with open(f"{health}.new", "w") as file:
                file.write(f"text {next(texts)}")
            os.rename(file.name, health)

        def tainted(pool):
            change()
            return "taints" in pool[name]

        change()
        self.assertEqual(self.ctl("cordon", "vendor.example/gpu/gpu-0").returncode, 0)
        self.await_pool(tainted)

    def test_slow_server(self):
        """Each answer takes a second: all works, and nothing is a failure."""
        self.serve_api()
        self.api.faults = [lambda method, path: 1.0]
        self.begin(self.resource("gpu"))
        self.await_pool()
        name = self.api.device_named("vendor.example/gpu", 0)
        claims = [("default", f"c{i}", self.api.allocate(
            f"c{i}", DRIVER, [("a", self.api.device_named("vendor.example/gpu", i))])) for i in range(2)]
        answer = self.prepare(*claims)
        self.assertEqual([len(answer[uid]) for _, _, uid in claims], [1, 1])
        self.assertEqual(self.ctl("cordon", "vendor.example/gpu/gpu-0").returncode, 0)
        self.await_pool(lambda pool: "taints" in pool[name])
        self.assertEqual(self.unprepare(*claims), {uid: "" for _, _, uid in claims})
        self.assertNotIn("API server: ", self.node.output())

    def test_silent_server(self):
        """The claims of a call, and of calls that wait behind it, share each wait for a server that does not answer; what is prepared
        is in the answer."""
        self.serve_api()
        self.begin(self.resource("gpu", count=4))
        self.await_pool()
        names = [self.api.device_named("vendor.example/gpu", i) for i in range(4)]
        known, *new = (("default", f"c{i}", self.api.allocate(f"c{i}", DRIVER, [("a", name)]))
                       for i, name in enumerate(names))
        devices = self.prepare(known)[known[2]]
        reads = []

        def hang(method, path):
            if "/resourceclaims/" not in path:
                return None
            reads.append(path)
            return "hang"

        self.api.faults = [hang]
        with concurrent.futures.ThreadPoolExecutor() as pool:
            calls = [pool.submit(self.prepare, *claims, deadline=30) for claims in (new, [*new, known])]
            answers = [call.result() for call in calls]
        for answer in answers:
            for _, _, uid in new:
                self.assertIn("cannot read the claim: ", answer[uid])
        self.assertEqual(answers[1][known[2]], devices)
        # In 25 s, each wait takes 10 s, and the second call ends a moment after the first. Two claims are read at once after a
        # read that was answered, and one after a failure.
        self.assertLessEqual(len(reads), 5, reads)
        self.api.faults = []
        self.assertEqual([len(devices) for devices in self.prepare(*new).values()], [1, 1, 1])

    def test_joining_node(self):
        """When the kubelet registers the driver, earlier failures do not delay the slices; "devplugctl wait" waits for these."""
        self.serve_api()
        self.api.retry_after = 300
        self.api.faults = [lambda method, path: 429 if "/nodes/" in path else None]
        self.configure(self.resource("gpu"))
        self.node.start()
        until(lambda: (dra := self.dra()) and ": 429" in dra["api_failure"], "the failure")
        self.api.faults = [lambda method, path: 503 if method == "POST" else None]
        self.register()
        self.node.await_state("vendor.example/gpu", "serving")
        until(lambda: ": 503" in self.dra()["api_failure"], "the next failure")
        for condition in ("serving", "healthy=3"):
            answer = self.ctl("wait", "vendor.example/gpu", "--timeout", "0", "--for", condition)
            self.assertEqual(answer.returncode, 1)
            self.assertRegex(answer.stderr, "its devices are not published in ResourceSlices: .*: 503")
        self.api.faults = []
        self.assertEqual(self.ctl("wait", "vendor.example/gpu").returncode, 0)
        self.assertEqual(len(self.api.pool()), 3)
        # A kubelet that starts deletes them.
        self.api.faults = [lambda method, path: 503 if method == "POST" else None]
        self.api.change("DELETED", next(iter(self.api.slices)))
        self.register()
        until(lambda: ": 503" in self.dra()["api_failure"], "the failure to publish again")
        self.assertEqual(self.ctl("wait", "vendor.example/gpu", "--timeout", "0").returncode, 1)
        self.api.faults = []
        self.assertEqual(self.ctl("wait", "vendor.example/gpu").returncode, 0)
        self.assertEqual(len(self.api.pool()), 3)

    def test_P19_no_free_descriptors(self):
        """While devplugd is at its limit of open files, a claim waits, and no process is killed."""
        self.serve_api()
        self.begin(self.resource("gpu"))
        self.await_pool()
        claim = ("default", "c", self.api.allocate("c", DRIVER, [("a", self.api.device_named("vendor.example/gpu", 0))]))
        pid, daemon = self.process(), self.node.daemon.pid
        limits = resource.prlimit(daemon, resource.RLIMIT_NOFILE)
        with concurrent.futures.ThreadPoolExecutor() as pool:
            try:
                # Descriptors that are open stay so, and no further one can be had.
                resource.prlimit(daemon, resource.RLIMIT_NOFILE, (0, limits[1]))
                call = pool.submit(self.prepare, claim)
                until(lambda: "devplugd has reached its limit of open files; raise LimitNOFILE=" in self.node.output(),
                      "devplugd to name the shortage")
                # Longer than devplugd-cluster may be silent.
                time.sleep(16)
            finally:
                resource.prlimit(daemon, resource.RLIMIT_NOFILE, limits)
            self.assertEqual(len(call.result()[claim[2]]), 1)
        self.assertEqual(self.process(), pid)

    def plant(self, name, generation=1):
        """Another client stores a slice of this node and driver."""
        pool = {"name": "node-a", "generation": generation, "resourceSliceCount": 1}
        self.api.change("ADDED", name, {"apiVersion": "resource.k8s.io/v1", "kind": "ResourceSlice", "metadata": {"name": name},
                                        "spec": {"driver": DRIVER, "nodeName": "node-a", "pool": pool, "devices": []}})

    def generations(self):
        with self.api.lock:
            return {name: found["spec"]["pool"]["generation"] for name, found in self.api.slices.items()}

    def test_last_generation(self):
        """A stored slice with a generation that has no next one is deleted, and not counted from."""
        self.serve_api()
        self.plant("00000-last", 2**63 - 1)
        self.plant("00001-large", 2**62 + 1)
        self.plant("other", 7)
        self.begin(self.resource("gpu"))
        until(lambda: self.dra()["slices"] == 1, "the slice")
        self.assertEqual(list(self.generations().values()), [8])
        self.assertEqual(len(self.await_pool()), 3)
        self.plant("00000-last", 2**63 - 1)
        until(lambda: list(self.generations().values()) == [9], "the slice to be deleted")
        self.assertNotIn("devplugd-cluster ended", self.node.output())

    def test_odd_names(self):
        """What the server says is no part of a path of another request."""
        paths = []

        def note(method, path):
            paths.append((method, path))

        self.serve_api()
        self.api.faults = [note]
        self.api.list_metadata = {"resourceVersion": "1&watch=0"}
        for name in ("..", ".", "a?x=1", "a#b", "../../../../api/v1/nodes/node-a", "a%2e", "a b", "x" * 254):
            self.plant(name)
        self.begin(self.resource("gpu"))
        until(lambda: any(method != "GET" for method, _ in paths), "a write")
        until(lambda: any("watch=1" in path for _, path in paths), "a watch")
        self.assertEqual({(method, path) for method, path in paths if method != "GET"}, {("POST", SLICES_PATH)})
        self.assertFalse([path for _, path in paths if "watch=0" in path])
        until(lambda: self.dra()["slices"] == 1, "the slice")

    def test_list_without_end(self):
        """A list that always goes on is given up with the reason, and read again later."""
        self.serve_api()
        self.api.list_metadata = {"continue": "bW9yZQ"}
        lists = []

        def note(method, path):
            if "limit=" in path:
                lists.append(path)

        self.api.faults = [note]
        self.begin(self.resource("gpu"))
        words = "the API server's list of ResourceSlices is too long, or is continued with an invalid token"
        until(lambda: len(lists) > 1000 or words in self.dra()["api_failure"], "the reason")
        self.assertIn(words, self.dra()["api_failure"])
        self.api.list_metadata = {}
        self.await_pool()
        until(lambda: not self.dra()["api_failure"], "the failure to be over")

    def test_outage(self):
        """An outage, as long as DEVPLUGD_TEST_DRA_OUTAGE says: nothing is lost, and what changed meanwhile is published."""
        self.serve_api()
        self.begin(self.resource("gpu", count=4))
        self.await_pool()
        names = [self.api.device_named("vendor.example/gpu", i) for i in range(4)]
        first, second, new = (("default", name, self.api.allocate(name, DRIVER, [("a", device)]))
                              for name, device in zip(("first", "second", "new"), names))
        answer = self.prepare(first, second)
        self.api.stop()
        self.assertEqual(self.ctl("cordon", "vendor.example/gpu/gpu-3").returncode, 0)
        until(lambda: self.dra()["api_failure"], "the outage to be noticed")
        end = time.monotonic() + float(os.environ.get("DEVPLUGD_TEST_DRA_OUTAGE") or 0)
        while True:
            self.assertEqual(self.prepare(first), {first[2]: answer[first[2]]})
            self.assertIn("cannot read the claim", self.refusal(new))
            if time.monotonic() >= end:
                break
            time.sleep(5)
        self.assertEqual(self.unprepare(second), {second[2]: ""})
        self.assertEqual(self.files(), [f"devplugd.dra-{first[2]}.json"])
        pid = self.process()
        self.api.start()
        self.await_pool(lambda pool: "taints" in pool[names[3]])
        self.assertEqual(self.prepare(first), {first[2]: answer[first[2]]})
        self.assertNotIsInstance(self.prepare(new)[new[2]], str)
        self.assertEqual(self.process(), pid)


if __name__ == "__main__":
    unittest.main()
