# SPDX-License-Identifier: Apache-2.0
"""devplugctl explain: why a resource is not served, and why its devices are not found."""
import json
import os
import unittest

from node import static, until
from tool import ToolTest


class Explain(ToolTest):
    def explain(self, name, returncode=0):
        answer = self.ctl("explain", f"vendor.example/{name}")
        self.assertEqual(answer.returncode, returncode, answer.stderr)
        return answer.stdout

    def test_states(self):
        self.node.configure(static("a", 1), static("w", 1, 'registration = "watcher";'),
                            static("f", 1, 'user = "nobody-of-that-name";'),
                            text="")
        self.node.start()
        self.node.await_state("vendor.example/a", "waiting")
        said = until(lambda: "kubelet.sock does not exist" in (text := self.explain("a")) and text, "the reason")
        self.assertIn('"waiting"', said)
        self.assertIn(str(self.node.resource("vendor.example/a")["pid"]), said)

        self.node.await_state("vendor.example/f", "backoff")
        said = self.explain("f")
        self.assertIn("nobody-of-that-name", said)
        self.assertIn("again at", said)

        self.node.start_kubelet()
        self.node.await_state("vendor.example/a", "serving")
        self.assertIn("session with the kubelet is number", self.explain("a"))
        self.node.stop()
        self.explain("a", 3)

    def test_start_that_fails_is_said_once(self):
        self.node.configure(static("a", 1, 'user = "no-such-user";'))
        self.node.start()
        tries = set()

        def tried_often():
            state = json.loads(self.ctl("status", "--json").stdout)
            tries.update(r["next_try"] for r in state["resources"] if r["state"] == "backoff")
            return len(tries) > 3

        until(tried_often, "some tries")
        self.assertEqual(self.node.output().count('user "no-such-user" does not exist'), 1, self.node.output())

    def test_what_keeps_devices_from_being_found(self):
        good = self.node.path("good")
        self.node.configure('{ name = "vendor.example/a"; driver = "exec"; match = ( { interval = 0.2; command = [ '
                            f'"/bin/sh", "-c", "cat {good} || {{ echo no server >&2; exit 3; }}" ]; }} ); }}')
        self.node.start_kubelet()
        self.node.start()
        self.node.await_state("vendor.example/a", "serving")
        trouble = "no server; there is no list yet"
        said = until(lambda: trouble in (text := self.explain("a")) and text, "the reason")
        self.assertIn("The last look for devices met with a problem: /bin/sh failed with exit status 3", said)
        self.assertNotIn("No device matches", said)
        self.assertRegex(self.ctl("status").stdout, f"vendor.example/a: /bin/sh failed .*{trouble}")
        with open(good + ".new", "w") as file:
            file.write('{"version": 1, "devices": []}')
        os.rename(good + ".new", good)
        until(lambda: "No device matches" in self.explain("a"), "the end of the trouble")
        self.assertNotIn("no server", self.ctl("status").stdout)

    def test_unknown(self):
        self.serve(static("a", 1))
        self.assertIn("no resource", self.ctl("explain", "vendor.example/b").stderr)
        self.explain("b", 1)


if __name__ == "__main__":
    unittest.main()
