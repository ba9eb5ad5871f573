# SPDX-License-Identifier: Apache-2.0
"""A node in a temporary folder: devplug-kubelet and devplugd, started, stopped and asked like on a real one.

Programs come from the folder in $DEVPLUGD_BIN. Waiting is always for a condition, with a generous limit that
only a hang reaches; nothing here asserts how fast something was.
"""
import collections
import contextlib
import json
import os
import shutil
import signal
import socket
import stat
import subprocess
import sys
import tempfile
import time
import unittest
from resource import RUSAGE_CHILDREN, RUSAGE_SELF, getrusage

BIN = os.environ.get("DEVPLUGD_BIN", os.path.join(os.path.dirname(__file__), "../../build/bin"))
# The calls that fail under devplugd, and under its children (tests/faults).
FAULTS = os.environ.get("DEVPLUGD_TEST_FAULTS", "")
CHILD_FAULTS = os.environ.get("DEVPLUGD_TEST_CHILD_FAULTS", "")


def is_sanitized():
    """Whether the programs were built with the address sanitizer: slower, and memory tells nothing."""
    with open(os.path.join(BIN, "devplugd"), "rb") as file:
        return b"__asan_init" in file.read()


# Failing starts of children are repeated at growing distances.
LIMIT = float(os.environ.get("DEVPLUGD_TEST_LIMIT") or (240 if FAULTS or CHILD_FAULTS else 120))
SANITIZED = is_sanitized()
# A factor for the counts that a test names; the promises require 1.
SCALE = float(os.environ.get("DEVPLUGD_TEST_SCALE") or (0.2 if SANITIZED else 1))
# Fixed, so that a failure can be repeated. Set the variable to try other sequences.
SEED = int(os.environ.get("DEVPLUGD_TEST_SEED") or 1)


def program(name):
    return os.path.join(BIN, name)


def scaled(count):
    return max(1, round(count * SCALE))


def processor_time():
    """The seconds that this process and the programs that it has run have used."""
    return sum(usage.ru_utime + usage.ru_stime for usage in map(getrusage, (RUSAGE_SELF, RUSAGE_CHILDREN)))


def until(condition, what, limit=LIMIT):
    """Returns the first true value of condition(). One that runs a program takes at most a quarter of a processor. `what` is a text, or
    a function that makes it."""
    end = time.monotonic() + limit
    while True:
        before = processor_time()
        value = condition()
        if value:
            return value
        if time.monotonic() > end:
            raise AssertionError(f"waited {limit:.0f} s in vain for: {what() if callable(what) else what}")
        time.sleep(min(max(0.025, 3 * (processor_time() - before)), 0.25))


def files_for_others(folder):
    """What container runtimes and CNI plugins read there: devplugd's list of its own files is not for them."""
    return sorted(name for name in os.listdir(folder) if not name.startswith("."))


def make_node(path):
    """A device node with the number of /dev/null, and the directory for it."""
    os.makedirs(os.path.dirname(path), exist_ok=True)
    os.mknod(path, stat.S_IFCHR | 0o666, os.makedev(1, 3))


def remove_tree(path):
    """Also while devplugd removes files in it, or makes some."""
    until(lambda: shutil.rmtree(path, ignore_errors=True) or not os.path.exists(path), f"{path} to be removed")


# How the unit starts devplugd: as a user of its own, with the capabilities that it has there.
UNIT_UID = 60001
UNIT_CAPABILITIES = "dac_override setuid setgid kill".split()


def as_unit():
    words = "".join(f",+{word}" for word in UNIT_CAPABILITIES)
    return ["setpriv", f"--reuid={UNIT_UID}", f"--regid={UNIT_UID}", "--clear-groups", f"--inh-caps=-all{words}",
            f"--ambient-caps=-all{words}", f"--bounding-set=-all{words}", "--no-new-privs"]


def read_memfd(fd):
    try:
        return os.pread(fd, os.fstat(fd).st_size, 0)
    finally:
        os.close(fd)


class Client:
    """A client of the control socket of the devplugd that uses a runtime_dir."""

    def __init__(self, run, name="control"):
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.socket.settimeout(LIMIT)
        try:
            self.socket.connect(os.path.join(run, name))
        except OSError:
            self.socket.close()
            raise

    def close(self):
        self.socket.close()

    def send(self, verb, **members):
        self.socket.send(json.dumps({"version": 1, "verb": verb, **members}).encode())

    def receive(self):
        """A packet, and the document in the memfd that came with it, or None."""
        packet, fds, _, _ = socket.recv_fds(self.socket, 1 << 16, 1)
        if not packet:
            raise ConnectionError("devplugd closed the connection")
        return json.loads(packet), json.loads(read_memfd(fds[0])) if fds else None

    def ask(self, verb="status", **members):
        """The answer to a request, and the documents of devices that follow it, by resource."""
        self.send(verb, **members)
        packet, document = self.receive()
        answer, documents = document or packet, {}
        while answer.get("devices_follow"):
            packet, document = self.receive()
            if document is None:
                break
            documents[packet["resource"]] = document
        return answer, documents


class Node:
    def __init__(self):
        self.dir = tempfile.mkdtemp(prefix="devplugd-test.")
        os.chmod(self.dir, 0o755)
        self.config = os.path.join(self.dir, "devplugd.conf")
        self.plugins = os.path.join(self.dir, "plugins")
        self.run = os.path.join(self.dir, "run")
        self.kubelet_state = os.path.join(self.dir, "kubelet")
        self.kubelet = self.daemon = None
        self.frozen_kubelets = []
        self.kubelet_options = []
        self.daemon_program = program("devplugd")
        self.environment = {}
        self.prefix = []  # of the command that starts devplugd
        self.fds = []  # that it inherits
        if FAULTS:
            self.inject(FAULTS)
        if CHILD_FAULTS:
            self.prepare_children(CHILD_FAULTS)

    def close(self):
        for process in (self.daemon, self.kubelet, *self.frozen_kubelets):
            if process and process.poll() is None:
                process.kill()
                process.wait()
        shutil.rmtree(self.dir, ignore_errors=True)

    def path(self, name):
        return os.path.join(self.dir, name)

    # --- configuration

    def configure(self, *resources, text="", kubelet=""):
        body = ",\n".join(resources)
        with open(self.config + ".new", "w") as file:
            file.write(
                f'runtime_dir = "{self.run}";\n'
                f'kubelet = {{ device_plugin_dir = "{self.plugins}"; {kubelet} }};\n'
                f"{text}\nresources = (\n{body}\n);\n"
            )
        os.rename(self.config + ".new", self.config)

    # --- faults (tests/faults)

    def inject(self, faults):
        """Makes system calls of devplugd fail from its next start on."""
        # A sanitizer's library insists on being the first one, but need not be.
        sanitizer = os.environ.get("ASAN_OPTIONS", "") + ":verify_asan_link_order=0"
        self.environment.update(
            LD_PRELOAD=program("libdevplugd-faults.so"), DEVPLUGD_FAULTS=f"{faults} seed={SEED}",
            ASAN_OPTIONS=sanitizer.lstrip(":"))

    def prepare_children(self, faults=""):
        """Lets children be driven mad, and system calls of theirs fail."""
        folder = self.path("bin")
        self.mischief = self.path("mischief")
        os.mkdir(folder)
        os.mkdir(self.mischief)
        self.daemon_program = shutil.copy(program("devplugd"), folder)
        shutil.copy(program("devplugd-faulty-plugin"), os.path.join(folder, "devplugd-plugin"))
        # A child is another user, who may not be able to enter the folder of the build (a clone in root's home).
        child = shutil.copy(program("devplugd-plugin"), os.path.join(folder, "plugin"))
        library = shutil.copy(program("libdevplugd-faults.so"), folder)
        with open(os.path.join(folder, "environment"), "w") as file:
            file.write(f"{child}\nLD_PRELOAD={library}\n"
                       f"DEVPLUGD_FAULTS={faults} seed={SEED}\nDEVPLUGD_MISCHIEF={self.mischief}\n"
                       "ASAN_OPTIONS=verify_asan_link_order=0\n")

    def drive_mad(self, name, kind):
        """kind: spin, flood (of the control socket) or babble (on stderr); forgive() ends spinning."""
        with open(os.path.join(self.mischief, f"{name}.{kind}"), "w"):
            pass

    def forgive(self, name, kind):
        os.unlink(os.path.join(self.mischief, f"{name}.{kind}"))

    # --- devplugd

    def start(self, *options):
        with open(self.path("devplugd.log"), "ab") as log:
            self.daemon = subprocess.Popen(
                [*self.prefix, self.daemon_program, "-c", self.config, *options], stderr=log, stdout=log,
                pass_fds=self.fds, env={**os.environ, **self.environment})

    def reload(self):
        before = self.generation()
        self.daemon.send_signal(signal.SIGHUP)
        # An earlier signal may have been about to do the same.
        until(lambda: self.generation() > before, "the reload to take effect")

    def stop(self, number=signal.SIGTERM):
        self.daemon.send_signal(number)
        code = self.daemon.wait(timeout=LIMIT)
        self.daemon = None
        return code

    def output(self):
        with open(self.path("devplugd.log"), errors="replace") as file:
            return file.read()

    def status(self):
        """The parsed answer of devplugctl status --json, or None while there is none."""
        answer = subprocess.run(
            [program("devplugctl"), "-c", self.config, "status", "--json"], capture_output=True
        )
        return json.loads(answer.stdout) if answer.returncode == 0 else None

    def ask(self, verb="status", **members):
        """What the daemon answers, as Client.ask(); without a process for each request."""
        client = Client(self.run)
        try:
            return client.ask(verb, **members)
        finally:
            client.close()

    def state(self):
        """What devplugctl status shows, without the devices; or None while no daemon answers. One in which faults are
        injected may fail to answer, and is asked again."""
        for _ in range(50 if self.environment else 1):
            with contextlib.suppress(FileNotFoundError, ConnectionError):
                return self.ask()[0]
        return None

    def processes(self):
        """Resources by the pid of their live child, as the kernel knows them at this moment."""
        names = {}
        for pid in children_of(self.daemon.pid):
            try:
                with open(f"/proc/{pid}/cmdline") as file:
                    words = file.read().split("\0")
            except (FileNotFoundError, ProcessLookupError):
                continue
            if len(words) > 1 and words[0].endswith("devplugd-plugin") and "/" in words[1]:
                names[pid] = words[1]
        return names

    def sockets(self):
        """Names of the sockets in the plugin directory, without the kubelet's."""
        with os.scandir(self.plugins) as entries:
            return [entry.name for entry in entries if entry.name != "kubelet.sock" and is_socket(entry)]

    def generation(self):
        state = self.state()
        return state["generation"] if state else 0

    def find(self, name):
        """As resource(), without what the resource's process reports, and without a program."""
        return next((found for found in until(self.state, "an answer of the daemon")["resources"] if found["name"] == name), None)

    def resource(self, name):
        """What devplugctl shows of a resource, or None. On a busy machine, a request may end without an answer."""
        for resource in until(self.status, "an answer of the daemon")["resources"]:
            if resource["name"] == name:
                return resource
        return None

    def await_serving(self):
        """Waits until every resource serves, and returns them by name."""

        def serve(status):
            resources = status["resources"] if status else []
            return resources and all(r["state"] == "serving" for r in resources) and status

        status = until(lambda: serve(self.state()) and serve(self.status()), "all resources to serve")
        return {r["name"]: r for r in status["resources"]}

    def await_state(self, name, state):
        def look():
            found = self.find(name)
            full = self.resource(name) if found and found["state"] == state else None
            return full if full and full["state"] == state else None

        return until(look, lambda: f"{name} to be {state}; last {self.resource(name)}")

    # --- the kubelet

    def start_kubelet(self, *options):
        with open(self.path("kubelet.log"), "ab") as log:
            self.kubelet = subprocess.Popen(
                [program("devplug-kubelet"), "run", "--plugin-dir", self.plugins, "--state-dir",
                 self.kubelet_state, "--json", *(options or self.kubelet_options)],
                stdout=log, stderr=log,
            )

    def stop_kubelet(self, number=signal.SIGTERM):
        self.kubelet.send_signal(number)
        self.kubelet.wait(timeout=LIMIT)
        self.kubelet = None

    def replace_kubelet(self, *options):
        """Starts a kubelet beside the one that ran, which hangs from now on. Returns the latter's process."""
        hanging, self.kubelet = self.kubelet, None
        self.frozen_kubelets.append(hanging)
        hanging.send_signal(signal.SIGSTOP)
        self.start_kubelet("--replace", *(options or self.kubelet_options))
        return hanging

    def kubelet_events(self):
        with open(self.path("kubelet.log")) as file:
            events = []
            for line in file:
                try:
                    events.append(json.loads(line))
                except ValueError:
                    continue
            return events

    def call_kubelet(self, command, **arguments):
        """One command over the control socket of devplug-kubelet; what the verbs of its program do."""
        with socket.socket(socket.AF_UNIX) as peer:
            peer.settimeout(LIMIT)
            peer.connect(os.path.join(self.kubelet_state, "control"))
            peer.sendall(json.dumps({"command": command, **arguments}).encode() + b"\n")
            reply = bytearray()
            while not reply.endswith(b"\n"):
                part = peer.recv(1 << 20)
                if not part:
                    raise ConnectionError("devplug-kubelet closed the connection")
                reply += part
        return json.loads(reply)

    def ask_kubelet(self, *words):
        return subprocess.run(
            [program("devplug-kubelet"), *words, "--state-dir", self.kubelet_state],
            capture_output=True, text=True,
        )

    def await_allocatable(self, **counts):
        """Waits until each resource vendor.example/NAME has that many allocatable devices."""
        wanted = ",".join(f"vendor.example/{name}={n}" for name, n in counts.items())

        def look():
            # The kubelet itself may not run yet, or may just be restarted.
            return self.ask_kubelet("wait", wanted, "--timeout", "5").returncode == 0

        until(look, lambda: f"allocatable {wanted}; kubelet {self.node_resources()}; daemon:\n{self.output()}")

    def kubelet_status(self):
        """What "devplug-kubelet status --json" prints, or None while no kubelet answers."""
        with contextlib.suppress(OSError):
            return self.call_kubelet("status")
        return None

    def node_resources(self):
        status = self.kubelet_status()
        return {r["name"]: r for r in status["resources"]} if status else {}

    def pod(self, name, **limits):
        """Admits a pod. Returns (what its container gets, None) or (None, the pod's status)."""
        words = ",".join(f"vendor.example/{key}={n}" for key, n in limits.items())
        answer = self.ask_kubelet("pod", name, "--limits", words, "--json")
        result = json.loads(answer.stdout)
        if answer.returncode != 0:
            return None, result
        return {"resources": result["resources"], **result["container"]}, None


def is_socket(entry):
    try:
        return stat.S_ISSOCK(entry.stat(follow_symlinks=False).st_mode)
    except FileNotFoundError:
        return False  # it was a temporary file


def children_of(pid):
    """None if the process has just ended."""
    try:
        with open(f"/proc/{pid}/task/{pid}/children") as file:
            return [int(word) for word in file.read().split()]
    except (FileNotFoundError, ProcessLookupError):
        return []


def command_line(pid):
    """Without a word if the process has just ended."""
    try:
        with open(f"/proc/{pid}/cmdline") as file:
            return file.read().rstrip("\0").split("\0")
    except (FileNotFoundError, ProcessLookupError):
        return []


def template_of(pid):
    """The process that devplugd makes its children from, or None."""
    for child in children_of(pid):
        if command_line(child)[1:] == ["--template"]:
            return child
    return None


def plugins_of(pid):
    """The children of devplugd that serve resources, whose names have a "/"."""
    return [child for child in children_of(pid) if "/" in "".join(command_line(child)[1:2])]


def client_of(pid):
    """The process that registers resources with the kubelet, or None while there is nothing to register."""
    return next((child for child in children_of(pid) if command_line(child)[1:] == ["kubelet-client"]), None)


def process_status(pid):
    """The fields of /proc/PID/status."""
    with open(f"/proc/{pid}/status") as file:
        return dict(line.rstrip("\n").split(":\t", 1) for line in file if ":\t" in line)


def runs_no_programs(pid):
    """Whether a process has given up programs: a filter of its own on top of that of all children (Linux 5.9)."""
    return SANITIZED or int(process_status(pid).get("Seccomp_filters", 2)) == 2


def is_gone(pid):
    """Whether a process has ended, also if its parent has not asked for its exit status yet."""
    try:
        return process_status(pid)["State"][0] in "ZX"
    except (FileNotFoundError, ProcessLookupError, KeyError):
        return True


class NodeTest(unittest.TestCase):
    """A test with a node of its own; shows what devplugd said if it fails."""

    def setUp(self):
        if os.geteuid() != 0:
            self.skipTest("needs root, as a kubelet does")
        self.node = Node()
        self.said = ""
        self.addCleanup(self.node.close)
        self.addCleanup(self.keep_output)

    def keep_output(self):
        # A polite stop, so that the leak checks of a sanitizer build run.
        if self.node.daemon and self.node.daemon.poll() is None:
            self.node.daemon.terminate()
            try:
                self.node.daemon.wait(timeout=LIMIT)
            except subprocess.TimeoutExpired:
                self.fail("devplugd did not stop")
        if os.path.exists(self.node.path("devplugd.log")):
            self.said = self.node.output()
            if self.node.kubelet and (self.node.kubelet.poll() or 0) > 0:
                self.said += f"devplug-kubelet ended with status {self.node.kubelet.returncode}:\n"
                with open(self.node.path("kubelet.log"), errors="replace") as file:
                    self.said += "".join(collections.deque(file, 5))
        for word in ("AddressSanitizer", "LeakSanitizer", "runtime error:"):
            if word in self.said:
                self.fail(f'devplugd\'s output has "{word}"')

    def run(self, result=None):
        before = len(result.failures) + len(result.errors) if result is not None else 0
        outcome = super().run(result)
        if result is not None and len(result.failures) + len(result.errors) > before:
            lines = getattr(self, "said", "").splitlines()
            if len(lines) > 200:
                lines[50:-150] = [f"[{len(lines) - 200} lines]"]
            print(f"--- {self.id()}: devplugd said", *lines, sep="\n", file=sys.stderr)
        return outcome


def static(name, count, more=""):
    return f'{{ name = "vendor.example/{name}"; driver = "static"; match = ( {{ count = {count}; }} ); {more} }}'


def path(name, pattern, more=""):
    return f'{{ name = "vendor.example/{name}"; driver = "path"; match = ( {{ path = "{pattern}"; }} ); {more} }}'
