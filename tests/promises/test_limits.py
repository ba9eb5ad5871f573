# SPDX-License-Identifier: Apache-2.0
"""P10: what is too much is refused with a message that says how much is not, and what is just not too much works."""
import os
import re
import stat
import subprocess
import unittest

from node import NodeTest, path, program, static, until

ROOT = os.path.realpath(os.path.join(os.path.dirname(__file__), "../.."))
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


def value_of(text):
    """A limit in words: bytes, microseconds, or a plain number; None if it is none."""
    units = {"MiB": 1 << 20, "KiB": 1 << 10, "s": 1000000, "ms": 1000, "bytes": 1, "deep": 1, "": 1}
    match = re.match(r"(?:[a-z]+ in )?(?P<number>[\d,]+) ?(?P<unit>[A-Za-z]*)$", text)
    return int(match["number"].replace(",", "")) * units[match["unit"]] if match else None


def constant(name, path):
    """The value of a macro; others in it are in the same file, but for units of time."""
    units = {"USEC_PER_SEC": 1000000, "USEC_PER_MSEC": 1000}
    if name in units:
        return units[name]
    with open(os.path.join(ROOT, path)) as file:
        found = re.search(rf"^#define {name} +(.*?)(?: */\*.*)?$", file.read(), re.M)
    if not found:
        raise AssertionError(f"{path} does not define {name}")
    text = re.sub(r"\(size_t\)|(?<=\d)U?L*\b", "", found[1])
    return eval(re.sub(r"[A-Z_]{3,}", lambda word: str(constant(word[0], path)), text), {"__builtins__": {}})


class Page(unittest.TestCase):
    """docs/contributing/limits.md: a row is | limit | value | when exceeded | set by | tests |."""

    def rows(self):
        with open(os.path.join(ROOT, "docs/contributing/limits.md")) as file:
            for line in file:
                cells = [cell.strip() for cell in line.strip().strip("|").split("|")]
                if line.startswith("|") and len(cells) == 5 and cells[0] != "limit" and not set(line) <= set("|-\n"):
                    yield cells

    def test_values(self):
        compared = 0
        for limit, value, beyond, place, tests in self.rows():
            with self.subTest(limit):
                self.assertTrue(beyond and tests)
                setting = re.fullmatch(r"`(\w+)=` in `(\S+)`", place)
                macro = re.fullmatch(r"`([A-Z_]+)` in `(\S+)`", place)
                if setting:
                    with open(os.path.join(ROOT, setting[2])) as file:
                        self.assertIn(f"\n{setting[1]}={value}\n", file.read())
                elif macro:
                    # "500 in 10 s": what is counted.
                    self.assertEqual(value_of(re.sub(r"(?<=^\d{3}) in .*", "", value)), constant(macro[1], macro[2]))
                else:
                    self.assertTrue(os.path.exists(os.path.join(ROOT, re.search(r"`(\S+)`", place)[1])))
                compared += bool(setting or macro)
        self.assertGreater(compared, 35)

    def test_rows_are_there_once(self):
        rows = [(limit.removeprefix("<!-- internal --> "), *rest) for limit, *rest in self.rows()]
        self.assertEqual([row for row in rows if rows.count(row) > 1], [])

    def test_page_for_administrators(self):
        answer = subprocess.run([os.path.join(ROOT, "docs/make-limits"), "--check"], capture_output=True, text=True)
        self.assertEqual((answer.returncode, answer.stderr), (0, ""))

    def test_tests(self):
        for limit, _, _, _, tests in self.rows():
            path = None
            for word in re.findall(r"`(\S+)`", tests):
                with self.subTest(f"{limit}: {word}"):
                    if "/" in word:
                        path = os.path.join(ROOT, word)
                        continue
                    with open(path) as file:
                        self.assertRegex(file.read(), rf"(?:static void|def) {word}\(")
            self.assertTrue(path, limit)


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

    def test_P10_maximum_numbers(self):
        # The greatest count passes where its list is short enough, which it is for replicas alone.
        for most, text, words in ((200000, "match = ( { count = %d; } );", str(LIST_MAX)),
                                  (100000, 'match = "x"; share = { replicas = %d; };', None)):
            for number, refusal in ((most, words), (most + 1, f"from 1 to {most}")):
                self.node.configure('{ name = "vendor.example/a"; driver = "static"; %s }' % (text % number))
                answer = self.check()
                self.assertEqual(answer.returncode, 78 if refusal else 0, answer.stderr)
                self.assertIn(refusal or "", answer.stderr)

    def test_P10_list_of_4_MiB_of_found_devices(self):
        """The check finds what a child would refuse on this host."""
        os.mkdir(self.node.path("dev"))
        os.mknod(self.node.path("dev/card0"), stat.S_IFCHR | 0o666, os.makedev(1, 3))
        self.node.configure(static("a", 1), path("card", self.node.path("dev/card*"), "share = { replicas = 100000; };"))
        answer = self.check()
        self.assertEqual(answer.returncode, 78, answer.stderr)
        self.assertEqual(answer.stdout, "")
        self.assertRegex(answer.stderr, rf"^{re.escape(self.node.config)}:\d+: vendor.example/card: match: the list of 1 device "
                                        rf"would be \d+ bytes, the kubelet accepts at most {LIST_MAX}: lower share.replicas")
        self.node.configure(path("card", self.node.path("dev/card*"), "share = { replicas = 1000; };"))
        self.assertEqual(self.check().returncode, 0)

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
        until(lambda: str(LIST_MAX) in self.node.output(), "the limit to be named")
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
