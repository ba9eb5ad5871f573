# SPDX-License-Identifier: Apache-2.0
"""The programs of docs/examples/release.conf clean their devices, as devplugd runs them: in a tree in place of /sys, and with a
stand-in for nvme.

docs/contributing/complaints.md: none.
"""
import os
import re
import shutil
import stat
import threading
import unittest

from cleaning_node import CleaningProgram
from host_tree import HostTree
from node import until
from tool import ToolTest

EXAMPLES = os.path.join(os.path.dirname(os.path.realpath(__file__)), "../../docs/examples")
CARD, GPU, HUB = "pci0000:00/0000:03:00.0", "pci0000:00/0000:04:00.0", "pci0000:00/0000:00:14.0/usb1"
DISK = "disk/by-id/nvme-Vendor_Model_S1_1"
NODES = {"fpga": "/dev/xdma0_user", "disk": f"/dev/{DISK}", "gpu": "/dev/dri/renderD128", "radio": "/dev/bus/usb/001/004"}


class ReleasePrograms(CleaningProgram, ToolTest):
    def setUp(self):
        super().setUp()
        self.add_program()
        self.host = HostTree(self.node.path("host"))
        for address in (CARD, GPU):
            self.device(address, "bus/pci", vendor="0x1002", device="0x74a1", **{"class": "0x030000"})
        self.device(f"{CARD}/xdma/xdma0_user", "class/xdma", self.make_node("xdma0_user", 240, 0), dev="240:0")
        self.host.link(f"sys/devices/{CARD}/xdma/xdma0_user/device", f"sys/devices/{CARD}")
        self.host.file(f"sys/devices/{CARD}/reset", "")
        self.host.bind(GPU, "amdgpu")
        self.use_memory(17)
        for name, number in (("card0", 0), ("renderD128", 128)):
            self.device(f"{GPU}/drm/{name}", "class/drm", self.make_node(f"dri/{name}", 226, number), dev=f"226:{number}")
            self.host.link(f"sys/devices/{GPU}/drm/{name}/device", f"sys/devices/{GPU}")
        self.make_node(DISK, 259, 0, stat.S_IFBLK)
        self.device("pci0000:00/0000:00:14.0", "bus/pci", vendor="0x8086", device="0xa36d", **{"class": "0x0c0330"})
        self.device(HUB, "bus/usb")
        self.plug()
        self.switch = self.host.path(f"sys/devices/{HUB}/1-0:1.0/usb1-port4/disable")
        os.makedirs(os.path.dirname(self.switch))
        os.mkfifo(self.switch)

    def device(self, directory, subsystem, uevent="", **files):
        self.host.device(directory, subsystem, uevent, **files)

    def make_node(self, name, major, minor, kind=stat.S_IFCHR):
        file = self.host.path(f"dev/{name}")
        os.makedirs(os.path.dirname(file), exist_ok=True)
        os.mknod(file, kind | 0o666, os.makedev(major, minor))
        return f"MAJOR={major}\nMINOR={minor}\nDEVNAME={name}"

    def use_memory(self, mib):
        for name, number in (("used", mib << 20), ("total", 192 << 30)):
            self.host.file(f"sys/devices/{GPU}/mem_info_vram_{name}", str(number))

    def plug(self):
        self.device(f"{HUB}/1-4", "bus/usb", self.make_node("bus/usb/001/004", 189, 3) + "\nDEVTYPE=usb_device", idVendor="1d50",
                    idProduct="6089", bDeviceClass="00", busnum="1", devnum="4", serial="7")

    def unplug(self):
        os.unlink(self.host.path("sys/bus/usb/devices/1-4"))
        shutil.rmtree(self.host.path(f"sys/devices/{HUB}/1-4"))
        os.unlink(self.host.path("dev/bus/usb/001/004"))

    def serve_port(self):
        """The port's switch, as the kernel has it."""
        for word, do in (("1", self.unplug), ("0", self.plug)):
            with open(self.switch) as stream:
                self.assertEqual(stream.read().strip(), word)
            do()

    def resources(self):
        """The resources of the file, by their names, for this host."""
        with open(f"{EXAMPLES}/release.conf") as stream:
            text = re.sub(r"^ *#.*\n", "", stream.read(), flags=re.M)
        nvme = self.node.path("nvme")
        with open(nvme, "w") as stream:
            stream.write(f"#!/bin/sh\necho nvme $@ >>{self.folder}/log\n")
        os.chmod(nvme, 0o755)
        for old, new in (("/usr/libexec/release", f"{EXAMPLES}/release"), ('"/sys/', f'"{self.host.root}/sys/'),
                         ('"${sysfs}"', f'"{self.host.root}${{sysfs}}"'), ("/usr/sbin/nvme", nvme)):
            self.assertIn(old, text)
            text = text.replace(old, new)
        found = re.findall(r"^    \{.*?\}(?=,?\n(?:    \{|\);))", text, re.M | re.S)
        return {re.search('name = ".*?/(.*?)"', one).group(1): one for one in found}

    def begin(self, name):
        """A pod that has had the device, and its resource."""
        resources = self.resources()
        self.assertEqual(set(resources), set(NODES))
        self.node.configure(resources[name], text=f'host_root = "{self.host.root}";',
                            kubelet=f'pod_resources = false; pod_logs_dir = "{self.node.kubelet_state}/pod-logs";')
        self.node.start_kubelet()
        self.node.start()
        full, = self.node.await_serving()
        until(lambda: [device["health"] for device in self.node.resource(full)["devices"]] == ["Healthy"], "the device")
        answer = self.node.ask_kubelet("pod", "a", "--limits", f"{full}=1", "--json")
        self.assertEqual(answer.returncode, 0, answer.stdout)
        self.assertIn(NODES[name], answer.stdout)
        return full

    def end(self, full):
        """The pod ends, and the device is cleaned."""
        self.assertEqual(self.node.ask_kubelet("pod", "rm", "a").returncode, 0)
        until(lambda: "cleaned device" in self.node.output(), lambda: f"the device to be cleaned: {self.node.resource(full)}")

    def end_in_vain(self, full, why):
        """The pod ends, and the device cannot be cleaned."""
        self.assertEqual(self.node.ask_kubelet("pod", "rm", "a").returncode, 0)
        until(lambda: why in (self.node.resource(full)["devices"][0]["reason"] or ""), why)

    def test_fpga(self):
        self.end(self.begin("fpga"))
        with open(self.host.path(f"sys/devices/{CARD}/reset")) as stream:
            self.assertEqual(stream.read(), "1\n")

    def test_fpga_that_cannot_be_reset(self):
        full = self.begin("fpga")
        os.unlink(self.host.path(f"sys/devices/{CARD}/reset"))
        self.end_in_vain(full, "the kernel cannot reset ")

    def test_disk(self):
        self.end(self.begin("disk"))
        self.assertEqual(self.log(), [f"nvme format {NODES['disk']} --ses=1"])

    def test_memory_of_a_gpu(self):
        full = self.begin("gpu")
        self.use_memory(80000)
        self.end_in_vain(full, "80000 MiB of its memory are still in use")
        self.use_memory(512)
        device = self.node.resource(full)["devices"][0]["id"]
        self.assertEqual(self.ctl("resume", full, device).returncode, 0)
        until(lambda: "cleaned device" in self.node.output(), "the device to be cleaned")

    def test_power_of_a_usb_device(self):
        """The device disappears while it is cleaned."""
        full = self.begin("radio")
        port = threading.Thread(target=self.serve_port)
        port.start()
        self.addCleanup(port.join)
        self.end(full)
        until(lambda: [device["health"] for device in self.node.resource(full)["devices"]] == ["Healthy"], "the device to be back")
        self.assertEqual(self.node.ask_kubelet("pod", "b", "--limits", f"{full}=1", "--json").returncode, 0)


if __name__ == "__main__":
    unittest.main()
