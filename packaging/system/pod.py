# SPDX-License-Identifier: Apache-2.0
"""The pod of the DaemonSet with its metrics, run by podman: it serves this host's devices with what the manifest allows it.

Only the places in the manifest that exist once on a host are changed: the plugin directory and the state.
"""
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time

import yaml

from waiting import check, until

HERE = os.path.dirname(os.path.abspath(__file__))
BASE = os.path.join(HERE, "../container/base")
METRICS = os.path.join(HERE, "../container/components/metrics")
NODE = "node-a"
# Unpacked, with its base.
IMAGE_MAX = 100e6

RESOURCES = """resources = (
    { name = "vendor.example/full"; driver = "path"; match = "/dev/full"; share = { replicas = %d; };
      health = ( { probe = "exec"; command = ( "/bin/sh", "-c",
          "! ls /var/lib/kubelet/device-plugins && ! unshare -U true && ! touch /x && ! head -c 1 /host/dev/mem" ); interval = 1; } ); },
    { name = "vendor.example/token"; driver = "static"; match = ( { count = 2; } ); },
    { name = "vendor.example/zero"; driver = "path"; match = "/dev/zero"; cdi_spec = { kind = "vendor.example/zero"; }; }
);
"""


def pod_of(daemonset, name, image, scratch):
    """The DaemonSet's pod with an image and directories of this test, and the ConfigMap that it wants."""
    spec = daemonset["spec"]["template"]["spec"]
    container = spec["containers"][0]
    container["image"] = image
    container["imagePullPolicy"] = "Never"
    # The kubelet runs the probes; the test runs their commands instead.
    probes = [container.pop(key)["exec"]["command"] for key in ("readinessProbe", "livenessProbe")]
    # podman has no node.
    node = next(variable for variable in container["env"] if variable["name"] == "NODE_NAME")
    check(node.pop("valueFrom")["fieldRef"]["fieldPath"] == "spec.nodeName", f"NODE_NAME: {container['env']}")
    node["value"] = NODE
    for volume in spec["volumes"]:
        if "hostPath" in volume and not volume["hostPath"]["path"] in ("/dev", "/sys"):
            volume["hostPath"]["path"] = os.path.join(scratch, volume["name"])
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "labels": {"app": "devplugd"}}, "spec": spec}
    return pod, probes


class Podman:
    def __init__(self, work):
        self.work = work

    def podman(self, *words):
        return subprocess.run(["podman", "--root", self.work + "/storage", "--runroot", self.work + "/run",
                               "--cgroup-manager", "cgroupfs", *words], capture_output=True, text=True)

    def do(self, *words):
        result = self.podman(*words)
        check(result.returncode == 0, f"podman {' '.join(words)}: {result.stdout}{result.stderr}")
        return result.stdout


class Pod(Podman):
    NETWORK = "none"

    def __init__(self, bin_folder, work, image):
        super().__init__(work)
        self.bin, self.image = bin_folder, image
        self.scratch = tempfile.mkdtemp(prefix="devplugd-pod.")
        # What it would be to a kubelet's pod.
        os.chmod(self.scratch, 0o755)
        self.plugins = os.path.join(self.scratch, "device-plugins")
        os.mkdir(self.plugins)
        self.kubelet = None
        # podman puts the name of the pod before that of the container.
        self.name, self.container = "pod-1", "pod-1-devplugd"

    def ask_kubelet(self, *words):
        return subprocess.run([os.path.join(self.bin, "devplug-kubelet"), *words, "--state-dir", self.scratch + "/kubelet"],
                              capture_output=True, text=True)

    def start(self):
        self.events = os.path.join(self.scratch, "events")
        with open(self.events, "w") as file:
            self.kubelet = subprocess.Popen(
                [os.path.join(self.bin, "devplug-kubelet"), "run", "--json", "--plugin-dir", self.plugins, "--state-dir",
                 self.scratch + "/kubelet", *self.kubelet_options()], stdout=file, stderr=subprocess.DEVNULL)
        self.create()

    def kubelet_options(self):
        return []

    def configuration_files(self):
        """The files of the ConfigMap."""
        with open(os.path.join(METRICS, "metrics.conf")) as file:
            return {"resources.conf": RESOURCES % 3, "metrics.conf": file.read()}

    def adapt(self, spec):
        """Changes the pod of the manifest for this test."""

    def create(self):
        """The ConfigMap, and the pod with the name that is set."""
        with open(os.path.join(BASE, "daemonset.yaml")) as file:
            pod, self.probes = pod_of(yaml.safe_load(file), self.name, self.image, self.scratch)
        self.adapt(pod["spec"])
        volume = next(v for v in pod["spec"]["volumes"] if "configMap" in v)["configMap"]["name"]
        configuration = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": volume}, "data": self.configuration_files()}
        manifest = os.path.join(self.scratch, "pod.yaml")
        with open(manifest, "w") as file:
            yaml.safe_dump_all([configuration, pod], file)
        self.do("play", "kube", "--network", self.NETWORK, manifest)
        self.configuration = os.path.join(
            self.do("volume", "inspect", "--format", "{{.Mountpoint}}", volume).strip(), "resources.conf")

    def devplugctl(self, *words):
        return self.podman("exec", self.container, "devplugctl", *words)

    def allocatable(self, **counts):
        words = ",".join(f"vendor.example/{name}={n}" for name, n in counts.items())
        until(lambda: self.ask_kubelet("wait", words, "--timeout", "5").returncode == 0,
              lambda: f"{words}\n{self.devplugctl('status').stdout}{self.log()}")

    def pids(self):
        status = json.loads(self.devplugctl("status", "--json").stdout)
        inside = {r["pid"]: r["name"] for r in status["resources"]}
        pids = {}
        for word in self.do("top", self.container, "pid", "hpid").split("\n")[1:]:
            if word.strip():
                own, host = word.split()
                if int(own) in inside:
                    pids[inside[int(own)]] = int(host)
        return pids

    def log(self):
        result = self.podman("logs", self.container)
        return result.stdout + result.stderr

    def close(self):
        for number in (1, 2):
            self.podman("pod", "rm", "-f", "-t", "0", f"pod-{number}")
        self.podman("volume", "rm", "-f", "devplugd")
        if self.kubelet:
            self.kubelet.kill()
            self.kubelet.wait()
        shutil.rmtree(self.scratch, ignore_errors=True)


steps = []


def step(function):
    steps.append(function)
    return function


@step
def serves_the_hosts_devices(pod):
    pod.allocatable(full=3, token=2)
    answer = pod.ask_kubelet("pod", "one", "--limits", "vendor.example/full=1,vendor.example/token=1", "--json")
    check(answer.returncode == 0, answer.stdout)
    check([d["host_path"] for d in json.loads(answer.stdout)["container"]["devices"]] == ["/dev/full"], answer.stdout)


@step
def writes_files_for_the_container_runtime(pod):
    pod.allocatable(zero=1)
    with open(os.path.join(pod.scratch, "cdi/devplugd-vendor.example=zero.json")) as file:
        check(json.load(file)["kind"] == "vendor.example/zero", "another kind")


@step
def children_have_no_privilege(pod):
    """And the probe of one of them, which is healthy, has tried."""
    pids = pod.pids()
    check(len(pids) == 3, f"processes: {pids}")
    users = []
    for name, pid in pids.items():
        with open(f"/proc/{pid}/status") as file:
            fields = dict(line.rstrip("\n").split(":\t", 1) for line in file if ":\t" in line)
        users.append(set(fields["Uid"].split()))
        check(len(users[-1]) == 1 and 60706 <= int(min(users[-1])) <= 65519, f"{name}: Uid {fields['Uid']}")
        check(all(int(fields[key], 16) == 0 for key in ("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb")),
              f"{name} has capabilities")
        check((fields["NoNewPrivs"], fields["Seccomp"]) == ("1", "2"), f"{name}: {fields['NoNewPrivs']}, {fields['Seccomp']}")
    check(len(set.union(*users)) == len(pids), f"users of the processes: {users}")


@step
def probes_of_the_manifest(pod):
    """They pass, and fail while the daemon is stuck."""
    for command in pod.probes:
        pod.do("exec", pod.container, *command)
    daemon = int(pod.do("inspect", "--format", "{{.State.Pid}}", pod.container))
    os.kill(daemon, signal.SIGSTOP)
    for command in pod.probes:
        check(pod.podman("exec", pod.container, *command).returncode != 0, f"{command} passes for a daemon that hangs")
    os.kill(daemon, signal.SIGCONT)
    for command in pod.probes:
        until(lambda: pod.podman("exec", pod.container, *command).returncode == 0, f"{command} to pass")


@step
def the_image_is_small(pod):
    size = int(pod.do("image", "inspect", "--format", "{{.Size}}", pod.image))
    print(f"  {size / 1e6:.0f} MB unpacked")
    check(size <= IMAGE_MAX, f"the image has {size / 1e6:.0f} MB")


@step
def looks_at_the_host(pod):
    """With what is mounted of it: /dev/fuse or /dev/kvm, where there are such."""
    found = pod.devplugctl("discover")
    check(found.returncode == 0, found.stderr)
    for preset in ("fuse", "kvm"):
        check((f'preset = "{preset}"' in found.stdout) == os.path.exists("/dev/" + preset), found.stdout)
    shown = pod.devplugctl("preview", "vendor.example/full")
    check(shown.returncode == 0 and "/dev/full" in shown.stdout, shown.stdout + shown.stderr)


@step
def metrics(pod):
    """Reads the exporter's metrics from the pod's network."""
    pid = pod.do("inspect", "--format", "{{.State.Pid}}", pod.container).strip()
    text = until(lambda: subprocess.run(
        ["nsenter", "-t", pid, "-n", sys.executable, "-c", "import urllib.request as r; "
         "print(r.urlopen('http://127.0.0.1:10970/metrics').read().decode())"], capture_output=True, text=True).stdout,
        lambda: "metrics: " + pod.log())
    check('devplugd_device_healthy{resource="vendor.example/token"' in text, text)


@step
def an_edited_configuration_is_reloaded(pod):
    before = pod.pids()
    for text, counts in ((RESOURCES % 5, {"full": 5}), (RESOURCES.replace("count = 2", "count = 7") % 5, {"token": 7})):
        with open(pod.configuration + ".new", "w") as file:
            file.write(text)
        os.rename(pod.configuration + ".new", pod.configuration)
        pod.allocatable(**counts)
    check(pod.pids() == before, "processes were replaced")
    with open(pod.configuration, "w") as file:
        file.write("nonsense")
    until(lambda: "/etc/devplugd.conf.d/resources.conf:" in pod.log(), "the broken file to be told")
    pod.allocatable(full=5, token=7)
    check(pod.pids() == before, "a broken file changed something")
    with open(pod.configuration, "w") as file:
        file.write(RESOURCES % 5)
    pod.allocatable(token=2)


@step
def cordons(pod):
    result = pod.devplugctl("cordon", "vendor.example/token/token-0")
    check(result.returncode == 0, result.stderr)
    pod.allocatable(token=1)
    check(pod.devplugctl("uncordon", "vendor.example/token/token-0").returncode == 0, "uncordon")
    pod.allocatable(token=2)


@step
def restarted(pod):
    before = pod.do("inspect", "--format", "{{.State.Pid}}", pod.container)
    os.kill(int(before), signal.SIGKILL)
    until(lambda: pod.do("inspect", "--format", "{{.State.Pid}}", pod.container).strip() not in ("0", before.strip()),
          lambda: "the container to be restarted: " + pod.podman("ps", "-a", "--pod").stdout)
    pod.allocatable(full=5, token=2, zero=1)


@step
def replaced(pod):
    """As a DaemonSet does it when its template changes: the new pod is ready beside the old one, which is then removed."""
    def registered(after=0):
        with open(pod.events) as file:
            return sorted([e["resource"] for e in map(json.loads, file) if e.get("event") == "registered"][after:])

    before = len(registered())
    old, pids = pod.name, pod.pids()
    pod.name, pod.container = "pod-2", "pod-2-devplugd"
    pod.create()
    until(lambda: "this one starts when it has ended" in pod.log(), lambda: "the new pod to wait: " + pod.log())
    for command in pod.probes:
        pod.do("exec", pod.container, *command)
    check(registered(before) == [], f"the new pod does not wait: {registered(before)}")
    started = time.monotonic()
    pod.do("stop", "-t", "15", old + "-devplugd")
    names = ["vendor.example/" + name for name in ("full", "token", "zero")]
    until(lambda: registered(before) == names, lambda: f"the new pod to register its resources: {registered(before)}{pod.log()}")
    pod.allocatable(full=3, token=2, zero=1)
    print(f"  {time.monotonic() - started:.1f} s from the request to stop until the new pod serves all resources")
    check(not set(pids.values()) & set(pod.pids().values()), "processes of the old pod")
    pod.do("pod", "rm", "-f", "-t", "0", old)


@step
def stopped(pod):
    pod.do("stop", "-t", "15", pod.container)
    check([s for s in os.listdir(pod.plugins) if s.startswith("devplugd")] == [], "sockets are left")
