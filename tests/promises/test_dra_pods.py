# SPDX-License-Identifier: Apache-2.0
"""Pods that get their devices by DRA, from the file to the container: the scheduler of api_server.py allocates,
devplug-kubelet registers the driver, prepares and unprepares."""
import json
import os
import re
import signal
import stat
import unittest

from dra_node import DRIVER, DraPodTest
from node import until
from unix_http import get


class DraPods(DraPodTest):
    def test_unchanged_limits(self):
        """A pod with unchanged limits gets its devices by a claim that the scheduler makes; each container its own."""
        self.serve_api()
        self.begin(self.resource("gpu"), self.resource("fpga"), pods=True)
        limits = [{"vendor.example/gpu": 2}, {"vendor.example/gpu": 1, "vendor.example/fpga": 1}]
        words = ["a:vendor.example/gpu=2", "b:vendor.example/gpu=1,vendor.example/fpga=1"]
        claim = self.api.schedule_limits("trainer", limits)
        pod = self.pod("trainer", claim, limits=words)
        self.assertEqual((pod["phase"], pod.get("reason")), ("Running", None))
        a, b = (container["container"] for container in pod["containers"])
        self.assertEqual(len(self.edits(a)["GPU"].split(",")), 2)
        self.assertEqual(set(self.edits(b)), {"GPU", "FPGA"})
        self.assertEqual({*self.edits(a)["GPU"].split(","), self.edits(b)["GPU"]}, {"gpu-0", "gpu-1", "gpu-2"})
        # The same for people.
        resource = until(lambda: (r := self.node.resource("vendor.example/gpu"))["in_use"] == 3 and r, "the pods of devices")
        holders = {pod["container"]: [] for device in resource["devices"] for pod in device["pods"]}
        for device in resource["devices"]:
            for pod in device["pods"]:
                self.assertEqual((pod["namespace"], pod["pod"]), ("default", "trainer"))
                holders[pod["container"]].append(device["id"])
        self.assertEqual({name: ",".join(ids) for name, ids in holders.items()},
                         {"a": self.edits(a)["GPU"], "b": self.edits(b)["GPU"]})
        self.assertEqual(resource["free"], 0)
        shown = {(c["namespace"], c["name"], c["uid"]) for device in resource["devices"] for c in device["claims"]}
        self.assertEqual(shown, {("default", claim["metadata"]["name"], claim["metadata"]["uid"])})
        self.assertEqual({c["id"] for device in resource["devices"] for c in device["claims"]}, {"gpu-0", "gpu-1", "gpu-2"})
        text = f"default/trainer/b (claim default/{claim['metadata']['name']})"
        for words in (["devices", "vendor.example/gpu"], ["explain", "vendor.example/gpu"]):
            self.assertIn(text, " ".join(self.ctl(*words).stdout.split()))
        # The node has no more of them, so the next pod is not scheduled.
        self.assertIsNone(self.api.schedule_limits("second", [{"vendor.example/gpu": 1}]))
        until(lambda: self.dra()["claims"] == 1, "the claim in the status")
        self.assertEqual(self.remove("trainer"), "")
        self.api.release(claim)
        self.assertEqual(self.files(), [])
        until(lambda: self.dra()["claims"] == 0, "the claim to leave the status")
        claim = self.api.schedule_limits("second", [{"vendor.example/gpu": 1}])
        self.assertEqual(self.pod("second", claim, limits=["a:vendor.example/gpu=1"])["phase"], "Running")

    def test_metrics(self):
        """They have the pod of a device that it got by a claim."""
        address = self.node.path("metrics.sock")
        self.serve_api()
        self.begin(self.resource("gpu"), pods=True, text=f'metrics = {{ listen = "{address}"; pods = true; }};')
        pod = self.pod("trainer", self.api.schedule_limits("trainer", [{"vendor.example/gpu": 2}]),
                       limits=["main:vendor.example/gpu=2"])
        ids = self.edits(pod["containers"][0]["container"])["GPU"].split(",")
        head = 'devplugd_device_assigned{resource="vendor.example/gpu",device="'
        wanted = {f'{head}{name}",namespace="default",pod="trainer",container="main"}} 1' for name in ids}
        wanted.add('devplugd_resource_assigned_devices{resource="vendor.example/gpu"} 2')

        def told():
            return {line for line in get(address, "/metrics")[1].splitlines()
                    if re.match("devplugd_(device|resource)_assigned", line)}
        def dra():
            return {line.rsplit(" ", 1)[0]: float(line.rsplit(" ", 1)[1]) for line in get(address, "/metrics")[1].splitlines()
                    if line.startswith("devplugd_dra_")}

        def count(call, outcome):
            return dra()[f'devplugd_dra_calls_total{{driver="{DRIVER}",call="{call}",outcome="{outcome}"}}']

        self.assertEqual((count("prepare", "ok"), count("prepare", "failed"), count("unprepare", "ok")), (1, 0, 0))
        self.assertEqual((dra()[f'devplugd_dra_claims{{driver="{DRIVER}"}}'], dra()[f'devplugd_dra_slices{{driver="{DRIVER}"}}'], dra()["devplugd_dra_api_errors_total"]), (1, 1, 0))
        self.api.allocate("thief", DRIVER, [("r", self.api.device_named("vendor.example/gpu", int(ids[0][-1])))])
        self.assertIn("still prepared", self.pod("thief", self.api.claims["default", "thief"])["message"])
        until(lambda: "cannot prepare the claim default/thief: device" in self.node.output(), "the claim in the log")
        self.assertEqual((count("prepare", "ok"), count("prepare", "failed")), (1, 1))
        self.assertEqual(dra()[f'devplugd_dra_call_duration_seconds_count{{driver="{DRIVER}",call="prepare"}}'], 2)
        self.assertGreater(dra()[f'devplugd_dra_call_duration_seconds_sum{{driver="{DRIVER}",call="prepare"}}'], 0)
        self.assertEqual(self.remove("thief"), "")
        self.assertEqual(len(ids), 2)
        until(lambda: told() == wanted, f"the pod in the metrics, not {told()}")
        claim = next(name for _, name in self.api.claims if name.startswith("trainer"))
        before = count("unprepare", "ok")
        self.assertEqual(self.remove("trainer"), "")
        self.assertIn(f"unprepared the claim default/{claim}\n", self.node.output())
        self.assertEqual((count("unprepare", "ok"), dra()[f'devplugd_dra_claims{{driver="{DRIVER}"}}']), (before + 1, 0))
        self.assertIn('devplugd_resource_info{resource="vendor.example/gpu",driver="static",serve="dra",'
                      'kube_resource="vendor_example_gpu"} 1', get(address, "/metrics")[1].splitlines())
        self.api.faults = [lambda method, path: 503 if method == "PUT" else None]
        self.assertEqual(self.ctl("cordon", "vendor.example/gpu/gpu-0").returncode, 0)
        until(lambda: dra()["devplugd_dra_api_errors_total"] > 0, "the failed requests in the metrics")

    def test_P2_refused_reload_keeps_the_driver(self):
        """What a child refuses changes nothing of the pods that are shown, also if the new files name no driver."""
        address = self.node.path("metrics.sock")
        self.serve_api()
        self.begin(self.resource("gpu"), pods=True, text=f'metrics = {{ listen = "{address}"; pods = true; }};')
        with open(self.node.config) as file:
            text = file.read()
        with open(self.node.config, "w") as file:
            file.write(re.sub(r"dra = \{.*?\};", "", text).replace('serve = "dra";', 'host_root = "/nonexistent";'))
        self.node.reload()
        until(lambda: self.node.find("vendor.example/gpu")["refused"], "the child to refuse it")
        self.pod("trainer", self.api.schedule_limits("trainer", [{"vendor.example/gpu": 1}]), limits=["main:vendor.example/gpu=1"])

        def shown():
            return [pod["pod"] for device in self.node.resource("vendor.example/gpu")["devices"] for pod in device["pods"]]
        until(lambda: shown() == ["trainer"], "the pod of the device")
        until(lambda: 'namespace="default",pod="trainer",container="main"} 1' in get(address, "/metrics")[1],
              "the pod in the metrics")

    def test_shared_claim(self):
        """Two pods use one claim: it is prepared once, and unprepared after the last of them."""
        self.serve_api()
        self.begin(self.resource("gpu"))
        claim = self.api.schedule("both", [("gpu", "gpu.vendor.example", 1)])
        first, second = self.pod("first", claim), self.pod("second", claim)
        self.assertEqual(first["container"]["cdi"], second["container"]["cdi"])
        self.assertEqual(self.edits(first["container"]), {"GPU": "gpu-0"})
        device = claim["status"]["allocation"]["devices"]["results"][0]["device"]
        shown = [("both", DRIVER, "node-a", device, first["container"]["cdi"])]
        self.assertEqual(self.dynamic_resources(), {"first": shown, "second": shown})
        self.assertEqual(self.count_events("prepare"), 1)
        self.assertEqual(self.remove("first"), "")
        self.assertEqual(len(self.files()), 1)
        self.assertEqual(self.remove("second"), "")
        self.assertEqual(self.files(), [])

    def test_health_reaches_the_pod(self):
        """The reason of an unhealthy device is shown at the pod that has it, and goes when it is healthy again."""
        self.serve_api()
        marker = self.node.path("marker")

        def write(text):
            with open(marker + ".new", "w") as file:
                file.write(text)
            os.rename(marker + ".new", marker)

        def health():
            return [(d["health"], d["message"]) for d in self.find_pod("trainer")["claims"][0]["devices"]]

        write("ok")
        self.begin(self.resource("gpu", f'health = ( {{ probe = "file"; path = "{marker}"; healthy = "ok"; }} );', count=1))
        self.pod("trainer", self.api.schedule("c", [("gpu", "gpu.vendor.example", 1)]))
        until(lambda: health() == [("Healthy", "")], "the health")
        write("fan 3 has stopped")
        until(lambda: health()[0][0] == "Unhealthy", "the pod's status")
        self.assertRegex(self.node.ask_kubelet("pods").stdout, r"  claim c\n +\S+ of .*: Unhealthy .*fan 3 has stopped")
        self.assertIn("fan 3 has stopped", health()[0][1])
        # The next process of the driver goes on.
        ended = self.count_events("driver-health-ended", "driver-removed")
        os.kill(self.process(), signal.SIGKILL)
        until(lambda: self.count_events("driver-health-ended", "driver-removed") > ended, "the end of the stream")
        until(lambda: health()[0][0] == "Unhealthy", "the next stream")
        write("ok")
        until(lambda: health() == [("Healthy", "")], "the device to be healthy again")

    def test_retries_and_restarts(self):
        """A pod waits with the reason until its claim can be prepared; kubelet and driver restart in between."""
        self.serve_api()
        self.begin(self.resource("gpu"))
        claim = self.api.schedule("c", [("gpu", "gpu.vendor.example", 2)])
        self.api.stop()
        pod = self.pod("trainer", claim)
        self.assertEqual(pod["reason"], "FailedPrepareDynamicResources")
        self.assertIn("NodePrepareResources failed for ResourceClaim c: cannot read the claim", pod["message"])
        self.api.start()
        pod = self.restart("trainer")
        self.assertEqual(self.edits(pod["container"])["GPU"].count(","), 1)
        # A kubelet that has restarted prepares again what runs, and gets the same.
        self.node.stop_kubelet(signal.SIGKILL)
        self.node.start_kubelet()
        self.await_registration()
        before = self.count_events("prepare")
        for _ in range(2):
            self.assertEqual(self.restart("trainer")["container"]["cdi"], pod["container"]["cdi"])
            self.assertEqual(self.count_events("prepare"), before + 1)
        # Without the driver a pod can be neither removed nor started.
        self.node.stop()
        until(lambda: "is not registered" in self.remove("trainer"), "the driver to be deregistered")
        late = self.api.schedule("d", [("gpu", "gpu.vendor.example", 1)])
        self.assertIn(f"DRA driver {DRIVER} is not registered", self.pod("late", late)["message"])
        self.node.start()
        self.await_registration()
        self.assertEqual(self.remove("trainer"), "")
        self.assertIsNone(self.specification(claim["metadata"]["uid"]))
        until(lambda: self.dra()["slices"] == 1, "the devices to be known")
        self.assertEqual(self.edits(self.restart("late")["container"])["GPU"].count(","), 0)

    def test_restart_of_the_host(self):
        """The kubelet prepares the claims again, which get the CDI names that it knows."""
        self.serve_api()
        self.begin(self.resource("gpu"))
        claim = self.api.schedule("c", [("gpu", "gpu.vendor.example", 2)])
        pod = self.pod("trainer", claim)
        self.node.stop()
        self.change_saved(claim["metadata"]["uid"], lambda saved: saved.update(boot="00000000-0000-0000-0000-000000000000"))
        self.assertEqual(self.node.ask_kubelet("reboot").returncode, 0)
        self.node.start()
        self.await_all()
        self.assertEqual(self.files(), [])
        before = self.count_events("prepare")
        container = until(lambda: self.restart("trainer").get("container"), "the pod to start")
        self.assertGreater(self.count_events("prepare"), before)
        self.assertEqual(container["cdi"], pod["container"]["cdi"])
        self.assertEqual(self.edits(container), self.edits(pod["container"]))
        self.assertEqual(self.count_events("claim-changed"), 0)

    def test_device_that_disappears(self):
        """A device that a claim has stays listed until the claim is unprepared; a free one does not."""
        self.serve_api()
        dev = self.node.path("dev")
        os.mkdir(dev)
        for number in range(4):
            os.mknod(f"{dev}/card{number}", stat.S_IFCHR | 0o666, os.makedev(1, 3))
        self.begin('{ name = "vendor.example/gpu"; driver = "path"; match = ( { path = "%s/card*"; } ); serve = "dra"; }' % dev,
                   pods=True)
        for name, number in (("a", 0), ("b", 1)):
            self.api.allocate(name, DRIVER, [("gpu", self.api.device_named("vendor.example/gpu", number))])
            self.assertEqual(self.pod(name, self.api.claims["default", name])["phase"], "Running")

        def devices():
            resource = self.node.resource("vendor.example/gpu")
            return {d["id"]: d["health"] for d in resource["devices"]} if resource else {}

        def health(pod):
            return [(d["health"], d["message"]) for d in self.find_pod(pod)["claims"][0]["devices"]]

        a, b, free, rest = sorted(devices())
        for number in (0, 1, 2):
            os.unlink(f"{dev}/card{number}")
        until(lambda: devices() == {a: "Unhealthy", b: "Unhealthy", rest: "Healthy"}, "the free device to leave the list")
        until(lambda: health("a")[0][0] == "Unhealthy", "the pod's status")
        self.assertIn("has disappeared", health("a")[0][1])
        pool = self.await_pool(lambda pool: len(pool) == 3)
        self.assertEqual(sorted(taint["key"] for device in pool.values() for taint in device.get("taints", [])),
                         [f"{DRIVER}/missing"] * 2)
        # The next devplugd has the claims.
        self.node.stop()
        self.node.start()
        self.node.await_state("vendor.example/gpu", "serving")
        until(lambda: devices() == {a: "Unhealthy", b: "Unhealthy", rest: "Healthy"}, "the same list")
        self.assertEqual(self.remove("a"), "")
        until(lambda: devices() == {b: "Unhealthy", rest: "Healthy"}, "the device to leave the list")
        self.await_pool(lambda pool: len(pool) == 2)
        self.assertEqual(self.ctl("forget", f"vendor.example/gpu/{b}").returncode, 0)
        until(lambda: devices() == {rest: "Healthy"}, "the forgotten device to leave the list")
        self.await_pool(lambda pool: len(pool) == 1)

    def test_device_of_another_claim(self):
        """What the API server has given to two claims is prepared for one of them; the other pod waits for it."""
        self.serve_api()
        self.begin(self.resource("gpu", count=1))
        first = self.api.schedule("first", [("gpu", "gpu.vendor.example", 1)])
        device = first["status"]["allocation"]["devices"]["results"][0]["device"]
        self.api.allocate("second", DRIVER, [("gpu", device)])
        second = self.api.claims["default", "second"]
        self.assertEqual(self.pod("first", first).get("reason"), None)
        self.assertIn("still prepared for the claim default/first", self.pod("second", second)["message"])
        self.assertEqual(self.remove("first"), "")
        self.assertEqual(self.edits(self.restart("second")["container"]), {"GPU": "gpu-0"})

    def test_devices_without_a_capacity(self):
        """The expression of docs/dra.md works for a class of which some devices have no memory."""
        with open(os.path.join(os.path.dirname(__file__), "../../docs/dra.md")) as file:
            expression = re.search(r"^ +expression: (device.capacity.*)$", file.read(), re.M)[1]
        self.serve_api()
        devices = [{"id": "large", "properties": {"memory": "96Gi"}}, {"id": "none"}, {"id": "small", "properties": {"memory": "16Gi"}}]
        program = self.script("discover", f"echo '{json.dumps({'version': 1, 'devices': devices})}'\n")
        self.begin(f'{{ name = "vendor.example/gpu"; driver = "exec"; match = ( {{ command = [ "{program}" ]; }} ); serve = "dra"; '
                   'container = { env = "GPU=${ids}"; }; }')
        self.await_pool(lambda pool: len(pool) == 3)
        for words, wanted in ((expression, True), (expression.replace(".?memory.orValue(quantity(\"0\"))", ".memory"), False)):
            claim = self.api.schedule("c", [("gpu", "gpu.vendor.example", 1, {"selectors": [{"cel": {"expression": words}}]})])
            self.assertEqual(claim is not None, wanted, words)
            if claim:
                self.assertEqual(self.edits(self.pod("trainer", claim)["container"]), {"GPU": "large"})

    TOLERATES = {"tolerations": [{"operator": "Exists"}]}

    def test_tolerated_taints(self):
        """The scheduler's decision about an unhealthy device counts, but a device whose node is missing is refused."""
        self.serve_api()
        needs = f'container = {{ env = "GPU=${{ids:,}}"; nodes = "{self.node.path("ctl")}-${{id}}"; }};'
        for number in (0, 1):
            os.mknod(self.node.path(f"ctl-gpu-{number}"), stat.S_IFCHR | 0o666, os.makedev(1, 3))
        self.begin('{ name = "vendor.example/gpu"; driver = "static"; match = ( { count = 3; } ); serve = "dra"; ' + needs + " }")
        self.assertEqual(self.ctl("cordon", "vendor.example/gpu/gpu-0", "why").returncode, 0)
        self.await_pool(lambda pool: sum("taints" in device for device in pool.values()) == 2)
        self.assertIsNone(self.api.schedule("careful", [("gpu", "gpu.vendor.example", 2)]))
        claim = self.api.schedule("brave", [("gpu", "gpu.vendor.example", 2, self.TOLERATES)])
        self.assertEqual(self.edits(self.pod("brave", claim)["container"]), {"GPU": "gpu-0,gpu-1"})
        claim = self.api.schedule("blind", [("gpu", "gpu.vendor.example", 1, self.TOLERATES)])
        self.assertIn("ctl-gpu-2, which is missing", self.pod("blind", claim)["message"])

    def test_admin_access(self):
        """A claim with admin access gets each device, also those of others, resets none, and takes none from others."""
        address, ran = (self.node.path(name) for name in ("metrics.sock", "ran"))
        self.serve_api()
        with open(ran, "w"):
            os.chmod(ran, 0o666)
        program = self.script("prestart", f'echo "$@" >> "{ran}"\n')
        self.begin(self.resource("gpu", f'prestart = {{ command = [ "{program}", "${{ids}}" ]; }};', count=4), pods=True,
                   text=f'metrics = {{ listen = "{address}"; pods = true; }};')
        self.assertEqual(self.pod("user", self.api.schedule("c", [("gpu", "gpu.vendor.example", 1)]))["phase"], "Running")
        self.assertEqual(self.ctl("cordon", "vendor.example/gpu/gpu-3", "why").returncode, 0)
        self.await_pool(lambda pool: any("taints" in device for device in pool.values()))
        everything = self.api.schedule("m", [("all", "gpu.vendor.example", None, {"adminAccess": True, **self.TOLERATES})])
        self.assertEqual(self.edits(self.pod("monitor", everything)["container"]), {"GPU": "gpu-0,gpu-1,gpu-2,gpu-3"})

        def told():
            return {line for line in get(address, "/metrics")[1].splitlines()
                    if re.match("devplugd_(device|resource)_assigned", line)}

        def numbers():
            resource = self.node.resource("vendor.example/gpu")
            return resource["in_use"], resource["free"], sum(len(device["pods"]) for device in resource["devices"])

        until(lambda: numbers() == (1, 2, 5), f"the numbers, not {numbers()}")
        wanted = {'devplugd_device_assigned{resource="vendor.example/gpu",device="gpu-0",namespace="default",pod="user",container="main"} 1',
                  'devplugd_resource_assigned_devices{resource="vendor.example/gpu"} 1'}
        until(lambda: told() == wanted, f"the metrics, not {told()}")
        self.assertEqual([[pod["admin"] for pod in device["pods"]] for device in self.node.resource("vendor.example/gpu")["devices"]],
                         [[False, True], [True], [True], [True]])
        devices = " ".join(self.ctl("devices", "vendor.example/gpu").stdout.split())
        self.assertIn("free, default/monitor/main (claim default/m with admin access)", devices)
        self.assertIn("default/user/main, default/monitor/main (claim default/c, claim default/m with admin access)", devices)
        self.assertNotIn("error of the kubelet", self.ctl("status").stdout)
        explained = " ".join(self.ctl("explain", "vendor.example/gpu").stdout.split())
        self.assertIn("New containers do not get it, unless their claim tolerates its taint.", explained)
        self.assertNotIn("It is in use by", explained)
        # What it has is free for others.
        claim = self.api.schedule("d", [("gpu", "gpu.vendor.example", 2)])
        self.assertEqual(self.edits(self.pod("other", claim)["container"]), {"GPU": "gpu-1,gpu-2"})
        with open(ran) as file:
            self.assertEqual(file.read().split(), ["gpu-0", "gpu-1,gpu-2"])

    def test_forgotten_claim(self):
        """Where the kubelet has lost its data and will not unprepare a claim, an administrator can free its device."""
        self.serve_api()
        self.begin(self.resource("gpu", count=1))
        first = self.api.schedule("first", [("gpu", "gpu.vendor.example", 1)])
        self.assertEqual(self.pod("first", first)["phase"], "Running")
        self.api.allocate("second", DRIVER, [("gpu", first["status"]["allocation"]["devices"]["results"][0]["device"])])
        second = self.api.claims["default", "second"]
        self.assertIn('or after "devplugctl forget"', self.pod("second", second)["message"])
        self.assertIn("gpu-0 of vendor.example/gpu counts as not assigned", self.ctl("forget", "vendor.example/gpu/gpu-0").stdout)
        # The claim has ended with its only device.
        self.assertEqual((self.files(), self.dra()["claims"]), ([], 0))
        self.assertFalse(os.path.exists(self.saved(first["metadata"]["uid"])))
        self.assertEqual(self.ctl("forget", "vendor.example/gpu/gpu-0").returncode, 1)
        # The next devplugd knows it, too.
        self.node.stop()
        self.node.start()
        container = until(lambda: self.restart("second").get("container"), "the second pod to start")
        self.assertEqual(self.edits(container), {"GPU": "gpu-0"})
        self.assertEqual(self.remove("first"), "")

    def test_file_of_claims(self):
        """The kubelet's file has a claim before the driver is called, and until it is unprepared, also over restarts."""
        self.serve_api()
        self.begin(self.resource("gpu"))
        seen = []
        self.api.faults = [lambda method, path: seen.append(set(self.kubelet_claims())) if "resourceclaims" in path else None]
        self.assertEqual(self.kubelet_claims(), {})
        claim = self.api.schedule("c", [("gpu", "gpu.vendor.example", 1)])
        self.assertEqual(self.pod("trainer", claim)["phase"], "Running")
        self.assertEqual(seen, [{claim["metadata"]["uid"]}])
        self.node.stop_kubelet(signal.SIGKILL)
        self.node.start_kubelet()
        self.await_registration()
        self.assertEqual(set(self.kubelet_claims()), {claim["metadata"]["uid"]})
        self.assertEqual(self.remove("trainer"), "")
        self.assertEqual((self.kubelet_claims(), self.files()), ({}, []))

    def check_version_of_health(self, release, version):
        self.node.kubelet_options += ["--as", release]
        self.serve_api()
        self.begin(self.resource("gpu"))
        self.pod("trainer", self.api.schedule("c", [("gpu", "gpu.vendor.example", 1)]))
        until(lambda: self.find_pod("trainer")["claims"][0]["devices"][0]["health"] == "Healthy", "the health")
        registered = [event for event in self.node.kubelet_events() if event["event"] == "driver-registered"]
        self.assertEqual(registered[-1]["health_version"], version)

    def test_version_of_health_up_to_1_36(self):
        self.check_version_of_health("1.36", "v1alpha1")

    def test_version_of_health_from_1_37_on(self):
        self.check_version_of_health("1.37", "v1")

    def test_release_without_dra(self):
        self.node.kubelet_options += ["--as", "1.33"]
        self.serve_api()
        self.configure(self.resource("gpu"))
        self.node.start_kubelet()
        self.node.start()
        until(lambda: (dra := self.dra()) and "no handler registered for plugin type: DRAPlugin" in dra["registration_failure"],
              "the refusal")

    def test_release_without_health(self):
        self.node.kubelet_options += ["--as", "1.35"]
        self.serve_api()
        self.begin(self.resource("gpu"))
        self.pod("trainer", self.api.schedule("c", [("gpu", "gpu.vendor.example", 3)]))
        self.assertEqual(self.ctl("cordon", "vendor.example/gpu/gpu-0", "why").returncode, 0)
        self.await_pool(lambda pool: any("taints" in device for device in pool.values()))
        self.assertEqual({d["health"] for d in self.find_pod("trainer")["claims"][0]["devices"]}, {"Unknown"})
        self.assertEqual(self.count_events("driver-health"), 0)


if __name__ == "__main__":
    unittest.main()
