# SPDX-License-Identifier: Apache-2.0
"""devplug-kubelet conformance --dra: devplugd passes every case, and each fault that is planted into a small DRA driver fails
exactly the cases meant for it."""
import concurrent.futures
import copy
import json
import os
import subprocess
import tempfile
import unittest

from dra_node import DRIVER, DraTest
from node import LIMIT, SANITIZED, program
from test_kubelet_conformance import MEMORY, RUN_LIMIT, Report, all_cases, numbers, signal_hook

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
    "stale-socket": {104, 120, 121},
    "ignores-sigterm": {105, 122},
    # Claims
    "late-file": {110, 122},
    "bad-cdi-name": {110, 122},
    "wrong-device": {110},
    "changing-ids": {111, 116, 120},
    "skips-claims": {112},
    "fails-all": {112},
    "prepares-unknown": {112, 114},
    "ignores-uid": {113},
    "ignores-name": {114},
    "shares-devices": {115},
    "tires": {116},
    "unprepares-once": {117, 118},
    "keeps-files": {119, 121},
    "forgets": {121},
    "cleans-at-stop": {122},
    "cleans-at-start": {122},
    "leaks": {123},
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
SKIPPED = {"no-health": {130, 131}}
# For drivers that no kubelet can call, only the first case is run.
NEVER_SERVE = {"wrong-type", "no-service", "relative-endpoint"}


def make_claim(name, number, devices):
    return {"apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim",
            "metadata": {"name": name, "namespace": "default", "uid": f"11111111-0000-4000-8000-00000000000{number}"},
            "status": {"allocation": {"devices": {"results": [
                {"request": "gpu/first", "driver": "test.vendor.example", "pool": "node-a", "device": device}
                for device in devices]}}}}


CLAIMS = [make_claim("both", 1, ["d0", "d1"]), make_claim("other", 2, ["d2"]), make_claim("rival", 3, ["d1", "d3"])]


def dra_cases():
    return {case for case in all_cases() if case > 100}


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


def run_driver(fault, cases, patience, claims=tuple(CLAIMS), options=()):
    with tempfile.TemporaryDirectory(prefix="devplugd-test.") as folder:
        os.chmod(folder, 0o755)
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
    """(fault, cases, seconds): what has to hold in one run, and each case that has to fail in one of its own, because a
    driver with a fault may leave anything."""
    if fault in NEVER_SERVE:
        return [(fault, {101}, BRIEF)]
    return [(fault, cases - FAULTS[fault], PATIENCE), *((fault, {case}, BRIEF) for case in sorted(FAULTS[fault]))]


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
        runs = [run for fault in FAULTS for run in runs_of(fault, cases)]
        with concurrent.futures.ThreadPoolExecutor(max_workers=24) as pool:
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
        report = run_driver("none", {112, 115}, PATIENCE, claims=CLAIMS[:2])
        self.assertEqual((report.code, report.ok, report.skipped), (0, {112}, {115}), report.text + report.errors)

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


class Devplugd(DraTest):
    def test_every_case_holds(self):
        os.mkdir(self.node.path("health"))
        os.chmod(self.node.path("health"), 0o755)
        state = self.node.path("health/state")
        self.serve_api()
        self.configure(self.resource(
            "gpu", f'health = ( {{ probe = "file"; path = "{state}"; healthy = "ok"; missing = "healthy"; }} );', count=4))
        # The names of its devices are the same in each process.
        self.node.start()
        self.await_pool()
        devices = [self.api.device_named("vendor.example/gpu", i) for i in range(4)]
        self.node.stop()
        for name, wanted in (("both", [0, 1]), ("other", [2]), ("rival", [1, 3])):
            self.api.allocate(name, DRIVER, [("gpu", devices[i]) for i in wanted])
        claims = [self.api.claims["default", name] for name in ("both", "other", "rival")]
        report = run(self.node.dir, f"{program('devplugd')} -c {self.node.config}", claims, "--cdi-dir", self.cdi,
                     "--fail-command", f"echo broken > {state}", "--heal-command", f"rm {state}")
        self.assertEqual((report.not_ok, report.skipped), (set(), set()), report.text + report.errors)
        self.assertEqual((report.code, report.ok), (0, dra_cases()))
        self.assertEqual(self.files(), [])
        self.assertNotRegex(report.errors, "Sanitizer|runtime error")


if __name__ == "__main__":
    unittest.main()
