# SPDX-License-Identifier: Apache-2.0
"""The main job: configuration, child, registration, devices, Allocate, on real device nodes.

complaints.md: R7, W2, W5, W6.
"""
import os
import signal
import stat
import unittest

from node import CHILD_FAULTS, NodeTest, path, plugins_of, process_status, static, until


class MainJob(NodeTest):
    def begin(self, *resources):
        self.node.configure(*resources)
        self.node.start_kubelet()
        self.node.start()

    def test_static_tokens_reach_a_pod(self):
        self.begin(
            static("gpu", 4, 'container = { env = ( "GPUS=${ids:,}", "N=${n}" ); '
                             'annotations = ( "vendor.example/card=${ids:+}" ); };')
        )
        self.node.await_allocatable(gpu=4)
        got, error = self.node.pod("one", gpu=2)
        self.assertIsNone(error)
        ids = sorted(got["env"]["GPUS"].split(","))
        self.assertEqual(len(ids), 2)
        self.assertTrue(set(ids) <= {"gpu-0", "gpu-1", "gpu-2", "gpu-3"})
        self.assertEqual(got["env"]["N"], "2")
        self.assertEqual(sorted(got["annotations"]["vendor.example/card"].split("+")), ids)
        self.assertEqual(self.node.node_resources()["vendor.example/gpu"]["allocated"], 2)

    def test_real_nodes_with_replicas(self):
        self.begin(
            path("null", "/dev/null", "share = { replicas = 3; };"),
            '{ name = "vendor.example/pair"; driver = "path"; match = ( { paths = ( '
            '{ path = "/dev/zero"; as = "/dev/first"; permissions = "r"; }, '
            '{ path = "/dev/full"; }, { path = "/dev/not-there"; optional = true; } ); } ); }',
        )
        self.node.await_allocatable(null=3, pair=1)
        got, error = self.node.pod("one", null=2, pair=1)
        self.assertIsNone(error)
        devices = {d["container_path"]: d for d in got["devices"]}
        self.assertEqual(set(devices), {"/dev/null", "/dev/first", "/dev/full"})
        self.assertEqual(devices["/dev/first"]["host_path"], "/dev/zero")
        self.assertEqual(devices["/dev/first"]["permissions"], "r")
        self.assertEqual(devices["/dev/null"]["permissions"], "rw")

    def test_directories_and_sockets_are_mounted(self):
        directory = self.node.path("data")
        os.mkdir(directory)
        self.begin(path("data", directory, "container = { mounts = ( "
                        '{ host = "/usr"; path = "/opt/usr"; read_only = true; } ); };'))
        self.node.await_allocatable(data=1)
        got, error = self.node.pod("one", data=1)
        self.assertIsNone(error)
        mounts = {m["container_path"]: m for m in got["mounts"]}
        self.assertEqual(mounts[directory]["host_path"], directory)
        self.assertTrue(mounts["/opt/usr"]["read_only"])
        self.assertEqual(got["devices"], [])

    def test_hotplug(self):
        node = os.path.join(self.node.dir, "dev")
        os.mkdir(node)
        os.mknod(f"{node}/card0", stat.S_IFCHR | 0o600, os.makedev(1, 3))
        self.begin(path("card", f"{node}/card[0-9]*"))
        self.node.await_allocatable(card=1)
        os.mknod(f"{node}/card1", stat.S_IFCHR | 0o600, os.makedev(1, 5))
        self.node.await_allocatable(card=2)
        os.unlink(f"{node}/card0")
        self.node.await_allocatable(card=1)
        # A device that vanished is still there, unhealthy: a pod may hold it.
        self.assertEqual(self.node.node_resources()["vendor.example/card"]["capacity"], 2)
        gone = until(
            lambda: [d for d in self.node.resource("vendor.example/card")["devices"]
                     if d["health"] == "Unhealthy"],
            "the vanished device to be shown")
        self.assertEqual(len(gone), 1)
        self.assertIn("card0", gone[0]["reason"])
        os.mknod(f"{node}/card0", stat.S_IFCHR | 0o600, os.makedev(1, 3))
        self.node.await_allocatable(card=2)

    def test_directory_appears_later(self):
        self.begin(path("late", f"{self.node.dir}/not/yet/*"))
        self.node.await_state("vendor.example/late", "serving")
        os.makedirs(f"{self.node.dir}/not/yet")
        os.mkfifo(f"{self.node.dir}/not/yet/pipe")
        self.node.await_allocatable(late=1)

    def test_health_from_a_file(self):
        os.mkdir(self.node.path("health"))
        self.begin(static("gpu", 3, f'health = ( {{ probe = "file"; path = "{self.node.dir}/health/${{id}}"; '
                                    'healthy = "ok"; missing = "healthy"; } );'))
        self.node.await_allocatable(gpu=3)
        file = self.node.path("health/gpu-1")
        with open(file, "w") as out:
            out.write("on fire\n")
        self.node.await_allocatable(gpu=2)
        sick = until(
            lambda: [d for d in self.node.resource("vendor.example/gpu")["devices"]
                     if d["health"] == "Unhealthy"],
            "the unhealthy device to be shown")
        self.assertEqual([d["id"] for d in sick], ["gpu-1"])
        self.assertIn("on fire", sick[0]["reason"])
        with open(file + ".new", "w") as out:
            out.write("  ok \n")
        os.rename(file + ".new", file)
        self.node.await_allocatable(gpu=3)
        self.assertEqual(self.node.node_resources()["vendor.example/gpu"]["capacity"], 3)

    def test_prestart_runs_and_its_failure_reaches_the_pod(self):
        script = self.node.path("prepare")
        with open(script, "w") as out:
            out.write("#!/bin/sh\n[ \"$1\" != gpu-1 ] || { echo 'firmware is missing' >&2; exit 3; }\n")
        os.chmod(script, 0o755)
        self.begin(static("gpu", 2, f'prestart = {{ command = [ "{script}", "${{id}}" ]; timeout = 10; }};'))
        self.node.await_allocatable(gpu=2)
        results = [self.node.pod(f"p{i}", gpu=1) for i in range(2)]
        errors = [error for _, error in results if error]
        # A child whose calls fail may not even be able to start the program.
        if not CHILD_FAULTS:
            self.assertEqual(len(errors), 1)
        self.assertTrue(errors)
        self.assertRegex(str(errors), "firmware is missing|cannot create a pipe for .*/prepare" if CHILD_FAULTS else "firmware is missing")

    def test_preference(self):
        self.begin(static("gpu", 2, 'share = { replicas = 4; }; prefer = "packed";'))
        self.node.await_allocatable(gpu=8)
        got, error = self.node.pod("one", gpu=4)
        self.assertIsNone(error)
        ids = got["resources"]["vendor.example/gpu"]
        self.assertEqual(len({i.split("#")[0] for i in ids}), 1, ids)

    def test_children_are_unprivileged_and_the_supervisor_is_small(self):
        self.begin(static("gpu", 1), static("fpga", 1))
        self.node.await_allocatable(gpu=1, fpga=1)
        children = plugins_of(self.node.daemon.pid)
        self.assertEqual(len(children), 2)
        for child in children:
            status = process_status(child)
            for name in ("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"):
                self.assertEqual(int(status[name], 16), 0, name)
            self.assertEqual(status["NoNewPrivs"], "1")
            self.assertNotIn("0", status["Uid"].split())
            self.assertNotIn("0", status["Gid"].split())
            self.assertEqual(status.get("Groups", "").split(), [])
        self.assertEqual(process_status(self.node.daemon.pid)["Threads"], "1")

    def test_killed_child_comes_back_alone(self):
        self.begin(*(static(f"r{i}", 2) for i in range(4)))
        self.node.await_allocatable(**{f"r{i}": 2 for i in range(4)})
        before = self.node.await_serving()
        os.kill(before["vendor.example/r2"]["pid"], signal.SIGKILL)
        back = until(
            lambda: (r := self.node.resource("vendor.example/r2"))["state"] == "serving"
            and r["pid"] != before["vendor.example/r2"]["pid"] and r,
            "the killed child to serve again")
        self.assertEqual(back["restarts"], 1)
        self.node.await_allocatable(r2=2)
        for name, old in before.items():
            if name != "vendor.example/r2":
                new = self.node.resource(name)
                self.assertEqual((new["pid"], new["session"]), (old["pid"], old["session"]))
        self.assertIn("SIGKILL", self.node.output())

    def test_fifty_resources(self):
        self.begin(*(static(f"r{i}", 3) for i in range(50)))
        self.node.await_allocatable(**{f"r{i}": 3 for i in range(50)})
        self.assertEqual(len(self.node.await_serving()), 50)

    def test_ten_thousand_devices(self):
        self.begin(static("many", 10000))
        self.node.await_allocatable(many=10000)
        got, error = self.node.pod("one", many=10000)
        self.assertIsNone(error)
        self.assertEqual(len(got["resources"]["vendor.example/many"]), 10000)
        until(lambda: len(self.node.resource("vendor.example/many")["devices"]) == 10000, "the status to show all")


if __name__ == "__main__":
    unittest.main()
