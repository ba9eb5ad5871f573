# SPDX-License-Identifier: Apache-2.0
"""What each driver reads of the host, as docs/container.md lists it: a directory that is not mounted is named, and is not taken for
a host without devices."""
import json
import os
import re
import stat
import unittest

from nvidia_host import PROC, NvidiaHost
from tool import ToolTest

ROOT = os.path.realpath(os.path.join(os.path.dirname(__file__), "../.."))
# Each row of the table: resources, the directory that each of them reads, and a file by which it exists.
ROWS = {
    "all drivers but `static` and `exec`": [
        ('driver = "path"; match = "/dev/video*";', "/dev", None),
        ('driver = "sysfs"; match = "dsa";', "/sys", None)],
    "`usb`; conditions on a `property`": [
        ('driver = "usb"; match = ( { vendor = 0x0403; nodes = "tty"; } );', "/run/udev/data", "/run/udev/data/c188:0"),
        ('driver = "sysfs"; match = ( { subsystem = "tty"; attributes = ( { property = "MODEL"; is = "x"; } ); } );',
         "/run/udev/data", None)],
    "`net`": [('driver = "net"; match = ( { type = "interface"; interface = "*"; } );', "/proc/1/net", "/proc/1/net/route")],
    "`nvidia`": [('driver = "nvidia"; match = ( { } );', PROC, None)],
    "`nvidia` with `expose = \"cdi\"`; `container.cdi`": [
        ('driver = "nvidia"; match = ( { expose = "cdi"; } );', "/etc/cdi", "/etc/cdi/empty"),
        ('driver = "static"; match = ( { id = "a"; } ); container = { cdi = ( "v.example/f=a" ); };', "/usr", "/usr/lib/libf.so")],
    "block devices of any driver; `pci`": [
        ('driver = "sysfs"; match = ( { subsystem = "block"; } );', "/proc/1/mountinfo", "/proc/1/mountinfo")],
    "`values` of `sysfs`": [
        ('driver = "sysfs"; match = ( { subsystem = "tty"; nodes = "${value:node}"; '
         'values = ( { name = "node"; file = "/proc/driver/x/information"; line = "Node:"; } ); } );',
         "/proc/driver/x/information", "/proc/driver/x/information")],
    "a probe `file`": [
        ('driver = "static"; match = ( { id = "a"; } ); '
         'health = ( { probe = "file"; path = "/srv/health/${id}"; missing = "healthy"; } );', "/srv/health/", "/srv/health/b")],
    "`container.mounts`": [
        ('driver = "static"; match = ( { id = "a"; } ); container = { mounts = ( { host = "/opt/tool"; } ); };', "/opt/tool", "/opt/tool")],
}


def read_table():
    """The rows of the manual: the first column, and the directories of the second one."""
    with open(os.path.join(ROOT, "docs/container.md")) as file:
        table = file.read().split("| driver or key | directory of the host |", 1)[1].split("\n\n", 1)[0]
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in table.splitlines()[2:]]
    return {row[0]: re.findall(r"`(/[^`]*)`", row[1]) for row in rows}


class HostMounts(ToolTest, NvidiaHost):
    GPUS = 1

    def setUp(self):
        super().setUp()
        self.host = self.node.path("host")
        self.load_driver("535.54.03")
        usb = "/sys/devices/pci0000:00/0000:00:14.0/usb1/1-1"
        self.plant(usb, "bus/usb", idVendor="0403", idProduct="6001", bDeviceClass="00", busnum="1", devnum="5",
                   uevent="MAJOR=189\nMINOR=4\nDEVNAME=bus/usb/001/005\nDEVTYPE=usb_device")
        self.plant(usb + "/1-1:1.0", "bus/usb", uevent="DEVTYPE=usb_interface")
        self.plant(usb + "/1-1:1.0/ttyUSB0", "class/tty", dev="188:0", uevent="MAJOR=188\nMINOR=0\nDEVNAME=ttyUSB0")
        self.plant("/sys/devices/virtual/block/zram0", "class/block", dev="7:0",
                   uevent="MAJOR=7\nMINOR=0\nDEVNAME=zram0\nDEVTYPE=disk")
        os.makedirs(self.host + "/sys/dev/block")
        os.symlink("/sys/devices/virtual/block/zram0", self.host + "/sys/dev/block/7:0")
        os.makedirs(self.host + "/dev/bus/usb/001")
        for name, kind, number in (("ttyUSB0", stat.S_IFCHR, (188, 0)), ("bus/usb/001/005", stat.S_IFCHR, (189, 4)),
                                   ("zram0", stat.S_IFBLK, (7, 0))):
            os.mknod(f"{self.host}/dev/{name}", 0o600 | kind, os.makedev(*number))
        self.make("/run/cdi/f.json", json.dumps({
            "cdiVersion": "0.5.0", "kind": "v.example/f", "devices": [{"name": "a", "containerEdits": {
                "mounts": [{"hostPath": "/usr/lib/libf.so", "containerPath": "/x"}]}}]}))

    def plant(self, path, subsystem, **files):
        """A device in /sys."""
        for name, text in files.items():
            self.make(f"{path}/{name}", text + "\n")
        os.symlink(f"/sys/{subsystem}", f"{self.host}{path}/subsystem")
        folder = f"{self.host}/sys/{subsystem}" + ("/devices" if subsystem.startswith("bus") else "")
        os.makedirs(folder, exist_ok=True)
        os.symlink(path, f"{folder}/{os.path.basename(path)}")

    def look(self, resource, root):
        """What "preview" reports: notes, and reasons of devices."""
        self.node.configure(f'{{ name = "vendor.example/x"; {resource} }}')
        answer = self.ctl("--json", "preview", "--root", root, "vendor.example/x")
        self.assertEqual(answer.returncode, 0, answer.stderr)
        found = json.loads(answer.stdout)
        return "\n".join([*found["notes"], *(device["reason"] for device in found["devices"])])

    def test_table(self):
        """The manual has these rows, and each names the directories that are read."""
        table = read_table()
        self.assertEqual(list(table), list(ROWS))
        for row, cases in ROWS.items():
            for _, directory, _ in cases:
                self.assertTrue(not table[row] or any(directory.startswith(found) for found in table[row]), (row, directory))

    def test_what_is_not_mounted_is_named(self):
        for row, cases in ROWS.items():
            for resource, directory, file in cases:
                with self.subTest(row, directory=directory):
                    place = self.host + directory.rstrip("/")
                    if os.path.exists(place):
                        os.rename(place, self.host + "/away")
                    named = re.compile(f"(has no|needs|mount the host's) {directory}|{directory} is missing")
                    self.assertRegex(self.look(resource, self.host), named)
                    if os.path.exists(self.host + "/away"):
                        os.rename(self.host + "/away", place)
                    else:
                        self.make(file, "")
                    self.assertNotRegex(self.look(resource, self.host), named)

    def test_check(self):
        """Counts a directory that is not mounted, until it is."""
        os.mkdir(self.host + "/proc/1")
        self.serve('{ name = "vendor.example/disk"; driver = "sysfs"; match = ( { subsystem = "block"; } ); }',
                   text=f'host_root = "{self.host}";')
        missing = (f"vendor.example/disk: host_root {self.host} has no /proc/1/mountinfo, so .*: mount it from the host\n")
        answer = self.ctl("check")
        self.assertEqual(answer.returncode, 1, answer.stdout)
        self.assertRegex(answer.stdout, missing)
        self.assertEqual(json.loads(self.ctl("check", "--json").stdout)["undiscovered"], 1)
        self.make("/proc/1/mountinfo", "")
        self.node.stop()
        self.node.start()
        self.node.await_serving()
        answer = self.ctl("check")
        self.assertEqual((answer.returncode, answer.stdout), (0, "1 resource, 1 device: no problem\n"))


if __name__ == "__main__":
    unittest.main()
