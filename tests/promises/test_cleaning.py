# SPDX-License-Identifier: Apache-2.0
"""A device is cleaned after a pod, before another pod gets it (release).

docs/contributing/complaints.md: none.
"""
import json
import os
import signal
import stat
import subprocess
import sys
import time
import unittest

import pod_resources
from cleaning_node import CleaningProgram
from node import NodeTest, UNIT_CAPABILITIES, UNIT_UID, as_unit, children_of, command_line, path, program, scaled, static, until
from unix_http import get

GPU = "vendor.example/gpu"

# Starts a command in a domain of Landlock that restricts only the creation of block devices.
LANDLOCK = [sys.executable, "-c", """
import ctypes, os, sys
call = ctypes.CDLL(None, use_errno=True).syscall
ruleset = call(444, ctypes.byref(ctypes.c_uint64(1 << 11)), ctypes.c_size_t(8), 0)
if ruleset < 0 or call(446, ruleset, 0) < 0:
    sys.exit(os.strerror(ctypes.get_errno()))
os.execvp(sys.argv[1], sys.argv[1:])
"""]


class Cleaning(CleaningProgram, NodeTest):
    def setUp(self):
        super().setUp()
        self.add_program()

    def begin(self, count=1, timeout=20, more="", sees_pods=True, text=""):
        self.configure(count, timeout, more, sees_pods=sees_pods, text=text)
        self.node.start_kubelet()
        self.node.start()
        self.node.await_serving()

    def configure(self, count=1, timeout=20, more="", nodes=None, sees_pods=True, text=""):
        """Without `sees_pods`, devplugd hears of the end of a pod when the next one is admitted."""
        keys = f"{self.release(timeout)} {more}"
        self.node.configure(
            path("gpu", nodes, keys) if nodes else static("gpu", count, keys), text=text,
            kubelet=self.pods() if sees_pods else f'pod_resources = false; pod_logs_dir = "{self.node.path("nowhere")}";')

    def pods(self):
        """What devplugd has to hear of the end of a pod."""
        return (f'pod_resources_socket = "{self.node.kubelet_state}/pod-resources/kubelet.sock"; '
                f'pod_resources_interval = 1; pod_logs_dir = "{self.node.kubelet_state}/pod-logs";')

    def dirty(self):
        """What is saved."""
        with open(self.node.path("state/dirty-devices.json")) as file:
            return {device["id"]: device for device in json.load(file)["devices"] if not device["clean"]}

    def device(self, number=0):
        return self.node.resource(GPU)["devices"][number]

    def remove(self, name):
        self.assertEqual(self.node.ask_kubelet("pod", "rm", name).returncode, 0)

    def admitted(self, name):
        """Whether the kubelet has saved the pod, with its devices."""
        with open(os.path.join(self.node.kubelet_state, "pods.json")) as file:
            return any(pod["name"] == name for pod in json.load(file))

    def restart(self, name):
        return self.node.ask_kubelet("pod", "restart", name)

    def begin_pod(self, name, *words):
        """Starts a pod in the background: its containers may wait."""
        process = subprocess.Popen(
            [program("devplug-kubelet"), "pod", name, *(words or ("--limits", GPU + "=1")), "--state-dir",
             self.node.kubelet_state, "--json"], stdout=subprocess.PIPE, text=True)
        self.addCleanup(process.stdout.close)
        self.addCleanup(process.kill)
        return process

    def end_pod(self, process):
        """What became of it."""
        out, _ = process.communicate(timeout=120)
        return process.returncode, out

    def test_device_is_cleaned_once_after_its_pod(self):
        self.begin()
        self.assertIsNone(self.node.pod("a", gpu=1)[1])
        self.assertEqual(list(self.dirty()), ["gpu-0"])
        self.assertEqual(self.log(), [])
        self.remove("a")
        until(lambda: self.log() == ["begin gpu-0", "end gpu-0"], "the device to be cleaned")
        until(lambda: self.dirty() == {}, "that to be saved")
        self.assertIsNone(self.node.pod("b", gpu=1)[1])
        self.assertEqual(len(self.log()), 2)

    def test_containers_of_one_pod_get_it_as_it_is(self):
        self.begin()
        answer = self.node.ask_kubelet("pod", "a", "--init", f"i:{GPU}=1", "--container", f"m:{GPU}=1", "--json")
        self.assertEqual(answer.returncode, 0, answer.stdout)
        for _ in range(3):
            self.assertEqual(self.node.ask_kubelet("pod", "restart", "a").returncode, 0)
        self.node.stop(9)
        self.node.start()
        self.node.await_serving()
        self.assertEqual(self.node.ask_kubelet("pod", "restart", "a").returncode, 0)
        self.assertEqual(self.log(), [])

    def test_next_container_waits(self):
        """The device stays allocatable, and Allocate does not wait."""
        self.begin()
        self.assertIsNone(self.node.pod("a", gpu=1)[1])
        self.mark("wait")
        self.remove("a")
        until(lambda: self.log() == ["begin gpu-0"], "the program to run")
        self.assertEqual(self.device()["health"], "Healthy")
        process = self.begin_pod("b")
        until(lambda: self.node.resource(GPU)["devices"][0].get("allocations") == 2, "Allocate to be answered")
        self.assertIsNone(process.poll())
        self.mark("wait", False)
        self.assertEqual(self.end_pod(process)[0], 0)
        self.assertEqual(self.log(), ["begin gpu-0", "end gpu-0"])
        self.remove("b")
        until(lambda: len(self.log()) == 4, "the device to be cleaned again")

    def test_pod_that_follows_at_once_waits(self):
        """The kubelet may have another pod start before devplugd hears of the first one's end."""
        self.begin()
        for number in range(4):
            self.assertIsNone(self.node.pod(f"p{number}", gpu=1)[1])
            self.assertEqual(len(self.log()), 2 * number)
            self.remove(f"p{number}")

    def test_shared_device_is_cleaned_after_its_last_pod(self):
        self.begin(more="share = { replicas = 2; };")
        self.assertIsNone(self.node.pod("a", gpu=1)[1])
        self.assertIsNone(self.node.pod("b", gpu=1)[1])
        self.remove("a")
        # Its share goes to another pod while "b" has the other one.
        self.assertIsNone(self.node.pod("c", gpu=1)[1])
        self.assertEqual(self.node.ask_kubelet("pod", "restart", "c").returncode, 0)
        self.assertEqual(self.log(), [])
        self.remove("b")
        self.remove("c")
        until(lambda: len(self.log()) == 2, "the device to be cleaned")

    def metric(self, outcome):
        line, = [line for line in get(self.node.path("metrics.sock"))[1].splitlines()
                 if line.startswith("devplugd_cleanings_total{") and f'outcome="{outcome}"' in line]
        return int(line.split()[-1])

    def test_device_that_cannot_be_cleaned_stays_away(self):
        self.begin(2, text=f'metrics = {{ listen = "{self.node.path("metrics.sock")}"; }};')
        self.assertIsNone(self.node.pod("a", gpu=2)[1])
        self.mark("bad-gpu-1")
        self.remove("a")
        reason = "could not be cleaned after a pod (devplugctl resume): "
        until(lambda: (self.device(1)["reason"] or "").startswith(reason), "the program to fail")
        self.assertIn("gpu-1 does not answer", self.device(1)["reason"])
        documents = self.node.ask(devices=True)[1]
        self.assertEqual(documents[GPU]["devices"][1]["cause"], "cleaning")
        until(lambda: (self.metric("ok"), self.metric("failed")) == (1, 1), "the metrics")
        self.node.await_allocatable(gpu=1)
        # Also after a restart, from the first list on.
        self.node.stop(9)
        self.node.start()
        self.node.await_serving()
        self.assertTrue(self.device(1)["reason"].startswith(reason), self.device(1))
        self.node.await_allocatable(gpu=1)
        self.assertEqual(self.resume(GPU, "gpu-1").returncode, 0)
        until(lambda: self.log().count("begin gpu-1") == 2, "another attempt")
        until(lambda: (self.device(1)["reason"] or "").startswith(reason), "the program to fail again")
        until(lambda: (self.metric("ok"), self.metric("failed")) == (0, 1), "the metrics of this devplugd")
        self.assertEqual(self.resume("--force", GPU, "gpu-1").returncode, 0)
        self.node.await_allocatable(gpu=2)
        self.assertEqual(self.log().count("begin gpu-1"), 2)
        self.assertEqual(self.dirty(), {})

    def resume(self, *words):
        return subprocess.run([program("devplugctl"), "-c", self.node.config, "resume", *words], capture_output=True, text=True)

    def test_hostile_program(self):
        """It is killed with all that it has started, and nothing else suffers. The device stays away."""
        mark = f"{100000 + os.getpid()}"
        with open(self.program) as stream:
            good = stream.read()
        with open(self.program, "w") as stream:
            stream.write(f"""#!/bin/bash
trap '' TERM INT HUP
for number in 1 2 3; do setsid sleep {mark} & done
(trap '' TERM; exec -a clean sleep {mark}) &
head -c 20000000 /dev/zero | tr '\\0' x
printf '\\n\\033[2J\\tcleaned \\377\\n'
kill -STOP $$
exec sleep {mark}
""")
        self.begin(2, timeout=1)
        self.assertIsNone(self.node.pod("a", gpu=1)[1])
        self.remove("a")
        number = next(n for n in range(2) if self.device(n)["id"] == list(self.dirty())[0])
        until(lambda: "did not exit within 1 s and was killed" in (self.device(number)["reason"] or ""), "the program to be killed")
        self.assertTrue(self.device(number)["reason"].isprintable())

        def left():
            return [pid for pid in os.listdir("/proc") if pid.isdigit() and command_line(pid)[1:] == [mark]]

        until(lambda: not left(), "its processes to be killed")
        self.node.await_allocatable(gpu=1)
        self.assertEqual(self.node.find(GPU)["restarts"], 0)
        self.assertIsNone(self.node.pod("b", gpu=1)[1])
        with open(self.program + ".new", "w") as stream:
            stream.write(good)
        os.chmod(self.program + ".new", 0o755)
        os.rename(self.program + ".new", self.program)
        device = self.device(number)["id"]
        self.assertEqual(self.resume(GPU, device).returncode, 0)
        until(lambda: self.log() == [f"begin {device}", f"end {device}"], "the device to be cleaned")
        self.node.await_allocatable(gpu=2)

    def test_slow_program(self):
        """With a long time limit, the device is unhealthy, and a container that got it before is refused."""
        self.begin(timeout=120, sees_pods=False)
        self.assertIsNone(self.node.pod("a", gpu=1)[1])
        self.mark("wait")
        self.remove("a")
        result = self.node.pod("b", gpu=1)[1]
        self.assertRegex(json.dumps(result), "device gpu-0 is being cleaned after a pod, 1[12][0-9] s left; the kubelet will retry")
        self.node.await_allocatable(gpu=0)
        until(lambda: self.device()["reason"] == "being cleaned after a pod", "the reason")
        # Nothing has to be repaired.
        self.assertEqual(subprocess.run([program("devplugctl"), "-c", self.node.config, "check"], stdout=subprocess.DEVNULL).returncode, 0)
        self.mark("wait", False)
        self.node.await_allocatable(gpu=1)
        self.assertEqual(self.node.ask_kubelet("pod", "restart", "b").returncode, 0)
        self.assertEqual(self.log(), ["begin gpu-0", "end gpu-0"])

    def test_too_late_for_prestart(self):
        """The kubelet waits 30 s for both; what is cleaned is ready for its next try."""
        self.begin(more=f'prestart = {{ command = [ "/bin/mkdir", "{self.folder}/started" ]; timeout = 25; }};')
        self.assertIsNone(self.node.pod("a", gpu=1)[1])
        os.rmdir(f"{self.folder}/started")
        self.mark("wait")
        self.remove("a")
        until(lambda: self.log() == ["begin gpu-0"], "the program to run")
        process = self.begin_pod("b")
        until(lambda: self.device().get("allocations") == 2, "Allocate to be answered")
        # Less than 25 s of the 30 s are left.
        time.sleep(5)
        self.mark("wait", False)
        self.assertIn("the devices are clean now, but too little time is left for prestart; the kubelet will retry", self.end_pod(process)[1])
        self.assertFalse(os.path.exists(f"{self.folder}/started"))
        self.assertEqual(self.restart("b").returncode, 0)
        self.assertTrue(os.path.exists(f"{self.folder}/started"))
        self.assertEqual(self.log(), ["begin gpu-0", "end gpu-0"])

    def test_kills_while_it_is_cleaned(self):
        self.begin()
        for count, kill in enumerate((self.kill_child, self.kill_daemon), 1):
            self.assertIsNone(self.node.pod("a", gpu=1)[1])
            self.mark("wait")
            self.remove("a")
            until(lambda: self.log().count("begin gpu-0") == 2 * count - 1, "the program to run")
            kill()
            self.assertEqual(list(self.dirty()), ["gpu-0"])
            until(lambda: self.log().count("begin gpu-0") == 2 * count, "the program to run again")
            self.mark("wait", False)
            until(lambda: self.log().count("end gpu-0") == count, "the program to end")
            until(lambda: self.dirty() == {}, "that to be saved")
            self.node.await_allocatable(gpu=1)

    def kill_child(self):
        pid = self.node.find(GPU)["pid"]
        os.kill(pid, 9)
        until(lambda: self.node.find(GPU)["pid"] not in (0, pid), "another process")
        self.node.await_serving()

    def kill_daemon(self):
        self.node.stop(9)
        self.node.start()
        self.node.await_serving()

    def test_pod_ends_while_devplugd_is_away(self):
        self.begin()
        self.assertIsNone(self.node.pod("a", gpu=1)[1])
        self.node.stop()
        self.assertEqual(list(self.dirty()), ["gpu-0"])
        self.remove("a")
        self.node.start()
        self.node.await_serving()
        self.node.await_allocatable(gpu=1)
        self.assertIsNone(self.node.pod("b", gpu=1)[1])
        self.assertEqual(self.log(), ["begin gpu-0", "end gpu-0"])

    def test_gap_of_the_kubelet(self):
        """A kubelet that was restarted starts containers without asking until the resource is registered again: the only
        way to get a device that is not clean. It is cleaned after that pod."""
        self.begin()
        self.assertIsNone(self.node.pod("a", gpu=1)[1])
        self.mark("wait")
        self.remove("a")
        process = self.begin_pod("b")
        until(lambda: self.log() == ["begin gpu-0"], "the program to run")
        until(lambda: self.admitted("b"), "the pod to be saved")
        self.node.stop_kubelet(9)
        process.wait()
        self.node.stop(9)
        self.node.start_kubelet()
        until(lambda: self.node.ask_kubelet("pods").returncode == 0, "the kubelet")
        answer = self.restart("b")
        self.assertEqual(answer.returncode, 0, answer.stdout + answer.stderr)
        self.assertEqual(list(self.dirty()), ["gpu-0"])
        self.node.start()
        self.node.await_serving()
        self.mark("wait", False)
        self.assertEqual(self.log().count("end gpu-0"), 0)
        self.remove("b")
        until(lambda: self.log().count("end gpu-0") == 1, "the device to be cleaned")

    def play_lister(self, logs="nowhere"):
        """The test answers PodResources. Returns that, and the keys of the configuration."""
        lister = pod_resources.Lister(self.node.path("pods/kubelet.sock"))
        self.addCleanup(lister.stop)
        return lister, (f'pod_resources_socket = "{self.node.path("pods/kubelet.sock")}"; pod_resources_interval = 1; '
                        f'pod_logs_dir = "{self.node.path(logs)}";')

    def test_logs_that_a_person_removes(self):
        """A pod whose directory of logs was removed has ended only if the kubelet does not name it any more."""
        lister, keys = self.play_lister("logs")
        self.node.configure(static("gpu", 1, self.release()), kubelet=keys)
        self.node.start_kubelet()
        self.node.start()
        self.node.await_allocatable(gpu=1)
        lister.answer = pod_resources.pod("default", "a", [pod_resources.container("main", [(GPU, ["gpu-0"], [])])])
        self.assertIsNone(self.node.pod("a", gpu=1)[1])
        with open(os.path.join(self.node.kubelet_state, "pods.json")) as file:
            pod, = json.load(file)
        logs = self.node.path(f"logs/default_a_{pod['uid']}")
        os.makedirs(logs)
        calls = lister.calls
        until(lambda: lister.calls >= calls + 3, "PodResources to be asked")
        os.rmdir(logs)
        calls = lister.calls
        until(lambda: lister.calls >= calls + 4, "PodResources to be asked")
        self.assertEqual(self.log(), [])
        # A kubelet that was restarted may not know the pod yet, and had no part in the removal.
        self.node.stop_kubelet(9)
        lister.answer = b""
        self.node.start_kubelet()
        self.node.await_allocatable(gpu=1)
        calls = lister.calls
        until(lambda: lister.calls >= calls + 4, "PodResources to be asked")
        self.assertEqual(self.log(), [])
        # The end of the pod: this kubelet removes the directory.
        os.makedirs(logs)
        calls = lister.calls
        until(lambda: lister.calls >= calls + 3, "PodResources to be asked")
        os.rmdir(logs)
        until(lambda: self.log() == ["begin gpu-0", "end gpu-0"], "the device to be cleaned")

    def test_kubelet_is_not_asked_about_former_resources(self):
        """Which pods have their dirty devices does not matter."""
        lister, keys = self.play_lister()
        self.node.configure(static("gpu", 1, self.release()), kubelet=keys)
        self.node.start_kubelet()
        self.node.start()
        self.node.await_allocatable(gpu=1)
        self.assertIsNone(self.node.pod("a", gpu=1)[1])
        calls = lister.calls
        until(lambda: lister.calls >= calls + 2, "PodResources to be asked")
        self.node.configure(kubelet=keys)
        self.node.reload()
        until(lambda: not self.node.state()["resources"], "the resource to be removed")
        # A question may have been on its way.
        time.sleep(1.5)
        calls = lister.calls
        time.sleep(2.5)
        self.assertEqual(lister.calls, calls)
        self.assertEqual(list(self.dirty()), ["gpu-0"])

    def test_kubelet_that_does_not_know_its_pods_yet(self):
        """Until it has heard of its pods from the API server, it names none of those that run."""
        lister, keys = self.play_lister()
        self.node.configure(static("gpu", 1, self.release()), kubelet=keys)
        self.node.start_kubelet()
        self.node.start()
        self.node.await_serving()

        def await_answers(pods, count=4):
            """The first of them may have been asked for before, and too early to count."""
            lister.answer = pods
            calls = lister.calls
            until(lambda: lister.calls >= calls + count, "PodResources to be asked")

        named = pod_resources.pod("default", "a", [pod_resources.container("main", [(GPU, ["gpu-0"], [])])])
        lister.answer = named
        self.assertIsNone(self.node.pod("a", gpu=1)[1])
        await_answers(named)
        lister.answer = b""
        self.node.stop_kubelet(9)
        self.node.start_kubelet()
        self.node.await_allocatable(gpu=1)
        await_answers(b"")
        self.assertEqual(self.log(), [])
        os.unlink(os.path.join(self.node.plugins, "kubelet_internal_checkpoint"))
        await_answers(b"")
        self.assertEqual(self.log(), [])
        await_answers(named)
        lister.answer = b""
        until(lambda: self.log() == ["begin gpu-0", "end gpu-0"], "the device to be cleaned")

    def test_list_that_is_lost(self):
        """Each device counts as dirty, but a pod that has one keeps it as it is."""
        self.begin(2)
        self.assertIsNone(self.node.pod("a", gpu=1)[1])
        self.node.stop()
        with open(self.node.path("state/dirty-devices.json"), "w"):
            pass
        self.node.start()
        self.node.await_serving()
        self.assertIn("dirty-devices.json cannot be read", self.node.output())
        self.assertEqual(self.restart("a").returncode, 0)
        self.assertEqual(self.log(), [])
        self.assertIsNone(self.node.pod("b", gpu=1)[1])
        self.assertEqual(len(self.log()), 2)
        self.remove("a")
        self.remove("b")
        until(lambda: self.dirty() == {}, "both devices to be clean")
        self.assertEqual(len(self.log()), 6)
        # A device that was cleaned stays clean, also after a restart.
        self.node.stop()
        self.node.start()
        self.node.await_serving()
        self.assertIsNone(self.node.pod("c", gpu=2)[1])
        self.assertEqual(len(self.log()), 6)

    def test_checkpoint_that_was_deleted(self):
        """PodResources decides then. The kubelet writes another one when the resource is registered again."""
        self.begin()
        self.assertIsNone(self.node.pod("a", gpu=1)[1])
        checkpoint = os.path.join(self.node.plugins, "kubelet_internal_checkpoint")
        os.unlink(checkpoint)
        self.kill_daemon()
        self.node.await_allocatable(gpu=1)
        until(lambda: os.path.exists(checkpoint), "another checkpoint")
        os.unlink(checkpoint)
        self.assertEqual(self.log(), [])
        self.assertEqual(list(self.dirty()), ["gpu-0"])
        self.remove("a")
        until(lambda: len(self.log()) == 2, "the device to be cleaned")

    def test_what_is_not_saved_is_not_given(self):
        self.begin()
        os.rename(self.node.path("state"), self.node.path("moved"))
        self.assertIn("cannot save that the device is in use", json.dumps(self.node.pod("a", gpu=1)[1]))
        os.rename(self.node.path("moved"), self.node.path("state"))
        self.assertIsNone(self.node.pod("b", gpu=1)[1])
        self.assertEqual(list(self.dirty()), ["gpu-0"])

    def test_release_is_added_while_a_pod_runs(self):
        self.node.configure(static("gpu", 1), kubelet=f'pod_resources_socket = "{self.node.kubelet_state}/pod-resources/kubelet.sock";')
        self.node.start_kubelet()
        self.node.start()
        self.node.await_allocatable(gpu=1)
        self.assertIsNone(self.node.pod("a", gpu=1)[1])
        self.configure()
        self.node.reload()
        until(lambda: os.path.exists(self.node.path("state/dirty-devices.json")) and list(self.dirty()) == ["gpu-0"],
              "the pod's device to be dirty")
        self.node.await_serving()
        self.node.await_allocatable(gpu=1)
        self.assertEqual(self.node.ask_kubelet("pod", "restart", "a").returncode, 0)
        self.assertEqual(self.log(), [])
        self.remove("a")
        until(lambda: len(self.log()) == 2, "the device to be cleaned")

    def test_limit_of_devices(self):
        self.begin(more="share = { replicas = 1025; };")
        self.assertIn("at most 1024 devices", json.dumps(self.node.pod("a", gpu=1025)[1]))
        self.assertIsNone(self.node.pod("b", gpu=1024)[1])

    # --- processes of the host

    def begin_with_node(self, timeout=20, more="", count=1, root=""):
        """Devices of a node whose number no other process has open: that of /dev/full."""
        os.mkdir(self.node.path("dev"))
        self.file = self.node.path("dev/gpu-0")
        for number in range(count):
            self.plug(number)
        self.configure(timeout=timeout, more=more, nodes=self.node.path("dev/gpu-*").removeprefix(root),
                       text=f'host_root = "{root}";' if root else "")
        self.node.start_kubelet()
        self.node.start()
        self.node.await_allocatable(gpu=count)

    def plug(self, number=0):
        os.mknod(self.node.path(f"dev/gpu-{number}"), stat.S_IFCHR | 0o666, os.makedev(1, 7))

    def open_node(self):
        with open(self.file) as node:
            process = subprocess.Popen(["sleep", "1000"], stdin=node)
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        return process

    def test_all_devices_of_a_pod(self):
        """They are examined one after the other, without a pause, so that the next pod need not wait longer than it may."""
        count = scaled(64)
        self.begin_with_node(count=count)
        self.assertIsNone(self.node.pod("a", gpu=count)[1])
        self.remove("a")
        self.assertIsNone(self.node.pod("b", gpu=count)[1])
        self.assertEqual(len(set(self.log())), 2 * count)

    def test_device_that_is_away_when_its_pod_ends(self):
        """It is cleaned when it returns, although no pod waits for it."""
        self.begin_with_node()
        self.assertIsNone(self.node.pod("a", gpu=1)[1])
        os.unlink(self.file)
        until(lambda: "disappeared" in (self.device()["reason"] or ""), "the device to be missed")
        self.remove("a")
        # A pod that is admitted has the kubelet forget the other one, and devplugd the device.
        self.assertIsNotNone(self.node.pod("b", gpu=1)[1])
        self.assertEqual(len(self.dirty()), 1)
        self.plug()
        until(lambda: len(self.log()) == 2, "the device to be cleaned")
        until(lambda: self.dirty() == {}, "that to be saved")
        self.node.await_allocatable(gpu=1)
        self.assertIsNone(self.node.pod("c", gpu=1)[1])
        self.assertEqual(len(self.log()), 2)

    def check_moved(self, *resources, reload):
        """While a pod has the device, the resource gives it to another one."""
        self.begin_with_node()
        self.assertIsNone(self.node.pod("a", gpu=1)[1])
        if not reload:
            self.node.stop()
        self.node.configure(*resources, kubelet=self.pods())
        if reload:
            self.node.reload()
        else:
            self.node.start()
        # By then, the directory of the pod's logs was seen.
        self.node.await_serving()
        self.remove("a")
        self.node.await_allocatable(fpga=1)
        self.assertEqual(self.log(), [])
        self.assertIsNone(self.node.pod("b", fpga=1)[1])
        self.assertEqual(len(self.log()), 2)
        with open(self.node.path("state/dirty-devices.json")) as file:
            self.assertEqual([device["resource"] for device in json.load(file)["devices"]], ["vendor.example/fpga"])

    def devices(self, name, pattern="gpu-*"):
        return path(name, self.node.path("dev/" + pattern), self.release())

    def test_resource_is_renamed_by_reload(self):
        self.check_moved(self.devices("fpga"), reload=True)

    def test_resource_is_renamed_by_restart(self):
        self.check_moved(self.devices("fpga"), reload=False)

    def test_device_moves_to_another_resource_by_reload(self):
        self.check_moved(self.devices("gpu", "none-*"), self.devices("fpga"), reload=True)

    def test_device_moves_to_another_resource_by_restart(self):
        self.check_moved(self.devices("gpu", "none-*"), self.devices("fpga"), reload=False)

    def test_not_while_a_process_has_it_open(self):
        self.begin_with_node()
        self.assertIsNone(self.node.pod("a", gpu=1)[1])
        process = self.open_node()
        self.remove("a")
        reason = f"process {process.pid} (sleep) has {os.path.realpath(self.file)} open"
        until(lambda: f"waits to be cleaned after a pod: {reason}" in self.node.output(), "the process to be found")
        pod = self.begin_pod("b")
        until(lambda: self.device().get("allocations") == 2, "the pod to wait")
        self.assertEqual(self.log(), [])
        process.kill()
        process.wait()
        self.assertEqual(self.end_pod(pod)[0], 0)
        self.assertEqual(len(self.log()), 2)

    def helpers(self):
        return [pid for pid in children_of(self.node.daemon.pid) if "devplugd-node-users" in "".join(command_line(pid)[:1])]

    def test_process_that_keeps_it_open_is_named(self):
        """With a long time limit, at once."""
        self.begin_with_node(timeout=60)
        self.assertIsNone(self.node.pod("a", gpu=1)[1])
        process = self.open_node()
        self.remove("a")
        self.node.await_allocatable(gpu=0)
        reason = f"waits to be cleaned after a pod: process {process.pid} (sleep) has {os.path.realpath(self.file)} open"
        until(lambda: self.device()["reason"] == reason, "the reason")
        self.assertEqual(self.log(), [])
        until(self.helpers, "the process that finds out")
        process.kill()
        process.wait()
        self.node.await_allocatable(gpu=1)
        self.assertEqual(len(self.log()), 2)

    def test_administrator_decides_while_a_process_has_it_open(self):
        """It counts as clean only if no pod has it, and until the next pod has had it."""
        self.begin_with_node(timeout=60)
        self.assertIsNone(self.node.pod("a", gpu=1)[1])
        self.open_node()
        device = self.device()["id"]
        self.assertEqual(self.resume("--force", GPU, device).returncode, 0)
        self.assertEqual(list(self.dirty()), [device])
        for pod in "ab":
            self.remove(pod)
            self.node.await_allocatable(gpu=0)
            self.assertEqual(self.resume("--force", GPU, device).returncode, 0)
            self.node.await_allocatable(gpu=1)
            until(lambda: self.dirty() == {}, "the device to be clean")
            self.assertIsNone(self.node.pod("b" if pod == "a" else "c", gpu=1)[1])
        self.assertEqual(self.log(), [])
        self.assertIn(f"device {device} counts as clean, as an administrator has decided", self.node.output())

    def test_probe_that_has_it_open(self):
        """devplugd's own programs do not keep a device from being cleaned."""
        script = self.node.path("probe")
        with open(script, "w") as stream:
            stream.write(f"#!/bin/sh\necho >{self.folder}/probed\nexec sleep 1000 <$1\n")
        os.chmod(script, 0o755)
        self.begin_with_node(more=f'health = ( {{ probe = "exec"; severity = "notice"; timeout = 1000; '
                                  f'command = ( "{script}", "${{node}}" ); }} );')
        self.assertIsNone(self.node.pod("a", gpu=1)[1])
        until(lambda: os.path.exists(f"{self.folder}/probed"), "the probe to run")
        self.remove("a")
        until(lambda: len(self.log()) == 2, "the device to be cleaned")

    def test_it_is_not_cleaned_blindly(self):
        """The unit does not let devplugd see the processes of others; a drop-in does."""
        for folder in (self.node.plugins, self.node.run):
            os.makedirs(folder, exist_ok=True)
        for folder in (self.node.dir, self.node.run, self.node.path("state")):
            os.chown(folder, UNIT_UID, UNIT_UID)
        self.node.prefix = as_unit()
        self.begin_with_node(timeout=60)
        self.assertIsNone(self.node.pod("a", gpu=1)[1])
        self.remove("a")
        until(lambda: "it lacks CAP_SYS_PTRACE; install the drop-in clean.conf" in (self.device()["reason"] or ""), "the reason")
        self.assertEqual(self.log(), [])
        self.node.stop()
        UNIT_CAPABILITIES.append("sys_ptrace")
        self.addCleanup(UNIT_CAPABILITIES.remove, "sys_ptrace")
        self.node.prefix = as_unit()
        self.node.start()
        until(lambda: len(self.log()) == 2, "the device to be cleaned")

    def test_nor_without_the_files_of_other_users(self):
        """A container may have only the first of the two capabilities."""
        lacks = "-dac_override,-dac_read_search"
        self.node.prefix = ["setpriv", f"--bounding-set={lacks}", f"--inh-caps={lacks}"]
        self.begin_with_node(timeout=60)
        self.assertIsNone(self.node.pod("a", gpu=1)[1])
        self.remove("a")
        until(lambda: "it lacks CAP_DAC_READ_SEARCH" in (self.device()["reason"] or ""), "the reason")
        self.assertEqual(self.log(), [])

    def test_nor_under_a_security_module(self):
        """It may let devplugd list the open files of a process, and not follow them. Landlock does so outside of its domain."""
        if subprocess.run([*LANDLOCK, "true"], stderr=subprocess.DEVNULL).returncode != 0:
            self.skipTest("needs Landlock")
        self.node.prefix = LANDLOCK
        self.begin_with_node(timeout=60)
        self.assertIsNone(self.node.pod("a", gpu=1)[1])
        self.open_node()
        self.remove("a")
        until(lambda: "set appArmorProfile: { type: Unconfined }" in (self.device()["reason"] or ""), "the reason")
        self.assertEqual(self.log(), [])

    def test_nor_in_a_pid_namespace(self):
        """A container that has one sees no process of the host. While the kubelet is away, devplugd does not know whether it has one."""
        self.node.prefix = ["unshare", "--pid", "--fork", "--kill-child", "--mount-proc"]
        self.begin_with_node(timeout=60, root=self.node.dir)
        # Only "unshare" is a child of this process, and it ignores the signal.
        self.addCleanup(os.kill, int(children_of(self.node.daemon.pid)[0]), signal.SIGTERM)
        self.assertIsNone(self.node.pod("a", gpu=1)[1])
        self.open_node()
        self.remove("a")
        until(lambda: "set hostPID: true in the pod" in (self.device()["reason"] or ""), "the reason")
        self.node.stop_kubelet()
        until(lambda: "because the kubelet does not answer" in (self.device()["reason"] or ""), "another reason")
        self.assertEqual(self.log(), [])


if __name__ == "__main__":
    unittest.main()
