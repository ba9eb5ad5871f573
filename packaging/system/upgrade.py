# SPDX-License-Identifier: Apache-2.0
"""Releases that follow each other in a booted system, with a pod of a device plugin, and a pod with a claim of DRA, that run throughout.

Usage: upgrade.py TREE PACKAGES_FOLDER [FORMER_PACKAGES_FOLDER]. With packages of a former release, it begins with these, and ends with a
downgrade to them. devplug-kubelet and devplug-apiserver are those of PACKAGES_FOLDER from the beginning. Nothing here asserts how fast
something was; what was measured is printed.
"""
import glob
import json
import os
import sys
import time

from load import Load, pod
from machine import live
from waiting import check, until

DROP_IN = "/etc/devplugd.conf.d/node.conf"
DRIVER = "devices.vendor.example"
FULL = "/var/run/cdi/devplugd-vendor.example=full.json"
STATE = "/var/lib/devplugd/claims"
FORMER_STATE = "/run/devplugd/dra-claims"
NODE = f"""dra = {{ driver = "{DRIVER}"; kubeconfig = "/run/devplug-apiserver/kubelet-node-a.kubeconfig"; node = "node-a"; }};
kubelet = {{ pod_resources_socket = "/run/devplug-kubelet/pod-resources/kubelet.sock"; }};
resources = (
    {{ name = "vendor.example/token"; driver = "static"; match = ( {{ count = 4; }} ); container = {{ env = "TOKEN=${{ids:,}}"; }}; }},
    {{ name = "vendor.example/full"; driver = "path"; match = "/dev/full"; cdi_spec = {{ kind = "vendor.example/full"; }}; }},
    {{ name = "vendor.example/gpu"; driver = "static"; match = ( {{ count = 3; }} ); serve = "dra";
       container = {{ env = "GPU=${{ids:,}}"; }}; }}
);
"""
PROGRAMS = {"apiserver": "/usr/bin/devplug-apiserver run",
            "kubelet": "/usr/bin/devplug-kubelet run --plugins-registry /var/lib/kubelet/plugins_registry --claim-timeout 20 --json"}

steps = []


def step(function):
    steps.append(function)
    return function


class Node:
    """The machine, and what users and the cluster do there."""

    def __init__(self, machine, packages, former):
        self.machine = machine
        self.packages = self.copy(packages, "packages")
        self.former = self.copy(former, "former") if former else None

    def copy(self, folder, name):
        """The packages of devplugd in that folder: their files in the machine by their names."""
        found = {}
        self.machine.do("mkdir", "-p", f"/root/{name}")
        for path in sorted(glob.glob(os.path.join(folder, "devplug*.deb"))):
            if "dbgsym" not in path:
                target = f"/root/{name}/{os.path.basename(path)}"
                self.machine.send(path, target)
                found[os.path.basename(path).split("_")[0]] = target
        return found

    def install(self, packages):
        """Installs those that a node with DRA needs."""
        files = [path for name, path in packages.items() if name in ("devplugd", "devplugd-cluster", "devplugd-dra")]
        self.machine.do("env", "DEBIAN_FRONTEND=noninteractive", "apt-get", "-y", "--allow-downgrades", "install", *files)

    def version(self):
        return self.machine.do("dpkg-query", "-W", "-f", "${Version}", "devplugd")

    def await_service(self):
        def look():
            drivers = json.loads(self.machine.do("devplug-kubelet", "status", "--json"))["drivers"]
            dra = self.machine.status().get("dra", {})
            return len(drivers) == 1 and dra.get("registered") and dra["slices"] > 0

        self.machine.allocatable(token=4, full=1)
        until(look, lambda: f"the driver: {self.machine.run('devplugctl', 'status').stdout}")

    def allocate(self, name):
        """Makes a claim of that name. Returns its file for devplug-kubelet."""
        claim = {"apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim", "metadata": {"name": name},
                 "spec": {"devices": {"requests": [{"name": "gpu", "exactly": {"deviceClassName": "gpu.vendor.example"}}]}}}
        self.machine.do("devplug-apiserver", "apply", "-", text=json.dumps(claim))
        text = self.machine.do("devplug-apiserver", "get", f"resourceclaims/{name}")
        check("allocation" in json.loads(text).get("status", {}), text)
        self.machine.write(f"/root/{name}.json", text)
        return f"/root/{name}.json"

    def serve_claim(self, name):
        """For Load: a pod with a claim of its own, which is removed when it runs."""
        answer = pod(self.machine, "--claim", self.allocate(name))(name)
        self.machine.do("devplug-apiserver", "delete", f"resourceclaims/{name}")
        return answer

    def pods(self):
        """What the containers of the two pods got."""
        return {p["name"]: p["containers"] for p in json.loads(self.machine.do("devplug-kubelet", "pods", "--json"))["pods"]}

    def claim_files(self):
        return self.machine.run("sh", "-c", "ls /var/run/cdi/devplugd.dra-*.json").stdout.split()

    def environment_after_restart(self):
        """What the container with the claim gets by its CDI names when it starts again."""
        answer = json.loads(self.machine.do("devplug-kubelet", "pod", "restart", "trainer", "--json"))
        check(answer["phase"] == "Running", f"{answer}")
        devices = {}
        for path in self.claim_files():
            document = json.loads(self.machine.do("cat", path))
            devices |= {f"{document['kind']}={device['name']}": device["containerEdits"] for device in document["devices"]}
        names = answer["container"]["cdi"]
        check(names and set(names) <= devices.keys(), f"{names} are not in {sorted(devices)}")
        return [variable for name in names for variable in devices[name].get("env", [])]

    def check_all_kept(self):
        """The pods, their devices and files are those of the beginning."""
        check(self.pods() == self.kept, f"{self.pods()}, before {self.kept}")
        environment = self.environment_after_restart()
        check(environment == ["GPU=gpu-0"], f"{environment}")
        self.machine.do("test", "-e", FULL)
        check(self.machine.status()["dra"]["claims"] == 1, f"{self.machine.status()['dra']}")
        until(lambda: all(name in self.machine.do("devplugctl", "devices") for name in ("default/trainer", "default/worker")),
              lambda: f"devplugctl to name the pods: {self.machine.do('devplugctl', 'devices')}")

    def sockets(self):
        """The listening sockets in the directory of the watcher: inodes by paths."""
        rows = [line.split() for line in self.machine.do("cat", "/proc/net/unix").splitlines()[1:]]
        # Columns: flags, here those of a listening socket; inode; path.
        return {row[7]: row[6] for row in rows if len(row) == 8 and row[3] == "00010000" and "/plugins_registry/" in row[7]}


def upgrade(node, packages):
    """With pods that come and go meanwhile."""
    machine, pid = node.machine, node.machine.property("MainPID")
    with Load(pod(machine, "--limits", "vendor.example/token=1")) as plugins, Load(node.serve_claim) as claims:
        until(lambda: len(plugins.results) > 3 and len(claims.results) > 3, "pods")
        started = time.monotonic()
        node.install(packages)
        node.await_service()
        took, counts = time.monotonic() - started, (len(plugins.results), len(claims.results))
        until(lambda: len(plugins.results) > counts[0] + 3 and len(claims.results) > counts[1] + 3, "pods")
    check(machine.property("MainPID") != pid, "the upgrade did not restart the service")
    for load in (plugins, claims):
        check(load.results[-1][1] == 0, f"pods are refused after the upgrade: {load.results[-1]}")
    print(f"  {node.version()}; {took:.1f} s from apt until all is served; of a plugin, {plugins.summary()}; with claims, {claims.summary()}")
    node.check_all_kept()


@step
def a_pod_and_a_claim(node):
    machine = node.machine
    machine.do("dpkg", "-i", node.packages["devplug-kubelet"])
    machine.do("mkdir", "-p", "/var/lib/kubelet/plugins_registry")
    for name, command in PROGRAMS.items():
        machine.write(f"/etc/systemd/system/{name}.service", f"[Service]\nType=exec\nExecStart={command}\n")
    machine.do("systemctl", "daemon-reload")
    machine.do("systemctl", "start", *PROGRAMS)
    until(lambda: machine.run("devplug-apiserver", "requests").returncode == 0, "the API server")
    machine.do("mkdir", "-p", os.path.dirname(DROP_IN))
    machine.write(DROP_IN, NODE)
    node.install(node.former or node.packages)
    print("  " + node.version())
    node.await_service()
    machine.do("sh", "-euc", "devplugctl dra classes >/root/classes.json; devplug-apiserver apply /root/classes.json")
    file = node.allocate("trainer")
    node.uid = json.loads(machine.do("cat", file))["metadata"]["uid"]
    machine.do("devplug-kubelet", "pod", "trainer", "--claim", file)
    machine.do("devplug-kubelet", "pod", "worker", "--limits", "vendor.example/full=1,vendor.example/token=2")
    node.kept = node.pods()
    node.check_all_kept()


@step
def upgraded_from_the_former_release(node):
    if not node.former:
        print("  skipped: no packages of a former release")
        return
    upgrade(node, node.packages)
    check(node.machine.do("ls", STATE).split() == [f"{node.uid}.json"], "the claim is not where this release has it")
    check(node.machine.run("test", "-e", FORMER_STATE).returncode != 0, f"{FORMER_STATE} is left")


@step
def upgraded_to_the_next_release(node):
    """The same programs with another version."""
    packages = {}
    for name, path in node.packages.items():
        packages[name] = f"/root/next_{name}.deb"
        node.machine.do("sh", "-euc", f"""
            dpkg-deb -R {path} /root/next
            sed -i 's/^Version: .*/&+next/; s/(= [^)]*/&+next/' /root/next/DEBIAN/control
            dpkg-deb -b /root/next {packages[name]}
            rm -r /root/next""")
    upgrade(node, packages)


@step
def killed_while_the_kubelet_calls(node):
    """The sockets of the DRA driver are in systemd's store, where the kubelet's call waits for the next devplugd."""
    machine, pid = node.machine, node.machine.property("MainPID")
    sockets = node.sockets()
    check(sockets and machine.property("NFileDescriptorStore") == "2", f"{sockets}")
    file, events = node.allocate("patient"), len(machine.kubelet_events())
    answer = machine.do("sh", "-c", f"""kill -KILL {pid}
        until [ "$(systemctl show -P MainPID devplugd)" != {pid} ]; do sleep 0.05; done
        devplug-kubelet pod patient --claim {file} --json""")
    check(json.loads(answer)["claims"][0]["prepared"], answer)
    check(machine.property("MainPID") not in ("0", pid), "devplugd was not replaced")
    node.await_service()
    check(node.sockets() == sockets, f"{node.sockets()}, before {sockets}")
    calls = [event for event in machine.kubelet_events()[events:] if event["event"] == "prepare"]
    check(len(calls) == 1 and "error" not in calls[0], f"{calls}")
    print(f"  the call took {calls[0]['took_usec'] / 1e6:.1f} s")
    machine.do("devplug-kubelet", "pod", "rm", "patient")
    machine.do("devplug-apiserver", "delete", "resourceclaims/patient")
    node.check_all_kept()


@step
def a_device_in_use_is_not_given_to_another_claim(node):
    """A user deletes the claim while its pod runs, so the scheduler allocates the device again."""
    machine = node.machine
    machine.do("devplug-apiserver", "delete", "resourceclaims/trainer")
    answer = machine.run("devplug-kubelet", "pod", "thief", "--claim", node.allocate("thief"), "--json")
    check(answer.returncode != 0 and "default/trainer" in answer.stdout, answer.stdout + answer.stderr)
    print("  " + json.loads(answer.stdout)["message"])
    machine.do("devplug-kubelet", "pod", "rm", "trainer")
    machine.do("devplug-kubelet", "pod", "restart", "thief")
    machine.do("devplug-kubelet", "pod", "rm", "thief")
    machine.do("devplug-apiserver", "delete", "resourceclaims/thief")
    check(not node.claim_files() and not machine.do("ls", STATE), f"{node.claim_files()} {machine.do('ls', STATE)}")


@step
def downgraded_to_the_former_release(node):
    """When no pod has a claim any more: 0.1 does not know the claims of this release, and removes their CDI files."""
    if not node.former:
        print("  skipped: no packages of a former release")
        return
    node.install(node.former)
    print("  " + node.version())
    node.await_service()
    check(node.pods() == {"worker": node.kept["worker"]}, f"{node.pods()}, before {node.kept}")
    node.machine.do("test", "-e", FULL)
    status, output = node.serve_claim("last")
    check(status == 0, output)


def main():
    tree, packages, *former = sys.argv[1:]

    def story(machine):
        node = Node(machine, packages, former[0] if former else None)
        for function in steps:
            print(function.__name__.replace("_", " "), flush=True)
            function(node)

    return live(tree, story)


if __name__ == "__main__":
    sys.exit(main())
