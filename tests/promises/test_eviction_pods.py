# SPDX-License-Identifier: Apache-2.0
"""Which pods lose a device that has failed: those of a device that is missing, all that share it, and what each refusal means."""
import unittest

from eviction_node import EvictionTest
from node import until
from test_dra_rights import verb_of


class EvictedPods(EvictionTest):
    def break_device(self, device, allocatable=3):
        self.write(device, "broken")
        until(lambda: self.health("gpu")[device][0] == "Unhealthy", "the failure")
        self.show_allocatable(allocatable)

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
