# SPDX-License-Identifier: Apache-2.0
"""Parameters of claims: which values containers and programs get, which are refused, and that a claim keeps them."""
import json
import os
import signal
import unittest

from dra_node import DRIVER, DraTest
from node import remove_tree, until
from tool import ToolTest

DECLARED = ('parameters = ( { name = "mode"; values = ( "fast", "exact" ); default = "fast"; }, '
            '{ name = "level"; type = "int"; min = 1; max = 8; default = "2"; }, '
            '{ name = "trace"; type = "bool"; default = "false"; }, '
            '{ name = "job"; max_length = 12; default = "none"; } ); ')
USED = 'container = { env = ( "MODE=${param:mode}/${param:level}/${param:trace}/${param:job}", "GPU=${ids:,}" ); }; '


def entry(parameters, source="FromClaim", driver=DRIVER, **more):
    return {"source": source, "opaque": {"driver": driver, "parameters": parameters}, **more}


class DraParameters(DraTest):
    def gpu(self, declared=DECLARED, used=USED, count=4, name="gpu", more=""):
        return (f'{{ name = "vendor.example/{name}"; driver = "static"; match = ( {{ count = {count}; }} ); '
                f'serve = "dra"; {used} {declared} {more} }}')

    def claim(self, name, *config, requests=(("a", 0),), resource="gpu"):
        devices = [(request, self.api.device_named(f"vendor.example/{resource}", device)) for request, device in requests]
        return "default", name, self.api.allocate(name, DRIVER, devices, config=list(config))

    def refused(self, *config, **options):
        claim = self.claim("refused", *config, **options)
        answer = self.prepare(claim)[claim[2]]
        self.assertIsInstance(answer, str)
        self.assertIsNone(self.specification(claim[2]))
        self.assertFalse(os.path.exists(self.saved(claim[2])))
        return answer

    def environment(self, claim):
        """The variables of each CDI device of a claim, in the order of the requests."""
        answer = self.prepare(claim)[claim[2]]
        self.assertNotIsInstance(answer, str)
        edits = self.specification(claim[2])
        return [dict(variable.split("=", 1) for variable in edits[device["cdi"][0]]["env"]) for device in answer if device["cdi"]]

    def modes(self, claim):
        return [environment["MODE"] for environment in self.environment(claim)]

    def test_values(self):
        """The defaults, each type, the class before the claim, requests and alternatives, and the entries of other drivers."""
        self.serve_api()
        self.begin(self.gpu())
        self.await_pool()
        for expected, config in [
                ("fast/2/false/none", []),
                ("exact/8/true/a.b-1", [entry({"mode": "exact", "level": 8, "trace": True, "job": "a.b-1"})]),
                # The claim wins, also before the class, and leaves the rest of it.
                ("fast/7/true/none", [entry({"mode": "fast"}), entry({"mode": "exact", "level": 6, "trace": True}, "FromClass"),
                                      entry({"level": 7}, "FromClass")]),
                ("exact/2/false/none", [entry({"mode": "exact"}, requests=["r"])]),
                # Up to 1.36, entries of a class name requests, and may be there twice.
                ("exact/2/false/none", [entry({"mode": "exact"}, "FromClass", requests=["r"])] * 2),
                ("exact/2/false/none", [entry({"mode": "exact"}, requests=["x", "r/one"])]),
                ("fast/2/false/none", [entry({"mode": "exact"}, requests=["r/two"]), entry({"mode": "exact"}, requests=["r/on"]),
                                       entry({"mode": "exact"}, requests=["other"])]),
                ("fast/2/false/none", [entry({"mode": "bad", "none": [1]}, driver="other.example")]),
        ]:
            claim = self.claim("c", *config, requests=(("r/one", 1),))
            with self.subTest(expected=expected, config=config):
                self.assertEqual(self.modes(claim), [expected])
            self.assertEqual(self.unprepare(claim), {claim[2]: ""})
        # Each request has its own.
        claim = self.claim("c", entry({"level": 3}, requests=["a"]), entry({"level": 4}, requests=["b"]), entry({"job": "all"}),
                           requests=(("a", 0), ("b", 1)))
        self.assertEqual(self.modes(claim), ["fast/3/false/all", "fast/4/false/all"])

    def test_refusals(self):
        """The message names the claim and the parameter. Nothing is prepared."""
        self.serve_api()
        self.begin(self.gpu(), self.resource("plain"))
        self.await_pool(lambda pool: len(pool) == 7)
        prefix = "claim default/refused: opaque.parameters: "
        for config, text in [
                ([entry({"mod": "fast"})], prefix + 'mod: is not a parameter of vendor.example/gpu, which has "mode", "level", "trace", "job"'),
                ([entry({"kind": "Any"}, "FromClass")], prefix + "kind: is not a parameter of vendor.example/gpu"),
                ([entry({"mode": "slow"})], prefix + 'mode: must be "fast" or "exact", not "slow"'),
                ([entry({"mode": 1})], prefix + 'mode: must be "fast" or "exact", not "1"'),
                ([entry({"mode": ""})], prefix + 'mode: must be "fast" or "exact", not ""'),
                ([entry({"level": 0})], prefix + 'level: must be a whole number from 1 to 8, not "0"'),
                ([entry({"level": "3"})], prefix + 'level: must be a whole number from 1 to 8, not "3"'),
                ([entry({"trace": "true"})], prefix + 'trace: must be true or false, not "true"'),
                ([entry({"job": "../../etc"})], prefix + "job: must be a text of at most 12 letters, digits"),
                ([entry({"job": "--help"})], prefix + "job: must be a text"),
                ([entry({"job": "a$(reboot)"})], prefix + "job: must be a text"),
                ([entry({"job": "a" * 13})], prefix + "job: must be a text of at most 12"),
                ([entry({"job": "${id}"})], prefix + "job: must be a text"),
        ]:
            with self.subTest(config=config):
                self.assertIn(text, self.refused(*config))
        start = "claim default/refused: config[0] (FromClaim): opaque.parameters: "
        for parameters, text in [
                ({"job": "a\nb"}, "job: contains a control character"), ({"job": "\x7f"}, "job: contains a control character"),
                ({"job": "\u202e"}, "job: contains a control character"), ({"job": "x" * 257}, "job: must be a string of at most 256 bytes"),
                ({"level": 1.5}, "level: must be a string"), ({"level": None}, "level: must be a string"),
                ({"level": {"a": 1}}, "level: must be a string"), ({"level": [1]}, "level: must be a string"),
                ({"a b": 1}, "contains a name that is not valid"), ({"": 1}, "contains a name that is not valid"),
                ({"a" * 33: 1}, "contains a name that is not valid"), ({f"a{n}": 1 for n in range(17)}, "contains more than 16 parameters"),
                ({f"a{n}": "x" * 250 for n in range(5)}, "exceeds 1024 bytes"), ("text", "must be an object"), (None, "must be an object"),
                ([], "must be an object")]:
            with self.subTest(parameters=parameters):
                self.assertIn(start + text, self.refused(entry(parameters)))
        for config, text in [({"source": "FromClaim"}, 'config[0] has parameters of another kind than "opaque"'),
                             (entry({}, "FromPod"), "config[0] has a source other than FromClass and FromClaim")]:
            self.assertIn(text, self.refused(config))
        self.assertIn(prefix + "mode: is not a parameter of vendor.example/plain, which has none",
                      self.refused(entry({"mode": "fast"}), resource="plain"))
        # devplugd-cluster is still the same process: the supervisor ends one that sends it an invalid claim.
        self.assertEqual(self.modes(self.claim("good", entry({"mode": "exact"}))), ["exact/2/false/none"])

    def test_programs_and_paths(self):
        """Programs get the values as they are, and a value in a path stays in its directory."""
        self.serve_api()
        for name in ("a", "b"):
            os.makedirs(self.node.path(f"data/{name}"))
        with open(self.node.path("secret"), "w"):
            pass
        log = self.node.path("log")
        with open(log, "w"):
            os.chmod(log, 0o666)
        prestart = self.script("prestart", f'printf "%s|" "$@" >> "{log}"\n')
        allocate = self.script("allocate", f'cat >> "{log}"\n' """echo '{ "version": 1 }'\n""")
        declared = ('parameters = ( { name = "set"; pattern = "*"; default = "a"; }, { name = "word"; pattern = "*"; default = "w"; }, '
                    '{ name = "n"; type = "int"; min = -5; max = 5; } );')
        used = ('container = { mounts = ( { host = "%s/data/${param:set}"; path = "/data/${param:set}"; } ); env = "GPU=${ids:,}"; }; '
                'prestart = { command = [ "%s", "${id}", "${param:word}", "n=${param:n}" ]; }; allocate = { command = "%s"; };'
                % (self.node.dir, prestart, allocate))
        self.begin(self.gpu(declared, used))
        self.await_pool()
        self.assertIn("n: is missing, and vendor.example/gpu has no default for it; it must be a whole number from -5 to 5",
                      self.refused())
        word = "a b; $(touch x) 'y' \"z\" ${id} \u00e9"
        claim = self.claim("c", entry({"set": "b", "word": word, "n": -3}))
        self.prepare(claim)
        mounts = next(iter(self.specification(claim[2]).values()))["mounts"]
        self.assertEqual([(mount["hostPath"], mount["containerPath"]) for mount in mounts], [(self.node.path("data/b"), "/data/b")])
        with open(log) as file:
            question, words = file.read().split("\n")
        self.assertEqual(json.loads(question)["parameters"], {"set": "b", "word": word, "n": "-3"})
        self.assertEqual(words, f"gpu-0|{word}|n=-3|")
        for value in ("..", ".", "../secret", "b/../../secret", "/etc", "b/"):
            with self.subTest(value=value):
                self.assertIn('the parameter "set" is a part of a path', self.refused(entry({"set": value, "n": 1}), requests=(("a", 1),)))

    def test_claim_keeps_its_parameters(self):
        """Over another default, a restart of devplugd, one of the host, and a repeated preparation."""
        self.serve_api()
        self.node.environment["STATE_DIRECTORY"] = self.node.path("state")
        self.begin(self.gpu())
        self.await_pool()
        claim = self.claim("c", entry({"level": 5}))
        self.assertEqual(self.modes(claim), ["fast/5/false/none"])
        answer = self.prepare(claim)
        changed = DECLARED.replace('default = "fast"', 'default = "exact"').replace('default = "none"', 'default = "other"')
        other_env = USED.replace("GPU=", "OTHER=")
        self.configure(self.gpu(changed, other_env))
        self.node.reload()
        until(lambda: self.environment(claim) == [{"MODE": "fast/5/false/none", "OTHER": "gpu-0"}], "other edits")
        self.node.stop(signal.SIGKILL)
        self.node.start()
        self.register_again()
        until(lambda: self.dra()["slices"] == 1, "devplugd-cluster to know the devices")
        self.assertEqual(self.prepare(claim), answer)
        self.assertEqual(self.modes(claim), ["fast/5/false/none"])
        self.node.stop()
        remove_tree(self.node.run)
        self.change_saved(claim[2], lambda saved: saved.update(boot="00000000-0000-0000-0000-000000000000"))
        self.node.start()
        self.register_again()
        until(lambda: self.dra()["slices"] == 1, "devplugd-cluster to know the devices")
        self.assertIsNone(self.specification(claim[2]))
        self.assertEqual(self.prepare(claim), answer)
        self.assertEqual(self.modes(claim), ["fast/5/false/none"])
        new = self.claim("new", requests=(("a", 1),))
        self.assertEqual(self.modes(new), ["exact/2/false/other"])
        # A value that the configuration no longer permits is refused when the claim is prepared again.
        self.unprepare(new)
        self.configure(self.gpu(changed.replace("max = 8", "max = 4"), USED))
        self.node.stop()
        self.change_saved(claim[2], lambda saved: saved.update(boot="00000000-0000-0000-0000-000000000000"))
        self.node.start()
        self.register_again()
        until(lambda: self.dra()["slices"] == 1, "devplugd-cluster to know the devices")
        self.assertIn("does not permit a parameter that the claim was prepared with: level: must be a whole number from 1 to 4",
                      self.prepare(claim)[claim[2]])

    def test_saved_parameters_of_others(self):
        """A claim's file is read as if another program had written it."""
        self.serve_api()
        self.begin(self.gpu())
        self.await_pool()
        claim = self.claim("c", entry({"level": 5}))
        self.prepare(claim)
        self.node.stop()
        self.change_saved(claim[2], lambda saved: saved["devices"][0].update(parameters={"mode": "fast\n"}))
        self.node.start()
        self.register_again()
        until(lambda: f"the saved claim default/c (UID {claim[2]}) cannot be read" in self.node.output(), "the log")


class ShownParameters(ToolTest):
    def test_plugin_and_preview(self):
        """Pods of a device plugin get the defaults. explain and preview show what is declared."""
        self.node.configure('{ name = "vendor.example/gpu"; driver = "static"; match = ( { count = 2; } ); ' + USED + DECLARED + "}")
        self.node.start_kubelet()
        self.node.start()
        self.node.await_state("vendor.example/gpu", "serving")
        container, refused = self.node.pod("p", gpu=1)
        self.assertIsNone(refused)
        self.assertEqual(container["env"]["MODE"], "fast/2/false/none")
        shown = {"mode": ("string", '"fast" or "exact"', "fast"), "level": ("int", "a whole number from 1 to 8", "2"),
                 "trace": ("bool", "true or false", "false"),
                 "job": ("string", 'a text of at most 12 letters, digits and "._:@+=,-" that begins with a letter or digit', "none")}
        for words in (["explain", "vendor.example/gpu"], ["preview", "vendor.example/gpu"]):
            text = " ".join(self.ctl(*words).stdout.split())
            for name, (_, permitted, default) in shown.items():
                self.assertIn(f'"{name}": {permitted}; {default} by default', text)
        document = json.loads(self.ctl("preview", "vendor.example/gpu", "--json").stdout)
        self.assertEqual({p["name"]: (p["type"], p["permitted"], p["default"]) for p in document["parameters"]}, shown)
        self.assertEqual(self.node.resource("vendor.example/gpu")["parameters"], document["parameters"])


if __name__ == "__main__":
    unittest.main(verbosity=2)
