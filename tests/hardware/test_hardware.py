#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The installed package on a machine with emulated devices, a real kernel, real udev and real systemd.

What is expected comes from /sys of that machine, see expected.py. Nothing here depends on how long something takes.
Usage: test_hardware.py --cache FOLDER --packages FOLDER --programs FOLDER [--short] [TEST...]
"""
import argparse
import json
import os
import re
import sys
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import expected
from machine import ADAPTERS, Failure, Machine, until

KUBELET = ("--state-dir", "/var/lib/devplug-kubelet")
PCI = "/sys/bus/pci/devices"
USB_DEVICES = "/sys/bus/usb/devices"
IGB = "0000:41:00.0"
machine = None


def setUpModule():
    global machine
    machine = Machine(arguments.cache, arguments.packages, arguments.programs)
    try:
        machine.start()
        await_devices()
    except BaseException:
        sys.stderr.write(machine.console())
        machine.close()
        raise


def await_devices():
    until(lambda: not missing(), lambda: f"all devices: {missing()} differ")
    machine.do("udevadm", "settle", "--timeout=3600")


def missing():
    """The patterns of devices that are not complete yet."""
    return [pattern for pattern, count in expected.PRESENT.items() if len(machine.call("find", [pattern])) != count]


def tearDownModule():
    machine.close()


def ctl(*words):
    """What devplugctl answers. On a busy machine, a request may end without an answer."""
    def ask():
        status, output, _ = machine.run("devplugctl", *words, "--json")
        return json.loads(output) if status == 0 else None
    return until(ask, lambda: machine.run("devplugctl", *words))


class Test(unittest.TestCase):
    """What a test asks the service and the kubelet in the machine."""

    maxDiff = None

    def devices(self, resource):
        """The devices of a resource by id."""
        return {device["id"]: device for device in ctl("devices", resource)["resources"][0]["devices"]}

    def healthy(self, resource):
        return sorted(name for name, device in self.devices(resource).items() if device["health"] == "Healthy")

    def explain(self, resource):
        return machine.run("devplugctl", "explain", resource)[1]

    def await_healthy(self, resource, ids):
        """Waits until exactly these devices are healthy."""
        until(lambda: self.healthy(resource) == sorted(ids), lambda: f"{ids} of {resource}\n{self.explain(resource)}")

    def await_reason(self, resource, name, reason):
        """Waits until the device is unhealthy, with a reason that contains the words."""
        def is_there():
            device = self.devices(resource).get(name)
            return device and device["health"] == "Unhealthy" and reason in device["reason"]
        until(is_there, lambda: f'"{reason}" of {name}\n{self.explain(resource)}')

    def admit(self, name, resource, count=1):
        """Admits a pod. Returns the ids that it got, and its container as the runtime gets it."""
        def ask():
            status, output, errors = machine.run("devplug-kubelet", "pod", name, "--limits", f"{resource}={count}", "--json", *KUBELET)
            if status == 0:
                return json.loads(output)
            # The kubelet may not have the newest list yet.
            self.assertIn("no healthy devices", output + errors)
            self.end(name)
            return None
        answer = until(ask, lambda: self.explain(resource))
        self.addCleanup(machine.run, "devplug-kubelet", "pod", "rm", name, *KUBELET)
        return answer["resources"][resource], answer["container"]

    def refuse(self, name, resource):
        """Lets the kubelet refuse a pod. Returns the reason."""
        status, output, errors = machine.run("devplug-kubelet", "pod", name, "--limits", f"{resource}=1", "--json", *KUBELET)
        machine.run("devplug-kubelet", "pod", "rm", name, *KUBELET)
        self.assertNotEqual(status, 0, output)
        return output + errors

    def end(self, name):
        machine.do("devplug-kubelet", "pod", "rm", name, *KUBELET)

    def write(self, path, text):
        error = machine.call("write", path, text)
        self.assertEqual(error, "", f"{path}: {text}")

    def bind(self, address, driver):
        """Binds a PCI function to a driver, as driverctl does. Empty: to its own driver."""
        self.write(f"{PCI}/{address}/driver_override", driver or "\n")
        if machine.call("real", [f"{PCI}/{address}/driver"])[f"{PCI}/{address}/driver"]:
            self.write(f"{PCI}/{address}/driver/unbind", address)
        self.write("/sys/bus/pci/drivers_probe", address)

    def make_vfs(self, count, pf=IGB):
        """Returns their addresses."""
        for number in (0, count):
            self.write(f"{PCI}/{pf}/sriov_numvfs", str(number))
        self.addCleanup(machine.call, "write", f"{PCI}/{pf}/sriov_numvfs", "0")
        links = machine.call("real", machine.call("find", [f"{PCI}/{pf}/virtfn*"]))
        return sorted(os.path.basename(path) for path in links.values())


class Inventory(Test):
    """Every preset and driver with a device of the machine finds it, and a pod gets its nodes."""

    @classmethod
    def setUpClass(cls):
        host = expected.Host(machine)
        cls.expected = {name: list_devices(host) for name, list_devices in expected.RESOURCES.items()}
        until(lambda: not cls.incomplete(), lambda: f"devices of {cls.incomplete()}")

    @classmethod
    def incomplete(cls):
        """Resources that have not found as many devices as they should, with what they have."""
        resources = ctl("devices")["resources"]
        found = {resource["name"]: [device["id"] for device in resource["devices"] if device["health"] == "Healthy"]
                 for resource in resources}
        return {name: found[name] for name, devices in cls.expected.items() if len(found[name]) != len(devices)}

    def test_presets_are_discovered(self):
        found = {preset["name"] for preset in ctl("discover")["presets"]}
        wanted = {name.partition("/")[2] for name, devices in self.expected.items() if name.startswith("preset.") and devices}
        self.assertEqual(found, wanted)

    def test_discovered_configuration_is_valid(self):
        machine.do("sh", "-c", "devplugctl discover >/tmp/found.conf && devplugd --check -c /tmp/found.conf")

    def test_every_resource_is_served(self):
        states = {resource["name"]: resource["state"] for resource in ctl("status")["resources"]}
        self.assertEqual(states, dict.fromkeys(states, "serving"))
        self.assertGreaterEqual(set(states), set(self.expected))

    def test_pods_get_the_nodes_that_exist(self):
        for resource, devices in self.expected.items():
            with self.subTest(resource=resource):
                self.assertEqual(sorted(self.give_all(resource, len(devices)), key=repr),
                                 sorted(((sorted(nodes), [] if numa is None else [numa]) for nodes, numa in devices), key=repr))

    def give_all(self, resource, count):
        """Gives each device to a pod. Returns the nodes and the NUMA nodes of each. The kubelet takes any replica."""
        known, given, pods = self.devices(resource), {}, 0
        while len(given) < count:
            pods += 1
            self.assertLess(pods, 100)
            ids, container = self.admit(f"pod-{pods}", resource)
            places = machine.call("look", [node["host_path"] for node in container["devices"]])
            self.assertNotIn(None, places.values())
            name = ids[0].partition("#")[0]
            given[name] = (sorted(place[2] for place in places.values()), known[name]["numa"])
        for i in range(pods):
            self.end(f"pod-{i + 1}")
        return given.values()

    def test_cdi_file_has_the_nodes(self):
        ids, container = self.admit("cdi", "path.example/nvme")
        kind, _, name = container["cdi"][0].partition("=")
        files = machine.call("find", ["/var/run/cdi/*.json", "/etc/cdi/*.json"])
        documents = [json.loads(text) for text in machine.call("read", files).values()]
        devices = {device["name"]: device for document in documents if document["kind"] == kind for device in document["devices"]}
        self.assertEqual([node["path"] for node in devices[name]["containerEdits"]["deviceNodes"]], [f"/dev/{ids[0]}"])


class Functions(Test):
    """PCI functions change their drivers and their number."""

    def group_of(self, address):
        path = f"{PCI}/{address}/iommu_group"
        return os.path.basename(machine.call("real", [path])[path])

    def test_number_of_virtual_functions_changes(self):
        for count in (2, 0, 4, 1):
            vfs = self.make_vfs(count)
            self.assertEqual(len(vfs), count)
            self.await_healthy("net.example/vf", vfs)

    def test_free_function_moves_to_vfio_and_back(self):
        vfs = self.make_vfs(2)
        self.await_healthy("net.example/vf", vfs)
        self.bind(vfs[0], "vfio-pci")
        self.await_healthy("net.example/vf", vfs[1:])
        self.await_healthy("pci.example/vf", vfs[:1])
        _, container = self.admit("vfio", "pci.example/vf")
        self.assertEqual(sorted(node["host_path"] for node in container["devices"]),
                         [f"/dev/vfio/{self.group_of(vfs[0])}", "/dev/vfio/vfio"])
        self.end("vfio")
        self.bind(vfs[0], "")
        self.await_healthy("pci.example/vf", [])
        self.await_healthy("net.example/vf", vfs)

    def test_allocated_function_is_moved_to_another_driver(self):
        vfs = self.make_vfs(1)
        self.bind(vfs[0], "vfio-pci")
        self.await_healthy("pci.example/vf", vfs)
        self.admit("vfio", "pci.example/vf")
        self.bind(vfs[0], "")
        self.await_reason("pci.example/vf", vfs[0], "vfio-pci")
        self.bind(vfs[0], "vfio-pci")
        self.await_healthy("pci.example/vf", vfs)

    def test_group_needs_each_of_its_functions(self):
        first, second = "0000:00:0b.0", "0000:00:0b.1"
        self.addCleanup(self.bind, second, "")
        self.addCleanup(self.bind, first, "")
        self.bind(first, "vfio-pci")
        self.await_reason("pci.example/group", first, second)
        self.bind(second, "vfio-pci")
        self.await_healthy("pci.example/group", [first])
        _, container = self.admit("group", "pci.example/group")
        self.assertIn(f"/dev/vfio/{self.group_of(first)}", [node["host_path"] for node in container["devices"]])
        self.assertEqual(container["env"].popitem()[1], f"{first},{second}")

    def test_function_with_uio(self):
        address = "0000:00:0b.1"
        self.addCleanup(self.bind, address, "")
        self.bind(address, "uio_pci_generic")
        self.await_healthy("pci.example/uio", [address])
        _, container = self.admit("uio", "pci.example/uio")
        self.assertEqual([node["host_path"] for node in container["devices"]], ["/dev/uio0"])

    def test_physical_function_of_a_disk_gets_virtual_ones(self):
        address = "0000:82:00.0"
        ids = self.healthy("pci.example/nvme")
        self.assertIn(address, ids)
        self.addCleanup(self.await_healthy, "pci.example/nvme", ids)
        self.admit("holder", "pci.example/nvme", len(ids))
        self.write(f"{PCI}/{address}/sriov_numvfs", "1")
        self.addCleanup(machine.call, "write", f"{PCI}/{address}/sriov_numvfs", "0")
        self.await_reason("pci.example/nvme", address, "virtual function")
        self.end("holder")
        until(lambda: address not in self.devices("pci.example/nvme"), lambda: self.explain("pci.example/nvme"))

    def unplug(self, name, address):
        machine.qmp("device_del", id=name)
        until(lambda: not machine.call("find", [f"{PCI}/{address}"]), f"the end of {address}")

    def test_disk_is_plugged_and_unplugged(self):
        ids = self.healthy("pci.example/nvme")
        before = set(machine.call("find", [f"{PCI}/*"]))
        machine.qmp("device_add", driver="nvme", id="nvme2", bus="hp0", serial="NVME-C")
        new = until(lambda: set(machine.call("find", [f"{PCI}/*"])) - before, "a PCI function")
        address = os.path.basename(new.pop())
        self.await_healthy("pci.example/nvme", [*ids, address])
        self.unplug("nvme2", address)
        self.await_healthy("pci.example/nvme", ids)

    def test_locked_function_stops_no_process(self):
        """A probe holds the lock of the device for 40 s. Files of /sys that need the lock block their reader so long."""
        restarts = {resource["name"]: resource["restarts"] for resource in ctl("status")["resources"]}
        address = "0000:81:00.0"
        self.addCleanup(self.await_healthy, "net.example/pf", self.healthy("net.example/pf"))
        self.addCleanup(self.bind, address, "")
        machine.do("modprobe", "slowpci", "seconds=40")
        self.write(f"{PCI}/{address}/driver_override", "slowpci")
        self.write(f"{PCI}/{address}/driver/unbind", address)
        machine.do("sh", "-c", f"echo {address} >/sys/bus/pci/drivers_probe & sleep 2; udevadm trigger --subsystem-match=pci")
        self.make_vfs(2)
        self.admit("meanwhile", "pci.example/nvme")
        until(lambda: machine.call("real", [f"{PCI}/{address}/driver"])[f"{PCI}/{address}/driver"], "the end of the probe")
        self.assertEqual({resource["name"]: resource["restarts"] for resource in ctl("status")["resources"]}, restarts)


    def test_card_with_vdpa(self):
        """vhost_vdpa makes a node for the card, but neither a class nor an event."""
        before = set(machine.call("find", [f"{PCI}/*"]))
        machine.do("modprobe", "-a", "vp_vdpa", "vhost_vdpa")
        machine.qmp("device_add", driver="virtio-net-pci", id="vdpa0", bus="hp1", netdev="h3", romfile="")
        new = until(lambda: set(machine.call("find", [f"{PCI}/*"])) - before, "a PCI function")
        address = os.path.basename(new.pop())
        self.addCleanup(self.unplug, "vdpa0", address)
        machine.do("udevadm", "settle", "--timeout=600")
        self.bind(address, "vp-vdpa")
        for name in ("first", "second"):
            machine.do("vdpa", "dev", "add", "name", name, "mgmtdev", f"pci/{address}")
            self.await_healthy("pci.example/vdpa", [address])
            nodes = machine.call("find", ["/dev/vhost-vdpa-*"])
            ids, container = self.admit(name, "pci.example/vdpa")
            self.assertEqual((ids, [node["host_path"] for node in container["devices"]]), ([address], nodes))
            self.end(name)
            machine.do("vdpa", "dev", "del", name)
            self.await_healthy("pci.example/vdpa", [])


class Interfaces(Test):
    """Network interfaces change their names and namespaces."""

    def interface_of(self, address):
        return os.path.basename(machine.call("find", [f"{PCI}/{address}/net/*"])[0])

    def test_interface_is_renamed(self):
        vfs = self.make_vfs(1)
        self.await_healthy("net.example/vf", vfs)
        machine.do("udevadm", "settle", "--timeout=600")
        machine.do("ip", "link", "set", self.interface_of(vfs[0]), "name", "renamed0")
        until(lambda: ctl("preview", "net.example/vf", vfs[0])["answer"]["envs"]["VF"] == "renamed0", "the new name")
        self.await_healthy("net.example/vf", vfs)
        _, container = self.admit("renamed", "net.example/vf")
        self.assertEqual(container["env"]["VF"], "renamed0")

    def test_free_interface_is_in_another_namespace(self):
        vfs = self.make_vfs(1)
        self.await_healthy("net.example/vf", vfs)
        machine.do("udevadm", "settle", "--timeout=600")
        machine.do("ip", "netns", "add", "elsewhere")
        self.addCleanup(machine.run, "ip", "netns", "del", "elsewhere")
        machine.do("ip", "link", "set", self.interface_of(vfs[0]), "netns", "elsewhere")
        until(lambda: not self.healthy("net.example/vf"), lambda: self.explain("net.example/vf"))
        machine.do("ip", "netns", "del", "elsewhere")
        self.await_healthy("net.example/vf", vfs)

    def test_virtual_interface(self):
        machine.call("write", "/sys/bus/netdevsim/new_device", "7 1")
        self.addCleanup(machine.call, "write", "/sys/bus/netdevsim/del_device", "7")
        until(lambda: len(self.healthy("net.example/interface")) == 1, lambda: self.explain("net.example/interface"))
        name, = self.healthy("net.example/interface")
        machine.do("ip", "link", "set", name, "up")
        machine.do("ip", "addr", "add", "192.0.2.1/24", "dev", name)
        machine.do("ip", "route", "add", "default", "dev", name)
        until(lambda: not self.healthy("net.example/interface"), lambda: self.explain("net.example/interface"))
        machine.do("ip", "route", "del", "default", "dev", name)
        self.await_healthy("net.example/interface", [name])


class Usb(Test):
    """USB devices are unplugged and plugged in."""

    def adapter(self, end):
        return next(name for name in self.devices("usb.example/adapter") if name.endswith(end))

    def test_adapter_keeps_its_id_in_another_port(self):
        ids, name = self.healthy("usb.example/adapter"), self.adapter("AAAA")
        self.unplug("us0")
        self.await_healthy("usb.example/adapter", set(ids) - {name})
        self.plug("us0", "7", "AAAA")
        self.await_healthy("usb.example/adapter", ids)
        self.unplug("us0")
        self.await_healthy("usb.example/adapter", set(ids) - {name})
        self.plug("us0", "1.1", "AAAA")
        self.await_healthy("usb.example/adapter", ids)

    def test_serial_driver_is_unbound(self):
        """Without a driver, an adapter has none of the nodes that are asked for."""
        ids, name = self.healthy("usb.example/port"), f"{USB_DEVICES}/1-1.1:1.0"
        self.addCleanup(self.await_healthy, "usb.example/port", ids)
        interface = os.path.basename(name)
        self.write(f"{name}/driver/unbind", interface)
        self.addCleanup(self.write, "/sys/bus/usb/drivers_probe", interface)
        until(lambda: len(self.healthy("usb.example/port")) == len(ids) - 1, lambda: self.explain("usb.example/port"))

    def test_udev_is_stopped(self):
        ids, name = self.healthy("usb.example/adapter"), self.adapter("AAAA")
        units = ("systemd-udevd-control.socket", "systemd-udevd-kernel.socket", "systemd-udevd.service")
        machine.do("systemctl", "stop", *units)
        self.addCleanup(machine.do, "systemctl", "start", *units)
        self.unplug("us0")
        self.await_healthy("usb.example/adapter", set(ids) - {name})
        self.plug("us0", "1.1", "AAAA")
        self.await_healthy("usb.example/adapter", ids)

    def test_hub_is_unplugged(self):
        """A hub with three devices. They appear again one after the other."""
        resources = ("usb.example/adapter", "usb.example/port", "usb.example/stick", "sysfs.example/tty", "sysfs.example/disk")
        ids = {resource: self.healthy(resource) for resource in resources}
        self.unplug("hub0")
        for resource, count in zip(resources, (2, 2, 0, 2, len(ids["sysfs.example/disk"]) - 1)):
            until(lambda: len(self.healthy(resource)) == count, lambda: self.explain(resource))
        self.add(driver="usb-hub", id="hub0", bus="xhci.0", port="1")
        self.add(driver="usb-storage", id="stick0", bus="xhci.0", port="1.3", drive="stick", serial="STICK0")
        self.plug("us1", "1.2", "BBBB")
        self.plug("us0", "1.1", "AAAA")
        for resource in resources:
            self.await_healthy(resource, ids[resource])

    def test_node_of_a_held_adapter(self):
        """The next adapter gets the node of one that a pod has, and is not given to another pod meanwhile."""
        resource = "sysfs.example/tty"
        ids = self.healthy(resource)
        held, container = self.admit("holder", resource)
        path = container["devices"][0]["host_path"]
        node = machine.call("look", [path])[path][2]
        folder = next(folder for _, name, folder in machine.call("nodes", "/sys/devices") if name == node)
        name, port, number = next(adapter for adapter in ADAPTERS if f"/1-{adapter[1]}:1.0/" in folder)
        self.unplug(name)
        self.await_reason(resource, held[0], "")
        self.plug("us4", "7", "CCCC")
        until(lambda: machine.call("find", [node]), node)
        new = until(lambda: set(self.devices(resource)) - set(ids), lambda: self.explain(resource)).pop()
        self.await_reason(resource, new, f'a pod with device "{held[0]}"')
        self.end("holder")
        self.await_healthy(resource, set(ids) - set(held) | {new})
        self.unplug("us4")
        self.plug(name, port, number)
        self.await_healthy(resource, ids)

    def test_udev_rule_changes_permissions(self):
        """What udev lets users of the host do with a node is not what a container may do with it."""
        resource, rule = "preset.example/serial", "/etc/udev/rules.d/90-permissions.rules"
        ids = self.healthy(resource)

        def apply():
            machine.do("udevadm", "control", "--reload")
            machine.do("udevadm", "trigger", "--settle", "--subsystem-match=tty")
        self.write(rule, 'SUBSYSTEM=="tty", KERNEL=="ttyUSB*", MODE="0000"')
        self.addCleanup(apply)
        self.addCleanup(machine.do, "rm", rule)
        apply()
        self.assertEqual(set(machine.do("sh", "-c", "stat -c %a /dev/ttyUSB*").split()), {"0"})
        self.unplug("us1")
        until(lambda: len(self.healthy(resource)) == len(ids) - 1, lambda: self.explain(resource))
        self.plug("us1", "1.2", "BBBB")
        self.await_healthy(resource, ids)
        _, container = self.admit("permissions", resource)
        self.assertEqual([node["permissions"] for node in container["devices"]], ["rw"])

    def unplug(self, name):
        machine.qmp("device_del", id=name)

    def plug(self, name, port, number):
        self.add(driver="usb-serial", id=name, bus="xhci.0", port=port, chardev=name, serial=number, **{"always-plugged": True})

    def add(self, **device):
        def is_added():
            try:
                machine.qmp("device_add", **device)
            except Failure as failure:
                # A device that is being removed keeps its name and its port for a moment.
                if "uplicate" not in str(failure) and "in use" not in str(failure):
                    raise
                return False
            return True
        until(is_added, str(device))


class Modules(Test):
    """Kernel modules are unloaded and loaded again."""

    def test_cameras(self):
        resource = "sysfs.example/camera"
        ids = self.healthy(resource)
        machine.do("udevadm", "settle", "--timeout=600")
        machine.do("modprobe", "-r", "vivid")
        self.await_healthy(resource, [])
        machine.do("modprobe", "vivid", "n_devs=2")
        self.await_healthy(resource, ids)

    def test_watchdog(self):
        resource = "preset.example/watchdog"
        ids = self.healthy(resource)
        machine.do("modprobe", "-r", "i6300esb")
        until(lambda: len(self.healthy(resource)) == len(ids) - 1, lambda: self.explain(resource))
        machine.do("modprobe", "i6300esb")
        self.await_healthy(resource, ids)


class Memory(Test):
    """Persistent memory is used in several ways."""

    def test_memory_changes_its_mode(self):
        ids = self.healthy("preset.example/pmem")
        namespace = json.loads(machine.do("ndctl", "list"))[0]["dev"]
        machine.do("ndctl", "create-namespace", "-f", "-e", namespace, "-m", "devdax")
        self.await_healthy("preset.example/pmem", [])
        until(lambda: len(self.healthy("preset.example/dax")) == 1, lambda: self.explain("preset.example/dax"))
        _, container = self.admit("dax", "preset.example/dax")
        self.assertEqual([node["host_path"] for node in container["devices"]], machine.call("find", ["/dev/dax*"]))
        self.end("dax")
        machine.do("ndctl", "create-namespace", "-f", "-e", namespace, "-m", "raw")
        self.await_healthy("preset.example/dax", [])
        self.await_healthy("preset.example/pmem", ids)


class Unit(Test):
    """The sandbox of the installed unit."""

    def test_processes_are_confined(self):
        users = set()
        resources = until(serving, lambda: machine.run("devplugctl", "status")[1])
        processes = {resource["name"]: resource["pid"] for resource in resources}
        for name, text in machine.call("read", [f"/proc/{pid}/status" for pid in processes.values()]).items():
            fields = {key: value.split() for key, _, value in (line.partition(":") for line in text.splitlines())}
            self.assertEqual({key: fields[key] for key in ("CapInh", "CapPrm", "CapEff", "CapAmb")},
                             dict.fromkeys(("CapInh", "CapPrm", "CapEff", "CapAmb"), ["0" * 16]), name)
            self.assertEqual((fields["NoNewPrivs"], fields["Seccomp"], fields["Groups"]), (["1"], ["2"], []), name)
            user, = set(fields["Uid"] + fields["Gid"])
            users.add(user)
        self.assertNotIn("0", users)
        self.assertEqual(len(users), len(processes))


class Hostile(Test):
    """A process that has been taken over (tests/sandbox/hostile-child.c), in the sandbox of the installed unit."""

    # What takes its place beside devplugd, and what that is told.
    PLACE, TOLD = "/usr/sbin/devplugd-plugin", "/usr/sbin/hostile"
    DROP_IN = "/etc/systemd/system/devplugd.service.d/hostile.conf"
    CONFIG = "/opt/hardware/hostile.conf"

    @classmethod
    def tearDownClass(cls):
        machine.do("rm", "-f", cls.PLACE, cls.TOLD, cls.DROP_IN)
        machine.do("systemctl", "daemon-reload")
        machine.do("systemctl", "restart", "devplugd")
        until(serving, lambda: machine.run("devplugctl", "status")[1])

    def processes(self):
        return {resource["name"]: resource["pid"] for resource in ctl("status")["resources"]}

    def attack(self, kind, words, *prefix):
        """Makes an attack of that kind until the journal has the words. Nobody but the attacker notices."""
        machine.do("systemctl", "stop", "devplugd")
        self.write(self.TOLD, f"/usr/libexec/devplugd/devplugd-plugin\n{kind}\n/run/devplugd\n/var/run/cdi\n")
        machine.do("cp", "/opt/hardware/devplugd-hostile-child", self.PLACE)
        machine.do("mkdir", "-p", os.path.dirname(self.DROP_IN))
        self.write(self.DROP_IN, f"[Service]\nExecStart=\nExecStart={' '.join((*prefix, '/usr/sbin/devplugd', '-c', self.CONFIG))}\n")
        machine.do("systemctl", "daemon-reload")
        cursor = machine.do("journalctl", "-n", "0", "--show-cursor", "-q").partition("cursor: ")[2].strip()
        machine.do("systemctl", "start", "devplugd")

        def journal():
            lines = machine.do("journalctl", "-u", "devplugd", "-o", "cat", "--after-cursor", cursor).splitlines()
            return "\n".join(line for line in lines if "last log line" not in line)
        until(lambda: all(len(self.devices(f"vendor.example/{name}")) for name in ("card", "adapter", "nic")), journal)
        before = self.processes()
        until(lambda: words in journal(), journal)
        machine.do("devplugctl", "reload")
        after = self.processes()
        for name in before.keys() - {"vendor.example/evil"}:
            self.assertEqual(after[name], before[name], journal())
        self.assertEqual(re.findall("possible: (?!-$).*", journal(), re.MULTILINE), [])
        return journal()

    def test_reach(self):
        self.assertNotIn("this kernel has no Landlock", self.attack("touch", "possible: -"))

    def test_reach_without_landlock(self):
        self.assertIn("this kernel has no Landlock", self.attack("touch", "possible: -", "/opt/hardware/devplugd-without-landlock"))

    def test_malformed_message(self):
        self.attack("linger", "the child sent a malformed message")

    def test_too_many_claims(self):
        self.attack("claims", "the devices that were found last are not offered")


def serving():
    """All resources, once the kubelet is served with each of them."""
    resources = ctl("status")["resources"]
    return all(resource["state"] == "serving" for resource in resources) and resources


SHORT = ("Inventory", "Functions.test_number_of_virtual_functions_changes", "Functions.test_free_function_moves_to_vfio_and_back",
         "Usb.test_adapter_keeps_its_id_in_another_port")
ALL = ("Inventory", "Functions", "Interfaces", "Usb", "Memory", "Modules", "Unit", "Hostile")

parser = argparse.ArgumentParser()
parser.add_argument("--cache", required=True)
parser.add_argument("--packages", required=True)
parser.add_argument("--programs", required=True)
parser.add_argument("--short", action="store_true")
arguments, rest = parser.parse_known_args()
if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], "-v", *(rest or (SHORT if arguments.short else ALL))])
