# SPDX-License-Identifier: Apache-2.0
"""The life of the package in a booted system, as an administrator lives it: one step after the other.

Usage: lifecycle.py TREE PACKAGES_FOLDER. A step that fails ends the run and shows the journal. Nothing here asserts
how fast something was; what was measured is printed.
"""
import collections
import glob
import json
import os
import subprocess
import sys
import threading
import time

from machine import CONFIG, HERE, live
from waiting import check, until

PLUGINS = "/var/lib/kubelet/device-plugins"

# What a child of ours must not be able to do. Run as a health probe, so with exactly what a child may do.
JAIL = r"""#!/bin/sh
for what in "ls /var/lib/kubelet/device-plugins" "ls /var/lib/kubelet/plugins_registry" "cat /etc/shadow" \
	"touch /etc/x" "touch /var/lib/kubelet/device-plugins/x" "touch /usr/x" "dd if=/dev/forbidden count=0" "mount -t tmpfs x /mnt" \
	"unshare --user true" "chown 0 /run/devplugd" "ls /root/." "ls /home/." "ls /var/lib/kubelet/pods"; do
	if $what >/dev/null 2>&1; then
		echo "allowed: $what"
		exit 1
	fi
done
"""

TOKEN = """{ name = "vendor.example/token"; driver = "static"; match = ( { count = %d; } ); }"""
NODE = """{ name = "vendor.example/full"; driver = "path"; match = "/dev/full"; share = { replicas = 3; }; }"""
JAILED = """{ name = "vendor.example/jail"; driver = "static"; match = ( { id = "jail"; } );
  health = ( { probe = "exec"; command = [ "/usr/local/bin/jail" ]; interval = 1; } ); }"""
AS_ROOT = """{ name = "vendor.example/root"; driver = "static"; match = ( { id = "root"; } ); user = "root";
  health = ( { probe = "exec"; command = [ "/usr/bin/test", "-O", "/etc/passwd" ]; interval = 1; } ); }"""

# What needs more of the host than to look at a node: files outside of its own directories, udev's or the kernel's
# events, sysfs, programs, and the kubelet's list of pods.
CARD = """{ name = "vendor.example/card"; driver = "path"; match = "/dev/card*"; cdi_spec = { kind = "vendor.example/card"; }; }"""
REST = """{ name = "vendor.example/rest"; driver = "path"; match = "/dev/card0"; }"""
NIC = """{ name = "vendor.example/nic"; driver = "net"; match = ( { type = "interface"; interface = "nic*"; } ); }"""
MEMORY = """{ name = "vendor.example/memory"; driver = "sysfs"; match = ( { subsystem = "mem"; name = "null"; } ); }"""
SEAT = """{ name = "vendor.example/seat"; driver = "exec"; match = ( { command = [ "/usr/local/bin/seats" ]; interval = 1; } ); }"""
SEATS = """#!/bin/sh
echo '{"version": 1, "devices": [{"id": "one"}, {"id": "two"}]}'
"""


steps = []


def step(function):
    steps.append(function)
    return function


@step
def installed_enabled_and_waiting(machine, packages):
    machine.before = machine.files()
    machine.do("mkdir", "-p", "/root/packages")
    for package in packages:
        with open(package, "rb") as file:
            subprocess.run(["nsenter", "-t", str(machine.init), "-a", "sh", "-c",
                            f"cat >/root/packages/{os.path.basename(package)}"], stdin=file, check=True)
    machine.do("sh", "-c", "dpkg -i /root/packages/*.deb")
    check(machine.property("ActiveState") == "active", "it is not active after installation")
    check(machine.property("UnitFileState") == "enabled", "it is not enabled after installation")
    check(machine.property("StatusText"), "it has no status text")
    check("kubelet.service" in machine.property("Before").split(), "it is not ordered before the kubelet")
    machine.do("id", "devplugd")
    says = machine.do("systemd-analyze", "verify", "--man=no", "devplugd.service")
    check(not says, f"systemd-analyze verify: {says}")
    says = machine.do("systemd-analyze", "security", "--no-pager", "--threshold=15", "devplugd.service")
    print("  " + says.strip().splitlines()[-1])


@step
def the_packages_own_test(machine, packages):
    with open(os.path.join(HERE, "../debian/tests/node")) as file:
        machine.do("sh", "-s", text=file.read())


@step
def resources_declared_by_a_reload(machine, packages):
    machine.write("/usr/local/bin/jail", JAIL, "755")
    machine.do("mkdir", "-p", "/var/lib/kubelet/pods")
    # /dev/fuse, which everybody may open, but for the device policy.
    machine.do("mknod", "-m", "666", "/dev/forbidden", "c", "10", "229")
    machine.do("dd", "if=/dev/forbidden", "count=0")
    machine.start_kubelet()
    machine.configure(TOKEN % 4, NODE, JAILED)
    machine.do("systemctl", "reload", "devplugd")
    machine.allocatable(token=4, full=3, jail=1)
    until(lambda: "3 serving" in machine.property("StatusText"), lambda: machine.property("StatusText"))
    print("  status text: " + machine.property("StatusText"))
    machine.do("devplug-kubelet", "pod", "one", "--limits", "vendor.example/full=1,vendor.example/token=2")


@step
def children_have_no_privilege(machine, packages):
    uid = machine.do("id", "-u", "devplugd").strip()

    def status(pid):
        text = machine.do("cat", f"/proc/{pid}/status")
        return dict(line.split(":\t", 1) for line in text.splitlines() if ":\t" in line)

    filters = int(status(machine.property("MainPID"))["Seccomp_filters"])
    for name, pid in machine.pids().items():
        fields = status(pid)
        check(fields["Uid"].split() == [uid] * 4, f"{name}: Uid {fields['Uid']}")
        for key in ("CapInh", "CapPrm", "CapEff", "CapAmb"):
            check(int(fields[key], 16) == 0, f"{name}: {key} {fields[key]}")
        check(fields["NoNewPrivs"] == "1", f"{name} may gain privileges")
        check(fields["Seccomp"] == "2", f"{name} has no system call filter")
        check(int(fields["Seccomp_filters"]) > filters, f"{name} has only the unit's system call filters")


@step
def a_child_may_not(machine, packages):
    """The probe of this one tries, and is healthy when all is denied."""
    def jail():
        return next(r for r in machine.status()["resources"] if r["name"].endswith("/jail"))["devices"][0]

    until(lambda: jail()["health"] == "Healthy", jail)


@step
def a_broken_file_changes_nothing(machine, packages):
    pids, generation = machine.pids(), machine.status()["generation"]
    machine.configure(TOKEN % 4, NODE, '{ name = "vendor.example/bad"; driver = "statik"; }')
    result = machine.run("systemctl", "reload", "devplugd")
    check(result.returncode != 0, "systemctl reload of a broken file succeeded")
    found = [r["MESSAGE"] for r in machine.journal("-u", "devplugd") if f"{CONFIG}:4: " in r["MESSAGE"]]
    check(found, "the journal does not say where the file is broken")
    print("  journal: " + found[-1])
    check(machine.property("ActiveState") == "active", "the failed reload ended the service")
    check(machine.pids() == pids and machine.status()["generation"] == generation, "something changed")
    machine.do("devplug-kubelet", "pod", "two", "--limits", "vendor.example/full=1")
    machine.configure(TOKEN % 5, NODE, JAILED)
    machine.do("systemctl", "reload", "devplugd")
    machine.allocatable(token=5, full=3, jail=1)
    check(machine.pids() == pids, "a reload restarted children")


@step
def killed_children_and_daemon_come_back(machine, packages):
    for pid in machine.pids().values():
        machine.do("kill", "-KILL", str(pid))
    before = machine.property("MainPID")
    until(lambda: all(r["restarts"] == 1 and r["state"] == "serving" for r in machine.status()["resources"]),
          lambda: f"children to be back: {machine.status()}")
    machine.allocatable(token=5, full=3, jail=1)
    check(machine.property("MainPID") == before, "the daemon was restarted, too")
    machine.do("kill", "-KILL", before)
    until(lambda: machine.property("MainPID") not in ("0", before), "systemd to restart the daemon")
    until(lambda: all(r["state"] == "serving" for r in machine.status()["resources"]), "all to serve")
    machine.allocatable(token=5, full=3, jail=1)
    sockets = machine.do("ls", PLUGINS).split()
    check(len([s for s in sockets if s.startswith("devplugd")]) == 3, f"sockets left behind: {sockets}")


@step
def plugin_directory_removed_and_made_again(machine, packages):
    machine.do("systemctl", "stop", "kubelet")
    machine.do("rm", "-rf", PLUGINS)
    time.sleep(1)
    machine.start_kubelet()
    machine.allocatable(token=5, full=3, jail=1)


@step
def what_drivers_need_of_the_host(machine, packages):
    machine.write("/usr/local/bin/seats", SEATS, "755")
    machine.do("mknod", "-m", "600", "/dev/card0", "c", "1", "3")
    # The stand-in's is elsewhere.
    machine.do("ln", "-s", "/run/devplug-kubelet/pod-resources", "/var/lib/kubelet/pod-resources")
    machine.configure(CARD, REST, NIC, MEMORY, SEAT, more="kubelet = { pod_resources_interval = 1; };\n")
    machine.do("systemctl", "reload", "devplugd")
    machine.allocatable(card=1, rest=0, nic=0, memory=1, seat=2)
    until(lambda: set(machine.pids()) == {"card", "rest", "nic", "memory", "seat"},
          lambda: f"those before to be gone: {machine.pids()}")
    children_have_no_privilege(machine, packages)

    text = machine.do("cat", "/var/run/cdi/devplugd-vendor.example=card.json")
    name = json.loads(text)["devices"][0]["name"]
    pod = machine.do("devplug-kubelet", "pod", "cards", "--limits", "vendor.example/card=1", "--json")
    check(f"vendor.example/card={name}" in pod, f"no CDI device: {pod}")
    machine.do("devplug-kubelet", "pod", "rm", "cards")

    # It listens to events, or a new interface would be found by the next look. And the pods are asked after, or one that
    # is gone would stay as unhealthy.
    pid = machine.pids()["nic"]
    sockets = machine.do("sh", "-c", f"ls -l /proc/{pid}/fd")
    rows = [line.split() for line in machine.do("cat", f"/proc/{pid}/net/netlink").splitlines()[1:]]
    # Columns: protocol, here NETLINK_KOBJECT_UEVENT; groups; inode.
    check([row for row in rows if row[1] == "15" and int(row[3], 16) and f"socket:[{row[-1]}]" in sockets],
          f"it does not listen to the kernel's or udev's events: {rows}\n{sockets}")
    network = ["nsenter", "-t", str(machine.init), "--net", "ip", "link"]
    subprocess.run([*network, "add", "nic0", "type", "veth", "peer", "name", "other0"], check=True)
    machine.allocatable(nic=1)
    subprocess.run([*network, "delete", "nic0"], check=True)
    machine.allocatable(nic=0)
    until(lambda: not next(r for r in machine.status()["resources"] if r["name"].endswith("/nic"))["devices"],
          lambda: f"the interface to be off the list: {machine.status()}")

    machine.configure(TOKEN % 5, NODE, JAILED)
    machine.do("systemctl", "reload", "devplugd")
    machine.allocatable(token=5, full=3, jail=1)
    until(lambda: machine.run("test", "-e", "/var/run/cdi/devplugd-vendor.example=card.json").returncode != 0,
          "the CDI file to go with its resource")
    machine.do("rm", "/var/lib/kubelet/pod-resources", "/usr/local/bin/seats", "/dev/card0")


@step
def journal_has_fields(machine, packages):
    records = [r for r in machine.journal("-u", "devplugd") if "MESSAGE_ID" in r]
    check({r.get("DEVPLUGD_RESOURCE") for r in records} >= {"vendor.example/token", "vendor.example/full"},
          "no records of resources")
    check(any(r.get("CONFIG_FILE") == CONFIG and "DEVPLUGD_GENERATION" in r for r in records),
          "no record of a configuration")
    check(any("DEVPLUGD_CHILD_PID" in r for r in records), "no record of a child")


@step
def root_for_the_resource_that_asks(machine, packages):
    machine.do("mkdir", "-p", "/etc/systemd/system/devplugd.service.d")
    machine.do("sh", "-c", "zcat -f /usr/share/doc/devplugd/examples/root.conf* "
                           ">/etc/systemd/system/devplugd.service.d/root.conf")
    machine.do("systemctl", "daemon-reload")
    machine.configure(TOKEN % 5, NODE, JAILED, AS_ROOT)
    machine.do("systemctl", "restart", "devplugd")
    machine.allocatable(token=5, full=3, jail=1, root=1)
    children_have_no_privilege_but(machine, "root")
    machine.configure(TOKEN % 5, NODE, JAILED)
    machine.do("rm", "-r", "/etc/systemd/system/devplugd.service.d")
    machine.do("systemctl", "daemon-reload")
    machine.do("systemctl", "restart", "devplugd")
    machine.allocatable(token=5, full=3, jail=1)


def children_have_no_privilege_but(machine, exception):
    for name, pid in machine.pids().items():
        fields = machine.do("sh", "-c", f"grep -E '^(Uid|CapEff)' /proc/{pid}/status").split()
        root = fields[1] == "0"
        check(root == (name == exception), f"{name}: {fields}")
        check(root or int(fields[-1], 16) == 0, f"{name}: {fields}")


class Load(threading.Thread):
    """Pods that come and go."""

    def __init__(self, machine):
        super().__init__(daemon=True)
        self.machine, self.end, self.results = machine, threading.Event(), []

    def run(self):
        number = 0
        while not self.end.is_set():
            number += 1
            started = time.monotonic()
            answer = self.machine.run("devplug-kubelet", "pod", f"load-{number}", "--limits", "vendor.example/token=1",
                                      "--json")
            self.results.append((started, answer.returncode, answer.stdout))
            self.machine.run("devplug-kubelet", "pod", "rm", f"load-{number}")

    def finish(self):
        self.end.set()
        self.join()


@step
def upgraded_under_load(machine, packages):
    machine.do("sh", "-euc", """
        cd /root/packages
        dpkg-deb -R devplugd_*.deb next
        sed -i 's/^Version: .*/&+next/' next/DEBIAN/control
        dpkg-deb -b next next.deb
        echo '# edited' >>/etc/devplugd.conf""")
    events = len(machine.kubelet_events())
    pid = machine.property("MainPID")
    load = Load(machine)
    load.start()
    until(lambda: len(load.results) > 5, "load")
    started = time.monotonic()
    machine.do("dpkg", "-i", "/root/packages/next.deb")
    machine.allocatable(token=5, full=3, jail=1)
    took = time.monotonic() - started
    count = len(load.results)
    until(lambda: len(load.results) > count + 5, "load")
    load.finish()
    check(machine.property("MainPID") != pid, "the upgrade did not restart the service")
    check(machine.do("tail", "-n", "1", CONFIG) == "# edited\n", "the upgrade touched the configuration")
    news = machine.kubelet_events()[events:]
    registered = collections.Counter(e["resource"] for e in news if e.get("event") == "registered")
    check(registered and max(registered.values()) == 1, f"registrations during the upgrade: {registered}")
    refused = [r for r in load.results if r[1] != 0]
    check(load.results[-1][1] == 0, f"pods are refused after the upgrade: {load.results[-1]}")
    print(f"  {len(load.results)} pods, {len(refused)} refused; {dict(registered)}; dpkg until all allocatable {took:.2f} s")


@step
def removed_then_purged(machine, packages):
    machine.do("mknod", "-m", "600", "/dev/card0", "c", "1", "3")
    machine.configure(TOKEN % 5, CARD)
    machine.do("systemctl", "reload", "devplugd")
    machine.allocatable(token=5, card=1)
    machine.do("dpkg", "-r", "devplugd")
    check(machine.run("systemctl", "is-active", "devplugd").stdout.strip() != "active", "it runs after removal")
    sockets = machine.do("ls", PLUGINS).split()
    check(not [s for s in sockets if s.startswith("devplugd")], f"sockets left: {sockets}")
    machine.do("test", "-e", CONFIG)
    check(not machine.run("pgrep", "-u", "devplugd").stdout, "processes left")
    machine.do("systemctl", "stop", "kubelet")
    machine.do("rm", "-rf", "/var/lib/kubelet/pods", "/root/packages", "/usr/local/bin/jail", "/run/devplug-kubelet",
               "/etc/systemd/system/kubelet.service")
    machine.do("sh", "-c", "rm -f /var/lib/kubelet/device-plugins/*")
    machine.do("dpkg", "-P", "devplugd", "devplug-kubelet")
    # Users stay, by policy: their number may own files anywhere.
    users = {f"/etc/{name}{suffix}" for name in ("passwd", "shadow", "group", "gshadow", "subuid", "subgid")
             for suffix in ("", "-")} | {"/etc/.pwd.lock"}
    left = machine.files() - machine.before - users
    check(not left, "left behind:\n" + "\n".join(sorted(left)))


def main():
    tree, folder = sys.argv[1:]
    packages = sorted(p for p in glob.glob(os.path.join(folder, "*.deb")) if "dbgsym" not in p)

    def story(machine):
        for function in steps:
            print(function.__name__.replace("_", " "), flush=True)
            function(machine, packages)

    return live(tree, story)


if __name__ == "__main__":
    sys.exit(main())
