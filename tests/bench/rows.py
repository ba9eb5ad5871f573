# SPDX-License-Identifier: Apache-2.0
"""The rows of the table: each is asked of a subject and returns {name: (value, unit)}, or {} where it is not its to
answer."""
import contextlib
import json
import os
import select
import shutil
import signal
import socket
import statistics
import subprocess
import tempfile
import time

import http2
import processes
from node import until
from subjects import SHARED, Resource, open_run, tokens

SETTLE = 1.5  # seconds from the last event to the first look at an idle process


@contextlib.contextmanager
def health_folder(name, devices=1):
    """A folder with a file for each of the first devices, and the path of device 1's."""
    folder = tempfile.mkdtemp(prefix="devplugd-bench.")
    os.chmod(folder, 0o755)
    for i in range(devices + 1):
        with open(os.path.join(folder, f"{name}-{i}"), "w") as file:
            file.write("ok\n")
    try:
        yield folder, os.path.join(folder, f"{name}-1")
    finally:
        shutil.rmtree(folder)


def start(subject, quick):
    row = {}
    for count in (50,) if quick else (32, 50):
        with open_run(subject, tokens(count)) as run:
            row[f"start to registered, {count} resources"] = run.registered_since(run.start(), count), "ms"
    return row


def restarts(subject, quick):
    """Kubelets that end and come back: from kubelet.sock listening until all resources are registered."""
    count, times = 50, []
    ours = subject.kind == "devplugd"
    with open_run(subject, tokens(count)) as run:
        run.serve()
        for turn in range((10 if quick else 100) if ours else 3 if quick else 5):
            run.node.stop_kubelet(signal.SIGTERM if turn % 2 else signal.SIGKILL)
            if ours:
                until(lambda: all(r["state"] == "waiting" for r in run.node.state()["resources"]), "all to wait")
            os.unlink(run.node.path("kubelet.log"))
            time.sleep(0.1 if ours else SETTLE)
            run.start_kubelet()
            times.append(run.registered_since(run.events("listening")[0]["time"], count))
    return {"kubelet listening to registered, 50 resources, p50": (statistics.median(times), "ms"),
            "kubelet listening to registered, 50 resources, most": (max(times), "ms"),
            "kubelet listening to registered: restarts": (len(times), "")}


def one_more(subject, quick):
    """A child that is started alone."""
    if subject.kind != "devplugd":
        return {}
    with open_run(subject, tokens(1)) as run:
        run.serve()
        run.configure(tokens(2))
        began = time.monotonic() * 1e6
        run.node.daemon.send_signal(signal.SIGHUP)
        added = run.registered_since(began, 1)
        run.settle()
        began = time.monotonic() * 1e6
        os.kill(run.plugins()[0], signal.SIGKILL)
        return {"reload that adds a resource, to registered": (added, "ms"),
                "child killed to registered (back-off: 100 ms)": (run.registered_since(began, 1), "ms")}


@contextlib.contextmanager
def least_answer():
    """The socket of a server that answers every call with the same bytes."""
    folder = tempfile.mkdtemp(prefix="devplugd-bench.")
    path = os.path.join(folder, "socket")
    server = subprocess.Popen([SHARED["C client"], "answer", path], stdout=subprocess.PIPE)
    try:
        server.stdout.readline()
        yield path
    finally:
        server.kill()
        server.communicate()
        shutil.rmtree(folder)


def latencies(name, found):
    return {f"{name}, {figure}": (found[figure], "us") for figure in ("p50", "p99")}


def of_clients(language, number):
    return f"{language} client{f' x {number}' if number > 1 else ''}"


def floors_of_calls(run, count):
    row = {"floor: socket round trip, p50": (run.client("C", "ping", count)["p50"], "us")}
    for language in ("C", "Go"):
        if f"{language} client" in SHARED:
            for clients in (1, 8):
                with least_answer() as least:
                    floor = run.client(language, "call", least, "Allocate", clients, count // clients, "r0-1")
                row |= latencies(f"floor: least answer over HTTP/2, {of_clients(language, clients)}", floor)
    return row


def calls(subject, quick):
    row, count = {}, 2000 if quick else 8000
    with open_run(subject, tokens(1, 8)) as run:
        run.serve()
        path = run.socket_of("r0")
        if subject.kind == "devplugd":
            row |= floors_of_calls(run, count)
        for method, ids in (("Allocate", ["r0-1"]), ("GetPreferredAllocation", [f"r0-{i}" for i in range(8)])):
            for language in ("C", "Go"):
                if f"{language} client" not in SHARED:
                    continue
                for clients in (1, 8):
                    found = run.client(language, "call", path, method, clients, count // clients, *ids)
                    name = f"{method}, {of_clients(language, clients)}"
                    row |= latencies(name, found)
                    row[f"{name}, CPU of the server"] = found["cpu"], "us"
    return row


def changes(subject, quick):
    """Lists are sent at most every 100 ms; each change here comes later than that."""
    row = {}
    count = 20 if quick else 40
    for devices in (8, 10000):
        with health_folder("r0") as (folder, file), open_run(subject, [Resource("r0", devices, folder)]) as run:
            run.serve()
            path, gap = run.socket_of("r0"), 150000 if devices < 1000 else 250000
            if devices == 8 and subject.kind == "devplugd":
                row |= latencies("floor: change of a file to a word on a socket", run.client("C", "notice", file, count, gap))
            found = run.client("C", "watch", path, file, count, gap)
            name = f"change to list, {devices} devices, C client"
            row |= latencies(name, found)
            row[f"{name}, CPU of the server"] = found["cpu"], "us"
    return row


def storm(subject, quick):
    """One device whose health changes a thousand times a second."""
    seconds, texts = (2 if quick else 5), (b"bad", b"ok\n")
    with health_folder("r0", 100) as (folder, file), open_run(subject, [Resource("r0", 100, folder)]) as run:
        run.serve()
        time.sleep(SETTLE)
        pid, lists = run.plugins()[0], len(run.events("list"))
        before, flips, end = processes.cpu_usec([pid]), 0, time.monotonic() + seconds
        fd = os.open(file, os.O_WRONLY)
        while time.monotonic() < end:
            os.pwrite(fd, texts[flips % 2], 0)
            flips += 1
            time.sleep(0.001)
        os.close(fd)
        time.sleep(0.5)
        return {"health storm, 100 devices: CPU a second": ((processes.cpu_usec([pid]) - before) / 1000 / seconds, "ms"),
                "health storm: lists a second": ((len(run.events("list")) - lists) / seconds, ""),
                "health storm: changes a second": (flips / seconds, "")}


# Each is said on a connection of its own that then ends.
BURSTS = {
    "20,000 pings": http2.frame(http2.PING, 0, 0, bytes(8)) * 20000,
    "5,000 calls that are reset": b"".join(
        http2.headers(i, http2.ALLOCATE) + http2.frame(http2.RST_STREAM, 0, i, bytes(4)) for i in range(1, 10001, 2)),
    "5,000 calls left open": b"".join(http2.headers(i, http2.ALLOCATE) for i in range(1, 10001, 2)),
}


def hostile(subject, quick):
    row = {}
    for name, burst in BURSTS.items():
        with open_run(subject, tokens(1)) as run:
            run.serve()
            time.sleep(SETTLE)
            pid = run.plugins()[0]
            before = processes.memory(pid)["private"]
            peer = http2.connect(run.socket_of("r0"))
            with contextlib.suppress(OSError):
                peer.sendall(burst)
            time.sleep(0.5)
            peer.close()
            time.sleep(2 * SETTLE)
            row[f"USS kept after {name}"] = processes.memory(pid)["private"] - before, "kB"
    return row


def reload(subject, quick):
    if subject.kind != "devplugd":
        return {}
    with open_run(subject, tokens(50)) as run:
        run.serve()
        before = run.node.await_serving()
        run.configure([*tokens(49), Resource("r49", 4, None)])
        began = time.monotonic() * 1e6
        run.node.daemon.send_signal(signal.SIGHUP)
        time.sleep(0.3)
        changed = until(lambda: [e for e in run.events("list") if e["resource"] == "vendor.example/r49"
                                 and e["devices"] == 4], "the list of the changed resource")
        after = run.node.await_serving()
        touched = sum((before[name]["pid"], before[name]["session"]) != (after[name]["pid"], after[name]["session"])
                      for name in before)
        return {"reload of 50 resources, one changed, to its list": ((changed[0]["time"] - began) / 1000, "ms"),
                "reload: processes or sessions replaced": (touched, "")}


def end_by_kernel(run):
    """How long the kernel alone needs to end all children, in milliseconds: devplugd and the kubelet do nothing."""
    idle, poll = [run.node.daemon, run.node.kubelet], select.poll()
    fds = [os.pidfd_open(pid) for pid in run.plugins()]
    for fd in fds:
        poll.register(fd, select.POLLIN)
    for process in idle:
        process.send_signal(signal.SIGSTOP)
    time.sleep(0.1)
    began = time.monotonic()
    for fd in fds:
        signal.pidfd_send_signal(fd, signal.SIGKILL)
    left = set(fds)
    while left:
        for fd, _ in poll.poll():
            poll.unregister(fd)
            left.remove(fd)
    end = time.monotonic()
    for fd in fds:
        os.close(fd)
    run.node.daemon.kill()
    for process in idle:
        process.send_signal(signal.SIGCONT)
    run.node.daemon.wait()
    return (end - began) * 1000


def stop(subject, quick):
    if subject.kind != "devplugd":
        return {}
    row = {}
    for count in (8, 50):
        with open_run(subject, tokens(count)) as run:
            run.serve()
            time.sleep(0.5)
            row[f"floor: SIGKILL of as many such children, {count} resources"] = end_by_kernel(run), "ms"
    for count, silent in ((8, False), (50, False), (8, True)):
        peers = []
        with open_run(subject, tokens(count)) as run:
            run.serve()
            for i in range(count * silent):
                for begin in (b"", b"PRI * HTTP/2.0\r\n", b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes(9)):
                    peer = socket.socket(socket.AF_UNIX)
                    peer.connect(run.socket_of(f"r{i}"))
                    peer.sendall(begin)
                    peers.append(peer)
            time.sleep(0.5)
            began = time.monotonic()
            # Not with a limit: Python would poll, with growing pauses.
            run.node.daemon.terminate()
            run.node.daemon.wait()
            name = ", silent clients connected" if silent else ""
            row[f"SIGTERM to exit, {count} resources{name}"] = (time.monotonic() - began) * 1000, "ms"
            for peer in peers:
                peer.close()
    return row


def sizes(subject, quick):
    names = ("devplugd", "devplugd-plugin", "devplugctl") if subject.kind == "devplugd" else ("go-plugin",)
    row, total = {}, 0
    with tempfile.TemporaryDirectory() as folder:
        for name in names:
            stripped = os.path.join(folder, name)
            subprocess.run(["strip", "-o", stripped, os.path.join(subject.folder, name)], check=True)
            total += os.path.getsize(stripped) / 1000
            row[f"size of {name}, stripped"] = os.path.getsize(stripped) / 1000, "kB"
    row["size of the programs"] = total, "kB"
    package = [file for file in SHARED["packages"] if subject.kind == "devplugd"]
    if package:
        row["size of the package"] = os.path.getsize(package[-1]) / 1000, "kB"
    return row


def claims(subject, quick):
    """What a child may have the supervisor read and decide, in the supervisor's own process."""
    if subject.kind != "devplugd":
        return {}
    cost = json.loads(subprocess.run([os.path.join(subject.folder, "bench-claims")], stdout=subprocess.PIPE, check=True).stdout)
    return {"claims: CPU for 80,000 ids that collide without a key": (cost["colliding"], "ms"),
            "claims: CPU for 80,000 random ids": (cost["random"], "ms"),
            "claims: CPU for the most that all may claim": (cost["most"], "ms")}
