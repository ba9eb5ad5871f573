# SPDX-License-Identifier: Apache-2.0
"""The emulated machine: its devices, its start, and the two ways in: QMP for devices, the agent for commands."""
import contextlib
import json
import os
import shutil
import socket
import subprocess
import tempfile
import time

# Emulated on a busy computer. It never limits how long something may take that goes well.
LIMIT = 1800.0
# The kernel's first line comes at once with KVM, or never.
KVM_LIMIT = 20.0

# Starts the TPM's emulation and QEMU in their tree, in namespaces that end with this process.
START = """
tree=$1 run=$2
shift 2
mount -t proc proc "$tree/proc"
mount --rbind /dev "$tree/dev"
mount --bind "$run" "$tree/mnt"
chroot "$tree" swtpm socket --tpm2 --tpmstate dir=/mnt/tpm --ctrl type=unixio,path=/mnt/tpm.sock --daemon
exec chroot "$tree" qemu-system-x86_64 "$@"
"""


def root_port(name, bus, number, address):
    return f"pcie-root-port,id={name},bus={bus},chassis={number},slot={number},addr={address}"


def drive(name, image):
    """A disk that outlives the device that uses it."""
    return ["-blockdev", f"driver=raw,node-name={name},cache.no-flush=on,file.driver=file,file.filename=/mnt/{image}.img"]


def serial(name, port, number):
    return ["-device", f"usb-serial,always-plugged=on,id={name},bus=xhci.0,port={port},chardev={name},serial={number}"]


KVM = ["-accel", "kvm"]
# The clock of the machine counts its instructions, 2 ns each. So it does not matter how busy the computer is: with the computer's clock,
# timers of the machine would fire while nothing else gets done.
EMULATED = ["-accel", "tcg,thread=single,tb-size=512", "-icount", "shift=1"]

BOARD = [
    # One processor: on a busy computer, two emulated ones wait for each other.
    "-name", "devplugd", "-smp", "1", "-m", "2560M,slots=8,maxmem=16G",
    "-object", "memory-backend-ram,id=m0,size=1280M", "-object", "memory-backend-ram,id=m1,size=1280M",
    "-numa", "node,nodeid=0,cpus=0,memdev=m0", "-numa", "node,nodeid=1,memdev=m1",
    "-nodefaults", "-display", "none", "-no-user-config", "-rtc", "base=utc", "-no-reboot",
    "-kernel", "/mnt/vmlinuz", "-initrd", "/mnt/initrd",
    "-serial", "file:/mnt/console.log", "-qmp", "unix:/mnt/qmp.sock,server,nowait",
    "-device", "intel-iommu,intremap=off,caching-mode=on",
    *drive("root", "root"), "-device", "virtio-blk-pci,drive=root,addr=02.0",
    "-device", "virtio-serial-pci,id=agent,bus=pcie.0,addr=03.0",
    "-chardev", "socket,id=agent,path=/mnt/agent.sock,server=on,wait=off",
    "-device", "virtserialport,bus=agent.0,chardev=agent,name=devplugd.agent",
    # Everything below pxb0 is on NUMA node 0, below pxb1 on node 1.
    "-device", "pxb-pcie,id=pxb0,bus_nr=0x40,numa_node=0,bus=pcie.0,addr=04.0",
    "-device", "pxb-pcie,id=pxb1,bus_nr=0x80,numa_node=1,bus=pcie.0,addr=05.0",
    *(word for i in range(3) for word in ("-device", root_port(f"n0{'abc'[i]}", "pxb0", 10 + i, f"{i}.0"))),
    *(word for i in range(3) for word in ("-device", root_port(f"n1{'abc'[i]}", "pxb1", 20 + i, f"{i}.0"))),
    # Empty slots.
    *(word for i in range(3) for word in ("-device", root_port(f"hp{i}", "pcie.0", 30 + i, f"0{6 + i}.0"))),
    *(word for i in range(4) for word in ("-netdev", f"hubport,id=h{i},hubid=0")),
    *drive("nv0", "nvme0"), *drive("nv1", "nvme1"), "-device", "nvme-subsys,id=sub0,nqn=subsystem0",
]

SLOTS = (
    ("n0a", "igb,id=igb0,netdev=h0,mac=52:54:00:00:01:00"),
    ("n1a", "igb,id=igb1,netdev=h1,mac=52:54:00:00:02:00"),
    # Its namespace can have several paths, so the kernel names it by its subsystem.
    ("n1b", "nvme,id=nvme0,serial=NVME-A,subsys=sub0,sriov_max_vfs=2,sriov_vq_flexible=4,sriov_vi_flexible=2,max_ioqpairs=6,msix_qsize=7"),
    ("n0b", "nvme,id=nvme1,serial=NVME-B,drive=nv1"),
    ("n0c", "e1000e,id=e0,netdev=h2,mac=52:54:00:00:03:00,romfile="),
)

CARDS = [
    "-device", "nvme-ns,drive=nv0,nsid=1,bus=nvme0,shared=on",
    "-device", "virtio-gpu-pci,id=gpu0,bus=pcie.0,addr=09.0", "-device", "bochs-display,id=bochs0,bus=pcie.0,addr=15.0,vgamem=16M",
    "-object", "memory-backend-ram,id=shm,size=1M,share=on", "-device", "ivshmem-plain,id=ivshmem0,memdev=shm,bus=pcie.0,addr=0a.0",
    # Two functions of one IOMMU group, without a driver.
    "-device", "edu,id=edu0,bus=pcie.0,addr=0b.0,multifunction=on", "-device", "edu,id=edu1,bus=pcie.0,addr=0b.1",
    "-object", "rng-random,id=rnd,filename=/dev/urandom", "-device", "virtio-rng-pci,id=rng0,rng=rnd,bus=pcie.0,addr=0c.0",
    "-device", "virtio-scsi-pci,id=scsi0,bus=pcie.0,addr=0e.0", *drive("scsi", "scsi"),
    "-device", "scsi-hd,bus=scsi0.0,drive=scsi,serial=SCSI1",
    "-device", "i6300esb,id=watchdog0,bus=pcie.0,addr=0f.0",
    "-audiodev", "none,id=snd", "-device", "intel-hda,id=hda0,bus=pcie.0,addr=10.0", "-device", "hda-duplex,bus=hda0.0,audiodev=snd",
    "-device", "sdhci-pci,id=sdhci0,bus=pcie.0,addr=11.0", *drive("sd", "sd"), "-device", "sd-card,drive=sd",
    "-object", "can-bus,id=can0", "-device", "kvaser_pci,id=kvaser0,canbus=can0,bus=pcie.0,addr=12.0",
    "-chardev", "null,id=port0", "-chardev", "null,id=port1",
    "-device", "pci-serial-2x,id=serial0,bus=pcie.0,addr=13.0,chardev1=port0,chardev2=port1",
    "-device", "ipmi-bmc-sim,id=bmc0", "-device", "isa-ipmi-kcs,bmc=bmc0",
    "-object", "memory-backend-file,id=pmem,share=on,mem-path=/mnt/nvdimm.img,size=258M",
    "-device", "nvdimm,id=nvdimm0,memdev=pmem,node=1,label-size=2M",
    "-chardev", "socket,id=tpm,path=/mnt/tpm.sock", "-tpmdev", "emulator,id=tpm0,chardev=tpm", "-device", "tpm-crb,tpmdev=tpm0",
    "-device", "nec-usb-xhci,id=xhci,bus=pcie.0,addr=14.0,p2=8,p3=8",
    *(word for i in range(5) for word in ("-chardev", f"null,id=us{i}")),
    "-device", "usb-hub,id=hub0,bus=xhci.0,port=1", "-device", "usb-tablet,id=tablet0,bus=xhci.0,port=3",
    "-device", "usb-audio,id=audio0,bus=xhci.0,port=4,audiodev=snd", "-device", "usb-ccid,id=ccid0,bus=xhci.0,port=5",
    *drive("stick", "stick"), "-device", "usb-storage,id=stick0,bus=xhci.0,port=1.3,drive=stick,serial=STICK0",
]

# Two of them have one serial number.
ADAPTERS = (("us0", "1.1", "AAAA"), ("us1", "1.2", "BBBB"), ("us2", "2", "SAME"), ("us3", "6", "SAME"))

IMAGES = {"nvme0": 64, "nvme1": 64, "stick": 64, "sd": 64, "scsi": 64, "nvdimm": 258}
# An emulated processor takes long to load a module: udev must not end its workers. On a busy computer, interrupts of a timer may come
# too late for the kernel, which then panics. A panic ends QEMU.
KERNEL_OPTIONS = ("root=/dev/vda rw console=ttyS0 intel_iommu=on iommu=pt loglevel=6 mitigations=off systemd.show_status=no "
                  "udev.event_timeout=3600 no_timer_check panic=-1")


class Failure(Exception):
    pass


def until(condition, what):
    end = time.monotonic() + LIMIT
    while True:
        began = time.monotonic()
        value = condition()
        if value:
            return value
        now = time.monotonic()
        if now > end:
            raise Failure(f"waited {LIMIT:.0f} s in vain for: {what() if callable(what) else what}")
        # Questions must not keep the one processor of the machine busy.
        time.sleep(max(0.2, now - began))


class Lines:
    """A connection whose messages are a line of JSON each."""

    def __init__(self, path):
        self.socket = socket.socket(socket.AF_UNIX)
        self.socket.connect(path)
        self.socket.settimeout(LIMIT)
        self.file = self.socket.makefile("rw")

    def send(self, message):
        self.file.write(json.dumps(message) + "\n")
        self.file.flush()

    def receive(self):
        line = self.file.readline()
        if not line:
            raise Failure("the machine closed a connection")
        return json.loads(line)

    def close(self):
        self.file.close()
        self.socket.close()


class Machine:
    """A machine whose disks live as long as this object."""

    def __init__(self, cache, packages, programs):
        self.cache = cache
        os.makedirs(cache, exist_ok=True)
        self.remove_left()
        self.folder = tempfile.mkdtemp(prefix=f"run.{os.getpid()}.", dir=cache)
        self.process = self.qmp_lines = self.agent = None
        self.accelerators = [EMULATED]
        if os.access("/dev/kvm", os.W_OK):
            self.accelerators.insert(0, KVM)
        here = os.path.dirname(os.path.abspath(__file__))
        result = subprocess.run([os.path.join(here, "make-machine"), cache, packages, programs, self.path("root.img")])
        if result.returncode:
            self.close()
            raise SystemExit(result.returncode)
        boot = os.path.join(cache, "guest", "boot")
        for name in os.listdir(boot):
            for start, copy in (("vmlinuz-", "vmlinuz"), ("initrd.img-", "initrd")):
                if name.startswith(start):
                    shutil.copy(os.path.join(boot, name), self.path(copy))
        for name, size in IMAGES.items():
            with open(self.path(f"{name}.img"), "wb") as file:
                file.truncate(size << 20)
        os.mkdir(self.path("tpm"))

    def remove_left(self):
        """What killed runs have left."""
        for name in os.listdir(self.cache):
            if name.startswith("run.") and not os.path.exists(f"/proc/{name.split('.')[1]}"):
                shutil.rmtree(os.path.join(self.cache, name), ignore_errors=True)

    def path(self, name):
        return os.path.join(self.folder, name)

    def console(self):
        try:
            with open(self.path("console.log"), errors="replace") as file:
                return file.read()
        except OSError:
            return ""

    # --- start and end

    def start(self):
        """Starts the machine, and returns when its services have started."""
        while not self.try_start():
            self.accelerators.pop(0)
        self.agent = Lines(self.path("agent.sock"))
        self.agent.socket.settimeout(2 * LIMIT)
        until(lambda: self.run("systemctl", "is-system-running")[1].strip() not in ("", "initializing", "starting"),
              lambda: self.run("systemctl", "list-jobs")[1])

    def try_start(self):
        for name in ("console.log", "qmp.sock", "agent.sock", "tpm.sock"):
            with contextlib.suppress(FileNotFoundError):
                os.unlink(self.path(name))
        accelerator = self.accelerators[0]
        words = ["-machine", "q35,cxl=on,nvdimm=on", *accelerator, "-cpu", "max,la57=off", *BOARD]
        words += ["-append", KERNEL_OPTIONS]
        for bus, card in SLOTS:
            words += ["-device", f"{card},bus={bus}"]
        words += CARDS
        for adapter in ADAPTERS:
            words += serial(*adapter)
        with open(self.path("qemu.log"), "ab") as log:
            self.process = subprocess.Popen(
                ["setpriv", "--pdeathsig", "KILL", "unshare", "--mount", "--pid", "--fork", "--kill-child", "sh", "-euc", START,
                 "sh", os.path.join(self.cache, "qemu"), self.folder, *words],
                stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        started = time.monotonic()
        while not self.console():
            ended = self.process.poll() is not None
            if ended or time.monotonic() - started > (KVM_LIMIT if accelerator == KVM else LIMIT):
                self.kill()
                if accelerator == KVM:
                    return False
                with open(self.path("qemu.log"), errors="replace") as log:
                    raise Failure(f"{'QEMU ended' if ended else 'the kernel printed nothing'}: {log.read()}")
            time.sleep(0.1)
        self.qmp_lines = Lines(self.path("qmp.sock"))
        self.qmp_lines.receive()
        self.qmp("qmp_capabilities")
        return True

    def kill(self):
        for lines in (self.qmp_lines, self.agent):
            if lines:
                lines.close()
        self.qmp_lines = self.agent = None
        if self.process:
            self.process.kill()
            self.process.wait()
            self.process = None

    def close(self):
        self.kill()
        shutil.rmtree(self.folder, ignore_errors=True)

    # --- devices and commands

    def qmp(self, command, **arguments):
        self.qmp_lines.send({"execute": command, "arguments": arguments})
        while True:
            answer = self.qmp_lines.receive()
            if "error" in answer:
                raise Failure(f"QMP {command} {arguments}: {answer['error']['desc']}")
            if "return" in answer:
                return answer["return"]

    def call(self, name, *arguments):
        self.agent.send([name, arguments])
        return self.agent.receive()

    def run(self, *words, text=None):
        return self.call("run", words, text)

    def do(self, *words, text=None):
        """Runs a command that must succeed, and returns what it printed."""
        status, output, errors = self.run(*words, text=text)
        if status:
            raise Failure(f"{' '.join(words)}: exit status {status}\n{output}{errors}")
        return output
