# SPDX-License-Identifier: Apache-2.0
"""Labels of the node that a resource's devices make (`labels`), in a file that node-feature-discovery reads."""
import contextlib
import json
import os
import signal
import unittest

from node import static, until
from tool import ToolTest

GPU = "vendor.example/gpu"


class Labels(ToolTest):
    def setUp(self):
        super().setUp()
        self.features = self.node.path("features.d")
        os.mkdir(self.features)
        self.program = self.node.path("discover")
        self.hold = self.node.path("hold")

    def discover(self, **models):
        """The devices that the program prints, with a model each. It waits while there is a file "hold"."""
        document = {"version": 1, "devices": [
            {"id": name, "nodes": [{"host": "/dev/null"}], "properties": {"model": model}} for name, model in models.items()]}
        with open(self.program + ".new", "w") as file:
            file.write(f"#!/bin/sh\nwhile [ -e {self.hold} ]; do sleep 0.1; done\ncat <<'END'\n{json.dumps(document)}\nEND\n")
        os.chmod(self.program + ".new", 0o755)
        os.rename(self.program + ".new", self.program)

    def gpu(self, *labels, more=""):
        words = ", ".join(f'"{label}"' for label in labels)
        return (f'{{ name = "{GPU}"; driver = "exec"; match = ( {{ command = "{self.program}"; interval = 1; timeout = 100; }} ); '
                f'overlap = true; labels = ( {words} ); {more} }}')

    def text(self, features=None):
        return f'features_dir = "{features or self.features}"; cdi_dir = "{self.node.path("cdi")}";'

    def configure(self, *resources, features=None):
        self.node.configure(*resources, text=self.text(features))
        self.node.reload()

    def read(self, folder=None):
        """The labels as node-feature-discovery reads them: all files of the directory but hidden ones."""
        labels = {}
        for name in sorted(os.listdir(folder or self.features)):
            if name.startswith("."):
                continue
            try:
                with open(os.path.join(folder or self.features, name)) as file:
                    lines = file.read().splitlines()
            except FileNotFoundError:
                continue
            for line in lines:
                key, value = line.split("=", 1)
                self.assertNotIn(key, labels)
                labels[key] = value
        return labels

    def await_labels(self, wanted, folder=None):
        until(lambda: self.read(folder) == wanted, lambda: f"the labels {wanted}; last {self.read(folder)}")

    def notes(self):
        return [note for note in (self.node.resource(GPU) or {"scan_notes": []})["scan_notes"] if note.startswith("labels:")]

    def test_life_of_labels(self):
        self.discover(a="NVIDIA A100-SXM4 (80 GB)", b="NVIDIA A100-SXM4 (80 GB)")
        # Files for container runtimes change with the devices, too, and are removed apart from the labels.
        cdi = 'cdi_spec = { kind = "vendor.example/gpu"; };'
        self.serve(self.gpu("gpu.model=${property:model}", "vendor.example/gpus=${n}", more=cdi), static("other", 1, 'labels = ( "other=x" );'),
                   text=self.text())
        wanted = {"gpu.model": "NVIDIA-A100-SXM4-80-GB", "vendor.example/gpus": "2", "other": "x"}
        self.await_labels(wanted)
        resource = self.node.resource(GPU)
        self.assertEqual(resource["labels"], {"gpu.model": "NVIDIA-A100-SXM4-80-GB", "vendor.example/gpus": "2"})
        self.assertEqual(resource["labels_failure"], "")
        for name in os.listdir(self.features):
            self.assertEqual(os.stat(os.path.join(self.features, name)).st_mode & 0o777, 0o644)
        # They follow the devices, and outlive processes and a stop.
        self.discover(a="NVIDIA A100-SXM4 (80 GB)")
        self.await_labels({**wanted, "vendor.example/gpus": "1"})
        os.kill(self.node.find(GPU)["pid"], signal.SIGKILL)
        until(lambda: self.node.find(GPU)["restarts"] == 1 and self.node.find(GPU)["state"] == "serving", "the next process")
        self.await_labels({**wanted, "vendor.example/gpus": "1"})
        # After a start, they stay until the program has answered, although those of another resource change.
        self.node.stop(signal.SIGKILL)
        self.assertEqual(self.read(), {**wanted, "vendor.example/gpus": "1"})
        with open(self.hold, "w"):
            pass
        self.discover(a="X100", b="X100", c="X100")
        model = self.gpu("gpu.model=${property:model}", "vendor.example/gpus=${n}", more=cdi)
        for value in "yz":
            self.node.configure(model, static("other", 1, f'labels = ( "other={value}" );'), text=self.text())
            if value == "y":
                self.node.start()
            else:
                self.node.reload()
            self.await_labels({**wanted, "vendor.example/gpus": "1", "other": value})
            until(lambda: self.node.find(GPU)["state"] == "serving" and self.node.find("vendor.example/other")["labels"] == {"other": value},
                  "both resources to be served")
            self.assertEqual(self.read(), {**wanted, "vendor.example/gpus": "1", "other": value})
        os.unlink(self.hold)
        wanted = {"gpu.model": "X100", "other": "z"}
        self.await_labels({**wanted, "vendor.example/gpus": "3"})
        self.discover(a="NVIDIA A100-SXM4 (80 GB)")
        wanted["gpu.model"] = "NVIDIA-A100-SXM4-80-GB"
        self.await_labels({**wanted, "vendor.example/gpus": "1"})
        # Another process removes the file.
        for name in os.listdir(self.features):
            with contextlib.suppress(FileNotFoundError):
                os.unlink(os.path.join(self.features, name))
        self.await_labels({**wanted, "vendor.example/gpus": "1"})
        # Another directory, another key, and no resource.
        other = self.node.path("other.d")
        os.mkdir(other)
        self.configure(self.gpu("model=${property:model}"), static("other", 1, 'labels = ( "other=x" );'), features=other)
        self.await_labels({"model": "NVIDIA-A100-SXM4-80-GB", "other": "x"}, other)
        self.assertEqual(os.listdir(self.features), [])
        self.configure(self.gpu("model=${property:model}"), static("other", 1), features=other)
        self.await_labels({"model": "NVIDIA-A100-SXM4-80-GB"}, other)
        self.assertNotIn("labels", self.node.resource("vendor.example/other"))
        self.node.stop()
        self.node.configure(static("other", 1), text=self.text(other))
        self.node.start()
        self.node.await_serving()
        self.await_labels({}, other)

    def test_devices_that_disagree(self):
        """Such a label is left out, with both values; a name of its own for each value is the way."""
        self.discover(a="X100", b="X200", c="X100")
        self.serve(self.gpu("model=${property:model}", "gpu.${property:model}=true", "gpu.${property:model}.count=${n}"), text=self.text())
        self.await_labels({"gpu.X100": "true", "gpu.X200": "true", "gpu.X100.count": "2", "gpu.X200.count": "1"})
        until(self.notes, "the note")
        self.assertEqual(self.notes(), ['labels: "model" is not set, because device a has the value "X100" and device b "X200"; use the '
                                        'variable in the name, such as "model.${...}=true"'])
        self.assertIn('device b "X200"', " ".join(self.ctl("status").stdout.split()))
        self.discover(a="X100", b="X100")
        self.await_labels({"model": "X100", "gpu.X100": "true", "gpu.X100.count": "2"})
        until(lambda: not self.notes(), "the note to end")
        # No name can be made of this value.
        self.discover(a="...")
        self.await_labels({"model": "", "gpu.....count": "1"})
        until(lambda: self.notes() == ['labels: device a has no label "gpu.${property:model}": "gpu" is not a name'], "the other note")

    def test_missing_directory(self):
        os.rmdir(self.features)
        self.discover(a="X100")
        self.node.configure(self.gpu("model=${property:model}"), text=self.text())
        words = f"{self.features} does not exist, so there will be no labels for node-feature-discovery (features_dir): create it"
        self.assertIn(words, self.run_tool("devplugd", "--check").stderr)
        self.node.start_kubelet()
        self.node.start()
        self.node.await_allocatable(gpu=1)
        until(lambda: self.node.find(GPU)["labels_failure"].startswith(f"{self.features}: No such file or directory"), "the failure")
        self.assertIn("the labels of the node cannot be written", " ".join(self.ctl("status").stdout.split()))
        self.assertTrue(self.ctl("check").stdout.startswith(f"{GPU}: the labels of the node cannot be written: "))
        self.assertFalse(os.path.exists(self.features))
        os.mkdir(self.features)
        self.await_labels({"model": "X100"})
        until(lambda: self.node.find(GPU)["labels_failure"] == "", "the end of the failure")

    def test_configuration(self):
        for label, words in (("model", 'must be "NAME=VALUE"'), ("=x", 'must be "NAME=VALUE"'), ("${id}", 'must be "NAME=VALUE"'), ("a b=x", 'has the name "a b"'),
                             ("-a=x", 'has the name "-a"'), ("x" * 64 + "=x", "has the name"),
                             ("kubernetes.io/x=y", "reserved for Kubernetes"), ("x.k8s.io/x=y", "reserved for Kubernetes"),
                             ("node.kubernetes.io/x=y", "reserved for Kubernetes"),
                             ("Vendor/x=y", 'has the name "Vendor/x"'), ("v.e/=y", "has the name"), ("v.e/a/b=y", "has the name"),
                             ("${id}.example/x=y", "has a variable in its domain"), ("a=${ids}", "only while devices are assigned"),
                             ("a=${replica}", "only while devices are assigned"), ("a${n}=x", "has ${n} in its name"),
                             ("a=${modell}", "unknown variable")):
            with self.subTest(label):
                self.node.configure(static("gpu", 1, f'labels = ( "{label}" );'), text=self.text())
                answer = self.run_tool("devplugd", "--check")
                self.assertEqual(answer.returncode, 78)
                self.assertIn(words, answer.stderr)
                self.assertRegex(answer.stderr, r"labels")
        for label in ("a=x", "vendor.example/a=x", "feature.node.kubernetes.io/a=", "x.feature.node.kubernetes.io/a=x",
                      "profile.node.kubernetes.io/a=x", "a.${id}=${n}", "a=${id} of ${name}"):
            with self.subTest(label):
                self.node.configure(static("gpu", 1, f'labels = ( "{label}" );'), text=self.text())
                answer = self.run_tool("devplugd", "--check")
                self.assertEqual(answer.returncode, 0, answer.stderr)


if __name__ == "__main__":
    unittest.main()
