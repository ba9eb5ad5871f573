# SPDX-License-Identifier: Apache-2.0
"""What is measured: devplugd, or the Go peer as one process for each resource ("Go") or one for all ("one", the way of
generic-device-plugin), each with a devplug-kubelet in a folder of its own. The rows ask all of them the same."""
import json
import os
import signal
import subprocess
import time
from collections import namedtuple
from unittest.mock import patch

import node as harness
import processes
from node import Node, children_of, client_of, plugins_of, static, until

# `folder` has the programs; `kind` is devplugd, Go or one.
Subject = namedtuple("Subject", "name kind folder")
# `health`: a folder with a file for each device that says "ok" or not, or None.
Resource = namedtuple("Resource", "name devices health")

# The programs that all runs share: the clients, and the kubelet.
SHARED = {}


def tokens(count, devices=3, health=None):
    return [Resource(f"r{i}", devices, health) for i in range(count)]


class Run:
    def __init__(self, subject, resources, kubelet=True):
        self.subject, self.resources = subject, resources
        # The kubelet is the same for all; devplugd finds its own programs beside it.
        harness.BIN = SHARED["kubelet"]
        self.node = Node()
        self.prepare()
        if kubelet:
            self.start_kubelet()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def close(self):
        self.node.close()

    def start_kubelet(self):
        harness.BIN = SHARED["kubelet"]
        with patch.dict(os.environ, LD_LIBRARY_PATH=SHARED["kubelet's libraries"]):
            self.node.start_kubelet()
        until(lambda: self.events("listening"), "the kubelet to listen")

    def events(self, kind):
        return [event for event in self.node.kubelet_events() if event.get("event") == kind]

    def await_events(self, kind, count):
        """Looks rarely: what is measured has few processors, and time stamps come from the kubelet."""
        end = time.monotonic() + harness.LIMIT
        while len(events := self.events(kind)) < count:
            if time.monotonic() > end:
                raise AssertionError(f"waited in vain for {count} times {kind}")
            time.sleep(0.2)
        return events

    def registered_since(self, began, count):
        """Milliseconds from `began` to the last of `count` registrations after it."""
        time.sleep(0.3)
        end = time.monotonic() + harness.LIMIT
        while len(times := [e["time"] for e in self.events("registered") if e["time"] >= began]) < count:
            if time.monotonic() > end:
                raise AssertionError(f"waited in vain for {count} registrations")
            time.sleep(0.2)
        return (max(times) - began) / 1000

    def serve(self):
        self.start()
        for kind in ("registered", "list"):
            self.await_events(kind, len(self.resources))
        self.settle()

    def settle(self):
        """Nothing is left to be done after the start."""

    def kubelet_client(self):
        """The process that registers for all others, while there is one."""

    def socket_of(self, name):
        """The path of the session's socket, from the registration."""
        event = [e for e in self.events("registered") if e["resource"] == f"vendor.example/{name}"][-1]
        return os.path.join(self.node.plugins, event["endpoint"])

    def client(self, language, *words):
        """The latencies that a client found, and the CPU that the server spent on it, in microseconds."""
        pid = self.plugins()[0]
        before = processes.cpu_usec([pid])
        answer = subprocess.run([SHARED[f"{language} client"], *map(str, words)], capture_output=True, text=True,
                                check=False)
        if answer.returncode != 0:
            raise AssertionError(answer.stderr)
        result = json.loads(answer.stdout)
        result["cpu"] = (processes.cpu_usec([pid]) - before) / result["samples"]
        return result


class Devplugd(Run):
    def configure(self, resources):
        self.resources = resources
        self.node.configure(*(static(resource.name, resource.devices, self.keys(resource)) for resource in resources))

    @staticmethod
    def keys(resource):
        keys = 'container = { env = ( "DEVICES=${ids:,}" ); };'
        if resource.health:
            keys += (f' health = ( {{ probe = "file"; path = "{resource.health}/${{id}}"; healthy = "ok"; '
                     'missing = "healthy"; } );')
        return keys

    def prepare(self):
        self.configure(self.resources)

    def start(self):
        """Returns when the start began, in microseconds of CLOCK_MONOTONIC, as events have it."""
        harness.BIN = self.subject.folder
        self.node.daemon_program = os.path.join(self.subject.folder, "devplugd")
        began = time.monotonic() * 1e6
        self.node.start()
        return began

    def settle(self):
        harness.BIN = self.subject.folder
        self.node.await_serving()

    def everybody(self):
        """Without the kubelet client, which ends when nothing is registered any more."""
        return [self.node.daemon.pid,
                *(pid for pid in children_of(self.node.daemon.pid) if pid != self.kubelet_client())]

    def kubelet_client(self):
        return client_of(self.node.daemon.pid)

    def plugins(self):
        return plugins_of(self.node.daemon.pid)


class Go(Run):
    # A shell starts them sooner than Python would.
    SCRIPT = 'plugin=$0; devices=$1; health=$2; directory=$3; shift 3; ' \
        'for name; do "$plugin" -devices $devices -health "$health" "$directory" $name & done; wait'

    def prepare(self):
        self.shell = None
        # The kubelet makes its folder, devplugd waits for it; this peer does not.
        os.mkdir(self.node.plugins)

    def start(self):
        first = self.resources[0]
        names = [f"vendor.example/{resource.name}" for resource in self.resources]
        health = os.path.join(first.health, f"{first.name}-1") if first.health else ""
        began = time.monotonic() * 1e6
        self.shell = subprocess.Popen(
            ["/bin/sh", "-c", self.SCRIPT, os.path.join(self.subject.folder, "go-plugin"), str(first.devices), health,
             self.node.plugins, *([" ".join(names)] if self.subject.kind == "one" else names)])
        return began

    def everybody(self):
        return children_of(self.shell.pid)

    plugins = everybody

    def close(self):
        if self.shell:
            for pid in self.everybody():
                os.kill(pid, signal.SIGKILL)
            self.shell.wait()
        super().close()


def open_run(subject, resources, kubelet=True):
    return (Devplugd if subject.kind == "devplugd" else Go)(subject, resources, kubelet)
