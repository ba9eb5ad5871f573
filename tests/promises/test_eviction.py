# SPDX-License-Identifier: Apache-2.0
"""A device that fails with the severity "evict" loses its pods, by the Eviction API, after the cluster knows of the failure; and nothing
else loses a pod."""
import itertools
import json
import os
import signal
import unittest

from dra_node import DRIVER, DraTest
from eviction_node import GPU, EvictionTest
from devplug_apiserver.resources import CLAIMS
from test_json import flatten, members_by_command
from node import until
from unix_http import get

REPORT = "cluster = { report = true; };"


class Eviction(EvictionTest):
    cluster_process = DraTest.process

    def break_device(self, device, text="broken", allocatable=3):
        self.write(device, text)
        until(lambda: self.health("gpu")[device][0] == "Unhealthy", "the failure")
        self.show_allocatable(allocatable)

    def test_pods_are_evicted_when_the_node_shows_the_failure(self):
        self.begin(self.gpu(after=1))
        bad, good = self.run_pod("bad"), self.run_pod("good")
        self.assertNotEqual(bad, good)
        self.write(bad, "broken")
        self.await_state(bad, "evicting")
        # The scheduler would give another pod the same device.
        self.await_pod(bad, "bad", "waiting", f"the Node still shows 4 allocatable {GPU}, and not 3")
        self.assertEqual(self.evictions(), [])
        # The kubelet refuses a pod that has been bound to the node meanwhile.
        self.assertIn("UnexpectedAdmissionError", str(self.node.pod("late", gpu=3)[1]))
        self.show_allocatable(3)
        self.await_pod(bad, "bad", "evicted")
        self.assertEqual(self.evictions(), ["bad"])
        self.assertTrue(self.is_ending("bad"))
        self.assertFalse(self.is_ending("good"))
        events = [event["text"] for event in json.loads(self.ctl("events", "--json").stdout)["events"] if event["kind"] == "eviction"]
        shown = {path for path, _ in flatten(self.node.status()) if ".eviction." in path}
        self.assertEqual(shown, {path for path in members_by_command()["status, devices, explain"] if ".eviction." in path})
        self.assertEqual(events, [f"the pods of device {bad} are evicted: broken", f"evicted pod default/bad, which had device {bad}"])
        self.end_pod("bad")
        until(lambda: not self.failures()[bad]["pods"], "the pod to be gone")
        self.write(bad, "ok")
        until(lambda: not self.failures(), "the recovery")
        self.assertEqual(self.evictions(), ["bad"])

    def test_recovery_in_time(self):
        """A device that recovers within evict_after keeps its pods, and the time begins again."""
        self.begin(self.gpu(after=3600))
        device = self.run_pod("a")
        self.break_device(device)
        self.await_state(device, "waiting")
        self.assertIn("Its pods are evicted at", self.ctl("explain", GPU).stdout)
        since = self.failures()[device]["since"]
        self.kill_daemon()
        self.await_state(device, "waiting")
        self.assertEqual(self.failures()[device]["since"], since)
        self.write(device, "ok")
        until(lambda: not self.failures(), "the recovery")
        self.assertEqual(self.evictions(), [])

    def test_budgets_are_respected(self):
        self.begin(self.gpu(), text=f'metrics = {{ listen = "{self.node.path("metrics.sock")}"; }};')
        device = self.run_pod("a")
        self.budget("a", 0)
        self.break_device(device)
        self.await_pod(device, "a", "refused", "Cannot evict pod as it would violate the pod's disruption budget. The disruption budget a "
                                               "needs 2 healthy pods and has 2 currently")
        self.assertIn(f"device {device}: pod default/a is not evicted: Cannot evict pod", " ".join(self.ctl("status").stdout.split()))
        until(lambda: len(self.requests("POST", "/eviction")) > 2, "more attempts")
        self.assertEqual(self.evictions(), [])
        # The server works.
        self.assertIn("devplugd_dra_api_errors_total 0", get(self.node.path("metrics.sock"))[1].splitlines())
        self.allow("a", 1)
        self.await_pod(device, "a", "evicted")
        # A process that begins anew does not evict it again.
        self.node.stop()
        self.node.start()
        self.node.await_serving()
        self.await_pod(device, "a", "ended", "it is ending")
        self.assertEqual(self.evictions(), ["a"])

    def test_refusals(self):
        self.begin(self.gpu())
        device = self.run_pod("a")
        for words, do in (("403", {"path": "/eviction", "do": 403}), ("500", {"path": "/eviction", "do": 500}),
                          ("the pod cannot be read", {"path": "/pods/a$", "do": 403}),
                          ("the Node cannot be read", {"path": "/nodes/", "do": 403})):
            with self.subTest(words):
                self.api.ask("PUT", "/devplug/faults", {"faults": [do]})
                self.break_device(device)
                self.await_pod(device, "a", "waiting" if "Node" in words else "refused", words)
                self.write(device, "ok")
                until(lambda: not self.failures(), "the recovery")
                self.show_allocatable(4)
        self.api.ask("PUT", "/devplug/faults", {"faults": []})
        # More than one budget is an error that stays.
        self.budget("a", 1)
        self.budget("b", 1, label="a")
        self.break_device(device)
        self.await_pod(device, "a", "refused", "more than one PodDisruptionBudget")
        self.assertEqual(self.evictions(), [])

    def test_pods_that_are_never_evicted(self):
        cases = {
            "static": ({"annotations": {"kubernetes.io/config.mirror": "x"}, "owners": "Node"}, "skipped", "static pod"),
            "daemon": ({"owners": "DaemonSet"}, "skipped", "DaemonSet"),
            "bare": ({"owners": None}, "skipped", "set evict_bare = true"),
        }
        self.begin(self.gpu(count=8), count=8)
        devices = {name: self.run_pod(name, **options) for name, (options, _, _) in cases.items()}
        for number, (name, device) in enumerate(devices.items()):
            self.break_device(device, allocatable=7 - number)
        for name, device in devices.items():
            self.await_pod(device, name, *cases[name][1:])
        self.assertEqual((self.evictions(), self.requests("POST", "/eviction")), ([], []))
        self.configure(self.gpu("evict_bare = true;", count=8))
        self.node.reload()
        # The change itself holds the eviction now.
        self.await_state(devices["bare"], "held", "configuration")
        self.assertEqual(self.ctl("evict", GPU).returncode, 0)
        self.await_pod(devices["bare"], "bare", "evicted")
        self.assertEqual(self.evictions(), ["bare"])

    def test_another_pod_with_the_name(self):
        """A StatefulSet has made the pod again: what has the device is not what has the name."""
        self.begin(self.gpu())
        given, _ = self.node.pod("db-0", gpu=1)
        device = given["resources"][GPU][0]
        self.add_pod("db-0", "7a1c0f42-0000-4000-8000-000000000001", owners="StatefulSet")
        self.break_device(device)
        self.await_pod(device, "db-0", "ended", "another pod has its name now")
        # So it is where the API server finds out.
        self.remove_pod("db-0")
        self.await_pod(device, "db-0", "ended", "it does not exist any more")
        self.assertEqual((self.evictions(), self.requests("POST", "/eviction")), ([], []))

    def test_deletion_only_if_it_is_set(self):
        self.begin(self.gpu("force_after = 2;"))
        device = self.run_pod("a")
        self.budget("a", 0)
        self.break_device(device)
        self.await_pod(device, "a", "refused", "disruption budget")
        self.await_pod(device, "a", "deleted")
        self.assertEqual(len(self.requests("DELETE", "/pods/a")), 1)
        self.assertTrue(self.is_ending("a"))

    # --- Events

    def await_event(self, *key, words=""):
        def find():
            return next((event for event in self.api.events().get(key, []) if words in event["message"]), None)

        return until(find, f"an Event about {key} with {words!r}")

    def test_events(self):
        """The Node and the pod tell that an eviction has begun, why the pod is not evicted, and that it is."""
        self.begin(self.gpu(), text=REPORT)
        device = self.run_pod("a")
        self.run_pod("b")
        self.budget("a", 0)
        self.break_device(device)
        for thing in (("Node", "node-a"), ("Pod", "a")):
            started = self.await_event(*thing, "EvictionStarted")
            self.assertEqual((started["type"], started["message"]), ("Warning", f"{GPU}: the pods of device {device} are evicted: broken"))
            refused = self.await_event(*thing, "PodNotEvicted", words="disruption budget")
            self.assertEqual(refused["type"], "Warning")
            self.assertIn(f"{GPU}: pod default/a, which has device {device}, is not evicted: Cannot evict pod", refused["message"])
        self.assertEqual(refused["involvedObject"]["uid"], self.uid_of("a"))
        # What is refused again and again is one Event.
        until(lambda: len(self.requests("POST", "/eviction")) > 3, "more attempts")
        self.assertEqual(len(self.api.events()["Pod", "a", "PodNotEvicted"]), 1)
        self.assertLessEqual(len(self.requests("PATCH", "/events/")), 2)
        self.allow("a", 1)
        for thing in (("Node", "node-a"), ("Pod", "a")):
            evicted = self.await_event(*thing, "PodEvicted")
            self.assertEqual((evicted["type"], evicted["message"]), ("Normal", f"{GPU}: evicted pod default/a, which had device {device}"))
        self.assertEqual((evicted["involvedObject"]["uid"], evicted["involvedObject"]["namespace"]), (self.uid_of("a"), "default"))
        self.assertEqual({name for kind, name, _ in self.api.events() if kind == "Pod"}, {"a"})

    def test_events_of_the_brake(self):
        """The Node and the pod tell that an eviction is held, and that an administrator has confirmed it."""
        self.begin(self.gpu("force_after = 1;"), settled=False, text=REPORT)
        device = self.run_pod("a")
        self.budget("a", 0)
        self.break_device(device)
        things = ("Node", "node-a"), ("Pod", "a")
        for thing in things:
            held = self.await_event(*thing, "EvictionHeld")
            self.assertEqual((held["type"], held["message"]), (
                "Warning", f"{GPU}: eviction is held for device {device}, because a device has failed within 10 minutes after a change of "
                f'the configuration; to evict its pods, run "devplugctl evict {GPU}"; the failure: broken'))
        self.assertEqual({reason for _, _, reason in self.api.events()}, {"DeviceFailed", "EvictionHeld"})
        # Another process does not report it again, but what happens then.
        os.kill(until(self.cluster_process, "devplugd-cluster"), signal.SIGKILL)
        self.assertEqual(self.ctl("evict", GPU).returncode, 0)
        for thing in things:
            confirmed = self.await_event(*thing, "EvictionConfirmed")
            self.assertEqual((confirmed["type"], confirmed["message"]),
                             ("Normal", f"{GPU}: the eviction of the pods of device {device} is confirmed"))
            self.await_event(*thing, "EvictionStarted")
            self.await_event(*thing, "PodEvicted", words=f"{GPU}: deleted pod default/a")

    # --- the brake

    def metric(self, name, **labels):
        text = ",".join(f'{key}="{value}"' for key, value in sorted({"resource": GPU, **labels}.items()))
        lines = get(self.node.path("metrics.sock"))[1].splitlines()
        return next((int(line.split()[-1]) for line in lines if line.startswith(f"devplugd_{name}{{{text}}} ")), None)

    def test_changed_configuration_holds(self):
        self.begin(self.gpu(), settled=False, text=f'metrics = {{ listen = "{self.node.path("metrics.sock")}"; }};')
        device = self.run_pod("a")
        self.break_device(device)
        self.await_state(device, "held", "configuration")
        status = " ".join(self.ctl("status").stdout.split())
        self.assertIn(f'{GPU}: eviction is held: a device has failed within 10 minutes after a change of the configuration; to evict, '
                      f'run "devplugctl evict {GPU}"', status)
        self.assertIn("Its pods are not evicted, because it has failed within 10 minutes after a change of the configuration.",
                      " ".join(self.ctl("explain", GPU).stdout.split()))
        self.assertIn("eviction is held", self.ctl("events").stdout)
        self.assertEqual([self.metric("evictions", state=state) for state in ("waiting", "held", "evicting")], [0, 1, 0])
        self.kill_daemon()
        self.await_state(device, "held", "configuration")
        self.assertEqual(self.evictions(), [])
        answer = self.ctl("evict", GPU)
        self.assertEqual((answer.returncode, answer.stdout), (0, f"the eviction of the pods of {device} of {GPU} is confirmed\n"))
        self.await_pod(device, "a", "evicted")
        self.assertEqual([self.metric("evictions", state=state) for state in ("waiting", "held", "evicting")], [0, 0, 1])
        self.assertEqual([self.metric("evicted_pods_total", way=way) for way in ("evicted", "deleted")], [1, 0])
        answer = self.ctl("evict", GPU)
        self.assertEqual((answer.returncode, answer.stderr), (1, f"devplugctl: no eviction is held for {GPU}\n"))

    def test_a_cordon_is_no_change(self):
        self.begin(self.gpu())
        device = self.run_pod("a")
        self.assertEqual(self.ctl("cordon", f"{GPU}/{device}", "repair").returncode, 0)
        self.break_device(device)
        self.await_pod(device, "a", "evicted")

    def test_probe_that_could_not_run_holds(self):
        """Missing, killed, and slow programs say nothing about the device."""
        script = self.node.path("probe")

        def program(text):
            with open(script + ".new", "w") as file:
                file.write("#!/bin/sh\n" + text)
            os.chmod(script + ".new", 0o755)
            os.rename(script + ".new", script)

        program("exit 0\n")
        self.begin(self.gpu().replace('probe = "file"; path = "' + self.node.path("health/${id}") + '"; missing = "healthy";',
                                      f'probe = "exec"; command = ( "{script}", "${{id}}" ); interval = 0.2; timeout = 1;'))
        device = self.run_pod("a")
        for text in ("kill -KILL $$\n", f'[ "$1" != {device} ] || exec sleep 30\n', "exec /nonexistent\n", None):
            with self.subTest(text):
                if text:
                    program(text)
                else:
                    os.unlink(script)
                self.await_state(device, "held", "probe")
        self.assertEqual(self.evictions(), [])
        # A program that has something to say begins a new failure.
        program(f'[ "$1" != {device} ]\n')
        self.show_allocatable(3)
        self.await_pod(device, "a", "evicted")

    def test_more_than_half_holds(self):
        self.begin(self.gpu(after=1))
        devices = [self.run_pod(name) for name in "abc"]
        for device in devices:
            self.write(device, "broken")
        for device in devices:
            self.await_state(device, "held", "many")
        self.show_allocatable(1)
        self.assertIn("more than half of the devices, or all of them", " ".join(self.ctl("status").stdout.split()))
        self.write(devices[0], "ok")
        until(lambda: devices[0] not in self.failures(), "a recovery")
        self.show_allocatable(2)
        self.kill_daemon()
        self.await_state(devices[1], "held", "many")
        self.assertEqual(self.evictions(), [])
        self.assertEqual(self.ctl("evict", GPU).returncode, 0)
        for name, device in zip("bc", devices[1:]):
            self.await_pod(device, name, "evicted")
        self.assertFalse(self.is_ending("a"))

    def test_half_is_not_held(self):
        self.begin(self.gpu())
        devices = {name: self.run_pod(name) for name in "abc"}
        self.break_device(devices["a"])
        self.break_device(devices["b"], allocatable=2)
        for name in "ab":
            self.await_pod(devices[name], name, "evicted")
        self.break_device(devices["c"], allocatable=1)
        self.await_state(devices["c"], "held", "many")
        self.assertFalse(self.is_ending("c"))

    # --- processes that end

    def test_kills(self):
        """At any point, devplugd and devplugd-cluster go on where they were, and evict once."""
        self.begin(self.gpu(after=1))
        device = self.run_pod("a")
        self.budget("a", 0)
        self.write(device, "broken")
        self.await_pod(device, "a", "waiting", "the Node still shows")
        for turn in range(2):
            pid = until(self.cluster_process, "devplugd-cluster")
            os.kill(pid, signal.SIGKILL)
            until(lambda: self.cluster_process() not in (None, pid), "another devplugd-cluster")
            self.kill_daemon()
            if turn == 0:
                self.show_allocatable(3)
            self.await_pod(device, "a", "refused", "disruption budget")
        self.allow("a", 1)
        self.await_pod(device, "a", "evicted")
        self.kill_daemon()
        self.await_pod(device, "a", "ended", "it is ending")
        self.assertEqual(self.evictions(), ["a"])
        self.assertEqual(self.api.events(), {})

    def test_resource_that_evicts_nothing(self):
        self.begin(self.gpu().replace('severity = "evict"; evict_after = 0;', ""), settled=False)
        self.break_device(self.run_pod("a"))
        self.assertNotIn("eviction", self.node.resource(GPU))
        self.assertIsNone(self.cluster_process())
        answer = self.ctl("evict", GPU)
        self.assertEqual((answer.returncode, answer.stdout), (1, ""))
        self.assertIn("evicts no pods", answer.stderr)
        # A change of the configuration ends an eviction.
        self.configure(self.gpu())
        self.node.reload()
        until(lambda: self.failures(), "the failure")
        self.configure(self.gpu().replace('severity = "evict"; evict_after = 0;', ""))
        self.node.reload()
        until(lambda: "eviction" not in self.node.find(GPU), "the end")
        until(lambda: not self.cluster_process(), "the end of devplugd-cluster")
        self.assertEqual(self.evictions(), [])


class EvictionByTaint(DraTest):
    """With DRA, the taint of the device evicts the pods of its claims, but for those that asked for it by `limits`."""

    add_pod = EvictionTest.add_pod
    evictions = EvictionTest.evictions
    failures = EvictionTest.failures
    pod_state = EvictionTest.pod_state
    await_pod = EvictionTest.await_pod
    write = EvictionTest.write
    saved_plans = EvictionTest.saved_plans
    restart_settled = EvictionTest.restart_settled
    GPUS = "vendor.example/gpu"

    def begin_evicting(self, after=0):
        os.mkdir(self.node.path("health"))
        path = self.node.path("health/${id}")
        self.serve_api()
        self.begin(self.resource("gpu", f'health = ( {{ probe = "file"; path = "{path}"; missing = "healthy"; severity = "evict"; '
                                        f'reason = "heat"; evict_after = {after}; }} );'))
        self.await_pool(lambda pool: len(pool) == 3)

    def taints(self, device):
        name = self.api.device_named(self.GPUS, int(device[-1]))
        return [(taint["key"], taint["effect"]) for taint in (self.api.pool() or {}).get(name, {}).get("taints", [])]

    def claim(self, pod, device, admin=False, **options):
        """A prepared claim for the device, with a pod."""
        uid = self.api.allocate(f"claim-{pod}", DRIVER, [("r", self.api.device_named(self.GPUS, int(device[-1])))])
        pod_uid = f"7a1c0f42-0000-4000-8000-{pod:0>12}"
        with self.api.lock:
            claim = dict(self.api.claims["default", f"claim-{pod}"])
            if admin:
                claim["status"]["allocation"]["devices"]["results"][0]["adminAccess"] = True
            claim["status"] = {**claim["status"], "reservedFor": [{"resource": "pods", "name": pod, "uid": pod_uid}]}
            self.api.store.change(CLAIMS, "MODIFIED", claim)
        self.add_pod(pod, pod_uid, **options)
        prepared = self.prepare(("default", f"claim-{pod}", uid))[uid]
        self.assertNotIsInstance(prepared, str)

    def test_taints_and_limits(self):
        self.begin_evicting()
        self.claim("1", "gpu-0")
        self.claim("2", "gpu-1", status={"extendedResourceClaimStatus": {"resourceClaimName": "claim-2"}})
        # A pod that only watches the device keeps it.
        self.claim("3", "gpu-1", admin=True, status={"extendedResourceClaimStatus": {"resourceClaimName": "claim-3"}})
        for device in ("gpu-0", "gpu-1"):
            self.write(device, "hot")
        heat = f"{DRIVER}/heat"
        for device in ("gpu-0", "gpu-1"):
            until(lambda: self.taints(device) == [(heat, "NoSchedule")], "no new pods")
            until(lambda: self.failures().get(device, {}).get("state") == "held", "the hold")
        # The API server does not store the taint for some time.
        self.api.ask("PUT", "/devplug/faults", {"faults": [{"method": "PUT", "path": "resourceslices", "do": 503, "times": 2}]})
        self.assertEqual(self.ctl("evict", self.GPUS).returncode, 0)
        self.await_pod("gpu-1", "2", "waiting", "the ResourceSlices in the API server do not have the taint yet")
        self.assertEqual(self.evictions(), [])
        self.await_pod("gpu-1", "2", "evicted")
        for device in ("gpu-0", "gpu-1"):
            self.assertEqual(self.taints(device), [(heat, "NoExecute")])
        self.await_pod("gpu-0", "1", "skipped", "whose pods Kubernetes evicts by the taint of the device")
        self.assertIsNone(self.pod_state("gpu-1", "3"))
        self.assertEqual(self.evictions(), ["2"])
        self.assertEqual(self.taints("gpu-2"), [])
        # Another process publishes the same.
        killed = self.process()
        os.kill(killed, signal.SIGKILL)
        until(lambda: self.process() not in (None, 0, killed), "another process")
        self.await_pod("gpu-1", "2", "ended", "it is ending")
        self.assertEqual(self.taints("gpu-0"), [(heat, "NoExecute")])
        self.write("gpu-0", "ok")
        until(lambda: self.taints("gpu-0") == [], "the recovery")
        self.assertEqual(self.evictions(), ["2"])

    def test_time_of_the_taint(self):
        """New pods are kept away at once, and running ones are evicted after `evict_after`."""
        self.begin_evicting(after=4)
        self.restart_settled()
        self.register_again()
        self.claim("1", "gpu-0")
        heat, seen = f"{DRIVER}/heat", []

        def look():
            taints = self.taints("gpu-0")
            if taints and taints not in seen:
                seen.append(taints)
            return taints == [(heat, "NoExecute")]

        self.write("gpu-0", "hot")
        until(look, lambda: f"the eviction; {seen}, {self.failures()}")
        self.assertEqual(seen, [[(heat, "NoSchedule")], [(heat, "NoExecute")]])
        failure, = self.saved_plans()["resources"][self.GPUS]["failures"]
        self.assertGreaterEqual(failure["begun"] - failure["since"], 4000000)

    def test_changes_without_a_pause(self):
        """A device that changes again and again delays no eviction from another one."""
        texts = itertools.count()
        self.begin_evicting()
        self.claim("1", "gpu-0", status={"extendedResourceClaimStatus": {"resourceClaimName": "claim-1"}})

        def look():
            self.write("gpu-1", f"text {next(texts)}")
            return (self.pod_state("gpu-0", "1") or ("",))[0] == "evicted"

        self.write("gpu-0", "hot")
        until(lambda: self.failures().get("gpu-0", {}).get("state") == "held", "the hold")
        self.assertEqual(self.ctl("evict", self.GPUS).returncode, 0)
        until(look, "the eviction")

    def test_other_claims(self):
        """A claim that was made again under its name evicts nothing."""
        self.begin_evicting()
        by_limits = {"extendedResourceClaimStatus": {"resourceClaimName": "claim-1"}}
        self.claim("1", "gpu-0", status=by_limits)
        with self.api.lock:
            claim = self.api.claims["default", "claim-1"]
            self.api.store.change(CLAIMS, "MODIFIED", {**claim, "metadata": {**claim["metadata"], "uid": "another"}})
        self.write("gpu-0", "hot")
        until(lambda: self.failures().get("gpu-0", {}).get("state") == "held", "the hold")
        self.assertEqual(self.ctl("evict", self.GPUS).returncode, 0)
        until(lambda: self.taints("gpu-0") == [(f"{DRIVER}/heat", "NoExecute")], "the taint")
        until(lambda: any("claim-1" in one[1] for one in EvictionTest.requests(self, "GET", "resourceclaims")[1:]), "the claim to be read")
        until(lambda: self.failures()["gpu-0"]["state"] == "evicting", "the eviction")
        self.assertIsNone(self.pod_state("gpu-0", "1"))
        self.assertEqual(self.evictions(), [])


if __name__ == "__main__":
    unittest.main(verbosity=2)
