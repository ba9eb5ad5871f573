# SPDX-License-Identifier: Apache-2.0
"""What each resource of guest/hardware.conf should offer, according to /sys of the machine and not to devplugd.

A row says how the device nodes in /sys make the devices of a resource. A device is a set of nodes and a NUMA node, or None.
"""
import os

# Subsystems of the nodes that a container gets of a USB device.
USB = {"usb", "tty", "sound", "block", "bsg", "scsi_generic", "hidraw"}


class Host:
    """A copy of what /sys says about devices and their nodes."""

    def __init__(self, machine):
        self.nodes = machine.call("nodes", "/sys/devices")
        links = machine.call("find", ["/sys/bus/pci/devices/*", "/sys/bus/usb/devices/*"])
        devices = machine.call("real", links)
        # Interfaces of USB devices have a colon.
        self.functions = [path for link, path in devices.items() if link.startswith("/sys/bus/pci/")]
        self.usb_devices = [path for link, path in devices.items() if link.startswith("/sys/bus/usb/") and ":" not in os.path.basename(link)]
        drivers = machine.call("real", [f"{path}/driver" for path in self.functions])
        self.drivers = {path: os.path.basename(drivers[f"{path}/driver"] or "") for path in self.functions}
        # A namespace whose disk can have several paths is below its subsystem, which links to its controllers.
        self.subsystems = machine.call("real", machine.call("find", ["/sys/class/nvme-subsystem/*/nvme*"]))
        folders = {folder for _, _, folder in self.nodes} | set(self.functions)
        above = {parent for folder in folders for parent in ancestors(folder)}
        files = [f"{folder}/hidden" for folder in folders] + [f"{folder}/numa_node" for folder in above]
        self.texts = {path: text for path, text in machine.call("read", files).items() if text is not None}
        numbers = machine.call("look", [node for _, node, _ in self.nodes])
        databases = {f"/run/udev/data/c{place[1]}": node for node, place in numbers.items() if place and place[0] == "char"}
        self.udev = {databases[path]: text or "" for path, text in machine.call("read", list(databases)).items()}

    def of(self, subsystem, start="/dev/", below="/sys/devices/"):
        return [(node, folder) for its, node, folder in self.nodes if its == subsystem and node.startswith(start) and
                folder.startswith(below) and self.texts.get(f"{folder}/hidden") != "1"]

    def numa(self, folder):
        """The node of the nearest device above that has one."""
        known = (self.texts.get(f"{place}/numa_node") for place in ancestors(folder))
        node = next((int(text) for text in known if text is not None), -1)
        return node if node >= 0 else None


def ancestors(folder):
    while folder != "/sys/devices" and len(folder) > 1:
        yield folder
        folder = os.path.dirname(folder)


def one(*nodes):
    return lambda host: [(set(nodes), None)]


def nothing(count=0):
    """Devices that have no nodes."""
    return lambda host: [(set(), None)] * count


def each(subsystem, start="/dev/", below="/sys/devices/", numa=True):
    return lambda host: [({node}, host.numa(folder) if numa else None) for node, folder in host.of(subsystem, start, below)]


def grouped(found, key, numa):
    groups = {}
    for node, folder in found:
        groups.setdefault(key(folder), set()).add(node)
    return [(nodes, numa(folder)) for folder, nodes in groups.items()]


def displays(host):
    return grouped(host.of("drm"), lambda folder: os.path.dirname(os.path.dirname(folder)), host.numa)


def cameras(host):
    """Nodes of one device together. udev has found out which of them capture."""
    found = [(node, folder) for node, folder in host.of("video4linux") if ":capture:" in host.udev.get(node, "")]
    return grouped(found, lambda folder: os.path.dirname(os.path.dirname(folder)), host.numa)


def controllers(host):
    """NVMe controllers, each with the nodes of its namespaces."""
    devices = []
    for node, folder in host.of("nvme"):
        places = [folder + "/"]
        places += [f"/sys/devices/virtual/nvme-subsystem/{os.path.basename(os.path.dirname(link))}/"
                   for link, path in host.subsystems.items() if path == folder]
        found = host.of("block") + host.of("nvme-generic")
        devices.append(({node} | {name for name, place in found if place.startswith(tuple(places))}, host.numa(folder)))
    return devices


def functions(*drivers):
    """PCI functions that give no nodes."""
    return lambda host: [(set(), host.numa(path)) for path in host.functions if host.drivers[path] in drivers]


def usb(*ports, subsystems=USB):
    """USB devices at these ports of the root hub."""
    def list_devices(host):
        devices = []
        for port in ports:
            top = next(path for path in host.usb_devices if path.endswith(f"/1-{port}"))
            found = {node for subsystem, node, folder in host.nodes if subsystem in subsystems and f"{folder}/".startswith(f"{top}/")}
            devices.append((found, host.numa(top)))
        return devices
    return list_devices


# What the kernel and udev have made when they are done with the devices of a start. Patterns, and how many paths match.
PRESENT = {
    "/dev/serial/by-path/*-port0": 4,
    "/dev/disk/by-id/usb-*": 1,
    "/dev/snd/by-id/*": 1,
    "/dev/mmcblk0": 1,
    "/dev/disk/by-id/scsi-0QEMU*": 1,
    "/dev/hidraw0": 1,
    "/dev/nvme*n1": 2,
    "/dev/dri/renderD*": 1,
    "/sys/class/ptp/ptp*": 3,
    "/dev/infiniband/uverbs0": 1,
}

ADAPTER_PORTS = ("1.1", "1.2", "2", "6")

# Resources with replicas have one row for each piece of hardware.
RESOURCES = {
    "preset.example/dax": each("dax"),
    "preset.example/dri-render": each("drm", "/dev/dri/renderD"),
    "preset.example/fuse": one("/dev/fuse"),
    "preset.example/gpio": nothing(),
    "preset.example/hwrng": one("/dev/hwrng"),
    "preset.example/i2c": each("i2c-dev"),
    "preset.example/kvm": one("/dev/kvm"),
    "preset.example/loop": each("block", "/dev/loop"),
    "preset.example/pmem": each("block", "/dev/pmem"),
    "preset.example/ptp": each("ptp"),
    "preset.example/rdma-shared": one("/dev/infiniband/rdma_cm", "/dev/infiniband/uverbs0"),
    "preset.example/rtc": each("rtc"),
    "preset.example/serial": each("tty", "/dev/ttyUSB"),
    "preset.example/snd": one("/dev/snd"),
    "preset.example/socketcan": nothing(2),
    "preset.example/tpm": each("tpmrm"),
    "preset.example/tun": one("/dev/net/tun"),
    "preset.example/uinput": one("/dev/uinput"),
    "preset.example/vfio-gpu": nothing(),
    "preset.example/vhost-net": one("/dev/vhost-net"),
    "preset.example/vhost-vsock": one("/dev/vhost-vsock"),
    "preset.example/video": nothing(),
    "preset.example/watchdog": each("watchdog"),
    "drm.example/display": displays,
    "net.example/interface": nothing(),
    "net.example/pf": functions("igb", "e1000e"),
    "net.example/vf": nothing(),
    "pci.example/group": nothing(),
    "pci.example/mdev": nothing(),
    "pci.example/nvme": controllers,
    "pci.example/uio": nothing(),
    "pci.example/vdpa": nothing(),
    "pci.example/vf": nothing(),
    # The NUMA node is that of its network card.
    "rdma.example/hca": lambda host: [({"/dev/infiniband/rdma_cm", "/dev/infiniband/uverbs0"}, 0)],
    "static.example/seat": nothing(2),
    "sysfs.example/camera": cameras,
    "sysfs.example/disk": each("block", below="/sys/devices/pci"),
    "sysfs.example/hidraw": each("hidraw"),
    "sysfs.example/tty": each("tty", "/dev/ttyUSB"),
    "usb.example/adapter": usb(*ADAPTER_PORTS),
    "usb.example/audio": usb("4"),
    "usb.example/ccid": usb("5"),
    "usb.example/port": usb(*ADAPTER_PORTS, subsystems={"tty"}),
    "usb.example/stick": usb("1.3"),
}
