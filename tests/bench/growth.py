# SPDX-License-Identifier: Apache-2.0
"""How memory and times grow with the number of resources, and of devices of one resource."""
import time

import processes
from rows import SETTLE, health_folder
from subjects import Resource, open_run, tokens

RESOURCES = 1, 10, 50, 300, 1000
# Each process of the Go peer has an inotify instance, of which the kernel grants a user 128.
PROCESSES = 50
DEVICES = 8, 100, 1000, 10000, 50000


def resources(subject, quick):
    row = {}
    for count in RESOURCES[:3] if quick else RESOURCES:
        if subject.kind == "Go" and count > PROCESSES:
            break
        with open_run(subject, tokens(count, 1)) as run:
            row[f"growth, {count} resources: start to registered"] = run.registered_since(run.start(), count), "ms"
            run.await_events("list", count)
            time.sleep(SETTLE)
            row[f"growth, {count} resources: dirty memory of all"] = processes.memory_of_all(run.everybody(), "dirty"), "kB"
    return row


def devices(subject, quick):
    row = {}
    for count in DEVICES[:4] if quick else DEVICES:
        with health_folder("r0") as (folder, file), open_run(subject, [Resource("r0", count, folder)]) as run:
            run.serve()
            time.sleep(SETTLE)
            row[f"growth, {count} devices: dirty memory of all"] = processes.memory_of_all(run.everybody(), "dirty"), "kB"
            found = run.client("C", "watch", run.socket_of("r0"), file, 10, 150000 if count < 1000 else 300000)
            row[f"growth, {count} devices: change to list, p50"] = found["p50"], "us"
    return row
