# SPDX-License-Identifier: Apache-2.0
"""With DRA, a device is cleaned when its claim is unprepared, and before another claim is prepared with it (release).

docs/contributing/complaints.md: none.
"""
import concurrent.futures
import os
import stat
import subprocess
import time
import unittest

from cleaning_node import CleaningProgram
from dra_node import DRIVER, DraTest
from node import path, program, until


class DraCleaning(CleaningProgram, DraTest):
    def setUp(self):
        super().setUp()
        self.add_program()
        self.threads = concurrent.futures.ThreadPoolExecutor(4)
        self.addCleanup(self.threads.shutdown)
        self.serve_api()

    def begin_gpu(self, timeout=20):
        self.begin(self.resource("gpu", self.release(timeout), count=1))
        self.await_pool()

    def claim(self, name, admin=False, share=0):
        device = self.api.device_named("vendor.example/gpu", share)
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

    def test_claim_that_waits_takes_no_device(self):
        """A claim of two devices waits for one of them; the other one stays clean, and goes to another claim at once."""
        self.begin(self.resource("gpu", self.release(), count=2))
        self.await_pool()
        dirty, clean = (self.api.device_named("vendor.example/gpu", number) for number in range(2))
        first = self.claim("c")
        both = "default", "both", self.api.allocate("both", DRIVER, [("a", clean), ("b", dirty)])
        other = "default", "other", self.api.allocate("other", DRIVER, [("a", clean)])
        self.assertTrue(self.prepared(first), self.answer)
        self.mark("wait")
        end = self.threads.submit(self.unprepare, first)
        until(lambda: self.log() == ["begin gpu-0"], "the program to run")
        waiting = self.threads.submit(self.prepare, both)
        until(lambda: "the claim default/both waits: device gpu-0 is being cleaned" in self.node.output(), "the claim to wait")
        with open(self.node.path("state/dirty-devices.json")) as file:
            self.assertNotIn("gpu-1", file.read())
        self.assertTrue(self.prepared(other), self.answer)
        self.assertEqual(self.log(), ["begin gpu-0"])
        self.assertEqual(self.unprepare(both), {both[2]: ""})
        self.assertIn("unprepared while it was being prepared", waiting.result()[both[2]])
        self.mark("wait", False)
        self.assertEqual(end.result(), {first[2]: ""})
        self.assertEqual(self.log(), ["begin gpu-0", "end gpu-0"])

    def begin_shares(self):
        """Programs of claims wait until there is a file "go"."""
        prestart = self.script("prestart", f"echo >>{self.folder}/prepared\nuntil [ -e {self.folder}/go ]; do sleep 0.05; done\n")
        self.addCleanup(self.mark, "go")
        self.begin(self.resource("gpu", self.release() + "share = { replicas = 2; }; "
                                 f'prestart = {{ command = [ "{prestart}" ]; timeout = 25; }};', count=1))
        self.await_pool()

    def await_prepared(self, count):
        def look():
            try:
                with open(os.path.join(self.folder, "prepared")) as file:
                    return len(file.readlines()) == count
            except FileNotFoundError:
                return False

        until(look, "a claim's program to run")

    def test_not_while_a_claim_is_being_prepared(self):
        """Neither at the end of another claim with a share of the device,"""
        self.begin_shares()
        claim, other = self.claim("c"), self.claim("d", share=1)
        self.mark("go")
        self.assertTrue(self.prepared(claim), self.answer)
        self.mark("go", False)
        second = self.threads.submit(self.prepare, other)
        self.await_prepared(2)
        self.assertEqual(self.unprepare(claim), {claim[2]: ""})
        self.mark("go")
        self.assertNotIsInstance(second.result()[other[2]], str)
        self.assertEqual(self.log(), [])
        self.assertEqual(self.unprepare(other), {other[2]: ""})
        self.assertEqual(self.log(), ["begin gpu-0", "end gpu-0"])

    def test_shares_that_are_prepared_at_once(self):
        """nor for one."""
        self.begin_shares()
        claim, other = self.claim("c"), self.claim("d", share=1)
        first = self.threads.submit(self.prepare, claim)
        self.await_prepared(1)
        second = self.threads.submit(self.prepare, other)
        time.sleep(0.5)
        self.mark("go")
        for call, each in (first, claim), (second, other):
            self.assertNotIsInstance(call.result()[each[2]], str)
        self.assertEqual(self.log(), [])

    def test_claim_that_could_not_be_prepared(self):
        """Its program may have left something in the device, also for the next claim."""
        prestart = self.script("prestart", f'[ ! -e {self.folder}/refuse ] || {{ echo "no licence"; exit 1; }}\n')
        self.begin(self.resource("gpu", self.release() + f'prestart = {{ command = [ "{prestart}" ]; timeout = 25; }};', count=1))
        self.await_pool()
        self.mark("refuse")
        claim, other = self.claim("c"), self.claim("d")
        self.assertFalse(self.prepared(claim))
        self.assertIn("no licence", self.answer)
        self.mark("refuse", False)
        self.assertTrue(self.prepared(other), self.answer)
        self.assertEqual(self.log()[-1:], ["end gpu-0"])

    def test_unprepared_while_its_program_runs(self):
        """The device is cleaned after the program, and the pod ends after that."""
        self.begin_shares()
        claim = self.claim("c")
        call = self.threads.submit(self.prepare, claim)
        self.await_prepared(1)
        end = self.threads.submit(self.unprepare, claim)
        self.assertIn("unprepared while it was being prepared", call.result()[claim[2]])
        self.assertFalse(end.done())
        self.assertEqual(self.log(), [])
        self.mark("go")
        self.assertEqual(end.result(), {claim[2]: ""})
        self.assertEqual(self.log(), ["begin gpu-0", "end gpu-0"])

    def test_device_that_cannot_be_cleaned(self):
        """Its pod ends, and it stays away."""
        self.begin_gpu()
        claim, other = self.claim("c"), self.claim("d")
        self.assertTrue(self.prepared(claim), self.answer)
        self.mark("bad-gpu-0")
        self.assertEqual(self.unprepare(claim), {claim[2]: ""})
        taints = self.await_pool(lambda pool: any("taints" in device for device in pool.values()))
        self.assertEqual([(taint["key"], taint["effect"]) for taint in next(iter(taints.values()))["taints"]],
                         [(DRIVER + "/cleaning", "NoSchedule")])
        self.assertFalse(self.prepared(other))
        self.assertIn("could not be cleaned after a pod", self.answer)
        self.mark("bad-gpu-0", False)
        answer = subprocess.run([program("devplugctl"), "-c", self.node.config, "resume", "vendor.example/gpu", "gpu-0"])
        self.assertEqual(answer.returncode, 0)
        until(lambda: self.prepared(other), "the claim to be prepared")
        self.assertEqual(self.log(), ["begin gpu-0", "begin gpu-0", "end gpu-0"])

    def test_device_that_disappears_while_a_pod_uses_it(self):
        """Its pod ends, and it is cleaned when it returns."""
        os.mkdir(self.node.path("dev"))
        self.plug()
        self.begin(path("gpu", self.node.path("dev/gpu-*"), self.release() + 'serve = "dra";'))
        self.await_pool()
        claim = self.claim("c")
        self.assertTrue(self.prepared(claim), self.answer)
        os.unlink(self.node.path("dev/gpu-0"))
        until(lambda: "disappeared" in (self.node.resource("vendor.example/gpu")["devices"][0]["reason"] or ""),
              "the device to be missed")
        self.assertEqual(self.unprepare(claim), {claim[2]: ""})
        self.assertEqual(self.log(), [])
        self.plug()
        until(lambda: len(self.log()) == 2, "the device to be cleaned")
        other = self.claim("d")
        until(lambda: self.prepared(other), "the claim to be prepared")
        self.assertEqual(len(self.log()), 2)

    def plug(self):
        """A device of a node whose number no process has open: that of /dev/full."""
        os.mknod(self.node.path("dev/gpu-0"), stat.S_IFCHR | 0o666, os.makedev(1, 7))

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
