# SPDX-License-Identifier: Apache-2.0
"""A node with an API server, on whose Node devplugd writes, and devices that fail when a test says so."""
import os

from dra_node import DraTest
from node import until

REPORT = "cluster = { report = true; };"
NODE, SECRET = "/api/v1/nodes/node-a", "/api/v1/namespaces/kube-system/secrets/devplugd"
GPU, FPGA = "DevplugdVendorExampleGpu", "DevplugdVendorExampleFpga"
# As a kubelet writes it.
READY = {"type": "Ready", "status": "True", "reason": "KubeletReady", "message": "kubelet is posting ready status"}


class ReportTest(DraTest):
    """A node whose problems devplugd writes on the Node."""

    def setUp(self):
        super().setUp()
        self.serve_api()
        self.write_status({"conditions": [READY]})
        self.health = self.node.path("health")
        os.mkdir(self.health)

    def write_status(self, status):
        answer = self.api.ask("PATCH", f"{NODE}/status", {"status": status}, content="application/merge-patch+json")
        self.assertEqual(answer.code, 200)

    def probed(self, name, serve="plugin", count=3):
        """A resource whose devices have a file each; without the file, the device is healthy."""
        return self.resource(name, f'health = ( {{ probe = "file"; path = "{self.health}/${{id}}"; healthy = "ok"; missing = "healthy"; }} );',
                             count=count, serve=serve)

    def set_health(self, device, text):
        with open(os.path.join(self.health, f"{device}.new"), "w") as file:
            file.write(text)
        os.rename(file.name, os.path.join(self.health, device))

    def conditions(self):
        found = self.api.ask("GET", NODE).body["status"]["conditions"]
        return {condition["type"]: condition for condition in found}

    def await_condition(self, type_, status, reason, *texts):
        def look():
            condition = self.conditions().get(type_, {})
            return (condition.get("status"), condition.get("reason")) == (status, reason) and all(
                text in condition["message"] for text in texts) and condition

        return until(look, f"{type_} to be {status}, {reason}")

    def report_failure(self):
        return (self.node.status() or {}).get("cluster", {}).get("report_failure")


__all__ = ["FPGA", "GPU", "NODE", "READY", "REPORT", "ReportTest", "SECRET"]
