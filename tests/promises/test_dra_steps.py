# SPDX-License-Identifier: Apache-2.0
"""Random steps of claims of two DRA drivers of one node: cordons and failures, tolerations, kills, outages of the API server and
restarts of the host. No device is prepared for two claims, each pod that runs has its files, and no other file is left."""
import json
import os
import random
import signal
import unittest

from dra_node import DRIVER, DraPodTest
from node import SEED, scaled

OTHER = "fpga.vendor.example"
RESOURCES = {"gpu": DRIVER, "fpga": OTHER}
UNITS = 4  # of each resource, with two shares each
TOLERATES = {"tolerations": [{"operator": "Exists"}]}
STEPS = {"add": 10, "retry": 6, "remove": 6, "steal": 2, "cordon": 2, "uncordon": 2, "fail": 2, "heal": 2, "forget": 2, "kill_driver": 1,
         "kill_daemon": 1, "kill_kubelet": 1, "restart_host": 1, "outage": 2}


class Steps(DraPodTest):
    def setUp(self):
        super().setUp()
        self.chance = random.Random(SEED)
        self.pods = {}  # the claim of each, by its name
        self.running, self.admins, self.number, self.away = set(), set(), 0, False

    def resource_of(self, name):
        health = f'health = ( {{ probe = "file"; path = "{self.node.path(name)}-${{id}}"; missing = "healthy"; reason = "hot"; }} );'
        return self.resource(name, f'share = {{ replicas = 2; }}; dra = {{ driver = "{RESOURCES[name]}"; }}; {health}', count=UNITS)

    # --- what is there

    def saved_claims(self):
        """The saved claims, by the name of the file."""
        folder, claims = os.path.dirname(self.saved("x")), {}
        for name in os.listdir(folder) if os.path.isdir(folder) else []:
            with open(os.path.join(folder, name)) as file:
                claims[name.removesuffix(".json")] = json.load(file)
        return claims

    def results(self, name):
        return self.pods[name]["status"]["allocation"]["devices"]["results"]

    def files_by_uid(self):
        return sorted(file.removeprefix("devplugd.dra-").split(".")[0] for file in self.files())

    def verify(self):
        taken = [(claim["driver"], device["id"]) for claim in self.saved_claims().values() for device in claim["devices"] if not device["admin"]]
        self.assertEqual(sorted(set(taken)), sorted(taken))
        self.assertEqual(self.files_by_uid(), sorted(self.pods[name]["metadata"]["uid"] for name in self.running
                                                     for _ in {result["driver"] for result in self.results(name)}))

    def note(self, name, pod):
        if not pod.get("reason"):
            self.assertTrue(pod["container"]["cdi"])
            self.running.add(name)
        else:
            self.assertTrue(self.away, pod)
            self.assertNotIn(name, self.running)

    def end(self, name):
        self.assertEqual(self.remove(name), "")
        self.api.release(self.pods.pop(name))
        self.running.discard(name)
        self.admins.discard(name)

    def any_unit(self):
        name = self.chance.choice(sorted(RESOURCES))
        return name, f"{name}-{self.chance.randrange(UNITS)}"

    # --- steps

    def step_add(self):
        """By limits or by a claim, with devices of one driver or of both."""
        chance = self.chance
        name, self.number = f"p{self.number}", self.number + 1
        wanted = {resource: chance.randint(1, 3) for resource in chance.sample(sorted(RESOURCES), chance.randint(1, 2))}
        limits = {f"vendor.example/{resource}": count for resource, count in wanted.items()} if chance.random() < 0.4 else None
        admin = not limits and chance.random() < 0.3
        more = {**(TOLERATES if admin or chance.random() < 0.5 else {}), **({"adminAccess": True} if admin else {})}
        claim = (self.api.schedule_limits(name, [limits]) if limits else self.api.schedule(f"c-{name}", [
            (resource, f"{resource}.vendor.example", None if admin and count == 3 else count, more)
            for resource, count in wanted.items()]))
        if claim:
            self.pods[name] = claim
            if admin:
                self.admins.add(name)
            self.note(name, self.pod(name, claim, limits=limits and [
                "a:" + ",".join(f"{resource}={count}" for resource, count in limits.items())]))

    def step_retry(self):
        if self.pods:
            name = self.chance.choice(list(self.pods))
            self.note(name, self.restart(name))

    def step_remove(self):
        if self.pods:
            self.end(self.chance.choice(list(self.pods)))

    def step_steal(self):
        """The API server gives a device away that a pod has."""
        if self.running - self.admins and not self.away:
            name, self.number = f"thief{self.number}", self.number + 1
            result = self.chance.choice(self.results(self.chance.choice(sorted(self.running - self.admins))))
            self.api.allocate(name, result["driver"], [("r", result["device"])])
            claim = self.api.claims["default", name]
            self.assertIn("still prepared for the claim", self.pod(name, claim)["message"])
            self.assertEqual(self.remove(name), "")
            self.api.release(claim)

    def step_cordon(self):
        self.assertEqual(self.ctl("cordon", "vendor.example/{}/{}".format(*self.any_unit())).returncode, 0)

    def step_uncordon(self):
        self.ctl("uncordon", "vendor.example/{}/{}".format(*self.any_unit()))

    def step_fail(self):
        name, unit = self.any_unit()
        with open(self.node.path(f"{name}-{unit}"), "w") as file:
            file.write("too hot")

    def step_heal(self):
        name, unit = self.any_unit()
        if os.path.exists(self.node.path(f"{name}-{unit}")):
            os.unlink(self.node.path(f"{name}-{unit}"))

    def step_forget(self):
        """The claim ends with its last device, and its pod, too."""
        if self.running and not self.admins:
            name = self.chance.choice(sorted(self.running))
            uid = self.pods[name]["metadata"]["uid"]
            for file, claim in self.saved_claims().items():
                for device in claim["devices"] if file.startswith(uid) else []:
                    self.assertEqual(self.ctl("forget", f"{device['resource']}/{device['id']}").returncode, 0)
            self.assertEqual([file for file in self.saved_claims() if file.startswith(uid)], [])
            self.assertEqual(self.files_by_uid().count(uid), 0)
            self.end(name)

    def step_kill_driver(self):
        pid = self.process()
        os.kill(pid, signal.SIGKILL)
        self.await_all(pid)

    def step_kill_daemon(self):
        pid = self.process()
        self.node.daemon.kill()
        self.node.daemon.wait()
        self.node.start()
        self.await_all(pid)

    def step_kill_kubelet(self):
        self.node.stop_kubelet(signal.SIGKILL)
        self.node.start_kubelet()
        self.await_all()

    def step_restart_host(self):
        self.node.stop()
        for name in self.saved_claims():
            self.change_saved(name, lambda claim: claim.update(boot="00000000-0000-0000-0000-000000000000"))
        self.assertEqual(self.node.ask_kubelet("reboot").returncode, 0)
        self.node.start()
        self.await_all()
        self.running.clear()

    def step_outage(self):
        (self.api.start if self.away else self.api.stop)()
        self.away = not self.away

    def test_steps(self):
        self.serve_api()
        self.begin(*(self.resource_of(name) for name in RESOURCES))
        self.await_all()
        self.await_pool(lambda pool: len(pool) == 2 * UNITS * len(RESOURCES))
        print(f"DEVPLUGD_TEST_SEED={SEED}")
        for number in range(int(os.environ.get("DEVPLUGD_TEST_DRA_STEPS") or scaled(100))):
            step = self.chance.choices(list(STEPS), list(STEPS.values()))[0]
            try:
                getattr(self, f"step_{step}")()
                self.verify()
            except Exception:
                print(f"step {number}: {step}")
                raise
        if self.away:
            self.step_outage()


if __name__ == "__main__":
    unittest.main()
