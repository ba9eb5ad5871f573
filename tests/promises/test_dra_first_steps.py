# SPDX-License-Identifier: Apache-2.0
"""The ways of docs/dra.md from a package to a pod, on hardware in a tree: the configuration, commands and objects of each section,
as they stand there."""
import json
import os
import re
import textwrap
import unittest

import yaml
from api_server import CLAIMS_PATH
from dra_consumers import NETWORK_RESOURCE, Multus, kubevirt_metadata
from dra_node import DRIVER, DraPodTest
from node import make_node, until
from numbered_host import MDEV, NumberedHost

PAGE = os.path.join(os.path.dirname(os.path.realpath(__file__)), "../../docs/dra.md")
LINES_MAX = 30


class FirstSteps(DraPodTest):
    def read(self, heading):
        """The configuration, the commands and the objects by kind of a section."""
        with open(PAGE, encoding="utf-8") as file:
            section = re.search(rf"^## {re.escape(heading)}\n(.*?)^## ", file.read(), re.M | re.S)[1]
        self.assertLessEqual(len(section.strip().splitlines()), LINES_MAX, heading)
        blocks = [textwrap.dedent(block) for block in re.findall(r"^ *```\n(.*?)^ *```$", section, re.M | re.S)]
        self.configuration, = [block for block in blocks if "resources = (" in block]
        self.commands = [words.strip() for words in re.findall(r"(devplugctl [^`|]*)", section)]
        self.requests = [request for block in blocks if block.startswith("requests:") for request in yaml.safe_load(block)["requests"]]
        self.objects = {document["kind"]: document for block in blocks if "apiVersion" in block for document in yaml.safe_load_all(block)}

    def begin_section(self, change=lambda text: text):
        """Carries out its commands, with the configuration of the page and what a test needs."""
        self.host = NumberedHost(self.node.path("host"), 0)
        self.add_hardware()
        self.serve_api()
        text = change(self.configuration)
        self.configure("".join(re.search(r"resources = \((.*)\);", text, re.S).groups()), text=f'host_root = "{self.host.root}";')
        with open(self.node.config) as file:
            configured = file.read()
        self.assertIn(f'driver = "{DRIVER}"', self.configuration)
        # The daemon runs before the resource is declared.
        self.configure(self.resource("other", serve="plugin"))
        self.node.start_kubelet()
        self.node.start()
        self.node.await_allocatable(other=3)
        with open(self.node.config, "w") as file:
            file.write(configured)
        self.assertIn("devplugctl reload", self.commands)
        for words in self.commands:
            answer = self.ctl(*words.split()[1:])
            self.assertEqual(answer.returncode, 0, f"{words}: {answer.stderr}")
            if words == "devplugctl dra classes":
                self.api.apply(answer.stdout)
        self.assertTrue(self.api.classes)

    def add_hardware(self):
        """A card on the other NUMA node, which the scheduler would take first."""
        directory = self.host.function("0000:02:00.0", "amdgpu", "0x1002", "0x74a1", "0x030000", numa_node="0")
        make_node(self.host.path("dev/fpga0"))
        self.host.child(directory, "renderD140", "class/drm", self.host.node("dri/renderD140", 226, 140), dev="226:140")

    def claim_of(self, owner):
        """What the controller makes from the template that a pod names, after the scheduler has seen it."""
        entry, = owner["spec"]["resourceClaims"]
        template = self.objects["ResourceClaimTemplate"]
        self.assertEqual(entry["resourceClaimTemplateName"], template["metadata"]["name"])
        name = f"{owner['metadata']['name']}-{entry['name']}-x7k2p"
        claim = {"apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim", "spec": template["spec"]["spec"],
                 "metadata": {"name": name, "annotations": {"resource.kubernetes.io/pod-claim-name": entry["name"]}}}
        answer = self.api.ask("POST", CLAIMS_PATH.format("default"), claim)
        self.assertEqual(answer.code, 201, answer.body)
        return self.api.claims["default", name]

    def run_pod(self, name, claim):
        answer = self.pod(name, claim)
        self.assertEqual((answer.get("phase"), answer.get("reason")), ("Running", None), answer)

    def results(self, claim):
        """The attributes of the allocated devices by request."""
        return {result["request"]: self.api.pool()[result["device"]]["attributes"]
                for result in claim["status"]["allocation"]["devices"]["results"]}

    def test_unchanged_pod(self):
        self.read("From a package to a pod")
        self.begin_section()
        pod = self.objects["Pod"]
        container, = pod["spec"]["containers"]
        claim = self.api.schedule_limits("trainer", [container["resources"]["limits"]])
        self.run_pod("trainer", claim)
        edits = [edits for edits in self.document(claim["metadata"]["uid"]).values()]
        self.assertIn("renderD140", json.dumps(edits))

    def test_near_network(self):
        self.read("From a package to a GPU and a network function of one NUMA node")
        self.begin_section()
        claim = self.claim_of(self.objects["Pod"])
        found = self.results(claim)
        self.assertEqual([found[request]["resource.kubernetes.io/numaNode"] for request in ("gpu", "nic")], [{"int": 1}] * 2)
        self.run_pod("trainer", claim)
        network = self.objects["NetworkAttachmentDefinition"]
        self.assertEqual(self.objects["Pod"]["metadata"]["annotations"]["k8s.v1.cni.cncf.io/networks"], network["metadata"]["name"])
        self.assertEqual(network["metadata"]["annotations"][NETWORK_RESOURCE], "vendor.example/nic")
        json.loads(network["spec"]["config"])
        device = Multus(list(self.api.slices.values()), [claim]).device_for(network)
        self.assertEqual(device, found["nic"]["resource.kubernetes.io/pciBusID"]["string"])

    def find_host_device(self):
        """As KubeVirt does in the pod of the virtual machine."""
        machine = self.objects["VirtualMachineInstance"]
        gpu, = machine["spec"]["domain"]["devices"]["gpus"]
        claim = self.claim_of(machine)
        self.run_pod("virt-launcher", claim)
        return kubevirt_metadata(self.metadata(claim["metadata"]["uid"]), "resourceclaimtemplates", gpu["claimName"], gpu["requestName"])

    def test_virtual_machine(self):
        self.read("From a package to a virtual machine")
        self.begin_section()
        self.assertEqual(self.find_host_device(), ("pci", "0000:04:00.0"))

    def test_mediated_device(self):
        self.read("From a package to a virtual machine")
        with open(PAGE, encoding="utf-8") as file:
            mediated = re.search(r'`(access = "mdev";[^`]*)`', file.read())[1]
        self.begin_section(lambda text: re.sub(r'access = "vfio";[^}]*', mediated + " ", text))
        self.assertEqual(self.find_host_device(), ("mdev", MDEV))

    def await_offered(self, *names):
        self.await_driver()
        until(lambda: {f"vendor.example/{name}" for name in names} <= {
            device["attributes"]["resource"]["string"] for slice_ in list(self.api.slices.values())
            for device in slice_["spec"].get("devices", [])}, f"the devices of {names}")

    def test_amount(self):
        self.read("A claim with an amount")
        self.begin_section()
        self.await_offered("gpu")
        request, = self.requests
        exactly = request["exactly"]
        claim = self.api.schedule("c", [(request["name"], exactly["deviceClassName"], 1, {"capacity": exactly["capacity"]})])
        self.run_pod("trainer", claim)
        edits, = self.document(claim["metadata"]["uid"]).values()
        self.assertIn("GPU_MEMORY_MIB=20480", edits["env"])

    def test_parameter(self):
        log = self.node.path("log")
        with open(log, "w"):
            os.chmod(log, 0o666)
        program = self.script("load", f'echo "$@" > "{log}"\n')
        self.read("A claim with a parameter")
        self.begin_section(lambda text: text.replace("/usr/libexec/fpga-load", program))
        self.await_offered("fpga")
        name = self.objects["ResourceClaimTemplate"]["metadata"]["name"]
        claim = self.claim_of({"metadata": {"name": "p"}, "spec": {"resourceClaims": [{"name": "f", "resourceClaimTemplateName": name}]}})
        self.run_pod("p", claim)
        with open(log) as file:
            self.assertEqual(file.read(), "/dev/fpga0 video\n")

    def test_whole_or_parts(self):
        self.read("A whole device or its parts, by demand")
        self.begin_section()
        self.await_offered("nic", "vf")
        part = until(lambda: self.api.schedule_limits("part", [{"vendor.example/vf": 1}]), "the counters to be published")
        self.run_pod("part", part)
        # The other port has no virtual functions.
        self.assertIsNone(self.api.schedule("wholes", [("r", "nic.vendor.example", 2)]))
        self.assertEqual(self.remove("part"), "")
        self.api.release(part)
        until(lambda: self.api.schedule("wholes", [("r", "nic.vendor.example", 2)]), "the port of the virtual function to be free")
        self.assertIsNone(self.api.schedule_limits("late", [{"vendor.example/vf": 1}]))


if __name__ == "__main__":
    unittest.main()
