# SPDX-License-Identifier: Apache-2.0
"""P14, first part: a device changes sides after as many results in a row as fail_after and recover_after say, seen
from the kubelet. Results are counted here, not time.

complaints.md: R4.
"""
import os
import unittest

from node import NodeTest, static, until

PROBE = """#!/bin/sh
# The results of a device, one after the other; the last one for ever.
log=%s/$1
printf x >>"$log"
number=$(wc -c <"$log")
set -- $(cat %s/pattern)
while [ "$number" -gt 1 ] && [ $# -gt 1 ]; do
	shift
	number=$((number - 1))
done
[ "$1" = G ] || { echo "result $1"; exit 1; }
"""


class Hysteresis(NodeTest):
    def device(self, name="vendor.example/gpu"):
        resource = self.node.resource(name)
        return resource["devices"][0] if resource and resource["devices"] else None

    def run_pattern(self, pattern, transitions, **keys):
        """Runs an exec probe with these results, and wants these numbers of healthy devices on the lists."""
        folder = self.node.path("results")
        os.mkdir(folder)
        os.chmod(folder, 0o777)
        with open(self.node.path("pattern"), "w") as file:
            file.write(pattern)
        script = self.node.path("probe")
        with open(script, "w") as file:
            file.write(PROBE % (folder, self.node.dir))
        os.chmod(script, 0o755)
        more = " ".join(f"{key} = {value};" for key, value in keys.items())
        self.node.configure(static("gpu", 1, f'health = ( {{ probe = "exec"; command = [ "{script}", "${{id}}" ]; '
                                             f"interval = 0.1; {more} }} );"))
        self.node.start_kubelet()
        self.node.start()
        log = os.path.join(folder, "gpu-0")
        needed = len(pattern.split()) + 3  # the last result has been reported by then
        until(lambda: os.path.exists(log) and os.path.getsize(log) >= needed, "all results to be had")

        def lists():
            return [e["healthy"] for e in self.node.kubelet_events() if e["event"] == "list"]

        until(lambda: len(lists()) >= len(transitions), f"lists {transitions}; there were {lists()}")
        # The very first one may be sent before the first result.
        self.assertEqual(lists()[int(lists()[0] == 0):], transitions)

    def test_P14_exec_blips_are_not_sent(self):
        self.run_pattern("G B G B B G B B G G B G", [1], fail_after=3)

    def test_P14_exec_fails_and_recovers(self):
        # Two bad in a row, then two good in a row; single ones of either kind change nothing.
        self.run_pattern("G B G B G B B G B G B G G B G G", [1, 0, 1], fail_after=2, recover_after=2)

    def test_P14_exec_without_hysteresis(self):
        # Once for all: each result counts. The pause between lists may merge what follows too soon.
        self.run_pattern("G G G G G G G G G G B", [1, 0])

    def test_P14_file(self):
        folder = self.node.path("health")
        os.mkdir(folder)
        # A second file, which counts at once, tells that what was written to the first one before has been read.
        self.node.configure(static("gpu", 1, f"""health = (
            {{ probe = "file"; path = "{folder}/quick"; interval = 3600; }},
            {{ probe = "file"; path = "{folder}/slow"; fail_after = 3; recover_after = 2; interval = 3600; }} );"""))
        self.replace("slow", "ok")
        self.replace("quick", "ok")
        self.node.start_kubelet()
        self.node.start()
        self.node.await_allocatable(gpu=1)
        for content in ("first", "second"):
            self.replace("slow", content)
            self.await_read()
            self.await_health("Healthy")
        # A good one between makes it begin again.
        for content in ("ok", "third", "fourth"):
            self.replace("slow", content)
            self.await_read()
            self.await_health("Healthy")
        self.replace("slow", "fifth")
        self.await_health("Unhealthy", "fifth")
        self.node.await_allocatable(gpu=0)
        for content in ("ok", "bad", "ok"):
            self.replace("slow", content)
            self.await_read()
            self.await_health("Unhealthy")
        self.replace("slow", "ok")
        self.await_health("Healthy")
        self.node.await_allocatable(gpu=1)

    def replace(self, name, content):
        path = self.node.path(f"health/{name}")
        with open(path + ".new", "w") as file:
            file.write(content + "\n")
        os.rename(path + ".new", path)

    def await_read(self):
        self.count = getattr(self, "count", 0) + 1
        # Both files are read in the order of their events.
        self.replace("quick", f"read {self.count}")
        self.await_health("Unhealthy")
        until(lambda: self.quick_was_read(), "the quick file to be read")
        self.replace("quick", "ok")
        until(lambda: not self.quick_was_read(), "the quick file to be good again")

    def quick_was_read(self):
        return f"read {self.count}" in str(self.device()["reason"])

    def await_health(self, health, text=""):
        until(lambda: (d := self.device()) and d["health"] == health and text in str(d["reason"]),
              f"the device to be {health}; it is {self.device()}")


if __name__ == "__main__":
    unittest.main()
