# SPDX-License-Identifier: Apache-2.0
"""P2: 200 random edits of the configuration ($DEVPLUGD_TEST_SCALE scales that; a build with sanitizers has 40) under
an allocation load. A model knows which resources an edit may touch: all others keep process, session and stream and
are sent no list; one that is changed keeps them too, and is sent one list at most; an allocation fails only where
the edit took devices away. Adding a prestart command is not among the edits: the kubelet learns of it at
registration only, so it costs a session.

complaints.md: R10, W8.
"""
import copy
import os
import random
import signal
import time
import unittest

from load import Load
from node import SEED, NodeTest, scaled, until

EDITS = scaled(200)
RESOURCES = 6
# The load never has as many of one resource as the smallest count.
COUNTS = range(16, 25)
PREFERENCES = ("none", "packed", "spread", "numa")
# What an admission may say while the devices that it was about go.
GONE = ("does not exist in", "unavailable for", "no healthy devices", "unregistered device", "has been stopped",
        "no longer", "error reading from server", "rpc error: code = Unavailable", "transport", "client connection is closing")


class Spec:
    """One stanza: what it declares, and how it happens to be written."""

    def __init__(self, name, choice):
        self.name, self.count = name, choice.choice(COUNTS)
        self.version = 0  # shown to containers
        self.prefer, self.replicas, self.probed, self.topology, self.enabled = "none", 1, False, True, True
        self.decoration = ""

    def write(self):
        health = ('health = ( { probe = "file"; path = "/nonexistent/${id}"; missing = "healthy"; } );'
                  if self.probed else "")
        return (f'{self.decoration}{{ name = "{self.full}"; driver = "static"; '
                f"match = ( {{ count = {self.count}; numa = 0; }} );\n"
                f'    prefer = "{self.prefer}"; share = {{ replicas = {self.replicas}; }}; {health}\n'
                f"    topology = {'true' if self.topology else 'false'}; "
                f"enabled = {'true' if self.enabled else 'false'};\n"
                f'    container = {{ env = ( "V_{self.name}={self.version}" ); }}; }}')

    @property
    def full(self):
        return f"vendor.example/{self.name}"

    @property
    def devices(self):
        return self.count * self.replicas

    def shown(self):
        """What the kubelet's list depends on."""
        return self.count, self.replicas, self.topology


class Model:
    """The stanzas of the file and of the drop-ins, and the edits that people make."""

    def __init__(self, choice):
        self.choice = choice
        self.serial = RESOURCES
        self.main = [Spec(f"r{i}", choice) for i in range(RESOURCES)]
        self.drop_ins = {}

    def specs(self):
        return {s.full: s for s in self.main + list(self.drop_ins.values()) if s.enabled}

    def snapshot(self):
        """What is declared, without how it is written."""
        return {name: (s.count, s.version, s.prefer, s.replicas, s.probed, s.topology)
                for name, s in self.specs().items()}

    def new_name(self):
        self.serial += 1
        return f"r{self.serial}"

    def some(self):
        return self.choice.choice([s for s in self.main if s.enabled])

    def change(self, **values):
        spec = self.some()
        spec.version += 1
        for key, value in values.items():
            setattr(spec, key, value(spec))

    def edit(self):
        edits = {
            "count": lambda: self.change(count=lambda s: self.choice.choice(COUNTS)),
            "env": self.change,
            "prefer": lambda: self.change(prefer=lambda s: self.choice.choice(PREFERENCES)),
            "share": lambda: self.change(replicas=lambda s: 3 - s.replicas),
            "health": lambda: self.change(probed=lambda s: not s.probed),
            "topology": lambda: self.change(topology=lambda s: not s.topology),
            "add": lambda: len(self.main) < 10 and self.main.append(Spec(self.new_name(), self.choice)),
            "remove": lambda: len(self.specs()) > 4 and self.main.remove(self.some()),
            "rename": lambda: setattr(self.some(), "name", self.new_name()),
            "disable": lambda: len(self.specs()) > 4 and setattr(self.some(), "enabled", False),
            "enable": lambda: [setattr(s, "enabled", True) for s in self.main],
            "reorder": lambda: self.choice.shuffle(self.main),
            "comment": lambda: setattr(self.some(), "decoration", f"# {self.choice.random()}\n/* x */ // y\n"),
            "white space": lambda: setattr(self.some(), "decoration", "\n\t " * self.choice.randint(0, 5)),
            "drop-in": self.toggle_drop_in,
        }
        name = self.choice.choice(sorted(edits))
        edits[name]()
        return name

    def toggle_drop_in(self):
        if self.drop_ins:
            self.drop_ins.clear()
        else:
            name = self.new_name()
            self.drop_ins[name] = Spec(name, self.choice)


class EditedNode(NodeTest):
    """A node whose configuration is written from a model."""

    def begin(self, model, *kubelet_options):
        self.model = model
        self.write()
        self.node.start_kubelet(*kubelet_options)
        self.node.start()
        until(lambda: self.node.state(), "devplugd to run")
        until(lambda: self.is_settled(1), "every resource to serve")

    def write(self):
        """As an editor does it: each file at once."""
        folder = self.node.config + ".d"
        os.makedirs(folder, exist_ok=True)
        for name in os.listdir(folder):
            if name.removesuffix(".conf") not in self.model.drop_ins:
                os.unlink(os.path.join(folder, name))
        for name, spec in self.model.drop_ins.items():
            with open(os.path.join(folder, f"{name}.conf"), "w") as file:
                file.write(f"resources = ( {spec.write()} );\n")
        self.node.configure(*(spec.write() for spec in self.model.main))

    def kubelet(self):
        return {r["name"]: r for r in self.node.call_kubelet("status")["resources"]}

    def is_settled(self, generation):
        state, specs = self.node.state(), self.model.specs()
        if state["generation"] != generation or [r["name"] for r in state["resources"]] != [
                s.full for s in self.model.main + list(self.model.drop_ins.values()) if s.enabled]:
            return False
        if any(r["state"] != "serving" for r in state["resources"]):
            return False
        kubelet = self.kubelet()
        return all(name in kubelet and kubelet[name]["state"] == "serving"
                   and kubelet[name]["allocatable"] == spec.devices for name, spec in specs.items())


class ReloadEdits(EditedNode):
    def picture(self):
        state = {r["name"]: r for r in self.node.state()["resources"]}
        kubelet = self.kubelet()
        return {name: {"pid": state[name]["pid"], "session": state[name]["session"],
                       "restarts": state[name]["restarts"], "connection": kubelet[name]["connection"],
                       "registrations": kubelet[name]["registrations"], "lists": kubelet[name]["lists"]}
                for name in self.model.specs()}

    def shows_version(self, spec):
        """Whether the next container gets what the newest configuration says."""
        self.probes += 1
        name = f"probe-{self.probes}"
        reply = self.node.call_kubelet("pod", name=name, namespace="default", limits={spec.full: 1})
        self.node.call_kubelet("pod-rm", name=name, namespace="default")
        self.assertIn("container", reply, reply)
        return reply["container"]["env"] == {f"V_{spec.name}": str(spec.version)}

    def choose(self, choice):
        names = self.loaded
        return {name: choice.randint(1, 2) for name in choice.sample(names, min(len(names), choice.randint(1, 2)))}

    def is_released(self):
        """Whether nothing is listed only because a container has it: the next pods have been admitted since."""
        specs, kubelet = self.model.specs(), self.kubelet()
        return all(d["health"] == "Healthy" for name in specs for d in kubelet[name]["devices"])

    def step(self, number):
        before, old = self.picture(), copy.deepcopy(self.model.specs())
        edits = [self.model.edit() for _ in range(self.model.choice.choice((1, 1, 1, 2, 3)))]
        new = self.model.specs()
        shrunk = [name for name, spec in old.items()
                  if name not in new or new[name].replicas != spec.replicas or new[name].count < spec.count]
        # A device that a container has keeps the NUMA node, or the lack of one, that the kubelet booked: each pod that
        # goes may change the list from then on.
        self.retained |= {name for name, spec in old.items() if name in new and spec.topology != new[name].topology}
        self.loaded = sorted(name for name in old if name in new)
        begin = time.monotonic()
        generation = self.node.state()["generation"] + 1
        self.write()
        self.node.daemon.send_signal(signal.SIGHUP)
        what = f"edit {number} ({', '.join(edits)})"
        until(lambda: self.is_settled(generation), lambda: f"{what} to settle; {self.node.state()}")
        for name, spec in new.items():
            until(lambda: self.shows_version(spec), f"{what} to be what containers of {name} get")
        until(self.is_released, f"{what}: what containers had to leave the lists")
        self.shrinking += [(name, begin, time.monotonic()) for name in shrunk]
        self.loaded = sorted(new)
        after = self.picture()
        for name, spec in new.items():
            if name not in old:
                continue
            if name in self.retained:
                self.assertEqual({**after[name], "lists": 0}, {**before[name], "lists": 0}, f"{what}: {name}")
                continue
            lists = after[name]["lists"] - before[name]["lists"]
            self.assertEqual({**after[name], "lists": 0}, {**before[name], "lists": 0}, f"{what}: {name}")
            changed = int(spec.shown() != old[name].shown())
            # What was taken away leaves the list when no container has it.
            self.assertGreaterEqual(lists, changed, f"{what}: lists of {name}")
            if name not in shrunk:
                self.assertEqual(lists, changed, f"{what}: lists of {name}")

    def is_predicted(self, attempt):
        text = str(attempt.reply.get("message"))
        return (any(attempt.begin < end and begin < attempt.end and name in attempt.limits
                    for name, begin, end in self.shrinking)
                and any(words in text for words in GONE)) or bool(attempt.reply.get("ignored"))

    def test_P2_random_edits_under_load(self):
        print(f"seed {SEED}, {EDITS} edits", end=" ", flush=True)
        self.shrinking, self.retained, self.probes = [], set(), 0
        self.begin(Model(random.Random(SEED)), "--seed", str(SEED))
        self.loaded = sorted(self.model.specs())
        daemon = self.node.daemon.pid
        with Load(self.node, self.choose, SEED) as load:
            for number in range(EDITS):
                self.step(number)
                self.assertIsNone(load.error)
            failures = load.failures()
            attempts = len(load.attempts)
        self.assertEqual(self.node.daemon.pid, daemon)
        self.assertGreater(attempts, EDITS, "the load was none")
        self.assertEqual([a for a in failures if not self.is_predicted(a)], [])
        print(f"{attempts} allocations, {len(failures)} failed as predicted", end=" ", flush=True)


if __name__ == "__main__":
    unittest.main()
