# SPDX-License-Identifier: Apache-2.0
"""What users of other device plugins complain of, seen from the pod and the kubelet. docs/contributing/complaints.md says which test
answers which complaint; that each does, and bears the complaint's number, is checked here, too."""
import json
import os
import re
import signal
import stat
import subprocess
import time
import unittest

from node import NodeTest, path, program, static, until

HERE = os.path.dirname(os.path.realpath(__file__))
PAGE = os.path.join(HERE, "../../docs/contributing/complaints.md")


class Complaints(NodeTest):
    def serve(self, *resources):
        self.node.configure(*resources)
        self.node.start_kubelet()
        self.node.start()
        return self.node.await_serving()

    def kubelet_devices(self, name):
        resource = self.node.node_resources().get(f"vendor.example/{name}") or {"devices": []}
        return {device["id"]: device for device in resource["devices"]}

    def lists(self):
        return [event for event in self.node.kubelet_events() if event["event"] == "list"]

    def write(self, name, text):
        with open(self.node.path(name + ".new"), "w") as file:
            file.write(text)
        os.rename(self.node.path(name + ".new"), self.node.path(name))

    def make_node(self, name, minor):
        os.makedirs(os.path.dirname(self.node.path(name)), exist_ok=True)
        os.mknod(self.node.path(name), stat.S_IFCHR | 0o600, os.makedev(1, minor))

    def test_R3_M5_health_recovers_as_configured_and_survives_a_restart(self):
        probe = 'health = ( { probe = "file"; path = "%s/health-%%s"; missing = "healthy"; recover = "%%s"; } );' % self.node.dir
        self.serve(static("returns", 1, probe % ("a", "probe")), static("stays", 1, probe % ("b", "never")))
        self.node.await_allocatable(returns=1, stays=1)
        for name in ("health-a", "health-b"):
            self.write(name, "hot")
        self.node.await_allocatable(returns=0, stays=0)
        for name in ("health-a", "health-b"):
            self.write(name, "ok")
        self.node.await_allocatable(returns=1)
        # A crash of the child and a restart of the daemon.
        before = self.node.find("vendor.example/stays")["pid"]
        os.kill(before, signal.SIGKILL)
        until(lambda: (self.node.find("vendor.example/stays") or {}).get("pid") not in (None, 0, before),
              "another process")
        self.node.await_serving()
        self.node.stop()
        self.node.start()
        self.node.await_allocatable(returns=1)
        until(lambda: [d["reason"] for d in self.node.resource("vendor.example/stays")["devices"]] == ["hot"],
              "the device to be remembered as hot")

    def test_R4_flapping_is_sent_ten_times_a_second_at_most(self):
        self.write("gpu-0", "ok")
        self.serve(static("gpu", 2, f'health = ( {{ probe = "file"; path = "{self.node.dir}/${{id}}"; missing = "healthy"; }} );'))
        self.node.await_allocatable(gpu=2)
        before = len(self.lists())
        for number in range(3000):
            self.write("gpu-0", "ok" if number % 2 else f"hot {number}")
            time.sleep(0.001)
        self.write("gpu-0", "hot at last")
        self.node.await_allocatable(gpu=1)
        times = [event["time"] for event in self.lists()[before:]]
        self.assertGreater(len(times), 1)
        # Each is later than the one before by the 100 ms, but for what the way to the kubelet may shift.
        self.assertLessEqual(len(times), (times[-1] - times[0]) / 100000 + 2)
        self.assertEqual(self.kubelet_devices("gpu")["gpu-0"]["healthy"], False)
        self.write("gpu-0", "ok")
        self.node.await_allocatable(gpu=2)

    def test_R5_R18_M10_replicas_have_the_health_and_the_node_of_their_unit(self):
        self.serve('{ name = "vendor.example/gpu"; driver = "static"; match = ( { id = "a"; numa = 0; }, { id = "b"; } ); '
                   'share = { replicas = 3; }; health = ( { probe = "file"; path = "%s/${id}"; missing = "healthy"; } ); }'
                   % self.node.dir)
        self.node.await_allocatable(gpu=6)
        devices = self.kubelet_devices("gpu")
        # Node 0 is a node; no node is none, not -1.
        self.assertEqual({id: d["numa"] for id, d in devices.items()},
                         {**{f"a#{n}": [0] for n in range(3)}, **{f"b#{n}": [] for n in range(3)}})
        self.write("a", "broken")
        self.node.await_allocatable(gpu=3)
        self.assertEqual({id for id, d in self.kubelet_devices("gpu").items() if not d["healthy"]}, {"a#0", "a#1", "a#2"})

    def test_R9_R24_two_resources_share_out_the_devices_of_one_driver(self):
        for minor, name in ((3, "card0"), (5, "card1"), (7, "card2"), (8, "card9")):
            self.make_node(f"dev/{name}", minor)
        pattern = f"{self.node.dir}/dev/card[0-9]"
        self.serve(path("shared", pattern, 'exclude = ( "*card[01]", "*card9" ); share = { replicas = 4; };'),
                   path("whole", pattern, 'exclude = ( "*card2", "*card9" );'))
        self.node.await_allocatable(shared=4, whole=2)
        got, error = self.node.pod("one", whole=2)
        self.assertIsNone(error)
        self.assertEqual({os.path.basename(d["host_path"]) for d in got["devices"]}, {"card0", "card1"})

    def test_R9_a_resource_for_each_model(self):
        """One file for nodes with different cards: `where` restricts a resource, and a changed one takes no device from a pod."""
        with open(self.node.path("cards.json"), "w") as file:
            json.dump({"version": 1, "devices": [{"id": name, "properties": {"MODEL": model}} for name, model in (
                ("a", "small"), ("b", "large"), ("c", "large 2"), ("d", "other"))]}, file)

        def card(name, pattern):
            return (f'{{ name = "vendor.example/{name}"; driver = "exec"; match = ( {{ command = [ "/bin/cat", '
                    f'"{self.node.path("cards.json")}" ]; }} ); where = "property:MODEL={pattern}"; }}')

        self.serve(card("small", "small"), card("large", "large*"), card("none", "[0-9]*"))
        self.node.await_allocatable(small=1, large=2, none=0)
        until(lambda: 'where: no device has "property:MODEL=[0-9]*": a has "property:MODEL=small"' in
              self.node.resource("vendor.example/none")["scan_notes"], "the reason of the resource without devices")
        # Nothing is wrong with it, because other nodes have such a card.
        check = [program("devplugctl"), "-c", self.node.config, "check"]
        until(lambda: subprocess.run(check, capture_output=True, text=True, timeout=60).stdout ==
              "3 resources, 3 devices: no problem\n", "no problem to be found")
        got, _ = self.node.pod("one", small=1)
        self.assertEqual(got["resources"]["vendor.example/small"], ["a"])
        pid = self.node.find("vendor.example/small")["pid"]
        self.node.configure(card("small", "other"), card("large", "large*"))
        self.node.reload()
        self.node.await_allocatable(small=1, large=2)
        until(lambda: {device["id"]: device["health"] for device in self.node.resource("vendor.example/small")["devices"]} ==
              {"a": "Unhealthy", "d": "Healthy"}, "the device of the pod to stay listed")
        self.assertEqual(self.node.find("vendor.example/small")["pid"], pid)

    def test_R9_devices_of_one_resource_are_shared_by_different_numbers(self):
        self.serve('{ name = "vendor.example/gpu"; driver = "static"; match = ( "big-0", "big-1", "small-0", "old" ); '
                   'share = { replicas = 2; devices = ( { id = "big-*"; replicas = 5; }, { id = "b*"; replicas = 9; }, '
                   '{ id = "old"; } ); }; container = { env = "GPU=${id}"; }; }')
        self.node.await_allocatable(gpu=13)
        self.assertEqual(set(self.kubelet_devices("gpu")), {f"big-{i}#{n}" for i in range(2) for n in range(5)}
                         | {"small-0#0", "small-0#1", "old#0"})
        for number in range(13):
            _, error = self.node.pod(f"p{number}", gpu=1)
            self.assertIsNone(error)
        # What comes back is known by its number, and the others stay.
        self.node.configure('{ name = "vendor.example/gpu"; driver = "static"; match = ( "big-0", "big-1", "small-0", "old" ); '
                            'share = { replicas = 2; }; container = { env = "GPU=${id}"; }; }')
        self.node.reload()
        self.node.await_allocatable(gpu=8)

    def test_R14_a_container_gets_its_devices_and_no_others(self):
        for minor, name in ((3, "card0"), (5, "card1"), (7, "control")):
            self.make_node(f"dev/{name}", minor)
        self.serve(path("card", f"{self.node.dir}/dev/card[0-9]",
                        f'container = {{ nodes = ( "{self.node.dir}/dev/control", "?{self.node.dir}/dev/none" ); }};'))
        self.node.await_allocatable(card=2)
        got, error = self.node.pod("one", card=1)
        self.assertIsNone(error)
        names = sorted(os.path.basename(d["host_path"]) for d in got["devices"])
        self.assertEqual(len(names), 2)
        self.assertEqual(names[1], "control")
        self.assertEqual(got["env"], {})

    def test_R19_R23_duplicates_are_merged_and_numbers_follow_ids(self):
        self.serve(static("card", 12, 'container = { nodes = ( "/dev/null", "/dev/null" ); '
                                      'env = ( "CARD${position}=${id}", "COUNT=${n}" ); };'))
        self.node.await_allocatable(card=12)
        for pod in range(3):
            got, error = self.node.pod(f"p{pod}", card=4)
            self.assertIsNone(error)
            self.assertEqual(len(got["devices"]), 1)
            given = sorted(got["resources"]["vendor.example/card"])
            self.assertEqual(got["env"], {"COUNT": "4", **{f"CARD{n}": id for n, id in enumerate(given)}})

    def test_R22_M8_ids_of_odd_names_are_apart_and_find_their_way_back(self):
        odd = ["a#0", "a::1", "a/b", "a b", "ä", "a%s" % ("x" * 120), "a%sy" % ("x" * 119)]
        os.mkdir(self.node.path("dev"))
        for name in odd:
            os.makedirs(self.node.path("dev/" + os.path.dirname(name)), exist_ok=True)
            os.mkfifo(self.node.path("dev/" + name))
        self.serve('{ name = "vendor.example/odd"; driver = "path"; match = ( "%s/dev/[!ab]*", "%s/dev/a?*", "%s/dev/a/b" ); '
                   'exclude = "*dev:a"; share = { replicas = 2; }; }' % ((self.node.dir,) * 3))
        self.node.await_allocatable(odd=2 * len(odd))
        self.assertTrue(all(re.fullmatch(r"[A-Za-z0-9._:@+=-]{1,63}#[01]", id) for id in self.kubelet_devices("odd")))
        seen = set()
        for pod in range(len(odd)):
            got, error = self.node.pod(f"p{pod}", odd=2)
            self.assertIsNone(error)
            seen |= {m["host_path"] for m in got["mounts"]}
        self.assertEqual(seen, {self.node.path("dev/" + name) for name in odd})

    def test_W9_M14_what_is_missing_at_the_start_is_not_missing_permanently(self):
        self.serve('{ name = "vendor.example/card"; driver = "path"; match = ( { paths = ( "%s/dev/card*", '
                   '{ path = "%s/dev/trace*"; optional = true; } ); } ); }' % ((self.node.dir,) * 2), static("other", 1))
        self.node.await_allocatable(other=1)
        self.assertEqual(self.kubelet_devices("card"), {})
        self.make_node("dev/card0", 3)
        self.node.await_allocatable(card=1)
        got, error = self.node.pod("one", card=1)
        self.assertIsNone(error)
        self.assertEqual(len(got["devices"]), 1)

    def test_W11_identity_in_the_environment(self):
        self.serve('{ name = "vendor.example/nic"; driver = "static"; match = ( { id = "left"; numa = 1; }, { id = "right"; } ); '
                   'container = { env = ( "NIC_${id}=${numa}", "NICS=${ids:;}" ); annotations = "vendor.example/nics=${ids}"; }; }')
        self.node.await_allocatable(nic=2)
        got, error = self.node.pod("one", nic=2)
        self.assertIsNone(error)
        self.assertEqual(got["env"], {"NIC_left": "1", "NIC_right": "", "NICS": "left;right"})
        self.assertEqual(got["annotations"], {"vendor.example/nics": "left,right"})


class Page(unittest.TestCase):
    """complaints.md: a row is | number | complaint | answer | tests |, M5, M10."""

    def rows(self):
        with open(PAGE) as file:
            for line in file:
                if re.match(r"\| [RWM]\d+ ", line):
                    yield [cell.strip() for cell in line.strip().strip("|").split("|")]

    def test_each_complaint_has_tests_with_its_number(self):
        numbers = []
        for number, complaint, answer, tests in self.rows():
            numbers.append(number)
            with self.subTest(number):
                names = re.findall(r"`([^`]+)`", tests)
                self.assertTrue(names and complaint and answer)
                for name in names:
                    with open(os.path.join(HERE, "../..", name)) as file:
                        self.assertTrue(re.search(rf"(?<![A-Za-z0-9]){number}(?![0-9])", file.read()),
                                        f"{name} does not name {number}")
        self.assertEqual(len(numbers), len(set(numbers)))
        self.assertGreater(len(numbers), 30)


if __name__ == "__main__":
    unittest.main()
