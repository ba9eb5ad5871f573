# SPDX-License-Identifier: Apache-2.0
"""What devplugd keeps of claims: over a stop, a restart of the host, an update, and other processes that remove files."""
import concurrent.futures
import contextlib
import json
import os
import shutil
import signal
import socket
import stat
import unittest

from dra_node import DRIVER, DraTest
from node import remove_tree, until
from vfio_host import VfioHost


class DraClaims(DraTest):
    def setUp(self):
        super().setUp()
        self.state = self.node.path("state")
        self.node.environment["STATE_DIRECTORY"] = self.state
        self.done = self.node.path("done")
        os.mkdir(self.done)
        os.chmod(self.done, 0o777)

    def counted(self):
        """A prestart program that leaves a trace."""
        program = self.script("prestart", f'mktemp "{self.done}/$1.XXXXXX" > /dev/null\n')
        return f'prestart = {{ command = [ "{program}", "${{id}}" ]; }};'

    def runs(self, name=""):
        return len([found for found in os.listdir(self.done) if found.startswith(name)])

    def claim(self, name, *devices, resource="gpu"):
        names = [self.api.device_named(f"vendor.example/{resource}", device) for device in devices]
        return "default", name, self.api.allocate(name, DRIVER, [("a", device) for device in names])

    def start(self, begun=lambda: None):
        self.node.start()
        begun()
        self.register_again()
        until(lambda: self.dra()["slices"] == 1, "devplugd-cluster to know the devices")

    def test_P22_stop_and_start(self):
        """systemd removes the runtime directory of a service that is stopped."""
        self.serve_api()
        self.begin(self.resource("gpu", self.counted()))
        self.await_pool()
        claim = self.claim("c", 0)
        answer = self.prepare(claim)
        path = os.path.join(self.cdi, *self.files())
        before = os.stat(path).st_ino
        self.node.stop()
        remove_tree(self.node.run)
        self.assertEqual(stat.S_IMODE(os.stat(self.saved(claim[2])).st_mode), 0o600)
        self.start()
        self.assertEqual(os.stat(path).st_ino, before)
        self.assertEqual(self.dra()["claims"], 1)
        thief = self.claim("thief", 0)
        self.assertIn("still prepared for the claim default/c", self.refusal(thief))
        self.assertEqual(self.prepare(claim), answer)
        self.assertEqual(self.runs(), 1)
        self.assertEqual(self.unprepare(claim), {claim[2]: ""})
        self.assertEqual((self.files(), os.listdir(os.path.dirname(self.saved("x")))), ([], []))
        self.assertNotIsInstance(self.prepare(thief)[thief[2]], str)

    def restart_host(self, *claims):
        """The directory of CDI files may be one that outlives the host's restart."""
        self.node.stop()
        remove_tree(self.node.run)
        for claim in claims:
            self.change_saved(claim[2], lambda saved: saved.update(boot="00000000-0000-0000-0000-000000000000"))

    @contextlib.contextmanager
    def full_socket_of_systemd(self):
        """devplugd waits when it sends READY=1, until the socket is closed."""
        path = self.node.environment["NOTIFY_SOCKET"] = self.node.path("notify")
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as systemd, \
                socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as other:
            systemd.bind(path)
            other.connect(path)
            other.setblocking(False)
            with contextlib.suppress(BlockingIOError):
                while True:
                    other.send(b"X=1")
            yield systemd
        del self.node.environment["NOTIFY_SOCKET"]

    def test_restart_of_the_host(self):
        """Devices stay with their claims, which the kubelet prepares again: with prestart, and under the same CDI names."""
        self.serve_api()
        self.begin(self.resource("gpu", self.counted()))
        self.await_pool()
        claim, other, forgotten = self.claim("c", 0), self.claim("other", 1), self.claim("forgotten", 2)
        answer = self.prepare(claim, other, forgotten)
        before = self.specification(claim[2])
        self.restart_host(claim, other, forgotten)
        self.assertEqual(len(self.files()), 3)
        with self.full_socket_of_systemd() as systemd:
            def begun():
                until(lambda: self.files() == [], "the CDI files to be removed before devplugd is ready")
                systemd.close()

            self.start(begun)
        self.assertEqual(self.files(), [])
        self.assertEqual(self.dra()["claims"], 0)
        thief = self.claim("thief", 0)
        self.assertIn("still prepared for the claim default/c", self.refusal(thief))
        self.assertEqual(self.runs(), 3)
        self.assertEqual(self.prepare(claim), {claim[2]: answer[claim[2]]})
        self.assertEqual(self.specification(claim[2]), before)
        self.assertEqual((self.runs("gpu-0"), self.runs()), (2, 4))
        # Its pod was deleted meanwhile.
        self.assertEqual(self.unprepare(other), {other[2]: ""})
        free = self.claim("free", 1)
        self.assertNotIsInstance(self.prepare(free)[free[2]], str)
        self.assertEqual(self.ctl("forget", "vendor.example/gpu/gpu-2").returncode, 0)
        free = self.claim("next", 2)
        self.assertNotIsInstance(self.prepare(free)[free[2]], str)

    def test_names_never_change(self):
        """Where the configuration gives other CDI names now, the claim is refused: the kubelet would use both."""
        self.serve_api()
        os.mkdir(self.node.path("other"))
        with open(self.node.path("other/other.json"), "w") as file:
            json.dump({"cdiVersion": "0.3.0", "kind": "vendor.example/other", "devices": [
                {"name": name, "containerEdits": {"env": [f"X={name}"]}} for name in "xy"]}, file)

        def resource(name):
            return (f'{{ name = "vendor.example/gpu"; driver = "static"; match = ( {{ count = 2; }} ); serve = "dra"; '
                    f'container = {{ env = "GPU=${{ids:,}}"; cdi = ( "vendor.example/other={name}" ); '
                    f'cdi_dirs = "{self.node.path("other")}"; }}; }}')

        self.begin(resource("x"))
        self.await_pool()
        claim = self.claim("c", 0)
        answer = self.prepare(claim)
        self.restart_host(claim)
        self.configure(resource("y"))
        self.start()
        self.assertIn("delete the pods of the claim", self.refusal(claim))
        self.configure(resource("x"))
        self.node.reload()
        until(lambda: self.prepare(claim) == answer, "the claim to be prepared")

    def test_names_of_devices(self):
        """A CDI name contains the name of the device, which the kubelet shows in the status of the pod."""
        self.serve_api()
        self.begin(self.resource("gpu"), self.resource("fpga"))
        self.await_pool(lambda pool: len(pool) == 6)
        gpus = [self.api.device_named("vendor.example/gpu", number) for number in range(2)]
        fpga = self.api.device_named("vendor.example/fpga", 0)
        claim = "default", "c", self.api.allocate("c", DRIVER, [("a", gpus[0]), ("a", gpus[1]), ("a", fpga), ("b", gpus[0])])
        names = [f"devplugd/claim={claim[2]}-{name}" for name in (gpus[0], fpga, f"{gpus[0]}-2")]
        self.assertEqual([device["cdi"] for device in self.prepare(claim)[claim[2]]], [names[:1], [], [names[1]], [names[2]]])
        self.assertEqual(sorted(self.specification(claim[2])), sorted(names))

    def test_names_of_earlier_versions(self):
        """A claim that an earlier version has prepared keeps its names, over the upgrade and over a restart of the host."""
        self.serve_api()
        self.begin(self.resource("gpu", self.counted()), self.resource("fpga"))
        self.await_pool(lambda pool: len(pool) == 6)
        devices = [self.api.device_named(f"vendor.example/{name}", 0) for name in ("gpu", "fpga")]
        claim = "default", "c", self.api.allocate("c", DRIVER, [("a", name) for name in devices])
        self.prepare(claim)
        edits = {f"devplugd/claim={claim[2]}-{number}": self.specification(claim[2])[f"devplugd/claim={claim[2]}-{name}"]
                 for number, name in enumerate(devices)}

        def rename(saved):
            for number, device in enumerate(saved["devices"]):
                device["cdi"] = [f"devplugd/claim={claim[2]}-{number}"]
            for device in saved["spec"]["devices"]:
                device["name"] = f"{claim[2]}-{devices.index(device['name'].removeprefix(claim[2] + '-'))}"

        self.node.stop()
        self.change_saved(claim[2], rename)
        self.start()
        for host in (False, True):
            if host:
                self.restart_host(claim)
                self.start()
            answer = self.prepare(claim)[claim[2]]
            self.assertEqual([device["cdi"] for device in answer], [[name] for name in edits])
            self.assertEqual(self.specification(claim[2]), edits)
            self.assertEqual(self.runs(), 1 + host)
        self.configure(self.resource("gpu", self.counted()).replace('"GPU=', '"OTHER='), self.resource("fpga"))
        self.node.reload()
        first = next(iter(edits))
        until(lambda: self.specification(claim[2]) == {**edits, first: {"env": ["OTHER=gpu-0"]}}, "the file of other edits")
        self.assertEqual(self.unprepare(claim), {claim[2]: ""})
        self.assertEqual(list(self.prepare(claim)[claim[2]][0]["cdi"]), [f"devplugd/claim={claim[2]}-{devices[0]}"])

    def test_other_processes_remove_files(self):
        self.serve_api()
        self.begin(self.resource("gpu"))
        self.await_pool()
        claim = self.claim("c", 0)
        self.prepare(claim)
        before, path = self.specification(claim[2]), os.path.join(self.cdi, *self.files())
        os.unlink(path)
        until(lambda: self.specification(claim[2]) == before, "the file to be written again")
        self.assertIn(f"another process has removed or changed {path}", self.node.output())
        with open(path, "w"):
            pass
        until(lambda: os.path.getsize(path) and self.specification(claim[2]) == before, "the content to be restored")
        os.rename(self.state, self.node.path("gone"))
        shutil.rmtree(self.node.path("gone"))
        until(lambda: os.path.exists(self.saved(claim[2])), "the claim to be saved again")

    def test_nodes_change(self):
        """The file follows the nodes of its devices, also of one that is cordoned, and prestart is not run again."""
        dev = self.node.path("dev")
        os.mkdir(dev)
        for name in ("video0", "video4", "video5"):
            os.mknod(f"{dev}/{name}", stat.S_IFCHR | 0o666, os.makedev(1, 3))
        camera = f"{dev}/camera"

        def health():
            return [found["reason"] for found in self.node.resource("vendor.example/gpu")["devices"]]

        def plug(name):
            """In another port, after it has been away."""
            os.unlink(camera)
            until(lambda: "disappeared" in health()[0], "the device to be away")
            os.symlink(name, camera)

        def nodes():
            edits, = self.specification(claim[2]).values()
            node, = edits["deviceNodes"]
            return node.get("hostPath", node["path"])

        os.symlink("video0", camera)
        self.serve_api()
        self.begin(f'{{ name = "vendor.example/gpu"; driver = "path"; match = "{camera}"; serve = "dra"; {self.counted()} }}')
        self.await_pool()
        claim = "default", "c", self.api.allocate("c", DRIVER, [("a", next(iter(self.api.pool())))])
        answer = self.prepare(claim)
        # A container runtime refuses a link.
        self.assertEqual(nodes(), f"{dev}/video0")
        plug("video4")
        until(lambda: nodes() == f"{dev}/video4", "the other node in the file")
        device = self.node.resource("vendor.example/gpu")["devices"][0]["id"]
        self.assertEqual(self.ctl("cordon", f"vendor.example/gpu/{device}").returncode, 0)
        plug("video5")
        until(lambda: nodes() == f"{dev}/video5", "the node of the cordoned device")
        self.node.stop()
        os.unlink(camera)
        os.symlink("video0", camera)
        self.start()
        until(lambda: nodes() == f"{dev}/video0", "the node after a start")
        self.assertEqual(self.prepare(claim), answer)
        self.assertEqual(self.runs(), 1)

    def test_optional_node_and_link(self):
        """The file of a claim follows an optional node, and the target of a mount that is a link."""
        node, tool = self.node.path("more"), self.node.path("tool")
        os.symlink("state", tool)
        self.serve_api()
        self.begin('{ name = "vendor.example/gpu"; driver = "static"; match = ( "gpu-0" ); serve = "dra"; '
                   f'container = {{ nodes = ( "?{node}" ); mounts = ( {{ host = "{tool}"; }} ); }}; }}')
        self.await_pool()
        claim = self.claim("c", 0)
        self.prepare(claim)

        def parts():
            edits, = self.specification(claim[2]).values()
            return [found["path"] for found in edits.get("deviceNodes", ())], [mount["hostPath"] for mount in edits["mounts"]]

        self.assertEqual(parts(), ([], [self.state]))
        os.mknod(node, stat.S_IFCHR | 0o666, os.makedev(1, 3))
        until(lambda: parts() == ([node], [self.state]), "the node in the file")
        os.symlink("done", f"{tool}.new")
        os.rename(f"{tool}.new", tool)
        until(lambda: parts() == ([node], [self.done]), "the new target in the file")
        os.unlink(node)
        until(lambda: parts() == ([], [self.done]), "the node to be removed from the file")

    def test_P21_node_of_a_missing_device(self):
        """The file of a claim cannot follow a device that has gone. Another device that gets its node is offered to no pod, until the
        claim is unprepared or the device is back."""
        host, names = VfioHost(self.node.path("pci")), [f"0000:01:00.{number}" for number in range(3)]
        for number, name in enumerate(names):
            host.plug(name, number)
        self.serve_api()
        self.begin('{ name = "vendor.example/gpu"; driver = "pci"; match = ( { access = "vfio"; vendor = 0x10de; } ); '
                   f'host_root = "{host.root}"; serve = "dra"; }}')
        self.await_pool(lambda pool: len(pool) == 3)
        claim, thief = self.claim("c", 0), self.claim("thief", 1)
        self.prepare(claim)
        before = self.specification(claim[2])

        def reasons():
            return {device["id"]: device.get("reason") for device in self.node.resource("vendor.example/gpu")["devices"]
                    if device["health"] != "Healthy"}

        def is_taken():
            return reasons().get(names[1]) == (f'a pod with device "{names[0]}" of vendor.example/gpu uses /dev/vfio/0, which is this device '
                                               'now: delete that pod')

        host.unplug(names[0])
        host.unplug(names[1])
        until(lambda: set(names[:2]) <= reasons().keys() | set(names) - self.listed(), "the devices to be away")
        host.plug(names[1], 0)
        until(is_taken, f"the reason, not {reasons()}")
        self.assertIn("which is this device now", self.refusal(thief))
        self.assertEqual(self.specification(claim[2]), before)
        # Also after a restart.
        self.node.stop(signal.SIGKILL)
        self.start()
        until(is_taken, f"the reason after a restart, not {reasons()}")
        # The file follows the device again.
        host.plug(names[0], 5)
        until(lambda: not reasons(), "all devices to be healthy")
        until(lambda: [edits["deviceNodes"][0]["path"] for edits in self.specification(claim[2]).values()] == ["/dev/vfio/5"], "the file")
        host.unplug(names[0])
        until(lambda: names[0] in reasons(), "the device to be away")
        host.plug("0000:01:00.3", 5)
        until(lambda: "0000:01:00.3" in reasons(), "the new device to be unhealthy")
        self.assertEqual(self.unprepare(claim), {claim[2]: ""})
        until(lambda: "0000:01:00.3" not in reasons(), "the new device to be healthy")

    def test_P21_file_that_cannot_be_written(self):
        """The file of a claim follows its device as soon as it can be written, without another change. Until then, another device with
        the former node is offered to no pod."""
        host, names = VfioHost(self.node.path("pci")), [f"0000:01:00.{number}" for number in range(2)]
        host.plug(names[0], 0)
        self.serve_api()
        self.begin('{ name = "vendor.example/gpu"; driver = "pci"; match = ( { access = "vfio"; vendor = 0x10de; } ); '
                   f'host_root = "{host.root}"; serve = "dra"; }}')
        self.await_pool(lambda pool: len(pool) == 1)
        claim = self.claim("c", 0)
        self.prepare(claim)
        directory = os.path.dirname(self.saved(claim[2]))

        def reasons():
            return {device["id"]: device["reason"] for device in self.node.resource("vendor.example/gpu")["devices"]
                    if device["health"] != "Healthy"}

        # devplugd does not use a directory that others can write to.
        os.chmod(directory, 0o777)
        host.unplug(names[0])
        until(lambda: names[0] in reasons(), "the device to be away")
        host.plug(names[0], 5)
        until(lambda: "cannot bring the CDI file of the claim default/c up to date: " in self.node.output(), "the failure")
        host.plug(names[1], 0)
        until(lambda: "uses /dev/vfio/0, which is this device now" in reasons().get(names[1], ""), "the new device to be withheld")
        os.chmod(directory, 0o700)
        until(lambda: [edits["deviceNodes"][0]["path"] for edits in self.specification(claim[2]).values()] == ["/dev/vfio/5"], "the file")
        until(lambda: not reasons(), "all devices to be healthy")

    def listed(self):
        return {device["id"] for device in self.node.resource("vendor.example/gpu")["devices"]}

    def test_invalid_file(self):
        """It is dropped with a warning that names it, and the others stay."""
        self.serve_api()
        self.begin(self.resource("gpu"))
        self.await_pool()
        claim = self.claim("c", 0)
        answer = self.prepare(claim)
        self.node.stop()
        for uid, text in (("empty", ""), ("list", "[]"), ("old", '{"version": 7}')):
            with open(self.saved(uid), "w") as file:
                file.write(text)
        self.start()
        for uid in ("empty", "list", "old"):
            self.assertIn(f"(UID {uid}) cannot be read, and is dropped", self.node.output())
        self.assertEqual(os.listdir(os.path.dirname(self.saved("x"))), [f"{claim[2]}.json"])
        self.assertEqual(self.prepare(claim), answer)

    def test_P22_file_that_cannot_be_read(self):
        """The claim stays: until it is read, its CDI file stays and no claim is prepared or unprepared."""
        fault = self.node.environment["DEVPLUGD_FAIL_OPEN"] = self.node.path("fail-open")
        self.node.inject("")
        self.serve_api()
        self.begin(self.resource("gpu"))
        self.await_pool()
        claim, other, new = self.claim("c", 0), self.claim("other", 1), self.claim("new", 2)
        answer = self.prepare(claim, other)
        before = self.specification(claim[2])
        self.node.stop()
        with open(fault, "w") as file:
            file.write(f"{claim[2]}.json")
        self.start()
        self.assertIn(f"/{claim[2]}.json: Too many open files; no claim is prepared or unprepared", self.node.output())
        self.assertEqual(self.specification(claim[2]), before)
        self.assertIn("claims that were prepared earlier cannot be read", self.refusal(new))
        self.assertIn("claims that were prepared earlier cannot be read", self.unprepare(claim)[claim[2]])
        self.assertEqual(self.prepare(other), {other[2]: answer[other[2]]})
        os.unlink(fault)
        until(lambda: "all claims that were prepared are read now" in self.node.output(), "the claim to be read")
        self.assertEqual(self.prepare(claim), {claim[2]: answer[claim[2]]})
        self.assertEqual(self.specification(claim[2]), before)
        self.assertNotIsInstance(self.prepare(new)[new[2]], str)
        self.assertEqual(self.unprepare(claim), {claim[2]: ""})

    def test_file_of_earlier_versions(self):
        """It is read once, and becomes a file for each claim."""
        self.serve_api()
        self.begin(self.resource("gpu", self.counted()))
        self.await_pool()
        claim = self.claim("c", 0)
        answer = self.prepare(claim)
        before = self.specification(claim[2])
        self.node.stop()
        with open(self.saved(claim[2])) as file:
            saved = {key: value for key, value in json.load(file).items() if key not in ("version", "boot")}
        del saved["devices"][0]["edits"]
        shutil.rmtree(self.state)
        former = os.path.join(self.node.run, "dra-claims")
        with open(former, "w") as file:
            json.dump({"version": 1, "claims": {claim[2]: saved, "bad": {"uid": "bad"}}}, file)
        self.start()
        self.assertFalse(os.path.exists(former))
        self.assertIn("(UID bad) cannot be read", self.node.output())
        self.assertEqual(os.listdir(os.path.dirname(self.saved("x"))), [f"{claim[2]}.json"])
        self.assertEqual(self.prepare(claim), answer)
        self.assertEqual((self.specification(claim[2]), self.runs()), (before, 1))

    def test_second_daemon(self):
        """One with another runtime_dir leaves the files alone."""
        self.serve_api()
        self.begin(self.resource("gpu"))
        self.await_pool()
        claim = self.claim("c", 0)
        self.prepare(claim)
        self.node.stop()
        first, self.node.run = self.node.run, self.node.path("other")
        del self.node.environment["STATE_DIRECTORY"]
        self.configure(self.resource("fpga"))
        self.start()
        self.assertEqual(len(self.files()), 1)
        self.assertFalse(os.path.exists(os.path.join(first, "claims")))

    def blocked(self):
        """A prestart program that leaves a trace, and waits for the file `go`."""
        program = self.script("prestart", f'mktemp "{self.done}/$1.XXXXXX" > /dev/null\n'
                                          f'until [ -e "{self.done}/go" ]; do sleep 0.1; done\n')
        return f'prestart = {{ command = [ "{program}", "${{id}}" ]; timeout = 25; }};'

    def test_slow_resource(self):
        """Claims of other resources are prepared meanwhile, and unprepared."""
        self.serve_api()
        self.begin(self.resource("gpu", self.blocked()), self.resource("fpga"))
        self.await_pool()
        slow, more, fast = self.claim("slow", 0), self.claim("more", 1), self.claim("fast", 0, resource="fpga")
        with concurrent.futures.ThreadPoolExecutor() as pool:
            calls = [pool.submit(self.prepare, claim) for claim in (slow, more)]
            until(self.runs, "the program to run")
            self.assertNotIsInstance(self.prepare(fast)[fast[2]], str)
            self.assertEqual(self.unprepare(fast), {fast[2]: ""})
            # One at a time of each resource.
            self.assertEqual(self.runs(), 1)
            self.assertFalse(any(call.done() for call in calls))
            with open(os.path.join(self.done, "go"), "w"):
                pass
            for claim, call in zip((slow, more), calls):
                self.assertNotIsInstance(call.result()[claim[2]], str)

    def test_abandoned_call(self):
        """What runs for a claim goes on, and is not run again beside it."""
        self.serve_api()
        self.begin(self.resource("gpu", self.blocked()))
        self.await_pool()
        claim = self.claim("c", 0)
        with concurrent.futures.ThreadPoolExecutor() as pool:
            first = pool.submit(self.prepare, claim)
            until(self.runs, "the program to run")
            self.assertEqual(self.unprepare(claim), {claim[2]: ""})
            self.assertIn("unprepared while it was being prepared", first.result()[claim[2]])
            self.assertIn("has not ended yet", self.refusal(claim))
            thief = self.claim("thief", 0)
            self.assertIn("is being prepared for the claim default/c", self.refusal(thief))
            self.assertEqual(self.runs("gpu"), 1)
            with open(os.path.join(self.done, "go"), "w"):
                pass
            until(lambda: not isinstance(self.prepare(claim)[claim[2]], str), "the claim to be prepared")
        self.assertEqual(self.runs("gpu"), 2)

    def test_P10_size_of_claims(self):
        """What exceeds 16 MiB for all claims is refused, and what is prepared stays."""
        self.serve_api()
        # As much as a program can be started with, in each of eight variables.
        large = ", ".join(f'"GPU{number}=${{ids:,}}{"x" * 130000}"' for number in range(8))
        self.begin(self.resource("gpu", count=24).replace('"GPU=${ids:,}"', f"( {large} )"))
        self.await_pool()
        claims = [self.claim(f"c{i}", i) for i in range(24)]
        answers = {claim[2]: self.refusal(claim) for claim in claims}
        prepared = [uid for uid, answer in answers.items() if not isinstance(answer, str)]
        refused = {uid: answer for uid, answer in answers.items() if isinstance(answer, str)}
        self.assertTrue(prepared)
        self.assertEqual({"would take more than 16 MiB" in answer for answer in refused.values()}, {True})
        folder = os.path.dirname(self.saved("x"))
        self.assertLessEqual(sum(os.path.getsize(os.path.join(folder, name)) for name in os.listdir(folder)), 16 << 20)
        self.assertEqual(sorted(os.listdir(folder)), sorted(f"{uid}.json" for uid in prepared))
        self.assertEqual(len(self.files()), len(prepared))
        self.assertEqual(self.unprepare(claims[0]), {claims[0][2]: ""})
        self.assertNotIsInstance(self.prepare(claims[-1])[claims[-1][2]], str)


if __name__ == "__main__":
    unittest.main()
