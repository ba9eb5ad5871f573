# SPDX-License-Identifier: Apache-2.0
"""Devices of this machine, as its kernel has them: found by their paths and through /sys, given to a pod, plugged and
unplugged for real where that can be done. What the kernel lacks is skipped, with what is lacking."""
import fcntl
import glob
import os
import struct
import unittest

from node import NodeTest, path, until

LOOP_SET_FD, LOOP_CLR_FD, LOOP_CTL_ADD, LOOP_CTL_REMOVE = 0x4C00, 0x4C01, 0x4C80, 0x4C81
UI_SET_EVBIT, UI_SET_KEYBIT, UI_DEV_CREATE, UI_DEV_DESTROY, UI_DEV_SETUP = 0x40045564, 0x40045565, 0x5501, 0x5502, 0x405C5503
EV_KEY, KEY_A, BUS_USB = 1, 30, 3


def sysfs(name, conditions, more=""):
    return f'{{ name = "vendor.example/{name}"; driver = "sysfs"; match = ( {{ {conditions} }} ); {more} }}'


def healthy(node, name):
    """Ids of the healthy devices of a resource."""
    resource = node.resource("vendor.example/" + name)
    return sorted(d["id"] for d in resource["devices"] if d["health"] == "Healthy") if resource else None


class RealDevices(NodeTest):
    def serve(self, *resources):
        self.node.configure(*resources)
        self.node.start_kubelet()
        self.node.start()
        self.node.await_serving()

    def await_healthy(self, name, ids):
        until(lambda: healthy(self.node, name) == ids, lambda: f"{ids} of {name}; {self.node.resource('vendor.example/' + name)}")

    # --- what is there

    def try_node(self, node_path, sysfs_class):
        """One node that stays where it is, by both drivers."""
        if not os.path.exists(node_path):
            self.skipTest(f"this machine has no {node_path}")
        kernel_name = os.path.basename(os.path.realpath(f"/sys/dev/char/{device_number(node_path)}"))
        self.serve(path("a", node_path, "overlap = true;"),
                   sysfs("b", f'subsystem = "{sysfs_class}"; name = "{kernel_name}";', "overlap = true;"))
        self.node.await_allocatable(a=1, b=1)
        for name in ("a", "b"):
            given, refused = self.node.pod("pod-" + name, **{name: 1})
            self.assertIsNone(refused)
            self.assertEqual([(d["host_path"], d["permissions"]) for d in given["devices"]], [(node_path, "rw")])
        self.assertEqual(healthy(self.node, "b"), [f"{sysfs_class}:{kernel_name}"])

    def test_kvm(self):
        self.try_node("/dev/kvm", "misc")

    def test_tun(self):
        self.try_node("/dev/net/tun", "misc")

    def test_vhost_net(self):
        self.try_node("/dev/vhost-net", "misc")

    def test_fuse(self):
        self.try_node("/dev/fuse", "misc")

    def test_tty(self):
        names = [os.path.basename(name) for name in glob.glob("/sys/class/tty/ttyS*") if os.path.exists("/dev/" + os.path.basename(name))]
        if not names:
            self.skipTest("this machine has no serial port")
        self.serve(path("a", "/dev/ttyS[0-9]*", "overlap = true;"),
                   sysfs("b", 'subsystem = "tty"; name = "ttyS[0-9]*"; id = "${kernel_name}-b";', "overlap = true;"))
        self.await_healthy("a", sorted(names))
        self.await_healthy("b", sorted(name + "-b" for name in names))

    def test_video(self):
        if not glob.glob("/sys/class/video4linux/video*"):
            self.skipTest("this machine has no camera, and its kernel no vivid")
        count = len(glob.glob("/sys/class/video4linux/video*"))
        self.serve(sysfs("a", 'subsystem = "video4linux"; name = "video*";'))
        self.node.await_allocatable(a=count)

    # --- what comes and goes

    def try_plugging(self, plug, unplug, node_path, device_id, subsystem):
        """plug() makes the kernel have the device, unplug() makes it go."""
        name = os.path.basename(node_path)
        self.serve(path("a", node_path, "overlap = true;"),
                   sysfs("b", f'subsystem = "{subsystem}"; name = "{name}";', "overlap = true;"))
        self.assertEqual((healthy(self.node, "a"), healthy(self.node, "b")), ([], []))
        plug()
        self.addCleanup(unplug)
        self.await_healthy("a", [name])
        self.await_healthy("b", [device_id])
        self.node.await_allocatable(a=1, b=1)
        given, refused = self.node.pod("pod", b=1)
        self.assertIsNone(refused)
        self.assertEqual(given["devices"][0]["host_path"], node_path)
        unplug()
        self.await_healthy("a", [])
        self.await_healthy("b", [])
        self.node.await_allocatable(a=0, b=0)
        plug()
        self.await_healthy("a", [name])
        self.await_healthy("b", [device_id])

    def loop_device(self):
        """Number of a loop device that nobody has, and functions to make and remove it."""
        try:
            control = os.open("/dev/loop-control", os.O_RDWR | os.O_CLOEXEC)
        except OSError as error:
            self.skipTest(f"this machine has no loop devices: {error}")
        self.addCleanup(os.close, control)
        number = 1000 + os.getpid() % 100000
        return number, lambda: fcntl.ioctl(control, LOOP_CTL_ADD, number), lambda: remove_loop(control, number)

    def test_loop(self):
        number, plug, unplug = self.loop_device()
        self.try_plugging(plug, unplug, f"/dev/loop{number}", f"block:loop{number}", "block")

    def test_loop_in_use(self):
        """An attribute that comes and goes: only a loop device with a file behind it is one."""
        number, plug, unplug = self.loop_device()
        plug()
        self.addCleanup(unplug)
        self.serve(sysfs("disk", f'subsystem = "block"; name = "loop{number}"; attributes = "loop/backing_file";',
                         'container = { env = "BEHIND=${attr:loop/backing_file}"; };'))
        self.assertEqual(healthy(self.node, "disk"), [])
        with open(self.node.path("disk"), "w+b") as file:
            file.truncate(1 << 20)
            with open(f"/dev/loop{number}", "rb") as device:
                fcntl.ioctl(device, LOOP_SET_FD, file.fileno())
                self.addCleanup(detach, number)
                self.await_healthy("disk", [f"block:loop{number}"])
                self.node.await_allocatable(disk=1)
                given, refused = self.node.pod("pod", disk=1)
                self.assertIsNone(refused)
                self.assertEqual(given["env"], {"BEHIND": file.name})
        detach(number)
        self.await_healthy("disk", [])

    def test_zram(self):
        control = "/sys/class/zram-control/"
        if not os.path.exists(control + "hot_add"):
            self.skipTest("this kernel has no zram")
        with open(control + "hot_add") as file:
            number = int(file.read())
        self.addCleanup(remove_zram, number)
        self.serve(sysfs("disk", f'subsystem = "block"; name = "zram{number}"; attributes = ( {{ file = "disksize"; is = "0"; }} );'))
        self.await_healthy("disk", [f"block:zram{number}"])
        remove_zram(number)
        self.await_healthy("disk", [])

    def test_input(self):
        try:
            control = os.open("/dev/uinput", os.O_WRONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        except OSError as error:
            self.skipTest(f"this kernel makes no input devices: {error}")
        self.addCleanup(os.close, control)
        name = f"devplugd test {os.getpid()}"
        self.serve(sysfs("keys", f'subsystem = "input"; name = "event*"; parents = ( {{ subsystem = "input"; attributes = '
                                 f'( {{ file = "name"; is = "{name}"; }}, {{ file = "id/vendor"; is = "1234"; }} ); }} );'))
        self.assertEqual(healthy(self.node, "keys"), [])
        fcntl.ioctl(control, UI_SET_EVBIT, EV_KEY)
        fcntl.ioctl(control, UI_SET_KEYBIT, KEY_A)
        fcntl.ioctl(control, UI_DEV_SETUP, struct.pack("=HHHH80sI", BUS_USB, 0x1234, 0x5678, 1, name.encode(), 0))
        fcntl.ioctl(control, UI_DEV_CREATE)
        self.node.await_allocatable(keys=1)
        given, refused = self.node.pod("pod", keys=1)
        self.assertIsNone(refused)
        self.assertRegex(given["devices"][0]["host_path"], "^/dev/input/event[0-9]+$")
        fcntl.ioctl(control, UI_DEV_DESTROY)
        self.await_healthy("keys", [])


def device_number(node_path):
    number = os.stat(node_path).st_rdev
    return f"{os.major(number)}:{os.minor(number)}"


def remove_loop(control, number):
    """Waits, because something of the machine may look at every new disk."""

    def is_removed():
        try:
            fcntl.ioctl(control, LOOP_CTL_REMOVE, number)
        except FileNotFoundError:
            pass  # before
        except OSError:
            return False
        return True

    until(is_removed, f"loop{number} to be free")


def detach(number):
    with open(f"/dev/loop{number}", "rb") as device:
        try:
            fcntl.ioctl(device, LOOP_CLR_FD)
        except OSError:
            pass  # detached before


def remove_zram(number):
    if os.path.exists(f"/sys/block/zram{number}"):
        with open("/sys/class/zram-control/hot_remove", "w") as file:
            file.write(str(number))


if __name__ == "__main__":
    unittest.main()
