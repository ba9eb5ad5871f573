# SPDX-License-Identifier: Apache-2.0
"""The row of the exporter: what a scrape costs, and what 100 at once do to a call of Allocate."""
import contextlib
import os
import socket
import statistics
import subprocess
import sys
import time

import processes
from node import children_of, command_line, until
from subjects import Devplugd, tokens

REQUEST = b"GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n"


def scrape(address):
    """The answer, and how long it took in milliseconds."""
    parts = []
    began = time.monotonic()
    with socket.socket(socket.AF_UNIX) as peer:
        peer.connect(address)
        peer.sendall(REQUEST)
        while part := peer.recv(1 << 20):
            parts.append(part)
    took = (time.monotonic() - began) * 1000
    answer = b"".join(parts)
    assert answer.startswith(b"HTTP/1.1 200 ") and b"devplugd_pod_resources_up 1\n" in answer, answer[:200]
    return answer, took


class Scraped(Devplugd):
    """With metrics that name pods, on a socket."""

    def configure(self, resources):
        super().configure(resources)
        self.address = self.node.path("metrics.sock")
        with open(self.node.config, "a") as file:
            file.write(f'metrics = {{ listen = "{self.address}"; pods = true; }};\n')
        with open(self.node.config) as file:
            text = file.read()
        with open(self.node.config, "w") as file:
            file.write(text.replace("kubelet = {", "kubelet = { pod_resources_socket = "
                                    f'"{self.node.kubelet_state}/pod-resources/kubelet.sock";', 1))

    def exporter(self):
        return next(pid for pid in children_of(self.node.daemon.pid) if command_line(pid)[0] == "devplugd-exporter")

    def plugins(self):
        return [pid for pid in super().plugins() if "/" in "".join(command_line(pid)[1:2])]

    def await_scrape(self):
        """Until a scrape finds all of the resources."""
        def complete():
            with contextlib.suppress(OSError, AssertionError):
                return scrape(self.address)[0].count(b'state="serving"} 1\n') == len(self.resources)
        until(complete, "a scrape with every resource")


def measure(subject, resources, pods, count):
    """Per scrape: CPU of the exporter and of devplugd, milliseconds until the answer; and the exporter's memory."""
    with Scraped(subject, resources) as run:
        run.serve()
        for number in range(pods):
            run.node.pod(f"pod-{number}", **{resources[number % len(resources)].name: 1})
        run.await_scrape()
        # An answer of the kubelet is used for 5 s; after that the pods are known.
        until(lambda: scrape(run.address)[0].count(b"\ndevplugd_device_assigned{") == pods, "every pod")
        exporter, daemon = run.exporter(), run.node.daemon.pid
        took, cpu = [], [processes.cpu_usec([pid]) for pid in (exporter, daemon)]
        with at_once((exporter, daemon, os.getpid())):
            for _ in range(count):
                time.sleep(0.05)
                took.append(scrape(run.address)[1])
        cpu = [(processes.cpu_usec([pid]) - before) / count / 1000 for pid, before in zip((exporter, daemon), cpu)]
        return {"time to the answer, p50": (statistics.median(took), "ms"), "time to the answer, most": (max(took), "ms"),
                "CPU of the exporter": (cpu[0], "ms"), "CPU of devplugd": (cpu[1], "ms"),
                "PSS of the exporter": (processes.memory(exporter)["pss"], "kB")}


SCRAPING = """
import sys, threading
sys.path[:0] = sys.argv[1:3]
from scrapes import scrape
def work():
    while True:
        scrape(sys.argv[3])
for _ in range(100):
    threading.Thread(target=work).start()
"""


@contextlib.contextmanager
def at_once(pids):
    """Whatever else runs on this machine, these processes are not kept waiting for a processor."""
    for pid in pids:
        os.sched_setscheduler(pid, os.SCHED_RR, os.sched_param(50))
    try:
        yield
    finally:
        os.sched_setscheduler(0, os.SCHED_OTHER, os.sched_param(0))


@contextlib.contextmanager
def beside(count, *words):
    others = [subprocess.Popen([sys.executable, "-c", *words]) for _ in range(count)]
    try:
        yield
    finally:
        for other in others:
            other.kill()
            other.wait()


def allocate_meanwhile(subject, quick):
    """The latency of Allocate alone, while 100 clients scrape as often as they can, and what their use of the processors
    alone would make of it: they and the exporter are two processes."""
    count = 1000 if quick else 4000
    with Scraped(subject, tokens(1, 100)) as run:
        run.serve()
        run.await_scrape()
        path, here = run.socket_of("r0"), os.path.dirname(os.path.abspath(__file__))

        def allocate():
            return run.client("C", "call", path, "Allocate", 1, count, "r0-1")
        row = {"floor: Allocate, nothing else": allocate()}
        with beside(2, "while True: pass"):
            row["floor: Allocate, beside 2 busy loops"] = allocate()
        with beside(1, SCRAPING, here, os.path.join(here, "../promises"), run.address):
            before = processes.cpu_usec([run.exporter()])
            until(lambda: processes.cpu_usec([run.exporter()]) > before + 50000, "the clients to scrape")
            row["Allocate, beside 100 scrapes at once"] = allocate()
        return {f"{name}, {figure}": (found[figure], "us") for name, found in row.items() for figure in ("p50", "p99")}


def scrapes(subject, quick):
    if subject.kind != "devplugd":
        return {}
    row, count = {}, 20 if quick else 100
    for name, resources, pods in (("50 resources, 250 pods", tokens(50, 5), 250), ("10,000 devices", tokens(1, 10000), 1)):
        for figure, found in measure(subject, resources, pods, count).items():
            row[f"scrape, {name}: {figure}"] = found
    return row | allocate_meanwhile(subject, quick)
