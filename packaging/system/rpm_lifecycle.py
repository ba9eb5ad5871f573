# SPDX-License-Identifier: Apache-2.0
"""The RPM packages in a booted system: the scriptlets at installation, upgrade and removal, for real.

Usage: rpm_lifecycle.py TREE PACKAGES_FOLDER NEXT_PACKAGES_FOLDER. The tree is Debian's, which has no RPM packages to
depend on, and none of Fedora's file triggers: what these would do is done by hand.
"""
import collections
import glob
import sys
import time

from lifecycle import PLUGINS, TOKEN
from machine import CONFIG, live
from waiting import check

PACKAGES = ("devplugd", "devplug-kubelet")


def rpm(machine, *words):
    return machine.do("rpm", "--force-debian", "--dbpath", "/var/lib/rpm", "--nodeps", *words)


def copy_in(machine, folder, name):
    """Returns the places of both packages in the tree."""
    places = []
    for package in PACKAGES:
        file = next(f for f in glob.glob(f"{folder}/rpm/RPMS/*/{package}-[0-9]*.rpm"))
        places.append(f"/root/{name}-{package}.rpm")
        machine.send(file, places[-1])
    return places


def run_triggers(machine):
    """As systemd's and shadow's packages do after every transaction on Fedora."""
    machine.do("systemd-sysusers")
    machine.do("systemd-tmpfiles", "--create", "devplugd.conf")
    machine.do("systemctl", "daemon-reload")


def installed(machine, packages):
    rpm(machine, "-i", *packages)
    run_triggers(machine)
    check(rpm(machine, "-V", *PACKAGES) == "", "files differ from the package right after installation")
    check(machine.property("ActiveState") != "active", "the installation started it")
    machine.do("systemctl", "enable", "--now", "devplugd")
    check(machine.property("ActiveState") == "active", "it does not start")
    machine.start_kubelet()
    machine.configure(TOKEN % 4)
    machine.do("systemctl", "reload", "devplugd")
    machine.allocatable(token=4)


def upgraded(machine, packages):
    pid, events = machine.property("MainPID"), len(machine.kubelet_events())
    configuration = machine.do("cat", CONFIG)
    started = time.monotonic()
    rpm(machine, "-U", *packages)
    run_triggers(machine)
    machine.allocatable(token=4)
    took = time.monotonic() - started
    check(machine.property("MainPID") != pid, "the upgrade did not restart the service")
    check(machine.property("UnitFileState") == "enabled", "the upgrade disabled it")
    check(machine.do("cat", CONFIG) == configuration, "the upgrade touched the configuration")
    registered = collections.Counter(
        e["resource"] for e in machine.kubelet_events()[events:] if e.get("event") == "registered")
    check(registered == {"vendor.example/token": 1}, f"registrations during the upgrade: {registered}")
    print(f"  rpm -U until all allocatable {took:.2f} s")


def removed(machine, before):
    rpm(machine, "-e", *PACKAGES)
    machine.do("systemctl", "daemon-reload")
    check(machine.run("systemctl", "is-active", "devplugd").stdout.strip() != "active", "it runs after removal")
    check(machine.run("systemctl", "is-enabled", "devplugd").returncode != 0, "it is enabled after removal")
    check(not [s for s in machine.do("ls", PLUGINS).split() if s.startswith("devplugd")], "sockets are left")
    # What operations.md lists: the edited file, and the state.
    machine.do("rm", CONFIG + ".rpmsave")
    machine.do("rm", "-r", "/var/lib/devplugd")
    machine.do("systemctl", "stop", "kubelet")
    machine.do("sh", "-c", "rm -rf /root/*.rpm /run/devplug-kubelet /etc/systemd/system/kubelet.service "
               "/var/lib/kubelet /run/cdi /run/k8s.cni.cncf.io")
    users = {f"/etc/{name}{suffix}" for name in ("passwd", "shadow", "group", "gshadow", "subuid", "subgid")
             for suffix in ("", "-")} | {"/etc/.pwd.lock"}
    # Which the package "filesystem" has where there is one.
    users.add("/usr/share/licenses")
    left = {path for path in machine.files() - before - users if not path.startswith("/var/lib/rpm")}
    check(not left, "left behind:\n" + "\n".join(sorted(left)))


def main():
    tree, first, second = sys.argv[1:]

    def story(machine):
        before = machine.files()
        print("installed", flush=True)
        installed(machine, copy_in(machine, first, "first"))
        print("upgraded", flush=True)
        upgraded(machine, copy_in(machine, second, "second"))
        print("removed", flush=True)
        removed(machine, before)

    return live(tree, story)


if __name__ == "__main__":
    sys.exit(main())
