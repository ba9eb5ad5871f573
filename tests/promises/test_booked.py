# SPDX-License-Identifier: Apache-2.0
"""P17: a device that the kubelet has booked stays listed, with its NUMA node, whatever becomes of it: a kubelet that is
restarted neither panics nor fails the pod.

complaints.md: none of the other plugins tries.
"""
import concurrent.futures
import glob
import json
import os
import random
import re
import shutil
import signal
import stat
import subprocess
import sys
import time
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.realpath(__file__)), "../peers"))
from node import BIN, NodeTest, SEED, program, scaled, static, until  # noqa: E402
os.environ.setdefault("DEVPLUGD_BIN", BIN)
from test_peers import HERE as TREES, plant, translations  # noqa: E402

STEPS = int(os.environ.get("DEVPLUGD_TEST_STEPS") or scaled(60))
# The hardware of the drivers that look into /sys, from docs/peers.
CASES = {"usb": "gdp-usb", "pci": "kubevirt-pci", "drm": "amd-gpu", "net": "sriov-netdevice", "rdma": "rdma-exclusive",
         "sysfs": "akri-tty", "nvidia": "gke-nvidia"}
EXEC = """#!/bin/sh
[ -e "$(dirname "$0")/away" ] && { echo '{"version": 1, "devices": []}'; exit; }
echo '{"version": 1, "devices": [{"id": "e0", "numa": [0]}, {"id": "e1", "numa": [1]}, {"id": "e2", "numa": [1]}]}'
"""


def first_stanza(text):
    """The keys of the first resource of a list, without its name."""
    begin = text.index("{")
    depth, end = 0, begin
    for end in range(begin, len(text)):
        depth += {"{": 1, "}": -1}.get(text[end], 0)
        if depth == 0:
            break
    return re.sub(r'name = "[^"]*";', "", text[begin + 1:end])


class Source:
    """The hardware of one resource, and what the configuration makes of it."""

    def __init__(self, name, keys, folder):
        self.name, self.keys, self.folder = name, keys, folder
        self.mode, self.excluded, self.claimed = "plain", "*", False
        self.plugged = True

    @property
    def full(self):
        return f"vendor.example/{self.name}"

    def stanzas(self):
        keys = {
            "plain": self.keys,
            "exclude": f'{self.keys} exclude = "{self.excluded}";',
            "match": 'driver = "path"; match = "/dev/there-is-no-such/*";',
            "driver": 'driver = "static"; match = ( { id = "another-%s"; numa = 1; } );' % self.name,
            "share": f"{self.keys} share = {{ replicas = 2; }};",
            "topology": f"{self.keys} topology = false;",
        }[self.mode]
        if self.claimed:
            yield f'{{ name = "vendor.example/taker-{self.name}"; {self.keys} }}'
        yield f'{{ name = "{self.full}"; {keys} }}'

    def plug(self, plugged):
        away = self.folder + ".away"
        if plugged != self.plugged and self.name == "exec":
            (os.unlink if plugged else lambda name: open(name, "w").close())(os.path.join(self.folder, "away"))
        elif plugged and not self.plugged:
            for name in os.listdir(away):
                os.rename(os.path.join(away, name), os.path.join(self.folder, name))
        elif self.plugged and not plugged:
            os.makedirs(away, exist_ok=True)
            for name in os.listdir(self.folder):
                os.rename(os.path.join(self.folder, name), os.path.join(away, name))
        self.plugged = plugged


class Booked(NodeTest):
    def setUp(self):
        super().setUp()
        self.pods, self.serial = {}, 0
        self.node.kubelet_options = ["--topology-policy", "restricted"]

    # --- the node

    def write(self):
        self.node.configure(*(stanza for source in self.sources for stanza in source.stanzas()),
                            kubelet=f'pod_resources_socket = "{self.node.kubelet_state}/pod-resources/kubelet.sock"; '
                                    "pod_resources_interval = 1;")

    def reload(self):
        self.write()
        self.node.reload()

    def kubelet(self):
        self.assertIsNone(self.node.kubelet.poll(), "the kubelet ended, 3: it panicked")
        return {r["name"]: r for r in self.node.call_kubelet("status")["resources"]}

    def checkpoint(self):
        try:
            with open(os.path.join(self.node.plugins, "kubelet_internal_checkpoint")) as file:
                return json.load(file)["Data"]["PodDeviceEntries"] or []
        except FileNotFoundError:
            return []

    def booked(self):
        """{resource: {id: [NUMA nodes]}}, from the kubelet's checkpoint."""
        found = {}
        for entry in self.checkpoint():
            for node, ids in entry["DeviceIDs"].items():
                for name in ids:
                    nodes = found.setdefault(entry["ResourceName"], {}).setdefault(name, set())
                    nodes.update({int(node)} - {-1})
        return found

    def missing(self):
        """What is booked, of a resource that is served, and not listed as it was booked."""
        served = {source.full for source in self.sources}
        listed = {name: {d["id"]: set(d["numa"]) for d in r["devices"]} for name, r in self.kubelet().items()
                  if r["state"] == "serving"}
        return [(resource, name) for resource, ids in self.booked().items() if resource in served and resource in listed
                for name, nodes in ids.items()
                if name not in listed[resource] or (nodes and listed[resource][name] != nodes)]

    def listed(self):
        resources = self.kubelet()
        return {source.full: {d["id"]: (d["health"], d["numa"]) for d in resources[source.full]["devices"]}
                for source in self.sources}

    def offered_twice(self):
        """Devices that pods have from one resource, and that another one offers. With another `match`, a resource no
        longer knows what its pods have; what the program of `exec` prints here is no hardware that could be the same."""
        resources, booked = self.kubelet(), self.booked()

        def offered(name):
            return {d["id"].split("#")[0] for d in resources.get(name, {"devices": []})["devices"] if d["health"] == "Healthy"}

        return [(source.full, name) for source in self.sources
                if source.claimed and source.name != "exec" and source.mode not in ("match", "driver")
                for name in booked.get(source.full, {}) if name.split("#")[0] in offered(f"vendor.example/taker-{source.name}")]

    def check(self):
        until(lambda: not self.missing(), lambda: f"what is booked to be listed; {self.missing()}")
        until(lambda: not self.offered_twice(), lambda: f"no device to be offered twice; {self.offered_twice()}")

    def await_all(self):
        """All resources serve, and the kubelet has a list of each. The state file may be of a daemon that was killed."""
        names = {source.full for source in self.sources}
        until(lambda: (state := self.node.state()) and state["pid"] == self.node.daemon.pid and all(r["state"] == "serving" for r in state["resources"])
              and names <= {name for name, r in self.kubelet().items() if r["state"] == "serving" and r["lists"] > 0},
              f"all resources to serve; {self.node.state()}")

    def booked_by_pod(self):
        """{name of a pod: the sets of nodes of its devices}"""
        names = {pod["uid"]: pod["name"] for pod in self.node.call_kubelet("pods")["pods"]}
        found = {}
        for entry in self.checkpoint():
            nodes = {}
            for node, ids in entry["DeviceIDs"].items():
                for name in ids:
                    nodes.setdefault(name, set()).add(int(node))
            found.setdefault(names.get(entry["PodUID"]), []).extend(nodes.values())
        return found

    def may_fail(self, event, booked):
        """Two things that no plugin can help: the devices of init containers have to be healthy, and devices of several
        nodes are the best choice only for as long as no node alone has enough of them: a resource that offers more than
        when the pod came may take that away."""
        if event["reason"] == "UnexpectedAdmissionError":
            return self.pods[event["pod"]]
        return event["reason"] == "TopologyAffinityError" and not set.intersection(*booked[event["pod"]])

    def restart_kubelet(self):
        """All pods that were running go on."""
        seen = len(self.node.kubelet_events())
        wanted = {name for name, pod in self.phases().items() if pod == "Running"}
        booked = self.booked_by_pod()
        self.node.stop_kubelet(signal.SIGKILL)
        self.node.start_kubelet()

        def is_back():
            self.assertIsNone(self.node.kubelet.poll(), "the kubelet ended, 3: it panicked")
            events = self.node.kubelet_events()[seen:]
            for event in events:
                if event["event"] == "pod-rejected":
                    self.assertTrue(self.may_fail(event, booked), event)
            return wanted <= {e["pod"] for e in events if e["event"] in ("pod-readmitted", "pod-rejected")}

        until(is_back, f"pods {wanted} to go on")

    def phases(self):
        return {p["name"]: p["phase"] for p in self.node.call_kubelet("pods")["pods"]}

    def add_pod(self, source, count=1, init=False):
        self.serial += 1
        name = f"pod-{self.serial}"
        limits = {source.full: count}
        containers = [{"name": "main", "kind": "main", "limits": {} if init else limits}]
        if init:
            containers.insert(0, {"name": "before", "kind": "init", "limits": limits})
        self.pods[name] = init
        self.node.call_kubelet("pod", name=name, namespace="default", containers=containers)
        return name

    def remove_pod(self, name):
        self.node.call_kubelet("pod-rm", name=name, namespace="default")

    def tell_kubelet(self):
        """The last events, without what tells nothing."""
        return [{key: value for key, value in event.items() if key not in ("namespace", "connection", "bytes")}
                for event in self.node.kubelet_events() if event["event"] in (
                    "list", "listening", "pod-admitted", "pod-readmitted", "pod-rejected", "panic", "stream-ended")][-60:]

    # --- steps of chance

    def step_pod(self):
        source = self.choice.choice(self.sources)
        if self.kubelet().get(source.full, {}).get("allocatable", 0) > 0:
            self.add_pod(source, self.choice.choice((1, 1, 2)), self.choice.random() < 0.3)

    def step_remove(self):
        pods = sorted(self.phases())
        if len(pods) > 6 or (pods and self.choice.random() < 0.3):
            self.remove_pod(self.choice.choice(pods))

    def change(self, mode):
        source = self.choice.choice(self.sources)
        source.mode = "plain" if source.mode == mode else mode
        devices = [d["id"].split("#")[0] for d in self.kubelet().get(source.full, {"devices": []})["devices"]]
        source.excluded = self.choice.choice(["*", *devices])
        self.reload()

    def step_exclude(self):
        self.change("exclude")

    def step_match(self):
        self.change("match")

    def step_driver(self):
        self.change("driver")

    def step_share(self):
        self.change("share")

    def step_topology(self):
        self.change("topology")

    def step_claim(self):
        # Not the first: an id that is declared twice is a mistake in the file.
        source = self.choice.choice(self.sources[1:])
        source.claimed = not source.claimed
        self.reload()

    def step_unplug(self):
        source = self.choice.choice(self.sources)
        source.plug(not source.plugged)

    def step_child_kill(self):
        for pid, _ in self.choice.sample(sorted(self.node.processes().items()), 2):
            os.kill(pid, signal.SIGKILL)
        self.await_all()

    def step_daemon_kill(self):
        self.node.stop(signal.SIGKILL)
        self.node.start()
        self.await_all()

    def step_kubelet_restart(self):
        self.restart_kubelet()
        self.await_all()

    def step_reboot(self):
        """/run is empty and all processes are new; disks have what they had."""
        self.node.stop(signal.SIGKILL)
        shutil.rmtree(self.node.run)
        self.node.start()
        self.step_kubelet_restart()

    def sources_of_all_drivers(self):
        sources = [Source("static", 'driver = "static"; match = ( { count = 2; }, { id = "upper"; numa = 1; } );', "")]
        sources[0].plug = lambda plugged: None
        dev = self.node.path("nodes")
        os.mkdir(dev)
        for number in range(3):
            os.mknod(f"{dev}/card{number}", stat.S_IFCHR | 0o666, os.makedev(1, 3))
        sources.append(Source("path", f'driver = "path"; match = "{dev}/card*";', dev))
        folder = self.node.path("exec")
        os.mkdir(folder)
        with open(os.path.join(folder, "find"), "w") as file:
            file.write(EXEC)
        os.chmod(os.path.join(folder, "find"), 0o755)
        sources.append(Source("exec", f'driver = "exec"; match = ( {{ command = "{folder}/find"; interval = 1; }} );',
                              folder))
        texts = {case: text for case, _, text in translations()}
        for name, case in CASES.items():
            folder = self.node.path(f"host-{name}")
            os.mkdir(folder)
            plant(folder, os.path.join(TREES, case + ".tree"))
            for device in glob.glob(f"{folder}/sys/devices/pci*/0*") if name == "nvidia" else ():
                with open(os.path.join(device, "config"), "wb") as file:
                    file.write(bytes(64))
            sources.append(Source(name, f'{first_stanza(texts[case])} host_root = "{folder}";', folder))
        return sources

    def test_P17_random_steps(self):
        print(f"seed {SEED}, {STEPS} steps", end=" ", flush=True)
        self.choice = random.Random(SEED)
        self.sources = self.sources_of_all_drivers()
        self.write()
        self.node.start_kubelet()
        self.node.start()
        self.await_all()
        for source in self.sources:
            until(lambda: self.kubelet()[source.full]["allocatable"] > 0, f"devices of {source.name}")
            pod = self.add_pod(source)
            self.assertEqual(self.phases()[pod], "Running", source.name)
        begin = self.listed()
        self.restart_kubelet()
        steps = [getattr(self, name) for name in sorted(dir(self)) if name.startswith("step_")]
        done = []
        for number in range(STEPS):
            # Pods come as often as all else.
            step = self.choice.choice((self.step_pod, self.step_remove, *steps, *steps))
            done.append(step.__name__)
            try:
                step()
                self.check()
            except (AssertionError, OSError) as error:
                raise AssertionError(f"step {number}, after {done[-12:]}: {error}; "
                                     f"{[(s.name, s.mode, s.claimed, s.plugged) for s in self.sources]}; "
                                     f"booked {self.booked()}; the kubelet's events {self.tell_kubelet()}") from error
        self.step_kubelet_restart()
        # Nothing is listed for ever.
        for source in self.sources:
            source.plug(True)
            source.mode, source.claimed = "plain", False
        for name in self.phases():
            self.remove_pod(name)
        self.reload()
        self.add_pod(self.sources[0])
        until(lambda: self.listed() == begin, lambda: f"all to be listed as before: {begin}; last {self.listed()}", limit=180)


class Kept(NodeTest):
    """A device that a pod has, or is about to get, while the configuration takes it away."""

    def setUp(self):
        super().setUp()
        self.folder = self.node.path("devices")
        self.cdi = self.node.path("cdi")
        os.mkdir(self.folder)
        for number in range(3):
            os.mknod(f"{self.folder}/card{number}", stat.S_IFCHR | 0o666, os.makedev(1, 3))

    def cards(self, name, more=""):
        return f'{{ name = "vendor.example/{name}"; driver = "path"; match = "{self.folder}/card*"; {more} }}'

    def configure(self, *stanzas):
        self.node.configure(*stanzas, text=f'cdi_dir = "{self.cdi}";', kubelet=
                            f'pod_resources_socket = "{self.node.kubelet_state}/pod-resources/kubelet.sock"; '
                            "pod_resources_interval = 1;")

    def listed(self, name):
        """{card0: health}, as the kubelet has them"""
        return {d["id"].split(":")[-1]: d["health"]
                for d in self.node.node_resources().get(f"vendor.example/{name}", {"devices": []})["devices"]}

    def start(self, *stanzas, **counts):
        self.configure(*stanzas)
        self.node.start_kubelet()
        self.node.start()
        self.node.await_allocatable(**counts)

    def take(self, name):
        given, _ = self.node.pod("holder", **{name: 1})
        return given["resources"][f"vendor.example/{name}"][0].split(":")[-1]

    def let_go(self, **limits):
        """The kubelet forgets what a pod had at the next admission."""
        self.node.ask_kubelet("pod", "rm", "holder")
        self.node.pod("next", **limits)

    def described(self):
        try:
            with open(os.path.join(self.cdi, "devplugd-vendor.example=card.json")) as file:
                return {device["name"].split(":")[-1] for device in json.load(file)["devices"]}
        except FileNotFoundError:
            return set()

    def test_P17_running_allocation(self):
        """A reload while a program is asked what a container gets."""
        for name, text in (("find", EXEC), ("allocate", "#!/bin/sh\ncd $(dirname \"$0\")\ntouch started\n"
                                            "until [ -e go ]; do sleep 0.1; done\necho '{\"version\": 1}'\n")):
            with open(os.path.join(self.folder, name), "w") as file:
                file.write(text)
            os.chmod(os.path.join(self.folder, name), 0o755)
        os.chmod(self.folder, 0o777)
        stanza = (f'{{ name = "vendor.example/e"; driver = "exec"; match = ( {{ command = "{self.folder}/find"; '
                  f'allocate = "{self.folder}/allocate"; allocate_timeout = 10; }} ); %s }}')
        self.start(stanza % "", e=3)
        with concurrent.futures.ThreadPoolExecutor(1) as pool:
            pod = pool.submit(self.node.pod, "holder", e=1)
            until(lambda: os.path.exists(os.path.join(self.folder, "started")), "the program to run")
            self.configure(stanza % 'exclude = "*";')
            self.node.reload()
            until(lambda: len(self.listed("e")) < 3, "the others to leave the list")
            listed = self.listed("e")
            with open(os.path.join(self.folder, "go"), "w"):
                pass
            given, refused = pod.result()
        if refused and "did not exit within" in refused["message"]:
            self.skipTest("this machine needs more than 10 s for a reload")
        self.assertEqual(listed, {name: "Unhealthy" for name in given["resources"]["vendor.example/e"]})
        self.assertEqual(self.listed("e"), listed)
        # Programs may not have answered yet when the first list is sent.
        counts = [e["devices"] for e in self.node.kubelet_events() if e["event"] == "list"]
        self.assertEqual(counts[counts.index(3):], [3, 1])

    def test_P17_clock_that_was_set_back(self):
        """A checkpoint from before seems to be from the future: it does not know the latest pod."""
        self.node.configure(self.cards("a"), kubelet="pod_resources = false;")
        self.node.start_kubelet()
        self.node.start()
        self.node.await_allocatable(a=3)
        file = os.path.join(self.node.plugins, "kubelet_internal_checkpoint")
        ids = []
        for pod in ("first", "latest"):
            if pod == "latest":
                shutil.copy(file, file + ".before")
            ids += self.node.pod(pod, a=1)[0]["resources"]["vendor.example/a"]
        allocated = time.monotonic()
        # The kubelet may write the booking so long after the answer to Allocate.
        until(lambda: time.monotonic() > allocated + 0.3, "the booking to be late")
        # It would write the checkpoint again.
        self.node.kubelet.send_signal(signal.SIGSTOP)
        later = time.time() + 3600
        os.utime(file + ".before", (later, later))
        os.rename(file + ".before", file)
        self.node.configure(self.cards("a", 'exclude = "*";'), kubelet="pod_resources = false;")
        self.node.reload()
        # The second time, what the first one changed is in force.
        self.node.reload()
        until(lambda: len(self.shown()) < 3, "the other to leave the list")
        self.assertEqual(self.shown(), set(ids))

    def shown(self):
        return {device["id"] for device in self.node.resource("vendor.example/a")["devices"]}

    def test_P17_description_of_an_excluded_device(self):
        """The container of the pod may be started again, and the runtime needs the file then."""
        kind = 'cdi_spec = { kind = "vendor.example/card"; };'
        self.start(self.cards("a", kind), a=3)
        held = self.take("a")
        free = {"card0", "card1", "card2"} - {held}
        self.configure(self.cards("a", f'{kind} exclude = "*{held}";'))
        self.node.reload()
        until(lambda: self.listed("a") == {held: "Unhealthy"} | {name: "Healthy" for name in free}, "the new list")
        self.assertEqual(self.described(), {held} | free)
        self.node.stop(signal.SIGKILL)
        self.node.start()
        self.node.await_allocatable(a=2)
        self.assertEqual(self.described(), {held} | free)
        self.configure(self.cards("a", f'{kind} exclude = "*";'))
        self.node.reload()
        until(lambda: self.described() == {held}, "the description of what the pod has")
        self.configure(self.cards("a", f'{kind} exclude = "*{held}";'))
        self.node.reload()
        self.node.await_allocatable(a=2)
        self.let_go(a=1)
        until(lambda: self.described() == free, "the description of the free device to go")

    def check_move(self, *stanzas):
        """Another resource gets a device of a pod when the pod has ended, also over a restart."""
        self.start(self.cards("a"), a=3)
        held = self.take("a")
        free = {name: "Healthy" for name in {"card0", "card1", "card2"} - {held}}
        self.configure(*(stanza.replace("HELD", held) for stanza in stanzas))
        self.node.reload()
        until(lambda: (self.listed("a"), self.listed("b")) == ({held: "Unhealthy"}, free), "the free devices to move")
        self.node.stop(signal.SIGKILL)
        self.node.start()
        self.node.await_serving()
        # A resource waits for another one, but not for ever.
        until(lambda: (self.listed("a"), self.listed("b")) == ({held: "Unhealthy"}, free), "the same after a restart")
        reasons = {d["id"].split(":")[-1]: d["reason"] for d in self.node.resource("vendor.example/b")["devices"]}
        self.assertRegex(reasons[held], "^claimed by vendor.example/a")
        self.let_go(b=1)
        self.node.await_allocatable(a=0, b=3)
        until(lambda: self.listed("a") == {}, "the device to leave the list of its former resource")

    def test_P17_claimed_by_another_resource(self):
        self.check_move(self.cards("b"), self.cards("a"))

    def test_P17_excluded_for_another_resource(self):
        self.check_move(self.cards("a", 'exclude = "*";'), self.cards("b"))

    def test_P17_process_restarts_after_the_pod(self):
        """What the last process had allocated does not count again."""
        self.start(self.cards("a"), static("x", 1), a=3, x=1)
        self.take("a")
        self.node.ask_kubelet("pod", "rm", "holder")
        allocated = time.time()

        def write_checkpoint():
            self.node.pod("next", x=1)
            self.node.ask_kubelet("pod", "rm", "next")
            return os.stat(os.path.join(self.node.plugins, "kubelet_internal_checkpoint")).st_mtime > allocated + 0.5

        until(write_checkpoint, "a checkpoint that is certain to have all of the allocations before")
        pid = next(pid for pid, name in self.node.processes().items() if name == "vendor.example/a")
        os.kill(pid, signal.SIGKILL)
        until(lambda: self.node.find("vendor.example/a")["restarts"] == 1, "the next process")
        self.node.await_serving()
        self.configure(self.cards("b"), self.cards("a"), static("x", 1))
        self.node.reload()
        self.node.await_allocatable(a=0, b=3)
        until(lambda: self.listed("a") == {}, "the devices to leave the list of their former resource")

    def test_P17_pod_ends_while_the_process_restarts(self):
        """Then the next process of its resource is sent no bookings, and the device moves all the same."""
        self.start(self.cards("a"), a=3)
        held = self.take("a")
        free = {name: "Healthy" for name in {"card0", "card1", "card2"} - {held}}
        self.configure(self.cards("b"), self.cards("a"))
        self.node.reload()
        until(lambda: (self.listed("a"), self.listed("b")) == ({held: "Unhealthy"}, free), "the free devices to move")
        pid = next(pid for pid, name in self.node.processes().items() if name == "vendor.example/a")
        self.node.daemon.send_signal(signal.SIGSTOP)
        os.kill(pid, signal.SIGKILL)
        self.let_go(b=1)
        self.node.daemon.send_signal(signal.SIGCONT)
        self.node.await_allocatable(a=0, b=3)


class Readmission(NodeTest):
    """A kubelet that is restarted fails a pod whose finished init container has a device that is not healthy."""

    def setUp(self):
        super().setUp()
        self.node.configure(static("a", 3), kubelet=f'pod_resources_socket = "{self.node.kubelet_state}/pod-resources/kubelet.sock";')
        self.node.start_kubelet()
        self.node.start()
        self.node.await_allocatable(a=3)
        self.node.call_kubelet("pod", name="p", namespace="default", containers=[
            {"name": "before", "kind": "init", "limits": {"vendor.example/a": 1}},
            {"name": "main", "kind": "main", "limits": {}}])
        self.device = next(iter(self.booked()))
        self.ctl("cordon", self.device)
        self.node.await_allocatable(a=2)

    def ctl(self, *words):
        subprocess.run([program("devplugctl"), "-c", self.node.config, *words], check=True, stdout=subprocess.PIPE)

    def checkpoint(self):
        return os.path.join(self.node.plugins, "kubelet_internal_checkpoint")

    def booked(self):
        with open(self.checkpoint()) as file:
            entries = json.load(file)["Data"]["PodDeviceEntries"]
        return {device for entry in entries for devices in entry["DeviceIDs"].values() for device in devices}

    def listed(self):
        return {d["id"]: d["health"] for d in self.node.node_resources()["vendor.example/a"]["devices"]}

    def restart_kubelet(self):
        """Returns what becomes of the pod."""
        count = len(self.node.kubelet_events())
        self.node.stop_kubelet()
        self.before_kubelet()
        self.node.start_kubelet()
        return until(lambda: next((e["event"] for e in self.node.kubelet_events()[count:]
                                   if e["event"] in ("pod-readmitted", "pod-rejected")), None), "the pod to be judged")

    def before_kubelet(self):
        pass

    def restart_host(self):
        """devplugd starts again, too, and finds a checkpoint from before the host's start."""
        self.assertEqual(self.node.stop(), 0)
        os.utime(self.checkpoint(), (1, 1))
        self.node.start()

    def truth(self):
        """What people are shown."""
        answer = subprocess.run([program("devplugctl"), "-c", self.node.config, "devices", "--json"], check=True,
                                stdout=subprocess.PIPE)
        devices = json.loads(answer.stdout)["resources"][0]["devices"]
        return {d["id"]: d["health"] for d in devices}[self.device]

    def test_P20_failed_device_of_a_finished_init_container(self):
        self.assertEqual(self.restart_kubelet(), "pod-readmitted")
        # Only the kubelet is told so, and only about what is in use.
        self.assertEqual(self.listed()[self.device], "Healthy")
        self.assertEqual(self.truth(), "Unhealthy")
        free = next(device for device in self.listed() if device != self.device)
        self.ctl("cordon", free)
        until(lambda: self.listed()[free] == "Unhealthy", "the free device to be reported")
        self.assertEqual(self.listed()[self.device], "Healthy")
        # A process that replaces that of the resource knows it, too.
        os.kill(self.node.find("vendor.example/a")["pid"], signal.SIGKILL)
        until(lambda: self.node.find("vendor.example/a")["restarts"] == 1, "the new process")
        self.node.await_serving()
        self.node.await_allocatable(a=2)
        self.assertEqual((self.listed()[free], self.listed()[self.device]), ("Unhealthy", "Healthy"))
        # With the pod it ends, as soon as the kubelet writes that it is gone. Before, the kubelet may choose the device for
        # another pod, which is refused, and the device is not chosen again.
        self.node.ask_kubelet("pod", "rm", "p")
        given, refused = self.node.pod("both", a=2)
        self.assertIsNone(given)
        self.assertIn("is unhealthy: cordoned", refused["message"])
        until(lambda: self.listed()[self.device] == "Unhealthy", "the truth after the refusal")
        given, _ = self.node.pod("next", a=1)
        self.assertNotIn(self.device, given["resources"]["vendor.example/a"])
        self.assertNotIn(self.device, self.booked())

    def test_P20_failed_device_of_a_pod_that_ends(self):
        self.assertEqual(self.restart_kubelet(), "pod-readmitted")
        self.node.ask_kubelet("pod", "rm", "p")
        # The device is named last, so that no pod that needs fewer is refused.
        for name in "next", "more":
            given, refused = self.node.pod(name, a=1)
            self.assertIsNone(refused)
            self.assertNotIn(self.device, given["resources"]["vendor.example/a"])
        until(lambda: self.listed()[self.device] == "Unhealthy", "the truth after the pod")

    def test_P20_failed_device_after_two_minutes(self):
        begun = time.monotonic()
        self.assertEqual(self.restart_kubelet(), "pod-readmitted")
        until(lambda: self.listed()[self.device] == "Unhealthy", "the truth after two minutes", limit=180)
        self.assertGreater(time.monotonic() - begun, 100)
        # What the kubelet offers meanwhile is what is listed.
        self.assertNotIn("the kubelet offers", self.node.output())

    def test_P20_failed_device_after_a_boot(self):
        """The checkpoint is older than the host's start: the first kubelet gets the truth, and pods start again anyway."""
        self.before_kubelet = self.restart_host
        self.assertEqual(self.restart_kubelet(), "pod-rejected")
        self.assertEqual(self.listed()[self.device], "Unhealthy")


class Warnings(NodeTest):
    """What a person is told before and after a change that takes devices from pods, and what can be done."""

    UNITS = '{ name = "vendor.example/a"; driver = "static"; match = ( { count = 3; numa = 0; } ); %s }'

    def configure(self, more="", *others):
        self.node.configure(self.UNITS % more, *others,
                            kubelet=f'pod_resources_socket = "{self.node.kubelet_state}/pod-resources/kubelet.sock";')

    def run_daemon(self, option):
        return subprocess.run([program("devplugd"), "-c", self.node.config, option], capture_output=True, text=True)

    def ctl(self, *words):
        return subprocess.run([program("devplugctl"), "-c", self.node.config, *words], capture_output=True, text=True)

    def listed(self):
        return {d["id"]: d["health"] for d in self.node.node_resources()["vendor.example/a"]["devices"]}

    def test_change_and_forget(self):
        other = '{ name = "vendor.example/b"; driver = "static"; match = ( { count = 1; } ); }'
        self.configure("", other)
        self.node.start_kubelet("--topology-policy", "restricted")
        self.node.start()
        self.node.await_allocatable(a=3, b=1)
        given, _ = self.node.pod("holder", a=1)
        held = given["resources"]["vendor.example/a"][0]
        self.node.pod("other", b=1)
        self.configure("", other)
        self.assertEqual(self.run_daemon("--diff").stderr, "")
        self.configure(f'exclude = "{held}";', other)
        answer = self.run_daemon("--diff")
        self.assertEqual(answer.returncode, 0, answer.stderr)
        self.assertRegex(answer.stderr, f"^warning: 1 pod holds devices that this change removes: {held} of "
                                        r"vendor.example/a \(pod default/holder, container main\)\n$")
        self.configure(f'exclude = "{held}";')
        self.assertRegex(self.run_daemon("--diff").stderr, "^warning: 2 pods hold devices that this change removes: .*"
                         r"default/holder.*default/other")
        self.configure(f'exclude = "{held}";', other)
        answer = self.ctl("reload")
        self.assertEqual(answer.returncode, 0, answer.stderr)
        self.assertIn("warning: 1 pod holds", answer.stderr)
        self.assertIn("default/holder", answer.stderr)
        until(lambda: self.listed().get(held) == "Unhealthy", "the device to be listed as unhealthy")
        until(lambda: "excluded by the configuration, but assigned to a pod" in self.ctl("devices").stdout, "the reason")

        for wrong in (held, "vendor.example/a", "vendor.example/a/"):
            self.assertEqual(self.ctl("forget", wrong).returncode, 1, wrong)
        self.assertIn("has no resource", self.ctl("forget", "vendor.example/none/x").stderr)
        for nothing in ("none", "*"):
            answer = self.ctl("forget", f"vendor.example/a/{nothing}")
            self.assertEqual((answer.returncode, answer.stdout), (1, ""))
            self.assertIn(f'neither the kubelet\'s data nor a claim assigns "{nothing}" of vendor.example/a', answer.stderr)
        answer = self.ctl("forget", f"vendor.example/a/{held}")
        self.assertEqual((answer.returncode, answer.stdout),
                         (0, f"{held} of vendor.example/a counts as not assigned to a pod\n"))
        until(lambda: held not in self.listed(), "the device to leave the list")
        # Nothing has changed about it, whatever else the kubelet writes.
        self.node.pod("more", a=1)
        self.node.ask_kubelet("pod", "rm", "holder")
        self.node.pod("another", a=1)
        self.assertNotIn(held, self.listed())

    def test_P17_checkpoint_that_cannot_be_read(self):
        """It is read again, although the kubelet does not write it again."""
        fault = self.node.environment["DEVPLUGD_FAIL_OPEN"] = self.node.path("fail-open")
        self.node.inject("")
        self.node.configure(static("a", 3), kubelet="pod_resources = false;")
        self.node.start_kubelet()
        self.node.start()
        self.node.await_allocatable(a=3)
        given, _ = self.node.pod("holder", a=1)
        held = given["resources"]["vendor.example/a"][0]
        self.node.configure(static("a", 3, f'exclude = "{held}";'), kubelet="pod_resources = false;")
        self.node.reload()
        until(lambda: self.listed().get(held) == "Unhealthy", "the device to be excluded")
        with open(fault, "w") as file:
            file.write("/kubelet_internal_checkpoint")
        self.node.ask_kubelet("pod", "rm", "holder")
        # The kubelet writes the end of the pod when it admits the next one.
        self.node.pod("next", a=1)
        until(lambda: "kubelet_internal_checkpoint: Too many open files; devplugd uses what it has read last" in self.node.output(),
              "the failure")
        self.assertIn(held, self.listed())
        os.unlink(fault)
        until(lambda: held not in self.listed(), "the device to leave the list")

    def test_what_cannot_be_asked(self):
        """A driver whose programs are not run for a warning; a pod that PodResources does not have."""
        folder = self.node.path("exec")
        os.mkdir(folder)
        with open(os.path.join(folder, "find"), "w") as file:
            file.write(EXEC)
        os.chmod(os.path.join(folder, "find"), 0o755)
        stanza = f'{{ name = "vendor.example/e"; driver = "exec"; match = ( {{ command = "{folder}/find"; }} ); %s }}'
        self.node.configure(stanza % "")
        self.node.start_kubelet()
        self.node.start()
        self.node.await_allocatable(e=3)
        self.node.call_kubelet("pod", name="p", namespace="default", containers=[
            {"name": "before", "kind": "init", "limits": {"vendor.example/e": 3}},
            {"name": "main", "kind": "main", "limits": {}}])
        for more, removed in (("share = { replicas = 2; };", ("e0", "e1", "e2")), ('exclude = "e1";', ("e1",)),
                              ('prefer = "numa";', ())):
            self.node.configure(stanza % more)
            text = self.run_daemon("--diff").stderr
            named = re.findall(r"(e\d) of vendor.example/e \(pod [0-9a-f-]{36}, container before\)", text)
            self.assertEqual(sorted(named), list(removed), text)

    def test_many_ids(self):
        self.configure("share = { replicas = 3334; };")
        answer = self.run_daemon("--check")
        self.assertEqual(answer.returncode, 0)
        self.assertEqual(answer.stderr, "warning: the resources offer 10002 ids on this host. After a restart, the kubelet "
                                        "is busy for about 1.0 s if 1000 of them are in use, and for 10.0 s if all "
                                        "are; lower share.replicas or match fewer devices\n")
        self.configure("share = { replicas = 3333; };")
        self.assertEqual(self.run_daemon("--check").stderr, "")


if __name__ == "__main__":
    unittest.main()
