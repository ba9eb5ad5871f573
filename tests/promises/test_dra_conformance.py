# SPDX-License-Identifier: Apache-2.0
"""devplug-kubelet conformance --dra: devplugd passes every case, and each fault that is planted into a small DRA driver fails
exactly the cases meant for it."""
import concurrent.futures
import contextlib
import copy
import glob
import json
import os
import re
import subprocess
import tempfile
import unittest

from api_server import Api, ControlServer
from dra_node import DRIVER, DraTest
from node import LIMIT, SANITIZED, program
from test_kubelet_conformance import MEMORY, RUN_LIMIT, Report, all_cases, numbers, signal_hook

OTHER = "gpu.vendor.example"
PATIENCE = LIMIT / 2
# The time limit of a case that has to fail and waits until then.
BRIEF = LIMIT / 12

FAULTS = {
    "none": set(),
    "writes-yaml": set(),
    # Registration
    "wrong-type": {101},
    "no-service": {101},
    "relative-endpoint": {101},
    "announces-more": {102},
    "answers-once": {101, 102, 103},
    "stale-socket": {104, 120, 121, 124, 157},
    "ignores-sigterm": {105, 122},
    # Claims
    "late-file": {110, 122, 163},
    "bad-cdi-name": {110, 122, 124},
    "wrong-device": {110},
    "changing-ids": {111, 116, 120, 124},
    "skips-claims": {112},
    "fails-all": {112},
    "prepares-unknown": {112, 114, 168},
    "ignores-uid": {113},
    "ignores-name": {114},
    "shares-devices": {115, 169},
    "tires": {116},
    "unprepares-once": {117, 118},
    "keeps-files": {119, 121, 166, 167},
    "forgets": {121},
    "cleans-at-stop": {122},
    "cleans-at-start": {122},
    "leaks": {123},
    "trusts-files": {124},
    "keeps-alternative": {110},
    "takes-unallocated": {160},
    "takes-any-device": {161},
    "takes-all-results": {162},
    "ignores-admin": {163},
    "ignores-parameters": {164},
    "refuses-parameters": {165},
    "reads-at-unprepare": {166, 167, 169},
    "dies-without-api": {168},
    "dies-unallocated": {160},
    "waits-for-api": {168},
    "trusts-deletion": {169},
    # ResourceSlices
    "half-pool": {150},
    "no-owner": {150},
    "publishes-once": {151, 152, 154, 155},
    "keeps-changes": {152},
    "writes-always": {153, 155},
    "writes-dropped": {155},
    "gives-up": {154},
    "new-times": {156},
    "reverses": {157},
    "invalid-pool": {150},
    "taints-last": set(),
    "plain-slices": set(),
    # Health
    "no-health": set(),
    "partial-health": {130, 131},
    "health-stays": {131},
    "never-recovers": {131},
    # Requests that no kubelet would send
    "takes-malformed": {140},
    "dies": {140},
    "trusts-names": {141},
}
SKIPPED = {"no-health": {130, 131}, "publishes-once": {156}, "keeps-changes": {156}, "plain-slices": {155}}
# No kubelet can call these drivers, or no scheduler can use what they publish: only one case is run.
USELESS = {"wrong-type": 101, "no-service": 101, "relative-endpoint": 101, "half-pool": 150}


def make_claim(name, number, devices):
    return {"apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim",
            "metadata": {"name": name, "namespace": "default", "uid": f"11111111-0000-4000-8000-00000000000{number}"},
            "status": {"allocation": {"devices": {"results": [
                {"request": "gpu/first", "driver": "test.vendor.example", "pool": "node-a", "device": device}
                for device in devices]}}}}


CLAIMS = [make_claim("both", 1, ["d0", "d1"]), make_claim("other", 2, ["d2"]), make_claim("rival", 3, ["d1", "d3"])]


# In each of these, devplugd waits for most of the time that a kubelet gives it, or for an API server that answers again.
WAITING = ({115, 154}, {168, 169})


def dra_cases():
    return {case for case in all_cases() if case > 100}


@contextlib.contextmanager
def serve_api(folder):
    """The control socket of a devplug-apiserver; the small driver uses nothing else of it."""
    os.mkdir(folder)
    server = ControlServer(os.path.join(folder, "control"), Api())
    try:
        yield
    finally:
        server.stop()


def run(folder, command, claims, *options, patience=PATIENCE):
    words = []
    for i, claim in enumerate(claims):
        path = os.path.join(folder, f"claim{i}.json")
        with open(path, "w") as file:
            json.dump(claim, file)
        words += ["--claim", path]
    return Report(subprocess.run(
        [program("devplug-kubelet"), "conformance", "--dra", "--plugin-dir", os.path.join(folder, "plugins"),
         "--plugins-registry", os.path.join(folder, "registry"), "--plugin-command", command, "--timeout", str(patience),
         "--register-timeout", str(patience), *MEMORY, *words, *options], capture_output=True, text=True, errors="replace",
        timeout=RUN_LIMIT))


def run_driver(fault, cases, patience, claims=None, options=()):
    """Without claims, with an API server."""
    with tempfile.TemporaryDirectory(prefix="devplugd-test.") as folder, contextlib.ExitStack() as stack:
        os.chmod(folder, 0o755)
        if claims is None:
            server = os.path.join(folder, "apiserver")
            stack.enter_context(serve_api(server))
            claims, options = (), ("--apiserver", server, *options)
        for name in ("registry", "claims", "cdi", "state"):
            os.mkdir(os.path.join(folder, name))
        for claim in claims:
            claim = copy.deepcopy(claim)
            for result in claim["status"]["allocation"]["devices"]["results"]:
                # The driver's answer names the request.
                result["request"] = "gpu"
            with open(os.path.join(folder, "claims", f"default.{claim['metadata']['name']}.json"), "w") as file:
                json.dump(claim, file)
        return run(folder, f"{program('faulty-driver')} {fault} {folder}", claims, "--cdi-dir", os.path.join(folder, "cdi"),
                   "--fail-command", signal_hook("USR1"), "--heal-command", signal_hook("USR2"), "--case", numbers(cases),
                   *options, patience=patience)


def runs_of(fault, cases):
    """(fault, cases, seconds): what has to hold in one run, and each case that cannot in one of its own, because a driver
    with a fault may leave anything."""
    if fault in USELESS:
        return [(fault, {USELESS[fault]}, BRIEF)]
    others = FAULTS[fault] | SKIPPED.get(fault, set())
    return [(fault, cases - others, PATIENCE), *((fault, {case}, BRIEF) for case in sorted(others))]


@unittest.skipIf(os.geteuid() != 0, "needs root, as a kubelet does")
class WithPlantedFaults(unittest.TestCase):
    def test_every_fault_is_listed(self):
        names = subprocess.run([program("faulty-driver")], capture_output=True, text=True, check=True)
        self.assertEqual(set(names.stdout.split()), set(FAULTS))

    def test_every_case_has_a_fault(self):
        self.assertEqual(set().union(*FAULTS.values()), dra_cases())

    @unittest.skipIf(SANITIZED, "the sanitizer run of the tool is Devplugd below")
    def test_each_fault_fails_the_cases_meant_for_it(self):
        cases = dra_cases()
        runs = sorted((run for fault in FAULTS for run in runs_of(fault, cases)), key=lambda run: -len(run[1]))
        # They mostly wait.
        with concurrent.futures.ThreadPoolExecutor(max_workers=48) as pool:
            reports = list(pool.map(lambda run: run_driver(*run), runs))
        for (fault, of, _), report in zip(runs, reports):
            with self.subTest(fault=fault, cases=numbers(of)):
                wanted = FAULTS[fault] & of
                self.assertEqual((report.not_ok, report.skipped), (wanted, SKIPPED.get(fault, set()) & of),
                                 report.text + report.errors)
                self.assertEqual(report.code, 1 if wanted else 0, report.errors)


@unittest.skipIf(os.geteuid() != 0, "needs root, as a kubelet does")
class Tool(unittest.TestCase):
    def test_without_claims(self):
        report = run_driver("none", {101, 110, 118, 130}, PATIENCE, claims=())
        self.assertEqual((report.code, report.ok, report.skipped), (0, {101, 118}, {110, 130}), report.text + report.errors)
        self.assertIn("give a --claim with a device of the driver", report.text)

    def test_without_a_rival(self):
        report = run_driver("none", {112, 115, 151}, PATIENCE, claims=CLAIMS[:2])
        self.assertEqual((report.code, report.ok, report.skipped), (0, {112}, {115, 151}), report.text + report.errors)
        self.assertIn("give --apiserver, whose claims and slices the driver uses", report.text)

    def test_claims_of_files(self):
        cases = {case for case in dra_cases() if case < 150}
        report = run_driver("none", cases, PATIENCE, claims=CLAIMS)
        self.assertEqual((report.code, report.ok, report.skipped), (0, cases, set()), report.text + report.errors)

    def test_without_an_api_server(self):
        with tempfile.TemporaryDirectory(prefix="devplugd-test.") as folder:
            report = run(folder, "true", [], "--apiserver", folder)
        self.assertEqual((report.code, report.text), (1, ""))
        self.assertIn(f"no devplug-apiserver answers at {folder}/control", report.errors)
        self.assertIn("start one with \"devplug-apiserver run\", or correct --apiserver", report.errors)

    def test_path_that_is_too_long(self):
        """For a socket: the message names the option of the program that was asked."""
        folder = "/tmp/" + "x" * 100
        for option, words in (("--apiserver", ["conformance", "--dra", "--plugins-registry", "/tmp", "--plugin-command", "true"]),
                              ("--state-dir", ["pods"])):
            answer = subprocess.run([program("devplug-kubelet"), *words, option, folder], capture_output=True, text=True)
            self.assertEqual(answer.returncode, 1, answer.stderr)
            self.assertIn(f"the path {folder}/control is too long for a socket: choose a shorter {option}", answer.stderr)

    def test_kubelets_limit(self):
        """A driver may take as long as a kubelet waits: 45 s with the default time limit, and less with a shorter one."""
        report = run_driver("waits-for-api", {168}, 2)
        self.assertEqual(report.not_ok, {168}, report.text + report.errors)
        self.assertIn("no answer within 3000 ms", report.text)

    def test_release_without_health(self):
        report = run_driver("none", {130, 131}, BRIEF, options=("--as", "1.35"))
        self.assertEqual((report.code, report.skipped), (0, {130, 131}), report.text + report.errors)

    def test_claim_that_is_not_allocated(self):
        claim = copy.deepcopy(CLAIMS[0])
        del claim["status"]
        with tempfile.TemporaryDirectory(prefix="devplugd-test.") as folder:
            report = run(folder, "true", [claim])
        self.assertEqual((report.code, report.text), (1, ""))
        self.assertIn("ResourceClaim both is not allocated", report.errors)

    def test_without_a_registry(self):
        answer = subprocess.run([program("devplug-kubelet"), "conformance", "--dra"], capture_output=True, text=True)
        self.assertEqual(answer.returncode, 2)
        self.assertIn("--plugins-registry", answer.stderr)

    def test_driver_that_does_not_start(self):
        with tempfile.TemporaryDirectory(prefix="devplugd-test.") as folder:
            report = run(folder, "/nonexistent", CLAIMS, "--case", "101,110", patience=1)
        self.assertEqual((report.code, report.not_ok, report.skipped), (1, {101}, {110}), report.text)
        self.assertRegex(report.text, r"seen: no DRA driver was registered from \S+ within 1 s; the plugin has ended")


class Page(unittest.TestCase):
    def test_table_has_every_case(self):
        listed = subprocess.run([program("devplug-kubelet"), "conformance", "--list-cases"], capture_output=True, text=True, check=True)
        cases = re.findall(r"^(\d+) (dra-[a-z-]+): (.*)$", listed.stdout, re.M)
        with open(os.path.join(os.path.dirname(os.path.realpath(__file__)), "../../docs/contributing/dra-coverage.md")) as file:
            rows = re.findall(r"^\| (\d+) \| (\S+) \| (.*) \| ok \|$", file.read(), re.M)
        self.assertEqual(rows, cases)
        self.assertEqual({int(number) for number, _, _ in cases}, dra_cases())


class Coverage(unittest.TestCase):
    """docs/contributing/dra-coverage.md"""

    def test_cases_and_tests_exist(self):
        folder = os.path.dirname(os.path.realpath(__file__))
        with open(os.path.join(folder, "../../docs/contributing/dra-coverage.md")) as file:
            cells = re.findall(r"^\| [^|]* \| ([^|]*) \|$", file.read(), re.M)
        found = {int(number) for cell in cells for number in re.findall(r"\b1\d\d\b", re.split("not done|:", cell)[0])}
        self.assertEqual(found, dra_cases())
        tests = set()
        for name in glob.glob(folder + "/*.py") + glob.glob(folder + "/../unit/*.c"):
            with open(name) as file:
                tests.update(re.findall(r"\b(?:def|static void) (test_\w+)\(", file.read()))
        self.assertEqual([name for name in re.findall(r"`(test_\w+)`", "".join(cells)) if name not in tests], [])


class Cases(DraTest):
    def run_cases(self, *options, broken=False, name=DRIVER, more=()):
        """With a resource of the driver `name` whose health is a file, and more resources."""
        os.mkdir(self.node.path("health"))
        os.chmod(self.node.path("health"), 0o755)
        state, server = self.node.path("health/state"), self.node.path("apiserver")
        if broken:
            with open(state, "w") as file:
                file.write("broken")
        health = f'health = ( {{ probe = "file"; path = "{state}"; healthy = "ok"; missing = "healthy"; }} );'
        other = f'dra = {{ driver = "{name}"; }};' if name != DRIVER else ""
        with subprocess.Popen([program("devplug-apiserver"), "run", "--dir", server], stdout=subprocess.PIPE) as api:
            self.addCleanup(api.wait)
            self.addCleanup(api.terminate)
            self.assertIn(b"listening", api.stdout.readline())
            self.kubeconfig = os.path.join(server, "kubelet-node-a.kubeconfig")
            self.configure(self.resource("gpu", health + other, count=4), *more)
            report = run(self.node.dir, f"{program('devplugd')} -c {self.node.config}", [], "--cdi-dir", self.cdi,
                         "--apiserver", server, "--fail-command", f"echo broken > {state}", "--heal-command", f"rm {state}", *options)
            api.terminate()
        self.assertEqual((report.code, report.not_ok), (0, set()), report.text + report.errors)
        self.assertEqual(self.files(), [])
        self.assertNotRegex(report.errors, "Sanitizer|runtime error")
        return report


class Devplugd(Cases):
    name = DRIVER

    def check(self, cases, skipped=frozenset()):
        options, more = ("--case", numbers(cases)), []
        if self.name != DRIVER:
            options, more = (*options, "--resource", self.name), [self.resource("fpga")]
        report = self.run_cases(*options, name=self.name, more=more)
        self.assertEqual((report.ok, report.skipped), (cases - skipped, skipped), report.text + report.errors)

    def test_quick_cases(self):
        # While all devices are healthy, their slices have none of the fields that a server drops.
        self.check(dra_cases().difference(*WAITING), {155})

    def test_waiting_cases(self):
        self.check(WAITING[0])

    def test_more_waiting_cases(self):
        self.check(WAITING[1])


class SecondName(Devplugd):
    """Each case also holds for the second driver name of one devplugd-cluster."""
    name = OTHER


class Options(Cases):
    def test_both_names(self):
        """One after the other."""
        cases = {101, 102, 110, 119, 150, 152}
        report = self.run_cases("--resource", DRIVER, "--resource", OTHER, "--case", numbers(cases), name=OTHER,
                                more=[self.resource("fpga", count=4)])
        for name in (DRIVER, OTHER):
            self.assertEqual({int(number) for number in re.findall(rf"^ok \d+ - (\d+) \S+ {name}:", report.text, re.M)}, cases,
                             report.text + report.errors)

    def test_dropped_fields(self):
        report = self.run_cases("--case", "155", broken=True, more=[self.resource("good", count=1)])
        self.assertEqual((report.ok, report.skipped), ({155}, set()), report.text + report.errors)


if __name__ == "__main__":
    unittest.main()
