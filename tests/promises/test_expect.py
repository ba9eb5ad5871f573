# SPDX-License-Identifier: Apache-2.0
"""A resource that should have a number of devices (`expect`): what lacks is named wherever the state is, over restarts and
reboots, and decides whether the node is ready."""
import json
import os
import shutil
import signal
import unittest

from dra_node import DRIVER, DraTest
from node import make_node, path, static, until
from tool import ToolTest
from unix_http import get

CARD = "vendor.example/card"


class Host(ToolTest):
    """With cards that come and go, and a state directory."""

    def setUp(self):
        super().setUp()
        self.node.environment["STATE_DIRECTORY"] = self.node.path("state")
        self.socket = self.node.path("metrics.sock")
        os.mkdir(self.node.path("dev"))

    def add(self, *numbers):
        for number in numbers:
            make_node(self.node.path(f"dev/card{number}"))

    def remove(self, *numbers):
        for number in numbers:
            os.unlink(self.node.path(f"dev/card{number}"))

    def card_id(self, number):
        """The node's path, in the form of an id."""
        found = [d["id"] for d in self.node.resource(CARD)["devices"] if d["id"].endswith(f"card{number}")]
        return found[0]

    def cards(self, count, more="", pattern="card*"):
        return path("card", self.node.path(f"dev/{pattern}"), f"expect = {count}; {more}")

    def begin(self, *resources):
        self.node.configure(*resources, text=f'metrics = {{ listen = "{self.socket}"; }};')
        self.node.start_kubelet()
        self.node.start()

    def configure(self, *resources):
        self.node.configure(*resources, text=f'metrics = {{ listen = "{self.socket}"; }};')
        self.node.reload()

    def expect(self, name=CARD):
        return (self.node.resource(name) or {}).get("expect")

    def await_reason(self, reason, name=CARD):
        """It is in all places; "" for no reason."""
        until(lambda: (e := self.expect(name)) and e["found"] is not None and e["reason"] == reason,
              f"the reason \"{reason}\"; last {self.expect(name)}")
        return self.expect(name)

    def lists(self):
        folder = self.node.path("state/complete")
        return sorted(os.listdir(folder)) if os.path.isdir(folder) else []

    def readiness(self):
        try:
            answer, text = get(self.socket, "/readyz")
        except OSError:
            return None
        self.assertEqual(answer.getheader("Content-Type"), "text/plain; charset=utf-8")
        return answer.status, text

    def await_readiness(self, status, text):
        until(lambda: self.readiness() == (status, text), lambda: f"readiness {status} {text}; last {self.readiness()}")

    def metric(self, name):
        for line in get(self.socket)[1].splitlines():
            if line.startswith(f'devplugd_resource_{name}{{resource="{CARD}"}} '):
                return int(line.split()[-1])
        return None


class Expect(Host):
    def reboot(self):
        """Another boot has an empty /run, and the kubelet starts again."""
        self.node.stop()
        self.node.stop_kubelet(signal.SIGKILL)
        shutil.rmtree(self.node.run)

    def test_missing_after_a_reboot(self):
        self.add(0, 1, 2)
        self.begin(self.cards(3, "share = { replicas = 4; };"), static("free", 1))
        self.assertEqual(self.await_reason(""), {"count": 3, "found": 3, "missing": [], "extra": [], "reason": ""})
        self.await_readiness(200, "ready (1 of 2 resources required)\n")
        self.assertEqual([self.metric(name) for name in ("expected_units", "found_units", "ready")], [3, 3, 1])
        self.assertEqual(self.ctl("check").returncode, 0)
        until(lambda: len(self.lists()) == 1, "the complete list")
        ids = [self.card_id(number) for number in (0, 1, 2)]
        self.reboot()
        self.remove(1)
        self.node.start()
        self.node.start_kubelet()
        reason = f"2 of 3 devices are present; missing: {ids[1]}"
        self.assertEqual(self.await_reason(reason),
                         {"count": 3, "found": 2, "missing": [ids[1]], "extra": [], "reason": reason})
        # Only what is there is offered.
        self.node.await_allocatable(card=8, free=1)
        self.assertIn(f"{CARD}: {reason}\n", self.ctl("status").stdout)
        self.assertIn(f"The resource should have 3 devices (expect), but {reason}. ", " ".join(self.ctl("explain", CARD).stdout.split()))
        check = self.ctl("check")
        self.assertEqual((check.returncode, check.stdout), (1, f"{CARD}: {reason}\n"))
        self.assertEqual(json.loads(self.ctl("check", "--json").stdout)["incomplete"], 1)
        self.assertEqual(self.ctl("check", "vendor.example/free").returncode, 0)
        self.await_readiness(503, f"{CARD}: {reason}\n")
        self.assertEqual([self.metric(name) for name in ("expected_units", "found_units", "ready")], [3, 2, 0])
        events = json.loads(self.ctl("events", CARD, "--json").stdout)["events"]
        self.assertEqual([(e["kind"], e["level"]) for e in events if e["text"] == reason], [("device", "warning")])
        # What has no list of its own does not lose it, nor a process that is killed.
        os.kill(self.node.find(CARD)["pid"], signal.SIGKILL)
        until(lambda: self.node.find(CARD)["restarts"] == 1, "another process")
        self.await_reason(reason)
        self.node.stop(signal.SIGKILL)
        self.node.start()
        self.await_reason(reason)
        self.add(1)
        self.await_reason("")
        until(lambda: f"{CARD}: all 3 devices are present" in self.node.output(), "the log")
        self.await_readiness(200, "ready (1 of 2 resources required)\n")
        # The list belongs to the resource.
        self.configure(static("free", 1))
        until(lambda: self.lists() == [], "the list to be removed")
        self.await_readiness(200, "ready (0 of 1 resources required)\n")

    def test_removed_while_it_runs(self):
        self.add(0, 1)
        self.begin(self.cards(2))
        self.await_reason("")
        ids = [self.card_id(number) for number in (0, 1)]
        self.remove(0)
        self.await_reason(f"1 of 2 devices is present; missing: {ids[0]}")
        self.remove(1)
        self.await_reason(f"0 of 2 devices are present; missing: {ids[0]}, {ids[1]}")
        # Another card in the place of a lost one: the list is complete again, and the next one.
        self.add(1, 7)
        self.await_reason("")
        self.remove(1)
        self.await_reason(f"1 of 2 devices is present; missing: {ids[1]}")

    def test_extra(self):
        self.add(0, 1)
        self.begin(self.cards(2))
        self.await_reason("")
        self.add(5)
        until(lambda: len(self.node.resource(CARD)["devices"]) == 3, "the third card")
        extra = self.card_id(5)
        found = self.await_reason(f"3 devices are present instead of 2; not in the last complete list: {extra}")
        self.assertEqual((found["found"], found["missing"], found["extra"]), (3, [], [extra]))
        self.assertEqual(self.ctl("check").returncode, 1)
        self.assertEqual(self.readiness()[0], 503)

    def test_never_complete(self):
        never = "; no complete list was ever seen, so none can be named"
        self.begin(self.cards(2))
        self.await_reason("0 of 2 devices are present" + never)
        self.await_readiness(503, f"{CARD}: 0 of 2 devices are present{never}\n")
        self.add(0)
        self.await_reason("1 of 2 devices is present" + never)
        self.assertEqual(self.lists(), [])
        # The number may be changed instead. A list of another number is not compared with.
        self.configure(self.cards(1))
        self.await_reason("")
        self.configure(self.cards(3))
        self.await_reason("1 of 3 devices is present" + never)
        # The number is right for other devices.
        self.configure(self.cards(1, pattern="disk*"))
        self.await_reason("0 of 1 devices are present" + never)
        self.configure(self.cards(0))
        until(lambda: self.expect() is None, "the number to be forgotten")
        self.assertEqual(self.ctl("check").returncode, 0)

    def test_devices_that_are_left_out(self):
        """A device that the configuration leaves out is not missing. Without that, the list from before counts again."""
        never = "; no complete list was ever seen, so none can be named"
        listing = self.node.path("devices")

        def discover(*names):
            devices = [{"id": name, "nodes": [{"host": "/dev/null"}], "properties": {"slot": name}} for name in names]
            with open(listing + ".new", "w") as file:
                json.dump({"version": 1, "devices": devices}, file)
            os.rename(listing + ".new", listing)

        def card(more=""):
            return (f'{{ name = "{CARD}"; driver = "exec"; match = ( {{ command = [ "/bin/cat", "{listing}" ]; interval = 1; }} ); '
                    f'expect = 3; {more} }}')

        discover("a", "b", "c")
        self.begin(card())
        for more in ('exclude = "c";', 'where = "property:slot=[ab]";'):
            self.await_reason("")
            self.configure(card(more))
            self.await_reason("2 of 3 devices are present" + never)
            self.configure(card())
        self.await_reason("")
        self.configure(card('exclude = "c";'))
        self.await_reason("2 of 3 devices are present" + never)
        discover("a", "b")
        self.configure(card())
        self.await_reason("2 of 3 devices are present; missing: c")

    def test_devices_of_another_resource(self):
        """They do not count, and no complete list has them."""
        self.add(0, 1, 2)
        first = path("first", self.node.path("dev/card0"))
        self.begin(first, self.cards(2))
        self.await_reason("")
        until(lambda: len(self.lists()) == 1, "the complete list")
        with open(self.node.path(f"state/complete/{self.lists()[0]}")) as file:
            self.assertEqual([d[-5:] for d in json.load(file)["devices"]], ["card1", "card2"])
        self.configure(first, path("second", self.node.path("dev/card1")), self.cards(2))
        found = self.await_reason(f"1 of 2 devices is present; missing: {self.card_id(1)}")
        self.assertEqual(found["found"], 1)

    def test_unhealthy_devices_are_present(self):
        self.add(0, 1)
        self.begin(self.cards(2))
        self.await_readiness(200, "ready (1 of 1 resources required)\n")
        self.assertEqual(self.ctl("cordon", f"{CARD}/{self.card_id(0)}").returncode, 0)
        self.node.await_allocatable(card=1)
        self.await_readiness(200, "ready (1 of 1 resources required)\n")
        self.assertEqual(self.ctl("cordon", f"{CARD}/{self.card_id(1)}").returncode, 0)
        self.await_readiness(503, f"{CARD}: none of its devices is healthy\n")
        self.await_reason("")

    def test_not_served(self):
        self.add(0)
        self.begin(self.cards(1))
        self.await_readiness(200, "ready (1 of 1 resources required)\n")
        self.node.stop_kubelet()
        self.await_readiness(503, f"{CARD}: it is not served; see devplugctl explain\n")

    def test_program_without_answer(self):
        """Nothing is missing before the program that finds devices has answered, also if it finds none."""
        ready, program = self.node.path("ready"), self.node.path("discover")
        with open(program, "w") as file:
            file.write(f"#!/bin/sh\nwhile ! [ -e {ready} ]; do sleep 0.1; done; cat {ready}\n")
        os.chmod(program, 0o755)
        card = (f'{{ name = "{CARD}"; driver = "exec"; match = ( {{ command = "{program}"; interval = 1; timeout = 100; }} ); '
                'expect = 1; }')
        self.begin(card)
        self.await_readiness(503, f"{CARD}: its devices are not known yet\n")
        self.assertEqual(self.expect(), {"count": 1, "found": None, "missing": [], "extra": [], "reason": ""})
        self.assertEqual(self.ctl("check").returncode, 0)
        with open(ready + ".new", "w") as file:
            json.dump({"version": 1, "devices": []}, file)
        os.rename(ready + ".new", ready)
        self.await_reason("0 of 1 devices are present; no complete list was ever seen, so none can be named")
        with open(ready + ".new", "w") as file:
            json.dump({"version": 1, "devices": [{"id": "a", "nodes": [{"host": "/dev/null"}]}]}, file)
        os.rename(ready + ".new", ready)
        self.await_reason("")

    def test_broken_state(self):
        """Nothing is named by what is not a list, and a directory that cannot be written to stops nothing."""
        self.add(0, 1)
        self.begin(self.cards(2))
        until(lambda: len(self.lists()) == 1, "the complete list")
        file = self.node.path(f"state/complete/{self.lists()[0]}")
        self.node.stop()
        for text in ("", "[]", '{"match": "0123456789abcdef", "devices": ["b", "a"]}'):
            with open(file, "w") as stream:
                stream.write(text)
            self.remove(1)
            self.node.start()
            self.await_reason("1 of 2 devices is present; no complete list was ever seen, so none can be named")
            self.assertIn("cannot read the last complete list of devices", self.node.output())
            self.add(1)
            self.await_reason("")
            until(lambda: os.path.getsize(file) > 60, "a new list")
            self.node.stop()
        shutil.rmtree(self.node.path("state"))
        with open(self.node.path("state"), "w"):
            pass
        self.node.start()
        self.await_reason("")
        until(lambda: "cannot save the complete list of devices" in self.node.output(), "the warning")
        self.node.await_allocatable(card=2)


class ExpectWithDra(DraTest):
    def test_missing_device_is_tainted(self):
        """It stays in the slices, with its replicas and a taint, also when the resource lists it no more."""
        os.mkdir(self.node.path("dev"))
        for number in (0, 1):
            make_node(self.node.path(f"dev/card{number}"))
        self.node.environment["STATE_DIRECTORY"] = self.node.path("state")
        self.serve_api()
        self.begin(path("card", self.node.path("dev/card*"),
                        'serve = "dra"; expect = 2; share = { replicas = 2; };'))
        self.await_pool(lambda pool: len(pool) == 4)
        until(lambda: os.path.isdir(self.node.path("state/complete")) and os.listdir(self.node.path("state/complete")), "the list")
        names = set(self.api.pool())

        def tainted(pool):
            return {name for name, device in pool.items()
                    if [taint["key"] for taint in device.get("taints", [])] == [f"{DRIVER}/missing"]}

        os.unlink(self.node.path("dev/card1"))
        pool = self.await_pool(lambda pool: len(tainted(pool)) == 2)
        self.assertEqual(set(pool), names)
        self.assertEqual({taint["effect"] for name in tainted(pool) for taint in pool[name]["taints"]}, {"NoSchedule"})
        # After a reboot, no process has seen it.
        self.node.stop()
        shutil.rmtree(self.node.run)
        self.node.start()
        self.register_again()
        until(lambda: [d["id"][-5:] for d in self.node.resource(CARD)["devices"]] == ["card0"], "the other device")
        self.assertEqual(set(self.await_pool(lambda pool: len(tainted(pool)) == 2)), names)
        make_node(self.node.path("dev/card1"))
        self.assertEqual(set(self.await_pool(lambda pool: not tainted(pool))), names)

    def test_readiness(self):
        """The API server has to store the slices."""
        socket = self.node.path("metrics.sock")

        def readiness():
            try:
                answer, text = get(socket, "/readyz")
            except OSError:
                return None
            return answer.status, text

        self.serve_api()
        self.api.faults = [lambda method, path: 503 if "resourceslices" in path and method != "GET" else None]
        self.begin(self.resource("card", "expect = 3;"), text=f'metrics = {{ listen = "{socket}"; }};')
        until(lambda: readiness() == (503, f"{CARD}: its devices are not published in ResourceSlices; see devplugctl explain\n"),
              lambda: f"the reason; last {readiness()}")
        self.api.faults = []
        self.await_pool(lambda pool: len(pool) == 3)
        until(lambda: readiness() == (200, "ready (1 of 1 resources required)\n"), lambda: f"readiness; last {readiness()}")


if __name__ == "__main__":
    unittest.main()
