# SPDX-License-Identifier: Apache-2.0
"""NVIDIA GPUs on a host that is a directory, with a stand-in for NVIDIA's library (tests/nvml): what an error, a restart,
and an upgrade of the driver do to the node and its pods."""
import json
import os
import re
import shutil
import signal
import subprocess
import time
import unittest

from node import NodeTest, command_line, program, scaled, until
from nvidia_host import NvidiaHost, address, uuid
from unix_http import get

PRESETS = os.path.join(os.path.dirname(os.path.realpath(__file__)), "../../etc/presets")


class Nvidia(NvidiaHost, NodeTest):
    def setUp(self):
        super().setUp()
        self.prepare_host(self.node)

    def configure(self, more="", text=""):
        self.node.configure(
            '{ name = "vendor.example/gpu"; driver = "nvidia"; match = ( { } ); '
            'health = ( { probe = "nvml"; interval = 0.2; hang_after = 1; } ); ' + more + "}",
            text=f'host_root = "{self.host}"; {text}')

    def serve(self, more="", text=""):
        self.configure(more, text)
        self.node.start_kubelet()
        self.node.start()
        self.node.await_allocatable(gpu=self.GPUS)

    def unhealthy(self):
        resource = self.node.resource("vendor.example/gpu") or {"devices": []}
        return {d["id"]: d["reason"] for d in resource["devices"] if d["health"] != "Healthy"}

    def shown(self):
        """The resource as devplugctl shows it, when it knows that all GPUs are healthy: it hears of a change after the kubelet."""
        until(lambda: not self.unhealthy(), "all GPUs to be shown as healthy")
        return self.node.resource("vendor.example/gpu")

    def check_others(self, before, *but):
        """Process and session are the same, and the health of no other device has changed, not even for a moment."""
        after = self.node.resource("vendor.example/gpu")
        self.assertEqual((after["pid"], after["session"]), (before["pid"], before["session"]))
        since = {d["id"]: d["since"] for d in before["devices"] if d["id"] not in but}
        self.assertEqual({d["id"]: d["since"] for d in after["devices"] if d["id"] in since}, since)

    def test_one_of_eight_is_lost(self):
        """Its pod stays, the others are not disturbed, and a hanging library changes nothing."""
        self.serve()
        got, why = self.node.pod("trainer", gpu=self.GPUS)
        self.assertIsNone(why)
        self.assertEqual(len([d for d in got["devices"] if d["host_path"].startswith("/dev/nvidia")]), self.GPUS + 2)
        before = self.shown()
        self.report(f"lost {address(3)}")
        until(lambda: list(self.unhealthy()) == [uuid(3)], "the GPU, and no other, to be unhealthy")
        self.assertIn("fell off the bus", self.unhealthy()[uuid(3)])
        self.node.await_allocatable(gpu=self.GPUS - 1)
        self.report("hang nvmlDeviceGetFieldValues")
        until(lambda: "was killed" in self.node.output(), "the helper to be replaced")
        self.assertEqual(list(self.unhealthy()), [uuid(3)])
        self.report()
        self.node.await_allocatable(gpu=self.GPUS)
        self.check_others(before, uuid(3))

    def test_event_storm(self):
        """A library that always has an event: a report takes 100 ms or more, on any machine."""
        count = 50
        begin = time.monotonic()
        helper = subprocess.Popen([program("devplugd-nvml"), f"{self.host}/usr/lib64/libnvidia-ml.so.1", "86400"], stdout=subprocess.PIPE, text=True)
        self.addCleanup(helper.wait)
        self.addCleanup(helper.kill)
        self.addCleanup(helper.stdout.close)
        reports = [json.loads(helper.stdout.readline())]
        self.report(f"storm {address(2)} 13")
        reports += [json.loads(helper.stdout.readline()) for _ in range(count)]
        self.assertGreaterEqual(time.monotonic() - begin, count * 0.1)
        xids = [device["properties"].get("xids", "") for device in reports[-1]["devices"] if device["id"] == address(2)]
        self.assertRegex(xids[0], r"^13:-:[0-9]+$")

    def test_an_error_outlives_a_restart(self):
        """1000 errors of a driver that recommends nothing: until it is loaded again, also while devplugd does not run."""
        self.serve()
        before = self.shown()
        # Serials ascend: the 1000 errors of applications are taken first.
        self.report(f"xid 1 {address(4)} 13 -1 1000", f"xid 2 {address(2)} 79 -1 1000")
        self.node.await_allocatable(gpu=self.GPUS - 1)
        until(lambda: list(self.unhealthy()) == [uuid(2)], "the GPU, and no other, to be unhealthy")
        self.check_others(before, uuid(2))
        self.assertTrue(self.unhealthy()[uuid(2)].startswith("Xid 79 (the GPU fell off the bus): "))
        self.node.stop()
        self.report()
        self.node.start()
        self.node.await_state("vendor.example/gpu", "serving")
        until(lambda: list(self.unhealthy()) == [uuid(2)], "the GPU, and no other, to be unhealthy")
        self.node.await_allocatable(gpu=self.GPUS - 1)
        self.node.stop()
        self.unload_driver()
        self.load_driver("535.54.03")
        self.node.start()
        self.node.await_allocatable(gpu=self.GPUS)

    def helpers(self):
        """Processes that have the library of this host open."""
        return [pid for pid in os.listdir("/proc") if pid.isdigit() and self.host in " ".join(command_line(int(pid)))
                and "devplugd-nvml" in "".join(command_line(int(pid))[:1])]

    def ctl(self, *words):
        return subprocess.run([program("devplugctl"), "-c", self.node.config, *words], capture_output=True, text=True)

    def test_release(self):
        """Nothing is open, and nothing changes for the kubelet."""
        self.serve()
        before = self.node.resource("vendor.example/gpu")
        self.assertEqual(len(self.helpers()), 1)
        answer = self.ctl("release", "vendor.example/gpu")
        self.assertEqual((answer.returncode, answer.stdout), (0, "vendor.example/gpu is released\n"), answer.stderr)
        until(lambda: not self.helpers(), "the helper to end")
        until(lambda: "devplugctl resume vendor.example/gpu" in self.ctl("explain", "vendor.example/gpu").stdout,
              "the release to be explained")
        self.assertIsNone(self.node.pod("p", gpu=1)[1])
        answer = self.ctl("resume", "vendor.example/gpu")
        self.assertEqual((answer.returncode, answer.stdout), (0, "vendor.example/gpu is resumed\n"), answer.stderr)
        until(self.helpers, "the helper to run again")
        after = self.node.resource("vendor.example/gpu")
        self.assertEqual((after["pid"], after["session"]), (before["pid"], before["session"]))
        self.assertIn("has no resource", self.ctl("release", "vendor.example/x").stderr)

    def test_reset_of_one(self):
        """A driver that recommends nothing: the GPU that was reset is back, the other keeps its fault."""
        self.serve()
        before = self.shown()
        self.report(f"xid 1 {address(2)} 48 -1 1", f"xid 2 {address(5)} 48 -1 1")
        until(lambda: sorted(self.unhealthy()) == [uuid(2), uuid(5)], "two GPUs, and no other, to be unhealthy")
        self.ctl("release", "vendor.example/gpu")
        self.report()
        answer = self.ctl("resume", "vendor.example/gpu", uuid(2)[:-1])
        self.assertEqual((answer.returncode, answer.stderr), (
            1, f'devplugctl: vendor.example/gpu has no device "{uuid(2)[:-1]}", did you mean "{uuid(2)}"?\n'))
        answer = self.ctl("resume", "vendor.example/gpu", uuid(2))
        self.assertEqual((answer.returncode, answer.stdout), (0, "vendor.example/gpu is resumed\n"), answer.stderr)
        self.node.await_allocatable(gpu=self.GPUS - 1)
        until(lambda: list(self.unhealthy()) == [uuid(5)], "the other one, and no other, to be unhealthy")
        self.check_others(before, uuid(2), uuid(5))

    def test_reload_after_a_reset(self):
        """A reload before the library answers keeps what "devplugctl resume" has reported."""
        self.serve()
        self.report(f"xid 1 {address(2)} 48 -1 1")
        until(lambda: list(self.unhealthy()) == [uuid(2)], "the GPU, and no other, to be unhealthy")
        self.ctl("release", "vendor.example/gpu")
        self.report("hang nvmlInit_v2")
        answer = self.ctl("resume", "vendor.example/gpu", uuid(2))
        self.assertEqual(answer.returncode, 0, answer.stderr)
        self.configure("container = { env = \"GPU=${uuid}\"; };")
        self.node.reload()
        self.report()
        self.node.await_allocatable(gpu=self.GPUS)

    def test_release_after_a_failure(self):
        """What the library reported last does not hide the release."""
        self.serve()
        self.report("fail nvmlInit_v2 9")
        os.kill(int(until(self.helpers, "the helper")[0]), signal.SIGKILL)
        until(lambda: "Driver Not Loaded" in self.ctl("explain", "vendor.example/gpu").stdout, "the failure to be explained")
        self.assertEqual(self.ctl("release", "vendor.example/gpu").returncode, 0)
        until(lambda: "devplugctl resume vendor.example/gpu" in self.ctl("explain", "vendor.example/gpu").stdout,
              "the release to be explained")
        self.report()
        self.assertEqual(self.ctl("resume", "vendor.example/gpu").returncode, 0)
        until(lambda: "devplugctl resume" not in self.ctl("explain", "vendor.example/gpu").stdout, "the release to end")
        self.node.await_allocatable(gpu=self.GPUS)

    def scrape(self):
        """The metrics of GPUs: a number by the name, the device and the number of an error."""
        try:
            text = get(self.node.path("metrics.sock"))[1]
        except OSError:
            return {}
        found = re.findall(r'^devplugd_gpu_([a-z_]+)\{resource="vendor.example/gpu",device="([^"]*)"(?:,xid="(\d+)")?\} (\S+)$',
                           text, re.M)
        return {(name, device, xid): float(value) for name, device, xid, value in found}

    def test_metrics(self):
        """Prometheus gets what the library reports, for as long as it reports."""
        self.serve(text=f'metrics = {{ listen = "{self.node.path("metrics.sock")}"; }};')
        until(lambda: self.scrape().get(("temperature_celsius", uuid(0), "")) == 41, "a temperature")
        before = self.node.resource("vendor.example/gpu")
        # Nothing but this changes: neither the list nor any health.
        self.report(f"power {address(5)} 300000")
        until(lambda: self.scrape().get(("power_watts", uuid(5), "")) == 300, "another power draw")
        self.report(f"xid 1 {address(2)} 95 -1 1", f"xid 2 {address(2)} 13 -1 1000", f"field {address(2)} 230 1",
                    f"field {address(2)} 143 2", f"field {address(2)} 144 1", f"power {address(5)} 301500")
        until(lambda: self.scrape().get(("xid_errors_total", uuid(2), "13")) == 1000, "the errors to be counted")
        samples = self.scrape()
        self.assertEqual({key[0] + key[2]: value for key, value in samples.items() if key[1] == uuid(2)}, {
            "monitored": 1, "temperature_celsius": 41, "power_watts": 65, "recovery_action": 1, "row_remap_pending": 1,
            "uncorrectable_remapped_rows": 2, "xid_errors_total95": 1, "xid_errors_total13": 1000})
        self.assertEqual(samples[("power_watts", uuid(5), "")], 301.5)
        self.assertEqual([value for (name, _, _), value in samples.items() if name == "monitored"], [1] * self.GPUS)
        until(lambda: list(self.unhealthy()) == [uuid(2)], "the GPU, and no other, to be unhealthy")
        self.ctl("release", "vendor.example/gpu")
        until(lambda: set(self.scrape().values()) == {0}, "no old numbers to be reported")
        self.assertEqual({name for name, _, _ in self.scrape()}, {"monitored"})
        after = self.node.resource("vendor.example/gpu")
        self.assertEqual((after["pid"], after["session"]), (before["pid"], before["session"]))

    def test_upgrade_under_running_pods(self):
        """New libraries under the old driver are given to no one; with the new driver all is as before."""
        self.serve()
        got, why = self.node.pod("old", gpu=1)
        self.assertIsNone(why)
        before = got["resources"]
        self.assertIn("/usr/lib64/libcuda.so.1", {m["host_path"].replace(".535.54.03", ".1") for m in got["mounts"]})
        self.install("550.90.07")
        self.report()
        self.node.await_allocatable(gpu=0)
        until(lambda: len(self.unhealthy()) == self.GPUS, "all GPUs to be unhealthy")
        self.assertIn("the kernel driver is 535.54.03, but the libraries on the host are 550.90.07",
                      self.unhealthy()[uuid(0)])
        self.unload_driver()
        # A scan may come before or after their nodes are removed.
        until(lambda: all("is not listed any more" in reason or "has disappeared" in reason
                          for reason in self.unhealthy().values()), "the GPUs to disappear")
        self.load_driver("550.90.07")
        self.node.await_allocatable(gpu=self.GPUS)
        got, why = self.node.pod("new", gpu=self.GPUS - 1)
        self.assertIsNone(why)
        self.assertIn("libcuda.so.550.90.07", str(got["mounts"]))
        pods = {pod["name"]: pod for pod in self.node.call_kubelet("pods")["pods"]}
        self.assertEqual((pods["old"]["phase"], pods["old"]["resources"]), ("Running", before))

    # --- instances

    def listed(self):
        resources = {r["name"]: r for r in self.node.call_kubelet("status")["resources"]}
        return resources["vendor.example/gpu"]["devices"]

    def offered(self):
        return {d["id"] for d in self.listed() if d["health"] == "Healthy"}

    def test_100_geometries(self):
        """Each is offered without a restart. The GPU is never offered whole, and no other GPU changes."""
        self.serve()
        before = self.shown()
        others = {uuid(number) for number in range(1, self.GPUS)}
        self.split()
        until(lambda: self.offered() == others, "the GPU that is to be split to be withdrawn")
        for step in range(scaled(100)):
            instances = [(1 + (step + i) % 6, f"MIG-{step:08x}-483b-b48f-d7e5-{i:012x}") for i in range(step % 4)]
            names = {name for _, name in instances}
            self.split(*instances)

            def is_complete():
                found = self.offered()
                self.assertEqual(found & others, others)
                self.assertNotIn(uuid(0), found)
                return found - others == names
            until(is_complete, f"geometry {step} to be offered: {names}")
        last = "MIG-ffffffff-483b-b48f-d7e5-75fb19a52b76"
        self.split((3, last))
        until(lambda: self.offered() == others | {last}, "the last geometry to be offered")
        got, why = self.node.pod("all", gpu=self.GPUS)
        self.assertIsNone(why)
        nodes = {d["host_path"].replace(self.host, "") for d in got["devices"]}
        self.assertLessEqual({"/dev/nvidia0", "/dev/nvidia-caps/nvidia-cap30", "/dev/nvidia-caps/nvidia-cap31"}, nodes)
        self.check_others(before, uuid(0))

    def discover(self, *words):
        answer = subprocess.run([program("devplugctl"), "discover", "nvidia", "--root", self.host, *words],
                                capture_output=True, text=True)
        self.assertEqual((answer.returncode, answer.stderr), (0, ""), answer.stdout)
        return answer.stdout

    def test_a_resource_for_each_profile(self):
        """devplugctl writes the resources for the profiles that are present; each offers its own instances."""
        profiles = {1: "1g.10gb", 2: "1g.10gb+me", 3: "1g.10gb", 4: "3g.40gb"}
        self.split(*((number, "") for number in profiles))
        self.report(f"mig {address(0)} 1", *(
            f"instance {address(0)} {number} 0 MIG-{number:08x}-483b-b48f-d7e5-75fb19a52b76 {profile}"
            for number, profile in profiles.items()))
        text = self.discover()
        names = re.findall(r'^    { name = "vendor.example/([^"]*)"', text, re.M)
        self.assertEqual(sorted(names), ["mig-1g.10gb", "mig-1g.10gb.me", "mig-3g.40gb", "nvidia"])
        document = json.loads(self.discover("--json"))
        self.assertEqual([preset["profiles"] for preset in document["presets"]], [["1g.10gb", "1g.10gb+me", "3g.40gb"]])
        # devplugd finds presets beside itself.
        shutil.copytree(PRESETS, self.node.path("share/devplugd/presets"))
        with open(self.node.path("resources.conf"), "w") as file:
            file.write(text)
        self.node.configure(text=f'host_root = "{self.host}";')
        with open(self.node.config) as file:
            text = file.read()
        with open(self.node.config, "w") as file:
            file.write(text[:text.index("resources = (")] + f'@include "{self.node.path("resources.conf")}"\n')
        self.node.start_kubelet()
        self.node.start()
        self.node.await_allocatable(**{"nvidia": self.GPUS - 1, "mig-1g.10gb": 2, "mig-1g.10gb.me": 1, "mig-3g.40gb": 1})

    # --- moving

    def old_plugin(self, ids):
        """A plugin that offers these ids, as NVIDIA's does; pods take the first two."""
        entries = ", ".join(f'{{ id = "{name}"; }}' for name in ids)
        self.node.configure(f'{{ name = "vendor.example/gpu"; driver = "static"; match = ( {entries} ); }}')
        self.node.start_kubelet()
        self.node.start()
        self.node.await_allocatable(gpu=len(ids))
        held = {}
        for name in ("a", "b"):
            got, why = self.node.pod(name, gpu=1)
            self.assertIsNone(why)
            held[name], = got["resources"]["vendor.example/gpu"]
        self.node.stop()
        self.node.run = self.node.path("run-of-devplugd")
        return held

    def move(self, more=""):
        """The rest of docs/moving.md: devplugd under the same name, with the preset's health."""
        self.node.configure(
            '{ name = "vendor.example/gpu"; driver = "nvidia"; match = ( { } ); '
            'health = ( { probe = "nvml"; interval = 0.2; } ); ' + more + "}",
            text=f'host_root = "{self.host}";')
        self.node.start()
        self.node.await_state("vendor.example/gpu", "serving")

    def restart_kubelet(self, offered):
        """Returns what each pod has afterwards, by its name."""
        self.node.stop_kubelet()
        self.node.start_kubelet()
        self.node.await_allocatable(gpu=offered)
        pods = self.node.call_kubelet("pods")["pods"]
        self.assertEqual({pod["name"]: pod["phase"] for pod in pods}, dict.fromkeys((pod["name"] for pod in pods), "Running"))
        return {pod["name"]: pod["resources"]["vendor.example/gpu"] for pod in pods}

    def test_moving_from_nvidias_plugin(self):
        """Ids are the same: pods keep their GPUs, also over a restart of the kubelet, and no one else gets these."""
        held = self.old_plugin([uuid(number) for number in range(self.GPUS)])
        self.move()
        self.node.await_allocatable(gpu=self.GPUS)
        got, why = self.node.pod("c", gpu=self.GPUS - 2)
        self.assertIsNone(why)
        rest = set(got["resources"]["vendor.example/gpu"])
        self.assertEqual(rest, {uuid(number) for number in range(self.GPUS)} - set(held.values()))
        self.assertEqual({d["id"] for d in self.listed()}, rest | set(held.values()))
        pods = self.restart_kubelet(self.GPUS)
        self.assertEqual({name: pods[name] for name in held}, {name: [device] for name, device in held.items()})
        self.assertEqual(set(pods["c"]), rest)

    def test_moving_with_shares(self):
        """Ids differ in the number of the share: pods keep theirs, also over a restart of the kubelet; new pods get new ones."""
        held = self.old_plugin([f"{uuid(number)}::{share}" for number in range(self.GPUS) for share in range(2)])
        self.move("share = { replicas = 2; };")
        self.node.await_allocatable(gpu=2 * self.GPUS)
        pods = self.restart_kubelet(2 * self.GPUS)
        self.assertEqual(pods, {name: [device] for name, device in held.items()})
        # A kubelet that starts fails pods whose devices are not listed.
        self.assertLessEqual(set(held.values()), {d["id"] for d in self.listed()})
        got, why = self.node.pod("c", gpu=1)
        self.assertIsNone(why)
        new, = got["resources"]["vendor.example/gpu"]
        self.assertIn(new, {f"{uuid(number)}#{share}" for number in range(self.GPUS) for share in range(2)})


if __name__ == "__main__":
    unittest.main()
