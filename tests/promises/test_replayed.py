# SPDX-License-Identifier: Apache-2.0
"""P21: whatever a pod still holds leads to the device whose id it holds, or that device is unhealthy with the reason, from the
first list after a start. The kubelet stores Allocate's answer and replays it to a container that starts again.
"""
import json
import os
import shutil
import signal
import stat
import subprocess
import unittest

from node import NodeTest, program, until
from vfio_host import VfioHost

PROGRAM = "#!/bin/sh\ncat {}\n"


class Replayed(NodeTest):
    def setUp(self):
        super().setUp()
        self.node.kubelet_options = ["--topology-policy", "none"]
        self.resources = {}
        self.interval = 1

    # --- the host

    def plug(self, resource="a", **nodes):
        """The devices that a resource has from now on, with their nodes: id="null ?zero", where "?" is optional."""
        devices = [{"id": name, "nodes": [{"host": f"/dev/{path.lstrip('?')}", "path": f"/dev/{name}{i}", "optional": path.startswith("?")}
                                          for i, path in enumerate(paths.split())]} for name, paths in nodes.items()]
        path = self.node.path(f"{resource}.json")
        with open(path + ".new", "w") as file:
            json.dump({"version": 1, "devices": devices}, file)
        os.rename(path + ".new", path)
        if resource in self.resources and self.node.daemon:
            self.ctl("rescan", f"vendor.example/{resource}")

    def declare(self, resource="a", more=""):
        script = self.node.path(f"{resource}.sh")
        with open(script, "w") as file:
            file.write(PROGRAM.format(self.node.path(f"{resource}.json")))
        os.chmod(script, 0o755)
        self.resources[resource] = (f'{{ name = "vendor.example/{resource}"; driver = "exec"; match = ( {{ command = "{script}"; }} ); '
                                    f"{more} }}")

    def configure(self):
        self.node.configure(*self.resources.values(), kubelet=f'pod_resources_socket = "{self.node.kubelet_state}/pod-resources/kubelet.sock"; '
                                                              f"pod_resources_interval = {self.interval};")

    def begin(self):
        self.configure()
        self.node.start_kubelet()
        self.node.start()
        for resource in self.resources:
            until(lambda: "Healthy" in self.listed(resource).values(), f"the devices of {resource}")

    def reboot(self, **nodes):
        """The host is restarted, and the devices have other nodes. Returns what becomes of the pods. What rejected pods held is
        not forgotten before remove() removes one, so that it can be seen.
        """
        self.interval = 3600
        self.configure()
        self.node.stop_kubelet(signal.SIGKILL)
        self.node.stop(signal.SIGKILL)
        shutil.rmtree(self.node.run)
        os.utime(os.path.join(self.node.plugins, "kubelet_internal_checkpoint"), (1, 1))
        self.plug(**nodes)
        self.node.start()
        seen = len(self.node.kubelet_events())
        self.node.start_kubelet()
        until(lambda: {e["pod"] for e in self.node.kubelet_events()[seen:] if e["event"] in ("pod-readmitted", "pod-rejected")}
              >= self.held, "the pods to be judged")
        return {e["pod"]: e["event"] for e in self.node.kubelet_events()[seen:] if e["event"] in ("pod-readmitted", "pod-rejected")}

    # --- pods

    held = set()

    def remove(self, *names):
        """Removes pods, and lets devplugd find out."""
        for name in names:
            self.node.ask_kubelet("pod", "rm", name)
        self.interval = 1
        self.configure()
        self.node.reload()

    def pod(self, name, resource="a", count=1, init=True):
        """A pod whose containers do not run when the kubelet is restarted. Returns the ids of its devices."""
        self.node.call_kubelet("pod", name=name, namespace="default", containers=[
            {"name": "before", "kind": "init" if init else "main", "limits": {f"vendor.example/{resource}": count}},
            {"name": "main", "kind": "main", "limits": {}}])
        self.held = self.held | {name}
        return self.ids_of(name)

    def ids_of(self, name):
        uid = next(pod["uid"] for pod in self.node.call_kubelet("pods")["pods"] if pod["name"] == name)
        with open(os.path.join(self.node.plugins, "kubelet_internal_checkpoint")) as file:
            entries = json.load(file)["Data"]["PodDeviceEntries"]
        return {device for entry in entries if entry["PodUID"] == uid for ids in entry["DeviceIDs"].values() for device in ids}

    def ctl(self, *words):
        return subprocess.run([program("devplugctl"), "-c", self.node.config, *words], check=True, stdout=subprocess.PIPE, text=True).stdout

    # --- what is listed

    def listed(self, resource="a"):
        resources = self.node.node_resources()
        return {d["id"]: d["health"] for d in resources.get(f"vendor.example/{resource}", {"devices": []})["devices"]}

    def unhealthy(self, resource="a"):
        """{id: reason} of the devices that devplugctl reports as unhealthy."""
        devices = json.loads(self.ctl("devices", f"vendor.example/{resource}", "--json"))["resources"][0]["devices"]
        return {d["id"]: d["reason"] for d in devices if d["health"] != "Healthy"}

    def expect(self, _resource="a", **reasons):
        """These devices, and no others, are listed as unhealthy, and for these reasons."""
        until(lambda: self.unhealthy(_resource) == reasons, lambda: f"{reasons}; {self.unhealthy(_resource)}")
        until(lambda: {name for name, health in self.listed(_resource).items() if health != "Healthy"} == set(reasons),
              f"the kubelet to know {set(reasons)}; {self.listed(_resource)}")


def its_pod(old, new):
    return f"its pod uses /dev/{old}, but the device is /dev/{new} now: delete the pod"


def a_pod(node, held, resource="a"):
    return f'a pod with device "{held}" of vendor.example/{resource} uses /dev/{node}, which is this device now: delete that pod'


class Reboot(Replayed):
    """Functions of PCI, whose IOMMU groups are numbered in the order in which the kernel finds them."""

    FUNCTIONS = {"x": "0000:03:00.0", "y": "0000:41:00.0", "z": "0000:83:00.0"}

    def setUp(self):
        super().setUp()
        self.host = VfioHost(self.node.path("host"))
        self.resources["a"] = (f'{{ name = "vendor.example/a"; driver = "pci"; match = ( {{ access = "vfio"; vendor = 0x10de; }} ); '
                               f'host_root = "{self.host.root}"; container = {{ env = ( "GROUP=${{iommu_group}}", "IDS=${{ids}}" ); }}; }}')
        self.plug(x=7, y=8, z=9)
        self.begin()

    def plug(self, **groups):
        for address in list(self.host.groups):
            self.host.unplug(address)
        for name, group in groups.items():
            self.host.plug(self.FUNCTIONS[name], group)

    def hold(self, name):
        """A pod with one device: its name above, and its group."""
        address, = self.pod(name)
        short = next(key for key, value in self.FUNCTIONS.items() if value == address)
        return short, {"x": 7, "y": 8, "z": 9}[short]

    def test_P21_swapped_nodes(self):
        """Two pods whose devices changed their places at a restart of the host: neither gets the other one's."""
        (first, a), (second, b) = self.hold("p"), self.hold("q")
        judged = self.reboot(**{"x": 7, "y": 8, "z": 9, first: b, second: a})
        self.assertEqual(judged, {"p": "pod-rejected", "q": "pod-rejected"})
        self.expect(**{self.FUNCTIONS[first]: its_pod(f"vfio/{a}", f"vfio/{b}"),
                       self.FUNCTIONS[second]: its_pod(f"vfio/{b}", f"vfio/{a}")})

    def test_P21_free_device_with_a_held_node(self):
        """Only one of the two is in a pod: the other one is not given to another pod."""
        held, group = self.hold("p")
        other = min({"x", "y", "z"} - {held})
        taken = {"x": 7, "y": 8, "z": 9}[other]
        judged = self.reboot(**{"x": 7, "y": 8, "z": 9, held: taken, other: group})
        self.assertEqual(judged, {"p": "pod-rejected"})
        self.expect(**{self.FUNCTIONS[held]: its_pod(f"vfio/{group}", f"vfio/{taken}"),
                       self.FUNCTIONS[other]: a_pod(f"vfio/{group}", self.FUNCTIONS[held])})
        # When the pod is gone, both are free.
        self.remove("p")
        self.expect()

    def test_P21_same_nodes(self):
        self.pod("p", count=2)
        self.assertEqual(self.reboot(x=7, y=8, z=9), {"p": "pod-readmitted"})
        self.expect()

    def test_P21_all_in_one_pod(self):
        """A container with all devices has the nodes and the values of all of them."""
        self.pod("p", count=3)
        self.assertEqual(self.reboot(x=8, y=9, z=7), {"p": "pod-readmitted"})
        self.expect()

    def test_P21_recovers_without_a_pod(self):
        """All devices are unhealthy because of pods that are gone, so no pod comes that would make the kubelet forget them."""
        (first, a), (second, b), (third, c) = self.hold("p"), self.hold("q"), self.hold("r")
        self.reboot(**{first: b, second: c, third: a})
        until(lambda: len(self.unhealthy()) == 3, "all devices to be unhealthy")
        self.remove(*self.held)
        self.node.await_allocatable(a=3)
        self.expect()


class Tree(Replayed):
    """Devices in the /sys of a tree, linked as the kernel links them."""

    def setUp(self):
        super().setUp()
        self.root = self.node.path("host")

    def declare_keys(self, keys):
        self.resources["a"] = f'{{ name = "vendor.example/a"; host_root = "{self.root}"; {keys} }}'

    def write(self, path, text):
        path = os.path.join(self.root, path)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w") as file:
            file.write(text)

    def link(self, path, target):
        """A link to a path below the root."""
        where = os.path.join(self.root, path)
        os.makedirs(os.path.dirname(where), exist_ok=True)
        if os.path.lexists(where):
            os.remove(where)
        os.symlink(os.path.relpath(os.path.join(self.root, target), os.path.dirname(where)), where)

    def device(self, directory, subsystem, node="", **files):
        for name, text in {"uevent": f"DEVNAME={node}\n" if node else "", **files}.items():
            self.write(f"sys/devices/{directory}/{name}", text + "\n")
        os.makedirs(os.path.join(self.root, "sys", subsystem), exist_ok=True)
        self.link(f"sys/devices/{directory}/subsystem", f"sys/{subsystem}")
        folder = subsystem + ("/devices" if subsystem.startswith("bus/") else "")
        self.link(f"sys/{folder}/{os.path.basename(directory)}", f"sys/devices/{directory}")
        if node:
            path = os.path.join(self.root, "dev", node)
            os.makedirs(os.path.dirname(path), exist_ok=True)
            os.mknod(path, stat.S_IFCHR | 0o666, os.makedev(0, 0))


class FormerIds(Tree):
    """An update with another preset, under which the devices have other ids."""

    OLD = 'driver = "path"; match = ( { path = "/dev/ptp[0-9]*"; permissions = "r"; } ); share = { replicas = 2; };'
    NEW = 'preset = "ptp"; share = { replicas = 2; };'
    CARDS = {"x": "0000:00:03.0", "y": "0000:00:04.0"}

    def plug(self, **clocks):
        shutil.rmtree(self.root, ignore_errors=True)
        for name, number in clocks.items():
            slot = f"pci0000:00/{self.CARDS[name]}"
            self.device(slot, "bus/pci")
            self.device(f"{slot}/ptp/ptp{number}", "class/ptp", f"ptp{number}")

    def expect_former(self, held, card):
        self.expect(**{held: "not found with the applied configuration, but assigned to a pod", f"{self.CARDS[card]}:ptp.0":
                       f'a pod holds this device under its former id "{held}": delete that pod'})

    def listed(self, resource="a"):
        """Health of devices, of which those with replicas count once."""
        return {name if name.startswith("ptp") else name.split("#")[0]: health for name, health in super().listed(resource).items()}

    def begin_old(self, more=""):
        self.plug(x=0, y=1)
        self.declare_keys(self.OLD + more)
        self.begin()

    def update(self, more=""):
        self.declare_keys(self.NEW + more)
        self.node.stop()
        self.configure()
        self.node.start()
        self.node.await_serving()

    def test_P21_former_id(self):
        """A device is not offered under its new id while a pod holds it under the old one."""
        self.begin_old()
        held, = self.pod("p", init=False)
        self.update()
        self.expect_former(held, "xy"[int(held[3])])
        self.node.ask_kubelet("pod", "rm", "p")
        self.expect()
        self.assertEqual(set(self.listed()), {f"{address}:ptp.0" for address in self.CARDS.values()})

    def test_P21_former_id_with_cdi(self):
        """The kubelet stores nothing but the name of a CDI device."""
        spec = ' cdi_spec = { kind = "vendor.example/a"; };'
        self.begin_old(spec)
        held, = self.pod("p", init=False)
        self.update(spec)
        self.expect_former(held, "xy"[int(held[3])])
        self.node.ask_kubelet("pod", "rm", "p")
        self.expect()

    def test_P21_former_id_after_a_reboot(self):
        """The clock has another number by then: the pod is refused, and the one that has its number now waits for its end."""
        self.begin_old()
        held, = self.pod("p")
        self.declare_keys(self.NEW)
        self.configure()
        self.assertEqual(self.reboot(x=1, y=0), {"p": "pod-rejected"})
        self.expect_former(held, "yx"[int(held[3])])
        self.remove("p")
        self.expect()


class Twins(Tree):
    """USB adapters with one serial number, whose link in by-id leads to the one that was plugged in last."""

    ID = "usb-0403-6001-SAME"

    def plug(self, *ports):
        self.device("pci0000:00/0000:00:14.0", "bus/pci")
        self.device("pci0000:00/0000:00:14.0/usb1", "bus/usb", idVendor="1d6b", idProduct="0002", bDeviceClass="09", busnum="1", devnum="1")
        for port in ports:
            usb = f"pci0000:00/0000:00:14.0/usb1/1-{port}"
            self.device(usb, "bus/usb", idVendor="0403", idProduct="6001", bDeviceClass="00", busnum="1", devnum=str(port), serial="SAME")
            self.device(f"{usb}/1-{port}:1.0", "bus/usb", bInterfaceClass="ff")
            self.device(f"{usb}/1-{port}:1.0/ttyUSB{port}/tty/ttyUSB{port}", "class/tty", f"ttyUSB{port}", dev=f"188:{port}")
            self.write(f"run/udev/data/c188:{port}", f"S:serial/by-id/usb-SAME\nS:serial/by-path/pci-usb-0:{port}\n")
            self.link("dev/serial/by-id/usb-SAME", f"dev/ttyUSB{port}")
            self.link(f"dev/serial/by-path/pci-usb-0:{port}", f"dev/ttyUSB{port}")

    def test_P21_twin_of_a_held_device(self):
        self.plug(1)
        self.declare_keys('driver = "usb"; match = ( { vendor = 0x0403; nodes = "tty"; } );')
        self.begin()
        self.assertEqual(self.pod("p", init=False), {self.ID})
        self.plug_more(2)
        twin = f"{self.ID}@0000:00:14.0-0:2"
        self.expect(**{self.ID: "its pod uses /dev/serial/by-id/usb-SAME, but the device is /dev/ttyUSB1 now: delete the pod",
                       twin: f'a pod with device "{self.ID}" of vendor.example/a uses /dev/serial/by-id/usb-SAME, '
                             "which is this device now: delete that pod"})
        self.node.ask_kubelet("pod", "rm", "p")
        self.expect()
        # The next pods get links that no other device can take.
        self.assertEqual(self.pod("q", count=2, init=False), {self.ID, twin})
        self.plug_more(3)
        until(lambda: len(self.listed()) == 3, "the third one")
        self.expect()

    def plug_more(self, port):
        self.plug(port)
        self.ctl("rescan", "vendor.example/a")


class NextAdapter(Tree):
    """A USB adapter gets the node of one that was unplugged. Both are in one resource, which other resources may overlap."""

    def plug(self, port, node="ttyUSB0"):
        shutil.rmtree(self.root, ignore_errors=True)
        self.device("pci0000:00/0000:00:14.0", "bus/pci")
        self.device("pci0000:00/0000:00:14.0/usb1", "bus/usb", idVendor="1d6b", idProduct="0002", bDeviceClass="09", busnum="1", devnum="1")
        usb = f"pci0000:00/0000:00:14.0/usb1/1-{port}"
        self.device(usb, "bus/usb", idVendor="0403", idProduct="6001", bDeviceClass="00", busnum="1", devnum=str(port), serial=f"S{port}")
        self.device(f"{usb}/1-{port}:1.0", "bus/usb", bInterfaceClass="ff")
        self.device(f"{usb}/1-{port}:1.0/{node}/tty/{node}", "class/tty", node, dev="188:0")

    def swap(self, keys):
        self.plug(1)
        self.declare_keys(f"overlap = true; {keys}")
        self.begin()
        held, = self.pod("p", init=False)
        self.plug(2)
        self.ctl("rescan", "vendor.example/a")
        until(lambda: len(self.listed()) == 2, "the next adapter")
        new, = set(self.listed()) - {held}
        until(lambda: set(self.unhealthy()) == {held, new}, lambda: f"both to be unhealthy: {self.unhealthy()}")
        self.assertEqual(self.unhealthy()[new], a_pod("ttyUSB0", held))
        self.node.ask_kubelet("pod", "rm", "p")
        self.expect()
        self.assertEqual(set(self.listed()), {new})

    def test_P21_subsystem(self):
        self.swap('driver = "sysfs"; match = ( { subsystem = "tty"; parents = ( { subsystem = "usb"; '
                  'attributes = ( { file = "idVendor"; is = "0403"; } ); } ); } );')

    def test_P21_usb(self):
        self.swap('driver = "usb"; match = ( { vendor = 0x0403; nodes = "tty"; } );')

    def test_P21_usb_by_port(self):
        self.swap('driver = "usb"; match = ( { vendor = 0x0403; identity = "port"; nodes = "tty"; } );')


class WhileItRuns(Replayed):
    def test_P21_driver_loaded_again(self):
        self.declare()
        self.plug(x="null", y="zero")
        self.begin()
        held, = self.pod("p", init=False)
        other = "y" if held == "x" else "x"
        self.plug(**{held: "zero" if held == "x" else "null", other: "null" if held == "x" else "zero"})
        node = "null" if held == "x" else "zero"
        self.expect(**{held: its_pod(node, "zero" if held == "x" else "null"), other: a_pod(node, held)})
        # Back in their places.
        self.plug(x="null", y="zero")
        self.expect()

    def test_P21_node_of_a_removed_device(self):
        """Another resource's new device has the node of a device that has gone while a pod holds it."""
        self.declare("a")
        self.declare("b")
        self.plug("a", x="null")
        self.plug("b", u="zero")
        self.begin()
        self.assertEqual(self.pod("p", init=False), {"x"})
        self.plug("a")
        until(lambda: self.listed() == {"x": "Unhealthy"}, "the device to be gone")
        self.plug("b", u="zero", v="null")
        self.expect("b", v=a_pod("null", "x"))
        # Also after a restart, which forgets the device.
        self.node.stop(signal.SIGKILL)
        shutil.rmtree(self.node.run)
        self.node.start()
        self.node.await_serving()
        self.expect("b", v=a_pod("null", "x"))
        self.node.ask_kubelet("pod", "rm", "p")
        self.expect("b")

    def test_P21_what_is_shared(self):
        """Replicas, a node that all devices have, nodes that a device may lack, and resources that overlap: all right."""
        self.declare("a", 'share = { replicas = 3; }; overlap = true; container = { nodes = ( "/dev/random" ); };')
        self.declare("b", "overlap = true;")
        self.declare("c")
        self.plug("a", x="null", y="zero ?full")
        self.plug("b", u="null")
        self.plug("c", w="tty1")
        self.begin()
        self.pod("p", count=4, init=False)
        self.pod("q", "b", init=False)
        self.plug("a", x="null tty2", y="zero ?full")
        self.plug("b", u="null", v="zero")
        self.plug("c", w="tty1", v="random")
        until(lambda: len(self.listed("b")) == len(self.listed("c")) == 2, "the new devices")
        for resource in "abc":
            self.expect(resource)

    def test_P21_values(self):
        """Numbers in variables go stale, too, even where the node comes from a CDI file."""
        self.declare("a", 'cdi_spec = { kind = "vendor.example/a"; }; container = { env = ( "MINOR=${number}", "ID=${id}" ); };')
        self.plug("a", x="tty1", y="tty2")
        self.begin()
        held, = self.pod("p", init=False)
        number = "1" if held == "x" else "2"
        self.plug("a", x="tty2", y="tty1")
        self.expect(**{held: f'its pod uses another value of MINOR, which is "{3 - int(number)}" now: delete the pod'})

    def test_P21_forget(self):
        self.declare()
        self.plug(x="null", y="zero")
        self.begin()
        held, = self.pod("p", init=False)
        self.plug(x="zero", y="null")
        until(lambda: len(self.unhealthy()) == 2, "both to be unhealthy")
        self.ctl("forget", f"vendor.example/a/{held}")
        self.expect()


if __name__ == "__main__":
    unittest.main()
