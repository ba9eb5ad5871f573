# SPDX-License-Identifier: Apache-2.0
"""With cluster.labels, devplugd writes the labels of resources on its Node, with the kubelet's identity.

docs/contributing/complaints.md: none.
"""
import base64
import json
import os
import unittest

from api_server import write_kubeconfig
from devplug_apiserver import resources
from node import static, until
from report_node import NODE, ReportTest, SECRET

LABELS = "cluster = { labels = true; };"
ANNOTATION = "devplugd/labels"
NFD = "feature.node.kubernetes.io/"


class NodeLabels(ReportTest):
    def gpu(self, *labels, count=2):
        words = ", ".join(f'"{label}"' for label in labels)
        return static("gpu", count, f"labels = ( {words} );")

    def begin(self, *resources_, text=LABELS):
        self.configure(*resources_, text=text)
        self.node.start()

    def change(self, *resources_, text=LABELS):
        self.configure(*resources_, text=text)
        self.node.reload()

    def metadata(self):
        return self.api.ask("GET", NODE).body["metadata"]

    def labels(self):
        return self.metadata().get("labels") or {}

    def owned(self):
        text = (self.metadata().get("annotations") or {}).get(ANNOTATION)
        return text and json.loads(text)

    def await_labels(self, wanted):
        until(lambda: self.labels() == {**self.first, **wanted}, f"the labels {wanted}: {self.labels()}")

    def patch(self, metadata):
        answer = self.api.ask("PATCH", NODE, {"metadata": metadata}, content="application/merge-patch+json")
        self.assertEqual(answer.code, 200, answer.body)

    def setUp(self):
        super().setUp()
        self.patch({"labels": {"kubernetes.io/hostname": "node-a"}, "annotations": {"other": "x"}})
        self.first = self.labels()

    def failure(self, name="gpu"):
        return (self.node.resource(f"vendor.example/{name}") or {}).get("labels_failure")

    def test_life_of_labels(self):
        """They follow resources and their devices, and belong to devplugd after a restart, too."""
        features = self.node.path("features.d")
        os.mkdir(features)
        folder = f'features_dir = "{features}";'
        self.begin(self.gpu("gpus=${n}", "vendor.example/gpu=x"), static("fpga", 1, 'labels = ( "fpga=${id}" );'), text=LABELS + folder)
        wanted = {f"{NFD}gpus": "2", "vendor.example/gpu": "x", f"{NFD}fpga": "fpga-0"}
        self.await_labels(wanted)
        self.assertEqual(self.owned(), {"vendor.example/gpu": [f"{NFD}gpus", "vendor.example/gpu"], "vendor.example/fpga": [f"{NFD}fpga"]})
        self.assertEqual(os.listdir(features), [])
        self.assertIn("Labels are written to node node-a.\n  identity: ", self.ctl("status").stdout)
        self.change(self.gpu("gpus=${n}", count=3), static("fpga", 1, 'labels = ( "fpga=${id}" );'), text=LABELS + folder)
        wanted = {f"{NFD}gpus": "3", f"{NFD}fpga": "fpga-0"}
        self.await_labels(wanted)
        # They outlive a stop. A resource that is removed meanwhile loses its own.
        self.node.stop(9)
        self.assertEqual(self.labels(), {**self.first, **wanted})
        self.configure(self.gpu("gpus=${n}", count=3), text=LABELS + folder)
        self.node.start()
        self.await_labels({f"{NFD}gpus": "3"})
        # Files take over, and back.
        self.change(self.gpu("gpus=${n}", count=3), text=folder)
        self.await_labels({})
        self.assertIsNone(self.owned())
        self.assertEqual(self.metadata()["annotations"], {"other": "x"})
        until(lambda: os.listdir(features), "the file")
        self.change(self.gpu("gpus=${n}", count=3), text=LABELS + folder)
        self.await_labels({f"{NFD}gpus": "3"})
        until(lambda: not os.listdir(features), "the file to be removed")
        self.change(self.gpu(count=3).replace("labels = (  );", ""), text=LABELS + folder)
        self.await_labels({})

    def test_resource_that_does_not_report(self):
        """Its labels stay; those of others change."""
        answer = """echo '{"version": 1, "devices": [{"id": "%s", "nodes": [{"host": "/dev/null"}]}]}'\n"""
        program = self.script("discover", answer % "a")
        fpga = (f'{{ name = "vendor.example/fpga"; driver = "exec"; match = ( {{ command = "{program}"; interval = 1; timeout = 100; }} ); '
                'labels = ( "fpga=${id}" ); }')
        self.begin(self.gpu("gpus=${n}"), fpga)
        self.await_labels({f"{NFD}gpus": "2", f"{NFD}fpga": "a"})
        self.node.stop(9)
        ready = self.node.path("ready")
        self.script("discover", f"while ! [ -e {ready} ]; do sleep 0.1; done\n" + answer % "b")
        self.configure(self.gpu("cards=${n}"), fpga, text=LABELS)
        self.node.start()
        # Another write follows each change of the other resource.
        for count in 2, 3, 4:
            self.await_labels({f"{NFD}cards": str(count), f"{NFD}fpga": "a"})
            self.assertEqual(self.owned(), {"vendor.example/gpu": [f"{NFD}cards"], "vendor.example/fpga": [f"{NFD}fpga"]})
            self.change(self.gpu("cards=${n}", count=count + 1), fpga)
        with open(ready, "w"):
            pass
        self.await_labels({f"{NFD}cards": "5", f"{NFD}fpga": "b"})

    def test_labels_of_others(self):
        """They stay as they are, and are named; when they are removed, devplugd sets its own."""
        self.patch({"labels": {"vendor.example/gpu": "mine"}})
        self.first = self.labels()
        self.begin(self.gpu("vendor.example/gpu=x", "gpus=${n}"))
        self.await_labels({f"{NFD}gpus": "2"})
        until(lambda: self.failure(), "the failure")
        self.assertEqual(self.failure(), 'label "vendor.example/gpu" of the Node is another client\'s, with the value "mine": remove it, or use '
                                         "another name in `labels` of vendor.example/gpu")
        self.assertIn("the labels of the node cannot be written", " ".join(self.ctl("status").stdout.split()))
        self.patch({"labels": {"vendor.example/gpu": None}})
        del self.first["vendor.example/gpu"]
        self.await_labels({f"{NFD}gpus": "2", "vendor.example/gpu": "x"})
        until(lambda: self.failure() == "", "the failure to be over")
        # What another client changes is restored with the next change.
        self.patch({"labels": {"vendor.example/gpu": "y"}})
        self.change(self.gpu("vendor.example/gpu=x", "gpus=${n}", count=3))
        self.await_labels({f"{NFD}gpus": "3", "vendor.example/gpu": "x"})

    def test_one_name_of_two_resources(self):
        self.begin(self.gpu("cards=${n}"), static("fpga", 1, 'labels = ( "cards=${n}" );'))
        self.await_labels({f"{NFD}cards": "1"})
        until(lambda: self.failure(), "the failure")
        self.assertEqual(self.failure(), f'label "{NFD}cards" of the Node has the value of vendor.example/fpga, and not that of '
                                         "vendor.example/gpu: use another name in `labels`")

    def test_refusals(self):
        """Each is shown; when it is over, the labels are as they should be."""
        self.begin(self.gpu("gpus=${n}"))
        self.await_labels({f"{NFD}gpus": "2"})
        for count, fault in enumerate((401, 403, 404, 409, 429, 500, "garbage", "close"), 3):
            with self.subTest(fault):
                what = {"garbage": "not JSON", "close": NODE}.get(fault, f": {fault}")
                self.api.faults = [lambda method, path: fault if path.startswith(NODE) else None]
                self.change(self.gpu("gpus=${n}", count=count))
                until(lambda: what in (self.failure() or ""), what)
                self.api.faults = []
                self.await_labels({f"{NFD}gpus": str(count)})
                until(lambda: self.failure() == "", "the failure to be over")

    def test_killed_process(self):
        self.begin(self.gpu("gpus=${n}"))
        for count in 2, 3:
            self.await_labels({f"{NFD}gpus": str(count)})
            os.kill(until(self.process, "the process"), 9)
            self.change(self.gpu("gpus=${n}", count=count + 1))
        self.await_labels({f"{NFD}gpus": "4"})

    def test_rights(self):
        """A ServiceAccount with the rights of the table writes labels, and each right is used."""
        self.configure(self.gpu("gpus=${n}"), text=LABELS)
        objects = json.loads(self.ctl("dra", "credentials").stdout)["items"]
        for found in objects:
            resource = resources.find_kind(found["apiVersion"], found["kind"])
            path = resources.collection_path(resource, found["metadata"].get("namespace"))
            self.assertEqual(self.api.ask("POST", path, found).code, 201)
        data = self.api.ask("GET", SECRET).body["data"]
        write_kubeconfig(self.kubeconfig, self.api.url(), self.api.authority, token=base64.b64decode(data["token"]).decode())
        self.api.requests.clear()
        self.node.start()
        until(lambda: ("PATCH", NODE, 200) in self.api.requests, "the labels to be written")
        self.assertEqual([one for one in self.api.requests if one[0] == "PATCH" or one[2] == 403], [("PATCH", NODE, 200)])
        role, = (found for found in objects if found["kind"] == "ClusterRole")
        self.assertEqual([(rule["resources"], rule["verbs"]) for rule in role["rules"]], [(["nodes"], ["get"]), (["nodes"], ["patch"])])


if __name__ == "__main__":
    unittest.main()
