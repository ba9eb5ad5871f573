# SPDX-License-Identifier: Apache-2.0
"""devplugd --standby, as a DaemonSet starts it: it waits beside the one that serves, and replaces it."""
import os
import signal
import unittest

from dra_node import DraPodTest
from node import LIMIT, NodeTest, is_gone, static, until

WAITS = "another devplugd uses"


class Standby(NodeTest):
    def setUp(self):
        super().setUp()
        self.node.configure(static("a", 2), static("b", 3))
        self.node.start_kubelet()
        self.node.start("--watch", "--standby")
        self.served = {name: r["pid"] for name, r in self.node.await_serving().items()}
        self.node.await_allocatable(a=2, b=3)
        self.first = self.node.daemon

    def start_second(self):
        self.node.start("--watch", "--standby")
        until(lambda: WAITS in self.node.output() or self.node.daemon.poll() is not None, "the second one to wait")

    def registered(self):
        return sorted(e["resource"] for e in self.node.kubelet_events() if e["event"] == "registered")

    def await_replacement(self):
        """By the second one."""
        def look():
            resources = (self.node.status() or {}).get("resources", [])
            return len(resources) == 2 and all(
                r["state"] == "serving" and r["pid"] != self.served.get(r["name"]) for r in resources)

        until(look, "the second one to serve")
        self.node.await_allocatable(a=2, b=3)

    def await_orderly_replacement(self):
        """With one registration of each resource. After a crash, the kubelet can notice the end of the former session
        during the new one, and ends that, too."""
        self.await_replacement()
        self.assertEqual(self.registered(), sorted(2 * ["vendor.example/a", "vendor.example/b"]))

    def test_alone(self):
        self.assertNotIn(WAITS, self.node.output())

    def test_takes_over(self):
        """The first one serves until it is stopped, and answers meanwhile; what changes then counts for the second."""
        self.start_second()
        self.assertIsNone(self.node.daemon.poll())
        self.assertEqual({name: r["pid"] for name, r in self.node.await_serving().items()}, self.served)
        self.assertEqual(self.registered(), ["vendor.example/a", "vendor.example/b"])
        self.first.terminate()
        self.assertEqual(self.first.wait(timeout=LIMIT), 0)
        self.await_orderly_replacement()

    def test_after_a_crash(self):
        self.start_second()
        self.first.kill()
        self.first.wait(timeout=LIMIT)
        self.await_replacement()
        until(lambda: all(is_gone(pid) for pid in self.served.values()), "the children of the first one to end")

    def test_changed_meanwhile(self):
        """The configuration at the end of the wait counts, as does a broken one: the last accepted is used."""
        self.start_second()
        with open(self.node.config, "a") as file:
            file.write("nonsense = 1;\n")
        until(lambda: 'unknown key "nonsense"' in self.node.output(), "the first one to refuse the file")
        self.first.terminate()
        self.assertEqual(self.first.wait(timeout=LIMIT), 0)
        self.await_orderly_replacement()
        self.assertIn("the last accepted configuration is used", self.node.output())

    def test_stopped_while_it_waits(self):
        self.start_second()
        for number in (signal.SIGHUP, signal.SIGTERM):
            self.node.daemon.send_signal(number)
        self.assertEqual(self.node.daemon.wait(timeout=LIMIT), 0)
        self.node.daemon = self.first
        self.assertEqual({name: r["pid"] for name, r in self.node.await_serving().items()}, self.served)

    def test_refuses_the_configuration(self):
        """So a DaemonSet's update stops at its first pod, and the old ones go on."""
        config = self.node.config
        self.node.config = self.node.path("new.conf")
        with open(self.node.config, "w") as file:
            file.write(f'runtime_dir = "{self.node.run}";\nnonsense = 1;\n')
        self.node.start("--standby")
        self.assertEqual(self.node.daemon.wait(timeout=LIMIT), 78)
        self.assertIn('unknown key "nonsense"', self.node.output())
        self.node.config, self.node.daemon = config, self.first
        self.assertEqual({name: r["pid"] for name, r in self.node.await_serving().items()}, self.served)


class Claims(DraPodTest):
    def test_claims_stay(self):
        """A claim that the first one prepared stays prepared, and the second one releases it."""
        self.serve_api()
        self.begin(self.resource("gpu"))
        claims = {"p": self.schedule("p", 1)}
        files = self.files()
        self.assertEqual(len(files), 1)
        with open(os.path.join(self.cdi, files[0])) as file:
            document = file.read()
        first, process = self.node.daemon, self.process()
        self.node.start("--standby")
        until(lambda: WAITS in self.node.output(), "the second one to wait")
        first.terminate()
        self.assertEqual(first.wait(timeout=LIMIT), 0)
        until(lambda: self.process() not in (None, process), "the second one to run the driver")
        self.await_driver()
        with open(os.path.join(self.cdi, files[0])) as file:
            self.assertEqual(file.read(), document)
        claims["q"] = self.schedule("q", 2)
        for name, claim in claims.items():
            self.assertEqual(self.remove(name), "")
            self.api.release(claim)
        self.assertEqual(self.files(), [])

    def schedule(self, name, count):
        claim = self.api.schedule_limits(name, [{"vendor.example/gpu": count}])
        self.assertEqual(self.pod(name, claim, limits=[f"main:vendor.example/gpu={count}"])["phase"], "Running")
        return claim


if __name__ == "__main__":
    unittest.main()
