# SPDX-License-Identifier: Apache-2.0
"""devplugd or devplugd-cluster is killed at each step of a prepare and of an unprepare: nothing is lost, and nothing is left over."""
import concurrent.futures
import contextlib
import json
import os
import signal
import time
import unittest

from dra_kubelet import Call
from dra_node import DRIVER, DraTest
from node import until
from service_manager import ServiceManager


class DraKills(DraTest):
    def setUp(self):
        super().setUp()
        self.kill_at = self.node.environment["DEVPLUGD_KILL_AT"] = self.node.path("kill-at")
        self.systemd = ServiceManager(self, self.node)
        self.node.inject("")
        self.serve_api()
        folder = self.node.path("marks")
        os.mkdir(folder)
        os.chmod(folder, 0o777)
        self.marks = begun, go = os.path.join(folder, "begun"), os.path.join(folder, "go")
        open(go, "w").close()
        program = self.script("prestart", f'echo > "{begun}"\nuntil [ -e "{go}" ]; do sleep 0.05; done\n')
        self.begin(self.resource("gpu", f'prestart = {{ command = [ "{program}" ]; timeout = 25; }};', count=2))
        self.await_pool()
        until(lambda: len(self.systemd.names()) == 2, "systemd to have the sockets")
        self.claimed, self.keeper = self.claim("c", 0), self.claim("keeper", 1)
        self.kept = self.prepare(self.keeper), self.saved_text(self.keeper)
        # What each preparation is to be like.
        self.wanted = self.prepare(self.claimed), self.saved_text(self.claimed), self.document(self.claimed[2])
        self.end(self.claimed)

    def claim(self, name, number):
        return "default", name, self.api.allocate(name, DRIVER, [("a", self.api.device_named("vendor.example/gpu", number))])

    def saved_text(self, claim):
        with open(self.saved(claim[2])) as file:
            return json.load(file)

    def end(self, claim):
        self.assertEqual(self.unprepare(claim), {claim[2]: ""})

    def paths(self):
        """All that is written of claims."""
        folders = os.path.dirname(self.saved("x")), self.cdi, os.path.join(self.cdi, "devplugd.metadata")
        return [os.path.join(folder, name) for folder in folders for name in sorted(os.listdir(folder))
                if not name.startswith(".devplugd-files-")]

    def check_prepared(self):
        self.assertEqual((self.prepare(self.claimed), self.saved_text(self.claimed), self.document(self.claimed[2])), self.wanted)
        self.assertEqual(len(self.metadata(self.claimed[2])), 1)
        self.assertEqual(len([path for path in self.paths() if self.claimed[2] in path]), 3)

    def check_ended(self):
        """Only what belongs to the other claim is there, which nothing has changed."""
        self.assertEqual([path for path in self.paths() if self.keeper[2] not in path and os.path.basename(path) != "devplugd.metadata"], [])
        self.assertEqual((self.prepare(self.keeper), self.saved_text(self.keeper)), self.kept)
        self.assertEqual(len(self.metadata(self.keeper[2])), 1)
        until(lambda: (dra := self.dra()) and dra["claims"] == 1, "one claim")

    def kill_at_step(self, number, call):
        """Returns whether devplugd was killed."""
        with open(self.kill_at + ".new", "w") as file:
            file.write(str(number))
        os.rename(self.kill_at + ".new", self.kill_at)
        with contextlib.suppress(Call, OSError):
            call(self.claimed)
            # Some steps follow the answer.
            time.sleep(0.2)
        os.unlink(self.kill_at)
        until(lambda: self.node.daemon.poll() is not None or self.node.status(), "devplugd to end or to answer")
        if self.node.daemon.poll() is None:
            return False
        self.assertEqual(self.node.daemon.wait(), -signal.SIGKILL)
        self.systemd.start()
        return True

    def at_each_step(self, call, prepare=lambda: None):
        """The kubelet repeats the call that has failed, and unprepares the claim later."""
        number = 1
        while True:
            prepare()
            killed = self.kill_at_step(number, call)
            with self.subTest(step=number):
                if call == self.prepare:
                    self.check_prepared()
                self.end(self.claimed)
                self.check_ended()
            if not killed:
                break
            number += 1
        # Fewer would mean that the steps are not found.
        self.assertGreater(number, 15)
        return number

    def test_prepare(self):
        self.at_each_step(self.prepare)

    def test_unprepare(self):
        self.at_each_step(self.unprepare, self.check_prepared)

    def test_pod_that_is_deleted(self):
        """A kubelet whose call has failed may unprepare the claim, too."""
        number = 1
        while self.kill_at_step(number, self.prepare):
            with self.subTest(step=number):
                self.end(self.claimed)
                self.check_ended()
            number += 1

    def test_devplugd_cluster(self):
        """It is killed when it asks the API server, and while the program of the claim runs."""
        begun, go = self.marks
        self.api.faults = [lambda method, path: path.endswith("/c") and os.kill(self.process(), signal.SIGKILL)]
        with self.assertRaises(Call):
            self.prepare(self.claimed)
        self.api.faults = []
        self.check_prepared()
        self.end(self.claimed)
        self.check_ended()

        os.unlink(go)
        os.unlink(begun)
        with concurrent.futures.ThreadPoolExecutor() as pool:
            call = pool.submit(self.prepare, self.claimed)
            until(lambda: os.path.exists(begun), "the program to run")
            os.kill(self.process(), signal.SIGKILL)
            with self.assertRaises(Call):
                call.result()
            again = pool.submit(self.check_prepared)
            open(go, "w").close()
            again.result()
        self.end(self.claimed)
        self.check_ended()


if __name__ == "__main__":
    unittest.main()
