# SPDX-License-Identifier: Apache-2.0
"""Hosts with two accelerators of each preset, in folders, as their drivers show them in /sys, /proc and /dev. The kernel gives the
numbers in `numbers` to the devices at the addresses, so that a renumbered host has the same hardware.
"""
import os
import shutil
import stat

from host_tree import HostTree

ADDRESSES = ("0000:03:00.0", "0000:41:00.0")
# A card of another vendor and a bridge, which each host has.
OTHERS = (("0000:05:00.0", "nvidia", "0x10de", "0x20b0", "0x030200"), ("0000:00:1f.0", None, "0x1d94", "0x1452", "0x060000"))


class AcceleratorHost(HostTree):
    def __init__(self, root, preset, numbers=(0, 1), addresses=ADDRESSES):
        super().__init__(root)
        self.addresses = addresses
        for folder in ("dev", "sys/bus/pci/devices", "sys/class"):
            os.makedirs(self.path(folder))
        for address, driver, vendor, device, kind in OTHERS:
            self.function(address, driver, vendor, device, kind)
        for address, number in zip(addresses, numbers):
            HOSTS[preset](self, address, number)

    def remove(self, name):
        if os.path.isdir(self.path(name)) and not os.path.islink(self.path(name)):
            shutil.rmtree(self.path(name))
        else:
            os.unlink(self.path(name))

    def node(self, name, number=0, major=240):
        path = self.path(f"dev/{name}")
        os.makedirs(os.path.dirname(path), exist_ok=True)
        if not os.path.exists(path):
            os.mknod(path, stat.S_IFCHR | 0o666, os.makedev(major, number))
        return f"MAJOR={major}\nMINOR={number}\nDEVNAME={name}"

    def nodes(self, *names):
        for name in names:
            self.node(name)

    def function(self, address, driver, vendor, device, kind, **files):
        directory = f"pci0000:00/{address}"
        self.device(directory, "bus/pci", f"DRIVER={driver}" if driver else "", vendor=vendor, device=device, **{"class": kind, "numa_node": "1", "config": vendor, **files})
        if driver:
            self.bind(directory, driver)
        return directory

    def child(self, parent, name, kind, node, number, major=240, **files):
        """A device of a class below a function, with its node."""
        directory = f"{parent}/{kind}/{name}"
        self.device(directory, f"class/{kind}", self.node(node, number, major), dev=f"{major}:{number}", **files)
        self.link(f"sys/devices/{directory}/device", f"sys/devices/{parent}")

    def software(self, name, kind, node, number, **files):
        """A device of a class without a parent."""
        self.device(f"virtual/{kind}/{name}", f"class/{kind}", self.node(node, number), **files)

    def drm(self, parent, number):
        """The kernel gives GPUs of other drivers the first numbers."""
        self.child(parent, f"card{1 + number}", "drm", f"dri/card{1 + number}", 1 + number, 226)
        self.child(parent, f"renderD{129 + number}", "drm", f"dri/renderD{129 + number}", 129 + number, 226)

    def group(self, directory, number):
        self.join_group(directory, number)
        self.node(f"vfio/{number}", number)


def cambricon(host, address, number):
    host.function(address, "cambricon-pci-drv_mlu370_pigeon", "0xcabc", "0x0370", "0x120000")
    host.file(f"proc/driver/cambricon/mlus/{address}/information",
              f"Device name: MLU370-X8\nDevice inode path: /dev/cambricon_dev{number}\nDevice Major: 240")
    host.nodes(f"cambricon_dev{number}", f"cambricon_ipcm{number}", "cambricon_ctl", "cambricon_gdr")
    host.file("usr/bin/cnmon", "")


def hygon(host, address, number):
    host.drm(host.function(address, "hycu", "0x1d94", "0x6210", "0x038000"), number)
    host.nodes("kfd", "mkfd")
    os.makedirs(host.path("opt/hyhal"), exist_ok=True)


def metax(host, address, number):
    host.drm(host.function(address, "metax", "0x9999", "0x4001", "0x030200"), number)
    host.nodes("mxcd", "mxnd")
    os.makedirs(host.path("opt/maca"), exist_ok=True)


def mthreads(host, address, number):
    gpu = host.function(address, "mtgpu", "0x1ed5", "0x0323", "0x030000")
    host.drm(gpu, number)
    host.child(gpu, f"mtgpu.{number}", "misc", f"mtgpu.{number}", 60 + number, 10)
    host.function(address[:-1] + "1", "snd_hda_intel", "0x1ed5", "0x03ff", "0x040300")


def iluvatar(host, address, number):
    """Nothing in /sys leads from the node to the function."""
    host.function(address, "iluvatar", "0x1e3e", "0x0002", "0x120000")
    host.nodes(f"iluvatar{number}", "itrctl")


def ascend(device):
    def build(host, address, number):
        host.function(address, "devdrv_device_driver", "0x19e5", device, "0x120000", dev_id=str(number))
        host.software(f"davinci{number}", "devdrv-class", f"davinci{number}", number)
        host.nodes("davinci_manager", "hisi_hdc", "devmm_svm")
        host.file("usr/local/bin/npu-smi", "")

    return build


def ascend_310b(host, _, number):
    host.software(f"davinci{number}", "devdrv-class", f"davinci{number}", number)
    host.software(f"vdavinci{100 + number}", "devdrv-class", f"vdavinci{100 + number}", 100 + number)
    host.nodes("davinci_manager", "davinci_manager_docker", "svm0", "ts_aisle", "vdec")


def ascend_950(host, _, number):
    host.software(f"davinci{number}", "devdrv-class", f"davinci{number}", number)
    host.nodes("davinci_manager", "hisi_hdc", "uburma/udma0", "ummu/tid")


def enflame(host, address, number):
    host.child(host.function(address, "gcu", "0x1e36", "0xc035", "0x120000"), f"gcu{number}", "enflame", f"gcu{number}", number)
    host.nodes("gcuctl")


def kunlunxin(host, address, number):
    host.function(address, "kunlun", "0x1d22", "0x3684", "0x120000")
    host.nodes(f"xpu{number}", "xpuctrl")
    host.file(f"proc/kunlun/dev{number}/info", "")


def neuron(host, address, number):
    host.function(address, "neuron", "0x1d0f", "0x7364", "0x120000")
    host.software(f"neuron{number}", "neuron_device", f"neuron{number}", number, core_count="8",
                  **{"stats/hardware/mem_ecc_uncorrected": "0", "stats/hardware/sram_ecc_uncorrected": "0"})


def gaudi(host, address, number):
    """Another driver has the first node of the class."""
    card = host.function(address, "habanalabs", "0x1da3", "0x1020", "0x120000", status="Operational", module_id=address[6])
    host.child(card, f"accel{1 + number}", "accel", f"accel/accel{1 + number}", 1 + number, 261)
    host.child(card, f"uverbs{number}", "infiniband_verbs", f"infiniband/uverbs{number}", 192 + number, 231)
    host.node(f"accel/accel_controlD{1 + number}", 64 + number, 261)


def tpu(host, address, number):
    """A chip with two functions, each of which has an IOMMU group."""
    for place in range(2):
        group = 20 + 2 * number + place
        host.group(host.function(f"{address[:-1]}{place}", "vfio-pci", "0x1ae0", "0x0076", "0x120000"), group)
    host.node("vfio/vfio")


def qualcomm(host, address, number):
    soc = host.function(address, "qaic", "0x17cb", "0xa100", "0x120000")
    host.child(soc, f"accel{number}", "accel", f"accel/accel{number}", number, 261)


def tenstorrent(host, address, number):
    card = host.function(address, "tenstorrent", "0x1e52", "0x401e", "0x120000")
    host.child(card, f"tenstorrent!{number}", "tenstorrent", f"tenstorrent/{number}", number, tt_card_type="n150")
    os.makedirs(host.path("dev/hugepages-1G"), exist_ok=True)


def rebellions(host, address, number):
    card = host.function(address, "rebellions", "0x1eff", "0x1220", "0x120000")
    host.child(card, f"rbln{number}", "rebellions", f"rbln{number}", number, status="0")
    host.nodes("rsd0")


def furiosa(host, address, number):
    host.function(address, "rngd", "0x1ed2", "0x0001", "0x120000")
    host.software(f"rngd!npu{number}mgmt", "rngd_mgmt", f"rngd/npu{number}mgmt", number, busname=address)
    host.nodes(*(f"rngd/npu{number}{part}" for part in ("bar0", "ch0", "ch0r", "dmar", "pe0", "pe0-3")))


def hailo(host, address, number):
    """One of each kind."""
    kind, node = ("hailo_chardev", "hailo") if address == host.addresses[0] else ("hailo1x", "h1x-")
    host.function(address, "hailo", "0x1e60", "0x2864", "0x120000")
    host.software(f"{node}{number}", kind, f"{node}{number}", number, device_id=address)


def xdna(host, address, number):
    npu = host.function(address, "amdxdna", "0x1022", "0x17f0", "0x118000")
    host.child(npu, f"accel{number}", "accel", f"accel/accel{number}", number, 261)


HOSTS = {
    "amd-xdna": xdna, "ascend-310": ascend("0xd100"), "ascend-310b": ascend_310b, "ascend-310p": ascend("0xd500"),
    "ascend-910": ascend("0xd802"), "ascend-950": ascend_950, "aws-neuron": neuron, "cambricon-mlu": cambricon, "enflame-gcu": enflame,
    "furiosa": furiosa, "google-tpu": tpu, "hailo": hailo, "hygon-dcu": hygon, "iluvatar-gpu": iluvatar, "intel-gaudi": gaudi,
    "kunlunxin-xpu": kunlunxin, "metax-gpu": metax, "mthreads-gpu": mthreads, "qualcomm-aic": qualcomm, "rebellions": rebellions,
    "tenstorrent": tenstorrent,
}
