# SPDX-License-Identifier: Apache-2.0
"""Random steps of claims of two DRA drivers of one node: cordons and failures, tolerations, kills, outages of the API server and
restarts of the host. No device is prepared for two claims, each pod that runs has its files, and no other file is left. The same
with devices that exclude each other or are shared by amount, while their mode and the API server change, beside pods of the device
plugin: no hardware has two exclusive users, and none more than its capacity."""
import collections
import json
import os
import random
import re
import signal
import stat
import unittest

from api_server import Release
from dra_node import DRIVER, DraPodTest
from node import SEED, scaled, until

OTHER = "fpga.vendor.example"
RESOURCES = {"gpu": DRIVER, "fpga": OTHER}
UNITS = 4  # of each resource, with two shares each
TOLERATES = {"tolerations": [{"operator": "Exists"}]}
GI = 1 << 30
MEMORY = 8 * GI  # of each card


class Steps(DraPodTest):
    COUNT = 100
    STEPS = {"add": 10, "retry": 6, "remove": 6, "steal": 2, "cordon": 2, "uncordon": 2, "fail": 2, "heal": 2, "forget": 2,
             "kill_driver": 1, "kill_daemon": 1, "kill_kubelet": 1, "restart_host": 1, "outage": 2}

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

    def begin_resources(self):
        self.begin(*(self.resource_of(name) for name in RESOURCES))
        self.await_all()
        self.await_pool(lambda pool: len(pool) == 2 * UNITS * len(RESOURCES))

    def test_steps(self):
        self.serve_api()
        self.begin_resources()
        print(f"DEVPLUGD_TEST_SEED={SEED}")
        for number in range(int(os.environ.get("DEVPLUGD_TEST_DRA_STEPS") or scaled(self.COUNT))):
            step = self.chance.choices(list(self.STEPS), list(self.STEPS.values()))[0]
            try:
                getattr(self, f"step_{step}")()
                self.verify()
            except Exception:
                print(f"step {number}: {step}")
                raise
        if self.away:
            self.step_outage()
        self.finish()

    def finish(self):
        pass


class Use:
    """What a claim or a pod has of one device: a device node of each of `pieces`; or the device `unit`, as a whole, a replica, or
    amounts of it."""

    def __init__(self, resource, name, amounts=None):
        self.unit = name.split("#")[0]
        self.replica = name if "#" in name else None
        self.amount = (amounts or {}).get("memory")
        first = re.search(r":p(\d)(\+?)", name)
        self.pieces = {int(first[1]), int(first[1]) + bool(first[2])} if first else set()
        self.text = f"{resource.split('/')[1]} {name} {amounts or ''}"

    def __repr__(self):
        return self.text

    def excludes(self, other):
        """Whatever is left of the device."""
        if self.unit == other.unit and self.amount and other.amount:
            return False
        if self.pieces or other.pieces:
            return bool(self.pieces & other.pieces)
        if self.unit != other.unit:
            return False
        return not (self.replica and other.replica) or self.replica == other.replica


class HardwareSteps(Steps):
    """Two cards of two parts each, both offered, by the device plugin or by DRA, where claims may share the cards by amount; and two
    devices with memory."""
    COUNT = 60
    STEPS = {"add": 14, "retry": 6, "remove": 10, "steal": 3, "plugin": 8, "mode": 3, "release": 1, "kill_driver": 1, "kill_daemon": 1,
             "kill_kubelet": 1, "restart_host": 1, "outage": 2}
    CLAIM_TIMEOUT = "4"
    FORMS = ('capacity = ( { name = "memory"; value = "8Gi"; step = "1Gi"; default = "2Gi"; } );', "", "share = { replicas = 2; };")

    def setUp(self):
        super().setUp()
        self.serves = {"card": "dra", "part": "dra"}
        self.form, self.card_form = self.FORMS[:2]
        self.plugin_pods = {}  # what each has, by its name
        self.wanted = {}       # by claims: what they have in the API server
        self.seen = {}         # how their devices were offered
        self.outdated = set()  # claims from before a change of the mode
        os.mkdir(self.node.path("dev"))
        for number in range(4):
            os.mknod(self.node.path(f"dev/p{number}"), stat.S_IFCHR | 0o666, os.makedev(1, 3))

    def lines(self):
        cards = ", ".join("{ paths = ( %s ); }" % ", ".join('{ path = "%s"; }' % self.node.path(f"dev/p{part}") for part in pair)
                          for pair in ((0, 1), (2, 3)))
        for name, match in (("card", f"( {cards} )"), ("part", '"%s"' % self.node.path("dev/p*"))):
            yield (f'{{ name = "vendor.example/{name}"; driver = "path"; match = {match}; overlap = "exclusive"; '
                   f'serve = "{self.serves[name]}"; {self.card_form if name == "card" else ""} }}')
        yield self.resource("mem", self.form, count=2)

    def kubelet_keys(self):
        state = self.node.kubelet_state
        return (f'pod_logs_dir = "{state}/pod-logs"; pod_resources_interval = 1; '
                f'pod_resources_socket = "{state}/pod-resources/kubelet.sock";')

    def begin_resources(self):
        self.begin(*self.lines(), kubelet=self.kubelet_keys())
        self.await_all()

    # --- who has what

    def uses(self):
        """By claims and pods of the device plugin, also those whose containers do not run."""
        found = {name: [Use(resource, device) for resource, devices in given.items() for device in devices]
                 for name, given in self.plugin_pods.items()}
        for claim in self.saved_claims().values():
            found[claim["name"]] = [Use(device["resource"], device["id"], device.get("amounts")) for device in claim["devices"]
                                    if not device["admin"]]
        return found

    def conflicts(self, wanted, without):
        """What others have that excludes what is wanted, or leaves too little of it."""
        others = [use for name, uses in self.uses().items() if name != without for use in uses]
        found = [(a, b) for a in wanted for b in others if a.excludes(b)]
        for unit, amount in self.amounts([*wanted, *others]).items():
            found += [(unit, amount)] if amount > MEMORY and any(use.unit == unit for use in wanted) else []
        return found

    def amounts(self, uses):
        found = collections.Counter()
        for use in uses:
            found[use.unit] += use.amount or 0
        return found

    def verify(self):
        held = self.uses()
        for name, uses in held.items():
            self.assertEqual(self.conflicts(uses, name), [], held)
            # Nor twice the same.
            self.assertEqual([(a, b) for i, a in enumerate(uses) for b in uses[:i] if a.excludes(b)], [], held)
        self.assertEqual(self.files_by_uid(), sorted(self.pods[name]["metadata"]["uid"] for name in self.running))

    def note(self, name, pod):
        """A claim is refused only for what others have, or because devices are not offered any more as they were allocated."""
        if not pod.get("reason"):
            self.assertTrue(pod["container"]["cdi"])
            self.running.add(name)
            return
        self.assertNotIn(name, self.running)
        claim = self.pods[name]["metadata"]["name"]
        if not self.away and claim not in self.outdated and not self.conflicts(self.wanted[claim], claim):
            until(lambda: self.is_outdated(name) or self.is_known_later(name, pod),
                  lambda: f"a reason for {pod}, not {self.uses()}")
            if name not in self.running:
                self.outdated.add(claim)

    def is_known_later(self, name, pod):
        """A driver that has been started again learns only from the API server how it offers devices there."""
        if "or its resource has not reported it yet" in pod["message"] and not self.restart(name).get("reason"):
            self.running.add(name)
        return name in self.running

    def is_outdated(self, name):
        """Whether a device of the claim is not offered any more, or in another way than the scheduler has seen."""
        pool, seen = self.api.pool(), self.seen[self.pods[name]["metadata"]["name"]]
        return pool is not None and any(device not in pool or seen[device] != self.offer_of(pool[device]) for device in seen)

    def offer_of(self, device):
        return [device.get(key) for key in ("allowMultipleAllocations", "capacity", "taints")]

    def remove(self, name):
        """As a kubelet does, tries again while the driver is not registered."""
        remove, answers = super().remove, []
        until(lambda: answers.append(remove(name)) or "is not registered" not in answers[-1], f"the driver to be registered: {answers}")
        return answers[-1]

    def end(self, name):
        if name in self.plugin_pods:
            self.assertEqual(self.remove(name), "")
            del self.plugin_pods[name]
        else:
            super().end(name)

    def use_of(self, name, device, by_amount=True):
        """What a claim of a device of the slices has, at least. A server without shares allocates what claims still share."""
        attributes = device["attributes"]
        replica = re.fullmatch(r"mem-\d-(\d)-\w{10}", name)
        return Use(attributes["resource"]["string"], attributes["id"]["string"] + (f"#{replica[1]}" if replica else ""),
                   {"memory": 1} if "capacity" in device and (by_amount or replica) else None)

    def take_wanted(self, claim):
        pool, name = self.api.pool(), claim["metadata"]["name"]
        results = claim["status"]["allocation"]["devices"]["results"]
        self.wanted[name] = [self.use_of(result["device"], pool[result["device"]], "shareID" in result) for result in results]
        self.seen[name] = {result["device"]: self.offer_of(pool[result["device"]]) for result in results}

    # --- steps

    def step_add(self):
        name, self.number = f"p{self.number}", self.number + 1
        offered = ["mem"] + [resource for resource, serve in self.serves.items() if serve == "dra"]
        wanted = {resource: self.chance.choice((1, 1, 2, 3)) for resource in self.chance.sample(offered, self.chance.randint(1, len(offered)))}
        # A scheduler makes claims of limits only where the kubelet has no such devices of a device plugin.
        limits = {"vendor.example/mem": self.chance.randint(1, 3)} if self.chance.random() < 0.3 else None
        shared = [name for name, form in (("mem", self.form), ("card", self.card_form)) if form == self.FORMS[0] and self.can_share()]
        amount = {"capacity": {"requests": {"memory": f"{self.chance.randint(1, 5)}Gi"}}}
        if self.api.pool() is None:
            return
        claim = (self.api.schedule_limits(name, [limits]) if limits else self.api.schedule(f"c-{name}", [
            (resource, f"{resource}.vendor.example", count, amount if resource in shared else {}) for resource, count in wanted.items()]))
        if claim:
            self.take_wanted(claim)
            self.pods[name] = claim
            self.note(name, self.pod(name, claim, limits=limits and ["a:vendor.example/mem=%d" % limits["vendor.example/mem"]]))

    def can_share(self):
        return self.api.kubernetes.name != "1.35"

    def step_remove(self):
        names = [*self.pods, *self.plugin_pods]
        if names:
            self.end(self.chance.choice(names))

    def step_plugin(self):
        """A pod of the device plugin gets free devices, or its allocation comes just before the kubelet has the newest list."""
        served = [resource for resource, serve in self.serves.items() if serve == "plugin"]
        if served:
            name, self.number = f"p{self.number}", self.number + 1
            given, status = self.node.pod(name, **{self.chance.choice(served): self.chance.randint(1, 2)})
            if given:
                self.plugin_pods[name] = given["resources"]
            else:
                self.assertEqual(status["phase"], "Failed", status)
                self.assertEqual(self.remove(name), "")

    def step_steal(self):
        """The API server gives away hardware that others have, by the same name or another one."""
        taken = [(name, use) for name, device in (self.api.pool() or {}).items() for use in [self.use_of(name, device)]
                 if self.conflicts([use], None)]
        if taken and not self.away:
            device, use = self.chance.choice(taken)
            name, self.number = f"thief{self.number}", self.number + 1
            self.api.allocate(name, DRIVER, [("r", device)], pool=self.chance.choice(("node-a", f"node-a/{DRIVER}")))
            claim = self.api.claims["default", name]
            pod = self.pod(name, claim)
            self.assertTrue(pod.get("reason"), f"{use}: {pod}: {self.uses()}")
            self.assertEqual(self.remove(name), "")
            self.api.release(claim)

    def step_mode(self):
        """A resource moves between DRA and the device plugin, or is shared in another way."""
        chance = self.chance.random()
        if chance < 0.4:
            self.form = self.chance.choice(self.FORMS)
        elif chance < 0.6:
            self.card_form = self.chance.choice(self.FORMS[:2])
        else:
            resource = self.chance.choice(sorted(self.serves))
            self.serves[resource] = "plugin" if self.serves[resource] == "dra" else "dra"
        self.configure(*self.lines(), kubelet=self.kubelet_keys())
        answer = self.ctl("reload")
        self.assertEqual(answer.returncode, 0, answer.stderr)
        self.outdated |= self.wanted.keys()
        self.api.apply(self.ctl("dra", "classes").stdout)

    def step_release(self):
        """The API server is upgraded or downgraded."""
        if not self.away:
            self.api.kubernetes = Release(self.chance.choice(("1.35", "1.36", "1.37")))
            self.outdated |= self.wanted.keys()
            self.step_kill_driver()

    def step_restart_host(self):
        """The kubelet admits the pods of the device plugin again, or refuses them."""
        self.assertNotIn("error", self.node.call_kubelet("reboot"))
        self.node.stop_kubelet(signal.SIGKILL)
        self.node.stop(signal.SIGKILL)
        for name in self.saved_claims():
            self.change_saved(name, lambda claim: claim.update(boot="00000000-0000-0000-0000-000000000000"))
        self.node.start()
        self.node.start_kubelet()
        self.await_all()
        self.running.clear()
        self.forget_refused()

    def forget_refused(self):
        for pod in json.loads(self.node.ask_kubelet("pods", "--json").stdout)["pods"]:
            if pod["phase"] == "Failed":
                self.end(pod["name"])

    def finish(self):
        """Everything ends, and every device is free again."""
        for name in [*self.pods, *self.plugin_pods]:
            self.end(name)
        self.verify()
        until(lambda: (pool := self.api.pool()) and not any(device.get("taints") for device in pool.values()), "no taint to be left")
        until(lambda: not any(device["reason"] for name in ("card", "part") for device in self.node.resource("vendor.example/" + name)["devices"]),
              "all devices to be free")


if __name__ == "__main__":
    unittest.main()
