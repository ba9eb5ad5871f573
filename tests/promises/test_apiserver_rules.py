# SPDX-License-Identifier: Apache-2.0
"""What devplug-apiserver stores, drops and refuses in each release, and what its allocator chooses."""
import concurrent.futures
import contextlib
import copy
import io
import json
import os
import re
import subprocess
import time
import unittest
import unittest.mock

from api_server import APISERVER, SLICES_PATH as SLICES
from devplug_apiserver import cel, quantity
from devplug_apiserver.api import Api, Request
from devplug_apiserver.authorizer import ADMINISTRATOR, user_of
from devplug_apiserver.faults import Fault
from devplug_apiserver.fields import RELEASE, TYPES
from devplug_apiserver.releases import FEATURES, FIELDS, RELEASES, Release

CLAIMS = "/apis/resource.k8s.io/v1/namespaces/default/resourceclaims"
CLASSES = "/apis/resource.k8s.io/v1/deviceclasses"
DRIVER = "gpu.vendor.example"


def device(name, **fields):
    return {"name": name, **fields}


class ApiTest(unittest.TestCase):
    def begin(self, release="1.36", **features):
        self.api = Api(Release(release, features))

    def ask(self, method, path, body=None):
        return self.api.serve(ADMINISTRATOR, Request(method, path, body))

    def write(self, *devices, name="a", **spec):
        """The answer to a new slice."""
        pool = {"name": "node-a", "generation": 1, "resourceSliceCount": 1}
        return self.ask("POST", SLICES, {"metadata": {"name": name}, "spec": {
            "driver": DRIVER, "nodeName": "node-a", "pool": pool, "devices": list(devices), **spec}})

    def stored(self, *devices, **spec):
        answer = self.write(*devices, **spec)
        self.assertEqual(answer.code, 201, answer.body)
        return answer.body["spec"]

    def refused(self, what, *devices, **spec):
        """What the server does not store."""
        answer = self.write(*devices, **spec)
        self.assertIn(answer.code, (400, 422), answer.body)
        self.assertIn(what, answer.body["message"])
        self.assertEqual(self.ask("GET", SLICES).body["items"], [])


class Refusals(ApiTest):
    def test_what_is_refused_is_named(self):
        """A client distinguishes an object that does not exist from a path that does not, and from one that it may not see."""
        self.begin()
        named = {"name": "c", "group": "resource.k8s.io", "kind": "resourceclaims"}
        answer = self.ask("GET", f"{CLAIMS}/c")
        self.assertEqual((answer.code, answer.body["reason"], answer.body["details"]), (404, "NotFound", named))
        answer = self.ask("GET", "/apis/resource.k8s.io/v2/namespaces/default/resourceclaims/c")
        self.assertEqual((answer.code, answer.body.get("details")), (404, None))
        answer = self.api.serve(user_of("system:node:node-a"), Request("GET", f"{CLAIMS}/c"))
        self.assertEqual((answer.code, answer.body["details"]), (403, named))
        self.assertTrue(answer.body["message"].endswith(": no relationship found between node 'node-a' and this object"))


class Releases(ApiTest):
    def test_features_name_fields_that_exist(self):
        self.assertEqual(set(FIELDS) | {"DRAFractionalCapacityRange"}, set(FEATURES))
        for kinds in FIELDS.values():
            for kind, fields in kinds.items():
                self.assertLessEqual(set(fields), {name.rstrip("!") for name in TYPES[kind]})

    @unittest.skipIf("DEVPLUGD_CLIENT_NODE" not in os.environ, "DEVPLUGD_CLIENT_NODE: an unpacked @kubernetes/client-node of npm")
    def test_fields_are_those_of_the_api(self):
        answer = subprocess.run([f"{APISERVER}/make-fields", os.environ["DEVPLUGD_CLIENT_NODE"], "--check"],
                                capture_output=True, text=True)
        self.assertEqual((answer.returncode, answer.stdout), (0, "no difference\n"))
        self.assertIn(RELEASE, RELEASES)

    DEVICES = [device("a", allowMultipleAllocations=True, attributes={"model": {"string": "A"}},
                      capacity={"memory": {"value": "8Gi", "requestPolicy": {"default": "1Gi"}}},
                      taints=[{"key": "x", "effect": "NoSchedule"}], consumesCounters=[{"counterSet": "s", "counters": {"n": {"value": "1"}}}],
                      bindsToNode=True, bindingConditions=["Ready"], bindingFailureConditions=["Failed"],
                      nodeAllocatableResourceMappings={"cpu": {"allocationMultiplier": "1"}})]

    def test_dropped_fields(self):
        """A server drops the fields of features that it does not have, without a word."""
        kept = {"1.34": {"name", "attributes", "capacity"}, "1.36": set(self.DEVICES[0]) - {"nodeAllocatableResourceMappings"}}
        for release, wanted in (("1.34", "1.34"), ("1.35", "1.34"), ("1.36", "1.36"), ("1.37", "1.36"), ("1.38", "1.36")):
            with self.subTest(release):
                self.begin(release)
                answer = self.write(*copy.deepcopy(self.DEVICES))
                self.assertEqual((answer.code, tuple(answer.headers)), (201, ()), answer.body)
                found = answer.body["spec"]["devices"][0]
                self.assertEqual(set(found), kept[wanted])
                self.assertEqual("requestPolicy" in found["capacity"]["memory"], wanted == "1.36")
                found = self.ask("POST", CLASSES, {"metadata": {"name": "c"}, "spec": {"extendedResourceName": "vendor.example/gpu"}}).body
                self.assertEqual("extendedResourceName" in found["spec"], wanted == "1.36")

    def test_dropped_fields_are_recorded(self):
        """Until the release is set again."""
        for release, fields, wanted in (("1.35", {"taints": []}, True), ("1.36", {"taints": []}, False), ("1.35", {"colour": "red"}, False)):
            with self.subTest(release=release, fields=fields):
                self.begin(release)
                self.stored(device("a", **fields))
                self.assertIs(self.ask("GET", "/devplug/release").body["dropped"], wanted)
                self.assertEqual(self.ask("PUT", "/devplug/release", {"release": release}).code, 200)
                self.assertIs(self.ask("GET", "/devplug/release").body["dropped"], False)

    def test_each_feature_has_its_fields(self):
        """Switched off, a feature loses its own fields and no others."""
        for feature, lost in (("DRADeviceTaints", {"taints"}), ("DRAPartitionableDevices", {"consumesCounters"}),
                              ("DRADeviceBindingConditions", {"bindsToNode", "bindingConditions", "bindingFailureConditions"}),
                              ("DRAConsumableCapacity", {"allowMultipleAllocations"})):
            with self.subTest(feature):
                self.begin("1.36", **{feature: False})
                found = self.stored(*copy.deepcopy(self.DEVICES))["devices"][0]
                self.assertEqual(set(self.DEVICES[0]) - set(found), lost | {"nodeAllocatableResourceMappings"})
        self.begin("1.37", DRANodeAllocatableResources=True)
        self.assertEqual(set(self.stored(*copy.deepcopy(self.DEVICES))["devices"][0]), set(self.DEVICES[0]))

    def test_lists_as_attributes(self):
        """Without the feature the list is dropped, and the attribute without a value is refused."""
        listed = device("a", attributes={"nodes": {"ints": [0, 1]}})
        for release in RELEASES:
            with self.subTest(release):
                self.begin(release)
                self.refused("spec.devices[0].attributes[nodes]: Invalid value: exactly one value must be specified", listed)
        self.begin("1.36", DRAListTypeAttributes=True)
        self.assertEqual(self.stored(listed)["devices"], [listed])

    def test_counters_beside_devices(self):
        sets = [{"name": "s", "counters": {"n": {"value": "1"}}}]
        self.begin("1.34", DRAPartitionableDevices=True)
        self.assertEqual(self.stored(device("a"), sharedCounters=sets)["sharedCounters"], sets)
        uses = {"consumesCounters": [{"counterSet": "s", "counters": sets[0]["counters"]}]}
        self.begin("1.34", DRAPartitionableDevices=True)
        self.refused("must reference a counterSet defined in the ResourceSlice", device("a", **uses))
        self.stored(device("a", **uses), sharedCounters=sets)
        for release in ("1.35", "1.36"):
            self.begin(release, DRAPartitionableDevices=True)
            self.refused("exactly one of `sharedCounters`, `devices` is required", device("a"), sharedCounters=sets)
            self.assertNotIn("devices", self.stored(sharedCounters=sets))

    def test_unknown_fields(self):
        self.begin()
        answer = self.write(device("a", colour="red"))
        self.assertEqual((answer.code, answer.body["spec"]["devices"]), (201, [{"name": "a"}]))
        self.assertEqual(list(answer.headers), [("Warning", '299 - "unknown field \\"spec.devices[0].colour\\""')])
        answer = self.ask("POST", SLICES + "?fieldValidation=Strict", {"metadata": {"name": "b"}, "spec": {
            "driver": DRIVER, "nodeName": "n", "colour": 1, "pool": {"name": "n", "generation": 1, "resourceSliceCount": 1}}})
        self.assertEqual((answer.code, answer.body["message"]), (400, 'strict decoding error: unknown field "spec.colour"'))

    def test_types(self):
        self.begin()
        for what, fields in (("into a list", {"taints": {}}), ("into a boolean", {"allowMultipleAllocations": "yes"}),
                             ("into a integer", {"attributes": {"n": {"int": "1"}}}), ("into a dict", {"attributes": []}),
                             ("does not fit into 64 bits", {"attributes": {"n": {"int": 2 ** 63}}}),
                             ("is not a quantity", {"capacity": {"m": {"value": "1 GB"}}}),
                             ("is not a time", {"taints": [{"key": "a", "effect": "None", "timeAdded": "now"}]})):
            with self.subTest(fields):
                self.refused(what, device("a", **fields))

    def test_what_the_server_adds(self):
        self.begin()
        found = self.stored(device("a", capacity={"memory": {"value": "1024Mi"}}, taints=[{"key": "x", "effect": "None", "value": ""}]),
                            device("b", taints=[{"key": "x", "effect": "None", "timeAdded": "2020-01-01T00:00:00Z"}]))["devices"]
        self.assertEqual(found[0]["capacity"]["memory"]["value"], "1Gi")
        self.assertEqual(set(found[0]["taints"][0]), {"key", "effect", "timeAdded"})
        self.assertEqual(found[1]["taints"][0]["timeAdded"], "2020-01-01T00:00:00Z")

    def test_quantities(self):
        for text, wanted in (("1024Mi", "1Gi"), ("1000", "1k"), ("1024", "1024"), ("0.5", "500m"), ("1e3", "1e3"), ("80Gi", "80Gi"),
                             ("1536Mi", "1536Mi"), ("0", "0"), ("1000k", "1M"), ("-2", "-2"), (5, "5")):
            self.assertEqual(quantity.canonical(text), wanted)
        for text in ("", "x", "1GB", "1 Gi", "--1", None, True, 1.5):
            with self.assertRaises(ValueError):
                quantity.canonical(text)


class Failures(ApiTest):
    def test_faults_of_the_server_are_answered_and_recorded(self):
        self.begin()
        with unittest.mock.patch.object(self.api, "find", side_effect=KeyError("broken")), contextlib.redirect_stderr(io.StringIO()) as log:
            answer = self.ask("GET", SLICES)
        self.assertEqual((answer.code, answer.body["reason"], list(self.api.requests)), (500, "InternalError", [("GET", SLICES, 500)]))
        self.assertIn("broken", answer.body["message"])
        self.assertIn("Traceback", log.getvalue())

    def test_times_of_a_fault(self):
        """A fault happens as often as it was asked for. A finished one is not listed, and others can be added."""
        class SlowFault(Fault):
            """Other threads run between each reading and writing of `left`."""
            @property
            def left(self):
                value = self.value
                time.sleep(0.001)
                return value

            @left.setter
            def left(self, value):
                self.value = value
        self.begin()
        self.api.faults = [SlowFault({"do": 503, "times": 4})]
        with concurrent.futures.ThreadPoolExecutor(8) as pool:
            found = list(pool.map(lambda _: self.api.find_fault("GET", SLICES)[0], range(64)))
        self.assertEqual((found.count(503), self.api.faults[0].value), (4, 0))
        self.assertEqual(self.ask("GET", "/devplug/faults").body, {"faults": []})
        self.assertEqual(self.ask("POST", "/devplug/faults", {"do": 500}).code, 200)
        self.assertEqual(self.ask("GET", "/devplug/faults").body, {"faults": [{"do": 500}]})
        for wrong in (None, {"do": 500, "times": 0}, {"do": 500, "times": -1}, {"do": 429, "retry_after": -1}):
            self.assertEqual(self.ask("POST", "/devplug/faults", wrong).code, 422)


class Limits(ApiTest):
    def test_devices_of_a_slice(self):
        """128, or 64 where a device has a taint, counters or lists."""
        self.begin("1.36", DRAListTypeAttributes=True)
        special = ({"taints": [{"key": "x", "effect": "NoSchedule"}]}, {"attributes": {"l": {"strings": ["a"]}}},
                   {"consumesCounters": [{"counterSet": "s", "counters": {"n": {"value": "1"}}}]})
        self.refused("must have at most 128 items", *(device(f"d{i}") for i in range(129)))
        for fields in special:
            self.refused("must have at most 64 items", device("x", **fields), *(device(f"d{i}") for i in range(64)))
        self.stored(*(device(f"d{i}") for i in range(128)))
        self.stored(device("x", **special[0]), *(device(f"d{i}") for i in range(63)), name="b")

    def test_refused_devices(self):
        self.begin()
        text = {"string": "x"}
        for what, found in (
                ("must be a DNS label", device("A")), ("must be a DNS label", device("x" * 64)),
                ("at most 32 attributes", device("a", attributes={f"n{i}": text for i in range(33)})),
                ("at most 32 attributes", device("a", attributes={f"n{i}": text for i in range(32)}, capacity={"m": {"value": "1"}})),
                ("must be a C identifier", device("a", attributes={"a-b": text})),
                ("must be a C identifier", device("a", attributes={"x" * 33: text})),
                ("the domain must be", device("a", attributes={"A/b": text})),
                ("Too long: may not be more than 64 bytes", device("a", attributes={"n": {"string": "x" * 65}})),
                ("exactly one value", device("a", attributes={"n": {"string": "x", "int": 1}})),
                ("semver.org", device("a", attributes={"n": {"version": "1.02.3"}})),
                ("semver.org", device("a", attributes={"n": {"version": "580"}})),
                ("Too many: 17", device("a", taints=[{"key": f"k{i}", "effect": "None"} for i in range(17)])),
                ("Unsupported value: 'Bad'", device("a", taints=[{"key": "k", "effect": "Bad"}])),
                ("must be a label name", device("a", taints=[{"key": "a b", "effect": "None"}])),
                ("must be a label value", device("a", taints=[{"key": "a", "effect": "None", "value": "too hot"}])),
                ("must be set together", device("a", bindingConditions=["Ready"])),
                ("Duplicate value: 's'", device("a", consumesCounters=[{"counterSet": "s", "counters": {"n": {"value": "1"}}}] * 2)),
                ("has its own place", device("a", nodeName="node-b"))):
            with self.subTest(what=what):
                self.refused(what, found)
        self.refused("Duplicate value: 'a'", device("a"), device("a"))
        for version in ("580.126.20", "1.0.0-rc.1+build.5"):
            self.stored(device("a", attributes={"n": {"version": version}}), name=version.replace("+", "-"))

    def test_refused_slices(self):
        self.begin()
        for what, spec in (("may not be more than 63 bytes", {"driver": "x" * 64}), ("must be a DNS subdomain", {"driver": "A_"}),
                           ("exactly one of nodeName", {"nodeName": None}), ("exactly one of nodeName", {"allNodes": True}),
                           ("must be greater than zero", {"pool": {"name": "p", "generation": 1, "resourceSliceCount": 0}}),
                           ("must be DNS subdomains", {"pool": {"name": "a_b", "generation": 1, "resourceSliceCount": 1}})):
            with self.subTest(what):
                self.refused(what, device("a"), **spec)
        self.stored(device("a"))
        found = self.ask("GET", SLICES + "/a").body
        found["spec"]["driver"] = "other.example"
        self.assertIn("immutable", self.ask("PUT", SLICES + "/a", found).body["message"])

    def test_request_policies(self):
        self.begin()

        def policy(value="8", **fields):
            return device("a", allowMultipleAllocations=True, capacity={"m": {"value": value, "requestPolicy": fields}})

        def bounds(default="2", value="8", **fields):
            return policy(value, default=default, validRange=fields)
        for what, found in (
                ("default: Required value", policy(validValues=["1"])), ("ascending order", policy(default="1", validValues=["2", "1"])),
                ("default must be one", policy(default="3", validValues=["1", "2"])),
                ("Too many: 11", policy(default="1", validValues=[str(i) for i in range(11)])),
                ("at most one of", policy(default="1", validValues=["1"], validRange={"min": "1"})),
                ("from 0 to the capacity's value", policy(default="9")),
                ("step must not be 0", bounds(min="1", step="0")), ("must not be negative", bounds(min="-1")),
                ("whole numbers", bounds(default="1", min="500m")), ("min <= default", bounds(default="1", min="2")),
                ("max must be min and a multiple", bounds(min="2", max="7", step="2")),
                # One unit with min 1 and step 1.
                ("min + step", bounds("1", "1", min="1", step="1")),
                ("needs allowMultipleAllocations", device("a", capacity={"m": {"value": "1", "requestPolicy": {"default": "1"}}}))):
            with self.subTest(what):
                self.refused(what, found)
        for name, found in (("v", policy(default="2", validValues=["1", "2", "8"])), ("r", bounds(min="2", max="8", step="2"))):
            self.stored(found, name=name)

    def test_refused_claims(self):
        self.begin()

        def claim(request=None, **devices):
            return {"metadata": {"name": "c"}, "spec": {"devices": {"requests": [{"name": "r", **(request or {"exactly": {
                "deviceClassName": "gpu"}})}], **devices}}}

        def exactly(**fields):
            return claim({"exactly": {"deviceClassName": "gpu", **fields}})
        for what, found in (
                ("exactly one of `exactly`", claim({"firstAvailable": [], "exactly": None})),
                ("Unsupported value: 'Most'", exactly(allocationMode="Most")), ("must be greater than zero", exactly(count=0)),
                ("unset for All", exactly(allocationMode="All", count=2)), ("deviceClassName: Required value", claim({"exactly": {}})),
                ("exactly one of `matchAttribute`", claim(constraints=[{}])),
                ("must include the domain", claim(constraints=[{"matchAttribute": "model"}])),
                ("must be the name of a request", claim(constraints=[{"requests": ["q"], "matchAttribute": "a.b/c"}])),
                ("must be Exists if the key is empty", exactly(tolerations=[{}])),
                ("must be an object", claim(config=[{"opaque": {"driver": "d.example", "parameters": "x"}}])),
                ("does not know this part of CEL: device.colour", exactly(selectors=[{"cel": {"expression": "device.colour"}}]))):
            with self.subTest(what):
                answer = self.ask("POST", CLAIMS, found)
                self.assertEqual(answer.code, 422, answer.body)
                self.assertIn(what, answer.body["message"])
        # The server of a release without the feature drops distinctAttribute, and refuses the rest.
        self.begin("1.35")
        answer = self.ask("POST", CLAIMS, claim(constraints=[{"distinctAttribute": "a.b/c"}]))
        self.assertIn("exactly one of `matchAttribute`", answer.body["message"])


class Cel(unittest.TestCase):
    DEVICE = cel.Device(DRIVER, {"attributes": {"model": {"string": "A100"}, "version": {"version": "1.2.3"}, "ecc": {"bool": True},
                                                "resource.kubernetes.io/numaNode": {"int": 1}, "nodes": {"ints": [0, 1]}},
                                 "capacity": {"memory": {"value": "80Gi"}}})
    OWN, CAPACITY = f'device.attributes["{DRIVER}"]', f'device.capacity["{DRIVER}"]'

    def check(self, text, wanted):
        with self.subTest(text):
            self.assertIs(cel.compile_expression(text)(self.DEVICE), wanted)

    def test_values(self):
        own, capacity = self.OWN, self.CAPACITY
        for text, wanted in (
                (f'device.driver == "{DRIVER}" && {own}.model == "A100"', True), (f'{own}["model"] == \'A\'', False), (f"{own}.ecc", True),
                (f"!{own}.ecc || device.allowMultipleAllocations", False), ('device.attributes["resource.kubernetes.io"].numaNode in [1, 2]', True),
                (f'{capacity}.memory.compareTo(quantity("40Gi")) >= 0', True), (f'{capacity}.memory.isLessThan(quantity("81920Mi"))', False),
                (f'{capacity}.memory == quantity("81920Mi")', True), (f'{capacity}.?cores.orValue(quantity("2")) == quantity("2")', True),
                (f'{own}.version.isGreaterThan(semver("1.2.3-rc.1"))', True), (f'{own}.version == semver("1.2.3")', True),
                (f"{own}.nodes.includes(1) && {own}.model.includes(\"A100\")", True), (f'"model" in {own} && !("x" in {own})', True),
                (f'{own}.model.startsWith("A") && {own}.model.endsWith("0") && {own}.model.contains("10")', True),
                (f'{own}.model.lowerAscii().matches("^a[0-9]+$")', True), (f"has({own}.model) && !has({own}.x)", True),
                (f"{own}.model == 100", False), (f"{own}.nodes.size() == 2 && size({own}.model) == 4", True), (f"{own}.nodes[1] == 1", True),
                ("1 < 2 && -1 <= -1 && !(2 > 2)", True), ('"a" < "b"', True), ('r"\\d" == "\\\\d"', True)):
            self.check(text, wanted)

    def test_errors_that_the_other_side_hides(self):
        missing = f'{self.OWN}.missing == "x"'
        for text, wanted in ((f"{missing} || true", True), (f"true || {missing}", True), (f"{missing} && false", False), (f"false && {missing}", False)):
            self.check(text, wanted)
        for text in (missing, f"{missing} || false", f"true && {missing}", 'device.attributes["none"].x == 1', "device.driver", f"{self.OWN}.nodes[5] == 1",
                     f"{self.OWN}.model.compareTo(1) == 0", "1 < \"a\"", 'quantity("x") == quantity("1")', f'{self.OWN}.model.matches("(?i)a")'):
            with self.subTest(text), self.assertRaises(cel.CelError):
                cel.compile_expression(text)(self.DEVICE)

    def test_long_chain(self):
        expression = cel.compile_expression(" || ".join(["false"] * 20000))
        with self.assertRaises(cel.CelError):
            expression(self.DEVICE)

    def test_what_is_not_in_the_subset(self):
        for text in ("1 + 1 == 2", "device.node", "[1].exists(x, x == 1)", "x", "true ? true : false", "{1: 2}.size() == 1", "1.5 < 2",
                     'b"x" == b"x"', '"\\u0041" == "A"', "-device.x", "cel.bind(x, 1, x == 1)"):
            with self.subTest(text), self.assertRaises(cel.UnknownCel):
                cel.compile_expression(text)
        with self.assertRaises(cel.UnknownCel):
            cel.compile_expression("(" * 5000 + "true" + ")" * 5000)
        for text in ("", "true true", "(true", "device.", "true &&", '"a".startsWith()', "size()"):
            with self.subTest(text), self.assertRaises(cel.InvalidCel):
                cel.compile_expression(text)


class Allocation(ApiTest):
    """The devices of a claim, by their names."""

    def begin(self, *devices, release="1.36", slices=None, selectors=(), config=(), **features):
        super().begin(release, **features)
        self.ask("POST", CLASSES, {"metadata": {"name": "gpu"}, "spec": {"selectors": [
            {"cel": {"expression": text}} for text in (f'device.driver == "{DRIVER}"', *selectors)], "config": list(config)}})
        for number, spec in enumerate(slices or [{"devices": list(devices)}]):
            pool = {"name": "node-a", "generation": 1, "resourceSliceCount": len(slices or [1])}
            answer = self.ask("POST", SLICES, {"metadata": {"name": f"s{number}"}, "spec": {
                "driver": DRIVER, "nodeName": "node-a", "pool": pool, **spec}})
            self.assertEqual(answer.code, 201, answer.body)

    def claim(self, name, *requests, **devices):
        """The allocation, or the reason why there is none."""
        requests = requests or ({},)
        answer = self.ask("POST", CLAIMS, {"metadata": {"name": name}, "spec": {"devices": {"requests": [
            request if "name" in request else {"name": f"r{i}", "exactly": {"deviceClassName": "gpu", **request}}
            for i, request in enumerate(requests)], **devices}}})
        self.assertEqual(answer.code, 201, answer.body)
        allocation = self.ask("GET", f"{CLAIMS}/{name}").body.get("status", {}).get("allocation")
        return allocation or self.ask("GET", "/devplug/pending").body["pending"][-1]["reason"]

    def names(self, *arguments, **devices):
        found = self.claim(*arguments, **devices)
        return found if isinstance(found, str) else [result["device"] for result in found["devices"]["results"]]

    def free(self, name):
        self.assertEqual(self.ask("DELETE", f"{CLAIMS}/{name}").code, 200)

    def test_order_and_counts(self):
        self.begin(slices=[{"devices": [device("z"), device("a")]}, {"devices": [device("b")]}])
        found = self.claim("one")
        self.assertEqual(found, {
            "devices": {"results": [{"request": "r0", "driver": DRIVER, "pool": "node-a", "device": "z"}]},
            "nodeSelector": {"nodeSelectorTerms": [{"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["node-a"]}]}]}})
        self.assertIn("1 of the others are in use", self.names("many", {"count": 3}))
        self.assertEqual(self.names("two", {"count": 2}), ["a", "b"])
        self.free("one")
        # It was first to wait for three, which are not free; the next one gets what there is.
        self.assertEqual(self.names("three"), ["z"])
        for name in ("two", "three"):
            self.free(name)
        self.assertEqual(len(self.ask("GET", f"{CLAIMS}/many").body["status"]["allocation"]["devices"]["results"]), 3)

    def test_all(self):
        self.begin(device("a"), device("b"), device("c", taints=[{"key": "bad", "effect": "NoSchedule"}]))
        self.assertIn("1 of them are tainted", self.names("all", {"allocationMode": "All"}))
        self.free("all")
        everything = {"allocationMode": "All", "tolerations": [{"key": "bad", "operator": "Exists"}]}
        self.assertEqual(self.names("all", everything), ["a", "b", "c"])
        self.assertIn("3 of the others are in use", self.names("again", everything))
        # Administrators get what others have, and take nothing.
        found = self.claim("admin", {**everything, "adminAccess": True})["devices"]["results"]
        self.assertEqual([result["adminAccess"] for result in found], [True] * 3)
        self.free("again")
        self.free("all")
        self.assertEqual(self.names("next"), ["a"])

    def test_taints(self):
        self.begin(device("a", taints=[{"key": "k", "value": "v", "effect": "NoExecute"}]), device("b", taints=[{"key": "note", "effect": "None"}]))
        self.assertEqual(self.names("one"), ["b"])
        for wrong in ({"key": "k", "value": "w"}, {"key": "other", "operator": "Exists"}, {"operator": "Exists", "effect": "NoSchedule"}):
            self.assertIn("1 of them are tainted", self.names("c", {"tolerations": [wrong]}))
            self.free("c")
        for right in ({"key": "k", "value": "v"}, {"operator": "Exists"}, {"key": "k", "operator": "Exists", "effect": "NoExecute"}):
            found = self.claim("c", {"tolerations": [right]})["devices"]["results"][0]
            self.assertEqual((found["device"], found["tolerations"]), ("a", [right]))
            self.free("c")

    def test_selectors(self):
        own = f'device.attributes["{DRIVER}"]'
        self.begin(device("a", attributes={"model": {"string": "A"}}), device("b", attributes={"model": {"string": "B"}}), device("c"),
                   selectors=[f'"model" in {own}'])
        self.assertEqual(self.names("b", {"selectors": [{"cel": {"expression": f'{own}.model == "B"'}}]}), ["b"])
        self.assertIn("no such key: memory", self.names("error", {"selectors": [{"cel": {
            "expression": f'device.capacity["{DRIVER}"].memory.compareTo(quantity("1")) > 0'}}]}))
        self.assertIn("there is no DeviceClass none", self.names("none", {"deviceClassName": "none"}))

    def test_alternatives(self):
        self.begin(device("small"), device("big", attributes={"big": {"bool": True}}))
        big = {"name": "big", "deviceClassName": "gpu", "selectors": [{"cel": {"expression": f'"big" in device.attributes["{DRIVER}"]'}}]}
        request = {"name": "r", "firstAvailable": [big, {"name": "small", "deviceClassName": "gpu"}]}
        for name, wanted in (("one", ("r/big", "big")), ("two", ("r/small", "small"))):
            result = self.claim(name, request)["devices"]["results"][0]
            self.assertEqual((result["request"], result["device"]), wanted)

    def test_constraints(self):
        def at(root, **more):
            return {"attributes": {"resource.kubernetes.io/pcieRoot": {"string": root}, **more}}
        match = [{"matchAttribute": "resource.kubernetes.io/pcieRoot"}]
        distinct = [{"distinctAttribute": "resource.kubernetes.io/pcieRoot"}]
        self.begin(device("a", **at("x")), device("b"), device("c", **at("y", own={"int": 1})), device("d", **at("y", own={"int": 1})))
        self.assertEqual(self.names("match", {}, {}, constraints=match), ["c", "d"])
        self.free("match")
        self.assertEqual(self.names("distinct", {"count": 2}, constraints=distinct), ["a", "c"])
        self.free("distinct")
        self.assertIn("the constraints exclude the rest", self.names("three", {"count": 3}, constraints=match))
        self.free("three")
        # A constraint on one request; and an own attribute by its full name.
        self.assertEqual(self.names("some", {}, {"count": 2}, constraints=[{"requests": ["r1"], "matchAttribute": DRIVER + "/own"}]), ["a", "c", "d"])

    def test_lists_in_constraints(self):
        def on(**value):
            return {"attributes": {"resource.kubernetes.io/numaNode": value}}
        self.begin(device("a", **on(ints=[0, 1])), device("b", **on(ints=[2])), device("c", **on(int=1)), DRAListTypeAttributes=True)
        self.assertEqual(self.names("match", {"count": 2}, constraints=[{"matchAttribute": "resource.kubernetes.io/numaNode"}]), ["a", "c"])

    COUNTERS = {"sharedCounters": [{"name": "card", "counters": {"slots": {"value": "2"}}}]}

    @staticmethod
    def part(name, slots, **more):
        return device(name, consumesCounters=[{"counterSet": "card", "counters": {"slots": {"value": str(slots)}}}], **more)

    def test_counters(self):
        self.begin(slices=[{"devices": [self.part("half-0", 1), self.part("half-1", 1), self.part("whole", 2)]}, self.COUNTERS])
        self.assertEqual([self.names("one"), self.names("two")], [["half-0"], ["half-1"]])
        self.assertIn("0 of them are tainted", self.names("three"))
        self.free("three")
        self.free("one")
        whole = {"selectors": [{"cel": {"expression": f'device.driver == "{DRIVER}"'}}], "count": 2}
        self.assertIsInstance(self.names("pair", whole), str)
        self.free("pair")
        self.free("two")
        self.assertEqual(self.names("pair", {"count": 2}), ["half-0", "half-1"])

    def test_counters_of_devices_for_other_nodes(self):
        """Two nodes reach the card; what the other node's claim has is gone here, too."""
        parts = [self.part("here", 2, nodeName="node-a"), self.part("there", 2, nodeName="node-b")]
        self.begin(slices=[{"devices": parts, "nodeName": None, "perDeviceNodeSelection": True}, {**self.COUNTERS, "nodeName": None, "allNodes": True}])
        self.ask("POST", "/api/v1/nodes", {"metadata": {"name": "node-b"}})
        self.assertEqual(self.names("one"), ["here"])
        self.assertIsInstance(self.names("two"), str)

    def test_shared_device_consumes_its_counters_once(self):
        self.begin(slices=[{"devices": [self.part("shared", 2, allowMultipleAllocations=True, capacity={"n": {"value": "4", "requestPolicy": {
            "default": "1"}}}), self.part("whole", 2)]}, self.COUNTERS])
        self.assertEqual([self.names("a"), self.names("b"), self.names("c"), self.names("d")], [["shared"]] * 4)
        self.assertIsInstance(self.names("e"), str)

    def test_invalid_pools(self):
        part, sets = self.part("a", 1), self.COUNTERS
        for what, slices in (("consumes a counter of card that no slice has", [{"devices": [part]}]),
                             ("a device is in it twice", [{"devices": [device("a")]}, {"devices": [device("a")]}]),
                             ("a counter set is in it twice", [{"devices": [part]}, sets, sets])):
            with self.subTest(what):
                self.begin(slices=slices)
                self.assertIn(what, self.names("c"))
        self.begin(device("a"))
        found = self.ask("GET", SLICES + "/s0").body
        found["spec"]["pool"]["resourceSliceCount"] = 2
        self.ask("PUT", SLICES + "/s0", found)
        self.assertIn("is incomplete: 1 of 2 slices", self.names("c"))
        # Only the newest generation counts.
        found["metadata"], found["spec"]["pool"] = {"name": "s1"}, {"name": "node-a", "generation": 2, "resourceSliceCount": 1}
        found["spec"]["devices"] = [device("new")]
        self.ask("POST", SLICES, found)
        self.assertEqual(self.ask("GET", CLAIMS + "/c").body["status"]["allocation"]["devices"]["results"][0]["device"], "new")

    def shares(self, name, amount=None, **more):
        request = {"capacity": {"requests": {"memory": amount}}} if amount else {}
        found = self.claim(name, {**request, **more})
        return found if isinstance(found, str) else [result.get("consumedCapacity", {}).get("memory") for result in found["devices"]["results"]]

    def test_capacity(self):
        """Amounts are rounded by the policy; what is consumed is never more than there is."""
        self.begin(device("a", allowMultipleAllocations=True, capacity={
            "memory": {"value": "8Gi", "requestPolicy": {"default": "2Gi", "validRange": {"min": "1Gi", "max": "4Gi", "step": "1Gi"}}}}))
        self.assertEqual([self.shares("a"), self.shares("b", "100Mi"), self.shares("c", "1025Mi"), self.shares("d", "3Gi")],
                         [["2Gi"], ["1Gi"], ["2Gi"], ["3Gi"]])
        self.assertIsInstance(self.shares("e"), str)
        self.free("d")
        self.free("e")
        self.assertIsInstance(self.shares("f", "5Gi"), str)
        self.free("f")
        self.assertIsInstance(self.names("g", {"capacity": {"requests": {"cores": "1"}}}), str)

    def test_shares_of_one_device(self):
        slots = device("a", allowMultipleAllocations=True, attributes={"uuid": {"string": "a"}}, capacity={
            "slots": {"value": "4", "requestPolicy": {"default": "1", "validValues": ["1", "2"]}}})
        self.begin(slots, device("b", allowMultipleAllocations=True, attributes={"uuid": {"string": "b"}}))
        found = self.claim("two", {"count": 2})["devices"]["results"]
        self.assertEqual([result["device"] for result in found], ["a", "a"])
        self.assertEqual(len({result["shareID"] for result in found}), 2)
        self.assertEqual([result["consumedCapacity"] for result in found], [{"slots": "1"}] * 2)
        self.free("two")
        self.assertEqual(self.names("distinct", {"count": 2}, constraints=[{"distinctAttribute": f"{DRIVER}/uuid"}]), ["a", "b"])

    def test_capacity_of_a_whole_device(self):
        self.begin(device("small", capacity={"memory": {"value": "8Gi"}}), device("large", capacity={"memory": {"value": "16Gi"}}))
        found = self.claim("c", {"capacity": {"requests": {"memory": "10Gi"}}})["devices"]["results"]
        self.assertEqual([(result["device"], "shareID" in result) for result in found], [("large", False)])
        for release, wanted in (("1.37", str), ("1.38", list)):
            self.begin(device("a", capacity={"memory": {"value": "8Gi"}}), release=release)
            self.assertIsInstance(self.names("c", {"capacity": {"requests": {f"{DRIVER}/memory": "1Gi"}}}), wanted)

    def test_shared_device_becomes_exclusive(self):
        for release, wanted in (("1.37", ["a"]), ("1.38", str)):
            self.begin(device("a", allowMultipleAllocations=True), release=release)
            self.assertEqual(self.names("share"), ["a"])
            found = self.ask("GET", SLICES + "/s0").body
            del found["spec"]["devices"][0]["allowMultipleAllocations"]
            self.assertEqual(self.ask("PUT", SLICES + "/s0", found).code, 200)
            names = self.names("whole")
            self.assertTrue(names == wanted or type(names) is wanted, names)
        # And the other way: who has the whole device keeps it.
        self.begin(device("a"))
        self.assertEqual(self.names("whole"), ["a"])
        found = self.ask("GET", SLICES + "/s0").body
        found["spec"]["devices"][0]["allowMultipleAllocations"] = True
        self.assertEqual(self.ask("PUT", SLICES + "/s0", found).code, 200)
        self.assertIsInstance(self.names("share"), str)

    def test_parameters(self):
        """The parameters of the class come before those of the claim."""
        def opaque(value):
            return {"opaque": {"driver": DRIVER, "parameters": {"value": value}}}
        for release, requests in (("1.36", [["r0"], ["r1"]]), ("1.37", [None])):
            self.begin(device("a"), device("b"), release=release, config=[opaque("class")])
            found = self.claim("c", {}, {}, config=[{**opaque("claim"), "requests": ["r1"]}])["devices"]["config"]
            self.assertEqual(found, [*({"source": "FromClass", **({"requests": names} if names else {}), **opaque("class")} for names in requests),
                                     {"source": "FromClaim", "requests": ["r1"], **opaque("claim")}])

    def test_what_is_not_known_is_refused(self):
        self.begin(device("a"))
        self.ask("DELETE", SLICES + "/s0")
        self.write(device("a"), nodeName=None, nodeSelector={"nodeSelectorTerms": []})
        self.assertIn("uses a nodeSelector, which devplug-apiserver does not know", self.names("c"))
        # It is a fault of that pool; the devices of others are allocated.
        self.write(device("other"), name="b", driver=DRIVER, pool={"name": "good", "generation": 1, "resourceSliceCount": 1})
        self.assertEqual(self.ask("GET", CLAIMS + "/c").body["status"]["allocation"]["devices"]["results"][0]["device"], "other")
        self.assertEqual([(pool["name"], pool["complete"], bool(pool["fault"])) for pool in self.ask("GET", "/devplug/pools").body["pools"]],
                         [("good", True, False), ("node-a", True, True)])

    def test_large_search_ends(self):
        """Constraints that cannot be met by any choice of many."""
        self.begin(*(device(f"d{i}", attributes={"resource.kubernetes.io/numaNode": {"int": i % 2}}) for i in range(64)))
        why = self.names("c", {"count": 16}, {"count": 17}, constraints=[{"matchAttribute": "resource.kubernetes.io/numaNode"}])
        self.assertIn("gives up; simplify the claim", why)


class Manual(unittest.TestCase):
    """devplug-apiserver(1)"""

    def setUp(self):
        with open(f"{APISERVER}/../docs/devplug-apiserver.1") as file:
            self.page = file.read()

    def test_subset_of_cel(self):
        text = self.page[self.page.index("Selectors may use"):self.page.index(".Sh RELEASES")]
        for name in (*cel.METHODS, *cel.FUNCTIONS, *cel.OPERATORS, *cel.DEVICE_FIELDS):
            self.assertIn(name, text)

    def test_releases(self):
        self.assertIn("imitate: 1.34, 1.35, 1.36 (the default), 1.37 or 1.38", self.page)
        self.assertEqual(RELEASES, ("1.34", "1.35", "1.36", "1.37", "1.38"))
        items = re.split(r"^\.It\n", self.page[self.page.index(".Sh RELEASES"):self.page.index(".Sh WHAT IS NOT")], flags=re.M)[1:]
        self.assertGreater(len(items), 5)
        tests = {name for group in (Releases, Allocation) for name in dir(group)}
        for item in items:
            self.assertLessEqual(set(re.findall(r" (test_\w+)(?= |$)", item.splitlines()[0])), tests)
            self.assertRegex(item, r'^\.\\" tests: test_apiserver_rules\.py test_')
        for feature in FIELDS:
            self.assertIn(feature, "".join(items))


class FieldsFile(unittest.TestCase):
    def test_json_members_are_ascii(self):
        """The file is made by a program; a name that nobody would write is a fault of the program."""
        for kind, fields in TYPES.items():
            for name, form in fields.items():
                self.assertRegex(f"{kind}.{name}", r"^[A-Z]\w+\.[a-z]\w*!?$")
                inner = form.strip("[]{}")
                self.assertTrue(inner in TYPES or inner in ("any", "string", "boolean", "integer", "time"), json.dumps(form))


if __name__ == "__main__":
    unittest.main()
