# SPDX-License-Identifier: Apache-2.0
"""CDI files: there before the kubelet hears of a device, kept up to date, and understood by a container runtime.

complaints.md: M9.
"""
import json
import os
import shutil
import signal
import stat
import subprocess
import unittest

import cdi
from node import NodeTest, files_for_others, path, program, static, until

FILE = "devplugd-vendor.example=card.json"
OF_KEY = "devplugd-devplugd.vendor.example=card.json"
KIND = 'cdi_spec = { kind = "vendor.example/card"; %s };'


class PublishedFiles(NodeTest):
    def setUp(self):
        super().setUp()
        self.folder = self.node.path("cdi")
        self.file = os.path.join(self.folder, FILE)
        os.mkdir(self.node.plugins)
        os.mkdir(self.node.path("dev"))

    def add_card(self, number):
        os.mknod(self.node.path(f"dev/card{number}"), stat.S_IFCHR | 0o666, os.makedev(1, 3))

    def configure(self, *resources, folder=None):
        self.node.configure(*resources, text=f'cdi_dir = "{folder or self.folder}";')

    def cards(self, more="", kind=KIND % ""):
        return path("card", self.node.path("dev/card*"), kind + more)

    def devices(self):
        """Edits by qualified name, after a look at the whole document."""
        with open(self.file) as file:
            return cdi.check(json.load(file))

    def name(self, number):
        return "vendor.example/card=" + self.node.path(f"dev/card{number}")[1:].replace("/", ":")

    def start(self):
        self.node.start_kubelet()
        self.node.start()

    def free(self, name, other="other"):
        """Removes a pod; the kubelet's checkpoint contains it until another pod is admitted."""
        self.node.ask_kubelet("pod", "rm", name)
        self.assertIsNone(self.node.pod("next", **{other: 1})[1])

    def test_names_instead_of_nodes(self):
        self.add_card(0)
        self.add_card(1)
        self.configure(self.cards('container = { env = ( "A=b", "CARDS=${n}" ); };', KIND % "annotations = true;"))
        self.start()
        self.node.await_allocatable(card=2)
        names = [self.name(0), self.name(1)]
        self.assertEqual(sorted(self.devices()), names)
        self.assertEqual(self.devices()[names[0]], {
            "deviceNodes": [{"path": self.node.path("dev/card0"), "permissions": "rw"}], "env": ["A=b"]})
        given, _ = self.node.pod("pod", card=2)
        self.assertEqual(given["cdi"], names)
        self.assertEqual(given["annotations"], {"cdi.k8s.io/vendor.example_card": ",".join(names)})
        self.assertEqual((given["devices"], given["mounts"], given["env"]), ([], [], {"CARDS": "2"}))

    def test_file_is_there_first(self):
        """Whatever id the kubelet has been told of is in the file at that moment."""
        self.configure(self.cards())
        self.start()
        self.node.await_allocatable(card=0)
        for number in range(20):
            self.add_card(number)
            until(lambda: len(self.node.node_resources()["vendor.example/card"]["devices"]) == number + 1, "the new card")
            self.assertIn(self.name(number), self.devices())

    def test_refresh_and_removal(self):
        self.add_card(0)
        self.configure(self.cards(), static("other", 1))
        self.start()
        self.node.await_allocatable(card=1, other=1)
        os.unlink(self.node.path("dev/card0"))
        # No document without devices.
        until(lambda: not os.path.exists(self.file), "the file to go with its only device")
        self.add_card(0)
        until(lambda: os.path.exists(self.file), "the file to be there again")
        self.configure(self.cards('container = { env = ( "NEW=1" ); };'), static("other", 1))
        self.node.reload()
        until(lambda: "NEW=1" in self.devices()[self.name(0)].get("env", []), "the new environment in the file")
        self.configure(static("other", 1))
        self.node.reload()
        until(lambda: not os.path.exists(self.file), "the file to go with its resource")

    def test_optional_parts_and_links(self):
        """The file follows the nodes and mounts of the container: optional ones, and the targets of links."""
        dev, tool = self.node.path("dev"), self.node.path("tool")
        for version in "12":
            os.mkdir(f"{tool}-{version}")
        os.symlink("tool-1", tool)
        self.add_card(0)
        self.configure(
            self.cards(f'container = {{ nodes = ( "?{dev}/more" ); mounts = ( {{ host = "{tool}"; path = "/tool"; }} ); }};'),
            f'{{ name = "vendor.example/only"; driver = "static"; match = ( "a" ); cdi_spec = {{ kind = "vendor.example/only"; }}; '
            f'container = {{ nodes = ( "?{dev}/more" ); }}; }}')
        self.start()
        self.node.await_allocatable(card=1, only=1)
        only = os.path.join(self.folder, "devplugd-vendor.example=only.json")

        def parts():
            edits = self.devices()[self.name(0)]
            return ([os.path.basename(node["path"]) for node in edits["deviceNodes"]],
                    [os.path.basename(mount["hostPath"]) for mount in edits["mounts"]])

        def expect(nodes, target, others):
            until(lambda: (parts(), os.path.exists(only)) == ((nodes, [target]), others), "the parts in the files")

        expect(["card0"], "tool-1", False)
        os.mknod(f"{dev}/more", stat.S_IFCHR | 0o666, os.makedev(1, 3))
        expect(["card0", "more"], "tool-1", True)
        os.symlink("tool-2", f"{tool}.new")
        os.rename(f"{tool}.new", tool)
        expect(["card0", "more"], "tool-2", True)
        os.unlink(f"{dev}/more")
        expect(["card0"], "tool-2", False)

    def test_P20_another_process_removes_files(self):
        self.add_card(0)
        self.configure(self.cards(), static("other", 1))
        self.start()
        self.node.await_allocatable(card=1, other=1)
        pid = self.node.find("vendor.example/card")["pid"]
        wanted = self.devices()

        def is_whole():
            try:
                return self.devices() == wanted
            except (FileNotFoundError, ValueError):
                return False

        os.unlink(self.file)
        until(is_whole, "the file to be written again")
        # At once: devplugd would restore the file before the directory is removed.
        os.rename(self.folder, self.node.path("gone"))
        shutil.rmtree(self.node.path("gone"))
        until(is_whole, "the directory to be made again")
        with open(self.file, "w") as file:
            file.write("other")
        until(is_whole, "the file to be as it was written")
        self.assertIn(f"another process has removed or changed {self.file}", self.node.output())
        self.assertEqual(self.node.find("vendor.example/card")["pid"], pid)

    def test_removed_key(self):
        self.add_card(0)
        self.configure(self.cards())
        self.start()
        self.node.await_allocatable(card=1)
        self.configure(self.cards(kind=""))
        self.node.reload()
        until(lambda: not os.path.exists(self.file), "the file to go with its key")

        def look():
            self.node.ask_kubelet("pod", "rm", "again")
            given, _ = self.node.pod("again", card=1)
            return given and given["devices"] and not given["cdi"]

        until(look, "containers to be given nodes again")

    def refuse(self, *resources):
        """Applies a file that the child of the card refuses: its list would exceed 4 MiB."""
        self.configure(*resources)
        self.node.reload()
        until(lambda: self.node.find("vendor.example/card")["refused"], "the child to refuse it")

    def test_P1_refused_reload_keeps_files(self):
        """What a child refuses changes neither its files nor what it may publish, not even after a restart of devplugd."""
        self.add_card(0)
        self.configure(self.cards('container = { env = "A=b"; };'), static("removed", 1))
        self.start()
        self.node.await_allocatable(card=1)
        before = self.devices()
        self.refuse(self.cards("share = { replicas = 100000; };", KIND.replace("card", "other") % ""))
        self.assertEqual(self.devices(), before)
        # The applied configuration is complete: also new devices are published.
        self.add_card(1)
        self.node.await_allocatable(card=2)
        self.assertEqual(sorted(self.devices()), [self.name(0), self.name(1)])
        self.assertEqual(self.node.pod("pod", card=1)[0]["cdi"][0].split("=")[0], "vendor.example/card")
        self.assertNotIn("cannot publish", self.node.output())
        # Containers with these names may be started again, although the resource cannot be.
        self.node.stop()
        self.node.start()
        until(lambda: (r := self.node.find("vendor.example/card")) and r["state"] == "failed", "the child to refuse it again")
        self.assertEqual(sorted(self.devices()), [self.name(0), self.name(1)])
        # What is accepted replaces them; a pod's stored answer names the old kind.
        self.configure(self.cards(kind=KIND.replace("card", "other") % ""), static("other", 1))
        self.node.reload()
        self.node.await_allocatable(card=2, other=1)
        self.assertEqual(files_for_others(self.folder), [FILE, FILE.replace("=card", "=other")])
        self.free("pod")
        until(lambda: files_for_others(self.folder) == [FILE.replace("=card", "=other")], "the file to have its other name")

    def test_P2_files_before_a_reload_is_accepted(self):
        """A child that has not read its new configuration yet publishes files of the old one."""
        self.add_card(0)
        self.configure(self.cards())
        self.start()
        self.node.await_allocatable(card=1)
        pid = self.node.find("vendor.example/card")["pid"]
        os.kill(pid, signal.SIGSTOP)
        self.add_card(1)
        self.configure(self.cards(kind=KIND.replace("card", "other") % ""))
        self.node.reload()
        self.assertTrue(os.path.exists(self.file))
        os.kill(pid, signal.SIGCONT)
        other = os.path.join(self.folder, FILE.replace("=card", "=other"))
        until(lambda: os.path.exists(other), "the other file")
        self.node.await_allocatable(card=2)
        until(lambda: files_for_others(self.folder) == [os.path.basename(other)], "the file of the old configuration to go")
        self.assertNotIn("cannot publish", self.node.output())

    def with_key(self, *resources, cdi="true", root=None):
        self.node.configure(*resources, text=f'cdi = {cdi}; cdi_dir = "{self.folder}"; host_root = "{root or "/"}";')

    def test_key_of_the_file(self):
        """`cdi = true` is as a cdi_spec for each resource with device nodes that has no other way to name them."""
        self.add_card(0)
        self.with_key(self.cards(kind=""), path("off", "/dev/null", "cdi_spec = false;"), static("token", 1))
        diff = subprocess.run([program("devplugd"), "-c", self.node.config, "--diff"], capture_output=True, text=True)
        self.assertEqual(diff.stdout.splitlines(), [
            "+ add vendor.example/card", "+ add vendor.example/off (cdi does not apply: cdi_spec is false)",
            "+ add vendor.example/token (cdi does not apply: it has no device nodes)"])
        self.start()
        self.node.await_allocatable(card=1, off=1, token=1)
        self.assertEqual(files_for_others(self.folder), [OF_KEY])
        self.file = os.path.join(self.folder, OF_KEY)
        names = ["devplugd." + self.name(0)]
        self.assertEqual(list(self.devices()), names)
        given, _ = self.node.pod("pod", card=1, off=1, token=1)
        self.assertEqual((given["cdi"], len(given["devices"])), (names, 1))

    def test_key_and_a_file_of_another_program(self):
        """The kind is another one as soon as it is taken; a pod keeps the name that it has."""
        self.add_card(0)
        self.add_card(1)
        self.with_key(self.cards(kind=""), static("other", 1))
        self.start()
        self.node.await_allocatable(card=2)
        given, _ = self.node.pod("pod", card=1)
        self.assertTrue(given["cdi"][0].startswith("devplugd.vendor.example/card="))
        with open(os.path.join(self.folder, "vendor.json"), "w") as file:
            json.dump({"cdiVersion": "0.3.0", "kind": "devplugd.vendor.example/card", "devices": []}, file)
        self.node.reload()
        until(lambda: (given := self.node.pod("later", card=1)[0]) and
              given["cdi"][0].startswith("devplugd.vendor.example/card-") or
              self.node.ask_kubelet("pod", "rm", "later") and False, "names of the other kind")
        self.assertIn(OF_KEY, files_for_others(self.folder))
        self.assertEqual(len(files_for_others(self.folder)), 3)
        self.free("pod")
        until(lambda: OF_KEY not in files_for_others(self.folder), "the file that no pod needs to go")

    def test_P22_pods_keep_their_file(self):
        """The kubelet starts a container again with the answer that it has stored, whatever the configuration is by then."""
        self.add_card(0)
        self.add_card(1)
        self.with_key(self.cards(kind=""), static("other", 1))
        self.start()
        self.node.await_allocatable(card=2, other=1)
        before, _ = self.node.pod("pod", card=1)
        file = os.path.join(self.folder, OF_KEY)

        def keeps():
            # A new file of the kubelet's: it is read after the moment in which the file is not named by a pod at all.
            self.assertIsNone(self.node.pod("short", other=1)[1])
            self.node.ask_kubelet("pod", "rm", "short")
            with open(file) as opened:
                self.assertIn(before["cdi"][0], cdi.check(json.load(opened)))
            again = json.loads(self.node.ask_kubelet("pod", "restart", "pod", "--json").stdout)
            self.assertEqual(again["container"]["cdi"], before["cdi"])

        for resources, key in (((self.cards(kind=""), static("other", 1)), "false"), ((static("other", 1),), "false")):
            self.with_key(*resources, cdi=key)
            self.node.reload()
            keeps()
        until(lambda: self.node.resource("vendor.example/card") is None, "the resource to be gone")
        keeps()
        self.node.stop()
        self.node.start()
        self.node.await_allocatable(other=1)
        keeps()
        # It becomes the resource's again, and is left again.
        self.with_key(self.cards(kind=""), static("other", 1))
        self.node.reload()
        self.node.await_allocatable(card=2)
        self.add_card(2)
        self.node.await_allocatable(card=3)
        self.file = file
        self.assertEqual(len(self.devices()), 3)
        keeps()
        self.with_key(self.cards(kind=""), static("other", 1), cdi="false")
        self.node.reload()
        keeps()
        self.free("pod")
        until(lambda: files_for_others(self.folder) == [], "the file to go with the pod")

    def test_other_directory(self):
        self.add_card(0)
        self.configure(self.cards())
        self.start()
        self.node.await_allocatable(card=1)
        other = self.node.path("other")
        self.configure(self.cards(), folder=other)
        self.node.reload()
        until(lambda: os.path.exists(os.path.join(other, FILE)), "the file in its new place")
        self.assertFalse(os.path.exists(self.file))

    def test_restarts(self):
        """A killed child, and a killed daemon, leave a file that is right until the next says so."""
        self.add_card(0)
        self.configure(self.cards())
        self.start()
        self.node.await_allocatable(card=1)
        os.kill(self.node.find("vendor.example/card")["pid"], 9)
        self.assertIn(self.name(0), self.devices())
        self.node.await_serving()
        self.node.stop(9)
        self.assertIn(self.name(0), self.devices())
        # No list has them.
        others = [FILE.replace("=card", "=old"), "vendor.json"]
        for name in others:
            shutil.copy(self.file, os.path.join(self.folder, name))
        self.node.start()
        self.node.await_serving()
        self.assertEqual(files_for_others(self.folder), [FILE] + others)
        # A container may be started again while the daemon is updated.
        self.node.stop()
        self.assertIn(self.name(0), self.devices())

    def test_without_directory(self):
        """What cannot be written is given directly, and by name once it can be."""
        self.add_card(0)
        with open(self.folder, "w"):
            pass
        self.configure(self.cards())
        self.start()
        self.node.await_allocatable(card=1)
        given, _ = self.node.pod("direct", card=1)
        self.assertEqual(([d["container_path"] for d in given["devices"]], given["cdi"]),
                         ([self.node.path("dev/card0")], []))
        self.assertIn("cannot publish the files for the devices: cannot write", self.node.output())
        self.assertIn("cannot be published: cannot write", self.node.resource("vendor.example/card")["reason"])
        self.assertEqual(self.node.ask_kubelet("pod", "rm", "direct").returncode, 0)
        os.unlink(self.folder)
        # A change of devices tries at once.
        self.add_card(1)
        until(lambda: os.path.exists(self.file), "the file")
        until(lambda: "files for the devices are published again" in self.node.output(), "the log to say so")
        self.node.await_allocatable(card=2)
        until(lambda: self.node.find("vendor.example/card")["reason"] == "", "the reason to be removed")
        given, _ = self.node.pod("named", card=1)
        self.assertEqual((given["devices"], len(given["cdi"])), ([], 1))

    def test_podman(self):
        """Podman makes a container from the file."""
        if not shutil.which("podman") or not shutil.which("crun") or not os.path.exists("/bin/busybox"):
            self.skipTest("needs podman, crun and busybox-static")
        self.add_card(0)
        for name in ("bin", "proc", "sys", "dev", "etc", "tmp", "run"):
            os.makedirs(self.node.path(f"image/{name}"))
        shutil.copy("/bin/busybox", self.node.path("image/bin"))
        with open(self.node.path("data"), "w") as file:
            file.write("from the host\n")
        self.configure(path("card", self.node.path("dev/card0"), KIND % "" + f'''
            container = {{ nodes = ( {{ host = "/dev/zero"; path = "/dev/card-control"; permissions = "r"; }} );
                           mounts = ( {{ host = "{self.node.path("data")}"; path = "/card/data"; read_only = true; }} );
                           env = ( "CARD=yes" ); }};'''))
        self.start()
        self.node.await_allocatable(card=1)
        given, _ = self.node.pod("pod", card=1)
        # A namespace with the directory where podman looks, and cgroups in the one form that crun understands.
        script = f'''
            umount -R /sys/fs/cgroup; mount -t cgroup2 none /sys/fs/cgroup && mount -t tmpfs none /run && mkdir /run/cdi &&
            cp {self.file} /run/cdi/ && exec podman --root {self.node.path("store")} --runroot /run/containers-test \
            --tmpdir /run/libpod-test --storage-driver vfs --cgroup-manager cgroupfs --events-backend none --runtime crun \
            run --rm --network none --cgroups=disabled --ulimit nofile=1024:1024 --ulimit nproc=1000:1000 \
            --security-opt seccomp=unconfined --device {given["cdi"][0]} --rootfs {self.node.path("image")} \
            /bin/busybox sh -c "$1"'''

        def run(command):
            return subprocess.run(["unshare", "-m", "-C", "sh", "-c", script, "sh", command],
                                  capture_output=True, text=True, timeout=120)

        probe = run("/bin/busybox true")
        if probe.returncode != 0 and "CDI" not in probe.stderr:
            self.skipTest(f"podman does not run containers here: {probe.stderr.strip()}")
        answer = run(f'/bin/busybox stat -c "%F %t:%T" {self.node.path("dev/card0")} /dev/card-control; '
                     "echo $CARD; /bin/busybox cat /card/data")
        self.assertEqual(answer.stdout.split("\n"),
                         ["character special file 1:3", "character special file 1:5", "yes", "from the host", ""],
                         answer.stderr)


if __name__ == "__main__":
    unittest.main()
