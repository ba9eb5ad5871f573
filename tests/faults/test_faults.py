# SPDX-License-Identifier: Apache-2.0
"""Calls that always fail, one by one: what devplugd says and does then, and that faults are injected at all. The tests
of the main job and of the kubelet's restarts run with failures at random besides (CMakeLists.txt).

complaints.md: R12.
"""
import os
import shutil
import signal
import sys
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../promises"))
from node import NodeTest, path, static, until  # noqa: E402 (needs the path above)

# Without these no child is started; it is said, and tried again.
NO_CHILD = {
    "fork": "cannot fork a child: Resource temporarily unavailable",
    "execveat": "devplugd-plugin: Cannot allocate memory",
    "socketpair": "cannot open the descriptors of a child: Too many open files",
    "pipe2": "cannot open the descriptors of a child: Too many open files",
    "open_null": "cannot open the descriptors of a child: Too many open files in system",
    "memfd_create": "cannot create a memfd for the configuration: Too many open files in system",
}

# Earlier uses of a call, which have nothing to do with starting a child: what counts events.
EARLIER = {"memfd_create": 2}


class Faults(NodeTest):
    def begin(self, *resources):
        self.node.configure(*resources)
        self.node.start_kubelet()
        self.node.start()

    def test_P6_no_child_can_be_started(self):
        for call, words in NO_CHILD.items():
            with self.subTest(call):
                self.node.inject(f"{call}=100%")
                self.begin(static("a", 1), static("b", 1))
                tries = {}

                def tried_often():
                    for resource in (self.node.state() or {"resources": []})["resources"]:
                        if resource["state"] == "backoff":
                            self.assertIn(words, resource["reason"])
                            tries.setdefault(resource["name"], set()).add(resource["next_try"])
                    return len(tries) == 2 and all(len(times) > 2 for times in tries.values())

                until(tried_often, "both to be retried")
                for name in tries:
                    said = [line for line in self.node.output().splitlines() if name in line and words in line]
                    self.assertEqual(len(said), 1)
                self.assertEqual(self.node.stop(), 0)
                self.node.stop_kubelet()
                os.unlink(self.node.path("devplugd.log"))

    def test_P6_each_call_fails_once(self):
        for call in NO_CHILD:
            with self.subTest(call):
                self.node.inject(f"{call}@{1 + EARLIER.get(call, 0)}")
                self.begin(static("a", 1), static("b", 1))
                self.node.await_allocatable(a=1, b=1)
                self.assertIn(NO_CHILD[call], self.node.output())
                self.assertEqual(self.node.stop(), 0)
                self.node.stop_kubelet()
                os.unlink(self.node.path("devplugd.log"))

    def test_P6_kubelet_is_found_without_inotify(self):
        for call in ("inotify_init1", "inotify_add_watch"):
            with self.subTest(call):
                self.node.inject(f"{call}=100%")
                self.node.configure(static("a", 1), static("b", 1))
                self.node.start()
                until(lambda: (s := self.node.state()) and all(r["state"] == "waiting" and r["devices_total"]
                                                              for r in s["resources"]), "both to wait")
                self.node.start_kubelet()
                self.node.await_allocatable(a=1, b=1)
                self.assertIn("checking for the kubelet every second instead", self.node.output())
                self.assertRegex(self.node.output(), f"cannot watch {self.node.plugins}: .*raise fs.inotify.max_user_")
                for _ in range(3):
                    self.node.stop_kubelet()
                    self.node.start_kubelet()
                    self.node.await_allocatable(a=1, b=1)
                self.assertEqual(self.node.stop(), 0)
                self.node.stop_kubelet()
                os.unlink(self.node.path("devplugd.log"))
                shutil.rmtree(self.node.plugins)

    def test_P6_child_without_inotify_polls(self):
        self.node.prepare_children("inotify_init1=100%")
        folder = self.node.path("dev")
        os.mkdir(folder)
        self.begin(path("a", folder + "/*"))
        until(lambda: "raise fs.inotify.max_user_instances or LimitNOFILE= of the service), so they are scanned" in self.node.output(), "the child to say so")
        self.node.await_allocatable(a=0)
        os.mknod(folder + "/x", 0o666 | 0o020000, os.makedev(1, 3))
        self.node.await_allocatable(a=1)

    def test_P14_health_is_sent_without_free_descriptors(self):
        self.node.inject("dupfd=100%")
        os.mkdir(self.node.path("health"))
        self.begin(static("gpu", 3, f'health = ( {{ probe = "file"; path = "{self.node.dir}/health/${{id}}"; '
                                    'healthy = "ok"; missing = "healthy"; recover = "reboot"; } );'))
        self.node.await_allocatable(gpu=3)
        pid = self.node.find("vendor.example/gpu")["pid"]
        self.break_device("gpu-1", 2)
        os.kill(pid, signal.SIGKILL)
        until(lambda: (r := self.node.resource("vendor.example/gpu"))["state"] == "serving" and r["pid"] != pid,
              "the child to be replaced")
        # Together with the failure that the new process finds.
        self.break_device("gpu-2", 1)

    def break_device(self, device, rest):
        """A failure that is over at once, but has to be remembered."""
        file = self.node.path(f"health/{device}")
        with open(file, "w") as stream:
            stream.write("ECC error")
        self.node.await_allocatable(gpu=rest)
        until(lambda: any(d["id"] == device and d["reason"] for d in self.node.resource("vendor.example/gpu")["devices"]),
              "devplugd to know it")
        os.unlink(file)

    def test_P15_child_that_cannot_accept_asks_for_another_session(self):
        self.node.prepare_children("accept4@1")
        self.begin(static("a", 1))
        self.node.await_allocatable(a=1)
        self.assertIn("cannot accept connections", self.node.output())
        self.assertEqual(self.node.find("vendor.example/a")["restarts"], 0)

    def test_P12_child_that_cannot_report_serves(self):
        self.node.prepare_children("memfd_create=100%")
        self.begin(static("a", 1))
        self.node.await_allocatable(a=1)
        until(lambda: "cannot report devices" in self.node.output(), "the child to say so")
        self.node.await_serving()


if __name__ == "__main__":
    unittest.main()
