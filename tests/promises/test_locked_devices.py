# SPDX-License-Identifier: Apache-2.0
"""A driver may have a device locked for a minute: while it takes the device, resets it, or makes virtual functions. The
kernel has readers of some files in /sys wait for that, and devplugd does not: each resource goes on with its other devices."""
import os
import sys
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.realpath(__file__)), "../peers"))
from locked_file import LockedFile  # noqa: E402
from node import BIN, LIMIT, until  # noqa: E402
from tool import ToolTest  # noqa: E402
os.environ.setdefault("DEVPLUGD_BIN", BIN)
from test_peers import HERE as TREES, plant, plant_line  # noqa: E402

HUB = "/sys/devices/pci0000:00/0000:00:14.0/usb1"
SENSORS = "/sys/devices/platform/sensors"


@unittest.skipUnless(os.path.exists("/dev/fuse"), "needs FUSE")
class LockedDevices(ToolTest):
    def setUp(self):
        super().setUp()
        self.root = self.node.path("host")
        self.plant("/sys/devices/pci0000:00/0000:00:14.0/subsystem -> ../../../bus/pci",
                   f"{HUB}/subsystem -> ../../../../bus/usb", "/sys/bus/pci/", "/sys/bus/usb/devices/",
                   f"{HUB}/uevent = DEVTYPE=usb_device")

    def plant(self, *lines):
        for line in lines:
            plant_line(self.root, line)

    def lock(self, path, text, locked=True):
        file = LockedFile(self.root + path, text, locked)
        self.addCleanup(file.close)
        return file

    def resource(self, name, driver, match, more=""):
        return (f'{{ name = "vendor.example/{name}"; driver = "{driver}"; match = ( {{ {match} }} ); '
                f'host_root = "{self.root}"; {more} }}')

    def plug(self, number, vendor, serial, lock=None):
        """Plugs in the device with a node that is not there; returns the file of its serial number if `lock` is not None."""
        folder = f"{HUB}/1-{number}"
        name = f"/dev/bus/usb/001/{number:03}"
        self.plant(f"{folder}/subsystem -> ../../../../../bus/usb", f"{folder}/idVendor = {vendor}", f"{folder}/idProduct = 6001",
                   f"{folder}/bDeviceClass = 00", f"{folder}/busnum = 1", f"{folder}/devnum = {number}",
                   f"{folder}/uevent = DEVTYPE=usb_device\\nDEVNAME=bus/usb/001/{number:03}", f"{name} c 1 3")
        file = None
        if lock is None:
            self.plant(f"{folder}/serial = {serial}")
        else:
            file = self.lock(f"{folder}/serial", serial + "\n", lock)
        self.plant(f"/sys/bus/usb/devices/1-{number} -> ../../../devices/{folder.removeprefix('/sys/devices/')}")
        return file

    def healthy(self, name):
        return sorted(id_ for id_, (health, _) in self.health(name).items() if health == "Healthy")

    def await_healthy(self, name, *ids):
        until(lambda: self.healthy(name) == sorted(ids), f"{ids} of {name}")

    def await_explained(self, name, words):
        until(lambda: words in self.ctl("explain", "vendor.example/" + name).stdout, words)

    def serve_usb(self):
        self.serve(self.resource("adapters", "usb", "vendor = 0x0403;"), self.resource("sticks", "usb", "vendor = 0x0951;"))
        self.processes = self.node.processes()

    def expect_no_kill(self):
        self.assertEqual(self.node.processes(), self.processes)

    def test_a_usb_device_that_is_known_is_not_read_again(self):
        file = self.plug(1, "0403", "A1", lock=False)
        self.serve_usb()
        self.await_healthy("adapters", "usb-0403-6001-A1")
        file.lock()
        self.plug(2, "0403", "A2")
        self.plug(3, "0951", "S3")
        self.await_healthy("adapters", "usb-0403-6001-A1", "usb-0403-6001-A2")
        self.await_healthy("sticks", "usb-0951-6001-S3")
        self.assertEqual(file.held, [])
        self.expect_no_kill()

    def test_a_new_usb_device_is_listed_when_it_can_be_read(self):
        self.plug(1, "0403", "A1")
        self.serve_usb()
        file = self.plug(2, "0403", "A2", lock=True)
        self.assertTrue(file.await_reader(LIMIT))
        self.plug(3, "0951", "S3")
        self.plug(4, "0403", "A4")
        self.await_healthy("sticks", "usb-0951-6001-S3")
        self.await_healthy("adapters", "usb-0403-6001-A1", "usb-0403-6001-A4")
        self.await_explained("adapters", "USB device 1-2 (0403:6001) is left out until its strings can be read: "
                             "the kernel or a driver has locked it")
        self.assertEqual(len(file.held), 1)
        self.assertEqual(self.node.output().count("USB device 1-2 (0403:6001) is left out"), 1)
        # Its child answers, and takes another configuration.
        self.node.configure(self.resource("adapters", "usb", "vendor = 0x0403;", "share = { replicas = 2; };"),
                            self.resource("sticks", "usb", "vendor = 0x0951;"))
        self.node.reload()
        self.node.await_allocatable(adapters=4, sticks=1)
        self.expect_no_kill()
        file.unlock()
        self.await_healthy("adapters", "usb-0403-6001-A1", "usb-0403-6001-A2", "usb-0403-6001-A4")
        self.expect_no_kill()

    def test_more_than_can_be_read_at_a_time(self):
        self.serve_usb()
        files = [self.plug(number, "0403", f"A{number}", lock=True) for number in range(1, 7)]
        self.plug(7, "0951", "S7")
        self.await_healthy("sticks", "usb-0951-6001-S7")
        for number in range(1, 7):
            self.await_explained("adapters", f"USB device 1-{number} (0403:6001) is left out")
        self.assertLessEqual(sum(len(file.held) for file in files), 4)
        self.expect_no_kill()
        for file in files:
            file.unlock()
        self.await_healthy("adapters", *(f"usb-0403-6001-A{number}" for number in range(1, 7)))
        self.expect_no_kill()

    def test_another_device_at_the_same_port_is_read(self):
        self.plug(1, "0403", "A1")
        self.serve_usb()
        self.await_healthy("adapters", "usb-0403-6001-A1")
        folder = f"{HUB}/1-1"
        os.unlink(f"{self.root}/sys/bus/usb/devices/1-1")
        self.await_healthy("adapters")
        self.plant(f"{folder}/serial = A9", f"{folder}/devnum = 9", "/dev/bus/usb/001/009 c 1 3",
                   f"{folder}/uevent = DEVTYPE=usb_device\\nDEVNAME=bus/usb/001/009",
                   f"/sys/bus/usb/devices/1-1 -> ../../../devices/{folder.removeprefix('/sys/devices/')}")
        self.await_healthy("adapters", "usb-0403-6001-A9")

    def test_virtual_functions_are_seen_without_the_lock(self):
        for name in ("sriov-netdevice", "intel-gpu", "intel-dlb"):
            plant(self.root, os.path.join(TREES, name + ".tree"))
        files = [self.lock(path + "/sriov_numvfs", "1\n")
                 for path in ("/sys/devices/pci0000:3a/0000:3a:00.0/0000:3b:00.0", "/sys/devices/pci0000:6d/0000:6d:00.0",
                              "/sys/devices/pci0000:80/0000:80:01.0/0000:83:00.0", "/sys/devices/pci0000:72/0000:72:00.0")]
        dlb = f'preset = "intel-dlb-%s"; host_root = "{self.root}"; }}'
        self.serve(self.resource("net", "net", 'address = "0000:3b:*"; driver = "iavf";'),
                   self.resource("pci", "pci", 'address = "0000:3b:*";'),
                   self.resource("drm", "drm", 'vendor = 0x8086;'),
                   '{ name = "vendor.example/dlb-pf"; ' + dlb % "pf", '{ name = "vendor.example/dlb-vf"; ' + dlb % "vf")
        self.await_healthy("net", "0000:3b:02.0", "0000:3b:02.1", "0000:3b:02.3")
        self.assertIn("0000:3b:02.2", self.health("pci"))
        self.assertNotIn("0000:3b:00.0", self.health("pci"))
        self.assertNotIn("0000:83:00.0", self.health("drm"))
        self.await_healthy("dlb-pf", "0000:6d:00.0:dlb.0")
        self.await_healthy("dlb-vf", "0000:72:00.1:dlb.0")
        self.assertEqual([len(file.held) for file in files], [0] * len(files))

    def plant_sensor(self, number, text, file="temp1_input", locked=False):
        folder = f"{SENSORS}/sensor{number}"
        self.plant(f"{folder}/uevent = ", f"{folder}/subsystem -> ../../../../class/sensor")
        locked_file = self.lock(f"{folder}/{file}", text, locked)
        self.plant("/sys/class/sensor/", f"/sys/class/sensor/sensor{number} -> ../../devices/platform/sensors/sensor{number}")
        return locked_file

    def test_a_probe_keeps_its_last_result(self):
        first, second = self.plant_sensor(0, "20\n"), self.plant_sensor(1, "20\n")
        probe = 'health = ( { probe = "sysfs"; file = "temp1_input"; maximum = 100; interval = 1; } );'
        self.serve(self.resource("sensor", "sysfs", 'subsystem = "sensor"; id = "${kernel_name}";', probe))
        self.processes = self.node.processes()
        self.await_healthy("sensor", "sensor0", "sensor1")
        first.lock()
        self.assertTrue(first.await_reader(LIMIT))
        second.data = b"200\n"
        self.await_healthy("sensor", "sensor0")
        first.data = b"300\n"
        first.unlock()
        self.await_healthy("sensor")
        self.expect_no_kill()

    def test_a_device_in_use_is_not_disconnected(self):
        """A driver resets the device, or binds to it, while a pod has it."""
        file = self.plant_sensor(0, "0\n", "sriov_numvfs")
        self.serve(self.resource("sensor", "sysfs", 'subsystem = "sensor"; attributes = ( { file = "sriov_numvfs"; is = "0"; } );',
                                 'missing = { on_return = "evict"; };'))
        self.node.await_allocatable(sensor=1)
        given, refused = self.node.pod("a", sensor=1)
        self.assertIsNone(refused)
        device = given["resources"]["vendor.example/sensor"][0]
        file.lock()
        self.plant_sensor(1, "4\n", "sriov_numvfs")
        until(lambda: "which the kernel has locked" in self.health("sensor")[device][1], "the lock to be found")
        file.unlock()
        self.await_healthy("sensor", device)
        # A condition that fails is read: the pod is not to keep the device.
        file.data = b"4\n"
        self.plant_sensor(2, "4\n", "sriov_numvfs")
        until(lambda: "has \"4\"" in self.health("sensor")[device][1], "the new value")
        file.data = b"0\n"
        self.plant_sensor(3, "4\n", "sriov_numvfs")
        until(lambda: self.health("sensor")[device][1].startswith("it was disconnected while a pod had it"), "the pod to be waited for")

    def test_a_condition_that_cannot_be_read(self):
        self.plant_sensor(0, "0\n", "sriov_numvfs")
        file = self.plant_sensor(1, "0\n", "sriov_numvfs", locked=True)
        unused = 'subsystem = "sensor"; id = "${kernel_name}"; attributes = ( { file = "sriov_numvfs"; is = "0"; } );'
        used = ('exclude = ( { match = ( { subsystem = "sensor"; id = "${kernel_name}"; '
                'attributes = ( { file = "sriov_numvfs"; is = "4"; } ); } ); } );')
        self.serve(self.resource("sensor", "sysfs", unused),
                   self.resource("rest", "sysfs", 'subsystem = "sensor"; id = "${kernel_name}";', used + "overlap = true;"))
        self.processes = self.node.processes()
        self.await_healthy("sensor", "sensor0")
        self.await_explained("sensor", "sriov_numvfs of /sys/devices/platform/sensors/sensor1 cannot be read")
        # It is unknown whether it is excluded.
        self.await_healthy("rest", "sensor0")
        self.await_explained("rest", "sriov_numvfs of /sys/devices/platform/sensors/sensor1 cannot be read, the device is left out")
        file.unlock()
        self.await_healthy("rest", "sensor0", "sensor1")
        # Both reasons are true as long as they are shown.
        self.node.await_allocatable(rest=2)
        given, refused = self.node.pod("a", rest=2)
        self.assertIsNone(refused)
        file.lock()
        self.plant_sensor(2, "4\n", "sriov_numvfs")
        self.plant_sensor(3, "0\n", "sriov_numvfs")
        self.await_healthy("rest", "sensor0", "sensor3")
        self.assertEqual(self.health("rest")["sensor1"], ("Unhealthy", "sensor1 is not listed any more: the kernel has locked what "
                                                          "exclude[0] tests"))
        until(lambda: "file sriov_numvfs, which the kernel has locked" in self.node.output(), "the reason of the first resource")
        file.data = b"4\n"
        file.unlock()
        until(lambda: self.health("rest")["sensor1"][1] == "sensor1 is not listed any more: exclude[0] leaves it out", "the exclusion")
        self.assertEqual(self.healthy("rest"), ["sensor0", "sensor3"])
        self.expect_no_kill()


if __name__ == "__main__":
    unittest.main()
