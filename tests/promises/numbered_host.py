# SPDX-License-Identifier: Apache-2.0
"""A machine, in a folder, with hardware for each driver. Two machines with another `shift` have the same hardware; only the numbers
that the kernel gives in the order in which it finds devices differ."""
import os

from host_tree import HostTree
from node import make_node

MDEV = "11111111-2222-3333-4444-555555555555"
GPU_UUID = "GPU-00000001-483b-b48f-d7e5-75fb19a52b76"
PCI = "pci0000:00/0000:00:01.0"

# A resource for each driver, and for each way of access of driver "pci" that has numbers. PROGRAM: of devices for driver "exec".
RESOURCES = {
    "gpu": 'driver = "drm"; match = ( { vendor = 0x1002; } );',
    "vm": 'driver = "pci"; match = ( { access = "vfio"; vendor = 0x10de; device = 0x1eb8; } );',
    "dpdk": 'driver = "pci"; match = ( { access = "uio"; vendor = 0x8086; device = 0x154c; } );',
    "vgpu": 'driver = "pci"; match = ( { access = "mdev"; mdev_type = "GRID T4-1B"; } );',
    "vf": 'driver = "net"; match = ( { role = "vf"; driver = "iavf"; } );',
    "roce": 'driver = "rdma"; match = ( { driver = "mlx5_core"; } );',
    "cuda": 'driver = "nvidia"; match = ( { } );',
    "camera": 'driver = "usb"; match = ( { vendor = 0x046d; } );',
    "npu": 'driver = "sysfs"; match = ( { subsystem = "accel"; } );',
    "console": 'driver = "path"; match = "/dev/serial/by-id/*";',
    "seat": 'driver = "static"; match = ( { count = 2; } );',
    "licence": 'driver = "exec"; match = ( { command = [ "PROGRAM" ]; } );',
}


class NumberedHost(HostTree):
    def __init__(self, root, shift):
        super().__init__(root)
        self.shift = shift
        self.add_display()
        self.add_vfio()
        self.add_uio()
        self.add_mdev()
        self.add_network()
        self.add_nvidia()
        self.add_usb()
        self.add_accelerator()

    def node(self, name, major, minor):
        """With its number in the tree, and that of /dev/null outside of it."""
        make_node(self.path(f"dev/{name}"))
        return f"MAJOR={major}\nMINOR={minor}\nDEVNAME={name}"

    def function(self, address, driver, vendor, device, kind, **files):
        directory = f"{PCI}/{address}"
        self.device(directory, "bus/pci", vendor=vendor, device=device, **{"class": kind, "numa_node": "1", **files})
        self.bind(directory, driver)
        return directory

    def child(self, parent, name, subsystem, uevent="", **files):
        """A device of a class."""
        directory = f"{parent}/{os.path.basename(subsystem)}/{name}"
        self.device(directory, subsystem, uevent, **files)
        self.link(f"sys/devices/{directory}/device", f"sys/devices/{parent}")

    def group(self, directory, number):
        self.join_group(directory, number)
        make_node(self.path(f"dev/vfio/{number}"))

    # --- the hardware

    def add_display(self):
        directory = self.function("0000:03:00.0", "amdgpu", "0x1002", "0x74a1", "0x030000", mem_info_vram_total="206141652992",
                                  current_compute_partition="SPX", current_memory_partition="NPS1")
        for name, number in ((f"card{self.shift}", self.shift), (f"renderD{128 + self.shift}", 128 + self.shift)):
            self.child(directory, name, "class/drm", self.node(f"dri/{name}", 226, number), dev=f"226:{number}")

    def add_vfio(self):
        self.group(self.function("0000:04:00.0", "vfio-pci", "0x10de", "0x1eb8", "0x030200"), 10 + self.shift)
        make_node(self.path("dev/vfio/vfio"))

    def add_uio(self):
        directory, name = self.function("0000:05:00.0", "igb_uio", "0x8086", "0x154c", "0x020000"), f"uio{self.shift}"
        self.child(directory, name, "class/uio", self.node(name, 240, self.shift), dev=f"240:{self.shift}")

    def add_mdev(self):
        parent = self.function("0000:06:00.0", "nvidia", "0x10de", "0x1db6", "0x030200")
        self.file(f"sys/devices/{parent}/mdev_supported_types/nvidia-222/name", "GRID T4-1B")
        self.device(f"{parent}/{MDEV}", "bus/mdev")
        self.link(f"sys/devices/{parent}/{MDEV}/mdev_type", f"sys/devices/{parent}/mdev_supported_types/nvidia-222")
        self.group(f"{parent}/{MDEV}", 20 + self.shift)

    def add_network(self):
        port = self.function("0000:07:00.0", "mlx5_core", "0x15b3", "0x1017", "0x020000")
        vf = self.function("0000:07:00.1", "iavf", "0x8086", "0x1889", "0x020000")
        self.link(f"sys/devices/{port}/virtfn0", f"sys/devices/{vf}")
        self.link(f"sys/devices/{vf}/physfn", f"sys/devices/{port}")
        for directory, number in ((port, self.shift), (vf, self.shift + 1)):
            self.child(directory, f"eth{number}", "class/net", type="1", operstate="up", ifindex=str(2 + number),
                       address=f"02:00:00:00:00:{directory[-1:]}7")
        port, name = self.function("0000:0a:00.0", "mlx5_core", "0x15b3", "0x1017", "0x020000"), f"mlx5_{self.shift}"
        self.child(port, f"ib{self.shift}", "class/net", type="1", operstate="up", ifindex=str(12 + self.shift))
        self.child(port, name, "class/infiniband", node_type="1: CA")
        self.file(f"sys/devices/{port}/infiniband/{name}/ports/1/link_layer", "Ethernet")
        self.file(f"sys/devices/{port}/infiniband/{name}/ports/1/state", "4: ACTIVE")
        self.child(port, f"uverbs{self.shift}", "class/infiniband_verbs", self.node(f"infiniband/uverbs{self.shift}", 231, 192 + self.shift),
                   ibdev=name)
        make_node(self.path("dev/infiniband/rdma_cm"))

    def add_nvidia(self):
        self.function("0000:08:00.0", "nvidia", "0x10de", "0x20b0", "0x030200")
        self.file("proc/driver/nvidia/version", "NVRM version: NVIDIA UNIX x86_64 Kernel Module  535.54.03  Release Build")
        self.file("proc/driver/nvidia/gpus/0000:08:00.0/information",
                  f"Model: \t\t NVIDIA A100\nGPU UUID: \t {GPU_UUID}\nDevice Minor: \t {self.shift}\nGPU Excluded:\t No")
        for name in (f"nvidia{self.shift}", "nvidiactl", "nvidia-uvm"):
            make_node(self.path(f"dev/{name}"))

    def add_usb(self):
        """The bus and the numbers on it, and the names of what the device has. The port is the same."""
        bus, number, n = 1 + self.shift, 4 + self.shift, self.shift
        host = "pci0000:00/0000:00:14.0"
        self.device(host, "bus/pci", numa_node="0", vendor="0x8086", device="0x31a8", **{"class": "0x0c0330"})
        hub, name = f"{host}/usb{bus}", f"{bus}-2"
        self.device(hub, "bus/usb", f"DEVTYPE=usb_device\nDEVNAME=bus/usb/{bus:03}/001", busnum=str(bus), devnum="1", bDeviceClass="09",
                    idVendor="1d6b", idProduct="0002")
        node = f"bus/usb/{bus:03}/{number:03}"
        self.device(f"{hub}/{name}", "bus/usb", f"{self.node(node, 189, number)}\nDEVTYPE=usb_device\nDRIVER=usb", busnum=str(bus),
                    devnum=str(number), bDeviceClass="00", idVendor="046d", idProduct="0825", serial="A9F1", manufacturer="Logitech",
                    product="Webcam C270")
        interface = f"{hub}/{name}/{name}:1.0"
        self.device(interface, "bus/usb", "DEVTYPE=usb_interface", bInterfaceClass="0e")
        for subsystem, child in (("video4linux", f"video{n}"), ("input", f"event{n}"), ("hidraw", f"hidraw{n}"), ("block", f"sd{'ab'[n > 0]}"),
                                 ("tty", f"ttyACM{n}")):
            self.child(interface, child, f"class/{subsystem}", f"{self.node(child, 81, n)}\nSUBSYSTEM={subsystem}")
        os.makedirs(self.path("run/udev/data"))
        make_node(self.path(f"dev/ttyS{n}"))
        self.link("dev/serial/by-id/console", f"dev/ttyS{n}")

    def add_accelerator(self):
        directory, name = self.function("0000:09:00.0", "intel_vpu", "0x8086", "0x7d1d", "0x120000"), f"accel{self.shift}"
        self.child(directory, name, "class/accel", self.node(f"accel/{name}", 261, self.shift), dev=f"261:{self.shift}")
