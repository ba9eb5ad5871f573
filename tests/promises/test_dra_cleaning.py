# SPDX-License-Identifier: Apache-2.0
"""With DRA, a device is cleaned when its claim is unprepared, and before another claim is prepared with it (release).

docs/contributing/complaints.md: none.
"""
import concurrent.futures
import os
import subprocess
import unittest

from dra_node import DRIVER, DraTest
from node import program, until

CLEAN = """#!/bin/sh
# Runs in place of a program that cleans the hardware. It waits while there is a file "wait".
echo "begin $1" >>%(folder)s/log
while [ -e %(folder)s/wait ]; do sleep 0.05; done
[ ! -e %(folder)s/bad ] || { echo "$1 does not answer"; exit 1; }
echo "end $1" >>%(folder)s/log
"""


class DraCleaning(DraTest):
    def setUp(self):
        super().setUp()
        self.folder = self.node.path("hardware")
        os.mkdir(self.folder)
        os.chmod(self.folder, 0o777)
        self.clean = self.node.path("clean")
        with open(self.clean, "w") as file:
            file.write(CLEAN % {"folder": self.folder})
        os.chmod(self.clean, 0o755)
        self.node.environment["STATE_DIRECTORY"] = self.node.path("state")
        os.mkdir(self.node.path("state"))
        self.addCleanup(self.mark, "wait", False)
        self.threads = concurrent.futures.ThreadPoolExecutor(4)
        self.addCleanup(self.threads.shutdown)
        self.serve_api()

    def begin_gpu(self, timeout=20):
        self.begin(self.resource("gpu", f'release = {{ command = ( "{self.clean}", "${{id}}" ); timeout = {timeout}; }};', count=1))
        self.await_pool()

    def mark(self, name, exists=True):
        file = os.path.join(self.folder, name)
        if exists:
            with open(file, "w"):
                pass
        elif os.path.exists(file):
            os.remove(file)

    def log(self):
        file = os.path.join(self.folder, "log")
        if not os.path.exists(file):
            return []
        with open(file) as stream:
            return stream.read().splitlines()

    def claim(self, name, admin=False):
        device = self.api.device_named("vendor.example/gpu", 0)
        uid = self.api.allocate(name, DRIVER, [("a", device)])
        if admin:
            self.api.claims["default", name]["status"]["allocation"]["devices"]["results"][0]["adminAccess"] = True
        return "default", name, uid

    def prepared(self, claim):
        """Prepares a claim. Returns whether that succeeded; the kubelet tries again otherwise."""
        self.answer = self.prepare(claim)[claim[2]]
        return not isinstance(self.answer, str)

    def test_end_of_a_pod_waits(self):
        self.begin_gpu()
        claim = self.claim("c")
        self.assertTrue(self.prepared(claim), self.answer)
        # A repeated call, as after a restart of the kubelet, changes nothing.
        self.assertTrue(self.prepared(claim), self.answer)
        self.assertEqual(self.log(), [])
        self.mark("wait")
        end = self.threads.submit(self.unprepare, claim)
        until(lambda: self.log() == ["begin gpu-0"], "the program to run")
        self.assertFalse(end.done())
        self.mark("wait", False)
        self.assertEqual(end.result(), {claim[2]: ""})
        self.assertEqual(self.log(), ["begin gpu-0", "end gpu-0"])
        other = self.claim("d")
        self.assertTrue(self.prepared(other), self.answer)
        self.assertEqual(len(self.log()), 2)

    def test_no_claim_is_prepared_before(self):
        """The kubelet may have been told to forget the first pod."""
        self.begin_gpu()
        claim, other = self.claim("c"), self.claim("d")
        self.assertTrue(self.prepared(claim), self.answer)
        self.mark("wait")
        end = self.threads.submit(self.unprepare, claim)
        until(lambda: self.log() == ["begin gpu-0"], "the program to run")
        begun = self.threads.submit(lambda: until(lambda: self.prepared(other), "the claim to be prepared"))
        until(lambda: "is being cleaned after a pod" in self.node.output(), "the claim to wait")
        self.assertFalse(begun.done())
        self.mark("wait", False)
        end.result()
        begun.result()
        self.assertEqual(self.log(), ["begin gpu-0", "end gpu-0"])

    def test_not_while_a_claim_with_admin_access_has_it(self):
        self.begin_gpu()
        claim, admin = self.claim("c"), self.claim("admin", admin=True)
        self.assertTrue(self.prepared(claim), self.answer)
        self.assertTrue(self.prepared(admin), self.answer)
        self.assertEqual(self.unprepare(claim), {claim[2]: ""})
        self.assertEqual(self.log(), [])
        self.assertEqual(self.unprepare(admin), {admin[2]: ""})
        until(lambda: len(self.log()) == 2, "the device to be cleaned")

    def test_device_that_cannot_be_cleaned(self):
        """Its pod ends, and it stays away."""
        self.begin_gpu()
        claim, other = self.claim("c"), self.claim("d")
        self.assertTrue(self.prepared(claim), self.answer)
        self.mark("bad")
        self.assertEqual(self.unprepare(claim), {claim[2]: ""})
        taints = self.await_pool(lambda pool: any("taints" in device for device in pool.values()))
        self.assertEqual([(taint["key"], taint["effect"]) for taint in next(iter(taints.values()))["taints"]],
                         [(DRIVER + "/cleaning", "NoSchedule")])
        self.assertFalse(self.prepared(other))
        self.assertIn("could not be cleaned after a pod", self.answer)
        self.mark("bad", False)
        answer = subprocess.run([program("devplugctl"), "-c", self.node.config, "resume", "vendor.example/gpu", "gpu-0"])
        self.assertEqual(answer.returncode, 0)
        until(lambda: self.prepared(other), "the claim to be prepared")
        self.assertEqual(self.log(), ["begin gpu-0", "begin gpu-0", "end gpu-0"])

    def test_kill_while_it_is_cleaned(self):
        self.begin_gpu()
        claim = self.claim("c")
        self.assertTrue(self.prepared(claim), self.answer)
        self.mark("wait")
        end = self.threads.submit(self.unprepare, claim)
        until(lambda: self.log() == ["begin gpu-0"], "the program to run")
        self.node.stop(9)
        with self.assertRaises(Exception):
            end.result()
        self.node.start()
        self.register_again()
        end = self.threads.submit(self.unprepare, claim)
        until(lambda: self.log() == ["begin gpu-0"] * 2, "the program to run again")
        self.mark("wait", False)
        self.assertEqual(end.result(), {claim[2]: ""})


if __name__ == "__main__":
    unittest.main()
