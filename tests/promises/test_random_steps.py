# SPDX-License-Identifier: Apache-2.0
"""Random steps of what happens to a node: processes are killed, the configuration is reloaded, the kubelet is restarted or
replaced while it hangs, devices are unplugged, fail, are cordoned and released, and a resource moves between the device plugin
and DRA. After each step a model knows how many devices of each resource are offered, that a pod gets one, that no device of a
pod has left the list, that no device is in two pods, and that each claim has its CDI file, and no other is left.

The sequence depends on the seed alone. $DEVPLUGD_TEST_STEPS sets the number of steps: `make random` runs 10,000."""
import collections
import json
import os
import random
import signal
import unittest

from dra_node import DraPodTest
from node import SEED, path, static, until
from nvidia_host import NvidiaHost, address, uuid

STEPS = int(os.environ.get("DEVPLUGD_TEST_STEPS") or 0)
# The back-off of a child that dies doubles with each kill, and begins again with devplugd.
KILLS = 2
PODS = 4
GONE = ConnectionError, FileNotFoundError


class Resource:
    """What the model knows: the devices that exist, and which of them are sick or cordoned."""

    def __init__(self, kind, number, ids):
        self.name, self.kind, self.version, self.kills = f"{kind}{number}", kind, 0, 0
        self.replicas = 2 if kind == "shared" else 1
        self.ids, self.sick, self.cordoned = list(ids), set(), set()

    @property
    def full(self):
        return f"vendor.example/{self.name}"

    def offered(self):
        return sorted(self.replicas * list(set(self.ids) - self.sick - self.cordoned))


class RandomSteps(NvidiaHost, DraPodTest):
    GPUS = 3

    def setUp(self):
        DraPodTest.setUp(self)
        self.serve_api()
        self.prepare_host(self.node)
        self.choice = random.Random(SEED)
        self.health, self.devices = self.node.path("health"), self.node.path("dev")
        for folder in (self.health, self.devices):
            os.mkdir(folder)
        self.resources = [Resource("static", i, [f"static{i}-{k}" for k in range(3)]) for i in range(3)]
        self.resources += [Resource("path", i, [f"path{i}-{k}" for k in range(3)]) for i in range(2)]
        self.resources += [Resource("shared", 0, [f"shared0-{k}" for k in range(2)]),
                           Resource("gpu", 0, map(uuid, range(self.GPUS))),
                           Resource("moving", 0, [f"moving0-{k}" for k in range(4)])]
        self.moving, = self.of_kind("moving")
        self.dra_serves, self.claims, self.release, self.readmits, self.readmitted = False, {}, None, False, {}
        self.restarted = False
        for resource in self.of_kind("path"):
            for device in resource.ids:
                os.mkfifo(f"{self.devices}/{device}")
        self.guests, self.pods, self.serial, self.hanging, self.down = 0, {}, 0, None, False
        self.write_configuration()

    def of_kind(self, *kinds):
        return [resource for resource in self.resources if resource.kind in kinds]

    def stanza(self, resource):
        more = f'container = {{ env = ( "VERSION={resource.version}" ); }}; share = {{ replicas = {resource.replicas}; }};'
        if resource.kind == "path":
            return path(resource.name, f"{self.devices}/{resource.name}-*", more)
        if resource.kind == "gpu":
            return (f'{{ name = "{resource.full}"; driver = "nvidia"; match = ( {{ }} ); host_root = "{self.host}"; {more}'
                    ' health = ( { probe = "nvml"; interval = 0.2; hang_after = 10; } ); }')
        if resource.kind == "moving":
            return static(resource.name, len(resource.ids), more + f'serve = "{"dra" if self.dra_serves else "plugin"}";')
        return static(resource.name, len(resource.ids), more + f' health = ( {{ probe = "file"; missing = "healthy"; '
                      f'path = "{self.health}/${{id}}"; healthy = "ok"; }} );')

    def write_configuration(self):
        self.configure(*map(self.stanza, self.resources), *(static(f"guest{i}", 1) for i in range(self.guests)),
                       kubelet=f'pod_logs_dir = "{self.node.kubelet_state}/pod-logs";')

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
            os.mkfifo(f"{self.devices}/{device}")
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

    def do_end_stream(self):
        """Waits for the end: until then, nothing differs from before."""
        if self.down:
            return
        resource = self.choice.choice(self.resources)
        if resource is self.moving and self.dra_serves:
            return
        fault = self.choice.choice(("end-stream", "close"))
        with open(self.node.path("kubelet.log")) as log:
            log.seek(0, os.SEEK_END)
            try:
                reply = self.node.call_kubelet("fault", resource=resource.full, fault=fault)
            except GONE:
                return  # it only starts
            text = ""

            def has_ended():
                nonlocal text
                text += log.read()
                return any('"stream-ended"' in line and f'"{resource.full}"' in line for line in text.splitlines())

            if "error" not in reply:
                until(has_ended, "the stream to end")

    def do_remove_pod(self):
        if (self.pods or self.claims) and not self.down:
            self.remove_pod(self.choice.choice(sorted({**self.pods, **self.claims})))

    def remove_pod(self, name):
        until(self.kubelet_pods, "the kubelet to listen")
        # A claim cannot be unprepared before the driver is registered.
        until(lambda: "error" not in self.node.call_kubelet("pod-rm", name=name, namespace="default"), f"{name} to end")
        if name in self.claims:
            self.api.release(self.claims.pop(name)[0])
        else:
            del self.pods[name]

    ACTIONS = {"health": 20, "plug": 20, "cordon": 10, "reload": 15, "remove_pod": 15, "end_stream": 4, "lose_gpu": 3,
               "kill_child": 6, "restart_kubelet": 6, "replace_kubelet": 3, "restart_devplugd": 4, "release": 2, "move": 8, "refused_reload": 4,
               "start_second": 2}

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

    def served(self):
        """Resources by name, of the devplugd that runs now."""
        state = self.node.state()
        return {r["name"]: r for r in state["resources"]} if state and state["pid"] == self.node.daemon.pid else {}

    def held_by_plugin(self):
        """What pods hold of the resource that moves."""
        return {held for ids in self.pods.values() for held in ids.get(self.moving.full, ())}

    def held_by_claims(self):
        return {held for _, ids in self.claims.values() for held in ids}

    def booked_before_restart(self):
        """What the kubelet's checkpoint has of pods that ended before the devplugd that runs now has seen them."""
        if not self.restarted:
            return set()
        with open(os.path.join(self.node.plugins, "kubelet_internal_checkpoint")) as file:
            entries = json.load(file)["Data"]["PodDeviceEntries"] or []
        return {held for entry in entries if entry["ResourceName"] == self.moving.full
                for ids in entry["DeviceIDs"].values() for held in ids}

    def difference_of_dra(self):
        lines, files = [], sorted(f"devplugd.dra-{claim['metadata']['uid']}.json" for claim, _ in self.claims.values())
        if self.files() != files:
            lines.append(f"files of claims: {self.files()}, not {files}")
        if self.held_by_plugin() & self.held_by_claims():
            lines.append(f"in two pods: {self.held_by_plugin() & self.held_by_claims()}")
        if self.dra_serves:
            published = {device["attributes"]["id"]["string"] for device in (self.api.pool() or {}).values()}
            free = set(self.moving.ids) - self.held_by_plugin()
            if published - free or free - published - self.booked_before_restart():
                lines.append(f"published: {published}, not {free}")
            try:
                drivers = [driver["endpoint"].replace("/.", "/") for driver in self.node.call_kubelet("status")["drivers"]]
            except GONE:
                drivers = None
            if drivers != self.kubelet.sockets():
                lines.append(f"drivers: {drivers}, not {self.kubelet.sockets()}")
        return lines

    def difference(self):
        """What the kubelet has that the model has not; empty if they agree."""
        served, sockets, found, lines = self.served(), self.node.sockets(), self.kubelet_resources(), self.difference_of_dra()
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
            healthy, offered = collections.Counter(healthy), collections.Counter(offered)
            if seen["state"] != "serving" or offered - healthy or healthy - offered - held:
                lines.append(f"{resource.full}: {seen['state']}, offers {sorted(healthy.elements())}, not "
                             f"{sorted(offered.elements())}")
            listed = {device["id"] for device in seen["devices"]}
            lines += [f"{name}: {held} is not listed" for name, ids in self.pods.items()
                      for held in set(ids.get(resource.full, ())) - listed]
        return lines

    def note_readmitted(self):
        """What pods have held since the first restart of a kubelet; its data may contain it longer than the pods."""
        for ids in self.pods.values() if self.readmits else ():
            for name, held in ids.items():
                self.readmitted.setdefault(name, set()).update(held)

    def settle(self):
        self.note_readmitted()
        if self.down:
            self.start_kubelet()
        until(lambda: not self.difference(), "the kubelet to know the devices", 60)

    def add_pod(self):
        """A pod gets what is free, as the newest configuration says."""
        resource = self.choice.choice(self.resources)
        if resource is self.moving and self.dra_serves:
            self.add_claim()
            return
        free = sum(device["healthy"] and not device.get("pod") and self.unit(resource, device["id"]) in resource.offered()
                   for device in self.kubelet_resources()[resource.full]["devices"])
        if not free or len(self.pods) >= PODS:
            return
        self.serial += 1
        name = f"pod-{self.serial}"
        reply = self.node.call_kubelet("pod", name=name, namespace="default", limits={resource.full: self.choice.randint(1, free)})
        self.assertIn("container", reply, reply)
        self.assertEqual(reply["container"]["env"].get("VERSION"), str(resource.version), reply)
        self.pods[name] = reply["resources"]

    def add_claim(self):
        """A pod gets devices that no other has."""
        self.serial += 1
        name = f"claim-{self.serial}"
        claim = len(self.claims) < PODS and self.api.schedule(name, [("r", f"{self.moving.name}.vendor.example", 1)])
        if not claim:
            return
        reply = until(lambda: (pod := self.pod(name, claim)) and "phase" in pod and pod, "the pod to be admitted")
        # It waits for a child that was killed, as a kubelet does.
        if reply.get("reason"):
            until(lambda: not self.restart(name).get("reason"), "the claim to be prepared")
        with open(self.saved(claim["metadata"]["uid"])) as file:
            self.claims[name] = claim, {device["id"] for device in json.load(file)["devices"]}

    def drop_refused(self):
        """A kubelet that has restarted admits pods again, and refuses one whose devices have all failed."""
        for name, pod in until(self.kubelet_pods, "the kubelet to listen")["pods"].items():
            if pod["phase"] != "Running" and name in self.pods:
                self.remove_pod(name)

    def step(self):
        actions = self.choice.choices(list(self.ACTIONS), self.ACTIONS.values(), k=self.choice.choice((1, 1, 1, 2, 4)))
        self.done.append(actions)
        self.touched = set()
        for action in actions:
            getattr(self, "do_" + action)()
        self.settle()
        self.drop_refused()
        self.add_pod()
        self.assertIsNone(self.node.daemon.poll(), "devplugd died")
        self.assertIsNone(self.node.kubelet.poll(), "devplug-kubelet died")

    @unittest.skipIf(STEPS == 0, "make random runs it")
    def test_random_steps(self):
        print(f"seed {SEED}, {STEPS} steps", end=" ", flush=True)
        self.done = []
        self.node.start_kubelet("--seed", str(SEED), "--plugins-registry", self.registry)
        self.start()
        self.settle()
        for number in range(STEPS):
            try:
                self.step()
            except Exception as error:
                raise AssertionError(f"seed {SEED}, step {number}: {self.done[-3:]}: {self.difference()}: {error}") from error
        self.end_hanging()
        self.assertEqual(self.node.stop(), 0)


if __name__ == "__main__":
    unittest.main()
