# SPDX-License-Identifier: Apache-2.0
"""NVIDIA GPUs of this machine, with NVIDIA's driver and library: listed as nvidia-smi lists them, and used by CUDA programs in
containers that have nothing but what devplugd gives them. The settings of the GPUs are not touched. "make test-gpu" runs it.

A container is a mount namespace with a root directory of its own: the program, the C library, the nodes and the mounts."""
import glob
import json
import os
import re
import shutil
import subprocess
import sys
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.realpath(__file__)), "../promises"))
# pylint: disable=wrong-import-position
from cdi import check
from node import NodeTest, children_of, command_line, process_status, program, until
from unix_http import get

GPUS = "/proc/driver/nvidia/gpus"
# Where the driver is, if not where devplugd finds it.
DRIVER_ROOT = os.environ.get("DEVPLUGD_TEST_DRIVER_ROOT", "")
RESOURCE = "vendor.example/gpu"


def nvidia_smi():
    """UUID and PCI address of each GPU, as NVIDIA's own program prints them."""
    found = shutil.which("nvidia-smi", path=f"{os.environ['PATH']}:{DRIVER_ROOT}/bin:{DRIVER_ROOT}/usr/bin")
    text = subprocess.run([found, "--query-gpu=uuid,pci.bus_id", "--format=csv,noheader"], check=True, capture_output=True,
                          text=True).stdout
    rows = [line.split(", ") for line in text.splitlines()]
    # 00000000:00:06.0 is 0000:00:06.0 for the kernel.
    return {uuid: address[4:].lower() for uuid, address in rows}


def needed_libraries(file):
    """The files that the program interpreter loads for a program, and the interpreter."""
    text = subprocess.run(["ldd", file], check=True, capture_output=True, text=True).stdout
    return re.findall(r"(/\S+) \(0x", text)


class Container:
    """What the runtime makes of an answer of devplugd: a root directory, entered with "unshare --mount"."""

    def __init__(self, root, edits):
        self.root, self.nodes, self.mounts = root, edits["nodes"], edits["mounts"]
        self.environment = dict(text.split("=", 1) for text in edits["env"])
        # As images that are made from NVIDIA's have it.
        self.environment.setdefault("LD_LIBRARY_PATH", "/usr/local/nvidia/lib64")
        for directory in ("dev", "proc", "tmp", "usr/lib", "usr/bin"):
            os.makedirs(os.path.join(root, directory))
        # The C library has more parts than the program needs, and NVIDIA's library needs some.
        libc = os.path.dirname(os.path.realpath(next(f for f in needed_libraries(program("use-gpu")) if "libc.so" in f)))
        parts = [f"{libc}/lib{name}" for name in ("m.so.6", "dl.so.2", "pthread.so.0", "rt.so.1", "gcc_s.so.1")]
        for file in needed_libraries(program("use-gpu")) + [part for part in parts if os.path.exists(part)]:
            self.install(file, file)
        self.install(program("use-gpu"), "/use-gpu")

    def install(self, file, path):
        os.makedirs(os.path.dirname(self.root + path), exist_ok=True)
        shutil.copy(file, self.root + path)

    def run(self, *command):
        # With CAP_MKNOD, NVIDIA's library makes the nodes that it misses.
        script = ["set -e", f"cd {self.root}", "mount -t tmpfs -o nodev none dev", "mount --rbind /proc proc"]
        for node in self.nodes:
            target = self.root + node["path"]
            script += [f"mkdir -p {os.path.dirname(target)}", f"touch {target}", f"mount --bind {node['host_path']} {target}"]
        for mount in self.mounts:
            target = self.root + mount["path"]
            script += [f"mkdir -p {os.path.dirname(target)}", f"touch {target}", f"mount --bind {mount['host_path']} {target}"]
        words = " ".join(f"{name}={value}" for name, value in self.environment.items())
        script += [f"exec env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin {words} chroot {self.root} {' '.join(command)}"]
        return subprocess.run(["unshare", "--mount", "--propagation", "private", "sh", "-c", "\n".join(script)],
                              capture_output=True, text=True)


def edits_of_answer(given):
    return {"nodes": [{"path": d["container_path"], "host_path": d["host_path"]} for d in given["devices"]],
            "mounts": [{"path": m["container_path"], "host_path": m["host_path"]} for m in given["mounts"]],
            "env": [f"{name}={value}" for name, value in given["env"].items()]}


def edits_of_cdi(directory, names):
    """What the files of a CDI directory say about devices."""
    known = {}
    for file in glob.glob(directory + "/*.json"):
        with open(file) as stream:
            known.update(check(json.load(stream)))
    edits = {"nodes": [], "mounts": [], "env": []}
    for name in names:
        edits["nodes"] += [{"path": n["path"], "host_path": n.get("hostPath", n["path"])}
                           for n in known[name].get("deviceNodes", [])]
        edits["mounts"] += [{"path": m["containerPath"], "host_path": m["hostPath"]} for m in known[name].get("mounts", [])]
        edits["env"] += known[name].get("env", [])
    return edits


class NvidiaGpu(NodeTest):
    def setUp(self):
        if not glob.glob(GPUS + "/*"):
            self.skipTest("this machine has no NVIDIA GPU, or its driver is not loaded")
        super().setUp()
        self.gpus = nvidia_smi()

    def serve(self, more="", text=""):
        root = f'driver_root = "{DRIVER_ROOT}";' if DRIVER_ROOT else ""
        self.node.configure(
            f'{{ name = "{RESOURCE}"; driver = "nvidia"; match = ( {{ {root} }} ); '
            f'health = ( {{ probe = "pci"; }}, {{ probe = "nvml"; interval = 1; }} ); {more} }}',
            text=f'metrics = {{ listen = "{self.node.path("metrics.sock")}"; }}; {text}')
        self.node.start_kubelet()
        self.node.start()
        until(lambda: self.node.resource(RESOURCE), "the resource")
        until(lambda: not self.unhealthy(), f"healthy GPUs; {self.unhealthy()}")
        self.node.await_allocatable(gpu=len(self.gpus))

    def ctl(self, *words):
        return subprocess.run([program("devplugctl"), "-c", self.node.config, *words], capture_output=True, text=True)

    def unhealthy(self):
        return {d["id"]: d["reason"] for d in self.node.resource(RESOURCE)["devices"] if d["health"] != "Healthy"}

    def metrics(self):
        try:
            text = get(self.node.path("metrics.sock"))[1]
        except OSError:
            return {}
        return {(name, device, xid): float(value) for name, device, xid, value in re.findall(
            r'^devplugd_gpu_([a-z_]+)\{resource="[^"]*",device="([^"]*)"(?:,xid="(\d+)")?\} (\S+)$', text, re.M)}

    def container(self, name, edits):
        root = self.node.path("root-" + name)
        os.mkdir(root)
        return Container(root, edits)

    def pod_container(self, name, count):
        given, why = self.node.pod(name, gpu=count)
        self.assertIsNone(why)
        return given, self.container(name, edits_of_answer(given))

    def helpers(self):
        """The processes of devplugd that load NVIDIA's library."""
        return [child for plugin in children_of(self.node.daemon.pid) for child in children_of(plugin)
                if command_line(child)[0:1] and "devplugd-nvml" in command_line(child)[0]]

    def open_nodes(self):
        """NVIDIA's nodes that processes of devplugd have open."""
        found = []
        for pid in [self.node.daemon.pid, *children_of(self.node.daemon.pid), *self.helpers()]:
            for descriptor in glob.glob(f"/proc/{pid}/fd/*"):
                try:
                    target = os.readlink(descriptor)
                except FileNotFoundError:
                    continue
                if target.startswith("/dev/nvidia"):
                    found.append(target)
        return found

    def test_list(self):
        """Each GPU by the UUID that NVIDIA's program prints, with the NUMA node of its function."""
        self.serve()
        devices = self.node.resource(RESOURCE)["devices"]
        self.assertEqual({d["id"]: d["health"] for d in devices}, {uuid: "Healthy" for uuid in self.gpus})
        for device in devices:
            with open(f"/sys/bus/pci/devices/{self.gpus[device['id']]}/numa_node") as file:
                node = int(file.read())
            self.assertEqual(device.get("numa_nodes", []), [node] if node >= 0 else [], device)

    def test_discover(self):
        """The configuration that discover prints is valid and offers every GPU."""
        answer = subprocess.run([program("devplugctl"), "discover", "nvidia"], capture_output=True, text=True)
        self.assertEqual((answer.returncode, answer.stderr), (0, ""), answer.stdout)
        with open(self.node.path("discovered.conf"), "w") as file:
            file.write(answer.stdout)
        check_it = subprocess.run([program("devplugd"), "-c", self.node.path("discovered.conf"), "--check"], capture_output=True,
                                  text=True)
        self.assertEqual(check_it.returncode, 0, check_it.stderr)
        self.assertIn('preset = "nvidia"', answer.stdout)

    def test_pod_computes(self):
        """With what the answer has, and with nothing else."""
        self.serve()
        given, container = self.pod_container("compute", len(self.gpus))
        print(f"\n  {len(container.nodes)} nodes, {len(container.mounts)} mounts", file=sys.stderr)
        result = container.run("/use-gpu")
        self.assertEqual((result.returncode, sorted(result.stdout.split())), (0, sorted(self.gpus)), result.stderr)
        self.assertEqual(sorted(given["resources"][RESOURCE]), sorted(self.gpus))
        listed = container.run("/usr/local/nvidia/bin/nvidia-smi", "-L")
        self.assertEqual(re.findall(r"GPU-[0-9a-f-]+", listed.stdout), list(self.gpus), listed.stdout + listed.stderr)

    def test_container_without_gpu(self):
        """The libraries alone open no GPU: the container of these tests has no other way to one."""
        self.serve()
        _, container = self.pod_container("none", 1)
        container.nodes = []
        result = container.run("/use-gpu")
        self.assertEqual(result.returncode, 3, f"no device\n{result.stderr}")
        container.mounts = []
        self.assertIn("libcuda.so.1", container.run("/use-gpu").stderr)

    def test_cdi(self):
        """The same by the file of the Container Device Interface."""
        directory = self.node.path("cdi")
        os.mkdir(directory)
        self.serve(text=f'cdi = true; cdi_dir = "{directory}";')
        given, why = self.node.pod("cdi", gpu=len(self.gpus))
        self.assertIsNone(why)
        self.assertEqual((given["devices"], given["mounts"]), ([], []))
        result = self.container("cdi", edits_of_cdi(directory, given["cdi"])).run("/use-gpu")
        self.assertEqual((result.returncode, sorted(result.stdout.split())), (0, sorted(self.gpus)), result.stderr)

    def test_error_of_an_application(self):
        """A kernel that writes where nothing is: the driver reports an Xid, which is counted; the GPU stays healthy."""
        self.serve()
        until(lambda: ("monitored", list(self.gpus)[0], "") in self.metrics(), "the library to be asked")
        before = self.node.resource(RESOURCE)
        _, container = self.pod_container("fault", 1)
        result = container.run("/use-gpu", "fault")
        self.assertEqual(result.returncode, 1, result.stdout)
        self.assertRegex(result.stderr, "cuCtxSynchronize: error")
        xids = until(lambda: {xid for name, _, xid in self.metrics() if name == "xid_errors_total"}, "the Xid to be counted")
        print(f"\n  Xid {', '.join(sorted(xids))}", file=sys.stderr)
        self.assertLessEqual(xids, {"13", "31", "43", "45"})
        self.assertEqual(self.unhealthy(), {})
        after = self.node.resource(RESOURCE)
        self.assertEqual((after["pid"], after["session"]), (before["pid"], before["session"]))
        result = container.run("/use-gpu")
        self.assertEqual(result.returncode, 0, result.stderr)

    def test_library(self):
        """What NVIDIA's library reports reaches Prometheus; what it costs is printed."""
        self.serve()
        uuid = list(self.gpus)[0]
        until(lambda: ("temperature_celsius", uuid, "") in self.metrics(), "a temperature")
        metrics = self.metrics()
        self.assertGreater(metrics[("power_watts", uuid, "")], 1)
        self.assertTrue(0 < metrics[("temperature_celsius", uuid, "")] < 120)
        status = process_status(self.helpers()[0])
        print(f"\n  devplugd-nvml: peak memory {status['VmHWM'].strip()}, data {status['VmData'].strip()}, "
              f"threads {status['Threads']}; metrics {sorted({name for name, _, _ in metrics})}", file=sys.stderr)

    def test_release(self):
        """After a release no process of devplugd has a node of the driver open."""
        self.serve()
        until(lambda: ("monitored", list(self.gpus)[0], "") in self.metrics() and self.open_nodes(), "the library to be asked")
        answer = self.ctl("release", RESOURCE)
        self.assertEqual((answer.returncode, answer.stdout), (0, f"{RESOURCE} is released\n"), answer.stderr)
        until(lambda: not self.helpers(), "the helper to end")
        self.assertEqual(self.open_nodes(), [])
        self.assertEqual(self.unhealthy(), {})
        self.assertEqual(self.ctl("resume", RESOURCE).returncode, 0)
        until(self.open_nodes, "the library to be loaded again")

    def test_missing_node(self):
        """Without the node of unified memory no CUDA program runs: unhealthy with the remedy, until it is there."""
        # The nodes of this machine are not touched: devplugd has a /dev of its own.
        device = self.node.path("dev")
        os.mkdir(device)
        self.node.prefix = ["unshare", "--mount", "--propagation", "private", "sh", "-c",
                            f'mount --bind /dev {device} && mount -t tmpfs none /dev && cp -a {device}/* /dev 2>/dev/null; exec "$@"', "sh"]
        self.serve()

        def change(command):
            subprocess.run(["nsenter", "-t", str(self.node.daemon.pid), "-m", "sh", "-c", command], check=True)
        change("mv /dev/nvidia-uvm /dev/hidden")
        until(lambda: len(self.unhealthy()) == len(self.gpus), "the GPUs to be unhealthy")
        reason = list(self.unhealthy().values())[0]
        print(f"\n  {reason}", file=sys.stderr)
        self.assertIn("/dev/nvidia-uvm", reason)
        change("mv /dev/hidden /dev/nvidia-uvm")
        self.node.await_allocatable(gpu=len(self.gpus))


if __name__ == "__main__":
    unittest.main()
