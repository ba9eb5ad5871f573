# SPDX-License-Identifier: Apache-2.0
"""P10: what is too much is refused with a message that says how much is not, and what is just not too much works."""
import subprocess
import unittest

from node import NodeTest, program, static, until

LIST_MAX = 4194304
# In the list of the kubelet: tags and lengths of the device, its id and its health, and "Unhealthy".
DEVICE_BYTES = 15
FILE_MAX = 4 << 20


def most_devices(name):
    """The largest count of static devices of which the kubelet takes a list on which all are unhealthy."""
    size = count = 0
    while True:
        size += DEVICE_BYTES + len(f"{name}-{count}")
        if size > LIST_MAX:
            return count
        count += 1


class Limits(NodeTest):
    def check(self):
        return subprocess.run([program("devplugd"), "-c", self.node.config, "--check"], capture_output=True,
                              text=True)

    def assert_refused(self, *words):
        for options in (["--check"], []):
            answer = subprocess.run([program("devplugd"), "-c", self.node.config, *options], capture_output=True,
                                    text=True, timeout=60)
            self.assertEqual(answer.returncode, 78, answer.stderr)
            for word in words:
                self.assertIn(word, answer.stderr)

    def test_P10_number_of_resources(self):
        self.node.configure(*(static(f"r{i}", 1) for i in range(1000)))
        answer = self.check()
        self.assertEqual(answer.returncode, 0, answer.stderr)
        self.assertIn("1000 resources", answer.stdout)
        self.node.configure(*(static(f"r{i}", 1) for i in range(1001)))
        self.assert_refused("1000")

    def test_P10_list_of_4_MiB(self):
        count = most_devices("a")
        self.node.configure(static("a", count + 1))
        self.assert_refused(str(LIST_MAX))
        self.node.configure(static("a", count))
        self.assertEqual(self.check().returncode, 0)
        self.node.start_kubelet()
        self.node.start()
        self.node.await_allocatable(a=count)
        # The day everything fails.
        self.node.configure(static("a", count, 'cordon = ( "*" );'))
        self.node.reload()
        self.node.await_allocatable(a=0)
        seen = self.node.call_kubelet("status")["resources"][0]
        self.assertEqual((seen["state"], seen["capacity"]), ("serving", count))
        lists = [e for e in self.node.kubelet_events() if e["event"] == "list"]
        self.assertLessEqual(lists[-1]["bytes"], LIST_MAX)
        self.assertGreater(lists[-1]["bytes"], LIST_MAX - DEVICE_BYTES - len(f"a-{count}"))

    def test_P10_list_that_a_reload_would_make_too_long(self):
        self.node.configure(static("a", 3), static("b", 1))
        self.node.start_kubelet()
        self.node.start()
        self.node.await_allocatable(a=3, b=1)
        before = self.node.await_serving()
        self.node.configure(static("a", most_devices("a") + 1), static("b", 1))
        self.node.daemon.send_signal(1)
        until(lambda: self.node.state()["reload_failed"], "the reload to be refused")
        self.assertIn(str(LIST_MAX), self.node.output())
        self.assertEqual(self.node.await_serving(), before)

    def test_P10_size_of_the_file(self):
        self.node.configure(static("a", 1))
        with open(self.node.config) as file:
            text = file.read()
        for size, code in ((FILE_MAX, 0), (FILE_MAX + 1, 78)):
            with open(self.node.config, "w") as file:
                file.write(text + "#" * (size - len(text) - 1) + "\n")
            answer = self.check()
            self.assertEqual(answer.returncode, code, answer.stderr)
        self.assertIn("larger than 4 MiB", answer.stderr)


if __name__ == "__main__":
    unittest.main()
