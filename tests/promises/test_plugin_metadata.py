# SPDX-License-Identifier: Apache-2.0
"""Metadata that containers of a device plugin read of their devices (`metadata`), in the format of the metadata of claims."""
import glob
import json
import os
import re
import shutil
import signal
import socket
import stat
import subprocess
import unittest

from dra_consumers import kubevirt_host_device, read_metadata
from node import LIMIT, NodeTest, program, remove_tree, static, until
from numbered_host import RESOURCES, NumberedHost

IN_CONTAINER = "/run/devplugd/devices/vendor.example_{}/metadata.json"


def application(files):
    """An application of dra_consumers' format: the PCI addresses of its devices, whichever way it gets them. `files`: the texts by
    their paths in the container."""
    return [device["attributes"]["resource.kubernetes.io/pciBusID"]["string"] for path, text in files.items()
            if path.endswith("metadata.json") for request in read_metadata(text)["requests"] for device in request["devices"]]


class PluginMetadataTest(NodeTest):
    def setUp(self):
        super().setUp()
        self.cdi = self.node.path("cdi")
        self.folder = os.path.join(self.cdi, "devplugd.metadata")
        os.mkdir(self.node.plugins)

    def configure(self, *resources, more=""):
        self.node.configure(*resources, text=f'cdi_dir = "{self.cdi}"; {more}')

    def begin(self, *resources, **counts):
        self.configure(*resources)
        self.node.start_kubelet()
        self.node.start()
        self.node.await_allocatable(**counts)

    def hosts(self):
        return sorted(glob.glob(os.path.join(self.folder, "*.json")))

    def mounts(self, container):
        """The files on the host, by their path in the container."""
        for mount in container["mounts"]:
            self.assertTrue(mount["read_only"], mount)
        return {mount["container_path"]: mount["host_path"] for mount in container["mounts"]}

    def pod(self, name, *words):
        """What each of its containers gets, with the ids."""
        answer = subprocess.run([program("devplug-kubelet"), "pod", name, *words, "--json", "--state-dir", self.node.kubelet_state],
                                capture_output=True, text=True)
        self.assertEqual(answer.returncode, 0, answer.stdout + answer.stderr)
        return {container["name"]: (container["resources"], container["container"]) for container in json.loads(answer.stdout)["containers"]}

    def read(self, path):
        with open(path) as file:
            return file.read()

    def devices(self, path):
        """Attributes of devices by their id; of replicas by their name."""
        return {device["attributes"]["id"]["string"]: device for device in read_metadata(self.read(path))["requests"][0]["devices"]}

    def generation(self, path):
        return read_metadata(self.read(path))["metadata"]["generation"]

    def free(self, name):
        """Removes a pod; the kubelet's checkpoint contains it until another pod is admitted."""
        self.node.ask_kubelet("pod", "rm", name)
        self.node.ask_kubelet("pod", "rm", "next")
        self.assertIsNone(self.node.pod("next", other=1)[1])

    def begin_two(self):
        self.begin(static("gpu", 4, "metadata = true;"), static("other", 1), gpu=4, other=1)


class PluginMetadata(PluginMetadataTest):
    def test_forms(self):
        """Each member, for a container with two devices; another set of devices has another file, and the same set the same one."""
        self.begin_two()
        given, _ = self.node.pod("a", gpu=2)
        (path, host), = self.mounts(given).items()
        self.assertEqual(path, IN_CONTAINER.format("gpu"))
        ids = sorted(given["resources"]["vendor.example/gpu"])
        newest, older = map(json.loads, self.read(host).splitlines())
        found = newest["requests"][0]["devices"]
        self.assertEqual([device["attributes"]["id"] for device in found], [{"string": name} for name in ids])
        self.assertEqual([device["name"].rpartition("-")[0] for device in found], ids)
        wanted = {"apiVersion": "metadata.resource.k8s.io/v1beta1", "kind": "DeviceMetadata", "metadata": {"generation": 1},
                  "requests": [{"name": "vendor.example/gpu", "devices": [
                      {"driver": "vendor.example", "pool": "gpu", "name": device["name"], "attributes": {
                          "resource": {"string": "vendor.example/gpu"}, "id": {"string": name},
                          "k8s.cni.cncf.io/deviceID": {"string": name},
                          "k8s.cni.cncf.io/resourceName": {"string": "vendor.example/gpu"}}}
                      for name, device in zip(ids, found)]}]}
        self.assertEqual(newest, wanted)
        self.assertEqual(older, {**wanted, "apiVersion": "metadata.resource.k8s.io/v1alpha1"})
        self.assertEqual([stat.S_IMODE(os.stat(name).st_mode) for name in (host, self.folder)], [0o644, 0o755])

        other, _ = self.node.pod("b", gpu=1)
        self.assertNotEqual(self.mounts(other)[path], host)
        self.assertEqual(sorted(self.devices(self.mounts(other)[path])), other["resources"]["vendor.example/gpu"])
        self.assertEqual(len(self.hosts()), 2)

    def test_what_a_container_would_get(self):
        self.begin_two()
        shown = subprocess.run([program("devplugctl"), "-c", self.node.config, "preview", "vendor.example/gpu"], capture_output=True, text=True)
        self.assertIn(f"{IN_CONTAINER.format('gpu')} in the container describes its devices", " ".join(shown.stdout.split()))
        self.assertEqual(self.hosts(), [])

    def test_without_the_key(self):
        self.begin(static("gpu", 2), gpu=2)
        self.assertEqual(self.node.pod("a", gpu=1)[0]["mounts"], [])
        self.assertFalse(os.path.exists(self.folder))
        # A pod from before the key is as it was.
        self.configure(static("gpu", 2, "metadata = true;"))
        self.node.reload()
        # The process applies it after the reload.
        given = until(lambda: self.node.ask_kubelet("pod", "rm", "b") and (pod := self.node.pod("b", gpu=1)[0])["mounts"] and pod, "metadata")
        self.assertEqual(list(self.devices(self.mounts(given)[IN_CONTAINER.format("gpu")])), given["resources"]["vendor.example/gpu"])
        self.assertEqual(len(self.hosts()), 1)

    def test_containers(self):
        """Each container has a file about its own devices, for each of its resources; an init container's devices are the next one's."""
        self.begin(static("gpu", 4, "metadata = true;"), static("fpga", 2, "metadata = true;"), gpu=4, fpga=2)
        found = self.pod("a", "--init", "prep:vendor.example/gpu=1", "--container", "one:vendor.example/gpu=1,vendor.example/fpga=1",
                         "--container", "two:vendor.example/gpu=2", "--container", "idle")
        for resources, container in found.values():
            mounts = self.mounts(container)
            self.assertEqual(set(mounts), {IN_CONTAINER.format(name.partition("/")[2]) for name in resources})
            for name, ids in resources.items():
                self.assertEqual(sorted(self.devices(mounts[IN_CONTAINER.format(name.partition("/")[2])])), sorted(ids))
        prep, one = (self.mounts(found[name][1])[IN_CONTAINER.format("gpu")] for name in ("prep", "one"))
        self.assertEqual(prep, one)
        self.assertEqual(len(self.hosts()), 3)

    def test_replicas(self):
        """A name for each replica, and the attributes of its device; CDI names beside it change nothing."""
        self.begin(static("gpu", 2, 'metadata = true; share = { replicas = 2; }; cdi_spec = { kind = "vendor.example/card"; };'
                                    ' container = { env = ( "A=${id}" ); };'), gpu=4)
        given, _ = self.node.pod("a", gpu=3)
        found = read_metadata(self.read(self.mounts(given)[IN_CONTAINER.format("gpu")]))["requests"][0]["devices"]
        self.assertEqual([device["attributes"]["id"]["string"] for device in found],
                         sorted(name.partition("#")[0] for name in given["resources"]["vendor.example/gpu"]))
        self.assertEqual(len({device["name"] for device in found}), 3)

    def test_P22_life(self):
        """The file is the same over a stop, kills, reloads and without its resource, comes back after another process has removed it,
        and ends with the pod."""
        self.begin_two()
        self.assertIsNone(self.node.pod("a", gpu=2)[1])
        host, = self.hosts()
        text, inode = self.read(host), os.stat(host).st_ino
        for number in (signal.SIGTERM, signal.SIGKILL):
            self.node.stop(number)
            self.assertEqual(self.hosts(), [host])
            self.node.start()
            self.node.await_serving()
        os.kill(self.node.find("vendor.example/gpu")["pid"], signal.SIGKILL)
        self.node.await_serving()
        for resources in ((static("gpu", 4),), (), (static("gpu", 4, "metadata = true;"),)):
            self.configure(*resources, static("other", 1))
            self.node.reload()
            self.node.await_serving()
        self.assertEqual((self.hosts(), self.read(host), os.stat(host).st_ino), ([host], text, inode))
        os.unlink(host)
        until(lambda: self.hosts() == [host], "the file to be written again")
        shutil.rmtree(self.folder)
        until(lambda: self.hosts() == [host], "the directory to be made again")
        self.assertEqual(self.read(host), text)

        again, _ = self.node.pod("b", gpu=1)
        self.assertEqual(len(self.hosts()), 2)
        self.free("a")
        until(lambda: host not in self.hosts(), "the file to go with its pod")
        self.assertEqual(self.hosts(), list(self.mounts(again).values()))
        # A pod that ends while no daemon runs.
        self.node.stop(signal.SIGKILL)
        self.node.ask_kubelet("pod", "rm", "b")
        self.node.start()
        self.node.await_serving()
        self.free("b")
        until(lambda: not self.hosts(), "the file to go with its pod")

    def start_until_ready(self):
        """Until systemd would start the kubelet."""
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as listener:
            listener.settimeout(LIMIT)
            listener.bind(self.node.environment.setdefault("NOTIFY_SOCKET", self.node.path("notify")))
            self.node.start()
            until(lambda: "READY=1" in listener.recv(4096).decode().splitlines(), "READY=1")
            os.unlink(self.node.path("notify"))

    def test_restart_of_the_host(self):
        """The kubelet does not call Allocate again: the file that its stored answer mounts is there before the kubelet may start, also
        if the resource was removed meanwhile."""
        self.begin_two()
        given, _ = self.node.pod("a", gpu=2)
        host, = self.hosts()
        text = self.read(host)
        for resources in ((static("gpu", 4, "metadata = true;"), static("other", 1)), (static("other", 1),)):
            self.assertEqual(self.node.ask_kubelet("reboot").returncode, 0)
            self.node.stop_kubelet(signal.SIGKILL)
            self.node.stop(signal.SIGKILL)
            remove_tree(self.node.run)
            remove_tree(self.cdi)
            self.configure(*resources)
            self.start_until_ready()
            self.assertEqual(self.hosts(), [host])
            self.node.await_state("vendor.example/other", "waiting")
            self.node.start_kubelet()
            self.node.await_serving()
            if len(resources) > 1:
                until(lambda: re.sub('"generation":[0-9]+', '"generation":1', self.read(host)) == text, "the attributes")
                again = self.node.ask_kubelet("pod", "restart", "a", "--json")
                self.assertEqual(again.returncode, 0, again.stdout)
        self.assertEqual([device["name"] for device in read_metadata(self.read(host))["requests"][0]["devices"]],
                         [device["name"] for device in read_metadata(text)["requests"][0]["devices"]])
        self.assertEqual(self.mounts(given), {IN_CONTAINER.format("gpu"): host})

    def test_cannot_be_written(self):
        """The container is refused with the reason: its application would not find its devices."""
        self.begin_two()
        os.makedirs(self.cdi, exist_ok=True)
        with open(self.folder, "w"):
            pass
        self.assertRegex(str(self.node.pod("a", gpu=1)[1]), "cannot write .*/devplugd.metadata/")
        os.unlink(self.folder)
        self.assertIsNone(self.node.pod("b", gpu=1)[1])

    def test_device_that_disappears(self):
        """Reports of a device that is booked, and bookings, do not answer each other without end. devplugd saves the health of each
        report; wakeups of another process show that time passes."""
        for name in ("gone", "calm"):
            os.mkdir(self.node.path(name))
            os.mknod(self.node.path(name + "/0"), stat.S_IFCHR | 0o666, os.makedev(1, 3))
        self.begin(*(f'{{ name = "vendor.example/{name}"; driver = "path"; match = "{self.node.path(name)}/*"; metadata = true; '
                     'overlap = "exclusive"; }' for name in ("gone", "calm")), gone=1, calm=1)
        for name in ("gone", "calm"):
            self.assertIsNone(self.node.pod(name, **{name: 1})[1])
        os.unlink(self.node.path("gone/0"))
        until(lambda: self.node.resource("vendor.example/gone")["healthy"] == 0, "the device to disappear")
        saved, = glob.glob(os.path.join(self.node.run, "health/gone-*.json"))
        threads = glob.glob(f"/proc/{self.node.resource('vendor.example/calm')['pid']}/task/*/status")

        def wakeups():
            return sum(int(number) for path in threads for number in re.findall("^voluntary_ctxt_switches:\t([0-9]+)", self.read(path), re.M))

        def is_quiet():
            begin, before = wakeups(), os.stat(saved)
            until(lambda: wakeups() >= begin + 20, "another process to wake up")
            after = os.stat(saved)
            return (after.st_ino, after.st_mtime_ns) == (before.st_ino, before.st_mtime_ns)

        self.assertTrue(any(is_quiet() for _ in range(5)))

    def test_path_that_is_taken(self):
        with open(self.node.path("mine"), "w"):
            pass
        self.begin(static("gpu", 1, f'metadata = true; container = {{ mounts = ( {{ host = "{self.node.path("mine")}"; '
                                    f'path = "{IN_CONTAINER.format("gpu")}"; }} ); }};'), gpu=1)
        self.assertRegex(str(self.node.pod("a", gpu=1)[1]), "metadata.json in the container would be both .*/mine and the metadata of")


class Hardware(PluginMetadataTest):
    """Attributes of hardware in a tree."""

    def begin_host(self, *names, more=""):
        self.host = NumberedHost(self.node.path("host"), 0)
        self.begin(*(f'{{ name = "vendor.example/{name}"; {RESOURCES[name]} metadata = true; host_root = "{self.host.root}"; {more} }}'
                     for name in names), **{name: 1 for name in names})

    def test_one_application(self):
        """It finds its function by metadata of a plugin as by that of a claim, and so does KubeVirt a device for a virtual machine."""
        self.begin_host("vm", "vgpu")
        given, _ = self.node.pod("a", vm=1)
        files = {path: self.read(host) for path, host in self.mounts(given).items()}
        self.assertEqual(application(files), ["0000:04:00.0"])
        claims = {"/var/run/kubernetes.io/dra-device-attributes/resourceclaims/c/r/d-metadata.json": json.dumps({
            "apiVersion": "metadata.resource.k8s.io/v1beta1", "kind": "DeviceMetadata", "metadata": {"name": "c"}, "requests": [
                {"name": "r", "devices": [{"driver": "d", "pool": "p", "name": "x", "attributes": {
                    "resource.kubernetes.io/pciBusID": {"string": "0000:04:00.0"}}}]}]})}
        self.assertEqual(application(claims), application(files))
        self.assertEqual(kubevirt_host_device(self.devices(*self.mounts(given).values()).popitem()[1]["attributes"]), ("pci", "0000:04:00.0"))
        found = self.mounts(self.node.pod("b", vgpu=1)[0])
        self.assertEqual(kubevirt_host_device(self.devices(*found.values()).popitem()[1]["attributes"])[0], "mdev")

    def test_changes(self):
        """An attribute changes while containers run: the next generation, in the same file, which they have mounted. Files of other
        containers stay as they are; a generation is never used twice, also by another daemon."""
        self.begin_host("vm", "camera", more='dra = { attributes = ( { name = "firmware"; value = "${attr:fw_ver}"; } ); };')
        function = self.host.path("sys/devices/pci0000:00/0000:00:01.0/0000:04:00.0")
        (path,) = self.mounts(self.node.pod("a", vm=1)[0]).values()
        (other,) = self.mounts(self.node.pod("b", camera=1)[0]).values()
        unchanged = self.read(other)

        def set_firmware(text):
            with open(f"{function}/fw_ver", "w") as file:
                file.write(text + "\n")

        def rescan():
            answer = subprocess.run([program("devplugctl"), "-c", self.node.config, "rescan", "vendor.example/vm"], capture_output=True)
            self.assertEqual(answer.returncode, 0, answer.stderr)

        def firmware(file):
            file.seek(0)
            try:
                found = read_metadata(file.read())
            except ValueError:
                return "it is being written"
            return found["metadata"]["generation"], found["requests"][0]["devices"][0]["attributes"].get("firmware", {}).get("string")

        with open(path) as mounted:
            self.assertEqual(firmware(mounted), (1, None))
            for generation, value in ((2, "a long version of the firmware"), (3, "A2")):
                set_firmware(value)
                rescan()
                until(lambda: firmware(mounted) == (generation, value), "the next generation")
            self.node.stop(signal.SIGKILL)
            self.node.start()
            self.node.await_serving()
            rescan()
            self.assertEqual(firmware(mounted), (3, "A2"))
            self.node.stop()
            set_firmware("A3")
            self.node.start()
            until(lambda: firmware(mounted) == (4, "A3"), "what changed while no daemon ran")
            # The device disappears, in one step: its attributes stay.
            os.rename(function, self.node.path("gone"))
            until(lambda: self.node.resource("vendor.example/vm")["healthy"] == 0, "the device to be away")
            self.assertEqual(firmware(mounted), (4, "A3"))
        self.assertEqual(self.read(other), unchanged)


if __name__ == "__main__":
    unittest.main()
