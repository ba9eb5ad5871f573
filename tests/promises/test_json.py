# SPDX-License-Identifier: Apache-2.0
"""docs/json.md and what devplugctl prints with --json are the same: each member, and its type."""
import json
import os
import shutil
import subprocess
import sys
import unittest

from node import program, static, until
from tool import ToolTest

ROOT = os.path.realpath(os.path.join(os.path.dirname(__file__), "../.."))
sys.path.insert(0, ROOT + "/tests/interfaces")

from interfaces import members_by_command  # noqa: E402 (it is found now)

TYPES = {bool: "boolean", int: "number", float: "number", str: "string", type(None): "null"}


def flatten(value, path=""):
    """Pairs of the path of a member and its type."""
    if isinstance(value, dict):
        for key, member in value.items():
            free = path in ("answer.envs", "answer.annotations") or path.endswith((".attributes", ".capacity", ".amounts", ".labels"))
            yield from flatten(member, f"{path}.{'*' if free else key}".lstrip("."))
    elif isinstance(value, list):
        for element in value:
            yield from flatten(element, path + "[]")
    else:
        yield path, TYPES[type(value)]


class Json(ToolTest):
    def compare(self, headline, *answers, elsewhere=()):
        """Every member is documented with its type, and what is documented is there in one of the answers or tested elsewhere."""
        wanted, seen = members_by_command()[headline], set()
        for answer in answers:
            document = json.loads(answer.stdout)
            self.assertEqual(document["version"], 1)
            for path, kind in flatten(document):
                self.assertIn(path, wanted)
                self.assertIn(kind, wanted[path].split(" or "), path)
                seen.add(path)
        self.assertEqual(sorted(set(wanted) - seen), sorted(elsewhere))

    def test_presets(self):
        """With presets of our own: devplugctl looks for them beside itself."""
        folder = self.node.path("share/devplugd/presets")
        os.makedirs(folder)
        os.mkdir(self.node.path("bin"))
        tool = shutil.copy(program("devplugctl"), self.node.path("bin"))
        os.mkdir(self.node.path("cdi"))
        with open(self.node.path("cdi/e.json"), "w") as file:
            json.dump({"cdiVersion": "0.6.0", "kind": "vendor.example/e",
                       "devices": [{"name": "zero", "containerEdits": {"env": ["E=1"]}}]}, file)
        cdi = f'container = {{ cdi = "vendor.example/e=${{id}}"; cdi_dirs = "{self.node.path("cdi")}"; }};'
        for name, more in (("special", cdi + ' prestart = { command = [ "/bin/true", "${id}" ]; };'),
                           ("general", "")):
            with open(f"{folder}/{name}.conf", "w") as file:
                file.write(f'# The {name} devices.\ndriver = "path"; match = "/dev/{"zero" if more else "[zn]*"}"; {more}\n')

        def ask(*words):
            return subprocess.run([tool, *words], capture_output=True, text=True, timeout=60)

        self.compare("presets", ask("presets", "--json"), ask("presets", "special", "--json"))
        found = ask("discover", "--json")
        # test_nvidia.py covers GPUs.
        self.compare("discover", found, elsewhere=["presets[].profiles[]"])
        presets = {p["name"]: p for p in json.loads(found.stdout)["presets"]}
        self.assertEqual(list(presets), ["special", "general"])
        self.assertEqual(presets["general"]["overlaps"], ["special"])
        self.assertEqual(presets["special"]["ids"], ["zero"])
        text = ask("discover").stdout
        for line in ("# CDI names: vendor.example/e=${id}", "# Before a container starts: /bin/true ${id}",
                     "# Overlaps with these presets, which take precedence: special"):
            self.assertIn(line, text)
        empty = self.node.path("empty")
        os.mkdir(empty)
        self.assertEqual(json.loads(ask("discover", "--json", "--root", empty).stdout), {"version": 1, "presets": []})
        # Where the daemon looks.
        with open(self.node.config, "w") as file:
            file.write(f'host_root = "{empty}"; resources = ( );')
        self.assertEqual(json.loads(ask("-c", self.node.config, "discover", "--json").stdout)["presets"], [])
        for words in (("discover", "spezial"), ("presets", "spezial")):
            self.assertIn('did you mean "special"?', ask(*words).stderr)

    def test_documents(self):
        socket = os.path.join(self.node.kubelet_state, "pod-resources/kubelet.sock")
        with open(self.node.path("e.json"), "w") as file:
            json.dump({"cdiVersion": "0.3.0", "kind": "vendor.example/e",
                       "devices": [{"name": "f", "containerEdits": {"env": ["A=b"]}}]}, file)
        self.node.configure(
            static("a", 1, 'prestart = { command = "/bin/false"; };'),
            '{ name = "vendor.example/zero"; driver = "path"; match = "/dev/zero";'
            ' container = { env = "A=b"; annotations = "vendor.example/c=d"; cdi = "vendor.example/e=f";'
            f' cdi_dirs = "{self.node.dir}";'
            ' mounts = ({ host = "/usr"; read_only = true; }); }; expect = 1; labels = ( "zero=x" ); prestart = { command = [ "/bin/true", "${param:mode}" ]; };'
            ' parameters = ( { name = "mode"; default = "fast"; } ); }',
            '{ name = "vendor.example/full"; driver = "path"; match = "/dev/full"; serve = "dra";'
            ' dra = { attributes = ( { name = "a"; type = "version"; value = "1"; }, { name = "b"; type = "int"; value = "1"; },'
            ' { name = "c"; type = "bool"; value = "1"; }, { name = "d"; value = "1"; } ); };'
            ' capacity = ( { name = "a"; value = "8"; step = "1"; default = "1"; max = "4"; },'
            ' { name = "b"; value = "8"; values = ( "1", "2" ); default = "1"; } ); }',
            kubelet=f'pod_resources_socket = "{socket}"; plugins_registry_dir = "{self.node.path("registry")}";',
            text='dra = { driver = "devices.vendor.example"; }; cluster = { report = true; };')
        self.node.start_kubelet()
        self.node.start()
        for name in ("a", "zero"):
            self.node.await_state(f"vendor.example/{name}", "serving")
        self.node.pod("p", a=1)
        self.node.pod("q", zero=1)
        self.assertEqual(self.ctl("cordon", "vendor.example/a/*", "why").returncode, 0)
        until(lambda: any(r["failures"] for r in self.node.status()["resources"]) and
              any(d["pods"] for r in self.node.status()["resources"] for d in r["devices"]), "what is to be shown")
        self.node.await_allocatable(a=0, zero=1)  # The kubelet writes its checkpoint no more.
        self.change_checkpoint(lambda entries: entries.append({**entries[0], "PodUID": "of a removed pod", "ContainerName": "other"}))
        until(lambda: any(d["booked"] for r in self.node.status()["resources"] for d in r["devices"]), "the booking")
        wanted = members_by_command()
        # A host without NUMA, and one on which all devices are found, has none. Claims and the rest of DRA need an API server:
        # test_dra_pods.py, test_dra.py; probes have failed in test_notices.py, devices are missing in test_expect.py, pods are evicted
        # in test_eviction.py.
        rare = {*(f"resources[].devices[].findings[].{member}" for member in ("reason", "severity", "text")), "dra.lacks[]", "dra.drivers[].lacks[]", "resources[].scan_notes[]", "resources[].devices[].numa[]", "resources[].devices[].attributes.*.ints[]",
                *(path for path in wanted["status, devices, explain"] if path.startswith("resources[].eviction.")),
                "resources[].expect.missing[]", "resources[].expect.extra[]",
                *(f"resources[].devices[].claims[].{member}" for member in ("id", "namespace", "name", "uid", "driver", "device", "share", "amounts.*", "admin"))}
        shown = {path: kind for answer in (self.ctl("status", "--json"), self.ctl("devices", "--json"))
                 for path, kind in flatten(json.loads(answer.stdout))}
        self.assertEqual(set(wanted["status, devices, explain"]) - set(shown) - rare, set())
        for path, kind in shown.items():
            self.assertIn(kind, wanted["status, devices, explain"][path].split(" or "), path)
        self.compare("events", self.ctl("events", "--json"))
        self.compare("check", self.ctl("check", "--json"))
        # test_lost_devices.py covers problems.
        self.compare("check --containers", self.ctl("check", "--containers", "--json"),
                     elsewhere=[f"problems[].{member}" for member in ("namespace", "pod", "pod_uid", "container", "resource",
                                                                      "path", "problem")])
        self.compare("cordon --list", self.ctl("cordon", "--list", "--json"))
        shown = dict(flatten(json.loads(self.ctl("preview", "vendor.example/zero", "--json").stdout)))
        self.assertEqual(set(wanted["preview"]) - set(shown) - {"notes[]", "devices[].numa[]"}, set())
        self.assertEqual(set(shown) - set(wanted["preview"]), set())


if __name__ == "__main__":
    unittest.main()
