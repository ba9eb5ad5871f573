# SPDX-License-Identifier: Apache-2.0
"""P20: what is listed as healthy can be allocated. Nodes, mounts and CDI files of devices of every driver appear and
disappear at random, and other files are in the place of nodes; once a change has been seen, no healthy device is refused for
what it lacks.

complaints.md: none of the other plugins looks at more than the device's own node.
"""
import glob
import json
import os
import random
import re
import stat
import sys
import time
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.realpath(__file__)), "../peers"))
from node import BIN, NodeTest, SEED, make_node, scaled, until  # noqa: E402
os.environ.setdefault("DEVPLUGD_BIN", BIN)
from test_peers import HERE as TREES, plant, translations  # noqa: E402

STEPS = int(os.environ.get("DEVPLUGD_TEST_STEPS") or scaled(60))
# Less than the 60 s after which devices are scanned without a reason.
SEEN = 45
CASES = {"usb": "gdp-usb", "pci": "kubevirt-pci", "drm": "amd-gpu", "net": "sriov-dpdk", "rdma": "rdma-exclusive",
         "sysfs": "akri-tty", "nvidia": "gke-nvidia", "path": "gdp-serial"}
EXEC = """#!/bin/sh
echo '{"version": 1, "devices": [{"id": "e0", "nodes": [{"host": "/dev/e0"}]},
                              {"id": "e1", "nodes": [{"host": "/dev/e1"}]}]}'
"""
CONTAINER = """ container = { nodes = "/dev/common"; mounts = ( { host = "/opt/need/lib"; } );
                cdi = ( "vendor.example/need=all" ); };"""


def touch(path):
    with open(path, "w"):
        pass


def without_container(stanza):
    """The keys of the first resource of a list, without its name and what its containers get."""
    begin = stanza.index("{")
    depth, end = 0, begin
    for end in range(begin, len(stanza)):
        depth += {"{": 1, "}": -1}.get(stanza[end], 0)
        if depth == 0:
            break
    return re.sub(r'name = "[^"]*";|container *= *\{.*?\};', "", stanza[begin + 1:end], flags=re.S)


class Source:
    """One resource, with the directory that is its host."""

    def __init__(self, name, keys, root):
        self.name, self.root = name, root
        self.stanza = f'{{ name = "vendor.example/{name}"; {keys} host_root = "{root}";{CONTAINER} }}'
        make_node(root + "/dev/common")
        os.makedirs(root + "/opt/need/lib")
        os.makedirs(root + "/etc/cdi")
        os.mkdir(root + ".away")
        with open(root + "/etc/cdi/need.json", "w") as file:
            json.dump({"cdiVersion": "0.3.0", "kind": "vendor.example/need",
                       "devices": [{"name": "all", "containerEdits": {"env": ["A=b"]}}]}, file)
        nodes = [path for path in glob.glob(root + "/dev/**", recursive=True)
                 if stat.S_ISCHR(os.lstat(path).st_mode) or os.path.islink(path)]
        # What is mounted goes with the directory above it.
        self.common = [root + "/dev/common", root + "/opt/need", root + "/etc/cdi/need.json"]
        self.nodes = [path for path in (root + "/dev/common", *nodes) if not os.path.islink(path)]
        self.paths = sorted({*nodes, *self.common})
        self.away, self.others = {}, set()

    def toggle(self, path, other=None):
        """`other` makes what is left in the place of a node."""
        if path in self.away:
            if path in self.others:
                self.others.remove(path)
                os.rename(path, f"{self.root}.away/other-{time.monotonic_ns()}")
            os.rename(self.away.pop(path), path)
        elif os.path.lexists(path):
            self.away[path] = f"{self.root}.away/{len(self.away)}-{time.monotonic_ns()}"
            os.rename(path, self.away[path])
            if other and path in self.nodes:
                self.others.add(path)
                other(path)

    def restore(self):
        for path in sorted(self.away):
            self.toggle(path)


class Needed(NodeTest):
    def sources_of_all_drivers(self):
        texts = {case: text for case, _, text in translations()}
        programs = {"static": 'driver = "static"; match = ( { count = 2; } );'}
        sources = []
        for name in [*CASES, "static", "exec"]:
            root = self.node.path(f"host-{name}")
            os.mkdir(root)
            if name == "exec":
                program = self.node.path("find-devices")
                with open(program, "w") as file:
                    file.write(EXEC)
                os.chmod(program, 0o755)
                programs["exec"] = f'driver = "exec"; match = ( {{ command = "{program}"; interval = 1; }} );'
                make_node(root + "/dev/e0")
                make_node(root + "/dev/e1")
            elif name in CASES:
                plant(root, os.path.join(TREES, CASES[name] + ".tree"))
                programs[name] = without_container(texts[CASES[name]])
            for device in glob.glob(f"{root}/sys/devices/pci*/0*") if name == "nvidia" else ():
                with open(os.path.join(device, "config"), "wb") as file:
                    file.write(bytes(64))
            sources.append(Source(name, programs[name], root))
        return sources

    def listed(self):
        """{name: {id: healthy}}"""
        return {r["name"].split("/")[1]: {d["id"]: d["health"] == "Healthy" for d in r["devices"]}
                for r in self.node.call_kubelet("status")["resources"]}

    def refusal(self, source):
        """Why the healthy devices of a resource are refused, asked for together; empty if they are not."""
        count = sum(self.listed()[source.name].values())
        if count == 0:
            return ""
        self.serial += 1
        name = f"pod-{self.serial}"
        limits = {f"vendor.example/{source.name}": count}
        containers = [{"name": "main", "kind": "main", "limits": limits}]
        self.node.call_kubelet("pod", name=name, namespace="default", containers=containers)
        pod = next(p for p in self.node.call_kubelet("pods")["pods"] if p["name"] == name)
        self.node.call_kubelet("pod-rm", name=name, namespace="default")
        return "" if pod["phase"] == "Running" else pod["message"]

    def await_truth(self, source):
        begin = time.monotonic()
        # A CDI file is the container runtime's, so no call of the kubelet is refused for one.
        if any(path in source.away for path in source.common):
            until(lambda: not any(self.listed()[source.name].values()), "no device to be healthy", limit=SEEN)
        refusal = self.refusal(source)
        if refusal:
            until(lambda: not self.refusal(source), f"healthy devices to be allocated: {refusal}", limit=SEEN)
        self.delays.append(time.monotonic() - begin)

    def test_P20_random_changes(self):
        self.choice, self.serial, self.delays = random.Random(SEED), 0, []
        sources = self.sources_of_all_drivers()
        self.node.configure(*(source.stanza for source in sources))
        self.node.start_kubelet()
        self.node.start()
        until(lambda: os.path.exists(os.path.join(self.node.kubelet_state, "control")), "the kubelet to listen")
        until(lambda: all(any(self.listed().get(source.name, {}).values()) for source in sources),
              "a healthy device of each resource")
        begin = self.listed()
        for step in range(STEPS):
            source = self.choice.choice(sources)
            paths = self.choice.sample(source.paths, self.choice.choice((1, 1, 2)))
            try:
                for path in paths:
                    source.toggle(path, self.choice.choice((None, os.mkdir, os.mkfifo, touch)))
                self.await_truth(source)
            except (AssertionError, OSError) as error:
                raise AssertionError(f"step {step}, {paths}, away {sorted(source.away)}: {error}") from error
        for source in sources:
            source.restore()
        # What another resource has claimed stays listed until the kubelet forgets its last pod: at its next admission.
        until(lambda: not self.refusal(sources[0]) and self.listed() == begin, f"all to be as before: {begin}")
        print(f"seed {SEED}, {STEPS} steps, seen after at most {max(self.delays) * 1000:.0f} ms", end=" ", flush=True)


if __name__ == "__main__":
    unittest.main()
