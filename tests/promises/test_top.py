# SPDX-License-Identifier: Apache-2.0
"""devplugctl top, in a terminal."""
import os
import re
import signal
import subprocess
import unittest

from node import program, static, until
from terminal import Terminal
from tool import ToolTest


class Top(ToolTest):
    def top(self, *words, **options):
        terminal = Terminal([program("devplugctl"), "-c", self.node.config, "top", *words], **options)
        self.addCleanup(terminal.close)
        return terminal

    def begin(self, count=10):
        health = self.node.path("health")
        os.mkdir(health)
        socket = os.path.join(self.node.kubelet_state, "pod-resources/kubelet.sock")
        self.node.configure(
            static("gpu", count, f'health = ( {{ probe = "file"; path = "{health}/${{id}}"; missing = "healthy"; '
                              'healthy = "ok"; } );'),
            static("a-name-that-is-longer-than-the-column-kept-for-it", 3, "share = { replicas = 5; };"),
            kubelet=f'pod_resources_socket = "{socket}";')
        self.node.start_kubelet()
        self.node.start()
        self.node.await_allocatable(**{"gpu": count, "a-name-that-is-longer-than-the-column-kept-for-it": 15})

    def report(self, device, text):
        with open(self.node.path(f"health/{device}"), "w") as file:
            file.write(text)

    def find(self, terminal, expression, what=None):
        return terminal.until(lambda lines: next((m for line in lines if (m := re.search(expression, line))), None),
                              what or expression)

    def test_live_table(self):
        self.begin()
        given, _ = self.node.pod("train", gpu=1)
        mine = given["resources"]["vendor.example/gpu"][0]
        terminal = self.top()
        self.find(terminal, r"^vendor.example/gpu +serving +10 +10 +1 +9$")
        self.find(terminal, r"^vendor.example/a-name-t.*\.\.\. +serving +15 +15 +0 +15$")
        self.find(terminal, r"^2 resources, 25 devices: 25 healthy, 1 in use, 24 free +\d{4}-\d\d-\d\dT[\d:]+Z$")
        self.assertEqual(terminal.lines()[2].split(), ["RESOURCE", "STATE", "OFFERED", "HEALTHY", "IN", "USE", "FREE"])
        self.assertIn(b"\x1b[32m", terminal.received)
        # One resource is opened: its devices, pods and what is wrong, as it happens.
        terminal.press("\r")
        self.find(terminal, r"^  DEVICE +HEALTH +USED BY, REASON$")
        self.find(terminal, rf"^  {mine} +Healthy +default/train/main$")
        self.report("gpu-3", "the temperature is 105 C, and the fan has stopped; replace it, and then run the test of the vendor again")
        self.find(terminal, r"^  gpu-3 +Unhealthy +(free|default/train/main)  .*\.\.\.$")
        self.find(terminal, r"^vendor.example/gpu +serving +10 +9 +1 +(8|9)$")
        # Problems first; the reason of the selected device is shown as a whole.
        terminal.press("sss")
        self.find(terminal, r"s sort: problems")
        terminal.until(lambda lines: lines[5].startswith("  gpu-3 "), "the problem to be the first device")
        terminal.press("j")
        self.find(terminal, r"^gpu-3: Unhealthy since .*used by: ")
        terminal.until(lambda lines: "run the test of the vendor again" in " ".join(lines[-4:-1]), "the whole reason")
        # It moves, and stays selected.
        terminal.press("r")
        self.find(terminal, r"s sort: problems, reversed")
        self.find(terminal, r"^gpu-3: Unhealthy since ")
        terminal.press("\x1bOF")
        self.find(terminal, r"^vendor.example/gpu: |^gpu-3: |^vendor.example/a-name")
        # Closed again, by the keys of an xterm.
        terminal.press("\x1bOH\x1bOB\x1bOA\r")
        terminal.press("q")
        self.assertEqual(terminal.wait(), 0)

    def test_sizes_and_colours(self):
        self.begin(30)
        terminal = self.top("vendor.example/gpu", environment={"NO_COLOR": "1"})
        self.find(terminal, r"^  gpu-0 +Healthy ")
        # What does not fit is scrolled to.
        self.assertFalse([line for line in terminal.lines() if "gpu-29" in line])
        terminal.press("\x1b[6~" * 3)
        self.find(terminal, "^  gpu-29 ")
        for rows, columns in ((40, 132), (5, 20), (1, 1), (24, 60), (24, 80)):
            terminal.resize(rows, columns)
            if rows > 10:
                terminal.until(lambda lines: lines[2].startswith("RESOURCE ") and lines[2].endswith(" FREE"), "the heading")
                self.find(terminal, "^  gpu-29 +Healthy +free$")
                self.assertLessEqual(max(map(len, terminal.lines())), columns)
                terminal.until(lambda lines: lines[-1].startswith("q quit"), "the last line")
        self.assertNotRegex(terminal.received, rb"\x1b\[(\d+;)*3[0-7]m")
        terminal.press("q")
        self.assertEqual(terminal.wait(), 0)

    def test_a_daemon_that_hangs_and_goes(self):
        self.begin()
        terminal = self.top()
        self.find(terminal, "^vendor.example/gpu +serving")
        self.node.daemon.send_signal(signal.SIGSTOP)
        # Keys work while the daemon does not answer.
        terminal.press("s")
        self.find(terminal, "sort: name")
        self.find(terminal, "does not answer within|accepts no connections")
        self.node.daemon.send_signal(signal.SIGCONT)
        terminal.until(lambda lines: lines[1] == "" and lines, "the daemon to answer again")
        self.node.daemon.kill()
        self.node.daemon.wait()
        self.find(terminal, "^devplugd is not running: nothing answers in /")
        self.node.start()
        self.find(terminal, "^vendor.example/gpu +serving")
        terminal.end(signal.SIGTERM)

    def test_long_reasons(self):
        """They are wrapped with an indent on a terminal, and are one line elsewhere."""
        self.begin()
        reason = " ".join(["the temperature of the card is 105 C;"] * 5)
        self.report("gpu-3", reason)
        until(lambda: self.health("gpu")["gpu-3"][0] == "Unhealthy", "the device to fail")
        for command, indent in (("status", 4), ("devices", 4), ("explain", 0)):
            terminal = Terminal([program("devplugctl"), "-c", self.node.config, command, "vendor.example/gpu"])
            self.addCleanup(terminal.close)
            self.assertEqual(terminal.wait(), 0)
            lines = terminal.lines()
            self.assertLessEqual(max(map(len, lines)), 80)
            first = next(i for i, line in enumerate(lines) if "gpu-3" in line)
            self.assertRegex(lines[first + 1], rf"^ {{{indent}}}\S", "\n".join(lines))
            self.assertEqual(" ".join(line.strip() for line in lines[first:]).count("105 C;"), 5, (command, lines))
            self.assertIn(reason, self.ctl(command, "vendor.example/gpu").stdout)

    def test_what_is_wrong(self):
        self.begin()
        answer = self.ctl("top")
        self.assertEqual((answer.returncode, answer.stderr),
                         (1, 'devplugctl: "top" needs a terminal; use "status" or "devices"\n'))
        terminal = self.top("vendor.example/gpus")
        self.assertEqual(terminal.wait(), 1)
        self.assertIn('did you mean "vendor.example/gpu"?', terminal.received.decode())
        terminal = self.top(environment={"TERM": "no-such-terminal"})
        self.assertEqual(terminal.wait(), 1)
        self.assertIn('the terminal type "no-such-terminal" is not known', terminal.received.decode())
        libraries = subprocess.run(["ldd", program("devplugd")], capture_output=True, text=True, check=True).stdout
        self.assertNotIn("ncurses", libraries)


if __name__ == "__main__":
    unittest.main()
