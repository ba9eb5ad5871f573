# SPDX-License-Identifier: Apache-2.0
"""A host in a folder: files and links of /sys as the kernel makes them. Directories of devices are below sys/devices."""
import os


class HostTree:
    def __init__(self, root):
        self.root = root

    def path(self, name):
        return os.path.join(self.root, name.lstrip("/"))

    def file(self, name, text):
        os.makedirs(os.path.dirname(self.path(name)), exist_ok=True)
        with open(self.path(name), "w") as file:
            file.write(text + "\n")

    def link(self, name, target):
        os.makedirs(os.path.dirname(self.path(name)), exist_ok=True)
        os.symlink(os.path.relpath(self.path(target), os.path.dirname(self.path(name))), self.path(name))

    def device(self, directory, subsystem, uevent="", **files):
        """A device of a class or bus, such as "class/drm"."""
        folder = f"sys/{subsystem}/devices" if subsystem.startswith("bus/") else f"sys/{subsystem}"
        for name, text in {"uevent": uevent, **files}.items():
            self.file(f"sys/devices/{directory}/{name}", text)
        self.link(f"sys/devices/{directory}/subsystem", f"sys/{subsystem}")
        self.link(f"{folder}/{os.path.basename(directory)}", f"sys/devices/{directory}")

    def bind(self, directory, driver):
        """Binds a PCI function to a driver."""
        os.makedirs(self.path(f"sys/bus/pci/drivers/{driver}"), exist_ok=True)
        self.link(f"sys/devices/{directory}/driver", f"sys/bus/pci/drivers/{driver}")

    def join_group(self, directory, number):
        """Adds a device to an IOMMU group."""
        self.file(f"sys/kernel/iommu_groups/{number}/type", "DMA")
        self.link(f"sys/devices/{directory}/iommu_group", f"sys/kernel/iommu_groups/{number}")
        self.link(f"sys/kernel/iommu_groups/{number}/devices/{os.path.basename(directory)}", f"sys/devices/{directory}")
