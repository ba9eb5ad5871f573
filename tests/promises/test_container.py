# SPDX-License-Identifier: Apache-2.0
"""The container's manifests say what the image, the daemon and its manual say: paths, options, privileges."""
import copy
import os
import re
import shutil
import subprocess
import tempfile
import unittest

from node import program

try:
    import helm
    import yaml
except ImportError:
    yaml = None

ROOT = os.path.realpath(os.path.join(os.path.dirname(__file__), "../.."))
CONTAINER = os.path.join(ROOT, "packaging/container")


def read(path):
    with open(os.path.join(ROOT, path)) as file:
        return file.read()


@unittest.skipUnless(yaml, "needs python3-yaml")
class Manifests(unittest.TestCase):
    def setUp(self):
        self.kustomization = yaml.safe_load(read("packaging/container/base/kustomization.yaml"))
        self.objects = [document for name in self.kustomization["resources"]
                        for document in yaml.safe_load_all(read(f"packaging/container/base/{name}"))]
        self.spec = next(o for o in self.objects if o["kind"] == "DaemonSet")["spec"]["template"]["spec"]
        self.container = self.spec["containers"][0]
        self.mounts = {m["mountPath"]: m for m in self.container["volumeMounts"]}
        self.volumes = {v["name"]: v for v in self.spec["volumes"]}

    def test_all_files_are_named(self):
        named = set(self.kustomization["resources"]) | {
            name for generator in self.kustomization["configMapGenerator"] for name in generator["files"]}
        self.assertEqual(named | {"kustomization.yaml"}, set(os.listdir(CONTAINER + "/base")))

    def test_names_fit(self):
        daemonset = next(o for o in self.objects if o["kind"] == "DaemonSet")["spec"]
        labels = daemonset["template"]["metadata"]["labels"]
        self.assertEqual(daemonset["selector"]["matchLabels"], labels)
        self.assertIn(labels, [{k: v for k, v in item["pairs"].items()} for item in self.kustomization["labels"]])
        self.assertEqual(self.kustomization["namespace"], next(o for o in self.objects if o["kind"] == "Namespace")["metadata"]["name"])
        self.assertEqual({m["name"] for m in self.mounts.values()}, set(self.volumes))
        generators = {g["name"]: g["files"] for g in self.kustomization["configMapGenerator"]}
        self.assertIn(self.volumes[self.mounts["/etc/devplugd.conf.d"]["name"]]["configMap"]["name"], generators)
        for files in generators.values():
            # Others are no drop-ins.
            self.assertTrue(all(name.endswith(".conf") for name in files), files)
        version = re.search(r"^project\(devplugd VERSION (\S+)", read("CMakeLists.txt"), re.M).group(1)
        self.assertEqual([(i["name"], i["newTag"]) for i in self.kustomization["images"]], [(self.container["image"], version)])

    def test_configuration(self):
        """The image's file with the ConfigMap as its drop-in; both look at what is mounted."""
        with tempfile.TemporaryDirectory() as directory:
            config = os.path.join(directory, "devplugd.conf")
            os.mkdir(config + ".d")
            with open(config, "w") as file:
                file.write(read("packaging/container/devplugd.conf"))
            with open(config + ".d/resources.conf", "w") as file:
                file.write(read("packaging/container/base/resources.conf"))
            answer = subprocess.run([program("devplugd"), "-c", config, "--dump"], capture_output=True, text=True)
            self.assertEqual(answer.returncode, 0, answer.stderr)
        keys = dict(re.findall(r'^\t?(\w+) = "(.*)";', answer.stdout, re.M))
        for directory in ("/dev", "/sys"):
            mount = self.mounts[keys["host_root"] + directory]
            self.assertEqual(self.volumes[mount["name"]]["hostPath"]["path"], directory)
            self.assertTrue(mount["readOnly"])
        keys["pod_resources_dir"] = os.path.dirname(keys["pod_resources_socket"])
        for key in ("runtime_dir", "device_plugin_dir", "pod_resources_dir", "pod_logs_dir", "cdi_dir",
                    "device_info_dir"):
            volume = self.volumes[self.mounts[keys[key]]["name"]]
            self.assertEqual(volume["hostPath"]["path"], keys[key])

    def test_options(self):
        usage = subprocess.run([program("devplugd"), "--help"], capture_output=True, text=True).stdout
        for word in self.container["args"]:
            self.assertRegex(usage, rf"\s{re.escape(word)}\s")
        commands = subprocess.run([program("devplugctl"), "--help"], capture_output=True, text=True).stdout
        for probe in ("readinessProbe", "livenessProbe"):
            words = self.container[probe]["exec"]["command"]
            self.assertEqual(words[0], "devplugctl")
            self.assertRegex(commands, rf"(?m)^  {words[1]} ")

    def test_privileges(self):
        """No more than this; packaging/test-container shows that it is enough."""
        self.assertFalse(self.container["securityContext"]["privileged"])
        self.assertFalse(self.container["securityContext"]["allowPrivilegeEscalation"])
        self.assertTrue(self.container["securityContext"]["readOnlyRootFilesystem"])
        self.assertEqual(self.container["securityContext"]["capabilities"],
                         {"drop": ["ALL"], "add": ["KILL", "SETGID", "SETPCAP", "SETUID"]})
        self.assertEqual(self.spec["securityContext"]["seccompProfile"], {"type": "RuntimeDefault"})
        for key in ("hostNetwork", "hostPID", "hostIPC", "serviceAccountName"):
            self.assertNotIn(key, self.spec)
        self.assertFalse(self.spec["automountServiceAccountToken"])
        writable = {m["mountPath"] for m in self.mounts.values() if not m.get("readOnly")}
        self.assertEqual(writable, {"/run/devplugd", "/var/lib/devplugd", "/run/devplugd.conf.d", "/var/lib/kubelet/device-plugins", "/var/run/cdi",
                                    "/var/run/k8s.cni.cncf.io/devinfo/dp"})

    def test_nodes_and_limits(self):
        self.assertEqual(self.spec["nodeSelector"], {"kubernetes.io/os": "linux"})
        self.assertEqual(self.container["resources"]["limits"], {"memory": "1Gi"})

    def overlay(self, name):
        """The overlay's kustomization, and its other documents; every file is named."""
        directory = f"packaging/container/overlays/{name}"
        kustomization = yaml.safe_load(read(directory + "/kustomization.yaml"))
        files = [f for f in kustomization["resources"] if not f.startswith("..")] + [p["path"] for p in kustomization["patches"]]
        generated = [f for g in kustomization.get("configMapGenerator", []) for f in g["files"]]
        self.assertEqual({"kustomization.yaml", *files, *generated}, set(os.listdir(os.path.join(ROOT, directory))))
        self.assertIn("../../base", kustomization["resources"])
        self.assertEqual(kustomization["namespace"], self.kustomization["namespace"])
        return kustomization, [d for f in files for d in yaml.safe_load_all(read(f"{directory}/{f}"))]

    def test_openshift(self):
        """The constraints allow what the DaemonSet asks for, and nothing else."""
        _, documents = self.overlay("openshift")
        by_kind = {d["kind"]: d for d in documents}
        constraints, security = by_kind["SecurityContextConstraints"], self.container["securityContext"]
        self.assertEqual(constraints["allowedCapabilities"], security["capabilities"]["add"])
        self.assertEqual(constraints["allowPrivilegedContainer"], security["privileged"])
        self.assertEqual(constraints["allowPrivilegeEscalation"], security["allowPrivilegeEscalation"])
        self.assertEqual(constraints["readOnlyRootFilesystem"], security["readOnlyRootFilesystem"])
        self.assertEqual(set(constraints["volumes"]), {kind for v in self.volumes.values() for kind in v if kind != "name"})
        self.assertFalse(any(constraints["allowHost" + key] for key in ("IPC", "Network", "PID", "Ports")))
        patch = by_kind["DaemonSet"]["spec"]["template"]["spec"]
        self.assertEqual([c["name"] for c in patch["containers"]], [self.container["name"]])
        account = by_kind["ServiceAccount"]["metadata"]["name"]
        self.assertEqual(patch["serviceAccountName"], account)
        self.assertEqual(by_kind["RoleBinding"]["subjects"], [{"kind": "ServiceAccount", "name": account}])
        self.assertEqual(by_kind["RoleBinding"]["roleRef"]["name"], by_kind["Role"]["metadata"]["name"])
        self.assertEqual(by_kind["Role"]["rules"][0]["resourceNames"], [constraints["metadata"]["name"]])

    def test_node_pool(self):
        """A DaemonSet, a ConfigMap and a selector of its own, which no other pool has."""
        kustomization, documents = self.overlay("node-pool")
        self.assertTrue(kustomization["nameSuffix"])
        generators = {g["name"]: g for g in kustomization["configMapGenerator"]}
        self.assertEqual({name: g["behavior"] for name, g in generators.items()},
                         {g["name"]: "replace" for g in self.kustomization["configMapGenerator"]})
        self.assertTrue(all(labels["includeSelectors"] for labels in kustomization["labels"]))
        self.assertTrue(documents[0]["spec"]["template"]["spec"]["nodeSelector"])
        with tempfile.TemporaryDirectory() as directory:
            config = os.path.join(directory, "devplugd.conf")
            with open(config, "w") as file:
                file.write(read("packaging/container/overlays/node-pool/resources.conf"))
            self.assertEqual(subprocess.run([program("devplugd"), "-c", config, "--check"]).returncode, 0)

    def built(self, patches=(), more=(), files=()):
        """What kustomize builds of the base with these patches, objects and files of the ConfigMap, but for the namespace."""
        data = {name: read("packaging/container/base/" + name) for name in self.kustomization["configMapGenerator"][0]["files"]}
        data.update({os.path.basename(path): read(path) for path in files})
        objects = [{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "devplugd"}, "data": data}]
        for document in copy.deepcopy([o for o in self.objects if o["kind"] != "Namespace"] + list(more)):
            for patch in patches:
                document = helm.merge(document, patch) if patch["kind"] == document["kind"] else document
            objects.append(document)
        for document in objects:
            document["metadata"].setdefault("labels", {})["app.kubernetes.io/name"] = "devplugd"
            if document["kind"] != "SecurityContextConstraints":
                document["metadata"]["namespace"] = self.kustomization["namespace"]
            for subject in document.get("subjects", []):
                subject["namespace"] = self.kustomization["namespace"]
            if document["kind"] == "DaemonSet":
                container = document["spec"]["template"]["spec"]["containers"][0]
                container["image"] += ":" + self.kustomization["images"][0]["newTag"]
        return {(o["kind"], o["metadata"]["name"]): o for o in objects}

    def variants(self):
        """The base, and what is built on it: its objects, the values of the chart for the same, and its kustomization."""
        _, openshift = self.overlay("openshift")
        component = "packaging/container/components/metrics/"
        metrics = yaml.safe_load(read(component + "daemonset.yaml"))
        return [
            (self.built(), {}, "base"),
            (self.built([d for d in openshift if d["kind"] == "DaemonSet"], [d for d in openshift if d["kind"] != "DaemonSet"]),
             {"openshift": True, "seLinuxOptions": {"type": "spc_t"}}, "overlays/openshift"),
            (self.built([metrics], files=[component + "metrics.conf"]), {"metrics": {"enabled": True}}, component),
        ]

    def plain(self, objects):
        """Without what differs on purpose: a release has its own label, and its configuration no license."""
        for document in copy.deepcopy(list(objects)):
            spec = document.get("spec", {})
            for labels in (document["metadata"]["labels"], spec.get("selector", {}).get("matchLabels", {}),
                           spec.get("template", {}).get("metadata", {}).get("labels", {})):
                labels.pop("app.kubernetes.io/instance", None)
            if document["kind"] == "SecurityContextConstraints":
                # kustomize gives it one, since it does not know the kind; the API server removes it.
                document["metadata"].pop("namespace", None)
            if document["kind"] == "ConfigMap":
                document["data"] = {name: re.sub(r"^# SPDX.*\n", "", text) for name, text in document["data"].items()}
            yield (document["kind"], document["metadata"]["name"]), document

    def test_chart(self):
        """It gives what the base and its overlays give."""
        for wanted, values, name in self.variants():
            with self.subTest(name):
                rendered = helm.template(CONTAINER + "/chart", "devplugd", "devplugd", values)
                self.assertEqual(dict(self.plain(rendered)), dict(self.plain(wanted.values())))

    def test_chart_values(self):
        """Each is used, and a release for a pool has nothing in common with another one's objects."""
        values = {"image": {"repository": "registry.example/devplugd", "tag": "x"}, "imagePullSecrets": [{"name": "registry"}],
                  "nodeSelector": {"vendor.example/pool": "gpu"}, "tolerations": [{"key": "gpu", "operator": "Exists"}],
                  "configuration": "resources = ( );\n", "metrics": {"enabled": True, "port": 1234}, "maxSurge": 1,
                  "priorityClassName": "other", "resources": {"limits": {"memory": "2Gi"}},
                  "extraVolumes": [{"name": "opt", "hostPath": {"path": "/opt"}}],
                  "extraVolumeMounts": [{"name": "opt", "mountPath": "/host/opt"}]}
        objects = {o["kind"]: o for o in helm.template(CONTAINER + "/chart", "gpu", "pools", values)}
        self.assertEqual(objects["ConfigMap"]["data"], {
            "resources.conf": "resources = ( );\n", "metrics.conf": 'metrics = { listen = "0.0.0.0:1234"; };\n'})
        for document in objects.values():
            self.assertEqual((document["metadata"]["name"], document["metadata"]["namespace"]), ("gpu", "pools"))
        spec = objects["DaemonSet"]["spec"]
        self.assertEqual(spec["selector"]["matchLabels"]["app.kubernetes.io/instance"], "gpu")
        self.assertEqual(spec["selector"]["matchLabels"], spec["template"]["metadata"]["labels"])
        self.assertEqual(spec["updateStrategy"]["rollingUpdate"], {"maxSurge": 1, "maxUnavailable": 0})
        spec = spec["template"]["spec"]
        container = spec["containers"][0]
        self.assertEqual((container["image"], container["resources"]["limits"]), ("registry.example/devplugd:x", {"memory": "2Gi"}))
        self.assertEqual(container["ports"], [{"name": "metrics", "containerPort": 1234}])
        self.assertEqual(spec["nodeSelector"], {"kubernetes.io/os": "linux", **values["nodeSelector"]})
        self.assertEqual((spec["tolerations"], spec["priorityClassName"], spec["imagePullSecrets"]),
                         (values["tolerations"], "other", values["imagePullSecrets"]))
        self.assertEqual((spec["volumes"][-1], container["volumeMounts"][-1]),
                         (values["extraVolumes"][0], values["extraVolumeMounts"][0]))
        self.assertEqual(spec["volumes"][0]["configMap"], {"name": "gpu"})
        version = re.search(r"^project\(devplugd VERSION (\S+)", read("CMakeLists.txt"), re.M).group(1)
        about = yaml.safe_load(read("packaging/container/chart/Chart.yaml"))
        self.assertEqual((about["version"], about["appVersion"]), (version, version))

    def test_programs_agree(self):
        """Where there are kubectl and helm: what they build and render is what is compared here."""
        if not shutil.which("kubectl") and not shutil.which("helm"):
            self.skipTest("needs kubectl or helm")
        for wanted, values, name in self.variants():
            with self.subTest(name), tempfile.TemporaryDirectory(dir=CONTAINER) as directory:
                for program_name, words in (("kubectl", ["kubectl", "kustomize", directory]),
                                            ("helm", ["helm", "template", "devplugd", CONTAINER + "/chart", "--namespace=devplugd",
                                                      "--values", directory + "/values.yaml"])):
                    if not shutil.which(program_name):
                        continue
                    with open(directory + "/values.yaml", "w") as file:
                        yaml.safe_dump(values, file)
                    base = "../base" if "components" in name else "../" + name
                    with open(directory + "/kustomization.yaml", "w") as file:
                        yaml.safe_dump({"resources": [base], "components": ["../components/metrics"] if base != "../" + name else []},
                                       file)
                    answer = subprocess.run(words, capture_output=True, text=True)
                    self.assertEqual(answer.returncode, 0, answer.stderr)
                    found = [o for o in yaml.safe_load_all(answer.stdout) if o["kind"] != "Namespace"]
                    self.assertEqual(dict(self.plain(found)), dict(self.plain(wanted.values())))

    def test_image(self):
        """What is copied into the image is what is installed; what it starts is there."""
        installed = "".join(read(f"packaging/debian/{name}.install") for name in ("devplugd", "devplugd-cluster", "devplugd-exporter"))
        for place in re.findall(r'cp (?:-r )?"\$installation/usr/([^"]*)"', read("packaging/container/make-root")):
            self.assertTrue(any(line.strip().startswith("usr/" + place) for line in installed.splitlines()), place)
        text = read("packaging/container/Containerfile")
        self.assertIn('ENTRYPOINT ["/usr/sbin/devplugd"]', text)
        self.assertEqual(re.findall(r"^FROM (?:--\S+ )?(\S+)", text, re.M), ["debian:bookworm-slim", "scratch"])


if __name__ == "__main__":
    unittest.main()
