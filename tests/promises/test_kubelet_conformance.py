# SPDX-License-Identifier: Apache-2.0
"""devplug-kubelet conformance: devplugd passes every case, and each planted fault fails exactly the cases meant for it.

complaints.md: M6.
"""
import concurrent.futures
import os
import re
import shlex
import stat
import subprocess
import tempfile
import unittest
import xml.etree.ElementTree

from node import LIMIT, SANITIZED, NodeTest, program, static

# Seconds that a plugin may take for anything in a case that has to hold, and in one that has to fail and takes so long.
PATIENCE = LIMIT / 4
BRIEF = LIMIT / 24
RUN_LIMIT = 500
# A sanitizer keeps what was freed, and adds to each allocation.
MEMORY = ("--memory", "600") if SANITIZED else ()
ENVIRONMENT = {**os.environ, "ASAN_OPTIONS": os.environ.get("ASAN_OPTIONS", "") + ":quarantine_size_mb=4",
               "FAULTY_PLUGIN_DELAY": "1000000"}
# Allocate may take a quarter of this, which is less than the delay.
BRIEF_FOR_SLOW = 3

SERVES_AGAIN = {5, 7, 8, 9, 10, 11, 40, 41, 42, 45, 48}
FAULTS = {
    "none": set(),
    # Registration
    "serves-after-register": {2},
    "registers-once": SERVES_AGAIN | {43, 44},
    "watches-socket-only": {42, 43, 44},
    "keeps-socket": SERVES_AGAIN,
    "gives-up": {8},
    "registers-on-events": {12},
    "spins": {7},
    "ignores-sigterm": {13},
    # ListAndWatch
    "not-utf8": {3},
    "oversize-list": {4},
    "duplicate-ids": {14},
    "odd-health": {15},
    "numa-minus-one": {16, 48},
    "ends-stream": {17, 18, 19},
    "never-recovers": {17, 18},
    "floods-lists": {18},
    "drops-device": {19, 48},
    "changing-ids": {40, 41, 42, 43, 44, 45, 48},
    # Allocate, GetPreferredAllocation, PreStartContainer
    "empty-answer": {21, 22, 23, 25, 26},
    "one-answer": {23},
    "slow-allocate": {24},
    # No case reports an answer that did not arrive.
    "dies": {19, 21, 22, 23, 24, 25, 26, 27, 32, 48, 62},
    "mixes-answers": {26},
    "leaks": {27},
    "preferred-wrong": {28},
    "preferred-error": {29},
    "wrong-options": {28, 29, 30, 31},
    "pre-start-once": {32},
    # Peers
    "takes-malformed": {62},
    "serves-anybody": {77},
}
# What a busy machine may hide: devices that fail and recover while the plugin does not run were never seen as failed.
HIDDEN = {"ends-stream": {18}}
# Plugins that never serve: all that can be seen of them is one run.
NEVER_SERVE = {"serves-after-register", "not-utf8", "oversize-list"}


class Report:
    """What a run said, by case."""

    def __init__(self, answer):
        self.code, self.text, self.errors = answer.returncode, answer.stdout, answer.stderr
        self.ok, self.not_ok, self.skipped = set(), set(), set()
        for line in self.text.splitlines():
            result = re.match(r"(ok|not ok) \d+ - (\d+) ", line)
            if result:
                skipped = re.search(r"(?<!\\)# SKIP", line)
                where = self.skipped if skipped else self.ok if result[1] == "ok" else self.not_ok
                where.add(int(result[2]))


def signal_hook(name):
    return f"kill -{name} $DEVPLUG_KUBELET_PLUGIN_PID"


def numbers(cases):
    return ",".join(str(number) for number in sorted(cases))


def runs_of(fault, cases):
    """The runs (fault, cases, seconds) that show what a fault does: those that have to hold wait for as long as a busy
    machine may need, those that have to fail do not, and run two at a time because they do nothing but wait."""
    if fault in NEVER_SERVE:
        return [(fault, cases, BRIEF)]
    failing = sorted(FAULTS[fault])
    brief = BRIEF_FOR_SLOW if fault == "slow-allocate" else BRIEF
    return [(fault, cases - FAULTS[fault], PATIENCE),
            *((fault, set(failing[i:i + 2]), brief) for i in range(0, len(failing), 2))]


def run(plugin_dir, command, *options, patience=PATIENCE):
    return Report(subprocess.run(
        [program("devplug-kubelet"), "conformance", "--plugin-dir", plugin_dir, "--plugin-command", command,
         "--timeout", str(patience), "--register-timeout", str(patience), *MEMORY, *options], env=ENVIRONMENT,
        capture_output=True, text=True, errors="replace", timeout=RUN_LIMIT))


def run_fault(fault, cases, patience):
    with tempfile.TemporaryDirectory(prefix="devplugd-test.") as folder:
        os.chmod(folder, 0o755)
        return run(os.path.join(folder, "plugins"), f"{program('faulty-plugin')} {fault}",
                   "--fail-command", signal_hook("USR1"), "--heal-command", signal_hook("USR2"),
                   "--unplug-command", signal_hook("HUP"), "--plug-command", signal_hook("WINCH"),
                   "--case", numbers(cases), patience=patience)


def all_cases():
    listed = subprocess.run([program("devplug-kubelet"), "conformance", "--list-cases"], capture_output=True, text=True,
                            check=True).stdout
    return {int(number) for number in re.findall(r"^(\d+) ", listed, re.M)}


class Background:
    """The runs of all faults, beside the other tests of this file: they wait most of the time."""

    def __init__(self):
        # From 101 on they are of DRA drivers.
        cases = {case for case in all_cases() if case < 100}
        # Runs that only wait start first, and among these the faults with most such cases.
        self.runs = sorted((run for fault in FAULTS for run in runs_of(fault, cases)),
                           key=lambda run: (run[2] == PATIENCE, -len(FAULTS[run[0]])))
        self.pool = concurrent.futures.ThreadPoolExecutor(max_workers=24)
        self.reports = [self.pool.submit(run_fault, *run) for run in self.runs]


BACKGROUND = None


def setUpModule():
    global BACKGROUND
    if os.geteuid() == 0 and not SANITIZED:
        BACKGROUND = Background()


def tearDownModule():
    if BACKGROUND:
        BACKGROUND.pool.shutdown(cancel_futures=True)


@unittest.skipIf(os.geteuid() != 0, "needs root, as a kubelet does")
class WithPlantedFaults(unittest.TestCase):
    def test_every_fault_is_listed(self):
        names = subprocess.run([program("faulty-plugin")], capture_output=True, text=True, check=True)
        self.assertEqual(set(names.stdout.split()), set(FAULTS))

    def check(self, fault, cases, report):
        wanted = FAULTS[fault] & cases
        self.assertEqual(report.not_ok | HIDDEN.get(fault, set()) & cases, wanted, report.text + report.errors)
        self.assertEqual(report.code, 1 if wanted else 0, report.errors)
        # A plugin that never serves leaves nothing to look at.
        if fault in ("not-utf8", "oversize-list"):
            self.assertLess({3, 4} - FAULTS[fault], report.skipped)
        elif fault != "serves-after-register":
            self.assertEqual(report.skipped, set(), report.text)
        self.assertNotIn("Sanitizer", report.errors)

    @unittest.skipIf(SANITIZED, "it is the tool that is tested here, at length; its own sanitizer run is Devplugd below")
    def test_each_fault_fails_the_cases_meant_for_it(self):
        for (fault, of, _), future in zip(BACKGROUND.runs, BACKGROUND.reports):
            report = future.result()
            with self.subTest(fault=fault, cases=numbers(of)):
                self.check(fault, of, report)


@unittest.skipIf(os.geteuid() != 0, "needs root, as a kubelet does")
class Tool(unittest.TestCase):
    """The run itself: selection, resources, plugins started elsewhere, reports."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="devplugd-test.")
        self.addCleanup(folder.cleanup)
        self.dir = folder.name
        os.chmod(self.dir, 0o755)
        self.plugins = os.path.join(self.dir, "plugins")

    def test_junit(self):
        file = os.path.join(self.dir, "junit.xml")
        report = run(self.plugins, f"{program('faulty-plugin')} numa-minus-one", "--case", "1,14-17", "--junit", file)
        self.assertEqual((report.ok, report.not_ok, report.skipped), ({1, 14, 15}, {16}, {17}))
        suite = xml.etree.ElementTree.parse(file).getroot()
        self.assertEqual((suite.get("tests"), suite.get("failures"), suite.get("skipped")), ("5", "1", "1"))
        failed = [case for case in suite if case.find("failure") is not None]
        self.assertIn("NUMA node -1", failed[0].find("failure").get("message"))
        self.assertIn("https://github.com/kubernetes/kubernetes/issues/", failed[0].find("system-out").text)

    def test_named_resource_that_no_plugin_registers(self):
        report = run(self.plugins, f"{program('faulty-plugin')} none", "--case", "1,14", "--resource",
                     "vendor.example/test", "--resource", "vendor.example/other", patience=BRIEF)
        self.assertEqual(report.code, 1)
        self.assertIn("ok 1 - 1 registers vendor.example/test", report.text)
        self.assertIn("not ok 3 - 1 registers vendor.example/other", report.text)

    def test_report_that_cannot_be_written(self):
        report = run(self.plugins, "true", "--junit", os.path.join(self.dir, "absent/junit.xml"))
        self.assertEqual((report.code, report.text), (1, ""))
        self.assertIn("cannot write", report.errors)

    def test_words_of_a_plugin_do_not_break_the_report(self):
        name = 'a\x1b[31m\x7f\u009b\ufffe\uffff]]>&<"\nok 9 - more # SKIP'
        file = os.path.join(self.dir, "junit.xml")
        report = run(self.plugins, f"{program('faulty-plugin')} none {shlex.quote(name)}", "--case", "1,14",
                     "--junit", file, patience=2)
        self.assertEqual((report.code, report.not_ok, report.skipped), (1, {1}, {14}))
        # Every line is a result or a comment, and nothing drives the terminal.
        for line in report.text.splitlines()[2:]:
            self.assertRegex(line, r"^((not )?ok [12] - |#)")
        self.assertEqual(re.findall(r"[\x00-\x09\x0b-\x1f\x7f\x80-\x9f]", report.text), [])
        self.assertIn(r"more \# SKIP: calls Register", report.text)
        # What the plugin said, not that it said nothing.
        self.assertIn("# SKIP not registered within 2 s: ", report.text)
        case = xml.etree.ElementTree.parse(file).getroot()[0]
        self.assertIn("]]>&<", case.get("classname"))

    def test_plugin_that_does_not_start(self):
        report = run(self.plugins, "/nonexistent", "--case", "1,14", patience=1)
        self.assertEqual((report.code, report.not_ok, report.skipped), (1, {1}, {14}))
        self.assertRegex(report.text, r"seen: no Register call came to \S+ within 1 s; the plugin has ended \(exit status 127\)")

    def test_command_is_run_by_a_shell(self):
        plugin = program("faulty-plugin")
        for command in (f"FIRST='a b' SECOND=2 {plugin} none", f"cd / && test -n \"$PWD\" && exec {plugin} none",
                        f"set -- none; exec {plugin} \"$1\""):
            with self.subTest(command):
                report = run(self.plugins, command, "--case", "1,13")
                self.assertEqual((report.code, report.ok), (0, {1, 13}), report.text + report.errors)

    def test_plugin_that_comes_back_late(self):
        """What did not come in time is said with the time; what a case has seen is of this case alone."""
        report = run(self.plugins, f"{program('faulty-plugin')} registers-once", "--case", "1,9,40", patience=BRIEF)
        self.assertEqual((report.code, report.ok, report.not_ok), (1, {1}, {9, 40}), report.text)
        self.assertIn(f"0 of 2 Register calls came, and no other one within {BRIEF:.0f} s", report.text)
        self.assertRegex(report.text, rf"after a restart of the kubelet: not registered within {BRIEF:.0f} s: \d+ Register calls, \d+ accepted, "
                         r"0 refused, 0 streams ended")

    def test_case_that_is_none_of_the_version(self):
        plugin = f"{program('faulty-plugin')} not-utf8"
        report = run(self.plugins, plugin, "--as", "1.32", "--case", "3,14,21")
        self.assertEqual((report.code, report.ok, report.skipped), (0, {14, 21}, {3}), report.text)

    def test_hook_that_hangs(self):
        report = run(self.plugins, f"{program('faulty-plugin')} none", "--case", "17", "--fail-command", "sleep 1000",
                     "--heal-command", "true", patience=BRIEF)
        self.assertEqual((report.code, report.not_ok), (1, {17}), report.text)
        self.assertIn(f'"sleep 1000" did not exit within {BRIEF * 1000:.0f} ms', report.text)

    def test_plugin_started_elsewhere(self):
        os.mkdir(self.plugins)
        plugin = subprocess.Popen([program("faulty-plugin"), "none"],
                                  env={**os.environ, "DEVPLUG_KUBELET_PLUGIN_DIR": self.plugins})
        self.addCleanup(plugin.wait)
        self.addCleanup(plugin.kill)
        report = Report(subprocess.run(
            [program("devplug-kubelet"), "conformance", "--plugin-dir", self.plugins, "--timeout", str(PATIENCE),
             "--register-timeout", str(PATIENCE), "--case", "1-13,40-47"], capture_output=True, text=True, timeout=RUN_LIMIT))
        self.assertEqual((report.code, report.not_ok, report.skipped), (0, set(), {13, 46, 47}), report.text)

    def test_directory_of_a_kubelet_is_left_alone(self):
        os.mkdir(self.plugins)
        checkpoint = os.path.join(self.plugins, "kubelet_internal_checkpoint")
        with open(checkpoint, "w") as out:
            out.write("precious")
        report = run(self.plugins, "true")
        self.assertEqual(report.code, 1)
        self.assertIn("a kubelet uses this directory", report.errors)
        with open(checkpoint) as file:
            self.assertEqual(file.read(), "precious")

    def test_wrong_selection(self):
        for cases in ("x", "1-", "1,,2", "3;4", "99", "33-39", "3-1"):
            report = run(self.plugins, "true", "--case", cases)
            self.assertEqual((report.code, report.text), (2, ""))
            self.assertIn("--case", report.errors)


class Devplugd(NodeTest):
    def test_every_case_holds(self):
        for name in ("dev", "health"):
            os.mkdir(self.node.path(name))
            os.chmod(self.node.path(name), 0o755)
        for i in range(4):
            os.mknod(self.node.path(f"dev/card{i}"), stat.S_IFCHR | 0o600, os.makedev(1, 3))
        self.node.configure(
            f'{{ name = "vendor.example/card"; driver = "path"; match = ( {{ path = "{self.node.dir}/dev/card[0-9]*"; }} );'
            ' share = { replicas = 2; }; prefer = "packed";'
            f' health = ( {{ probe = "file"; path = "{self.node.dir}/health/state"; healthy = "ok"; missing = "healthy"; }} );'
            ' prestart = { command = [ "/bin/true" ]; timeout = 10; }; }')
        os.mkdir(self.node.plugins)
        health, card, away = (self.node.path(name) for name in ("health/state", "dev/card2", "away"))
        report = run(self.node.plugins, f"{program('devplugd')} -c {self.node.config}",
                     "--fail-command", f"echo broken > {health}", "--heal-command", f"rm {health}",
                     "--unplug-command", f"mv {card} {away}", "--plug-command", f"mv {away} {card}",
                     patience=PATIENCE)
        self.assertEqual((report.not_ok, report.skipped), (set(), set()), report.text + report.errors)
        self.assertEqual(report.code, 0)
        self.assertNotIn("Sanitizer", report.errors)
        self.assertNotIn("runtime error", report.errors)


class Watched(NodeTest):
    """Plugins that register through plugins_registry."""

    def registry(self):
        path = self.node.path("registry")
        os.mkdir(path)
        os.mkdir(self.node.plugins)
        return path

    def test_plugin_that_is_found(self):
        registry = self.registry()
        self.node.configure(static("gpu", 2), kubelet=f'registration = "watcher"; plugins_registry_dir = "{registry}";')
        report = run(self.node.plugins, f"{program('devplugd')} -c {self.node.config}", "--plugins-registry", registry,
                     "--case", "1-16,20-21,40-47", patience=PATIENCE)
        self.assertEqual((report.not_ok, report.skipped), (set(), {5, 8, 9, 10, 11, 42, 45}), report.text)
        self.assertEqual(report.code, 0)

    def test_plugin_that_calls_register_all_the_same(self):
        report = run(self.node.plugins, f"{program('faulty-plugin')} gives-up", "--plugins-registry", self.registry(),
                     "--case", "5,8", patience=BRIEF)
        self.assertEqual((report.ok, report.not_ok), ({5}, {8}), report.text)


if __name__ == "__main__":
    unittest.main()
