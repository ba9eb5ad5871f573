# SPDX-License-Identifier: Apache-2.0
"""The life of the package in a booted system, as an administrator lives it: one step after the other.

Usage: lifecycle.py TREE PACKAGES_FOLDER HOSTILE_FOLDER. A step that fails ends the run and shows the journal. Nothing here asserts
how fast something was; what was measured is printed.
"""
import collections
import glob
import json
import os
import subprocess
import sys
import time

from load import Load, pod
from machine import CONFIG, HERE, live
from waiting import check, until

PLUGINS = "/var/lib/kubelet/device-plugins"
METRICS = "devplugd-metrics.socket"

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

# Which of NVIDIA's nodes a child may open, as its last line: "No such device or address" is the kernel's answer without a
# driver, so behind the device policy.
NODES = r"""#!/bin/sh
try() {
	case $(LC_ALL=C dd "$2=/dev/$1" count=0 conv=notrunc 2>&1 </dev/null) in
	*"No such device"*) echo "${1#*/} $2 allowed," ;;
	*"Operation not permitted"*) echo "${1#*/} $2 denied," ;;
	*) echo "${1#*/} $2 fails," ;;
	esac
}
echo $(try nvidiactl if; try nvidiactl of; try nvidia7 of; try nvidia-caps/nvidia-cap2 if; try nvidia-caps/nvidia-cap2 of; try render of; try neighbour if)
exit 1
"""
NODES_SHOWN = ("nvidiactl if allowed, nvidiactl of allowed, nvidia7 of allowed, nvidia-cap2 if %s, "
               "nvidia-cap2 of denied, render of allowed, neighbour if denied,")
UDEV_RULES = "/usr/lib/udev/rules.d/60-devplugd.rules"

TOKEN = """{ name = "vendor.example/token"; driver = "static"; match = ( { count = %d; } ); }"""
NODE = """{ name = "vendor.example/full"; driver = "path"; match = "/dev/full"; share = { replicas = 3; }; }"""
JAILED = """{ name = "vendor.example/jail"; driver = "static"; match = ( { id = "jail"; } );
  health = ( { probe = "exec"; command = [ "/usr/local/bin/jail" ]; interval = 1; } ); }"""
NVIDIA = """{ name = "vendor.example/nodes"; driver = "static"; match = ( { id = "all"; } );
  health = ( { probe = "exec"; command = [ "/usr/local/bin/nodes" ]; interval = 1; } ); }"""
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


def check_security(machine, threshold):
    says = machine.do("systemd-analyze", "security", "--no-pager", f"--threshold={threshold}", "devplugd.service")
    print("  " + says.strip().splitlines()[-1])


@step
def installed_enabled_and_waiting(machine, packages):
    machine.before = machine.files()
    machine.do("mkdir", "-p", "/root/packages")
    for package in packages:
        machine.send(package, f"/root/packages/{os.path.basename(package)}")
    machine.do("sh", "-c", "dpkg -i /root/packages/devplugd_*.deb")
    check_security(machine, 20)
    machine.do("sh", "-c", "dpkg -i /root/packages/devplugd-*.deb /root/packages/devplug-kubelet_*.deb")
    machine.do("systemctl", "restart", "devplugd")
    check("AF_INET" in machine.property("RestrictAddressFamilies").split(), "devplugd-cluster may not open network sockets")
    check("network-online.target" in machine.property("After").split(), "devplugd-cluster may see another name of the host")
    hidden = machine.property("InaccessiblePaths")
    check("/var/lib/kubelet/pods" in hidden and "/var/lib/kubelet/pki" not in hidden, "the kubelet's credentials are hidden")
    check(machine.property("ActiveState") == "active", "it is not active after installation")
    check(machine.property("UnitFileState") == "enabled", "it is not enabled after installation")
    check(machine.property("StatusText"), "it has no status text")
    check("kubelet.service" in machine.property("Before").split(), "it is not ordered before the kubelet")
    machine.do("id", "devplugd")
    says = machine.do("systemd-analyze", "verify", "--man=no", "devplugd.service")
    check(not says, f"systemd-analyze verify: {says}")
    # devplugd-cluster needs the network.
    check_security(machine, 21)


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
def members_of_the_group_may_look(machine, packages):
    for group, refused in (("devplugd-view", False), ("nogroup", True)):
        answer = machine.run("setpriv", "--reuid=nobody", "--regid=nogroup", f"--groups={group}", "devplugctl", "status")
        check(answer.returncode == int(refused) and ("only root and members" in answer.stderr) == refused,
              f"{group}: {answer.returncode}\n{answer.stdout}{answer.stderr}")


@step
def children_have_no_privilege(machine, packages):
    uids = {machine.do("id", "-u", "devplugd").strip(), "0"}

    def status(pid):
        text = machine.do("cat", f"/proc/{pid}/status")
        return dict(line.split(":\t", 1) for line in text.splitlines() if ":\t" in line)

    filters = int(status(machine.property("MainPID"))["Seccomp_filters"])
    for name, pid in machine.pids().items():
        fields = status(pid)
        uid = fields["Uid"].split()[0]
        check(fields["Uid"].split() == [uid] * 4 and fields["Gid"].split() == [uid] * 4, f"{name}: Uid {fields['Uid']}")
        check(uid not in uids, f"{name}: user {uid} is not its own")
        check(fields["Groups"].strip() == "", f"{name}: groups {fields['Groups']}")
        uids.add(uid)
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
def nodes_of_gpus_are_allowed_when_their_driver_comes(machine, packages):
    """The number of NVIDIA's MIG nodes is assigned when the driver is loaded, and udev's rule has systemd read it then."""
    def reason():
        resource = next((r for r in machine.status()["resources"] if r["name"].endswith("/nodes")), {"devices": []})
        return resource["devices"][0]["reason"] if resource["devices"] else ""

    before = {name: machine.pids()[name] for name in ("token", "full", "jail")}, machine.property("MainPID")
    taken = {line.split()[0] for line in machine.do("cat", "/proc/devices").splitlines() if line[:3].strip().isdigit()}
    number = next(str(n) for n in range(511, 384, -1) if str(n) not in taken)
    machine.write("/usr/local/bin/nodes", NODES, "755")
    machine.do("mkdir", "/dev/nvidia-caps")
    for node, major, minor in (("nvidiactl", "195", "255"), ("nvidia7", "195", "7"), ("nvidia-caps/nvidia-cap2", number, "2"),
                               ("render", "226", "191"), ("neighbour", str(int(number) - 1), "2")):
        machine.do("mknod", "-m", "666", f"/dev/{node}", "c", major, minor)
    machine.configure(TOKEN % 4, NODE, JAILED, NVIDIA)
    machine.do("systemctl", "reload", "devplugd")
    until(lambda: NODES_SHOWN % "denied" in reason(), reason)
    # As if the driver were loaded.
    machine.write("/run/devices", machine.do("cat", "/proc/devices").replace(
        "Character devices:\n", f"Character devices:\n{number} nvidia-caps\n"))
    machine.do("mount", "--bind", "/run/devices", "/proc/devices")
    command = machine.do("sed", "-n", 's/^.*RUN+="\\(.*\\)"$/\\1/p', UDEV_RULES).replace("$$", "$")
    machine.do("sh", "-ec", command)
    until(lambda: NODES_SHOWN % "allowed" in reason(), reason)
    machine.do("umount", "/proc/devices")
    check(({name: machine.pids()[name] for name in ("token", "full", "jail")}, machine.property("MainPID")) == before,
          "processes were restarted")
    machine.configure(TOKEN % 4, NODE, JAILED)
    machine.do("systemctl", "reload", "devplugd")
    machine.allocatable(token=4, full=3, jail=1)
    until(lambda: set(machine.pids()) == {"token", "full", "jail"}, lambda: f"{machine.pids()}")
    # An administrator's policy stays.
    machine.do("systemctl", "set-property", "--runtime", "devplugd.service", "DevicePolicy=auto")
    machine.do("sh", "-ec", command)
    check(machine.property("DevicePolicy") == "auto", "the rule changed the policy")
    machine.do("rm", "-r", "/run/systemd/system.control/devplugd.service.d", "/dev/nvidia-caps", "/dev/nvidiactl", "/dev/nvidia7",
               "/dev/render", "/dev/neighbour", "/run/devices", "/usr/local/bin/nodes")
    machine.do("systemctl", "daemon-reload")


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
def kubelet_root_missing_replaced_and_elsewhere(machine, packages):
    allowed = "/etc/systemd/system/devplugd.service.d/60-allow.conf"
    registry = "/var/lib/k0s/kubelet/plugins_registry"
    machine.do("systemctl", "stop", "kubelet", "devplugd")
    machine.do("rm", "-rf", "/var/lib/kubelet")
    machine.do("systemctl", "start", "devplugd")
    machine.start_kubelet()
    machine.allocatable(token=5, full=3, jail=1)
    machine.do("systemctl", "stop", "kubelet")
    machine.do("rm", "-rf", "/var/lib/kubelet")
    # With the mode that a kubelet gives it.
    machine.do("mkdir", "-m", "750", "/var/lib/kubelet")
    machine.start_kubelet()
    machine.allocatable(token=5, full=3, jail=1)
    check(int(machine.property("NRestarts")) > 0, "it was not started with a new view")
    # As with k0s.
    before = machine.do("cat", CONFIG)
    machine.configure(TOKEN % 2, more='kubelet = { root_dir = "/var/lib/k0s/kubelet"; registration = "watcher"; };\n')
    machine.do("mkdir", "-p", registry)
    machine.do("systemctl", "reload", "devplugd")
    remedy = f'run "devplugctl allow {registry} && systemctl restart devplugd"'
    until(lambda: remedy in machine.run("devplugctl", "explain", "vendor.example/token").stdout,
          lambda: machine.run("devplugctl", "explain", "vendor.example/token").stdout)
    check(remedy in machine.run("devplugd", "--check").stderr, "--check does not name the remedy")
    machine.do("sh", "-c", f"devplugctl allow {registry} && systemctl restart devplugd")
    until(lambda: machine.do("ls", registry), lambda: machine.run("devplugctl", "explain", "vendor.example/token").stdout)
    machine.do("rm", allowed)
    machine.do("rmdir", os.path.dirname(allowed))
    machine.do("systemctl", "daemon-reload")
    machine.write(CONFIG, before)
    machine.do("systemctl", "restart", "devplugd")
    machine.do("rm", "-rf", "/var/lib/k0s")
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
    """Without a drop-in with the capabilities of the service, and with it with more."""
    machine.configure(TOKEN % 5, NODE, JAILED, AS_ROOT)
    machine.do("systemctl", "reload", "devplugd")
    machine.allocatable(token=5, full=3, jail=1, root=1)
    children_have_no_privilege_but(machine, "root")
    machine.do("mkdir", "-p", "/etc/systemd/system/devplugd.service.d")
    machine.do("sh", "-c", "cat /usr/share/doc/devplugd/examples/systemd/root.conf "
                           ">/etc/systemd/system/devplugd.service.d/root.conf")
    machine.do("systemctl", "daemon-reload")
    machine.do("systemctl", "restart", "devplugd")
    machine.allocatable(token=5, full=3, jail=1, root=1)
    check(children_have_no_privilege_but(machine, "root") >> 21 & 1, "CAP_SYS_ADMIN does not reach the child of root")
    machine.configure(TOKEN % 5, NODE, JAILED)
    machine.do("rm", "-r", "/etc/systemd/system/devplugd.service.d")
    machine.do("systemctl", "daemon-reload")
    machine.do("systemctl", "restart", "devplugd")
    machine.allocatable(token=5, full=3, jail=1)


def children_have_no_privilege_but(machine, exception):
    """Returns the capabilities of the exception."""
    exceptional = 0
    for name, pid in machine.pids().items():
        fields = machine.do("sh", "-c", f"grep -E '^(Uid|CapEff)' /proc/{pid}/status").split()
        root, capabilities = fields[1] == "0", int(fields[-1], 16)
        check(root == (name == exception), f"{name}: {fields}")
        check(root or capabilities == 0, f"{name}: {fields}")
        if name == exception:
            exceptional = capabilities
    return exceptional


# What takes its place beside devplugd, and what it is told (tests/sandbox/hostile-child.c).
HOSTILE = "/usr/sbin/devplugd-plugin"
TOLD = "/usr/sbin/hostile"
EVIL = """{ name = "vendor.example/evil"; driver = "static"; match = ( { count = 1; } ); }"""
# Kinds of attack, and what the journal has once for each.
ATTACKS = (("touch", "possible: -"), ("linger", "the child sent a malformed message"),
           ("claims", "the devices that were found last are not offered"))


def attack(machine, unit, kind, logged, start):
    """One kind, by the unit or as root. Nobody but the attacker notices."""
    real = machine.do("sh", "-c", "ls /usr/libexec/devplugd/devplugd-plugin /usr/lib/devplugd/devplugd-plugin 2>/dev/null || "
                      "dpkg -L devplugd | grep '/devplugd-plugin$'").split()[0]
    machine.write(TOLD, f"{real}\n{kind}\n/run/devplugd\n/var/run/cdi\n")
    cursor = machine.do("journalctl", "-n", "0", "--show-cursor", "-q").split("cursor:")[-1].strip()
    machine.do(*start)
    machine.allocatable(token=5, card=1)
    before = machine.pids()

    def count(words):
        messages = [r["MESSAGE"] for r in machine.journal("-u", unit, "--after-cursor", cursor)]
        return len([m for m in messages if isinstance(m, str) and words in m and "last log line" not in m])

    until(lambda: count(logged) > 0, lambda: f"{kind}: the journal to have \"{logged}\"")
    check(count("possible:") == count("possible: -"), f"{kind}: something was possible")
    machine.do("devplugctl", "reload")
    machine.run("systemctl", "stop", unit)
    attempts, records = count("attempt: " + kind), count(logged)
    # The last attempt may have been cut off by the stop.
    check(attempts - records in (0, 1), f"{kind}: {attempts} attempts, {records} records")
    after = {name: pid for name, pid in before.items() if name != "evil"}
    check(after.keys() >= {"token", "card"}, f"processes: {before}")
    print(f"  {unit}, {kind}: {attempts} attempts, each logged once")


@step
def a_hostile_child_gains_nothing(machine, packages):
    """As the unit starts it and as root, with Landlock and without."""
    for name, place in (("devplugd-hostile-child", HOSTILE), ("devplugd-without-landlock", "/usr/local/bin/without-landlock")):
        machine.send(os.path.join(machine.hostile, name), place, "755")
    machine.do("mknod", "-m", "600", "/dev/card0", "c", "1", "3")
    machine.configure(TOKEN % 5, CARD, EVIL)
    machine.do("systemctl", "stop", "devplugd")
    dropin = "/etc/systemd/system/devplugd.service.d"
    machine.do("mkdir", "-p", dropin)
    for without in ([], ["/usr/local/bin/without-landlock"]):
        command = " ".join([*without, "/usr/sbin/devplugd"])
        machine.write(f"{dropin}/hostile.conf", f"[Service]\nExecStart=\nExecStart={command}\n")
        machine.do("systemctl", "daemon-reload")
        for kind, logged in ATTACKS:
            attack(machine, "devplugd", kind, logged, ["systemctl", "start", "devplugd"])
            attack(machine, "devplugd-as-root", kind, logged,
                   ["systemd-run", "--unit=devplugd-as-root", "--service-type=notify", "--property=RuntimeDirectory=devplugd",
                    *without, "/usr/sbin/devplugd"])
    lacks = [r for r in machine.journal("-u", "devplugd") if "this kernel has no Landlock" in str(r["MESSAGE"])]
    check(len(lacks) == len(ATTACKS), f"{len(lacks)} notices that Landlock is missing")
    machine.do("rm", "-r", dropin, HOSTILE, TOLD, "/usr/local/bin/without-landlock", "/dev/card0")
    machine.do("systemctl", "daemon-reload")
    machine.configure(TOKEN % 5, NODE, JAILED)
    machine.do("systemctl", "start", "devplugd")
    machine.allocatable(token=5, full=3, jail=1)


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
    with Load(pod(machine, "--limits", "vendor.example/token=1")) as load:
        until(lambda: len(load.results) > 5, "load")
        started = time.monotonic()
        machine.do("dpkg", "-i", "/root/packages/next.deb")
        machine.allocatable(token=5, full=3, jail=1)
        took = time.monotonic() - started
        count = len(load.results)
        until(lambda: len(load.results) > count + 5, "load")
    check(machine.property("MainPID") != pid, "the upgrade did not restart the service")
    check(machine.do("tail", "-n", "1", CONFIG) == "# edited\n", "the upgrade touched the configuration")
    news = machine.kubelet_events()[events:]
    registered = collections.Counter(e["resource"] for e in news if e.get("event") == "registered")
    check(registered and max(registered.values()) == 1, f"registrations during the upgrade: {registered}")
    check(load.results[-1][1] == 0, f"pods are refused after the upgrade: {load.results[-1]}")
    print(f"  {load.summary()}; {dict(registered)}; dpkg until all allocatable {took:.2f} s")


@step
def the_metrics_socket_survives_an_upgrade(machine, packages):
    machine.do("systemctl", "enable", METRICS)
    machine.do("systemctl", "stop", "devplugd")
    machine.do("systemctl", "start", METRICS, "devplugd")
    machine.do("sh", "-c", "dpkg -i /root/packages/devplugd*.deb")
    check(machine.property("ActiveState", METRICS) == "active", "the upgrade stopped the socket")
    until(lambda: machine.run("pgrep", "-f", "devplugd-exporter").stdout, "the exporter")


@step
def the_former_package_is_replaced(machine, packages):
    """devplugd-cluster was called devplugd-dra."""
    directory = "devplugd.service.d"
    machine.do("dpkg", "-P", "devplugd-dra", "devplugd-cluster")
    machine.do("sh", "-euc", f"""
        cd /root/packages
        mkdir -p former/DEBIAN former/usr/libexec/devplugd former/lib/systemd/system/{directory}
        printf '[Service]\\n' >former/lib/systemd/system/{directory}/devplugd-dra.conf
        touch former/usr/libexec/devplugd/devplugd-dra
        printf '%s\\n' 'Package: devplugd-dra' 'Version: 0.0.9-1' 'Architecture: all' 'Depends: devplugd' \\
            'Maintainer: a <a@a.example>' 'Description: former package' >former/DEBIAN/control
        dpkg-deb -b former former.deb
        dpkg -i former.deb
        apt-get -y install ./devplugd-dra_*.deb ./devplugd-cluster_*.deb""")
    machine.do("systemctl", "restart", "devplugd")
    check("AF_INET" in machine.property("RestrictAddressFamilies").split(), "devplugd-cluster may not open network sockets")
    left = machine.do("find", "/lib/systemd/system/" + directory, "/usr/libexec/devplugd", "-name", "*-dra*")
    check(not left, f"of the former package: {left}")


@step
def removed_then_purged(machine, packages):
    machine.do("mknod", "-m", "600", "/dev/card0", "c", "1", "3")
    machine.configure(TOKEN % 5, CARD)
    machine.do("systemctl", "reload", "devplugd")
    machine.allocatable(token=5, card=1)
    machine.do("dpkg", "-r", "devplugd-dra", "devplugd-cluster", "devplugd-exporter", "devplugd")
    for unit in ("devplugd", METRICS):
        check(machine.run("systemctl", "is-active", unit).stdout.strip() != "active", f"{unit} is active after removal")
    sockets = machine.do("ls", PLUGINS).split()
    check(not [s for s in sockets if s.startswith("devplugd")], f"sockets left: {sockets}")
    machine.do("test", "-e", CONFIG)
    check(not machine.run("pgrep", "-u", "devplugd").stdout, "processes left")
    machine.do("systemctl", "stop", "kubelet")
    machine.do("rm", "-rf", "/var/lib/kubelet/pods", "/root/packages", "/usr/local/bin/jail", "/run/devplug-kubelet",
               "/etc/systemd/system/kubelet.service")
    machine.do("sh", "-c", "rm -f /var/lib/kubelet/device-plugins/*")
    machine.do("dpkg", "-P", "devplugd-dra", "devplugd-cluster", "devplugd-exporter", "devplugd", "devplug-kubelet")
    # Users stay, by policy: their number may own files anywhere.
    users = {f"/etc/{name}{suffix}" for name in ("passwd", "shadow", "group", "gshadow", "subuid", "subgid")
             for suffix in ("", "-")} | {"/etc/.pwd.lock"}
    left = machine.files() - machine.before - users
    check(not left, "left behind:\n" + "\n".join(sorted(left)))


def main():
    tree, folder, hostile = sys.argv[1:]
    packages = sorted(p for p in glob.glob(os.path.join(folder, "*.deb")) if "dbgsym" not in p)

    def story(machine):
        machine.hostile = hostile
        for function in steps:
            print(function.__name__.replace("_", " "), flush=True)
            function(machine, packages)

    return live(tree, story)


if __name__ == "__main__":
    sys.exit(main())
