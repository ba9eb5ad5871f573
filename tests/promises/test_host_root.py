# SPDX-License-Identifier: Apache-2.0
"""The host looked at through a directory, as in a container; what the kubelet is told are the host's paths."""
import os
import shutil
import stat
import unittest

from node import NodeTest, path, until


class HostRoot(NodeTest):
    def setUp(self):
        super().setUp()
        self.host = self.node.path("host")
        for number in range(2):
            self.add_device(number)

    def make(self, name, text):
        file = self.host + name
        os.makedirs(os.path.dirname(file), exist_ok=True)
        with open(file, "w") as stream:
            stream.write(text)

    def add_device(self, number):
        """Node, attributes and a link as udev makes them, all with the host's paths."""
        os.makedirs(f"{self.host}/dev/by-id", exist_ok=True)
        os.mknod(f"{self.host}/dev/x{number}", 0o600 | stat.S_IFCHR, os.makedev(240, number))
        self.make(f"/sys/devices/x{number}/numa_node", f"{number}\n")
        self.make(f"/sys/devices/x{number}/serial", f"S{number}\n")
        os.makedirs(f"{self.host}/sys/dev/char", exist_ok=True)
        os.symlink(f"/sys/devices/x{number}", f"{self.host}/sys/dev/char/240:{number}")
        os.symlink(f"/dev/x{number}", f"{self.host}/dev/by-id/serial-{number}")

    def serve(self, *resources, root=None):
        self.node.configure(*resources, text=f'host_root = "{root or self.host}";')
        self.node.start_kubelet()
        self.node.start()

    def await_devices(self, name, key, values):
        def look():
            return [d[key] for d in self.node.resource(f"vendor.example/{name}")["devices"]]

        until(lambda: look() == values, f"{key} of {name} to be {values}")

    def test_devices_and_answers(self):
        self.make("/opt/tool", "")
        self.serve(path("x", "/dev/by-id/serial-*", """container = {
            env = "SERIALS=${attr:serial}"; mounts = ( { host = "/opt/tool"; } ); nodes = ( "/dev/x0" ); }"""))
        self.node.await_allocatable(x=2)
        self.await_devices("x", "numa", [[0], [1]])
        got, why = self.node.pod("p", x=2)
        self.assertIsNone(why)
        self.assertEqual({d["host_path"] for d in got["devices"]}, 
                         {"/dev/by-id/serial-0", "/dev/by-id/serial-1", "/dev/x0"})
        self.assertEqual([m["host_path"] for m in got["mounts"]], ["/opt/tool"])
        self.assertEqual(sorted(got["env"]["SERIALS"].split(",")), ["S0", "S1"])
        self.assertNotIn(self.host, str(got))
        # Events come through the directory, too.
        self.add_device(2)
        self.node.await_allocatable(x=3)
        os.unlink(f"{self.host}/dev/by-id/serial-0")
        self.node.await_allocatable(x=2)

    def test_programs_are_the_containers_own(self):
        """Programs that list devices and programs that run at Allocate are not searched below the host's root."""
        tools = self.node.path("tools")
        os.mkdir(tools)
        for name, text in (("list", '{"version": 1, "devices": [{"id": "cam", "nodes": [{"host": "/dev/x0"}]}]}'),
                           ("give", '{"version": 1, "env": {"LEASE": "7"}}')):
            with open(f"{tools}/{name}", "w") as stream:
                stream.write(f"#!/bin/sh\ncat >/dev/null\necho '{text}'\n")
            os.chmod(f"{tools}/{name}", 0o755)
        self.serve(f"""{{ name = "vendor.example/cam"; driver = "exec";
            match = ( {{ command = [ "{tools}/list" ]; allocate = [ "{tools}/give" ]; }} ); }}""")
        self.node.await_allocatable(cam=1)
        got, why = self.node.pod("p", cam=1)
        self.assertIsNone(why)
        self.assertEqual(got["env"], {"LEASE": "7"})
        self.assertEqual([d["host_path"] for d in got["devices"]], ["/dev/x0"])

    def test_health_file(self):
        self.make("/srv/health/t-0", "too hot\n")
        self.serve("""{ name = "vendor.example/t"; driver = "static"; match = ( { count = 2; } ); health =
            ( { probe = "file"; path = "/srv/health/${id}"; missing = "healthy"; } ); }""")
        self.node.await_allocatable(t=1)
        self.await_devices("t", "reason", ["too hot", ""])
        self.make("/srv/health/t-0", "ok\n")
        self.node.await_allocatable(t=2)

    def test_reload(self):
        """Another host is seen by the same process; a resource's own key wins."""
        other = self.node.path("other")
        os.makedirs(other + "/dev")
        os.mknod(other + "/dev/x7", 0o600 | stat.S_IFCHR, os.makedev(240, 7))
        resources = path("x", "/dev/x*", "overlap = true;"), path("own", "/dev/x*", f'overlap = true; host_root = "{other}";')
        self.serve(*resources)
        self.node.await_allocatable(x=2, own=1)
        pids = {name: r["pid"] for name, r in self.node.await_serving().items()}
        self.node.configure(*resources, text=f'host_root = "{other}/";')
        self.node.reload()
        self.node.await_allocatable(x=1, own=1)
        self.assertIn("~ change vendor.example/x: host_root", self.node.output())
        self.assertIn("= keep 1 resource", self.node.output())
        self.assertEqual(pids, {name: r["pid"] for name, r in self.node.await_serving().items()})
        self.await_devices("x", "id", ["x7"])

    def test_not_mounted(self):
        """Said, not taken for a host without devices."""
        absent = self.node.path("absent")
        self.serve(path("x", "/dev/x*"), root=absent)
        until(lambda: f"host_root: {absent}: No such file or directory; mount the host there" in self.node.output(),
              "the missing directory to be named")
        self.node.await_state("vendor.example/x", "failed")


class EqualDevices(NodeTest):
    """Two USB devices with one serial number."""

    HUB = "/sys/devices/pci0000:00/0000:00:14.0/usb1"

    def setUp(self):
        super().setUp()
        self.host = self.node.path("host")
        self.add("/sys/devices/pci0000:00/0000:00:14.0", "pci")
        self.add(self.HUB, "usb")
        os.makedirs(f"{self.host}/dev/bus/usb/001")
        os.makedirs(f"{self.host}/sys/bus/usb/devices")

    def add(self, directory, bus, **files):
        os.makedirs(self.host + directory)
        os.symlink(f"/sys/bus/{bus}", f"{self.host}{directory}/subsystem")
        for name, text in {"uevent": "", **files}.items():
            with open(f"{self.host}{directory}/{name}", "w") as file:
                file.write(text + "\n")

    def plug(self, port):
        number = f"{port:03}"
        os.mknod(f"{self.host}/dev/bus/usb/001/{number}", 0o600 | stat.S_IFCHR, os.makedev(189, port))
        self.add(f"{self.HUB}/1-{port}", "usb", idVendor="0951", idProduct="1666", bDeviceClass="00", busnum="1",
                 devnum=str(port), serial="1", uevent=f"MAJOR=189\nDEVNAME=bus/usb/001/{number}\nDEVTYPE=usb_device")
        os.symlink(f"{self.HUB}/1-{port}", f"{self.host}/sys/bus/usb/devices/1-{port}")

    def unplug(self, port):
        os.unlink(f"{self.host}/sys/bus/usb/devices/1-{port}")
        shutil.rmtree(f"{self.host}{self.HUB}/1-{port}")
        os.unlink(f"{self.host}/dev/bus/usb/001/{port:03}")

    def healthy(self):
        return {d["id"] for d in self.node.resource("vendor.example/stick")["devices"] if d["health"] == "Healthy"}

    def test_P21_reboot(self):
        """A pod keeps the device that it has, in whatever order they appear."""
        self.node.configure('{ name = "vendor.example/stick"; driver = "usb"; match = ( { vendor = 0x0951; } ); }',
                            text=f'host_root = "{self.host}";')
        self.node.start_kubelet()
        self.node.start()
        held = {}
        for count, port in ((1, 4), (2, 1)):
            self.plug(port)
            self.node.await_allocatable(stick=count)
            given, _ = self.node.pod(f"port-{port}", stick=1)
            self.assertEqual([d["host_path"] for d in given["devices"]], [f"/dev/bus/usb/001/{port:03}"])
            held[port] = given["resources"]["vendor.example/stick"][0]
        self.node.stop_kubelet()
        self.node.stop()
        shutil.rmtree(self.node.run)
        self.unplug(4)
        self.node.start()
        self.node.await_state("vendor.example/stick", "waiting")
        until(lambda: self.healthy() == {held[1]}, "the device that is found first to have the id that its pod has")
        self.plug(4)
        until(lambda: self.healthy() == {held[1], held[4]}, "the other one to have its id")
        self.node.start_kubelet()
        until(lambda: {e["pod"] for e in self.node.kubelet_events() if e["event"] == "pod-readmitted"} ==
              {"port-1", "port-4"}, "both pods to run again")


if __name__ == "__main__":
    unittest.main()
