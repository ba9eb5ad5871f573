# SPDX-License-Identifier: Apache-2.0
"""A device that is unplugged and plugged in again while a pod has it: it returns under its id, files lead to its new node, and with
missing.on_return = "evict", its pod is evicted, because a running container keeps the old node.

docs/contributing/complaints.md: none.
"""
import json
import os
import signal
import stat
import unittest

from cleaning_node import CleaningProgram
from dra_node import DRIVER, DraTest
from eviction_node import GPU, EvictionTest
from host_tree import HostTree
from node import make_node, path, until
from test_eviction import EvictionByTaint
from tool import ToolTest

WAITS = "it was disconnected while a pod had it, and is offered again when that pod has ended"
HUB = "pci0000:00/0000:00:14.0/usb1"


class Cards:
    """Device nodes of a resource."""

    def add_cards(self, count):
        for number in range(count):
            self.plug(f"card{number}")

    def plug(self, device):
        make_node(self.node.path(f"dev/{device.split(':')[-1]}"))

    def unplug(self, device):
        os.unlink(self.node.path(f"dev/{device.split(':')[-1]}"))

    def cards(self, more, after=0):
        return path("gpu", self.node.path("dev/card*"), f"missing = {{ {more} evict_after = {after}; }};")

    def await_health(self, device, health, words=""):
        until(lambda: (found := self.health("gpu").get(device)) and found[0] == health and words in (found[1] or ""),
              f"{device} to be {health} {words}: {self.health('gpu')}")


class ReturnedDevices(Cards, EvictionTest):
    def replug(self, device):
        self.unplug(device)
        self.await_health(device, "Unhealthy", "has disappeared")
        self.plug(device)

    def configure(self, *resources, text=""):
        """With the logs of pods, by which their end is known."""
        self.node.configure(
            *resources, text=f'dra = {{ kubeconfig = "{self.kubeconfig}"; node = "node-a"; }}; {text}',
            kubelet=f'pod_resources_socket = "{self.node.kubelet_state}/pod-resources/kubelet.sock"; '
                    f'pod_resources_interval = 1; {self.logs}')

    def begin_cards(self, count=4, on_return='on_return = "evict";', logs=True, after=0, settled=True):
        self.logs = f'pod_logs_dir = "{self.node.kubelet_state}/pod-logs";' if logs else f'pod_logs_dir = "{self.node.path("none")}";'
        self.add_cards(count)
        self.begin(self.cards(on_return, after), count=count, settled=settled)

    def test_pod_is_evicted(self):
        self.begin_cards()
        device, other = self.run_pod("a"), self.run_pod("b")
        self.replug(device)
        self.await_health(device, "Unhealthy", WAITS)
        self.await_pod(device, "a", "waiting", "the Node still shows 4 allocatable")
        self.show_allocatable(3)
        self.await_pod(device, "a", "evicted")
        self.end_pod("a")
        self.await_health(device, "Healthy")
        self.assertEqual(self.failures(), {})
        # The next pod has the device as it is.
        given, refused = self.node.pod("c", gpu=3)
        self.assertIsNone(refused)
        self.assertIn(device, given["resources"][GPU])
        self.assertEqual(self.health("gpu")[device][0], "Healthy")
        self.assertEqual(self.evictions(), ["a"])
        self.assertFalse(self.is_ending("b"))
        self.assertEqual(self.health("gpu")[other][0], "Healthy")

    def test_not_by_default(self):
        """Nor while it is missing."""
        for keys, failures in (("", 0), ('severity = "evict";', 1)):
            with self.subTest(keys):
                self.tearDown()
                self.setUp()
                self.begin_cards(on_return=keys, after=3600, settled=bool(keys))
                device = self.run_pod("a")
                self.unplug(device)
                self.await_health(device, "Unhealthy", "has disappeared")
                until(lambda: len(self.failures()) == failures, "the failure")
                self.plug(device)
                self.await_health(device, "Healthy")
                until(lambda: not self.failures(), "the recovery")
                self.assertEqual(self.evictions(), [])

    def test_missing_device_evicts_nothing(self):
        self.begin_cards()
        device = self.run_pod("a")
        self.unplug(device)
        self.await_health(device, "Unhealthy", "has disappeared")
        self.kill_daemon()
        self.await_health(device, "Unhealthy", "not found with the applied configuration, but assigned to a pod")
        self.assertEqual(self.failures(), {})
        # It is known, also to a devplugd that was started while the device was missing.
        self.plug(device)
        self.await_health(device, "Unhealthy", WAITS)
        self.kill_daemon()
        self.await_health(device, "Unhealthy", WAITS)
        self.show_allocatable(3)
        self.await_pod(device, "a", "evicted")

    def test_only_device(self):
        """Nothing but the end of the pod has the kubelet write its checkpoint."""
        for logs in True, False:
            with self.subTest(logs=logs):
                self.tearDown()
                self.setUp()
                self.begin_cards(count=1, logs=logs)
                device = self.run_pod("a")
                self.replug(device)
                self.await_state(device, "held", "many")
                self.assertEqual(self.ctl("evict", GPU).returncode, 0)
                self.show_allocatable(0)
                self.await_pod(device, "a", "evicted")
                self.end_pod("a")
                self.await_health(device, "Healthy")

    def test_free_device(self):
        self.begin_cards()
        device = self.run_pod("a")
        free = next(name for name in self.health("gpu") if name != device)
        self.unplug(free)
        until(lambda: free not in self.health("gpu"), "it to leave the list")
        self.plug(free)
        self.await_health(free, "Healthy")
        self.assertEqual(self.failures(), {})


# Switches the device off when there is a file "off", until there is a file "on".
SWITCH = """#!/bin/sh
echo begin >>%(folder)s/log
until [ -e %(folder)s/off ]; do sleep 0.05; done
mv $1 %(folder)s/away || exit 1
until [ -e %(folder)s/on ]; do sleep 0.05; done
mv %(folder)s/away $1
echo cleaned >>%(folder)s/log
"""


class DeviceThatCleaningSwitchesOff(CleaningProgram, Cards, EvictionTest):
    """No pod loses it, although the kubelet's checkpoint books it until another pod is admitted."""

    def setUp(self):
        super().setUp()
        self.add_program()
        self.add_cards(2)
        os.chmod(self.node.path("dev"), 0o777)
        with open(self.program, "w") as stream:
            stream.write(SWITCH % {"folder": self.folder})

    def plug(self, device):
        """With the number of /dev/full, which no process of the host has open."""
        os.makedirs(self.node.path("dev"), exist_ok=True)
        os.mknod(self.node.path(f"dev/{device}"), stat.S_IFCHR | 0o666, os.makedev(1, 7))

    def configure(self, *resources, text=""):
        """Without the logs of pods, whose removal would show that a pod has ended."""
        socket = os.path.join(self.node.kubelet_state, "pod-resources/kubelet.sock")
        self.node.configure(*resources, text=f'dra = {{ kubeconfig = "{self.kubeconfig}"; node = "node-a"; }}; {text}',
                            kubelet=f'pod_resources_socket = "{socket}"; pod_resources_interval = 1; '
                                    f'pod_logs_dir = "{self.node.path("none")}";')

    def seen(self):
        with open(self.node.path("state/dirty-devices.json")) as file:
            return any(device["seen"] for device in json.load(file)["devices"])

    def begin_cleaning(self):
        """The kubelet hangs before the device is off, so it keeps its checkpoint. Returns the device."""
        self.begin(path("gpu", self.node.path("dev/card*"),
                        f'missing = {{ severity = "evict"; on_return = "evict"; evict_after = 0; }}; '
                        f'release = {{ command = ( "{self.program}", "${{node}}" ); timeout = 20; }};'), count=2)
        device = self.run_pod("a")
        until(self.seen, "PodResources to name the pod")
        self.end_pod("a")
        until(lambda: self.log() == ["begin"], "the program to run")
        self.node.kubelet.send_signal(signal.SIGSTOP)
        self.mark("off")
        self.await_health(device, "Unhealthy", "has disappeared")
        return device

    def check_return(self, device):
        self.mark("on")
        self.await_health(device, "Healthy")
        until(lambda: "cleaned" in self.log(), "the device to be cleaned")
        with open(os.path.join(self.node.plugins, "kubelet_internal_checkpoint")) as file:
            self.assertIn(device, file.read())
        self.await_health(device, "Healthy")
        self.assertEqual(self.failures(), {})
        self.assertNotIn(WAITS, self.node.output())
        self.assertNotIn("evict", self.node.output())
        self.node.kubelet.send_signal(signal.SIGCONT)

    def test_return(self):
        self.check_return(self.begin_cleaning())

    def test_return_after_a_restart(self):
        device = self.begin_cleaning()
        self.node.stop(signal.SIGKILL)
        self.node.start()
        self.await_health(device, "Unhealthy", "not found with the applied configuration")
        os.rename(os.path.join(self.folder, "away"), self.node.path("dev/" + device.split(":")[-1]))
        self.check_return(device)


class ReturnedToClaim(Cards, DraTest):
    """With DRA, the device has a taint until its claim is unprepared."""

    add_pod, write, failures, pod_state = (getattr(EvictionByTaint, name) for name in ("add_pod", "write", "failures", "pod_state"))
    claim, taints, GPUS = EvictionByTaint.claim, EvictionByTaint.taints, GPU

    def test_taint(self):
        self.add_cards(3)
        self.serve_api()
        self.begin(self.cards('on_return = "evict";').replace("};", '}; serve = "dra";', 1))
        self.await_pool(lambda pool: len(pool) == 3)
        device = sorted(self.health("gpu"))[0]
        self.claim("1", device)
        self.unplug(device)
        missing = f"{DRIVER}/missing"
        until(lambda: self.taints(device) == [(missing, "NoSchedule")], "the taint")
        self.plug(device)
        self.await_health(device, "Unhealthy", WAITS)
        until(lambda: self.failures().get(device, {}).get("state") == "held", "the hold")
        self.assertEqual(self.ctl("evict", GPU).returncode, 0)
        until(lambda: self.taints(device) == [(missing, "NoExecute")], "the eviction")
        claim = self.api.claims["default", "claim-1"]["metadata"]
        self.assertEqual(self.unprepare(("default", "claim-1", claim["uid"])), {claim["uid"]: ""})
        until(lambda: self.taints(device) == [], "the end")
        self.await_health(device, "Healthy")


class ChangedNodes(ToolTest):
    """Devices that were never disconnected. CDI names give containers that start again what the devices have then."""

    def give(self, name, **more):
        """The one device of the program's resource, and what a container gets with it, are these from now on."""
        path = self.node.path("devices.json")
        with open(path + ".new", "w") as file:
            json.dump({"version": 1, "devices": [{"id": name, **more}]}, file)
        os.rename(path + ".new", path)

    def begin_pod(self, driver):
        self.serve(f'{{ name = "vendor.example/gpu"; {driver} cdi_spec = {{ kind = "vendor.example/gpu"; }}; '
                   f'missing = {{ on_return = "evict"; }}; host_root = "{self.node.path("host")}"; }}',
                   text=f'cdi_dir = "{self.node.path("cdi")}";')
        self.node.await_allocatable(gpu=1)
        given, refused = self.node.pod("a", gpu=1)
        self.assertIsNone(refused)
        return given["resources"]["vendor.example/gpu"][0]

    def await_edits(self, text, there=True):
        """What a container gets that starts now."""
        until(lambda: (text in str(self.edits())) == there, lambda: f"{text} in {self.edits()}: {there}")

    def edits(self):
        for name in os.listdir(self.node.path("cdi")):
            if name.startswith("devplugd-"):
                with open(os.path.join(self.node.path("cdi"), name)) as file:
                    return [device["containerEdits"] for device in json.load(file)["devices"]]
        return None

    def test_only_the_own_nodes_of_a_device_count(self):
        for name in "card0", "card1", "control":
            make_node(self.node.path(f"host/dev/{name}"))
        for version in 1, 2:
            os.makedirs(self.node.path(f"host/lib.so.{version}"))
        program = self.node.path("program")
        with open(program, "w") as file:
            file.write(f"#!/bin/sh\ncat {self.node.path('devices.json')}\n")
        os.chmod(program, 0o755)
        control = {"host": "/dev/control", "optional": True}
        self.give("a", nodes=[{"host": "/dev/card0"}, control], mounts=[{"host": "/lib.so.1"}])
        device = self.begin_pod(f'driver = "exec"; match = ( {{ command = "{program}"; interval = 1; }} );')
        # The health of the first change is known when the second one is published.
        self.give("a", nodes=[{"host": "/dev/card0"}], mounts=[{"host": "/lib.so.2"}])
        self.await_edits("lib.so.2")
        self.give("a", nodes=[{"host": "/dev/card0"}, control])
        self.await_edits("control")
        self.assertEqual(self.health("gpu")[device], ("Healthy", ""))
        self.give("a", nodes=[{"host": "/dev/card1"}, control])
        until(lambda: self.health("gpu")[device] == ("Unhealthy", WAITS), lambda: f"the pod to be waited for: {self.health('gpu')}")

    def test_a_node_that_other_devices_have_too(self):
        """All GPUs as one device, of which one is removed."""
        host = HostTree(self.node.path("host"))
        for number in 0, 1:
            gpu, name = f"pci0000:00/0000:0{number + 3}:00.0", f"renderD{number + 128}"
            host.device(gpu, "bus/pci", vendor="0x1002", device="0x74a1", **{"class": "0x038000"})
            host.bind(gpu, "amdgpu")
            make_node(host.path(f"dev/dri/{name}"))
            host.device(f"{gpu}/drm/{name}", "class/drm", f"MAJOR=226\nMINOR={number + 128}\nDEVNAME=dri/{name}", dev=f"226:{number + 128}")
            host.link(f"sys/devices/{gpu}/drm/{name}/device", f"sys/devices/{gpu}")
        device = self.begin_pod('driver = "drm"; match = ( { vendor = 0x1002; combine = true; } );')
        link, target = host.path("sys/class/drm/renderD128"), os.readlink(host.path("sys/class/drm/renderD128"))
        os.unlink(link)
        self.await_edits("renderD128", there=False)
        os.symlink(target, link)
        self.await_edits("renderD128")
        self.assertEqual(self.health("gpu")[device], ("Healthy", ""))


class UsbDevices(ToolTest):
    """A USB device has another number each time it is plugged in."""

    def setUp(self):
        super().setUp()
        self.host = HostTree(self.node.path("host"))
        self.host.device("pci0000:00/0000:00:14.0", "bus/pci", vendor="0x8086", device="0xa36d", **{"class": "0x0c0330"})
        self.host.device(HUB, "bus/usb")
        self.cdi = self.node.path("cdi")

    def make_node(self, number):
        name = f"bus/usb/001/{number:03}"
        make_node(self.host.path(f"dev/{name}"))
        return f"MAJOR=189\nMINOR={number - 1}\nDEVNAME={name}\nDEVTYPE=usb_device"

    def plug(self, number):
        self.host.device(f"{HUB}/1-4", "bus/usb", self.make_node(number), idVendor="1d50", idProduct="6089",
                         bDeviceClass="00", busnum="1", devnum=str(number), serial="7")

    def unplug(self, number):
        os.unlink(self.host.path("sys/bus/usb/devices/1-4"))
        for name in os.listdir(self.host.path(f"sys/devices/{HUB}/1-4")):
            os.unlink(self.host.path(f"sys/devices/{HUB}/1-4/{name}"))
        os.rmdir(self.host.path(f"sys/devices/{HUB}/1-4"))
        os.unlink(self.host.path(f"dev/bus/usb/001/{number:03}"))

    def nodes(self):
        """The nodes in the CDI file of the resource."""
        for name in os.listdir(self.cdi):
            if name.startswith("devplugd-"):
                with open(os.path.join(self.cdi, name)) as file:
                    return [node["path"] for device in json.load(file)["devices"] for node in device["containerEdits"]["deviceNodes"]]
        return None

    def begin_pod(self, more):
        """Returns the device that it has."""
        self.plug(4)
        self.serve('{ name = "vendor.example/radio"; driver = "usb"; match = ( { vendor = 0x1d50; nodes = "usb"; } ); '
                   f'cdi_spec = {{ kind = "vendor.example/radio"; }}; {more} }}',
                   text=f'host_root = "{self.host.root}"; cdi_dir = "{self.cdi}";')
        self.node.await_allocatable(radio=1)
        given, refused = self.node.pod("a", radio=1)
        self.assertIsNone(refused)
        return given["resources"]["vendor.example/radio"][0]

    def test_other_node_at_once(self):
        """It was not seen to be missing, but its pod has the old node."""
        device = self.begin_pod('missing = { on_return = "evict"; };')
        self.host.file(f"sys/devices/{HUB}/1-4/uevent", self.make_node(5))
        os.unlink(self.host.path("dev/bus/usb/001/004"))
        until(lambda: self.health("radio")[device] == ("Unhealthy", WAITS), lambda: f"the pod to be waited for: {self.health('radio')}")

    def test_same_id_and_new_node(self):
        device = self.begin_pod("")
        for number in (5, 6):
            self.assertEqual(self.nodes(), [f"/dev/bus/usb/001/{number - 1:03}"])
            self.unplug(number - 1)
            until(lambda: self.health("radio")[device][0] == "Unhealthy", "it to be missing")
            self.plug(number)
            until(lambda: self.health("radio")[device][0] == "Healthy", f"{device} to return")
            until(lambda: self.nodes() == [f"/dev/bus/usb/001/{number:03}"], "the file to follow")
        # A container that starts again gets the name, which leads to the new node.
        self.assertEqual(self.node.ask_kubelet("pod", "restart", "a").returncode, 0)


if __name__ == "__main__":
    unittest.main()
