# SPDX-License-Identifier: Apache-2.0
"""A host with NVIDIA GPUs, in a folder: the files of the kernel's driver, and a stand-in for NVIDIA's library (tests/nvml)."""
import os
import shutil
import stat

from node import BIN, program

PROC = "/proc/driver/nvidia"
# The UUID of a GPU before its first use.
UNKNOWN = "GPU-????????-????-????-????-????????????"


def address(number):
    return f"0000:{0x10 + number:02x}:00.0"


def uuid(number):
    return f"GPU-{number:08x}-483b-b48f-d7e5-75fb19a52b76"


class NvidiaHost:
    GPUS = 8
    serial = 0  # of the last event

    def prepare_host(self, node):
        self.host = node.path("host")
        self.load_driver("535.54.03")
        self.install("535.54.03")
        self.report()
        # A child starts the helper as its own user, who may not be able to enter the folder of the build.
        folder = node.path("bin")
        os.mkdir(folder)
        for name in ("devplugd-plugin", "devplugd-nvml", "devplugd-exporter", "devplugd-cluster"):
            shutil.copy(program(name), folder)
        node.daemon_program = shutil.copy(program("devplugd"), folder)

    def make(self, name, text):
        file = self.host + name
        os.makedirs(os.path.dirname(file), exist_ok=True)
        with open(file + ".new", "w", encoding="latin-1") as stream:
            stream.write(text)
        os.chmod(file + ".new", 0o644)
        os.rename(file + ".new", file)

    def make_node(self, name, major, minor):
        os.makedirs(self.host + "/dev", exist_ok=True)
        os.mknod(f"{self.host}/dev/{name}", 0o666 | stat.S_IFCHR, os.makedev(major, minor))

    def load_driver(self, version):
        self.make(PROC + "/version", f"NVRM version: NVIDIA UNIX x86_64 Kernel Module  {version}  Release Build\n")
        for number in range(self.GPUS):
            self.add_gpu(number, uuid(number))
        self.make_node("nvidiactl", 195, 255)
        self.make_node("nvidia-uvm", 511, 0)
        os.makedirs(self.host + "/sys/module/nvidia")

    def name_gpu(self, number, name):
        self.make(f"{PROC}/gpus/{address(number)}/information",
                  f"Model: \t\t NVIDIA A100\nGPU UUID: \t {name}\nDevice Minor: \t {number}\nGPU Excluded:\t No\n")

    def add_gpu(self, number, name):
        self.name_gpu(number, name)
        # The first bytes of its configuration space: the vendor, not 0xffff.
        self.make(f"/sys/bus/pci/devices/{address(number)}/config", "\xde\x10\xb0\x20" + 60 * "\0")
        self.make_node(f"nvidia{number}", 195, number)

    def unload_driver(self):
        shutil.rmtree(self.host + PROC)
        # So that the next one is another.
        os.rename(self.host + "/sys/module/nvidia", self.host + "/sys/module/unloaded")
        for name in os.listdir(self.host + "/dev"):
            os.unlink(f"{self.host}/dev/{name}")

    def install(self, version):
        folder = self.host + "/usr/lib64"
        shutil.rmtree(folder, ignore_errors=True)
        os.makedirs(folder)
        for name in ("libcuda", "libnvidia-ml"):
            shutil.copy(os.path.join(BIN, "nvml-stub.so"), f"{folder}/{name}.so.{version}")
            os.symlink(f"{name}.so.{version}", f"{folder}/{name}.so.1")

    def report(self, *lines):
        gpus = [f"gpu {address(number)} {uuid(number)}" for number in range(self.GPUS)]
        self.make("/usr/lib64/nvml-state", "\n".join(gpus + list(lines)) + "\n")

    # --- instances

    def make_access(self, folder, number):
        self.make(f"{PROC}/capabilities/{folder}/access",
                  f"DeviceFileMinor: {number}\nDeviceFileMode: 292\nDeviceFileModify: 1\n")
        os.makedirs(self.host + "/dev/nvidia-caps", exist_ok=True)
        os.mknod(f"{self.host}/dev/nvidia-caps/nvidia-cap{number}", 0o444 | stat.S_IFCHR, os.makedev(237, number))

    def split(self, *instances, lines=()):
        """Gives the first GPU a new geometry of (number, UUID), as "nvidia-smi mig" does: what was there goes first. `lines`: what
        the library reports in addition."""
        self.serial += 1
        shutil.rmtree(f"{self.host}{PROC}/capabilities/gpu0", ignore_errors=True)
        shutil.rmtree(f"{self.host}/dev/nvidia-caps", ignore_errors=True)
        for number, _ in instances:
            self.make_access(f"gpu0/mig/gi{number}", 3 + 9 * number)
            self.make_access(f"gpu0/mig/gi{number}/ci0", 4 + 9 * number)
        self.report(f"mig {address(0)} 1", *(f"instance {address(0)} {number} 0 {name} 1g.10gb" for number, name in instances),
                    f"event {self.serial} {address(0)} 100", *lines)
