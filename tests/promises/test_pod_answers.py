# SPDX-License-Identifier: Apache-2.0
"""Whatever the kubelet answers about its pods, devplugd and its tools serve on, and count what is in the answer."""
import json
import os
import random
import subprocess
import unittest

from dra_node import DRIVER, DraTest
from node import SEED, children_of, command_line, program, runs_no_programs, scaled, static, until
from pod_resources import Lister, container, pod
from terminal import Terminal
from test_metrics import parse
from tool import ToolTest
from unix_http import get

A = "vendor.example/a"
# Every command that shows what the daemon knows; the first one has the daemon ask.
COMMANDS = (("status",), ("status", "--json"), ("devices",), ("devices", "--pod", "default/p1"), ("explain", A), ("check",),
            ("check", "--json"), ("wait", A, "--for", "free=0", "--timeout", "0"), ("events",), ("rescan", A),
            ("cordon", "--list"), ("dra", "slices"))
FORGET = ("forget", A + "/a-0")


# Each with probability 1/2.
GROUPS = ('share = { replicas = 2; };', 'health = ( { probe = "exists"; path = "/dev/null"; } );',
          'prestart = { command = "/bin/true"; };', 'allocate = { command = "/bin/true"; };', 'overlap = true;',
          'container = { env = ( "A=${id}" ); };', 'cdi_spec = { kind = "vendor.example/kind"; };', 'topology = false;',
          'exclude = ( { id = "a-9"; } );', 'cordon = ( { id = "a-1"; } );')
SETTINGS = (f'dra = {{ driver = "{DRIVER}"; }};', 'metrics = { listen = "METRICS"; pods = true; };',
            'cordon = ( { id = "vendor.example/a/a-0"; } );')
KUBELET = ("pod_resources = false;", 'registration = "watcher";')
# What names may be, and what none is: the last ones are left out by devplugd's reader.
ODD = (b"", b"x" * 1024, "\u00e4\U0001f600".encode(), "\u202e\u2028".encode(), b"a/b", b"%s%n", b'"\\', b"..", b"{}", b"a\0b",
       b"x" * 1025, b"a\tb", b"a\nb", b"\x7f", b"\xff\xfe", b"\xed\xa0\x80", b"\xc0\x80")
NUMBERS = (0, 1, 1, -1, 65536, 2**31, 2**63 - 1, -2**63)


def as_read(name):
    """What devplugd's reader makes of a name: None if it leaves it out."""
    name = (name.encode() if isinstance(name, str) else name).split(b"\0")[0]
    if len(name) > 1024 or any(byte < 32 or byte == 127 for byte in name):
        return None
    try:
        text = name.decode()
    except UnicodeDecodeError:
        return None
    # Characters that reorder or break a line, or cannot be seen.
    return None if "\u202e" in text or "\u2028" in text else text


class Answer:
    """A random answer to List, and which rows are in it."""

    def __init__(self, chance, claims=()):
        self.chance, self.claims = chance, claims  # (namespace, name, [(driver, pool, device)])
        self.rows = []  # (resource, id), one for each container that has it
        self.claimed = []  # ((namespace, pod, container), (namespace, claim, driver, device))
        self.bytes = b""
        for _ in range(chance.choice((0, 1, 3, 10))):
            part = self.pod()
            if len(self.bytes) + len(part) < 60000:
                self.bytes += part
                self.rows += self.new_rows
                self.claimed += self.new_claimed

    def name(self, *plain):
        return self.chance.choice(plain) if self.chance.random() < 0.8 else self.chance.choice(ODD)

    def some(self, make, *counts):
        return [make() for _ in range(self.chance.choice(counts))]

    def nodes(self):
        return self.some(lambda: self.chance.choice(NUMBERS), 0, 1, 2)

    def memory(self):
        return self.name("memory", "hugepages-2Mi"), self.chance.choice((0, 1, 2**64 - 1)), self.nodes()

    def device(self):
        ids = self.some(lambda: self.name("a-0", "a-1", "a-0#0", "a-0#1", "a-1#0", "a-0#99999999999", "a-7"), 0, 1, 2, 5)
        return self.name(A, A, "nvidia.com/gpu"), ids, self.nodes()

    def claim(self):
        if self.claims and self.chance.random() < 0.5:
            return self.chance.choice(self.claims)
        parts = self.some(lambda: (self.name("gpu.example.com", DRIVER, ""), self.name("node-a"), self.name("gpu-0")), 0, 1, 3)
        return self.name("default", "other"), self.name("claim", "c0"), parts

    def container(self):
        name = self.name("main", "second")
        devices, claims = self.some(self.device, 0, 1, 2, 6), self.some(self.claim, 0, 1, 2)
        if as_read(name):
            rows = [(as_read(resource), as_read(one)) for resource, ids, _ in devices for one in ids]
            rows = [row for row in rows if None not in row]
            # A device with several NUMA nodes may have a row for each of them.
            self.new_rows += [row for i, row in enumerate(rows) if i == 0 or rows[i - 1] != row]
            self.new_claimed += [(as_read(name), row) for namespace, claim, parts in claims for driver, pool, device in parts
                                 if None not in (row := tuple(map(as_read, (namespace, claim, driver, device)))) and
                                 as_read(pool) is not None]
        return container(name, devices, claims, self.some(lambda: self.chance.choice(NUMBERS), 0, 1, 90),
                         self.some(self.memory, 0, 1))

    def pod(self):
        self.new_rows, self.new_claimed = [], []
        namespace, name = self.name("default", "kube-system"), self.name("p1", "p2")
        containers = self.some(self.container, 0, 1, 2, 4)
        if None in (as_read(namespace), as_read(name)):
            self.new_rows, self.new_claimed = [], []
        self.new_claimed = [((as_read(namespace), as_read(name), one), row) for one, row in self.new_claimed]
        return pod(namespace, name, containers, self.some(lambda: self.chance.choice(NUMBERS), 0, 0, 3),
                   self.some(self.memory, 0, 0, 2))

    def holders(self, devices):
        """How many containers have each device, of which a replica's id is "ID#NUMBER", with a number of 32 bits."""
        counts = dict.fromkeys(devices, 0)
        for resource, one in self.rows:
            unit, mark, number = one.rpartition("#")
            device = one if one in counts else unit if mark and number.isdigit() and int(number) < 1 << 32 else None
            if resource == A and device in counts:
                counts[device] += 1
        return counts

    def in_use(self):
        return len({one for resource, one in self.rows if resource == A})


def run_commands(test, *more):
    """Each command gets its answer."""
    for words in (*COMMANDS, *more):
        answer = test.ctl(*words)
        test.assertIn(answer.returncode, (0, 1), (words, answer.stderr))
        for text in ("Sanitizer", "runtime error", "not running", "did not answer", "closed the connection"):
            test.assertNotIn(text, answer.stderr, words)
    terminal = Terminal([program("devplugctl"), "-c", test.node.config, "top"])
    try:
        terminal.until(lambda lines: any(A in line for line in lines), "the resource")
        terminal.press("q")
        test.assertEqual(terminal.wait(), 0)
    finally:
        terminal.close()


def pods_up(address):
    """What a scrape says of the kubelet's answer; the whole of it is well-formed."""
    def look():
        try:
            answer, text = get(address)
        except OSError:
            return None
        return answer.status == 200 and text

    # Python splits lines where Prometheus does not.
    samples = parse(until(look, "the metrics").replace("\u2028", " "))
    return samples.get(("devplugd_pod_resources_up", frozenset()))


def write_checkpoint(test, entries):
    """As the kubelet does when it allocates: devplugd asks again who has what."""
    path = os.path.join(test.node.plugins, "kubelet_internal_checkpoint")
    with open(path + ".new", "w") as file:
        json.dump({"Data": {"PodDeviceEntries": entries, "RegisteredDevices": {}}, "Checksum": 1}, file)
    os.rename(path + ".new", path)


def check_holders(test, answer):
    def numbers():
        resource = test.node.resource(A)
        return resource["in_use"], {device["id"]: len(device["pods"]) for device in resource["devices"]}

    wanted = answer.in_use(), answer.holders(("a-0", "a-1"))
    until(lambda: numbers() == wanted, f"{wanted}, not {numbers()}")


class PodAnswers(ToolTest):
    def setUp(self):
        super().setUp()
        self.socket = self.node.path("pod-resources/kubelet.sock")
        self.lister = Lister(self.socket)
        self.addCleanup(self.lister.stop)
        os.makedirs(self.node.plugins)

    def configure(self, *resources, text="", kubelet=""):
        self.node.configure(*resources, text=text, kubelet=f'pod_resources_socket = "{self.socket}"; '
                            f'plugins_registry_dir = "{self.node.path("registry")}"; {kubelet}')

    def test_claims_of_other_drivers(self):
        """No resource is served by DRA, and the node's pods have claims of other drivers."""
        self.lister.answer = pod("default", "p1", [container("main", claims=[
            ("default", "c", [("gpu.example.com", "node-a", "gpu-0")]), ("default", "no-devices", [])])])
        for text in ("", 'dra = { };', 'dra = { driver = "devices.vendor.example"; };'):
            address = self.node.path("metrics.sock")
            self.configure(static("a", 2), text=f'{text} metrics = {{ listen = "{address}"; pods = true; }};')
            self.node.start()
            self.node.await_state(A, "waiting")
            run_commands(self, FORGET)
            resource = self.node.resource(A)
            self.assertEqual((resource["offered"], resource["in_use"], resource["free"]), (2, 0, 2))
            self.assertEqual(pods_up(address), 1)
            self.assertEqual(self.node.stop(), 0)

    def test_reader_runs_no_programs(self):
        """The process that reads the kubelet's answer serves nobody else, and has the sandbox of one that runs no programs."""
        self.configure(static("a", 1))
        self.lister.may_answer.clear()
        self.node.start()
        # The first question, so no answer is there yet.
        until(self.node.state, "the state")

        def readers():
            return [pid for pid in children_of(self.node.daemon.pid) if command_line(pid)[1:] == ["pod-resources"]]

        with subprocess.Popen([program("devplugctl"), "-c", self.node.config, "status"], stdout=subprocess.DEVNULL) as asker:
            until(lambda: [runs_no_programs(pid) for pid in readers()] == [True], "the reader to give up programs")
            self.lister.may_answer.set()
            self.assertEqual(asker.wait(), 0)

    def random_checkpoint(self, chance):
        def name(*plain):
            return chance.choice(plain) if chance.random() < 0.8 else chance.choice(ODD).decode(errors="replace")

        return [{"PodUID": name("u1", "u2"), "ContainerName": name("main", "init"), "ResourceName": name(A),
                 "DeviceIDs": {str(chance.choice((-1, 0, 1, 65535))): [name("a-0", "a-1", "a-0#1") for _ in range(3)]},
                 "AllocResp": ""} for _ in range(chance.choice((0, 1, 5)))]

    def random_configuration(self, number, chance):
        """The first one is without any optional group, the second one has all. Returns whether there are metrics, pods."""
        def chosen(groups, usual=0.5):
            return [group for group in groups if number == 1 or (number > 0 and chance.random() < usual)]

        settings, kubelet = chosen(SETTINGS), chosen(KUBELET, 0.1) if number != 1 else []
        resources = [static("a", 2, " ".join(chosen(GROUPS)))]
        if SETTINGS[0] in settings and (number == 1 or chance.random() < 0.5):
            resources.append(static("d", 1, 'serve = "dra";'))
        self.configure(*resources, text=" ".join(settings).replace("METRICS", self.metrics), kubelet=" ".join(kubelet))
        return SETTINGS[1] in settings, KUBELET[0] not in kubelet

    def test_generated_answers(self):
        """With and without each optional group of the configuration."""
        self.metrics = self.node.path("metrics.sock")
        for number in range(max(3, scaled(15))):
            chance = random.Random(f"{SEED} {number}")
            has_metrics, has_pods = self.random_configuration(number, chance)
            write_checkpoint(self, [])
            answer = Answer(chance)
            self.lister.answer = answer.bytes
            self.node.start()
            self.node.await_state(A, "waiting")
            with self.subTest(number=number):
                for _ in range(3):
                    if has_pods:
                        check_holders(self, answer)
                    if has_metrics:
                        self.assertEqual(pods_up(self.metrics), 1 if has_pods else None)
                    run_commands(self, FORGET)
                    answer = Answer(chance)
                    self.lister.answer = answer.bytes
                    write_checkpoint(self, [])
                write_checkpoint(self, self.random_checkpoint(chance))
                run_commands(self, FORGET)
                self.assertEqual(self.node.find(A)["restarts"], 0)
                self.assertEqual(self.node.stop(), 0)
                self.assertEqual(self.node.output().count("devplugd-exporter started"), has_metrics)
                os.unlink(self.node.path("devplugd.log"))


class ClaimAnswers(DraTest):
    def begin_listed(self):
        """Returns what answers for the kubelet, and the parts of the configuration."""
        self.serve_api()
        lister = Lister(self.node.path("pod-resources/kubelet.sock"))
        self.addCleanup(lister.stop)
        self.metrics = self.node.path("metrics.sock")
        text = f'metrics = {{ listen = "{self.metrics}"; pods = true; }};'
        kubelet = f'pod_resources_socket = "{self.node.path("pod-resources/kubelet.sock")}";'
        self.begin(self.resource("a", count=2), text=text, kubelet=kubelet)
        self.await_pool()
        return lister, text, kubelet

    def test_C13_repeated_prepare(self):
        """A kubelet that has had a claim prepared again lists it, and its devices, once for each time. devplugd lists a device once."""
        lister, *_ = self.begin_listed()
        names = [self.api.device_named(A, number) for number in range(2)]
        claim = ("default", "c", self.api.allocate("c", DRIVER, [("r", name) for name in names]))
        devices = self.prepare(claim)[claim[2]]
        self.assertEqual(len(devices), 2)
        self.assertEqual(self.prepare(claim)[claim[2]], devices)
        listed = ("default", "c", [(DRIVER, "node-a", name) for name in names + names])
        # The driver of the other claim has a device of that name in each of its pools.
        other = ("default", "nic", [("nic.example", "pool-1", "eth0"), ("nic.example", "pool-2", "eth0")])
        lister.answer = pod("default", "p1", [container("main", claims=[listed, listed]), container("side", claims=[listed, other, other])])
        write_checkpoint(self, [])
        users = ["default/p1/main", "default/p1/side"]

        def holders():
            return [[f'{user["namespace"]}/{user["pod"]}/{user["container"]}' for user in device["pods"]]
                    for device in self.node.resource(A)["devices"]]

        until(lambda: holders() == [users, users], lambda: f"each container once, not {holders()}")
        self.assertEqual(self.node.resource(A)["in_use"], 2)
        self.assertRegex(self.ctl("devices").stdout, rf"(?m)^{A} +a-0 +Healthy +- +default/p1/main, default/p1/side \(claim default/c\)")
        shown = json.loads(self.ctl("pod", "default/p1", "--json").stdout)["containers"]
        self.assertEqual([[device["id"] for device in one["devices"] if device["id"]] for one in shown], [["a-0", "a-1"]] * 2)
        self.assertEqual([(device["pool"], device["device"]) for device in shown[1]["devices"] if not device["id"]],
                         [("pool-1", "eth0"), ("pool-2", "eth0")])
        assigned = [line for line in get(self.metrics, "/metrics")[1].splitlines() if line.startswith("devplugd_device_assigned{")]
        self.assertEqual((len(assigned), len(set(assigned))), (4, 4))

    def test_generated_answers(self):
        """Claims of devplugd's driver are prepared, and the kubelet lists them among others."""
        lister, text, kubelet = self.begin_listed()
        names = [self.api.device_named(A, number) for number in range(2)]
        claims = [("default", f"c{i}", self.api.allocate(f"c{i}", DRIVER, [("r", name)])) for i, name in enumerate(names)]
        for namespace, name, uid in claims:
            self.assertNotIsInstance(self.prepare((namespace, name, uid))[uid], str)
        listed = [("default", f"c{i}", [(DRIVER, "node-a", name)]) for i, name in enumerate(names)]
        ids = {("default", f"c{i}", DRIVER, name): f"a-{i}" for i, name in enumerate(names)}
        chance = random.Random(SEED)
        for number in range(max(2, scaled(10))):
            answer = Answer(chance, listed)
            # A container has a device of a claim once, however often the kubelet has had the claim prepared.
            answer.rows += [(A, ids[claim]) for _, claim in dict.fromkeys(answer.claimed) if claim in ids]
            lister.answer = answer.bytes
            write_checkpoint(self, [])
            with self.subTest(number=number):
                check_holders(self, answer)
                self.assertEqual(pods_up(self.metrics), 1)
                run_commands(self)
        # The driver's name leaves the configuration, and the claims stay prepared.
        self.node.configure(self.resource("a", count=2, serve="plugin"), text=text,
                            kubelet=f'plugins_registry_dir = "{self.registry}"; {kubelet}')
        self.node.reload()
        lister.answer = pod("default", "p1", [container("main", claims=listed)])
        write_checkpoint(self, [])
        run_commands(self, FORGET)
        self.assertEqual(pods_up(self.metrics), 1)
        self.assertEqual(self.node.stop(), 0)


if __name__ == "__main__":
    unittest.main()
