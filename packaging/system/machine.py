# SPDX-License-Identifier: Apache-2.0
"""A tree that is booted as a machine, and the service in it."""
import contextlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time

from waiting import Failure, check, until

HERE = os.path.dirname(os.path.abspath(__file__))
CONFIG = "/etc/devplugd.conf"


class Machine:
    """A booted tree. Commands run inside it; paths are inside it."""

    def __init__(self, tree):
        self.init = 0
        self.scratch = tempfile.mkdtemp(prefix="devplugd-system.")
        self.name = f"devplugd-system-{os.getpid()}"
        with open(os.path.join(self.scratch, "console"), "wb") as console:
            self.process = subprocess.Popen(
                [os.path.join(HERE, "boot"), tree, self.scratch, self.name],
                stdout=console, stderr=console, stdin=subprocess.DEVNULL)

    def await_boot(self):
        self.init = until(self.find_init, self.console)
        until(lambda: self.run("systemctl", "is-system-running").stdout.strip() in ("running", "degraded"),
              self.console)

    def console(self):
        with open(os.path.join(self.scratch, "console"), errors="replace") as file:
            return "the boot\n" + file.read()

    def find_init(self):
        check(self.process.poll() is None, self.console())
        pid = self.process.pid
        with open(f"/proc/{pid}/task/{pid}/children") as file:
            words = file.read().split()
        with contextlib.suppress(OSError, IndexError):
            if os.readlink(f"/proc/{words[0]}/exe").endswith("/systemd"):
                return int(words[0])
        return None

    def run(self, *words, text=None):
        return subprocess.run(["nsenter", "-t", str(self.init), "-a", *words], capture_output=True, text=True,
                              input=text)

    def do(self, *words, text=None):
        """Runs a command that must succeed, and returns what it printed."""
        result = self.run(*words, text=text)
        check(result.returncode == 0, f"{' '.join(words)}: {result.returncode}\n{result.stdout}{result.stderr}")
        return result.stdout

    def write(self, path, text, mode="644"):
        self.do("sh", "-c", f"cat >{path}.new && chmod {mode} {path}.new && mv {path}.new {path}", text=text)

    def send(self, path, target, mode="644"):
        """Copies a file of the host."""
        with open(path, "rb") as file:
            subprocess.run(["nsenter", "-t", str(self.init), "-a", "sh", "-c", f"cat >{target} && chmod {mode} {target}"], stdin=file,
                           check=True)

    def close(self):
        if self.process.poll() is None:
            if self.init:
                os.kill(self.init, 9)
            self.process.kill()
        self.process.wait()
        with open("/proc/mounts") as file:
            unified = next(line.split()[1] for line in file if line.split()[2] == "cgroup2")
        for folder, _, _ in os.walk(os.path.join(unified, self.name), topdown=False):
            for _ in range(100):
                try:
                    os.rmdir(folder)
                    break
                except OSError:
                    time.sleep(0.02)
        shutil.rmtree(self.scratch, ignore_errors=True)

    # --- the service

    def property(self, name, unit="devplugd"):
        return self.do("systemctl", "show", "-P", name, unit).strip()

    def configure(self, *resources, more=""):
        self.write(CONFIG, more + "resources = (\n" + ",\n".join(resources) + "\n);\n")

    def status(self):
        answer = self.run("devplugctl", "status", "--json")
        return json.loads(answer.stdout) if answer.stdout.startswith("{") else {"resources": []}

    def pids(self):
        return {r["name"].split("/")[1]: r["pid"] for r in self.status()["resources"]}

    def allocatable(self, **counts):
        """Waits until the kubelet has that many healthy devices of each resource."""
        words = ",".join(f"vendor.example/{name}={n}" for name, n in counts.items())
        until(lambda: self.run("devplug-kubelet", "wait", words, "--timeout", "5").returncode == 0,
              lambda: f"{words}; there is\n{self.run('devplugctl', 'status').stdout}"
                      f"{self.run('devplug-kubelet', 'status').stdout}")

    def start_kubelet(self):
        # By the name of the real one, which the unit is ordered against.
        self.write("/etc/systemd/system/kubelet.service",
                   "[Service]\nType=exec\nExecStart=/usr/bin/devplug-kubelet run --json\n")
        self.do("systemctl", "daemon-reload")
        self.do("systemctl", "start", "kubelet")

    def journal(self, *words):
        lines = self.do("journalctl", "-o", "json", "--no-pager", "-q", *words).splitlines()
        return [json.loads(line) for line in lines]

    def kubelet_events(self):
        events = []
        for record in self.journal("-u", "kubelet"):
            with contextlib.suppress(ValueError, TypeError):
                event = json.loads(record["MESSAGE"])
                event["at"] = int(record["__MONOTONIC_TIMESTAMP"]) / 1e6
                events.append(event)
        return events

    def files(self):
        """All that a package may leave behind. Logs, caches and the records of dpkg and apt do not count."""
        found = self.do("find", "/etc", "/usr", "/var", "/run", "-xdev", "(", "-path", "/var/lib/dpkg", "-o", "-path",
                        "/var/lib/apt", "-o", "-path", "/var/log", "-o", "-path", "/var/cache", "-o", "-path", "/run/systemd", "-o", "-path",
                        "/run/log", "-o", "-path", "/var/lib/systemd", ")", "-prune", "-o", "-print")
        return set(found.splitlines())


def live(tree, story):
    """Boots the tree and tells the story with that machine. One that fails shows the journal. Returns an exit status."""
    started = time.monotonic()
    machine = Machine(tree)
    try:
        machine.await_boot()
        print(f"booted in {time.monotonic() - started:.1f} s: {machine.do('systemctl', '--version').splitlines()[0]}")
        story(machine)
    except Failure as failure:
        print(f"FAILED: {failure}", file=sys.stderr)
        if machine.init:
            print(machine.run("journalctl", "-n", "80", "--no-pager", "-u", "devplugd").stdout, file=sys.stderr)
        return 1
    finally:
        machine.close()
    print(f"all passed in {time.monotonic() - started:.0f} s")
    return 0
