# SPDX-License-Identifier: Apache-2.0
"""Random steps with devices that are cleaned between pods, tested after failures, and lose their pods when they fail. No container
starts on a device that is dirty or was not tested, none is cleaned while a pod has it, no pod is evicted without a failed device, and
no more devices lose their pods than the brake allows.

The sequence depends on the seed alone. $DEVPLUGD_TEST_STEPS and $DEVPLUGD_TEST_SEED choose others: `make random` runs 10,000 steps.
docs/contributing/complaints.md: none.
"""
import json
import os
import random
import unittest

from cleaning_node import CleaningProgram
from eviction_node import GPU, EvictionTest
from node import SEED, scaled, static, until

STEPS = int(os.environ.get("DEVPLUGD_TEST_STEPS") or scaled(100))
DEVICES = 4
TEST = """#!/bin/sh
# Runs in place of a test of the hardware.
[ ! -e %(folder)s/defect-$1 ] || exit 1
echo "tested $1" >>%(folder)s/log
"""


class CleaningSteps(CleaningProgram, EvictionTest):
    def setUp(self):
        super().setUp()
        self.add_program()
        self.tester = self.node.path("tester")
        with open(self.tester, "w") as stream:
            stream.write(TEST % {"folder": self.folder})
        os.chmod(self.tester, 0o755)
        self.random = random.Random(SEED)
        # By pod: its device, how often that was cleaned when the pod got it, and whether the API server has let it be evicted.
        self.pods, self.number = {}, 0
        # By device: how often it had been cleaned, or tested, when it became dirty, or failed.
        self.dirty, self.untested = {}, {}
        self.broken, self.confirmed, self.counted, self.kills = set(), set(), 0, 0

    def configure(self, *resources, text=""):
        self.node.configure(
            *resources, text=f'dra = {{ kubeconfig = "{self.kubeconfig}"; node = "node-a"; }}; {text}',
            kubelet=f'pod_resources_socket = "{self.node.kubelet_state}/pod-resources/kubelet.sock"; pod_resources_interval = 1; '
                    f'pod_logs_dir = "{self.node.kubelet_state}/pod-logs";')

    def resource(self):
        path = self.node.path("health/${id}")
        return static("gpu", DEVICES, f"""health = (
            {{ probe = "file"; path = "{path}"; missing = "healthy"; severity = "evict"; evict_after = 0; }},
            {{ probe = "exec"; on_recovery = true; command = ( "{self.tester}", "${{id}}" ); interval = 0.1; attempts = 1000;
               returns = 1000; }} ); {self.release()}""")

    # --- what is seen

    def count(self, word, device):
        return self.log().count(f"{word} {device}")

    def ending(self):
        """The pods of which an eviction was accepted."""
        return [name for name in self.evictions() if name in self.pods]

    def show(self):
        """The Node shows what the kubelet knows."""
        resource = self.node.node_resources().get(GPU)
        if resource:
            self.show_allocatable(sum(device["health"] == "Healthy" for device in resource["devices"]))

    def hit(self):
        """The devices whose pods the plan counts."""
        saved = self.saved_plans()
        return {hit["device"] for plan in saved["resources"].values() for hit in plan["hits"]} if saved else set()

    def saved_failures(self):
        """The devices that stay unhealthy after a kill."""
        found, folder = set(), os.path.join(self.node.run, "health")
        for name in os.listdir(folder) if os.path.exists(folder) else ():
            with open(os.path.join(folder, name)) as file:
                # A unit that is only an id is healthy.
                found |= {unit["id"] for unit in json.load(file)["units"] if isinstance(unit, dict) and not unit.get("healthy", True)}
        return found

    def check(self):
        for name, (device, begun) in self.pods.items():
            self.assertEqual(self.count("begin", device), begun, f"{device} was cleaned while {name} has it")
        for name in self.evictions()[self.counted:]:
            self.counted += 1
            self.assertIn(name, self.lost, f"{name} was evicted without a failed device")
        self.assertLessEqual(len(self.hit() - self.confirmed), DEVICES // 2, "the brake did not hold")

    # --- what happens

    def add(self):
        if len(self.pods) == DEVICES:
            return
        name = f"p{self.number}"
        self.number += 1
        given, refused = self.node.pod(name, gpu=1)
        if refused:
            # It was not admitted, or did not start: both may happen while devplugd or its process starts.
            self.node.ask_kubelet("pod", "rm", name)
            return
        device, = given["resources"][GPU]
        self.assertNotIn(device, {held for held, _ in self.pods.values()})
        if device in self.dirty:
            self.assertGreater(self.count("end", device), self.dirty.pop(device), f"{name} got {device} dirty")
        if device in self.untested:
            self.assertGreater(self.count("tested", device), self.untested.pop(device), f"{name} got {device} untested")
        self.assertNotIn(device, self.broken)
        self.pods[name] = device, self.count("begin", device)
        self.add_pod(name, self.uid_of(name))

    def end(self, name):
        device, _ = self.pods.pop(name)
        self.dirty[device] = self.count("end", device)
        self.end_pod(name)

    def drop(self):
        if self.pods:
            self.end(self.random.choice(sorted(self.pods)))

    def finish_evicted(self):
        for name in self.ending():
            self.end(name)

    def restart_container(self):
        if self.pods:
            self.node.ask_kubelet("pod", "restart", self.random.choice(sorted(self.pods)))

    def break_device(self):
        device = f"gpu-{self.random.randrange(DEVICES)}"
        if device in self.broken:
            return
        self.broken.add(device)
        self.lost |= {name for name, (held, _) in self.pods.items() if held == device}
        self.write(device, "broken")
        # It is saved at most ten times a second.
        until(lambda: device in self.failures() and device in self.saved_failures(), "the failure")
        self.untested[device] = self.count("tested", device)
        if self.random.random() < 0.3:
            self.mark(f"defect-{device}")

    def repair(self):
        if not self.broken:
            return
        device = self.random.choice(sorted(self.broken))
        self.broken.discard(device)
        # Others may still be about to be evicted.
        self.write(device, "ok")
        until(lambda: device not in self.failures(), "the recovery")
        self.mark(f"defect-{device}", False)

    def confirm(self):
        held = {device for device, failure in self.failures().items() if failure["state"] == "held"}
        if held:
            self.confirmed |= held
            self.ctl("evict", GPU)

    def let_an_hour_pass(self):
        """The plan forgets whose pods were evicted, and when the configuration was changed."""
        self.node.stop(self.random.choice((9, 15)))
        saved = self.saved_plans()
        for plan in (saved or {"resources": {}})["resources"].values():
            plan["hits"] = []
        if saved:
            with open(os.path.join(self.node.run, "evictions.json"), "w") as file:
                json.dump(saved, file)
        self.confirmed = {device for device in self.confirmed if device in self.broken}
        self.node.start()
        self.node.await_serving()

    def kill_process(self):
        """The time until a process is started again doubles with each kill, and begins again with devplugd."""
        pid = self.node.find(GPU)["pid"]
        if pid and self.kills < 2:
            self.kills += 1
            os.kill(pid, 9)

    def kill_devplugd(self):
        self.kills = 0
        self.node.stop(self.random.choice((9, 15)))
        self.node.start()

    def restart_kubelet(self):
        self.node.stop_kubelet(9)
        self.node.start_kubelet()
        until(lambda: self.node.ask_kubelet("pods").returncode == 0, "the kubelet")
        self.node.await_serving()

    def break_program(self):
        device = f"gpu-{self.random.randrange(DEVICES)}"
        if self.random.random() < 0.5:
            self.mark(f"bad-{device}")
        else:
            self.mark(f"bad-{device}", False)
            self.ctl("resume", GPU, device)

    def wait(self):
        self.node.await_serving()

    def test_steps(self):
        print(f"seed {SEED}, {STEPS} steps", end=" ", flush=True)
        self.lost = set()
        self.begin(self.resource(), count=DEVICES)
        steps = [self.add] * 8 + [self.drop] * 3 + [self.finish_evicted] * 4 + [self.restart_container] * 2 + [self.break_device] * 4 + [
            self.repair] * 5 + [self.wait] * 2 + [self.confirm, self.let_an_hour_pass, self.kill_process, self.kill_devplugd,
                                                  self.restart_kubelet, self.break_program]
        for number in range(STEPS):
            step = self.random.choice(steps)
            try:
                step()
                self.show()
                self.check()
            except Exception as error:
                raise AssertionError(f"seed {SEED}, step {number}: {step.__name__}: {error}\n{self.log()[-20:]}") from error
        self.recover()
        log = self.log()
        print(f"{self.number} pods, {self.counted} evicted,", ", ".join(f"{sum(line.startswith(word) for line in log)} {word}" for word in (
            "begin", "end", "tested")), end=" ", flush=True)

    def recover(self):
        """At the end, every device is offered again."""
        self.node.await_serving()
        for number in range(DEVICES):
            for kind in ("bad", "defect"):
                self.mark(f"{kind}-gpu-{number}", False)
            self.write(f"gpu-{number}", "ok")
        for name in list(self.pods):
            self.end(name)
        for number in range(DEVICES):
            self.ctl("resume", GPU, f"gpu-{number}")
        self.node.await_allocatable(gpu=DEVICES)


if __name__ == "__main__":
    unittest.main()
