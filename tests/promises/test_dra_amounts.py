# SPDX-License-Identifier: Apache-2.0
"""Devices that claims share by amount: what is published, what claims and containers get, and never more than a device has."""
import json
import os
import signal
import unittest

from api_server import Release
from dra_node import DRIVER, DraPodTest, DraTest
from node import until
from numbered_host import NumberedHost

ROOT = os.path.realpath(os.path.join(os.path.dirname(__file__), "../.."))

GI = 1 << 30
RESOURCE = "vendor.example/card"
CLASS = "card.vendor.example"
MEMORY = '{ name = "memory"; value = "80Gi"; step = "1Gi"; default = "10Gi"; max = "40Gi"; }'


class Amounts(DraTest):
    def card(self, capacity=MEMORY, more="", count=1, serve="dra", env="MEMORY=${capacity:memory:Gi}"):
        return (f'{{ name = "{RESOURCE}"; driver = "static"; match = ( {{ count = {count}; }} ); serve = "{serve}"; '
                f'{f"capacity = ( {capacity} );" if capacity else ""} container = {{ env = ( "IDS=${{ids}}", "{env}" ); }}; {more} }}')

    def start(self, *resources, release="1.36", text="", count=1):
        self.serve_api(release=release)
        self.begin(*resources or [self.card()], text=text)
        self.await_pool(lambda pool: len(pool) >= count)
        self.api.apply(self.ctl("dra", "classes").stdout)

    def claim(self, name, amount=None, count=1, **more):
        """The claim that the scheduler has allocated, as the kubelet names it; None: it stays pending."""
        requests = {"capacity": {"requests": {"memory": amount}}} if amount else {}
        claim = self.api.schedule(name, [("r", CLASS, count, {**requests, **more})])
        return claim and ("default", name, claim["metadata"]["uid"])

    def get(self, claim, version="v1"):
        """What a container gets: (variables, share ids). An error is a string."""
        answer = self.prepare(claim, version=version)[claim[2]]
        if isinstance(answer, str):
            return answer
        specification = self.specification(claim[2]) or {}
        env = [variable for device in answer for name in device["cdi"] for variable in specification[name]["env"]]
        return dict(variable.split("=", 1) for variable in env), [device.get("share") for device in answer]

    def free(self, claim):
        self.assertEqual(self.unprepare(claim)[claim[2]], "")
        del self.api.claims[claim[0], claim[1]]

    def device(self):
        return self.node.status()["resources"][0]["devices"][0]

    def test_published(self):
        """The rules of the API, and a value that is a multiple of the step."""
        def policy(name, capacity, rules):
            with self.subTest(name):
                found = next(iter(self.await_pool(lambda pool: pool).values()))
                self.assertIs(found.get("allowMultipleAllocations"), True)
                self.assertEqual(found["capacity"], rules, capacity)

        cases = (
            ("range", MEMORY, {"memory": {"value": "80Gi", "requestPolicy": {
                "default": "10Gi", "validRange": {"min": "1Gi", "max": "40Gi", "step": "1Gi"}}}}),
            ("rounded", '{ name = "memory"; value = "81919Mi"; step = "1Gi"; }', {"memory": {"value": "79Gi", "requestPolicy": {
                "default": "79Gi", "validRange": {"min": "1Gi", "step": "1Gi"}}}}),
            ("values", '{ name = "memory"; value = "8"; values = ( "1", "2", "4" ); default = "2"; }',
             {"memory": {"value": "8", "requestPolicy": {"default": "2", "validValues": ["1", "2", "4"]}}}),
            ("any", '{ name = "memory"; value = "1000"; }', {"memory": {"value": "1k", "requestPolicy": {"default": "1k"}}}),
            ("two", '{ name = "memory"; value = "8Gi"; }, { name = "vendor.example/units"; value = "100"; step = "10"; default = "50"; }',
             {"memory": {"value": "8Gi", "requestPolicy": {"default": "8Gi"}}, "vendor.example/units": {
                 "value": "100", "requestPolicy": {"default": "50", "validRange": {"min": "10", "step": "10"}}}}))
        self.serve_api()
        for name, capacity, rules in cases:
            self.configure(self.card(capacity))
            self.node.start()
            policy(name, capacity, rules)
            self.assertEqual(json.loads(self.ctl("dra", "slices").stdout)["items"][0]["spec"]["devices"][0]["capacity"], rules)
            self.node.stop()
            for slice_ in list(self.api.slices):
                self.api.change("DELETED", slice_)

    def test_claims(self):
        """Amounts are rounded, reach the container, and end with the claim. Each release that knows them."""
        for release in ("1.36", "1.37", "1.38"):
            with self.subTest(release):
                self.start(release=release)
                claims = [self.claim(name, amount) for name, amount in (("a", None), ("b", "4Gi"), ("c", "4097Mi"), ("d", "40Gi"), ("e", "21Gi"))]
                self.assertIsNotNone(claims[3])
                # 10 + 4 + 5 + 40 of 80 are taken; 21 remain.
                self.assertEqual([self.get(claim)[0]["MEMORY"] for claim in claims], ["10", "4", "5", "40", "21"])
                self.assertIsNone(self.claim("f", "1Gi"))
                self.assertIsNone(self.claim("g", "41Gi"))
                env, shares = self.get(claims[1])
                result = self.api.claims["default", "b"]["status"]["allocation"]["devices"]["results"][0]
                self.assertEqual((env["IDS"], shares), ("card-0", [result["shareID"]]))
                # v1beta1 of the service has no field for it.
                self.assertEqual(self.get(claims[1], version="v1beta1"), (env, [None]))
                held = {claim["name"]: claim["amounts"]["memory"] for claim in self.device()["claims"]}
                self.assertEqual(held, {"a": 10 * GI, "b": 4 * GI, "c": 5 * GI, "d": 40 * GI, "e": 21 * GI})
                self.assertIn("claim default/b with 4Gi of memory", " ".join(self.ctl("devices", RESOURCE).stdout.split()))
                names = {name for claim in claims for name in self.specification(claim[2])}
                self.assertEqual(len(names), 5)
                self.free(claims[3])
                again = self.claim("h", "30Gi")
                self.assertEqual(self.get(again)[0]["MEMORY"], "30")
                for claim in (*claims[:3], claims[4], again):
                    self.free(claim)
                self.assertEqual(self.files(), [])
                self.node.stop()
                self.api.stop()

    def test_several_shares(self):
        """A claim with several shares of one device: each has a share id, and a container gets the sum of its request's."""
        self.start()
        one = self.claim("one", "4Gi", count=3)
        env, shares = self.get(one)
        self.assertEqual((env, len(set(shares))), ({"IDS": "card-0", "MEMORY": "12"}, 3))
        # A container reads of one device.
        (text,) = self.metadata(one[2]).values()
        self.assertEqual(len(json.loads(text.splitlines()[0])["requests"][0]["devices"]), 1)
        claim = self.api.schedule("two", [(name, CLASS, 1, {"capacity": {"requests": {"memory": amount}}})
                                          for name, amount in (("x", "5Gi"), ("y", "6Gi"))])
        two = ("default", "two", claim["metadata"]["uid"])
        answer = self.prepare(two)[two[2]]
        self.assertEqual([device["requests"] for device in answer], [["x"], ["y"]])
        specification = self.specification(two[2])
        self.assertEqual([dict(v.split("=") for v in specification[device["cdi"][0]]["env"])["MEMORY"] for device in answer], ["5", "6"])
        for device in answer:
            self.assertEqual(device["cdi"], [f"devplugd/claim={two[2]}-{device['device']}-{device['share']}"])
        self.assertEqual(self.prepare(two)[two[2]], answer)
        self.assertIn("claim default/one with 12Gi of memory, claim default/two with 11Gi of memory",
                      " ".join(self.ctl("devices", RESOURCE).stdout.split()))
        # A part of a claim cannot be forgotten.
        self.assertEqual(self.ctl("forget", f"{RESOURCE}/card-0").returncode, 0)
        self.assertEqual(self.device()["claims"], [])
        self.assertEqual(self.files(), [])

    def test_restarts(self):
        """Claims keep their amounts, shares and names over a kill, a change of the configuration, and a restart of the host."""
        self.start()
        claims = [self.claim("a", "4Gi"), self.claim("b", "6Gi", count=2)]
        before = [self.prepare(claim)[claim[2]] for claim in claims]
        self.node.stop(signal.SIGKILL)
        self.node.start()
        self.register_again()
        self.assertEqual([self.prepare(claim)[claim[2]] for claim in claims], before)
        self.assertEqual([self.get(claim)[0]["MEMORY"] for claim in claims], ["4", "12"])
        # Other edits keep the amounts.
        self.configure(self.card(env="LIMIT=${capacity:memory:Mi}"))
        self.assertEqual(self.ctl("reload").returncode, 0)
        until(lambda: any("LIMIT=12288" in edits["env"] for edits in self.specification(claims[1][2]).values()), "the new edits")
        self.node.stop()
        for claim in claims:
            self.change_saved(claim[2], lambda saved: saved.update(boot="another"))
        self.node.start()
        self.register_again()
        self.assertEqual(self.files(), [])
        self.assertEqual([self.prepare(claim)[claim[2]] for claim in claims], before)
        self.assertEqual([self.get(claim)[0]["LIMIT"] for claim in claims], ["4096", "12288"])

    def result(self, device, amount="4Gi", **more):
        return {"request": "r", "driver": DRIVER, "pool": "node-a", "device": device, "shareID": "00000000-0000-4000-8000-000000000001",
                "consumedCapacity": {"memory": amount}, **more}

    def allocated(self, name, *results):
        return "default", name, self.api.allocate_results(name, results)

    def test_odd_results(self):
        """What no scheduler sends is refused with the reason, and no container starts with it."""
        self.start()
        device = self.api.device_named(RESOURCE, 0)
        whole = {"request": "r", "driver": DRIVER, "pool": "node-a", "device": device}
        good = self.result(device)
        cases = {
            "it has amounts, but no share id": [{k: v for k, v in good.items() if k != "shareID"}],
            'its share id "../x" is not valid': [self.result(device, shareID="../x")],
            'its share id "" is not valid': [self.result(device, shareID=7)],
            'its share id "00000000-0000-4000-8000-000000000001" is not valid': [good, good],
            'it has no amount of "memory"': [self.result(device, consumedCapacity={})],
            'its amount of "memory" is not a quantity from 0 on': [self.result(device, "-1Gi")],
            'it has an amount of "cores", which the device does not have any more': [
                self.result(device, consumedCapacity={"memory": "1Gi", "cores": "1"})],
            'it has two amounts of "memory"': [self.result(device, consumedCapacity={"memory": "1Gi", f"{DRIVER}/memory": "1Gi"})],
            f'device card-0 of {RESOURCE} has 80Gi of "memory", and the claim has 81Gi of it': [self.result(device, "81Gi")],
            f"the claim has device card-0 of {RESOURCE} as a whole and by amount": [good, {**whole, "request": "s"}],
        }
        for number, (reason, results) in enumerate(cases.items()):
            with self.subTest(reason):
                self.assertIn(reason, self.refusal(self.allocated(f"odd-{number}", *results)))
        for text in ("x", "1 Gi", "1e", 5, None, "9223372036854775808", "8Ei"):
            with self.subTest(amount=text):
                self.assertIn("is not a quantity", self.refusal(self.allocated(f"text-{text}".lower().replace(" ", ""), self.result(device, text))))
        # All notations, and the name with the driver's domain.
        for number, (amount, gibibytes) in enumerate((("4294967296", "4"), ("4.0Gi", "4"), ("4096Mi", "4"), ("4294967296000m", "4"), ("4294967.296e3", "4"),
                                                     ("0", "0"))):
            claim = self.allocated(f"form-{number}", self.result(device, consumedCapacity={f"{DRIVER}/memory": amount}))
            self.assertEqual(self.get(claim)[0]["MEMORY"], gibibytes)
            self.free(claim)
        self.assertEqual((self.files(), self.device()["claims"]), ([], []))

    def test_never_more(self):
        """Prepare refuses by hardware, whatever the scheduler did: amounts beyond the device, and the whole beside shares."""
        self.start()
        device = self.api.device_named(RESOURCE, 0)
        a = self.allocated("a", self.result(device, "50Gi"))
        b = self.allocated("b", self.result(device, "31Gi"))
        whole = self.allocated("whole", {"request": "r", "driver": DRIVER, "pool": "node-a", "device": device})
        self.assertEqual(self.get(a)[0]["MEMORY"], "50")
        self.assertIn(f'device card-0 of {RESOURCE} has 80Gi of "memory", of which 50Gi are prepared for the claim default/a, so 31Gi '
                      'more do not fit', self.refusal(b))
        self.assertIn("is still prepared for the claim default/a", self.refusal(whole))
        self.free(a)
        self.assertEqual(self.get(whole)[0]["MEMORY"], "80")
        # Depending on whether the slices show it already.
        self.assertRegex(self.refusal(b), "is still prepared for the claim default/whole|a share of a device that is not shared now")
        self.free(whole)
        self.assertEqual(self.get(b)[0]["MEMORY"], "31")
        # The holders have names.
        small = [self.allocated(f"small-{i}", self.result(device, "12Gi")) for i in range(5)]
        answers = [self.get(claim) for claim in small[:4]] + [self.refusal(small[4])]
        self.assertEqual([answer[0]["MEMORY"] for answer in answers[:4]], ["12"] * 4)
        self.assertIn("of which 79Gi are prepared for the claims default/b, default/small-0, default/small-1 and 2 more", answers[4])

    def test_new_policy(self):
        """Rules that change hold for the next claims, and claims from before keep their amounts, also beyond what a device has now."""
        self.start()
        old = self.claim("old", "5Gi")
        self.assertEqual(self.get(old)[0]["MEMORY"], "5")
        self.configure(self.card('{ name = "memory"; value = "16Gi"; step = "8Gi"; default = "8Gi"; }'))
        self.assertEqual(self.ctl("reload").returncode, 0)
        self.await_pool(lambda pool: [found["capacity"]["memory"]["value"] for found in pool.values()] == ["16Gi"])
        new = self.claim("new", "1Gi")
        self.assertEqual(self.get(new)[0]["MEMORY"], "8")
        self.assertIsNone(self.claim("more", "1Gi"))
        self.configure(self.card('{ name = "memory"; value = "4Gi"; step = "1Gi"; }'))
        self.assertEqual(self.ctl("reload").returncode, 0)
        self.await_pool(lambda pool: [found["capacity"]["memory"]["value"] for found in pool.values()] == ["4Gi"])
        self.assertEqual([self.get(claim)[0]["MEMORY"] for claim in (old, new)], ["5", "8"])
        self.assertIn("do not fit", self.refusal(self.allocated("late", self.result(self.api.device_named(RESOURCE, 0), "1Gi"))))

    # --- servers that drop the fields

    def test_parts(self):
        """Where the server drops the fields: as many devices as default amounts; without a default, one."""
        for release in ("1.34", "1.35"):
            with self.subTest(release):
                self.start(release=release)
                pool = self.await_pool(lambda pool: len(pool) == 8)
                for found in pool.values():
                    self.assertEqual(found["capacity"], {"memory": {"value": "10Gi"}})
                    self.assertNotIn("allowMultipleAllocations", found)
                    self.assertEqual(found["attributes"]["id"], {"string": "card-0"})
                self.assertIn("devices that are shared by amount (feature gate DRAConsumableCapacity)",
                              " ".join(self.ctl("status").stdout.split()))
                claims = [self.claim(f"c{i}") for i in range(9)]
                self.assertIsNone(claims.pop())
                self.assertEqual([self.get(claim) for claim in claims], [({"IDS": "card-0", "MEMORY": "10"}, [None])] * 8)
                for claim in claims:
                    self.free(claim)
                two = self.claim("two", count=2)
                self.assertEqual(self.get(two)[0], {"IDS": "card-0", "MEMORY": "20"})
                self.free(two)
                self.configure(self.card('{ name = "memory"; value = "80Gi"; step = "1Gi"; }'))
                self.assertEqual(self.ctl("reload").returncode, 0)
                pool = self.await_pool(lambda pool: len(pool) == 1)
                self.assertEqual(next(iter(pool.values()))["capacity"], {"memory": {"value": "80Gi"}})
                claim = self.claim("one")
                self.assertIsNone(self.claim("other"))
                self.assertEqual(self.get(claim)[0]["MEMORY"], "80")
                self.free(claim)
                self.node.stop()
                self.api.stop()

    # --- changes of the mode

    def change(self, line):
        self.configure(line)
        self.assertEqual(self.ctl("reload").returncode, 0)

    def test_exclusive_to_shared(self):
        """A claim from before keeps the whole device, and the next ones share it."""
        self.start(self.card(capacity="", env="X=1"))
        whole = self.claim("whole")
        self.assertEqual(self.get(whole)[1], [None])
        self.change(self.card())
        until(lambda: self.node.generation() == 2, "the configuration")
        self.assertIsNone(self.claim("early", "1Gi"))
        share = self.allocated("share", self.result(self.api.device_named(RESOURCE, 0)))
        self.assertIn("a share of a device that is not shared now", self.refusal(share))
        self.assertEqual(self.get(whole)[1], [None])
        until(lambda: list(self.specification(whole[2]).values())[0]["env"] == ["IDS=card-0", "MEMORY=80"], "the new edits")
        self.free(whole)
        self.await_pool(lambda pool: all(found.get("allowMultipleAllocations") for found in pool.values()))
        self.assertEqual(self.get(share)[0]["MEMORY"], "4")
        self.assertEqual(self.get(self.claim("late", "5Gi"))[0]["MEMORY"], "5")

    def test_shared_to_exclusive(self):
        """Up to 1.37, the scheduler would allocate a device whose shares are still in use: it stays shared, with nothing left."""
        self.start(release="1.37")
        a, b = self.claim("a", "10Gi"), self.claim("b", "20Gi")
        self.assertEqual([self.get(claim)[0]["MEMORY"] for claim in (a, b)], ["10", "20"])
        self.change(self.card(capacity="", env="X=1"))
        wanted = {"memory": {"value": "30Gi"}}
        self.await_pool(lambda pool: [found.get("capacity") for found in pool.values()] == [wanted])
        self.assertEqual([self.claim("c"), self.claim("d", "1Gi")], [None, None])
        self.assertEqual(json.loads(self.ctl("dra", "slices").stdout)["items"][0]["spec"]["devices"][0]["capacity"], wanted)
        self.free(a)
        self.await_pool(lambda pool: [found.get("capacity") for found in pool.values()] == [{"memory": {"value": "20Gi"}}])
        # It may be prepared again as it was, for example after a restart of the host.
        self.node.stop()
        self.change_saved(b[2], lambda saved: saved.update(boot="another"))
        self.node.start()
        self.register_again()
        self.assertEqual(self.get(b)[1], [self.api.claims["default", "b"]["status"]["allocation"]["devices"]["results"][0]["shareID"]])
        self.free(b)
        self.await_pool(lambda pool: not any("allowMultipleAllocations" in found for found in pool.values()))
        self.assertEqual(self.get(self.claim("e"))[0], {"IDS": "card-0", "X": "1"})

    def test_upgraded_server(self):
        """Parts of a device stay until their claims end; only then is it shared by amount."""
        self.start(release="1.35")
        self.await_pool(lambda pool: len(pool) == 8)
        part = self.claim("part")
        self.assertEqual(self.get(part)[0]["MEMORY"], "10")
        self.api.kubernetes = Release("1.36")
        name = part[1]
        device = self.api.claims["default", name]["status"]["allocation"]["devices"]["results"][0]["device"]
        self.node.stop()
        self.node.start()
        self.register_again()
        pool = self.await_pool(lambda pool: set(pool) == {device})
        self.assertNotIn("allowMultipleAllocations", pool[device])
        self.assertEqual(pool[device]["capacity"], {"memory": {"value": "10Gi"}})
        self.assertIsNone(self.claim("early", "1Gi"))
        self.free(part)
        self.await_pool(lambda pool: all(found.get("allowMultipleAllocations") for found in pool.values()))
        self.assertEqual(self.get(self.claim("late", "40Gi"))[0]["MEMORY"], "40")

    # --- values, programs, and the device plugin

    def exec(self, capacity, more=""):
        path = self.script("list", f"echo '{json.dumps(self.listed)}'")
        return (f'{{ name = "{RESOURCE}"; driver = "exec"; match = ( {{ command = "{path}"; }} ); serve = "dra"; {capacity} '
                f'container = {{ env = "SEATS=${{capacity:seats}}"; }}; {more} }}')

    def test_programs(self):
        """A program prints what a device has, and programs at allocation get the amount."""
        self.listed = {"version": 1, "devices": [
            {"id": "server", "capacity": {"seats": "5", "cores": "2k"}}, {"id": "single", "capacity": {"seats": "1"}}, {"id": "none"}]}
        os.mkdir(self.node.path("out"))
        os.chmod(self.node.path("out"), 0o777)
        question, arguments = self.node.path("out/question"), self.node.path("out/arguments")
        program = self.script("allocate", f"cat > {question}; echo '{{\"version\": 1}}'")
        prestart = self.script("prestart", f"echo $* > {arguments}")
        self.start(self.exec('capacity = ( { name = "seats"; step = "1"; default = "1"; } );',
                             f'allocate = {{ command = "{program}"; }}; prestart = {{ command = ( "{prestart}", "${{id}}", "${{capacity:seats}}" ); }};'))
        pool = self.await_pool(lambda pool: len(pool) == 3)
        found = {device["attributes"]["id"]["string"]: device for device in pool.values()}
        self.assertEqual(found["server"]["capacity"], {"seats": {"value": "5", "requestPolicy": {
            "default": "1", "validRange": {"min": "1", "step": "1"}}}})
        # A device that breaks a rule is offered as a whole, and status has the reason.
        self.assertEqual(found["single"]["capacity"], {"seats": {"value": "1"}})
        self.assertNotIn("capacity", found["none"])
        self.assertFalse({"allowMultipleAllocations"} & (set(found["single"]) | set(found["none"])))
        self.assertIn('devices that cannot be shared by "seats": 2, such as', " ".join(self.ctl("status").stdout.split()))
        claim = self.allocated("c", self.result(found["server"]["name"], consumedCapacity={"seats": "3"}))
        self.assertEqual(self.get(claim)[0], {"SEATS": "3"})
        with open(question) as file:
            self.assertEqual(json.load(file)["devices"][0]["capacity"], {"seats": 3})
        with open(arguments) as file:
            self.assertEqual(file.read(), "server 3\n")
        whole = self.allocated("whole", {"request": "r", "driver": DRIVER, "pool": "node-a", "device": found["single"]["name"]})
        self.assertEqual(self.get(whole)[0], {"SEATS": "1"})
        with open(question) as file:
            self.assertEqual(json.load(file)["devices"][0]["capacity"], {"seats": 1})

    def test_bad_program(self):
        """What it prints is checked."""
        for capacity, reason in (({"seats": "-1"}, '"seats" must be a whole number'), ({"a-b": "1"}, "must be a name of at most 32"),
                                 ({"seats": 1}, '"seats" must be a string'), ({f"n{i}": "1" for i in range(9)}, '"capacity" has 9 members')):
            with self.subTest(reason):
                self.listed = {"version": 1, "devices": [{"id": "server", "capacity": capacity}]}
                self.configure(self.exec(""))
                self.node.start()
                until(lambda: reason in " ".join(self.ctl("status").stdout.split()), "the reason")
                self.node.stop()

    def test_limits(self):
        """A pod with `limits` consumes the default."""
        self.start()
        claims = [self.api.schedule_limits(f"pod-{i}", [{RESOURCE: 1}]) for i in range(9)]
        self.assertIsNone(claims.pop())
        found = [self.get(("default", claim["metadata"]["name"], claim["metadata"]["uid"]))[0]["MEMORY"] for claim in claims]
        self.assertEqual(found, ["10"] * 8)

    def test_recipes(self):
        """The examples of the documentation, with stand-ins for the hardware."""
        with open(os.path.join(ROOT, "docs/examples/capacity.conf")) as file:
            text = file.read()
        self.assertIn("vendor = 0x2500; product = 0x0022;", text)
        text = text.replace("vendor = 0x2500; product = 0x0022;", "vendor = 0x046d;")
        lines = text.split("resources = (", 1)[1].rsplit(");", 1)[0]
        NumberedHost(self.node.path("host"), 0)
        self.start(lines, text=f'host_root = "{self.node.path("host")}";', count=3)
        pool = {device["attributes"]["resource"]["string"].split("/")[1]: name for name, device in self.api.pool().items()}
        cases = (("cuda", "memory", "1Gi", {"CUDA_MPS_PINNED_DEVICE_MEM_LIMIT": "0=2048M", "CUDA_DEVICE_MEMORY_LIMIT_0": "2048m"}),
                 ("cuda", "memory", None, {"CUDA_MPS_PINNED_DEVICE_MEM_LIMIT": "0=10240M", "CUDA_DEVICE_MEMORY_LIMIT_0": "10240m"}),
                 ("radio", "channels", "3", None), ("radio", "channels", "1", {"RADIO_CHANNELS": "1"}),
                 ("radio", "channels", "2", {"RADIO_CHANNELS": "2"}), ("licence", "seats", "20", {"LICENCE_SEATS": "20"}),
                 ("licence", "seats", None, None))
        self.assertEqual(set(pool), {"cuda", "radio", "licence"})
        for number, (resource, name, amount, wanted) in enumerate(cases):
            with self.subTest(resource, amount=amount):
                requests = {"capacity": {"requests": {name: amount}}} if amount else {}
                claim = self.api.schedule(f"c{number}", [("r", f"{resource}.vendor.example", 1, requests)])
                if resource == "radio" and amount == "3":
                    # It would get all four channels.
                    consumed = claim["status"]["allocation"]["devices"]["results"][0]["consumedCapacity"]
                    self.assertEqual(consumed, {"channels": "4"})
                    self.api.release(claim)
                elif wanted is None:
                    self.assertIsNone(claim)
                else:
                    env = self.get(("default", f"c{number}", claim["metadata"]["uid"]))[0]
                    self.assertEqual({key: value for key, value in env.items() if key in wanted}, wanted)

    def test_admin(self):
        """Admin access takes nothing."""
        self.start()
        share = self.claim("share", "40Gi")
        device = self.api.device_named(RESOURCE, 0)
        admin = self.allocated("admin", {"request": "r", "driver": DRIVER, "pool": "node-a", "device": device, "adminAccess": True})
        self.assertEqual([self.get(claim)[0]["MEMORY"] for claim in (share, admin)], ["40", "80"])
        self.assertEqual(self.get(self.claim("other", "40Gi"))[0]["MEMORY"], "40")


class AmountsOfPods(DraPodTest):
    def test_kubelet_keeps_share_ids(self):
        """The kubelet has the share ids of the answer, in its file and in PodResources, also after a restart."""
        self.serve_api()
        self.begin(self.resource("card", f"capacity = ( {MEMORY} );", count=1))
        claim = self.api.schedule("c", [("r", CLASS, 2)])
        shares = sorted(result["shareID"] for result in claim["status"]["allocation"]["devices"]["results"])
        self.assertEqual(len(set(shares)), 2)
        self.pod("a", claim)
        self.assertEqual(self.count_events("claim-changed"), 0)

        def kept():
            return sorted(device["ShareID"] for device in self.kubelet_claims()[claim["metadata"]["uid"]]["DriverState"][DRIVER]["Devices"])

        self.assertEqual(kept(), shares)
        self.assertEqual(sorted(device[-1] for device in self.dynamic_resources(shares=True)["a"]), shares)
        self.node.stop_kubelet()
        self.node.start_kubelet()
        until(self.node.kubelet_status, "the kubelet to listen")
        self.await_registration()
        self.assertEqual(kept(), shares)
        self.assertEqual(self.remove("a"), "")
        self.assertEqual(self.files(), [])


if __name__ == "__main__":
    unittest.main()
