# SPDX-License-Identifier: Apache-2.0
"""devplugctl check --containers names the devices that a running container has lost, or never had.

The containers are processes with a root, a cgroup for devices and the kubelet's mount, as a runtime makes them.
complaints.md: none; nvidia-container-toolkit#48 has the case.
"""
import ctypes
import json
import os
import stat
import struct
import subprocess
import unittest
import uuid

from dra_node import DraPodTest
from node import NodeTest, path, program, until
from tool import fake_daemon

CGROUPS = "/sys/fs/cgroup/devices"
UNIFIED = "/sys/fs/cgroup" if os.path.exists("/sys/fs/cgroup/cgroup.controllers") else "/sys/fs/cgroup/unified"
BPF_CALL, BPF_PROG_LOAD, BPF_PROG_ATTACH, TYPE_CGROUP_DEVICE, ATTACH_CGROUP_DEVICE = 321, 5, 8, 15, 6
# Stands for the first process of a container: its root is a directory with nodes.
PROCESS = """
import os, subprocess, sys, time
root, log, cgroup, *nodes = sys.argv[1:]
subprocess.run(["mount", "-t", "tmpfs", "none", root], check=True)
os.makedirs(f"{root}/dev/dri")
open(f"{root}/dev/termination-log", "w").close()
subprocess.run(["mount", "--bind", log, f"{root}/dev/termination-log"], check=True)
for node in nodes:
    name, number = node.split("=")
    os.mknod(f"{root}{name}", 0o666 | 0o20000, os.makedev(240, int(number)))
if cgroup:
    with open(f"{cgroup}/cgroup.procs", "w") as file:
        file.write(str(os.getpid()))
os.chroot(root)
print("ready", flush=True)
time.sleep(600)
"""


class Containers:
    """Of a host with three devices."""

    def setUp(self):
        super().setUp()
        if os.geteuid() != 0:
            self.skipTest("needs root")
        self.host = self.node.path("host")
        os.makedirs(f"{self.host}/dev")
        os.makedirs(f"{self.host}/etc/cdi")
        for number in range(3):
            os.mknod(f"{self.host}/dev/x{number}", 0o600 | stat.S_IFCHR, os.makedev(240, number))

    def make_cgroup(self, *allowed, name=""):
        if not os.path.exists(f"{CGROUPS}/devices.list"):
            self.skipTest("needs a hierarchy of cgroups of version 1 for devices")
        directory = f"{CGROUPS}/{os.path.basename(self.node.dir)}{name}"
        os.mkdir(directory)
        self.addCleanup(os.rmdir, directory)
        self.write(f"{directory}/devices.deny", "a")
        self.write(f"{directory}/devices.allow", "c 1:* rwm")
        for number in allowed:
            self.write(f"{directory}/devices.allow", f"c 240:{number} rwm")
        return directory

    def make_unified_cgroup(self):
        """With version 2, a runtime attaches a program to the cgroup; systemd replaces it."""
        directory = f"{UNIFIED}/{os.path.basename(self.node.dir)}"
        if os.uname().machine != "x86_64" or not os.path.exists(f"{UNIFIED}/cgroup.procs"):
            self.skipTest("needs a hierarchy of cgroups of version 2, and amd64")
        os.mkdir(directory)
        self.addCleanup(os.rmdir, directory)
        return directory

    def deny(self, directory, number):
        """As make_unified_cgroup(): no process of the cgroup may open the device, and each other one is allowed."""
        def instruction(code, registers=0, offset=0, value=0):
            return struct.pack("<BBhi", code, registers, offset, value)

        # r2 = major; if it is not 240, allow; r2 = minor; if it is not the number, allow; deny.
        code = b"".join((instruction(0x61, 0x12, 4), instruction(0x55, 2, 4, 240), instruction(0x61, 0x12, 8),
                         instruction(0x55, 2, 2, number), instruction(0xb7), instruction(0x95), instruction(0xb7, value=1),
                         instruction(0x95)))
        text, licence = ctypes.create_string_buffer(code), ctypes.create_string_buffer(b"GPL")
        program_fd = self.bpf(BPF_PROG_LOAD, struct.pack("<IIQQ", TYPE_CGROUP_DEVICE, len(code) // 8, ctypes.addressof(text),
                                                         ctypes.addressof(licence)))
        self.addCleanup(os.close, program_fd)
        directory_fd = os.open(directory, os.O_RDONLY)
        self.addCleanup(os.close, directory_fd)
        self.bpf(BPF_PROG_ATTACH, struct.pack("<III", directory_fd, program_fd, ATTACH_CGROUP_DEVICE))

    def bpf(self, command, attributes):
        library = ctypes.CDLL(None, use_errno=True)
        attributes = ctypes.create_string_buffer(attributes, 128)
        result = library.syscall(BPF_CALL, command, attributes, len(attributes))
        if result < 0:
            self.skipTest(f"may not use programs of cgroups: {os.strerror(ctypes.get_errno())}")
        return result

    def write(self, file, text):
        with open(file, "w") as stream:
            stream.write(text)

    def run_container(self, pod_uid, name, *nodes, cgroup="", root="root"):
        """Its processes have the nodes, and may open those that the cgroup allows."""
        folder = self.node.path(f"state/pods/{pod_uid}/containers/{name}")
        os.makedirs(folder)
        self.write(f"{folder}/4711", "")
        root = self.node.path(root)
        os.mkdir(root)
        process = subprocess.Popen(["unshare", "--mount", "--propagation", "private", "python3", "-c", PROCESS, root,
                                    f"{folder}/4711", cgroup, *nodes], stdout=subprocess.PIPE)
        self.addCleanup(process.stdout.close)
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        self.assertEqual(process.stdout.readline(), b"ready\n")
        return process

    def check(self, *words, prefix=()):
        answer = subprocess.run([*prefix, program("devplugctl"), "-c", self.node.config, "check", "--containers", *words],
                                capture_output=True, text=True)
        return answer.returncode, answer.stdout

    def check_after(self, script, *words):
        """The script changes what devplugctl sees of the file system."""
        return self.check(*words, prefix=["unshare", "--mount", "--propagation", "private", "sh", "-ec", script + '; exec "$@"', "sh"])


class LostDevices(Containers, NodeTest):
    def begin(self, more=""):
        """A pod has one of three devices."""
        self.node.configure(path("x", "/dev/x*", more), text=f'host_root = "{self.host}"; cdi_dir = "{self.host}/etc/cdi";',
                            kubelet=f'pod_logs_dir = "{self.node.kubelet_state}/pod-logs";')
        self.node.start_kubelet()
        self.node.start()
        self.node.await_allocatable(x=3)
        self.number = self.hold("trainer")

    def hold(self, name):
        """The number of the device that a pod gets."""
        given, why = self.node.pod(name, x=1)
        self.assertIsNone(why)
        return given["resources"]["vendor.example/x"][0][1:]

    def entry(self, number=None):
        """The kubelet's, of the pod with that device."""
        with open(os.path.join(self.node.plugins, "kubelet_internal_checkpoint")) as file:
            entries = json.load(file)["Data"]["PodDeviceEntries"]
        return next(entry for entry in entries if f"x{number or self.number}" in entry["DeviceIDs"]["-1"])

    def start_container(self, *nodes, cgroup="", container=None, number=None):
        """Runs a container of the pod with that device."""
        entry = self.entry(number)
        return self.run_container(entry["PodUID"], container or entry["ContainerName"], *nodes, cgroup=cgroup,
                                  root=f"root-{number or self.number}-{container}")

    def test_container_that_has_its_device(self):
        self.begin()
        self.assertEqual(self.check(), (0, "0 containers with devices: no problem\n"))
        self.start_container(f"/dev/x{self.number}={self.number}")
        # Another one of the same pod, without devices of its own.
        self.start_container(container="sidecar")
        self.assertEqual(self.check(), (0, "1 container with devices: no problem\n"))
        self.assertEqual(self.check("vendor.example/x"), (0, "1 container with devices: no problem\n"))
        self.assertEqual(self.check("vendor.example/y"), (0, "0 containers with devices: no problem\n"))

    def test_device_that_the_cgroup_denies(self):
        self.begin()
        directory = self.make_cgroup(self.number)
        self.start_container(f"/dev/x{self.number}={self.number}", "/dev/dri/hooked=77", cgroup=directory)
        # What a hook has added, and what no rule allows.
        self.write(f"{directory}/devices.allow", "c 240:77 rwm")
        self.assertEqual(self.check(), (0, "1 container with devices: no problem\n"))
        # As systemd does it when it is reloaded.
        self.write(f"{directory}/devices.deny", f"c 240:{self.number} rwm")
        self.write(f"{directory}/devices.deny", "c 240:77 rwm")
        status, text = self.check()
        self.assertEqual(status, 1)
        self.assertEqual(text, f"default/trainer, container main: /dev/x{self.number} of vendor.example/x: "
                         "the container's cgroup does not allow it\n"
                         "default/trainer, container main: /dev/dri/hooked: the container's cgroup does not allow it\n")
        status, text = self.check("--json")
        answer = json.loads(text)
        self.assertEqual((status, answer["status"], answer["containers"], answer["unknown"]), (1, 1, 1, ""))
        self.assertEqual(answer["problems"][0], {
            "namespace": "default", "pod": "trainer", "pod_uid": self.entry()["PodUID"], "container": "main",
            "resource": "vendor.example/x", "path": f"/dev/x{self.number}",
            "problem": "the container's cgroup does not allow it"})
        # The tool's own process has left the cgroup.
        with open(f"{directory}/cgroup.procs") as file:
            self.assertEqual(len(file.read().split()), 1)

    def test_device_that_a_program_denies(self):
        """With version 2 of cgroups, it is the program that decides. This host may have both versions; the container's says 2."""
        self.begin()
        directory = self.make_unified_cgroup()
        self.deny(directory, 255)
        process = self.start_container(f"/dev/x{self.number}={self.number}", "/dev/dri/hooked=77", cgroup=directory)
        line = self.node.path("cgroup")
        self.write(line, f"0::/{os.path.basename(directory)}\n")

        script = f"mount --bind {line} /proc/{process.pid}/cgroup"
        self.assertEqual(self.check_after(script), (0, "1 container with devices: no problem\n"))
        for number, name in ((int(self.number), f"/dev/x{self.number} of vendor.example/x"), (77, "/dev/dri/hooked")):
            self.deny(directory, number)
            self.assertEqual(self.check_after(script),
                             (1, f"default/trainer, container main: {name}: the container's cgroup does not allow it\n"))

    def test_device_that_is_another(self):
        self.begin()
        self.start_container(f"/dev/x{self.number}=99")
        self.assertEqual(self.check(), (1, f"default/trainer, container main: /dev/x{self.number} of vendor.example/x: "
                                        "it is not the host's device of that name\n"))

    def test_device_that_is_missing(self):
        self.begin()
        self.start_container()
        self.assertEqual(self.check(), (1, f"default/trainer, container main: /dev/x{self.number} of vendor.example/x: "
                                        "it is missing in the container\n"))

    def test_device_of_a_cdi_file(self):
        self.begin('cdi_spec = { kind = "vendor.example/x"; };')
        self.start_container()
        self.assertEqual(self.check(), (1, f"default/trainer, container main: /dev/x{self.number} of vendor.example/x: "
                                        "it is missing in the container\n"))

    def test_container_that_cannot_be_entered(self):
        """It does not hide what is wrong with another one, and is never taken for one without a problem."""
        self.begin()
        other = self.hold("other")
        self.start_container(f"/dev/x{self.number}={self.number}", cgroup=self.make_cgroup())
        hidden = self.make_cgroup(other, name="-other")
        self.start_container(f"/dev/x{other}={other}", cgroup=hidden, number=other)
        denied = (f"default/trainer, container main: /dev/x{self.number} of vendor.example/x: "
                  "the container's cgroup does not allow it\n")
        self.assertEqual(self.check(), (1, denied))
        unknown = f"cannot enter a container by {hidden}/cgroup.procs: No such file or directory"
        self.assertEqual(self.check_after(f"mount -t tmpfs none {hidden}"), (1, f"{denied}{unknown}\n"))
        # In a container of its own, devplugctl sees no cgroup.
        status, text = self.check_after(f"mount -t tmpfs none {CGROUPS}", "--json")
        answer = json.loads(text)
        self.assertEqual((status, answer["status"], answer["containers"], answer["problems"]), (2, 2, 2, []))
        self.assertRegex(answer["unknown"], "^cannot enter a container by .*: No such file or directory$")

    def test_frozen_container(self):
        """A process that enters it does not go on, and devplugctl does."""
        self.begin()
        directory = self.make_cgroup(self.number)
        self.start_container(f"/dev/x{self.number}={self.number}", cgroup=directory)
        fifo = self.node.path("fifo")
        os.mkfifo(fifo)
        self.assertEqual(self.check_after(f"mount --bind {fifo} {directory}/cgroup.procs"),
                         (2, "the process that inspects a container did not answer; the container may be frozen\n"))

    def test_not_known(self):
        self.begin()
        os.unlink(os.path.join(self.node.plugins, "kubelet_internal_checkpoint"))
        status, text = self.check()
        self.assertEqual(status, 2)
        self.assertIn("cannot read", text)
        answer = json.loads(self.check("--json")[1])
        self.assertEqual(answer["status"], 2)
        self.assertIn("cannot read", answer["unknown"])


class DevicesLostByClaims(Containers, DraPodTest):
    """A container has the devices of its own claims, from devplugd's CDI files."""

    def begin_pod(self, cdi="etc/cdi"):
        self.serve_api()
        self.cdi = f"{self.host}/{cdi}"
        os.makedirs(self.cdi, exist_ok=True)
        self.begin(path("x", "/dev/x*", 'serve = "dra";'), pods=True, text=f'host_root = "{self.host}";',
                   kubelet=f'pod_logs_dir = "{self.node.kubelet_state}/pod-logs";')
        claim = self.api.schedule_limits("trainer", [{"vendor.example/x": 1}, {"vendor.example/x": 1}])
        pod = self.pod("trainer", claim, limits=["a:vendor.example/x=1", "b:vendor.example/x=1"])
        self.assertEqual(pod["phase"], "Running", pod)
        until(lambda: self.node.resource("vendor.example/x")["in_use"] == 2, "the pods of devices")
        self.uid = next(pod["uid"] for pod in self.node.call_kubelet("pods")["pods"])
        # By container.
        self.devices = {pod["container"]: device["id"] for device in self.node.resource("vendor.example/x")["devices"]
                        for pod in device["pods"]}

    def test_other_directory(self):
        """`cdi_dir` is not one that container runtimes read by default."""
        self.begin_pod(cdi="elsewhere")
        self.run_container(self.uid, "a", root="a")
        self.assertEqual(self.check(), (1, f"default/trainer, container a: /dev/{self.devices['a']} of vendor.example/x: "
                                        "it is missing in the container\n"))

    def test_claims(self):
        self.begin_pod()
        self.assertEqual(self.check(), (0, "0 containers with devices: no problem\n"))
        a, b = (self.devices[name][-1] for name in "ab")
        self.run_container(self.uid, "a", f"/dev/x{a}={a}", root="a")
        self.run_container(self.uid, "sidecar", root="sidecar")
        self.assertEqual(self.check(), (0, "1 container with devices: no problem\n"))
        # The other container has the device of the first one in place of its own.
        self.run_container(self.uid, "b", f"/dev/x{a}={a}", root="b")
        problem = f"default/trainer, container b: /dev/x{b} of vendor.example/x: it is missing in the container\n"
        self.assertEqual(self.check(), (1, problem))
        self.assertEqual(self.check("vendor.example/x"), (1, problem))
        self.assertEqual(self.check("vendor.example/y"), (0, "0 containers with devices: no problem\n"))
        # The kubelet's checkpoint is about device plugins.
        checkpoint = os.path.join(self.node.plugins, "kubelet_internal_checkpoint")
        if os.path.exists(checkpoint):
            os.unlink(checkpoint)
        self.assertEqual(self.check(), (1, problem))
        # Without devplugd, it is not known which claims a container has.
        self.node.stop()
        status, text = self.check()
        self.assertEqual(status, 2)
        self.assertIn("devplugd is not running", text)

    def test_device_that_no_file_defines(self):
        """It is not known which nodes the container should have."""
        self.begin_pod()
        self.run_container(self.uid, "a", "/dev/x0=0", root="a")
        self.node.stop()
        answer = {"version": 1, "containers": [{"name": "a", "claims": [{"resource": "vendor.example/x", "cdi": ["devplugd/claim=gone"]}]}]}
        with fake_daemon(self.node.run, json.dumps(answer).encode(), {}):
            self.assertEqual(self.check(), (2, "devplugd/claim=gone of container a of default/trainer is not defined in a CDI file\n"))

    def test_daemon_that_cannot_answer(self):
        """It is asked once, because each answer may take seconds. A pod that is not known is no failure: it may have ended."""
        self.begin_pod()
        uids = self.uid, str(uuid.uuid4())
        os.mkdir(f"{self.node.kubelet_state}/pod-logs/default_other_{uids[1]}")
        for number, uid in enumerate(uids):
            self.run_container(uid, "a", "/dev/x9=9", root=f"root{number}")
        self.node.stop()
        for name, asked, status in (("ENODATA", 1, 2), ("ENOENT", 2, 0)):
            answer = json.dumps({"version": 1, "error": "not known", "errno": name})
            with fake_daemon(self.node.run, answer.encode(), {}) as requests:
                self.assertEqual(self.check()[0], status)
            self.assertEqual([request["devices"] for request in requests if request["verb"] == "pod"], [False] * asked)

    def test_device_that_the_cgroup_denies(self):
        self.begin_pod()
        a = self.devices["a"][-1]
        directory = self.make_cgroup(a)
        self.run_container(self.uid, "a", f"/dev/x{a}={a}", cgroup=directory)
        self.assertEqual(self.check(), (0, "1 container with devices: no problem\n"))
        self.write(f"{directory}/devices.deny", f"c 240:{a} rwm")
        self.assertEqual(self.check(), (1, f"default/trainer, container a: /dev/x{a} of vendor.example/x: "
                                        "the container's cgroup does not allow it\n"))


if __name__ == "__main__":
    unittest.main()
