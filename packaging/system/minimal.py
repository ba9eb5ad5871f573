# SPDX-License-Identifier: Apache-2.0
"""The way from the sources to a pod that README describes, and what follows an installation.

Usage: minimal.py TREE, with a checkout in its /root/devplugd. The commands, the configuration and the pod are those of README.
"""
import os
import re
import sys

from machine import HERE, live
from waiting import check

SOURCES = "/root/devplugd"
SECTION = "Install it"


class Readme:
    def __init__(self):
        with open(os.path.join(HERE, "../../README.md"), encoding="utf-8") as file:
            text = file.read()
        section = re.search(rf"^## {SECTION}\n(.*?)^## ", text, re.M | re.S).group(1)
        # What is said behind them is for another way to install.
        section = section[:section.index("Without packages:")]
        self.fences = re.findall(r"^```(\w*)\n(.*?)^```$", section, re.M | re.S)
        self.conf = re.search(r"`(/etc/devplugd\.conf\.d/\S+)`", section).group(1)
        self.configuration = next(body for kind, body in self.fences if body.startswith("resources = ("))
        self.limits = re.search(r"limits:\n\s+(\S+): (\d+)", section).groups()

    def commands(self, block):
        """The commands of a block that are for Debian and need no cluster."""
        bodies = [body for kind, body in self.fences if not kind and not body.startswith("resources = (")]
        for line in bodies[block].splitlines():
            command, _, comment = line.partition("#")
            if "dnf install only" not in comment and not command.startswith("kubectl"):
                yield command.strip()


def shell(machine, command):
    print("  " + command, flush=True)
    return machine.do("sh", "-c", f"cd {SOURCES} && {command}")


def way(machine):
    readme = Readme()
    # A host has it; the booted tree has the simplest nodes only.
    machine.do("mknod", "-m", "666", "/dev/fuse", "c", "10", "229")
    for command in readme.commands(0):
        found = shell(machine, command)
    check('preset = "fuse"' in found, f"discover: {found}")
    check(machine.property("ActiveState") == "active", "it is not active after installation")
    check(machine.property("StatusText") == "no resources are configured", machine.property("StatusText"))
    shell(machine, "make demo")
    shell(machine, "make cluster-demo")
    machine.do("sh", "-c", f"apt-get install {SOURCES}/build-packages/devplug-kubelet_*.deb")
    machine.start_kubelet()
    machine.write(readme.conf, readme.configuration)
    for command in readme.commands(1):
        found = shell(machine, command)
    name, number = readme.limits
    check(name in found, f"status: {found}")
    machine.allocatable(fuse=20)
    found = machine.do("devplug-kubelet", "pod", "first", "--limits", f"{name}={number}")
    check("/dev/fuse -> /dev/fuse" in found, found)

    print("  edited", flush=True)
    edited = readme.configuration.replace("20", "30")
    machine.write(readme.conf, edited)
    machine.do("systemctl", "reload", "devplugd")
    machine.allocatable(fuse=30)

    print("  upgraded", flush=True)
    machine.do("sh", "-euc", f"""
        cd {SOURCES}/build-packages
        dpkg-deb -R devplugd_*.deb next
        sed -i 's/^Version: .*/&+next/' next/DEBIAN/control
        dpkg-deb -b next devplugd_next.deb
        apt-get install ./devplugd_next.deb""")
    machine.allocatable(fuse=30)
    check(machine.do("cat", readme.conf) == edited, "the upgrade touched the configuration")

    print("  removed and purged", flush=True)
    machine.do("apt-get", "remove", "devplugd")
    check(machine.run("test", "-e", "/etc/devplugd.conf").returncode == 0, "the removal took the configuration")
    left = machine.do("ls", "/var/lib/kubelet/device-plugins")
    check("devplugd" not in left, f"sockets are left: {left}")
    machine.do("apt-get", "purge", "devplugd")
    check(machine.run("test", "-e", "/etc/devplugd.conf").returncode != 0, "the configuration is left")


if __name__ == "__main__":
    sys.exit(live(sys.argv[1], way))
