# SPDX-License-Identifier: Apache-2.0
"""The row of real hardware that comes and goes: a network interface of the kernel."""
import fcntl
import os
import socket
import statistics
import struct
import threading
import time

from node import until
from subjects import Resource, open_run


class Uevents(threading.Thread):
    """When the kernel told of devices, in microseconds of CLOCK_MONOTONIC: {"add@/devices/...": time}."""

    def __init__(self):
        super().__init__()
        self.times, self.ending = {}, threading.Event()
        self.socket = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 15)  # NETLINK_KOBJECT_UEVENT
        self.socket.bind((0, 1))
        self.socket.settimeout(0.2)

    def __enter__(self):
        self.start()
        return self

    def __exit__(self, *error):
        self.ending.set()
        self.join()
        self.socket.close()

    def run(self):
        while not self.ending.is_set():
            try:
                message = self.socket.recv(8192)
            except TimeoutError:
                continue
            self.times[message.split(b"\0", 1)[0].decode(errors="replace")] = time.monotonic() * 1e6

    def await_event(self, event):
        until(lambda: event in self.times, event)
        return self.times.pop(event)


def plug_tap(name):
    """A network interface that goes when the descriptor is closed."""
    fd = os.open("/dev/net/tun", os.O_RDWR)
    fcntl.ioctl(fd, 0x400454ca, struct.pack("16sH22x", name.encode(), 0x1002))  # TUNSETIFF, IFF_TAP | IFF_NO_PI
    return fd


def hotplug(subject, quick):
    """From the kernel's event to the list that the kubelet has received. Each change comes later than the 100 ms in which
    lists are collected."""
    if subject.kind != "devplugd" or not os.path.exists("/dev/net/tun"):
        return {}
    name = f"bench{os.getpid() % 1000000}"
    samples = {"add": [], "remove": []}
    with open_run(subject, [Resource("nic", 0, None)]) as run, Uevents() as uevents:
        run.node.configure('{ name = "vendor.example/nic"; driver = "net";'
                           f' match = ( {{ type = "interface"; interface = "{name}"; }} ); }}')
        run.serve()
        lists, fd = len(run.events("list")), None
        for _ in range(10 if quick else 30):
            for action in samples:
                time.sleep(0.15)
                if fd is None:
                    fd = plug_tap(name)
                else:
                    fd = os.close(fd)
                lists += 1
                told = run.await_events("list", lists)[lists - 1]["time"]
                samples[action].append(told - uevents.await_event(f"{action}@/devices/virtual/net/{name}"))
    row = {}
    for action, what in (("add", "in"), ("remove", "out")):
        cuts = statistics.quantiles(samples[action], n=100, method="inclusive")
        row[f"interface plugged {what} to list, p50"] = cuts[49] / 1000, "ms"
        row[f"interface plugged {what} to list, p99"] = cuts[98] / 1000, "ms"
    return row
