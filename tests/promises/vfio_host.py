# SPDX-License-Identifier: Apache-2.0
"""PCI functions that are bound to vfio-pci, in a folder. A function has an IOMMU group of its own, whose number is the name of its
device node; the kernel numbers groups in the order in which it finds functions."""
import os
import shutil

from node import make_node


class VfioHost:
    def __init__(self, root):
        self.root = root
        self.groups = {}  # numbers by the address of the function
        for folder in ("sys/bus/pci/devices", "sys/bus/pci/drivers/vfio-pci", "dev/vfio"):
            os.makedirs(self.path(folder))
        make_node(self.path("dev/vfio/vfio"))

    def path(self, *names):
        return os.path.join(self.root, *names)

    def plug(self, address, group, device="0x1eb8"):
        """Adds a function. It is complete when it can be found."""
        function, members = self.path("sys/devices", address), self.path(f"sys/kernel/iommu_groups/{group}/devices")
        os.makedirs(function)
        os.makedirs(members)
        for attribute, value in {"vendor": "0x10de", "device": device, "class": "0x030200", "numa_node": "-1"}.items():
            with open(os.path.join(function, attribute), "w") as file:
                file.write(value + "\n")
        os.symlink("../../bus/pci/drivers/vfio-pci", os.path.join(function, "driver"))
        os.symlink(f"../../kernel/iommu_groups/{group}", os.path.join(function, "iommu_group"))
        os.symlink(f"../../../../devices/{address}", os.path.join(members, address))
        make_node(self.path(f"dev/vfio/{group}"))
        os.symlink(f"../../../devices/{address}", self.path("sys/bus/pci/devices", address))
        self.groups[address] = group

    def unplug(self, address):
        group = self.groups.pop(address)
        os.unlink(self.path("sys/bus/pci/devices", address))
        os.unlink(self.path(f"dev/vfio/{group}"))
        shutil.rmtree(self.path("sys/devices", address))
        shutil.rmtree(self.path(f"sys/kernel/iommu_groups/{group}"))
