# SPDX-License-Identifier: Apache-2.0
"""Which pods lose a device that has failed: those of a device that is missing, all that share it, and what each refusal means."""
import os
import stat
import unittest

from eviction_node import GPU, EvictionTest
from node import path, until
from test_dra_rights import verb_of


class EvictedPods(EvictionTest):
    def break_device(self, device, allocatable=3):
        self.write(device, "broken")
        until(lambda: self.health("gpu")[device][0] == "Unhealthy", "the failure")
        self.show_allocatable(allocatable)

    def begin_cards(self, count=4, more="", severity='severity = "evict"; evict_after = 0;'):
        """Devices that a file each is the node of."""
        os.mkdir(self.node.path("dev"))
        for number in range(count):
            self.plug(number)
        self.begin(path("gpu", self.node.path("dev/gpu-*"), f"missing = {{ {severity} }}; {more}"), count=count)

    def plug(self, number):
        os.mknod(self.node.path(f"dev/gpu-{number}"), stat.S_IFCHR | 0o666, os.makedev(1, 3))

    def unplug(self, device):
        os.unlink(self.node.path("dev/" + device.split(":")[-1]))

    def test_missing_devices(self):
        """A device that disappears is a failure if a pod has it, and ends when it returns."""
        self.begin_cards()
        first, second = self.run_pod("a"), self.run_pod("b")
        self.unplug(first)
        self.await_pod(first, "a", "waiting", "the Node still shows 4 allocatable")
        self.show_allocatable(3)
        self.await_pod(first, "a", "evicted")
        self.end_pod("a")
        until(lambda: not self.failures(), "the device to be free, which is no failure")
        self.assertEqual((self.evictions(), self.is_ending("b")), (["a"], False))
        # It returns in time.
        self.plug(first[-1])
        self.node.await_allocatable(gpu=4)
        self.show_allocatable(4)
        self.unplug(second)
        until(lambda: self.failures(), "another failure")
        self.plug(second[-1])
        until(lambda: not self.failures(), "its end")
        self.assertEqual(self.evictions(), ["a"])

    def test_missing_devices_that_no_pod_has(self):
        """They do not count for the brake: administrators unplug devices that are free."""
        self.begin_cards()
        device = self.run_pod("a")
        free = {f"gpu-{number}" for number in range(4)} - {device.split(":")[-1]}
        for name in sorted(free)[:2]:
            self.unplug(name)
        self.node.await_allocatable(gpu=2)
        self.assertEqual(self.failures(), {})
        self.unplug(device)
        self.show_allocatable(1)
        self.await_pod(device, "a", "evicted")

    def test_missing_devices_and_the_brake(self):
        self.begin_cards()
        devices = [self.run_pod(name) for name in "abc"]
        for device in devices[:2]:
            self.unplug(device)
        self.show_allocatable(2)
        for device, name in zip(devices, "ab"):
            self.await_pod(device, name, "evicted")
        self.unplug(devices[2])
        self.await_state(devices[2], "held", "many")
        self.assertFalse(self.is_ending("c"))

    # --- shares

    def test_all_pods_that_share_a_device(self):
        """Each is evicted once, however many shares and containers it has; pods of other devices stay."""
        self.begin(self.gpu("share = { replicas = 3; };", count=4), count=12)
        holders = {}
        for name, count in zip("abcdef", (1, 2, 1, 1, 2, 1)):
            given, refused = self.node.pod(name, gpu=count)
            self.assertIsNone(refused)
            self.add_pod(name, self.uid_of(name))
            for device in {one.split("#")[0] for one in given["resources"][GPU]}:
                holders.setdefault(device, set()).add(name)
        device, pods = max(holders.items(), key=lambda item: len(item[1]))
        self.assertGreater(len(pods), 1)
        self.write(device, "broken")
        for name in pods:
            self.await_pod(device, name, "waiting", f"the Node still shows 12 allocatable {GPU}, and not 9")
        self.show_allocatable(9)
        for name in pods:
            self.await_pod(device, name, "evicted")
        self.assertEqual(sorted(self.evictions()), sorted(pods))
        self.assertEqual({name for name in "abcdef" if self.is_ending(name)}, pods)

    # --- what the API server refuses

    def test_each_refusal(self):
        """Whatever the API server answers, the pod stays until it accepts the eviction, and the answer is shown."""
        self.begin(self.gpu(count=10), count=10)
        for number, (answer, state, words) in enumerate((
                (403, "refused", "403"), (409, "ended", "another pod has its name now"), (429, "refused", "429"), (500, "refused", "500"),
                ("close", "refused", "POST"))):
            with self.subTest(answer):
                name = f"pod-{number}"
                device = self.run_pod(name)
                self.api.ask("PUT", "/devplug/faults", {"faults": [{"method": "POST", "path": f"/{name}/eviction", "do": answer}]})
                self.break_device(device, allocatable=9 - number)
                self.await_pod(device, name, state, words)
                self.assertFalse(self.is_ending(name))
                self.api.ask("PUT", "/devplug/faults", {"faults": []})
                self.await_pod(device, name, "evicted")
        self.assertEqual(self.evictions(), [f"pod-{number}" for number in range(5)])

    def test_deletion_that_is_refused(self):
        """The eviction is tried before `force_after`, the deletion is tried again, and neither hits another pod of the name."""
        self.begin(self.gpu("force_after = 1;"))
        device = self.run_pod("a")
        self.api.ask("PUT", "/devplug/faults", {"faults": [{"method": "POST", "path": "/a/eviction", "do": 429},
                                                           {"method": "DELETE", "path": "/pods/a", "do": 403}]})
        self.break_device(device)
        self.await_pod(device, "a", "refused", "DELETE")
        self.assertEqual(self.evictions(), [])
        # Its controller has made it again.
        self.remove_pod("a")
        self.add_pod("a", "7a1c0f42-0000-4000-8000-000000000002")
        self.api.ask("PUT", "/devplug/faults", {"faults": []})
        self.await_pod(device, "a", "ended", "another pod has its name now")
        self.assertEqual((self.evictions(), self.is_ending("a")), ([], False))

    # --- rights

    def test_rights_of_the_chart(self):
        """A pod of the DaemonSet evicts and deletes with the rights of the chart's values, and uses each."""
        granted = self.api.become_pod(self.kubeconfig, {"rights": {"eviction": True, "forceAfter": True}})
        self.begin(self.gpu("force_after = 1;"))
        device = self.run_pod("a")
        self.budget("a", 0)
        self.break_device(device)
        self.await_pod(device, "a", "refused", "disruption budget")
        self.await_pod(device, "a", "deleted")
        with self.api.lock:
            requests = list(self.api.requests)
        self.assertEqual([one for one in requests if one[2] == 403], [])
        self.assertLessEqual(granted, {verb_of(method, path) for method, path, _ in requests})

    def test_rights_that_lack(self):
        """Without a right the pod stays, and the refusal is shown, until somebody gives it."""
        self.api.become_pod(self.kubeconfig, {"rights": {"report": True}})
        self.begin(self.gpu())
        device = self.run_pod("a")
        self.break_device(device)
        self.await_pod(device, "a", "refused", 'cannot create resource "pods/eviction"')
        self.assertEqual(self.evictions(), [])
        for kind in ("clusterroles", "clusterrolebindings"):
            self.api.ask("DELETE", f"/apis/rbac.authorization.k8s.io/v1/{kind}/devplugd")
        self.api.become_pod(self.kubeconfig, {"rights": {"eviction": True}})
        self.await_pod(device, "a", "evicted")


if __name__ == "__main__":
    unittest.main(verbosity=2)
