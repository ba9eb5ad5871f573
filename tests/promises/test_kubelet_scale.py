# SPDX-License-Identifier: Apache-2.0
"""How much devplugd and devplug-kubelet take: 100 resources of 1000 devices, and 50,000 devices with ids of 63 bytes
that all fail at once (a fifth of that with sanitizers). Memory is printed; what is asserted is that everything arrives, and descriptors."""
import os
import re
import subprocess
import unittest

from node import NodeTest, plugins_of, process_status, program, scaled, static, until

LIST_MAX = 4194304
MANY = scaled(50000)
# Tags and lengths of device, id and health, "Unhealthy" and an id of 63 bytes; a NUMA node from 1 to 127 on top.
DEVICE_BYTES, NODE_BYTES = 15 + 63, 6


def descriptors(pid):
    return len(os.listdir(f"/proc/{pid}/fd"))


def resident(pid):
    return int(process_status(pid)["VmRSS"].split()[0])


class Scale(NodeTest):
    def tell_memory(self):
        children = plugins_of(self.node.daemon.pid)
        print(f"resident: devplugd {resident(self.node.daemon.pid)} kB, {len(children)} children "
              f"{max(map(resident, children))} kB at most, devplug-kubelet {resident(self.node.kubelet.pid)} kB",
              end=" ", flush=True)

    def seen(self):
        return {r["name"]: r for r in self.node.call_kubelet("status")["resources"]}

    def test_100_resources_of_1000_devices(self):
        resources, devices = scaled(100), 1000
        names = [f"r{i}" for i in range(resources)]
        wanted = {f"vendor.example/{name}": devices for name in names}
        self.node.configure(*(static(name, devices) for name in names))
        self.node.start_kubelet()
        self.node.start()
        until(lambda: os.path.exists(os.path.join(self.node.kubelet_state, "control")), "the kubelet")
        until(lambda: self.node.call_kubelet("wait", resources=wanted, timeout=5)["reached"], "all to be registered", 240)
        for name, resource in self.seen().items():
            short = name.split("/")[1]
            self.assertEqual([d["id"] for d in resource["devices"] if not d["healthy"]], [])
            self.assertEqual({d["id"] for d in resource["devices"]}, {f"{short}-{i}" for i in range(devices)})
            # On a busy machine, the kubelet may take longer than a child waits.
            late = self.node.output().count(f"{name}: registration failed: the kubelet did not answer Register")
            self.assertIn(resource["registrations"], range(1, late + 2))
        before = descriptors(self.node.daemon.pid), descriptors(self.node.kubelet.pid)
        # A pod for ten resources at a time; each container gets its own.
        for first in range(0, resources, 10):
            limits = {f"vendor.example/{name}": 3 for name in names[first:first + 10]}
            reply = self.node.call_kubelet("pod", name=f"pod-{first}", namespace="default", limits=limits)
            self.assertEqual(reply["phase"], "Running", reply)
            for name, ids in reply["resources"].items():
                self.assertEqual(len(ids), 3)
                self.assertTrue(all(re.fullmatch(name.split("/")[1] + r"-\d+", i) for i in ids), ids)
        self.assertEqual({r["allocated"] for r in self.seen().values()}, {3})
        # For each resource, devplugd uses a socket pair and a child's reports, and the kubelet a connection; and a few more.
        self.assertLessEqual(before[0], 6 * resources + 50)
        self.assertLessEqual(before[1], 2 * resources + 50)
        # One more for each: what is saved of its assigned devices.
        limit = before[0] + resources
        until(lambda: descriptors(self.node.daemon.pid) <= limit, f"devplugd to have {limit} descriptors")
        # The answers may have come over connections that grew, but no new ones.
        until(lambda: descriptors(self.node.kubelet.pid) <= before[1], f"the kubelet to have {before[1]} descriptors")
        self.tell_memory()

    # --- the day everything fails

    def devices_with_long_ids(self, count, more="", numa=""):
        # No blanks: the file must not be longer than 4 MiB either.
        entries = ",".join(f'{{id="{i:063d}";{numa}}}' for i in range(count))
        self.node.configure(f'{{ name = "vendor.example/many"; driver = "static"; match = ( {entries} ); {more} }}')

    def test_50000_devices_that_do_not_fit_are_refused_at_the_start(self):
        fit = LIST_MAX // (DEVICE_BYTES + NODE_BYTES)
        for count, code in ((fit, 0), (fit + 1, 78)):
            self.devices_with_long_ids(count, numa="numa=1;")
            answer = subprocess.run([program("devplugd"), "-c", self.node.config, "--check"], capture_output=True,
                                    text=True)
            self.assertEqual(answer.returncode, code, answer.stderr)
            if code:
                self.assertIn(f"{count * (DEVICE_BYTES + NODE_BYTES)} bytes", answer.stderr)
                self.assertIn(str(LIST_MAX), answer.stderr)

    def check_all_fail_and_recover(self):
        self.node.start_kubelet()
        self.node.start()
        until(lambda: os.path.exists(os.path.join(self.node.kubelet_state, "control")), "the kubelet")

        def allocatable(count):
            until(lambda: self.node.call_kubelet("wait", resources={"vendor.example/many": count}, timeout=5)["reached"],
                  f"{count} allocatable devices", 240)

        allocatable(MANY)
        yield
        allocatable(0)
        resource = self.seen()["vendor.example/many"]
        self.assertEqual((resource["state"], resource["capacity"]), ("serving", MANY))
        self.assertEqual({len(d["id"]) for d in resource["devices"]}, {63})
        self.assertEqual({d["health"] for d in resource["devices"]}, {"Unhealthy"})
        last = [e for e in self.node.kubelet_events() if e["event"] == "list"][-1]
        self.assertEqual(last["bytes"], MANY * DEVICE_BYTES)
        self.assertLessEqual(last["bytes"], LIST_MAX)
        yield
        allocatable(MANY)
        # All on one stream.
        self.assertEqual(self.seen()["vendor.example/many"]["registrations"], 1)
        self.tell_memory()
        yield

    def test_50000_devices_that_fail_by_a_health_file(self):
        file = self.node.path("state")
        self.devices_with_long_ids(MANY, f'health = ( {{ probe = "file"; path = "{file}"; healthy = "ok"; '
                                         'missing = "healthy"; } );')
        steps = self.check_all_fail_and_recover()
        next(steps)
        with open(file + ".new", "w") as out:
            out.write("the bus is gone\n")
        os.rename(file + ".new", file)
        next(steps)
        os.unlink(file)
        next(steps)

    def test_50000_devices_that_are_cordoned(self):
        self.devices_with_long_ids(MANY)
        steps = self.check_all_fail_and_recover()
        next(steps)
        self.devices_with_long_ids(MANY, 'cordon = ( "*" );')
        self.node.daemon.send_signal(1)
        next(steps)
        self.devices_with_long_ids(MANY)
        self.node.daemon.send_signal(1)
        next(steps)


if __name__ == "__main__":
    unittest.main()
