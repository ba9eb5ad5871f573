# SPDX-License-Identifier: Apache-2.0
"""P11: what devplugd-exporter tells Prometheus is what happened; and it costs devplugd nothing, whatever is done to it."""
import http.client
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
import unittest

from node import NodeTest, children_of, command_line, path, program, runs_no_programs, static, until
from service_manager import ServiceManager
from unix_http import UnixConnection, get

sys.path.insert(0, os.path.join(os.path.dirname(os.path.realpath(__file__)), "../interfaces"))

import interfaces  # noqa: E402 (it is found now)

FAMILIES = interfaces.metrics()
KINDS = {"gauge", "counter", "summary", "histogram"}
SAMPLE = re.compile(r'^([a-z_]+)(?:\{(.*)\})? ([0-9.]+)$')
LABEL = re.compile(r'([a-z_]+)="((?:[^"\\]|\\.)*)"')


def parse(text):
    """Samples by name and labels; each once, with the labels of docs/metrics.md, and each family in one block behind its head."""
    samples, heads = {}, []
    for line in text.splitlines():
        if line.startswith("# HELP "):
            heads.append(line.split()[2])
        if line.startswith("#"):
            continue
        match = SAMPLE.match(line)
        assert match, line
        name, labels, value = match.groups()
        key = (name, frozenset(LABEL.findall(labels or "")))
        assert key not in samples, f"twice: {line}"
        assert re.sub(r"_(bucket|sum|count)$", "", name) == heads[-1] or name == heads[-1], line
        if heads[-1] in FAMILIES:
            own = {label for label, _ in key[1]} - {"le", "quantile"}
            wanted = FAMILIES[heads[-1]] - KINDS
            # A label without a value is absent: what is not known about a device, and an empty name in the kubelet's answer.
            assert own == wanted or own < wanted and heads[-1].endswith(("_info", "_device_assigned")), line
        samples[key] = float(value)
    assert len(heads) == len(set(heads)), heads
    return samples


# With 16 places of 5 s each, the last of 1000 clients would wait 5 minutes.
CONNECT_AND_WAIT = """
import resource, socket, sys, threading
limit = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
resource.setrlimit(resource.RLIMIT_NOFILE, (limit, limit))

def attack():
    while True:
        with socket.socket(socket.AF_UNIX) as client:
            client.connect(sys.argv[1])
            try:
                client.recv(1)
            except OSError:
                pass

threading.stack_size(64 << 10)
for _ in range(1000):
    threading.Thread(target=attack).start()
full = 0
while not full:
    with socket.socket(socket.AF_UNIX) as client:
        client.setblocking(False)
        try:
            client.connect(sys.argv[1])
        except BlockingIOError:
            full = 1
print("the queue is full", flush=True)
threading.Event().wait()
"""


class Metrics(NodeTest):
    def setUp(self):
        super().setUp()
        self.socket = self.node.path("metrics.sock")
        self.pods = os.path.join(self.node.kubelet_state, "pod-resources/kubelet.sock")
        self.health = self.node.path("health")
        os.mkdir(self.health)

    def configure(self, *resources, metrics=None, pods=None, more=""):
        metrics = f'listen = "{self.socket}";' if metrics is None else metrics
        self.node.configure(*resources, text=f"metrics = {{ {metrics} }}; {more}" if metrics else more,
                            kubelet=f'pod_resources_socket = "{pods or self.pods}";')

    def licence(self, count=3, more=""):
        return static("licence", count,
                      f'health = ( {{ probe = "file"; path = "{self.health}/${{id}}"; healthy = "ok"; '
                      f'missing = "healthy"; }} ); {more}')

    def get(self, url="/metrics", method="GET", address=None):
        return get(address or self.socket, url, method)

    def scrape(self):
        answer, text = self.get()
        self.assertEqual((answer.status, answer.getheader("Content-Type")),
                         (200, "text/plain; version=0.0.4; charset=utf-8"), text)
        return parse(text)

    def value(self, name, **labels):
        wanted = frozenset(labels.items())
        if "resource" in labels:
            wanted = frozenset({**labels, "resource": "vendor.example/" + labels["resource"]}.items())
        return self.scrape().get((f"devplugd_{name}", wanted))

    def await_value(self, wanted, name, **labels):
        until(lambda: self.value(name, **labels) == wanted, f"{name} {labels} to be {wanted}")

    def await_socket(self, address=None):
        def answers():
            try:
                return self.get("/healthz", address=address)[0].status == 200
            except OSError:
                return False
        until(answers, "the exporter to answer")

    def exporters(self):
        return [p for p in children_of(self.node.daemon.pid) if command_line(p)[:1] == ["devplugd-exporter"]]

    def start(self, **counts):
        self.node.start_kubelet()
        self.node.start()
        self.await_socket()
        self.node.await_allocatable(**counts)

    # --- what is told

    def test_agrees_with_what_happened(self):
        self.configure(self.licence(3, "share = { replicas = 2; };"),
                       path("null", "/dev/null", 'health = ( { probe = "exec"; command = "/bin/true"; } );'),
                       metrics=f'listen = "{self.socket}"; pods = true;')
        self.start(licence=6, null=1)
        given, _ = self.node.pod("team-a", licence=3)
        held = given["resources"]["vendor.example/licence"]
        refused, _ = self.node.pod("too-much", null=2)
        self.assertIsNone(refused)
        with open(os.path.join(self.health, "licence-1"), "w") as file:
            file.write("too hot\n")
        self.node.await_allocatable(licence=4)
        # An answer of the kubelet is shared for 5 s.
        self.await_value(3, "resource_assigned_devices", resource="licence")
        self.await_value(0, "device_healthy", resource="licence", device="licence-1")
        samples = self.scrape()

        def value(name, **labels):
            return samples.get(("devplugd_" + name, frozenset(labels.items())))

        licence = {"resource": "vendor.example/licence"}
        self.assertEqual(value("kubelet_up"), 1)
        self.assertEqual(value("pod_resources_up"), 1)
        self.assertEqual(value("resource_state", **licence, state="serving"), 1)
        self.assertEqual(value("resource_state", **licence, state="failed"), 0)
        self.assertEqual(value("resource_devices", **licence, health="healthy"), 4)
        self.assertEqual(value("resource_devices", **licence, health="unhealthy"), 2)
        self.assertEqual(value("resource_units", **licence, state="healthy"), 2)
        self.assertEqual(value("resource_units", **licence, state="unhealthy"), 1)
        self.assertEqual(value("registered", **licence), 1)
        self.assertEqual(value("registrations_total", **licence), 1)
        self.assertEqual(value("allocations_total", **licence, outcome="ok"), 1)
        self.assertEqual(value("allocation_duration_seconds_count", **licence), 1)
        self.assertEqual(value("allocation_duration_seconds_bucket", **licence, le="+Inf"), 1)
        self.assertGreaterEqual(value("preferred_allocations_total", **licence), 1)
        self.assertGreaterEqual(value("list_updates_total", **licence), 2)
        self.assertGreaterEqual(value("probe_runs_total", **licence, probe="file", outcome="unhealthy"), 1)
        program_probe = {"resource": "vendor.example/null", "probe": "exec"}
        self.assertEqual(value("probe_duration_seconds_count", **program_probe),
                         value("probe_runs_total", **program_probe, outcome="healthy"))
        self.assertGreater(value("probe_duration_seconds_sum", **program_probe), 0)
        self.assertIsNone(value("probe_duration_seconds_count", **licence, probe="file"))
        self.assertEqual(value("config_pending_changes"), 0)
        self.assertEqual(value("device_health_changes_total", **licence, device="licence-1"), 1)
        self.assertEqual(value("device_health_changes_total", **licence, device="licence-0"), 0)
        self.assertEqual(value("device_unhealthy_reason_info", **licence, device="licence-1", reason="probe"), 1)
        self.assertEqual(value("device_info", **licence, device="licence-0", driver="static"), 1)
        holders = {dict(labels)["device"]: dict(labels) for (name, labels) in samples
                   if name == "devplugd_device_assigned"}
        self.assertEqual(sorted(holders), sorted({name.split("#")[0] for name in held}))
        for holder in holders.values():
            self.assertEqual((holder["namespace"], holder["pod"]), ("default", "team-a"))
        # Nothing that is for people is a label.
        self.assertFalse([key for key in samples if "too hot" in str(key)])
        if shutil.which("promtool"):
            check = subprocess.run(["promtool", "check", "metrics"], input=self.get()[1], text=True, capture_output=True)
            self.assertEqual((check.returncode, check.stdout, check.stderr), (0, "", ""))

    def test_notices(self):
        """A probe with the severity "notice" leaves a device healthy; what it finds is counted."""
        licence = self.licence().replace('missing = "healthy";', 'missing = "healthy"; severity = "notice"; reason = "wear";')
        with open(os.path.join(self.health, "licence-1"), "w") as file:
            file.write("too hot")
        self.configure(licence)
        self.node.start_kubelet()
        self.node.start()
        self.await_socket()
        self.await_value(1, "device_finding_info", resource="licence", device="licence-1", reason="wear", severity="notice")
        self.assertEqual(self.value("device_healthy", resource="licence", device="licence-1"), 1)
        self.assertNotIn("too hot", self.get()[1])
        os.unlink(os.path.join(self.health, "licence-1"))
        self.await_value(None, "device_finding_info", resource="licence", device="licence-1", reason="wear", severity="notice")

    def test_counters_survive_processes(self):
        self.configure(self.licence())
        self.start(licence=3)
        self.node.pod("a", licence=1)
        with open(os.path.join(self.health, "licence-1"), "w") as file:
            file.write("bad")
        self.await_value(1, "device_health_changes_total", resource="licence", device="licence-1")
        child = self.node.find("vendor.example/licence")["pid"]
        os.kill(child, signal.SIGKILL)
        self.await_value(1, "child_restarts_total", resource="licence", cause="killed")
        self.node.await_allocatable(licence=2)
        self.node.pod("b", licence=1)
        exporter = until(self.exporters, "the exporter")[0]
        os.kill(exporter, signal.SIGKILL)
        until(lambda: self.exporters()[:1] not in ([], [exporter]), "another exporter")
        self.await_value(2, "allocations_total", resource="licence", outcome="ok")
        self.assertEqual(self.value("registrations_total", resource="licence"), 2)
        self.await_value(1, "device_health_changes_total", resource="licence", device="licence-1")

    # --- how it is told

    def test_pending_changes(self):
        """A resource that cannot apply what is configured is counted until it can."""
        self.configure(self.licence())
        self.start(licence=3)
        self.await_value(0, "config_pending_changes")
        self.configure(self.licence(), static("a", 1, 'user = "nobody-of-that-name";'))
        self.node.reload()
        self.await_value(1, "config_pending_changes")
        self.configure(self.licence(), static("a", 1))
        self.node.reload()
        self.await_value(0, "config_pending_changes")

    def test_nothing_runs_without(self):
        self.configure(self.licence(), metrics="")
        self.node.start_kubelet()
        self.node.start()
        self.node.await_allocatable(licence=3)
        self.assertEqual(self.exporters(), [])
        self.configure(self.licence())
        self.node.reload()
        self.await_socket()
        self.assertEqual([runs_no_programs(pid) for pid in self.exporters()], [True])
        # Another address: who asked at the old one finds nobody there, and its path is gone.
        elsewhere = self.node.path("elsewhere.sock")
        exporter = self.exporters()
        self.configure(self.licence(), metrics=f'listen = "{elsewhere}";')
        self.node.reload()
        self.await_socket(elsewhere)
        self.assertFalse(os.path.exists(self.socket))
        self.assertEqual(self.exporters(), exporter)
        self.configure(self.licence(), metrics="")
        self.node.reload()
        until(lambda: not self.exporters(), "the exporter to end")
        self.assertFalse(os.path.exists(elsewhere))
        until(lambda: "devplugd-exporter stopped" in self.node.output(), "the log to say so")

    def test_textfile(self):
        file = self.node.path("collector/devplugd.prom")
        os.mkdir(os.path.dirname(file))
        self.configure(self.licence(), metrics=f'textfile = "{file}"; interval = 1;')
        self.node.start_kubelet()
        self.node.start()
        self.node.await_allocatable(licence=3)

        def serving():
            if not os.path.exists(file):
                return False
            with open(file) as stream:
                samples = parse(stream.read())
            self.assertFalse([name for (name, _) in samples if name.startswith("process_")])
            info = {"resource": "vendor.example/licence", "driver": "static", "serve": "plugin", "kube_resource": "vendor_example_licence"}
            self.assertEqual(samples.get(("devplugd_resource_info", frozenset(info.items()))), 1)
            return samples[("devplugd_registered", frozenset({"resource": "vendor.example/licence"}.items()))] == 1
        until(serving, "the file to follow")
        # A new file may just be written beside it.
        until(lambda: os.listdir(os.path.dirname(file)) == ["devplugd.prom"], "nothing to be left over")
        self.assertEqual(os.stat(file).st_mode & 0o777, 0o644)
        # In one step: a file may just be written there.
        os.rename(os.path.dirname(file), self.node.path("removed"))
        until(lambda: f"cannot write the metrics to {file}: No such file or directory" in self.node.output(), "a message")
        os.mkdir(os.path.dirname(file))
        until(serving, "the file to be there again")
        # Nothing is left that looks alive.
        other = os.path.join(os.path.dirname(file), "other.prom")
        self.configure(self.licence(), metrics=f'textfile = "{other}"; interval = 1;')
        self.node.reload()
        until(lambda: os.listdir(os.path.dirname(file)) == ["other.prom"], "the other file alone")
        self.node.stop()
        self.assertEqual(os.listdir(os.path.dirname(file)), [])

    def test_textfile_without_an_exporter(self):
        """A file that nothing writes any more would show healthy devices forever."""
        file = self.node.path("devplugd.prom")
        with open(file, "w") as stream:
            stream.write("devplugd_kubelet_up 1\n")
        self.configure(self.licence(), metrics=f'textfile = "{file}"; interval = 1;')
        fail = f'mount --bind /bin/false {program("devplugd-exporter")}'
        # A process that was killed leaves it.
        self.node.prefix = ["unshare", "--mount", "--propagation", "private", "sh", "-c", f'{fail} && exec "$@"', "sh"]
        self.node.start()
        until(lambda: not os.path.exists(file), "the old file to be removed")
        self.node.stop()
        self.node.prefix = ["unshare", "--mount", "--propagation", "private"]
        self.node.start()
        until(lambda: os.path.exists(file), "the file")
        subprocess.run(["nsenter", "-t", str(self.node.daemon.pid), "-m", "sh", "-c", fail], check=True)
        os.kill(self.exporters()[0], signal.SIGKILL)
        until(lambda: not os.path.exists(file), "the file to be removed")

    def test_textfile_in_a_missing_directory(self):
        """Everything that a person runs reports it."""
        file = self.node.path("missing/devplugd.prom")
        self.configure(self.licence(), metrics="")
        self.node.start_kubelet()
        self.node.start()
        self.node.await_allocatable(licence=3)
        self.configure(self.licence(), metrics=f'textfile = "{file}"; interval = 1;')

        def run(name, *words):
            return subprocess.run([program(name), "-c", self.node.config, *words], capture_output=True, text=True, timeout=60)
        warning = f"warning: {os.path.dirname(file)} does not exist, so there will be no metrics (metrics.textfile): create it\n"
        check = run("devplugd", "--check")
        self.assertEqual((check.returncode, check.stderr), (0, f"devplugd: {warning}"))
        reload = run("devplugctl", "reload")
        self.assertEqual((reload.returncode, reload.stderr), (0, f"devplugctl: {warning}"))
        words = f"Metrics: cannot write the metrics to {file}: No such file or directory"
        until(lambda: words in run("devplugctl", "status").stdout, "the status to report it")
        os.mkdir(os.path.dirname(file))
        until(lambda: "Metrics:" not in run("devplugctl", "status").stdout, "the status to report nothing")
        self.assertEqual(run("devplugd", "--check").stderr, "")

    def test_socket_of_systemd(self):
        listener = socket.create_server(("127.0.0.1", 0))
        systemd = ServiceManager(self, self.node)
        systemd.put("metrics", os.dup(listener.fileno()))
        self.configure(self.licence(), metrics="")
        systemd.start()
        connection = http.client.HTTPConnection(*listener.getsockname(), timeout=20)
        connection.request("GET", "/metrics")
        self.assertIn("devplugd_build_info", connection.getresponse().read().decode())
        listener.close()

    def test_address_in_use(self):
        """The resources are served all the same, and the message says what to do."""
        with open(self.socket, "w"):
            pass
        self.configure(self.licence())
        self.node.start_kubelet()
        self.node.start()
        self.node.await_allocatable(licence=3)
        self.assertIn(f"no metrics: cannot listen on {self.socket}: Address already in use", self.node.output())
        self.assertEqual(self.exporters(), [])
        os.unlink(self.socket)
        self.configure(self.licence())
        self.node.reload()
        self.await_socket()

    def test_removed_socket(self):
        """By another process: it is there again, also for those who read the metrics from then on."""
        address = os.path.join(self.node.run, "metrics.sock")
        self.configure(self.licence(), metrics=f'listen = "{address}";')
        self.node.start()
        self.await_socket(address)
        os.unlink(address)
        self.await_socket(address)
        self.assertEqual(self.get(address=address)[0].status, 200)

    def test_socket_whose_directory_is_removed(self):
        """It is restored when that is possible, and reported as restored only then."""
        address = self.node.path("folder/metrics.sock")
        os.mkdir(os.path.dirname(address))
        self.configure(self.licence(), metrics=f'listen = "{address}";')
        self.node.start()
        self.await_socket(address)
        os.rename(os.path.dirname(address), self.node.path("removed"))
        # In runtime_dir, so that devplugd checks its files.
        os.unlink(os.path.join(self.node.run, "lock"))
        words = f"no metrics: cannot listen on {address}: No such file or directory"
        until(lambda: words in self.node.output(), "devplugd to fail to restore it")
        self.assertNotRegex(self.node.output(), "restored .*metrics.sock")
        os.mkdir(os.path.dirname(address))
        self.await_socket(address)
        self.assertEqual(self.node.output().count(words), 1)

    def test_address_that_becomes_free(self):
        """Without a reload."""
        with open(self.socket, "w"):
            pass
        self.configure(self.licence())
        self.node.start()
        until(lambda: "Address already in use" in self.node.output(), "devplugd to fail")
        os.unlink(self.socket)
        self.await_socket()

    # --- clients that misbehave

    def test_requests(self):
        self.configure(self.licence())
        self.node.start()
        self.await_socket()
        self.assertEqual(self.get("/healthz")[1], "ok\n")
        self.assertEqual(self.get("/nothing")[0].status, 404)
        self.assertEqual(self.get(method="POST")[0].status, 405)
        self.assertEqual(self.get(method="HEAD")[1], "")
        for size, statuses in ((3900, [200]), (8000, [400, 413, 414, 431])):
            connection = UnixConnection(self.socket)
            connection.request("GET", "/healthz", headers={"X-Long": "x" * size})
            self.assertIn(connection.getresponse().status, statuses, size)
            connection.close()

    def test_memory_of_the_kubelet_client(self):
        """It is reported while that process runs."""
        self.configure(self.licence(1))
        self.start(licence=1)
        self.await_value(None, "kubelet_client_resident_memory_bytes")
        self.node.stop_kubelet()
        self.node.start_kubelet()
        until(lambda: self.value("kubelet_client_resident_memory_bytes"), "the memory of the next one")

    def test_hostile_clients(self):
        """All places are taken by clients that send nothing, or a byte now and then: each loses its place after 5 s."""
        self.configure(self.licence())
        self.start(licence=3)
        clients = []
        for _ in range(20):
            client = socket.socket(socket.AF_UNIX)
            client.connect(self.socket)
            client.send(b"GET /metrics HTTP/1.1\r\n")
            clients.append(client)
        stop = threading.Event()

        def drip():
            while not stop.wait(1):
                for client in clients:
                    try:
                        client.send(b"X")
                    except OSError:
                        pass
        dripping = threading.Thread(target=drip)
        dripping.start()
        self.addCleanup(dripping.join)
        self.addCleanup(stop.set)
        # The device plugin is not affected.
        self.assertIsNotNone(self.node.pod("meanwhile", licence=1)[0])
        self.assertEqual(self.scrape()[("devplugd_kubelet_up", frozenset())], 1)
        for client in clients:
            client.close()

    def test_idle_clients(self):
        """1000 clients that ask for nothing, and come back when they lose their place: scrapes are answered."""
        self.configure(self.licence())
        self.start(licence=3)
        attack = subprocess.Popen([sys.executable, "-c", CONNECT_AND_WAIT, self.socket], stdout=subprocess.PIPE, text=True)
        self.addCleanup(attack.communicate)
        self.addCleanup(attack.kill)
        self.assertEqual(attack.stdout.readline(), "the queue is full\n")
        for _ in range(3):
            self.assertEqual(self.scrape()[("devplugd_kubelet_up", frozenset())], 1)
        self.assertIsNone(attack.poll())

    def test_many_scrapes(self):
        """100 scrapes, 8 at once, are answered while pods start. If there are more than 16 connections, one that has sent nothing for
        20 ms may be closed, and on a busy machine these threads are slower."""
        self.configure(self.licence(100))
        self.start(licence=100)
        answers, errors = [], []

        def scrape(count):
            for _ in range(count):
                try:
                    answers.append(self.get()[0].status)
                except OSError as error:
                    errors.append(error)
        threads = [threading.Thread(target=scrape, args=(count,)) for count in [12] * 4 + [13] * 4]
        for thread in threads:
            thread.start()
        for number in range(10):
            self.assertIsNotNone(self.node.pod(f"pod-{number}", licence=1)[0])
        for thread in threads:
            thread.join()
        self.assertEqual((answers, errors), ([200] * 100, []))

    def test_kubelet_is_asked_rarely(self):
        asked = []
        server = socket.socket(socket.AF_UNIX)
        server.bind(self.node.path("pods.sock"))
        server.listen()

        def accept():
            while True:
                try:
                    connection = server.accept()[0]
                except OSError:
                    return
                asked.append(1)
                connection.close()
        thread = threading.Thread(target=accept)
        thread.start()
        self.addCleanup(thread.join)
        self.addCleanup(server.close)
        self.addCleanup(lambda: server.shutdown(socket.SHUT_RDWR))
        self.configure(self.licence(), pods=self.node.path("pods.sock"))
        self.node.start()
        self.await_socket()
        begin = time.monotonic()
        for _ in range(20):
            samples = self.scrape()
        # Answers are kept for 5 s, failures too.
        self.assertLessEqual(len(asked), 2 + (time.monotonic() - begin) // 5)
        self.assertEqual(samples[("devplugd_pod_resources_up", frozenset())], 0)
        self.assertEqual(samples[("devplugd_pod_resources_request_errors_total", frozenset())], 20)

    def test_paused_devplugd(self):
        """The exporter gives up and asks again later: one answer is for both questions."""
        self.configure(self.licence())
        self.start(licence=3)
        exporters = until(self.exporters, "the exporter")
        os.kill(self.node.daemon.pid, signal.SIGSTOP)
        try:
            self.assertEqual([self.get()[0].status for _ in range(2)], [503, 503])
        finally:
            os.kill(self.node.daemon.pid, signal.SIGCONT)
        until(lambda: self.get()[0].status == 200, "an answer")
        self.assertEqual(self.exporters(), exporters, self.node.output())

    def test_hang(self):
        self.configure(self.licence())
        self.start(licence=3)
        exporter = until(self.exporters, "the exporter")[0]
        os.kill(exporter, signal.SIGSTOP)
        self.assertIsNotNone(self.node.pod("meanwhile", licence=1)[0])
        # Who asks meanwhile is answered by the next one.
        self.assertEqual(self.scrape()[("devplugd_kubelet_up", frozenset())], 1)
        self.assertNotEqual(self.exporters(), [exporter])
        self.assertIn("devplugd-exporter sent no heartbeat", self.node.output())
        # A stop does not wait for one that hangs.
        os.kill(until(self.exporters, "the exporter")[0], signal.SIGSTOP)
        self.assertEqual(self.node.stop(), 0)


if __name__ == "__main__":
    unittest.main()
