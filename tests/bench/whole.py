# SPDX-License-Identifier: Apache-2.0
"""Rows of a large node: which pod has which device, the check of a configuration, devplugctl, claims of DRA."""
import contextlib
import json
import os
import statistics
import subprocess
import time

import processes
from api_server import CLAIMS_PATH, ApiServer
from dra_kubelet import Calls, Kubelet
from node import children_of, command_line, until
from scrapes import Scraped
from subjects import SHARED, Devplugd, Resource, open_run, tokens

IDLE_SECONDS = 65  # devplug-apiserver closes connections after 60 s, and credentials are read again after 60 s


def run_timed(*words):
    """How long a program took, in milliseconds."""
    began = time.monotonic()
    subprocess.run(words, check=True, stdout=subprocess.DEVNULL)
    return (time.monotonic() - began) * 1000


def pods(subject, quick):
    """The CPU of devplugd, and of the process that asks the kubelet, for one question: which pod has which device?"""
    if subject.kind != "devplugd":
        return {}
    count, questions = 250, 4 if quick else 16
    with Scraped(subject, tokens(50, 200)) as run:
        run.serve()
        for number in range(count):
            run.node.pod(f"pod-{number}", **{f"r{number % 50}": 1})
        tool = [os.path.join(subject.folder, "devplugctl"), "-c", run.node.config, "devices", "--json"]

        def held():
            answer = subprocess.run(tool, stdout=subprocess.PIPE, check=True)
            return sum(bool(device["pods"]) for r in json.loads(answer.stdout)["resources"] for device in r["devices"])
        until(lambda: held() == count, "every pod")
        daemon, used = run.node.daemon.pid, []
        ended = processes.ended_children_cpu_msec(daemon)
        for number in range(questions):
            # Each question is a new one, because the kubelet has written its checkpoint.
            run.node.call_kubelet("pod-rm", name=f"pod-{number}", namespace="default")
            run.node.pod(f"pod-{number}", **{f"r{number}": 1})
            time.sleep(0.6)
            before = processes.cpu_usec([daemon])
            run_timed(*tool)
            used.append((processes.cpu_usec([daemon]) - before) / 1000)
        reader = (processes.ended_children_cpu_msec(daemon) - ended) / questions
        return {"pods: CPU of devplugd for an answer": (statistics.median(used), "ms"),
                "pods: CPU of the reader for an answer": (reader, "ms"),
                "pods: CPU for an answer, 250 pods, 10,000 devices": (statistics.median(used) + reader, "ms")}


def tools(subject, quick):
    if subject.kind != "devplugd":
        return {}
    times = 3 if quick else 9
    with open_run(subject, tokens(1000), kubelet=False) as run:
        check = [run_timed(os.path.join(subject.folder, "devplugd"), "-c", run.node.config, "--check") for _ in range(times)]
    with open_run(subject, [Resource("r0", 10000, None)]) as run:
        run.serve()
        status = [run_timed(os.path.join(subject.folder, "devplugctl"), "-c", run.node.config, "status") for _ in range(times)]
    return {"--check of 1000 resources": (statistics.median(check), "ms"),
            "devplugctl status, 10,000 devices": (statistics.median(status), "ms")}


class Dra(Devplugd):
    devices = 60

    def configure(self, resources):
        self.api = ApiServer(self.node.path("api"))
        self.api.kubeconfig(self.node.path("kubeconfig"))
        self.registry, self.health = self.node.path("registry"), self.node.path("health")
        os.mkdir(self.health)
        self.node.configure(
            f'{{ name = "vendor.example/r0"; driver = "static"; match = ( {{ count = {self.devices}; }} ); serve = "dra"; '
            f'health = ( {{ probe = "file"; path = "{self.health}/${{id}}"; healthy = "ok"; missing = "healthy"; }} ); }}',
            kubelet=f'plugins_registry_dir = "{self.registry}";',
            text=f'cdi_dir = "{self.node.path("cdi")}"; dra = {{ driver = "devices.vendor.example"; '
                 f'kubeconfig = "{self.node.path("kubeconfig")}"; node = "{self.api.node}"; }};')

    def close(self):
        self.api.stop()
        super().close()

    def process(self):
        return next((pid for pid in children_of(self.node.daemon.pid)
                     if os.path.basename(command_line(pid)[0]) in ("devplugd-cluster", "devplugd-dra")), None)

    def begin(self):
        """Registers the driver; returns the kubelet and the driver's socket."""
        self.start()
        kubelet = Kubelet(self.registry)
        path = until(kubelet.find, "the socket of the driver")
        kubelet.register(path)
        until(lambda: len(self.api.pool() or {}) == self.devices, "the pool")
        return kubelet, path

    def claim(self, name, device):
        return "default", name, self.api.allocate(name, "devices.vendor.example", [("a", device)])


class ManyDevices(Dra):
    devices = 1000


class Connection(Calls):
    """An open connection, as a kubelet has it."""

    def __init__(self, kubelet, path):
        super().__init__(kubelet.service(path))
        self.kubelet, self.driver = kubelet, path

    def prepare(self, *claims):
        """A call for each claim, all at once; in milliseconds, sorted."""
        begun = {self.begin("NodePrepareResources", claim): time.monotonic() for claim in claims}
        for stream in begun:
            self.read_until_end(stream)
        return sorted((self.ended[stream] - began) * 1000 for stream, began in begun.items())

    def check(self, *claims):
        for claim in claims:
            assert not isinstance(self.kubelet.prepare(self.driver, claim)[claim[2]], str), claim


@contextlib.contextmanager
def least_prepare(run):
    """Yields a function of a claim: how long its object takes on an open connection, and two files, in milliseconds."""
    folder = run.node.path("least")
    os.mkdir(folder)
    client = subprocess.Popen([SHARED["C client"], "fetch", run.api.url(), run.api.authority.certificate,
                               *run.api.clients[run.api.node], folder], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def ask(claim):
        client.stdin.write(f"{CLAIMS_PATH.format(claim[0])}/{claim[1]}\n")
        client.stdin.flush()
        return [float(word) / 1000 for word in client.stdout.readline().split()]
    try:
        yield ask
    finally:
        client.communicate()


def dra(subject, quick):
    """Preparing a claim, with the answer of the API server and without; its parts; requests for a change; memory."""
    if subject.kind != "devplugd":
        return {}
    count, changes = (20, 5) if quick else (200, 20)
    with Dra(subject, tokens(1)) as run:
        kubelet, path = run.begin()
        connection, device = Connection(kubelet, path), run.api.device_named("vendor.example/r0", 0)
        prepares, again, least = [], [], []
        with least_prepare(run) as ask:
            for number in range(count):
                claim = run.claim(f"claim-{number}", device)
                # A claim that is prepared is answered without the API server.
                for samples in (prepares, again):
                    samples += connection.prepare(claim)
                connection.check(claim)
                least.append(ask(claim))
                kubelet.unprepare(path, claim)
        writes, name = len(run.api.writes()), run.api.device_named("vendor.example/r0", 1)
        for number in range(changes):
            with open(os.path.join(run.health, "r0-1"), "w") as file:
                file.write("ok\n" if number % 2 else "hot\n")
            until(lambda: bool((run.api.pool() or {}).get(name, {}).get("taints")) == (number % 2 == 0), "the change")
        requests = (len(run.api.writes()) - writes) / changes
        memory = processes.memory(run.process())
        return {"DRA: prepare of a claim, p50": (statistics.median(prepares), "ms"),
                "DRA: share of the call without its work, p50": (statistics.median(again), "ms"),
                "DRA: share of the GET on an open connection, p50": (statistics.median(get for get, _ in least), "ms"),
                "DRA: share of a claim file and a CDI file, p50": (statistics.median(files for _, files in least), "ms"),
                "floor: DRA: GET on an open connection and two files, p50": (statistics.median(map(sum, least)), "ms"),
                "DRA: requests for a change": (requests, ""),
                "DRA: PSS of devplugd-cluster": (memory["pss"], "kB"),
                "DRA: dirty memory of devplugd-cluster": (memory["dirty"], "kB")}


def dra_idle(subject, quick):
    """After a time in which a server closes idle connections and credentials become too old, and at once after that. Several
    nodes are idle at the same time. Each has prepared claims before: the first one costs page faults and directories."""
    if subject.kind != "devplugd":
        return {}
    idle, busy, idle_cpu, busy_cpu, nodes = [], [], [], [], 1 if quick else 5
    with contextlib.ExitStack() as stack:
        runs = [stack.enter_context(Dra(subject, tokens(1))) for _ in range(nodes)]
        connections = [Connection(*run.begin()) for run in runs]
        claims = [[run.claim(f"claim-{number}", run.api.device_named("vendor.example/r0", number)) for number in range(20)]
                  for run in runs]
        for connection, known in zip(connections, claims):
            for claim in known[10:]:
                connection.prepare(claim)
        time.sleep(IDLE_SECONDS)
        for run, connection, (first, *others) in zip(runs, connections, claims):
            pids = [run.node.daemon.pid, *children_of(run.node.daemon.pid)]
            cpu = [processes.cpu_usec(pids)]
            idle += connection.prepare(first)
            cpu.append(processes.cpu_usec(pids))
            busy.append(statistics.median(sum((connection.prepare(claim) for claim in others[:9]), [])))
            cpu.append(processes.cpu_usec(pids))
            connection.check(first, *others[:9])
            idle_cpu.append((cpu[1] - cpu[0]) / 1000)
            busy_cpu.append((cpu[2] - cpu[1]) / 9000)
    return {f"DRA: prepare after {IDLE_SECONDS} s without one, p50": (statistics.median(idle), "ms"),
            "floor: DRA: prepare of the next claims, p50": (statistics.median(busy), "ms"),
            "DRA: CPU for this prepare": (statistics.median(idle_cpu), "ms"),
            "DRA: CPU for one of the next claims": (statistics.median(busy_cpu), "ms")}


def dra_many(subject, quick):
    """A node with 1000 devices and 100 claims: preparing them, requests, memory; then as many others at once."""
    if subject.kind != "devplugd":
        return {}
    count = 20 if quick else 100
    with ManyDevices(subject, tokens(1)) as run:
        kubelet, path = run.begin()
        at_start = len(run.api.requests)
        names = sorted(run.api.pool())
        claims = [run.claim(f"claim-{number}", names[number]) for number in range(count)]
        pids = [run.node.daemon.pid, *children_of(run.node.daemon.pid)]
        cpu, of_all = processes.cpu_usec([run.process()]), processes.cpu_usec(pids)
        connection = Connection(kubelet, path)
        prepares = sum((connection.prepare(claim) for claim in claims), [])
        cpu, of_all = processes.cpu_usec([run.process()]) - cpu, processes.cpu_usec(pids) - of_all
        for_claims = len(run.api.requests) - at_start
        memory, everything = processes.memory(run.process()), processes.memory_of_all(pids, "pss")
        others = [run.claim(f"other-{number}", name) for number, name in enumerate(names[count:2 * count])]
        asked = len(run.api.requests)
        at_once = connection.prepare(*others)
        for_others = len(run.api.requests) - asked
        connection.check(*claims, *others)
        for claim in claims + others:
            kubelet.unprepare(path, claim)
        return {"DRA, 1000 devices: prepare of a claim, p50": (statistics.median(prepares), "ms"),
                f"DRA, 1000 devices: {count} claims at once, p50": (statistics.median(at_once), "ms"),
                f"DRA, 1000 devices: {count} claims at once, p99": (at_once[count * 99 // 100], "ms"),
                f"DRA, 1000 devices: {count} claims at once, requests for a claim": (for_others / count, ""),
                "DRA, 1000 devices: CPU of devplugd-cluster for a claim": (cpu / count / 1000, "ms"),
                "DRA, 1000 devices: CPU of all processes for a claim": (of_all / count / 1000, "ms"),
                "DRA, 1000 devices: requests at the start": (at_start, ""),
                "DRA, 1000 devices: requests for a claim": (for_claims / count, ""),
                "DRA, 1000 devices, 100 claims: PSS of devplugd-cluster": (memory["pss"], "kB"),
                "DRA, 1000 devices, 100 claims: PSS of all processes": (everything, "kB")}
