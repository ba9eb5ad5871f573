# SPDX-License-Identifier: Apache-2.0
"""A device that has failed is tested before a pod gets it again (on_recovery), and an administrator decides if the test
fails.

complaints.md: none.
"""
import os
import subprocess
import unittest

from node import NodeTest, program, static, until

TEST = """#!/bin/sh
# Runs in place of a test of the hardware: passes if there is a file of the device's name.
printf x >>%(folder)s/runs
[ -e %(folder)s/good-$1 ] || { echo "memory of $1 is bad"; exit 1; }
"""
GPU = "vendor.example/gpu"


class Recovery(NodeTest):
    def setUp(self):
        super().setUp()
        self.folder = self.node.path("hardware")
        os.mkdir(self.folder)
        os.chmod(self.folder, 0o777)
        self.script = self.node.path("test-gpu")
        self.write(self.script, TEST % {"folder": self.folder})
        os.chmod(self.script, 0o755)
        for number in range(2):
            self.write(self.node.path(f"hardware/gpu-{number}"), "ok")

    def write(self, file, text=""):
        with open(file, "w") as stream:
            stream.write(text)

    def begin(self, keys="attempts = 2; interval = 0.1;"):
        self.node.configure(static("gpu", 2, f"""health = (
            {{ probe = "file"; path = "{self.folder}/${{id}}"; }},
            {{ probe = "exec"; on_recovery = true; command = ( "{self.script}", "${{id}}" ); {keys} }} );"""),
            static("nic", 1))
        self.node.start_kubelet()
        self.node.start()
        self.node.await_allocatable(gpu=2)

    def device(self, number=0):
        return self.node.resource(GPU)["devices"][number]

    def runs(self):
        return os.path.getsize(f"{self.folder}/runs") if os.path.exists(f"{self.folder}/runs") else 0

    def spoil(self, number=0):
        self.write(f"{self.folder}/gpu-{number}", "bad")
        until(lambda: self.device(number)["reason"] == "bad", "the device to fail")

    def repair(self, number=0):
        self.write(f"{self.folder}/gpu-{number}", "ok")

    def ctl(self, *words):
        return subprocess.run([program("devplugctl"), "-c", self.node.config, *words], capture_output=True, text=True)

    def resume(self, *words):
        return self.ctl("resume", *words)

    def test_P14_no_pod_gets_a_device_before_its_test(self):
        self.begin()
        self.assertEqual(self.runs(), 0)
        self.spoil()
        self.node.await_allocatable(gpu=1)
        self.repair()
        reason = "needs an administrator (devplugctl resume): its test has failed, attempt 2 of 2: "
        until(lambda: self.device()["reason"].startswith(reason), "the test to fail twice")
        self.assertIn("memory of gpu-0 is bad", self.device()["reason"])
        self.assertEqual(self.runs(), 2)
        # A list with both devices was sent only before the failure.
        lists = [event["healthy"] for event in self.node.kubelet_events() if event["event"] == "list" and event["resource"] == GPU]
        self.assertEqual(lists[lists.index(2):], [2, 1])
        self.assertIsNone(self.node.pod("two", gpu=2)[0])
        # The answer names what is wrong, also after a crash of the resource's process.
        self.assertIn("memory of gpu-0 is bad", self.ctl("explain", GPU).stdout)
        pid = self.node.find(GPU)["pid"]
        os.kill(pid, 9)
        until(lambda: self.node.find(GPU)["pid"] not in (0, pid), "another process")
        self.node.await_serving()
        self.assertTrue(self.device()["reason"].startswith(reason), self.device())
        self.assertEqual(self.runs(), 2)
        # It is repaired, and tested again.
        self.write(f"{self.folder}/good-gpu-0")
        self.assertEqual(self.resume(GPU, "gpu-0").returncode, 0)
        self.node.await_allocatable(gpu=2)
        self.assertEqual(self.runs(), 3)
        self.assertIsNone(self.node.pod("two", gpu=2)[1])

    def begin_long(self, timeout):
        """The device fails, works again, and is being tested until it is good."""
        self.write(self.script, f"#!/bin/sh\nprintf x >>{self.folder}/runs\nwhile ! [ -e {self.folder}/good-$1 ]; do sleep 0.1; done\n")
        self.begin(f"attempts = 1; timeout = {timeout};")
        self.spoil()
        self.repair()
        until(lambda: self.runs() == 1, "the test to run")

    def test_time_limit(self):
        self.begin_long(1)
        until(lambda: self.device()["reason"].startswith("needs an administrator (devplugctl resume): its test has failed, attempt 1 of 1: "),
              "the test to be killed")
        self.assertIn("did not exit within 1 s", self.device()["reason"])

    def test_process_that_ends_during_a_test(self):
        """The next one does not offer the device either, and tests it again."""
        self.begin_long(60)
        until(lambda: self.device()["reason"] == "being tested after a failure", "the state")
        pid = self.node.find(GPU)["pid"]
        os.kill(pid, 9)
        until(lambda: self.node.find(GPU)["pid"] not in (0, pid), "another process")
        self.node.await_serving()
        self.assertEqual(self.device()["health"], "Unhealthy")
        until(lambda: self.runs() == 2, "the test to run for the next process")
        until(lambda: self.device()["reason"] == "being tested after a failure", "the state")
        self.write(f"{self.folder}/good-gpu-0")
        self.node.await_allocatable(gpu=2)

    def test_an_administrator_offers_a_device_without_its_test(self):
        self.begin("attempts = 1;")
        self.spoil(1)
        self.repair(1)
        until(lambda: "needs an administrator" in self.device(1)["reason"], "the test to fail")
        self.assertEqual(self.resume("--force", GPU, "gpu-1").returncode, 0)
        self.node.await_allocatable(gpu=2)
        self.assertEqual(self.runs(), 1)

    def test_device_in_use_is_tested_after_its_pod(self):
        self.begin()
        given, why = self.node.pod("holder", gpu=2)
        self.assertIsNone(why)
        self.write(f"{self.folder}/good-gpu-0")
        self.spoil()
        self.repair()
        until(lambda: self.device()["reason"] == "has failed, and must pass its test before it is offered again",
              "the device to wait")
        self.assertEqual(self.runs(), 0)
        self.node.ask_kubelet("pod", "rm", "holder")
        # The kubelet writes its checkpoint at the next pod only.
        self.assertIsNone(self.node.pod("next", gpu=1)[1])
        self.node.await_allocatable(gpu=2)
        self.assertEqual(self.runs(), 1)

    def test_only_device_is_tested_after_its_pod(self):
        """No other pod is admitted, so nothing else has the kubelet write its checkpoint."""
        self.node.configure(static("gpu", 1, f"""health = (
            {{ probe = "file"; path = "{self.folder}/${{id}}"; }},
            {{ probe = "exec"; on_recovery = true; command = ( "{self.script}", "${{id}}" ); interval = 0.1; }} );"""),
            kubelet=f'pod_resources_socket = "{self.node.kubelet_state}/pod-resources/kubelet.sock"; pod_resources_interval = 1; '
                    f'pod_logs_dir = "{self.folder}/none";')
        self.node.start_kubelet()
        self.node.start()
        self.node.await_allocatable(gpu=1)
        self.assertIsNone(self.node.pod("holder", gpu=1)[1])
        self.write(f"{self.folder}/good-gpu-0")
        self.spoil()
        self.repair()
        until(lambda: self.device()["reason"] == "has failed, and must pass its test before it is offered again",
              "the device to wait")
        self.node.ask_kubelet("pod", "rm", "holder")
        self.node.await_allocatable(gpu=1)

    def test_refused_requests(self):
        self.begin()
        for words, why in (((GPU,), "name the device of vendor.example/gpu that is to be tested or cleaned again"),
                           ((GPU, "gpu-7"), 'has no device "gpu-7"'),
                           (("--force", GPU), "--force needs a device"),
                           (("vendor.example/nic", "nic-0"), "has nothing to release"),
                           (("--force", "vendor.example/nic", "nic-0"), "no health probe has `on_recovery`")):
            with self.subTest(words):
                answer = self.resume(*words)
                self.assertNotEqual(answer.returncode, 0)
                self.assertIn(why, answer.stderr)


if __name__ == "__main__":
    unittest.main()
