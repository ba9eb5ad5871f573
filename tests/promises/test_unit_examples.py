# SPDX-License-Identifier: Apache-2.0
"""The units in units/examples are what systemd understands, and do what they say to a tree that stands for /sys."""
import glob
import os
import re
import shlex
import shutil
import subprocess
import tempfile
import unittest
import unittest.mock

EXAMPLES = os.path.join(os.path.dirname(os.path.realpath(__file__)), "../../units/examples")
CARD = "/sys/bus/pci/devices/0000:6b:00.0"
UUID = "83b8f4f2-509f-382f-3c1e-e6bfe0fa1001"


def keys(unit, key):
    with open(os.path.join(EXAMPLES, unit)) as file:
        return re.findall(rf"^{key}=(.*)$", file.read(), re.M)


class UnitExamples(unittest.TestCase):
    def setUp(self):
        self.dir = tempfile.mkdtemp(prefix="devplugd-test.")
        self.addCleanup(shutil.rmtree, self.dir)

    def write(self, path, text):
        os.makedirs(os.path.dirname(self.dir + path), exist_ok=True)
        with open(self.dir + path, "w") as file:
            file.write(text)

    def read(self, path):
        with open(self.dir + path) as file:
            return file.read()

    def run_unit(self, unit, instance, key="ExecStart"):
        """Its commands, one after the other, as systemd expands and quotes them."""
        environment = dict(os.environ)
        for line in keys(unit, "Environment"):
            environment.update(word.split("=", 1) for word in shlex.split(line))
        commands = keys(unit, key)
        self.assertTrue(commands)
        for command in commands:
            command = command.replace("%%", "\0").replace("%i", instance).replace("\0", "%").replace("$$", "$")
            command = command.removeprefix("-").replace("/sys/", self.dir + "/sys/").replace("/run/", self.dir + "/run/")
            subprocess.run(shlex.split(command), check=True, env=environment, timeout=60)

    def test_what_root_lacks(self):
        """A text that sends to root.conf for device nodes or /sys names the lines that are comments there."""
        docs = os.path.join(EXAMPLES, "../../docs")
        with open(os.path.join(EXAMPLES, "root.conf")) as file:
            comments = set(re.findall(r"^#(\w+=)", file.read(), re.M))
        self.assertEqual(comments, {"ProtectKernelTunables=", "DeviceAllow="})
        found = 0
        for path in glob.glob(docs + "/examples/*.conf") + glob.glob(docs + "/peers/*.md"):
            with open(path) as file:
                text = " ".join(file.read().replace("\n#", "\n").split())
            for sentence in re.findall(r"`user` and (?:the drop-in )?[^:]*?root\.conf.*?(?=`user`|\Z)", text):
                with self.subTest(path):
                    found += 1
                    self.assertIn("DeviceAllow=", sentence)
                    self.assertEqual("ProtectKernelTunables=no" in sentence, "to /sys" in sentence)
        self.assertEqual(found, 4)

    def test_systemd_understands(self):
        if not shutil.which("systemd-analyze"):
            self.skipTest("systemd-analyze is not installed")
        for path in glob.glob(EXAMPLES + "/*.service") + glob.glob(EXAMPLES + "/*.timer"):
            name = os.path.basename(path).replace("@.", "@a.")
            shutil.copy(path, os.path.join(self.dir, name))
        names = sorted(glob.glob(self.dir + "/*"))
        self.assertGreater(len(names), 4)
        answer = subprocess.run(["systemd-analyze", "verify", "--man=no", "--recursive-errors=no", *names],
                                capture_output=True, text=True, timeout=60)
        said = [line for line in answer.stderr.splitlines() if any(os.path.basename(name) in line for name in names)]
        # Programs of packages that may be missing here.
        self.assertEqual([line for line in said if "modprobe" not in line], [])

    def test_bind(self):
        for file in (CARD + "/driver_override", CARD + "/driver/unbind", "/sys/bus/pci/drivers_probe"):
            self.write(file, "")
        self.run_unit("bind-vfio@.service", "0000:6b:00.0")
        self.assertEqual(self.read(CARD + "/driver_override"), "vfio-pci\n")
        self.assertEqual(self.read(CARD + "/driver/unbind"), "0000:6b:00.0\n")
        self.assertEqual(self.read("/sys/bus/pci/drivers_probe"), "0000:6b:00.0\n")
        self.run_unit("bind-vfio@.service", "0000:6b:00.0", "ExecStop")
        self.assertEqual(self.read(CARD + "/driver_override"), "\n")
        shutil.rmtree(self.dir + CARD + "/driver")
        self.run_unit("bind-vfio@.service", "0000:6b:00.0")

    def test_virtual_functions(self):
        self.write(CARD + "/sriov_numvfs", "0\n")
        self.run_unit("sriov-vfs@.service", "0000:6b:00.0")
        self.assertEqual(self.read(CARD + "/sriov_numvfs"), "4\n")
        # Correct values are not written again.
        os.chmod(self.dir + CARD + "/sriov_numvfs", 0o444)
        before = os.stat(self.dir + CARD + "/sriov_numvfs").st_mtime_ns
        self.run_unit("sriov-vfs@.service", "0000:6b:00.0")
        self.assertEqual(os.stat(self.dir + CARD + "/sriov_numvfs").st_mtime_ns, before)

    def test_mediated_device(self):
        create = "/sys/bus/pci/devices/0000:3b:00.0/mdev_supported_types/nvidia-230/create"
        self.write(create, "")
        self.run_unit("mdev@.service", UUID)
        self.assertEqual(self.read(create), UUID + "\n")
        self.write(f"/sys/bus/mdev/devices/{UUID}/remove", "")
        self.run_unit("mdev@.service", UUID, "ExecStop")
        self.assertEqual(self.read(f"/sys/bus/mdev/devices/{UUID}/remove"), "1\n")

    def test_quickassist(self):
        self.write(CARD + "/qat/state", "up\n")
        self.write(CARD + "/qat/cfg_services", "dc\n")
        self.run_unit("qat-services@.service", "0000:6b:00.0")
        self.assertEqual(self.read(CARD + "/qat/cfg_services"), "sym;asym\n")
        self.assertEqual(self.read(CARD + "/qat/state"), "up\n")
        os.makedirs(self.dir + "/run/qat")
        self.run_unit("qat-heartbeat.service", "")
        self.assertEqual(os.listdir(self.dir + "/run/qat"), [])
        self.write("/sys/kernel/debug/qat_4xxx_0000:6b:00.0/heartbeat/status", "-1\n")
        self.write("/sys/kernel/debug/qat_c6xx_0000:70:00.0/heartbeat/status", "0\n")
        self.run_unit("qat-heartbeat.service", "")
        self.assertEqual(self.read("/run/qat/0000:6b:00.0"), "-1\n")
        self.assertEqual(self.read("/run/qat/0000:70:00.0"), "0\n")
        shutil.rmtree(self.dir + "/sys/kernel/debug/qat_4xxx_0000:6b:00.0")
        self.run_unit("qat-heartbeat.service", "")
        self.assertEqual(os.listdir(self.dir + "/run/qat"), ["0000:70:00.0"])

    def test_quickassist_rule(self):
        """What udev's rule prints of the card of a virtual function: the peer's getDeviceCapabilities()."""
        with open(os.path.join(EXAMPLES, "70-qat-services.rules")) as file:
            program = re.search(r'IMPORT\{program\}="(.*)"$', file.read(), re.M)[1]
        program = program.replace('\\"', '"').replace("$$", "$").replace("$devpath", "/devices/0000:6b:00.1")
        command = shlex.split(program.replace("/sys/", self.dir + "/sys/"))
        os.makedirs(self.dir + "/sys/devices/0000:6b:00.1")
        os.symlink("../0000:6b:00.0", self.dir + "/sys/devices/0000:6b:00.1/physfn")
        self.write("/sys/kernel/debug/qat_c6xx_0000:6b:00.0/dev_cfg",
                   "[GENERAL]\nServicesEnabled = sym;asym\nConfigVersion = 2\n[KERNEL]\nNumberCyInstances = 0\n")
        self.write("/sys/kernel/debug/qat_c6xx_0000:70:00.0/dev_cfg", "[GENERAL]\nServicesEnabled = dc\n")
        answer = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
        self.assertEqual(answer.stdout, "QAT_SERVICES=sym;asym\n")

    def test_can(self):
        """With a program in the place of ip(8) that writes down what it is asked."""
        self.write("/bin/ip", f'#!/bin/sh\necho "$*" >>{self.dir}/asked\n')
        os.chmod(self.dir + "/bin/ip", 0o755)
        with unittest.mock.patch.dict(os.environ, PATH=f"{self.dir}/bin:{os.environ['PATH']}"):
            self.run_unit("can-bitrate@.service", "can0")
            self.run_unit("vcan@.service", "vcan1")
            self.run_unit("vcan@.service", "vcan1", "ExecStop")
        self.assertEqual(self.read("/asked"), "link set dev can0 down\nlink set dev can0 type can bitrate 500000\n"
                                              "link add dev vcan1 type vcan\nlink delete dev vcan1\n")


if __name__ == "__main__":
    unittest.main()
