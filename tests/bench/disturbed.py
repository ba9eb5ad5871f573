# SPDX-License-Identifier: Apache-2.0
"""Allocate while something else keeps devplugd busy, beside the same calls on a quiet node."""
import contextlib
import signal
import subprocess
import sys
import threading
import time

import processes
from node import children_of, until
from nvidia_host import NvidiaHost, uuid
from rows import health_folder
from subjects import Devplugd, Resource, open_run, tokens

FLIP = """
import os, sys, time
fd = os.open(sys.argv[1], os.O_WRONLY)
for i in range(1 << 30):
    os.pwrite(fd, (b"bad", b"ok\\n")[i % 2], 0)
    time.sleep(0.001)
"""


@contextlib.contextmanager
def flipping(file):
    process = subprocess.Popen([sys.executable, "-S", "-c", FLIP, file])
    try:
        yield
    finally:
        process.kill()
        process.wait()


@contextlib.contextmanager
def reloading(run):
    """Ten reloads a second; each changes one of the resources."""
    ending, before = threading.Event(), run.node.generation()

    def work():
        number = 0
        while not ending.wait(0.1):
            number += 1
            run.configure([*run.resources[:-1], run.resources[-1]._replace(devices=3 + number % 2)])
            run.node.daemon.send_signal(signal.SIGHUP)

    thread = threading.Thread(target=work)
    thread.start()
    try:
        yield
    finally:
        ending.set()
        thread.join()
    until(lambda: run.node.generation() >= before + 5, "some reloads")


class WithGpus(Devplugd):
    """A resource of GPUs on a host in a folder, with a stand-in for NVIDIA's library."""

    def prepare(self):
        self.host = NvidiaHost()
        self.host.prepare_host(self.node)
        self.node.configure(
            '{ name = "vendor.example/r0"; driver = "nvidia"; match = ( { } ); '
            f'host_root = "{self.host.host}"; health = ( {{ probe = "nvml"; interval = 0.2; }} ); }}')

    def hang(self):
        """Until the process of the library does not wake any more, as it does five times a second."""
        helper = until(lambda: children_of(self.plugins()[0]), "the process of the library")
        self.host.report("hang nvmlDeviceGetFieldValues")

        def sleeps():
            before = processes.wakeups(helper)
            time.sleep(1)
            return processes.wakeups(helper) == before
        until(sleeps, "the library to hang")


@contextlib.contextmanager
def hanging(run):
    run.hang()
    yield


def compare(run, count, what, disturbance, device="r0-2"):
    path = run.socket_of("r0")

    def allocate():
        return run.client("C", "call", path, "Allocate", 1, count, device)
    row = {f"floor: Allocate, before {what}": allocate()}
    with disturbance:
        row[f"Allocate, during {what}"] = allocate()
    return {f"{name}, {figure}": (found[figure], "us") for name, found in row.items() for figure in ("p50", "p99")}


def disturbed(subject, quick):
    # For seconds, so that there are many disturbances.
    count = 10000 if quick else 30000
    with health_folder("r0", 100) as (folder, file), open_run(subject, [Resource("r0", 100, folder)]) as run:
        run.serve()
        row = compare(run, count, "a health storm", flipping(file))
    if subject.kind != "devplugd":
        return row
    with open_run(subject, tokens(50)) as run:
        run.serve()
        row |= compare(run, count, "reloads of 50 resources", reloading(run))
    with WithGpus(subject, tokens(1)) as run:
        run.serve()
        row |= compare(run, count, "a hanging NVML process", hanging(run), uuid(0))
    return row
