# SPDX-License-Identifier: Apache-2.0
"""One configuration serves the same pods with each release of Kubernetes. Where an API server lacks a feature, devplugctl status
prints it, and what is published instead."""
import os
import re
import unittest

from api_server import RELEASES
from dra_node import DraPodTest
from node import until

# What releases without these features print.
FALLBACKS = {
    "DRADeviceTaints": "unhealthy devices are left out of the ResourceSlices",
    "DRAPartitionableDevices": "only those of the first resource are in the ResourceSlices",
    "DRAConsumableCapacity": "each is published as devices of the default amount",
}
PODS = {  # the claim of each pod: resource and number of devices; and the variables that its container gets
    "gpus": (("gpu", 2), {"GPU": "gpu-0,gpu-1"}),
    "card": (("card", 2), {"CARD": "card-0,card-1"}),
    "memory": (("board", 1), {"MEMORY": "10"}),
}


class Releases(DraPodTest):
    def resources(self):
        """An unhealthy GPU, hardware of two resources, and a device that claims share by amount."""
        for number in range(2):
            if not os.path.exists(self.node.path(f"card-{number}")):
                os.mknod(self.node.path(f"card-{number}"), 0o20666, os.makedev(1, 3))
        with open(self.node.path("hot-gpu-2"), "w") as file:
            file.write("hot")
        probe = f'health = ( {{ probe = "file"; path = "{self.node.path("hot")}-${{id}}"; missing = "healthy"; reason = "hot"; }} );'
        nodes = f'driver = "path"; match = "{self.node.dir}/card-*"; overlap = "exclusive"; serve = "dra";'
        return (self.resource("gpu", probe),
                f'{{ name = "vendor.example/card"; {nodes} container = {{ env = "CARD=${{ids:,}}"; }}; }}',
                f'{{ name = "vendor.example/half"; {nodes} }}',
                '{ name = "vendor.example/board"; driver = "static"; match = ( { count = 1; } ); serve = "dra"; '
                'capacity = ( { name = "memory"; value = "40Gi"; step = "1Gi"; default = "10Gi"; } ); '
                'container = { env = "MEMORY=${capacity:memory:Gi}"; }; }')

    def run_pods(self):
        for name, ((resource, count), variables) in PODS.items():
            claim = self.api.schedule(f"c-{name}", [("r", f"{resource}.vendor.example", count)])
            self.assertIsNotNone(claim, name)
            pod = self.pod(name, claim)
            self.assertEqual((pod["phase"], pod.get("reason")), ("Running", None), pod)
            # The id of a path has its directory, which differs.
            found = {key: re.sub("[^,]*:", "", value) for key, value in self.edits(pod["container"]).items()}
            self.assertEqual(found, variables)
        # An unhealthy device is in no claim, and hardware is not in two.
        self.assertIsNone(self.api.schedule("too-many", [("r", "gpu.vendor.example", 1)]))
        self.assertIsNone(self.api.schedule("twice", [("r", "half.vendor.example", 1)]))

    def test_releases(self):
        for release in RELEASES:
            with self.subTest(release):
                self.node.kubelet_options += ["--as", min(release, "1.37")]
                self.serve_api(release=release)
                self.begin(*self.resources())
                lacking = release < "1.36"
                until(lambda: len(self.dra()["lacks"]) == (len(FALLBACKS) if lacking else 0), "what the server lacks")
                printed = " ".join(self.ctl("status").stdout.split())
                for feature, fallback in FALLBACKS.items():
                    self.assertEqual((feature in printed, fallback in printed), (lacking, lacking), printed)
                until(lambda: self.api.pool() and not self.dra()["api_failure"], "complete pools")
                self.run_pods()
                for name in PODS:
                    self.assertEqual(self.remove(name), "")
                self.assertEqual(self.files(), [])
                self.node.stop()
                self.node.stop_kubelet()
                self.api.stop()


if __name__ == "__main__":
    unittest.main()
