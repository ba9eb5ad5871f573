# SPDX-License-Identifier: Apache-2.0
"""Random steps of what happens to a node: processes are killed, the configuration is reloaded, the kubelet is restarted or
replaced while it hangs, devices are unplugged, fail, are cordoned and released, get other device nodes, a resource moves between
the device plugin and DRA, claims have devices of another DRA driver, and the host is restarted. After each step a model knows
which devices are healthy and offered, that no device is in two pods, that no answer and no file leads a pod to a device that is
not its own and may be given to another pod (P21), and that the files of pods and claims are there and follow their devices, also those that containers read (P22).

The sequence depends on the seed alone. $DEVPLUGD_TEST_STEPS sets the number of steps: `make random` runs 10,000, and
`make random STEPS=1000 SEED=8` repeats a shorter run with another seed."""
import base64
import collections
import contextlib
import json
import os
import random
import shutil
import signal
import subprocess
import unittest

from dra_node import DraPodTest
from node import SEED, make_node, path, program, remove_tree, scaled, static, until
from nvidia_host import NvidiaHost, address, uuid
from vfio_host import VfioHost

STEPS = int(os.environ.get("DEVPLUGD_TEST_STEPS") or scaled(20))
# The back-off of a child that dies doubles with each kill, and begins again with devplugd.
KILLS = 2
PODS = 6
GONE = ConnectionError, FileNotFoundError
# The kinds of resources whose devices are functions of PCI, with the ids that these have in their configuration space.
FUNCTIONS = {"vfio": "0x1eb8", "described": "0x1eb9", "moving": "0x1eba"}
# The kinds with `metadata`.
METADATA = "static", "shared", "vfio", "moving"
# The other DRA driver, and its devices.
FOREIGN, FOREIGN_DEVICES = "test.vendor.example", [f"d{number}" for number in range(4)]


class Resource:
    """What the model knows: the devices that exist, and which of them are unhealthy or cordoned."""

    def __init__(self, kind, number, ids):
        self.name, self.kind, self.version, self.kills = f"{kind}{number}", kind, 0, 0
        self.replicas = 2 if kind == "shared" else 1
        self.all = list(ids)
        self.ids = list(self.all)
        self.sick, self.cordoned = set(), set()

    @property
    def full(self):
        return f"vendor.example/{self.name}"

    def offered(self):
        return sorted(self.replicas * list(set(self.ids) - self.sick - self.cordoned))


class Pod:
    """What a pod got from a device plugin: ids by resource, and in the answer that the kubelet stores the numbers of device nodes,
    and the names of CDI devices."""

    def __init__(self, reply):
        self.resources = reply["resources"]
        self.ids = {name for ids in self.resources.values() for name in ids}
        self.groups = groups_of(node["host_path"] for node in reply["container"]["devices"])
        self.cdi = reply["container"]["cdi"]
        self.metadata = [mount["host_path"] for mount in reply["container"]["mounts"]
                         if mount["container_path"].startswith("/run/devplugd/devices/")]
        self.stopped = False  # the host was restarted, and its containers were not started again


class Claim:
    """A claim of a pod, and the ids of its devices of devplugd."""

    def __init__(self, claim):
        self.claim, self.uid, self.held, self.prepared = claim, claim["metadata"]["uid"], set(), False

    def foreign(self):
        return {result["device"] for result in self.claim["status"]["allocation"]["devices"]["results"]
                if result["driver"] == FOREIGN}


def groups_of(nodes):
    """Which IOMMU groups these device nodes are of."""
    return {int(os.path.basename(node)) for node in nodes if node.startswith("/dev/vfio/") and node != "/dev/vfio/vfio"}


def groups_of_edits(edits):
    return groups_of(node.get("hostPath", node["path"]) for edit in edits for node in edit["deviceNodes"])


class RandomSteps(NvidiaHost, DraPodTest):
    GPUS = 3

    def setUp(self):
        DraPodTest.setUp(self)
        self.serve_api()
        self.prepare_host(self.node)
        self.pci = VfioHost(self.node.path("pci"))
        self.node.environment["STATE_DIRECTORY"] = self.node.path("state")
        self.choice = random.Random(SEED)
        self.health, self.devices = self.node.path("health"), self.node.path("dev")
        for folder in (self.health, self.devices):
            os.mkdir(folder)
        self.resources = [Resource("static", i, [f"static{i}-{k}" for k in range(3)]) for i in range(3)]
        self.resources += [Resource("path", i, [f"path{i}-{k}" for k in range(3)]) for i in range(2)]
        self.resources += [Resource("shared", 0, [f"shared0-{k}" for k in range(2)]),
                           Resource("gpu", 0, map(uuid, range(self.GPUS)))]
        self.resources += [Resource(kind, 0, [f"0000:0{bus}:0{k}.0" for k in range(count)])
                           for bus, (kind, count) in enumerate((("vfio", 3), ("described", 2), ("moving", 4)), 1)]
        self.moving, = self.of_kind("moving")
        self.dra_serves, self.claims, self.release, self.readmits, self.readmitted = False, {}, None, False, {}
        self.restarted = False
        for resource in self.of_kind("path"):
            for device in resource.ids:
                make_node(f"{self.devices}/{device}")
        for resource in self.of_kind(*FUNCTIONS):
            self.plug(resource, resource.all)
        self.guests, self.pods, self.refused, self.serial, self.hanging, self.down = 0, {}, set(), 0, None, False
        self.begin_foreign()
        self.write_configuration()

    def begin_foreign(self):
        """Another DRA driver, which finds claims in a folder and has its CDI files beside those of devplugd."""
        folder = self.node.path("foreign")
        for name in ("claims", "state"):
            os.makedirs(os.path.join(folder, name))
        os.makedirs(self.cdi)
        os.symlink(self.registry, os.path.join(folder, "registry"))
        os.symlink(self.cdi, os.path.join(folder, "cdi"))
        process = subprocess.Popen([program("faulty-driver"), "none", folder])
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)

    def of_kind(self, *kinds):
        return [resource for resource in self.resources if resource.kind in kinds]

    def stanza(self, resource):
        more = f'container = {{ env = ( "VERSION={resource.version}" ); }}; share = {{ replicas = {resource.replicas}; }};'
        if resource.kind in METADATA:
            more += " metadata = true;"
        if resource.kind == "path":
            return path(resource.name, f"{self.devices}/{resource.name}-*", more)
        if resource.kind == "gpu":
            return (f'{{ name = "{resource.full}"; driver = "nvidia"; match = ( {{ }} ); host_root = "{self.host}"; {more}'
                    ' health = ( { probe = "nvml"; interval = 0.2; hang_after = 10; } ); }')
        if resource.kind in FUNCTIONS:
            serve = "dra" if resource is self.moving and self.dra_serves else "plugin"
            described = f'cdi_spec = {{ kind = "{resource.full}"; }};' if resource.kind == "described" else ""
            return (f'{{ name = "{resource.full}"; driver = "pci"; host_root = "{self.pci.root}"; '
                    f'match = ( {{ access = "vfio"; vendor = 0x10de; device = {FUNCTIONS[resource.kind]}; }} ); serve = "{serve}"; {described} {more} }}')
        return static(resource.name, len(resource.ids), more + f' health = ( {{ probe = "file"; missing = "healthy"; '
                      f'path = "{self.health}/${{id}}"; healthy = "ok"; }} );')

    def write_configuration(self):
        self.configure(*map(self.stanza, self.resources), *(static(f"guest{i}", 1) for i in range(self.guests)),
                       kubelet=f'pod_logs_dir = "{self.node.kubelet_state}/pod-logs"; pod_resources_interval = 1; '
                               f'pod_resources_socket = "{self.node.kubelet_state}/pod-resources/kubelet.sock";')

    # --- what happens

    def is_untouched(self, name):
        """Whether it has not changed in this step. What comes and goes in one step leaves nothing that a test could wait for."""
        found = name not in self.touched
        self.touched.add(name)
        return found

    def do_health(self):
        resource = self.choice.choice(self.of_kind("static", "shared"))
        device = self.choice.choice(resource.ids)
        if not self.is_untouched(device):
            return
        with open(f"{self.health}/{device}", "w") as file:
            file.write("ok\n" if device in resource.sick else "hot\n")
        resource.sick ^= {device}

    def do_lose_gpu(self):
        gpu, = self.of_kind("gpu")
        if not self.is_untouched(gpu.name):
            return
        before = gpu.sick
        gpu.sick = set(self.choice.sample(gpu.ids, self.choice.randint(0, 2)))
        self.report(*(f"lost {address(number)}" for number in range(self.GPUS) if uuid(number) in gpu.sick))
        # One that is back after a reset, for which all handles have to be closed.
        if before - gpu.sick:
            self.do_release()

    def do_release(self):
        """It changes nothing for the kubelet. A process that was killed has to run again first."""
        until(lambda: self.ctl("release", "vendor.example/gpu0").returncode == 0, "the release to be sent")
        until(lambda: "devplugctl resume" in str(self.node.resource("vendor.example/gpu0")["scan_notes"]), "the release")
        self.assertEqual(self.ctl("resume", "vendor.example/gpu0").returncode, 0)

    def do_plug(self):
        resource = self.choice.choice(self.of_kind("path"))
        device = f"{resource.name}-{self.choice.randrange(3)}"
        if not self.is_untouched(device):
            return
        if device in resource.ids:
            os.unlink(f"{self.devices}/{device}")
            resource.ids.remove(device)
        else:
            make_node(f"{self.devices}/{device}")
            resource.ids.append(device)

    def do_cordon(self):
        resource = self.choice.choice(self.of_kind("static", "path"))
        lifted = bool(resource.cordoned) and self.choice.random() < 0.6
        device = self.choice.choice(sorted(resource.cordoned) or [""]) if lifted else f"{resource.name}-{self.choice.randrange(3)}"
        if not self.is_untouched(device):
            return
        words = ["uncordon"] if lifted else ["cordon", "--force"]
        answer = self.ctl(*words, f"{resource.full}/{self.prefix(resource)}{device}")
        self.assertEqual(answer.returncode, 0, answer.stderr)
        (resource.cordoned.discard if lifted else resource.cordoned.add)(device)

    def plug(self, resource, names):
        """Adds functions, in another order than the last time: they get any of the numbers that no other function has."""
        for name in names:
            taken = self.pci.groups.values()
            free = [number for number in range(len(taken) + 3) if number not in taken]
            self.pci.plug(name, self.choice.choice(free), FUNCTIONS[resource.kind])
        resource.ids = [name for name in resource.all if name in self.pci.groups]

    def unplug(self, resource, names):
        for name in names:
            self.pci.unplug(name)
        resource.ids = [name for name in resource.all if name in self.pci.groups]

    def do_renumber(self):
        """The kernel gives devices other nodes. That free ones have been away is awaited, because nothing else shows that they are
        known with their new nodes; those in a CDI file are seen there."""
        resource = self.choice.choice(self.of_kind(*FUNCTIONS))
        names = [name for name in self.choice.sample(resource.ids, self.choice.randint(0, len(resource.ids))) if self.is_untouched(name)]
        self.unplug(resource, names)
        if resource.kind != "described":
            until(lambda: not self.reported_present(resource) & set(names), f"{names} to be away")
        self.plug(resource, self.choice.sample(names, len(names)))

    def do_reload_driver(self):
        """All devices of a driver go, or come with other nodes."""
        resource = self.choice.choice(self.of_kind(*FUNCTIONS))
        if not self.touched & set(resource.all):
            self.touched |= set(resource.all)
            if resource.ids:
                self.unplug(resource, resource.ids)
            else:
                self.plug(resource, resource.all)

    def do_reload(self):
        resource = self.choice.choice(self.resources)
        resource.version += 1
        if resource.kind == "static" and self.is_untouched(resource.name):
            resource.ids = [f"{resource.name}-{k}" for k in range(self.choice.randint(2, 5))]
        self.guests = self.choice.randint(0, 3)
        self.write_configuration()
        answer = self.ctl("reload")
        self.assertEqual(answer.returncode, 0, answer.stderr)

    def do_refused_reload(self):
        """A file that is not valid changes nothing."""
        with open(self.node.config, "a") as file:
            file.write("resources = (")
        self.assertEqual(self.ctl("reload").returncode, 78)
        self.write_configuration()

    def do_start_second(self):
        """A second devplugd with the same runtime_dir ends, and changes nothing."""
        answer = self.run_tool("devplugd")
        self.assertEqual(answer.returncode, 1, answer.stderr)

    def do_move(self):
        """Kubelets before 1.34 register no DRA driver."""
        if self.release == "1.32" or self.down:
            return
        self.dra_serves = not self.dra_serves
        self.write_configuration()
        if self.choice.random() < 0.3:
            self.do_restart_devplugd()
        else:
            answer = self.ctl("reload")
            self.assertEqual(answer.returncode, 0, answer.stderr)
        if self.dra_serves:
            self.api.apply(self.ctl("dra", "classes").stdout)

    def do_reboot(self):
        """The kernel finds devices in another order, all processes are new, and what is below /run is gone."""
        if self.down:
            self.start_kubelet()
        until(self.kubelet_pods, "the kubelet to listen")
        self.assertNotIn("error", self.node.call_kubelet("reboot"))
        self.end_hanging()
        self.node.stop_kubelet(signal.SIGKILL)
        self.node.stop(signal.SIGKILL)
        self.lose_run()
        self.plug_in_another_order()
        for pod in self.pods.values():
            pod.stopped = True
        position = os.path.getsize(self.node.path("kubelet.log"))
        self.start()
        self.start_kubelet()
        self.restarted = True
        self.judge_pods(position)

    def lose_run(self):
        remove_tree(self.node.run)
        remove_tree(self.node.config + ".d")
        for resource in self.resources:
            resource.cordoned = set()
        # Where cdi_dir is may outlive the restart, or not; the other driver's files do.
        for name in os.listdir(self.cdi) if self.choice.random() < 0.5 else ():
            if name == "devplugd.metadata":
                shutil.rmtree(os.path.join(self.cdi, name))
            elif "devplugd" in name:
                os.unlink(os.path.join(self.cdi, name))
        for claim in self.claims.values():
            claim.prepared = False
            if claim.held:
                self.change_saved(claim.uid, lambda saved: saved.update(boot="00000000-0000-0000-0000-000000000000"))
        if os.path.exists(self.checkpoint()):
            os.utime(self.checkpoint(), (1, 1))

    def plug_in_another_order(self):
        functions = [(resource, name) for resource in self.of_kind(*FUNCTIONS) for name in resource.ids]
        for resource, name in functions:
            self.unplug(resource, [name])
        for resource, name in self.choice.sample(functions, len(functions)):
            self.plug(resource, [name])

    def judge_pods(self, position):
        """The kubelet admits again the pods that the device plugin serves, and starts their containers with the answers that it has
        stored; or it refuses them, if one of their devices is not healthy."""
        judged = {name for name, pod in self.pods.items() if not (self.dra_serves and self.moving.full in pod.resources)}
        verdicts = {}

        def have_verdicts():
            verdicts.update({event["pod"]: event["event"] for event in self.events_since(position)
                             if event["event"] in ("pod-readmitted", "pod-rejected")})
            return judged <= verdicts.keys()

        until(have_verdicts, f"{judged} to be judged")
        self.note_stale()
        for name in sorted(judged):
            self.check_verdict(name, verdicts[name] == "pod-rejected")
        self.note_refused()

    def check_verdict(self, name, refused):
        pod = self.pods[name]
        lost = {device for resource in self.resources for device in pod.resources.get(resource.full, ())
                if self.unit(resource, device) not in resource.offered()}
        if refused or self.is_function(pod):
            self.assertEqual(refused, bool(lost), f"{name}: {pod.resources}")
        if not refused:
            again = Pod(self.node.call_kubelet("pod-restart", name=name, namespace="default"))
            self.assertEqual((again.groups, again.cdi, again.metadata), (pod.groups, pod.cdi, pod.metadata), name)
            pod.stopped = False

    def do_kill_child(self):
        resource = self.choice.choice(self.resources)
        if resource.kills < KILLS:
            pid = until(lambda: {name: pid for pid, name in self.node.processes().items()}.get(resource.full), "the child")
            resource.kills += 1
            os.kill(pid, self.choice.choice((signal.SIGKILL, signal.SIGABRT, signal.SIGTERM)))
            until(lambda: self.served().get(resource.full, {}).get("pid") != pid, "devplugd to notice")

    def do_restart_devplugd(self):
        self.node.stop(self.choice.choice((signal.SIGKILL, signal.SIGTERM)))
        self.start()
        self.restarted = True

    def start(self):
        self.node.start()
        for resource in self.resources:
            resource.kills = 0
        until(lambda: self.ctl("status").returncode == 0, "devplugd to answer")

    def do_restart_kubelet(self):
        if not self.down:
            self.node.stop_kubelet(self.choice.choice((signal.SIGKILL, signal.SIGTERM)))
        self.down = self.choice.random() < 0.5
        if not self.down:
            self.start_kubelet()

    def do_replace_kubelet(self):
        """The one before hangs until the next is replaced."""
        if not self.down:
            until(self.kubelet_pods, "the kubelet to listen")
            self.end_hanging()
            before = self.control_socket()
            self.hanging = self.node.replace_kubelet(*self.kubelet_options())
            self.readmits = True
            self.note_readmitted()
            until(lambda: self.control_socket() not in (None, before), "the new kubelet to listen")

    def control_socket(self):
        try:
            return os.stat(os.path.join(self.node.kubelet_state, "control")).st_ino
        except FileNotFoundError:
            return None

    def end_hanging(self):
        if self.hanging:
            self.hanging.kill()
            self.hanging.wait()
            self.hanging = None

    def kubelet_options(self):
        self.release = self.choice.choice(("1.32", "1.36"))
        if self.dra_serves or self.claims:
            self.release = "1.36"
        return ("--seed", str(self.choice.randrange(1000)), "--as", self.release, "--plugins-registry", self.registry)

    def start_kubelet(self):
        # The sockets may still be those of the one that hangs.
        self.node.start_kubelet("--replace", *self.kubelet_options())
        self.down, self.readmits = False, True
        self.note_readmitted()

    def events_since(self, position):
        with open(self.node.path("kubelet.log"), "rb") as log:
            log.seek(position)
            return [json.loads(line) for line in log.read().splitlines(True) if line.startswith(b"{") and line.endswith(b"}\n")]

    def do_end_stream(self):
        """Waits for the end: until then, nothing differs from before."""
        if self.down:
            return
        resource = self.choice.choice(self.resources)
        if resource is self.moving and self.dra_serves:
            return
        fault = self.choice.choice(("end-stream", "close"))
        position = os.path.getsize(self.node.path("kubelet.log"))
        try:
            reply = self.node.call_kubelet("fault", resource=resource.full, fault=fault)
        except GONE:
            return  # it only starts
        if "error" not in reply:
            until(lambda: any(event["event"] == "stream-ended" and event["resource"] == resource.full
                              for event in self.events_since(position)), "the stream to end")

    def do_remove_pod(self):
        if (self.pods or self.claims) and not self.down:
            self.remove_pod(self.choice.choice(sorted({**self.pods, **self.claims})))

    def remove_pod(self, name):
        until(self.kubelet_pods, "the kubelet to listen")
        # A claim cannot be unprepared before the driver is registered.
        until(lambda: "error" not in self.node.call_kubelet("pod-rm", name=name, namespace="default"), f"{name} to end")
        if name in self.claims:
            self.api.release(self.claims.pop(name).claim)
        self.pods.pop(name, None)
        self.refused.discard(name)

    ACTIONS = {"health": 20, "plug": 20, "cordon": 10, "reload": 15, "remove_pod": 15, "end_stream": 4, "lose_gpu": 3,
               "kill_child": 6, "restart_kubelet": 6, "replace_kubelet": 3, "restart_devplugd": 4, "release": 2, "move": 8,
               "refused_reload": 4, "start_second": 2, "renumber": 12, "reload_driver": 4, "reboot": 4}

    # --- what must hold

    def kubelet_pods(self):
        try:
            return {"pods": {pod["name"]: pod for pod in self.node.call_kubelet("pods")["pods"]}}
        except GONE:
            return None

    def kubelet_resources(self):
        try:
            return {resource["name"]: resource for resource in self.node.call_kubelet("status")["resources"]}
        except GONE:
            return {}

    def prefix(self, resource):
        """The id of a device node is its path."""
        return f"{self.devices}/"[1:].replace("/", ":") if resource.kind == "path" else ""

    def unit(self, resource, name):
        return name.removeprefix(self.prefix(resource)).split("#")[0]

    def reported(self):
        """Resources by name, and their devices, of the devplugd that runs now."""
        try:
            state, documents = self.node.ask(devices=True)
        except GONE:
            return {}, {}
        if state["pid"] != self.node.daemon.pid:
            return {}, {}
        return ({resource["name"]: resource for resource in state["resources"]},
                {name: document["devices"] for name, document in documents.items()})

    def served(self):
        return self.reported()[0]

    def reported_present(self, resource):
        return {device["id"] for device in self.reported()[1].get(resource.full, [{"id": name} for name in resource.all])
                if device.get("cause") not in ("gone", "booked")}

    def is_function(self, pod):
        return any(resource.full in pod.resources for resource in self.of_kind(*FUNCTIONS))

    def held_by_plugin(self):
        """What pods hold of the resource that moves."""
        return {held for pod in self.pods.values() for held in pod.resources.get(self.moving.full, ())}

    def held_by_claims(self):
        return {held for claim in self.claims.values() for held in claim.held}

    def checkpoint(self):
        return os.path.join(self.node.plugins, "kubelet_internal_checkpoint")

    def booked_before_restart(self):
        """What the kubelet's checkpoint has of pods that ended before the devplugd that runs now has seen them."""
        if not self.restarted or not os.path.exists(self.checkpoint()):
            return set()
        with open(self.checkpoint()) as file:
            entries = json.load(file)["Data"]["PodDeviceEntries"] or []
        return {held for entry in entries if entry["ResourceName"] == self.moving.full
                for ids in entry["DeviceIDs"].values() for held in ids}

    def answers(self):
        """What containers may be started with: ids, and the groups that they lead to. The file of a claim follows its devices, except
        while one of them is missing."""
        for pod in self.pods.values():
            if pod.groups:
                yield pod.ids, pod.groups
        for claim in self.claims.values():
            if claim.prepared and not claim.held <= self.pci.groups.keys():
                yield claim.held, self.groups_of_claim(claim) or set()

    def note_stale(self):
        """Devices that an answer for them does not lead to, and devices that an answer for others leads to."""
        stale = {name for ids, groups in self.answers() for name, group in self.pci.groups.items() if (name in ids) != (group in groups)}
        for resource in self.of_kind(*FUNCTIONS):
            resource.sick = stale & set(resource.ids)

    # The differences of what there is to what has to be; empty where there are none.

    def difference_of_reports(self, devices):
        """What people are shown is never older, or other, than what is true."""
        lines = []
        for resource in self.resources:
            healthy = {self.unit(resource, device["id"]) for device in devices.get(resource.full, ()) if device["health"] == "Healthy"}
            offered, unsure = set(resource.offered()), set()
            if resource is self.moving:
                offered -= self.held_by_plugin() if self.dra_serves else self.held_by_claims()
                unsure = self.booked_before_restart() if self.dra_serves else set()
            if healthy - offered or offered - healthy - unsure:
                lines.append(f"{resource.full}: {healthy} are reported as healthy, not {offered}")
        return lines

    def groups_of_claim(self, claim):
        """Where its CDI file leads; None: there is none."""
        edits = self.specification(claim.uid)
        return None if edits is None else groups_of_edits(edits.values())

    def described(self):
        """Where the names lead to that are in the CDI file of a resource."""
        found = {}
        for name in os.listdir(self.cdi):
            # It may be gone by now.
            with contextlib.suppress(FileNotFoundError):
                if name.startswith("devplugd-"):
                    with open(os.path.join(self.cdi, name)) as file:
                        document = json.load(file)
                    found.update({f"{document['kind']}={device['name']}": groups_of_edits([device["containerEdits"]])
                                  for device in document["devices"]})
        return found

    def difference_of_files(self):
        """Files of claims and resources."""
        lines, found = [], self.described()
        wanted = {f"{resource.full}={name}": {self.pci.groups[name]} for resource in self.of_kind("described") for name in resource.ids}
        if found != wanted:
            lines.append(f"described: {found}, not {wanted}")
        ours = [claim for claim in self.claims.values() if claim.held]
        files = sorted(f"devplugd.dra-{claim.uid}.json" for claim in ours if claim.prepared)
        if self.files() != files:
            lines.append(f"files of claims: {self.files()}, not {files}")
        saved, folder = sorted(f"{claim.uid}.json" for claim in ours), os.path.dirname(self.saved("x"))
        if (sorted(os.listdir(folder)) if os.path.exists(folder) else []) != saved:
            lines.append(f"saved claims: {os.listdir(folder)}, not {saved}")
        for claim in ours:
            groups = self.groups_of_claim(claim) if claim.prepared else None
            if groups is not None and claim.held <= self.pci.groups.keys() and groups != {self.pci.groups[name] for name in claim.held}:
                lines.append(f"the file of {claim.held} leads to {groups}")
        return lines

    def difference_of_metadata(self):
        """Files that containers read: all that an answer of the kubelet mounts, and no others."""
        lines, folder, stored = [], os.path.join(self.cdi, "devplugd.metadata"), []
        found = {name for name in os.listdir(folder) if name.startswith("devplugd.devices-")} if os.path.exists(folder) else set()
        if os.path.exists(self.checkpoint()):
            with open(self.checkpoint()) as file:
                stored = [base64.b64decode(entry["AllocResp"]) for entry in json.load(file)["Data"]["PodDeviceEntries"] or []]
        lines += [f"{name} is left" for name in found if not any(name.encode() in answer for answer in stored)]
        for name, pod in self.pods.items():
            resource, = (resource for resource in self.resources if resource.full in pod.resources)
            if len(pod.metadata) != (resource.kind in METADATA):
                lines.append(f"{name} mounts {pod.metadata}")
            lines += [f"{name}: {line}" for path in pod.metadata for line in self.difference_of_devices(path, resource, pod)]
        return lines

    def difference_of_devices(self, path, resource, pod):
        try:
            with open(path) as file:
                request, = json.loads(file.readline())["requests"]
        except (FileNotFoundError, ValueError) as error:
            return [str(error)]
        units = [self.unit(resource, device) for device in sorted(pod.resources[resource.full])]
        known = [device.get("attributes", {}).get("id", {}).get("string") for device in request["devices"]]
        # After a restart of the host, nothing is known of a device that is away.
        return [f"{known}, not {units}" for unit, device in zip(units, known)
                if device != unit and (device or unit in resource.ids) or len(units) != len(known)]

    def difference_of_pods(self):
        """No device is in two pods."""
        held = collections.Counter(name for pod in self.pods.values() for name in pod.ids)
        held.update(name for claim in self.claims.values() for name in claim.held | claim.foreign())
        return [f"in two pods: {name}" for name, count in held.items() if count > 1]

    def difference_of_dra(self):
        lines = []
        if self.dra_serves:
            pool = (self.api.pool() or {}).values()
            published = {device["attributes"]["id"]["string"] for device in pool if not device.get("taints")}
            free = set(self.moving.offered()) - self.held_by_plugin()
            if published - free or free - published - self.booked_before_restart():
                lines.append(f"published: {published}, not {free}")
        try:
            drivers = sorted(os.path.basename(driver["endpoint"]).lstrip(".") for driver in self.node.call_kubelet("status")["drivers"])
        except GONE:
            drivers = None
        sockets = [os.path.basename(name) for name in self.kubelet.sockets()]
        if drivers != ([] if self.release == "1.32" else sockets):
            lines.append(f"drivers: {drivers}, not {sockets}")
        return lines

    def difference(self):
        self.note_refused()
        self.note_stale()
        served, devices = self.reported()
        return (self.difference_of_reports(devices) + self.difference_of_files() + self.difference_of_metadata() +
                self.difference_of_pods() + self.difference_of_dra() + self.difference_of_lists(served))

    def difference_of_lists(self, served):
        """What the kubelet has that the model has not."""
        sockets, found, lines = self.node.sockets(), self.kubelet_resources(), []
        for resource in self.resources:
            if resource is self.moving and self.dra_serves:
                continue
            seen = found.get(resource.full, {"state": "unknown", "endpoint": None, "devices": []})
            session = served.get(resource.full, {}).get("session", 0)
            # It may not know yet that a session has ended.
            if seen["endpoint"] not in sockets or not seen["endpoint"].endswith(f"-{session}.sock"):
                lines.append(f"{resource.full}: {seen['endpoint']}, not session {session}")
            healthy = [self.unit(resource, device["id"]) for device in seen["devices"] if device["healthy"]]
            offered = resource.offered()
            if resource is self.moving:
                offered = sorted(set(offered) - self.held_by_claims())
            # While a kubelet that was restarted admits its pods again, what they hold is listed as healthy.
            held = collections.Counter(self.unit(resource, name) for name in self.readmitted.get(resource.full, ()))
            # But a device is not to which no pod's answer leads, or that of another pod.
            if resource.kind in FUNCTIONS:
                held = {}
            healthy, offered = collections.Counter(healthy), collections.Counter(offered)
            if seen["state"] != "serving" or offered - healthy or healthy - offered - collections.Counter(held):
                lines.append(f"{resource.full}: {seen['state']}, offers {sorted(healthy.elements())}, not "
                             f"{sorted(offered.elements())}")
            listed = {device["id"] for device in seen["devices"]}
            lines += [f"{name}: {held} is not listed" for name, pod in self.pods.items()
                      for held in set(pod.resources.get(resource.full, ())) - listed]
        return lines

    def note_readmitted(self):
        """What pods have held since the first restart of a kubelet; its data may contain it longer than the pods."""
        for pod in self.pods.values() if self.readmits else ():
            for name, held in pod.resources.items():
                self.readmitted.setdefault(name, set()).update(held)

    def note_refused(self):
        """A kubelet that is the first one after a restart of the host refuses pods whose devices are not healthy."""
        for name, pod in (self.kubelet_pods() or {"pods": {}})["pods"].items():
            if pod["phase"] == "Failed" and name in self.pods:
                self.assertTrue(self.pods.pop(name).stopped, pod)
                self.refused.add(name)

    def settle(self):
        self.note_readmitted()
        if self.down:
            self.start_kubelet()
        until(lambda: not self.difference(), "the kubelet to know the devices", 60)

    def add_pod(self):
        """A pod gets what is free, as the newest configuration says."""
        resource = self.choice.choice(self.resources + self.of_kind(*FUNCTIONS))
        if (resource is self.moving and self.dra_serves) or (self.release != "1.32" and self.choice.random() < 0.1):
            self.add_claim(resource is self.moving and self.dra_serves)
            return
        free = sum(device["healthy"] and not device.get("pod") and self.unit(resource, device["id"]) in resource.offered()
                   for device in self.kubelet_resources()[resource.full]["devices"])
        if not free or len(self.pods) >= PODS:
            return
        self.serial += 1
        name = f"pod-{self.serial}"
        reply = self.node.call_kubelet("pod", name=name, namespace="default", limits={resource.full: self.choice.randint(1, free)})
        self.assertIn("container", reply, reply)
        pod = Pod(reply)
        groups = {self.pci.groups[device] for device in pod.ids} if resource.kind in FUNCTIONS else set()
        self.assertFalse(groups & self.groups_in_use(), reply)
        if resource.kind == "described":
            self.assertEqual(sorted(pod.cdi), sorted(f"{resource.full}={device}" for device in pod.ids), reply)
        else:
            self.assertEqual((pod.groups, reply["container"]["env"].get("VERSION")), (groups, str(resource.version)), reply)
        self.pods[name] = pod

    def groups_in_use(self):
        """All groups to which any answer or file of a pod leads."""
        groups = {group for pod in self.pods.values() for group in pod.groups}
        groups |= {group for pod in self.pods.values() for name in pod.cdi for group in self.described().get(name, ())}
        return groups | {group for claim in self.claims.values() if claim.prepared for group in self.groups_of_claim(claim) or ()}

    def add_claim(self, ours):
        """A pod gets devices that no other has, perhaps also one of the other driver, or only one of that."""
        self.serial += 1
        name = f"claim-{self.serial}"
        free = set(FOREIGN_DEVICES) - {device for claim in self.claims.values() for device in claim.foreign()}
        foreign = self.choice.choice(sorted(free)) if free and (not ours or self.choice.random() < 0.3) else None
        if len(self.claims) >= PODS or not (ours or foreign):
            return
        claim = self.schedule(name, self.choice.choice((1, 1, 2)) if ours else 0, foreign)
        if not claim:
            return
        before = self.groups_in_use()
        reply = until(lambda: (pod := self.pod(name, claim.claim)) and "phase" in pod and pod, "the pod to be admitted")
        # It waits for a child that was killed, as a kubelet does.
        if reply.get("reason"):
            until(lambda: not self.restart(name).get("reason"), "the claim to be prepared")
        if ours:
            with open(self.saved(claim.uid)) as file:
                claim.held = {device["id"] for device in json.load(file)["devices"]}
        claim.prepared = True
        self.assertFalse((self.groups_of_claim(claim) or set()) & before)
        self.claims[name] = claim

    def schedule(self, name, count, foreign):
        """A claim with so many devices of the resource that moves, and perhaps one of the other driver; None: there are not as many."""
        if count:
            claim = self.api.schedule(name, [("r", f"{self.moving.name}.vendor.example", count)])
        else:
            self.api.allocate(name, FOREIGN, [])
            claim = self.api.claims["default", name]
        if claim and foreign:
            claim["status"]["allocation"]["devices"]["results"].append(
                {"request": "f", "driver": FOREIGN, "pool": "node-a", "device": foreign})
            with open(self.node.path(f"foreign/claims/default.{name}.json"), "w") as file:
                json.dump(claim, file)
        return claim and Claim(claim)

    def prepare_claims(self):
        """After a restart of the host, claims are prepared again when their containers start: with devices to which no answer of a pod
        leads."""
        for name, claim in self.claims.items():
            if claim.prepared or (claim.held and not self.dra_serves) or not claim.held <= self.pci.groups.keys():
                continue
            if claim.held & self.moving.sick:
                self.assertTrue(self.restart(name).get("reason"), name)
                continue
            until(lambda: not self.restart(name).get("reason"), f"{name} to be prepared")
            claim.prepared = True

    def step(self):
        actions = self.choice.choices(list(self.ACTIONS), self.ACTIONS.values(), k=self.choice.choice((1, 1, 1, 2, 4)))
        self.done.append(actions)
        self.touched = set()
        for action in actions:
            getattr(self, "do_" + action)()
        self.settle()
        for name in sorted(self.refused):
            self.remove_pod(name)
        self.prepare_claims()
        self.add_pod()
        self.settle()
        self.assertIsNone(self.node.daemon.poll(), "devplugd died")
        self.assertIsNone(self.node.kubelet.poll(), "devplug-kubelet died")

    def test_random_steps(self):
        print(f"seed {SEED}, {STEPS} steps", end=" ", flush=True)
        self.done = []
        self.node.start_kubelet("--seed", str(SEED), "--plugins-registry", self.registry)
        self.start()
        for number in range(STEPS):
            try:
                self.step()
            except Exception as error:
                raise AssertionError(f"seed {SEED}, step {number}: {self.done[-3:]}: {self.difference()}: {error}") from error
        self.end_hanging()
        self.assertEqual(self.node.stop(), 0)


if __name__ == "__main__":
    unittest.main()
