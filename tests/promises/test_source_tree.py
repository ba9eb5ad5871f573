# SPDX-License-Identifier: Apache-2.0
"""Includes point one way: from a directory to those above it in the list, never back, and in no circle; docs/contributing/architecture.md
has every directory and file."""
import collections
import fnmatch
import glob
import os
import re
import unittest

ROOT = os.path.realpath(os.path.join(os.path.dirname(__file__), "../.."))

# From the ground up. A directory includes what stands above it in this list. A driver with a directory of its own includes
# no other driver but "exec", whose programs are run for "nvidia" as well.
GROUND = ["common", "drivers/model", "drivers/host", "drivers/health", "drivers/inventory", "drivers/exec"]
DRIVERS = [os.path.relpath(path, ROOT) for path in sorted(glob.glob(ROOT + "/drivers/*/"))]
DRIVERS = [path for path in DRIVERS if path not in GROUND and path != "drivers/allocation"]
ABOVE = ["drivers/allocation", "drivers", "configuration", "dra/model", "supervisor/process", "supervisor/ownership", "supervisor/files",
         "supervisor/kubelet", "supervisor/children", "supervisor/control", "supervisor/books", "supervisor/sessions",
         "supervisor/eviction", "supervisor/helpers", "supervisor", "supervisor/ctl", "proto", "proto/plugin", "node-users", "nvml",
         "exporter", "dra", "kubelet", "kubelet/conformance"]


def sources(*tops):
    for top in tops:
        for path in sorted(glob.glob(f"{ROOT}/{top}/**/*.[ch]", recursive=True)):
            yield os.path.relpath(path, ROOT)


def includes(path):
    with open(os.path.join(ROOT, path), encoding="utf-8") as file:
        return re.findall(r'^#include "([^"]+)"', file.read(), re.M)


def part(path):
    return os.path.splitext(os.path.basename(path))[0]


def functions(path):
    with open(os.path.join(ROOT, path), encoding="utf-8") as file:
        text = re.sub(r"/\*.*?\*/", "", file.read(), flags=re.S)
    return re.findall(r"^(?!typedef|static|#)[a-z_][\w \t*]*?\b(\w+)\(", text, re.M)


# These are named after what they decide, their headers after the object.
DECIDE_FOR = {"drivers/inventory/scan-timing": "drivers/inventory/inventory",
              "supervisor/children/child-io": "supervisor/children/child",
              "supervisor/children/resource-lifecycle": "supervisor/children/resource"}


# Each file on the left is a piece of the object on the right.
PIECES = {"proto/server-connections.c": "proto/server.c", "proto/stream.c": "proto/server.c",
          "proto/plugin/service-calls.c": "proto/plugin/service.c"}


def inside_of(header):
    """The names in "Inside of allocation:" and "Inside of exec-document and exec-answer:" at the head of a header."""
    if not os.path.exists(os.path.join(ROOT, header)):
        return []
    with open(os.path.join(ROOT, header), encoding="utf-8") as file:
        head = re.search(r"^/\*\n \* Inside of ([^:]*):", file.read(), re.M)
    return re.findall(r"[a-z0-9-]+", head.group(1)) if head else []


def rank(directory):
    if directory in GROUND:
        return GROUND.index(directory)
    return len(GROUND) + (0 if directory in DRIVERS else 1 + ABOVE.index(directory))


class SourceTree(unittest.TestCase):
    def setUp(self):
        self.sources = list(sources("common", "drivers", "configuration", "supervisor", "proto", "node-users", "nvml", "exporter", "dra", "kubelet"))
        self.assertGreater(len(self.sources), 200)

    def test_directories(self):
        for path in self.sources:
            here = os.path.dirname(path)
            for name in includes(path):
                there = os.path.dirname(name)
                if name.endswith(".pb-c.h") or there.split("/")[0] == here.split("/")[0] == "kubelet" or there == here:
                    continue
                with self.subTest(f"{path} includes {name}"):
                    self.assertLess(rank(there), rank(here))
                    self.assertFalse(here == "exporter" and there != "common", "the exporter knows the messages only")
                    self.assertFalse(here.startswith("proto") and there.startswith("supervisor"),
                                     "a child knows nothing of the supervisor's code")

    def test_no_file_includes_itself_through_others(self):
        graph = {path: [name for name in includes(path) if "/" in name] for path in self.sources}
        done = set()

        def visit(path, chain):
            self.assertNotIn(path, chain, " -> ".join(chain + [path]))
            if path not in done:
                for name in graph.get(path, []):
                    visit(name, chain + [path])
                done.add(path)

        for path in self.sources:
            visit(path, [])

    def test_no_parts_know_each_other(self):
        """Here a part is a .c file with its header, so that a part that makes another one is not known by it. A header
        whose head says "Inside of NAME" is a piece of that part, and may know it. The stand-in for the kubelet, whose
        model knows its parts, is left out."""
        graph = collections.defaultdict(set)
        for path in self.sources:
            if path.startswith("kubelet/"):
                continue
            whole = os.path.splitext(path)[0]
            whole = DECIDE_FOR.get(whole, whole)
            inside = inside_of(whole + ".h")
            for name in includes(path):
                other = os.path.splitext(name)[0]
                if "/" in name and other != whole and os.path.basename(other) not in inside:
                    graph[whole].add(other)
        done = set()

        def visit(name, chain):
            self.assertNotIn(name, chain, " -> ".join(chain + [name]))
            if name not in done:
                for other in graph[name]:
                    visit(other, chain + [name])
                done.add(name)

        for name in list(graph):
            visit(name, [])

    def test_no_files_call_each_other(self):
        """In no circle of .c files does each use a function of the next one, whichever header declares it."""
        texts, owners = {}, collections.defaultdict(set)
        for path in self.sources:
            if path.endswith(".c") and not path.startswith("kubelet/"):
                with open(os.path.join(ROOT, path), encoding="utf-8") as file:
                    texts[path] = re.sub(r'/\*.*?\*/|"(?:\\.|[^"\\\n])*"', "", file.read(), flags=re.S)
                for name in re.findall(r"^(?!typedef|static)[a-z_][\w \t*]*?\b(\w+)\([^;{}]*\)\s*\{", texts[path], re.M):
                    owners[name].add(path)
        # Programs of their own may each define a function of the same name.
        graph = collections.defaultdict(set)
        for path, text in texts.items():
            own = set(re.findall(r"^static [\w \t*]*?\b(\w+)\(", text, re.M))
            for name in set(re.findall(r"(?<![.>\w])[a-z]\w+", text)) - own:
                for other in owners[name] if len(owners[name]) == 1 else ():
                    graph[PIECES.get(path, path)].add(PIECES.get(other, other))
        self.assertGreater(sum(len(others) for others in graph.values()), 1000)
        done = set()

        def visit(path, chain):
            self.assertNotIn(path, chain, " -> ".join(chain + [path]))
            if path not in done:
                for other in graph[path] - {path}:
                    visit(other, chain + [path])
                done.add(path)

        for path in list(graph):
            visit(path, [])

    def test_functions_have_the_prefix_of_their_file(self):
        headers = [path for path in self.sources if re.match("supervisor/(?!ctl/).*[.]h$", path)]
        prefixes = {part(path).replace("-", "_") for path in headers}
        for path in headers:
            own = part(path).replace("-", "_")
            for name in functions(path):
                of = max((prefix for prefix in prefixes if (name + "_").startswith(prefix + "_")), key=len, default=own)
                with self.subTest(f"{path}: {name}()"):
                    self.assertEqual(of, own)

    def test_every_file_has_a_head(self):
        """A short comment before the first include: why the file exists and what it decides."""
        for path in self.sources:
            if path.endswith(".c"):
                with self.subTest(path), open(os.path.join(ROOT, path), encoding="utf-8") as file:
                    self.assertRegex(file.read(), r"\A/\* SPDX[^\n]*\n/\*\n( \*[^\n]*\n){2,15}#?[^ ]")

    def test_every_file_is_on_the_page(self):
        with open(ROOT + "/docs/contributing/architecture.md", encoding="utf-8") as file:
            rows = re.findall(r"^\| `([a-z/-]+)` \| [^|]*\? \| (.*) \|$", file.read(), re.M)
        patterns = {directory: re.findall(r"`([^`]+)`", files) for directory, files in rows}
        missing = [path for path in self.sources
                   if not any(fnmatch.fnmatch(os.path.splitext(os.path.basename(path))[0], pattern)
                              for pattern in patterns.get(os.path.dirname(path), []))]
        self.assertEqual(missing, [])
        names = {os.path.splitext(path)[0] for path in self.sources}
        for directory, found in patterns.items():
            for pattern in found:
                with self.subTest(f"{directory}: {pattern}"):
                    self.assertTrue(fnmatch.filter(names, f"{directory}/{pattern}"), "no such file")

    def test_protocols_are_described(self):
        """The comment on each type of message names, in brackets, what the rule in the table allows."""
        def read(path):
            with open(os.path.join(ROOT, "common", path), encoding="utf-8") as file:
                return file.read()
        shared = re.findall(r"^\t(CONTROL_\w+)[^/]*/\* \[(.*?)\]", read("control.h"), re.M)
        known = re.findall(r"^\tFIELD_(\w+) = ", read("control.h"), re.M)
        for name in ("child", "cluster", "exporter", "pods"):
            described = dict(shared + re.findall(rf"^\t({name.upper()}_\w+)[^/]*/\* \[(.*?)\]", read(f"control-{name}.h"), re.M))
            rules = re.findall(r"^\t\[(\w+)\] = \{(.*?)\}", read(f"control-{name}.c"), re.M | re.S)
            types = re.findall(rf"^\t({name.upper()}_[A-Z_]+)\b(?! =\s*\d)[, ]", read(f"control-{name}.h").split("};")[0], re.M)
            self.assertEqual(set(types), {rule for rule, _ in rules} - {shared_name for shared_name, _ in shared})
            for rule, text in rules:
                fields = [word for word in re.findall(r"FIELD_(\w+)", text)]
                self.assertEqual([word for word in fields if word not in known], [])
                required, optional = (int((re.search(rf"\.{count} = (\d)", text) or [0, 0])[1]) for count in ("n_fds", "n_optional_fds"))
                expected = [word.lower() for word in fields] + ["fd"] * required + ["fd?"] * optional
                with self.subTest(rule):
                    self.assertEqual(described[rule].split(", ") if described[rule] else [], expected)
                    self.assertEqual(re.search(r'\.name = "(\w+)"', text)[1], rule.split("_", 1)[1])

        # What a child may send is handled, so that the table of handlers needs no check.
        with open(ROOT + "/common/control-child.c", encoding="utf-8") as file:
            sent = re.findall(r"^\t\[(\w+)\] = \{[^}]*to_supervisor = true", file.read(), re.M)
        with open(ROOT + "/supervisor/children/child-io.c", encoding="utf-8") as file:
            handled = re.findall(r"^\t\[(C\w+)\] = \{ \.(?:handle|event)", file.read(), re.M)
        self.assertEqual(sorted(handled), sorted(sent))

    def test_named_files_exist(self):
        """Comments and documents that name a file of the tree."""
        with_folder = r"(?<![\w/.<-])((?:[a-z0-9-]+/)+[a-z0-9-]+\.[ch])\b"
        tops = {path.split("/")[0] for path in self.sources}
        missing = []
        for path in list(sources("tests")) + self.sources + glob.glob("docs/**/*.md", root_dir=ROOT, recursive=True):
            with open(os.path.join(ROOT, path), encoding="utf-8") as file:
                missing += [f"{path}: {name}" for name in re.findall(with_folder, file.read())
                            if name.split("/")[0] in tops and not name.endswith("pb-c.h") and not os.path.exists(os.path.join(ROOT, name))]
        self.assertEqual([line for line in missing if not line.endswith("amdgpu_ras.c")], [])

    def test_one_writer_of_files(self):
        """A file is replaced by common/replace-file.c, so that a reader finds the old content or the new one."""
        # The socket of a session gets its name when it listens.
        allowed = {"common/replace-file.c", "supervisor/kubelet/session-sockets.c"}
        found = set()
        for path in self.sources:
            if not path.startswith("kubelet/") and path not in allowed:
                with open(os.path.join(ROOT, path), encoding="utf-8") as file:
                    if re.search(r"\b(rename(at2?)?|link(at)?|mko?stemps?)\(|\bO_TMPFILE\b", file.read()):
                        found.add(path)
        self.assertEqual(found, set())

    def test_threads_of_tests_are_joined(self):
        """Python can crash at its end while a daemon thread runs, after the last test has passed."""
        found = []
        for top in ("apiserver", "tests", "packaging", "docs"):
            for folder, _, names in os.walk(os.path.join(ROOT, top)):
                for path in (os.path.join(folder, name) for name in names if name.endswith(".py")):
                    with open(path, encoding="utf-8") as file:
                        found += [os.path.relpath(path, ROOT) for line in file
                                  if re.search("daemon(_threads)? ?= ?[T]rue|= http.server.[T]hreading", line)]
        self.assertEqual(found, [])

    def test_names_are_unique(self):
        names = collections.defaultdict(list)
        for path in sources("common", "drivers", "configuration", "supervisor", "proto", "node-users", "nvml", "exporter", "dra", "kubelet", "tests", "docs"):
            names[os.path.basename(path)].append(path)
        shared = {name: paths for name, paths in names.items() if len(paths) > 1 and name != "main.c"}
        self.assertEqual(shared, {})


if __name__ == "__main__":
    unittest.main()
