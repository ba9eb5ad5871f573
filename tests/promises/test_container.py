# SPDX-License-Identifier: Apache-2.0
"""The container's manifests say what the image, the daemon and its manual say: paths, options, privileges."""
import copy
import functools
import json
import os
import re
import shutil
import subprocess
import tempfile
import unittest

from api_server import RELEASES
from devplug_apiserver import cel, schema
from devplug_apiserver.releases import Release
from node import program

try:
    import helm
    import manifest_fields
    import yaml
except ImportError:
    yaml = None

# The kinds that have no namespace, of those in the manifests.
CLUSTER_SCOPED = ("SecurityContextConstraints", "ClusterRole", "ClusterRoleBinding", "ValidatingAdmissionPolicy",
                  "ValidatingAdmissionPolicyBinding")
SPRIG = "/usr/share/gocode/src/github.com/Masterminds/sprig"
ROOT = os.path.realpath(os.path.join(os.path.dirname(__file__), "../.."))
CONTAINER = os.path.join(ROOT, "packaging/container")


def read(path):
    with open(os.path.join(ROOT, path)) as file:
        return file.read()


class PolicyExpression(cel.Parser):
    """CEL with the names that an admission policy knows."""

    def __init__(self, text, names):
        super().__init__(text)
        self.names = names

    def primary(self):
        kind, text = self.tokens[self.at]
        if kind == "name" and text in self.names:
            self.at += 1
            return cel.constant(self.names[text])
        return super().primary()


def admits(policy, names):
    """As an API server decides: an error denies the request, because of failurePolicy."""
    def holds(expression):
        return cel.evaluate(PolicyExpression(expression, names).parse(), None)

    if not all(holds(condition["expression"]) for condition in policy["matchConditions"]):
        return True
    try:
        return all(holds(validation["expression"]) for validation in policy["validations"])
    except cel.CelError:
        return False


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

    def dump(self, *files):
        """The keys of the image's file, with the files of the ConfigMap as its drop-ins."""
        with tempfile.TemporaryDirectory() as directory:
            config = os.path.join(directory, "devplugd.conf")
            os.mkdir(config + ".d")
            for path, copied in ("packaging/container/devplugd.conf", config), *((f, f"{config}.d/{os.path.basename(f)}") for f in files):
                shutil.copy(os.path.join(ROOT, path), copied)
            answer = subprocess.run([program("devplugd"), "-c", config, "--dump"], capture_output=True, text=True)
            self.assertEqual(answer.returncode, 0, answer.stderr)
        keys = dict(re.findall(r'^\t?(\w+) = "(.*)";', answer.stdout, re.M))
        keys["pod_resources_dir"] = os.path.dirname(keys["pod_resources_socket"])
        return keys

    def test_configuration(self):
        """What devplugd reads and writes is mounted at the host's path, also with another root directory of the kubelet."""
        keys = self.dump("packaging/container/base/resources.conf")
        for directory in ("/dev", "/sys"):
            mount = self.mounts[keys["host_root"] + directory]
            self.assertEqual(self.volumes[mount["name"]]["hostPath"]["path"], directory)
            self.assertTrue(mount["readOnly"])
        for components in [], ["k0s"], ["microk8s"]:
            files = [path for name in components for path in self.component(name)[2]]
            keys = self.dump("packaging/container/base/resources.conf", *files)
            spec = self.built(*components)["DaemonSet", "devplugd"]["spec"]["template"]["spec"]
            mounts = {m["mountPath"]: m["name"] for m in spec["containers"][0]["volumeMounts"]}
            paths = {v["name"]: v["hostPath"]["path"] for v in spec["volumes"] if "hostPath" in v}
            for key in ("runtime_dir", "device_plugin_dir", "plugins_registry_dir", "pod_resources_dir", "pod_logs_dir", "cdi_dir",
                        "device_info_dir"):
                with self.subTest(key, components=components):
                    self.assertEqual(paths[mounts[keys[key]]], keys[key])

    def test_labels(self):
        """The component mounts the directory of the labels."""
        spec = self.built("labels")["DaemonSet", "devplugd"]["spec"]["template"]["spec"]
        mounts = {m["mountPath"]: m for m in spec["containers"][0]["volumeMounts"]}
        paths = {v["name"]: v["hostPath"]["path"] for v in spec["volumes"] if "hostPath" in v}
        directory = self.dump("packaging/container/base/resources.conf")["features_dir"]
        self.assertEqual(paths[mounts[directory]["name"]], directory)
        self.assertFalse(mounts[directory].get("readOnly"))

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
        for key in ("hostNetwork", "hostPID", "hostIPC"):
            self.assertNotIn(key, self.spec)
        # No token without DRA.
        self.assertFalse(self.spec["automountServiceAccountToken"])
        account = next(o for o in self.objects if o["kind"] == "ServiceAccount")
        self.assertEqual((self.spec["serviceAccountName"], account["automountServiceAccountToken"]), (account["metadata"]["name"], False))
        writable = {m["mountPath"] for m in self.mounts.values() if not m.get("readOnly")}
        self.assertEqual(writable, {"/run/devplugd", "/var/lib/devplugd", "/run/devplugd.conf.d", "/var/lib/kubelet/device-plugins",
                                    "/var/lib/kubelet/plugins_registry", "/var/run/cdi", "/var/run/k8s.cni.cncf.io/devinfo/dp"})

    def test_nodes_and_limits(self):
        self.assertEqual(self.spec["nodeSelector"], {"kubernetes.io/os": "linux"})
        # All taints: devplugd's own, and those that operators put on nodes whose hardware has failed.
        self.assertEqual(self.spec["tolerations"], [{"operator": "Exists"}])
        self.assertEqual(self.spec["priorityClassName"], "system-node-critical")
        self.assertIn({"name": "NODE_NAME", "valueFrom": {"fieldRef": {"fieldPath": "spec.nodeName"}}}, self.container["env"])
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
        # And a token, with the component dra.
        self.assertEqual(set(constraints["volumes"]), {"projected"} | {kind for v in self.volumes.values() for kind in v if kind != "name"})
        self.assertFalse(any(constraints["allowHost" + key] for key in ("IPC", "Network", "PID", "Ports")))
        patch = by_kind["DaemonSet"]["spec"]["template"]["spec"]
        self.assertEqual([c["name"] for c in patch["containers"]], [self.container["name"]])
        self.assertEqual(by_kind["RoleBinding"]["subjects"], [{"kind": "ServiceAccount", "name": self.spec["serviceAccountName"]}])
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

    def component(self, name):
        """The patches, the objects and the files of the ConfigMap that the component has; every file is named."""
        directory = f"packaging/container/components/{name}"
        kustomization = yaml.safe_load(read(directory + "/kustomization.yaml"))
        patches = [p["path"] for p in kustomization.get("patches", [])]
        generated = [f for g in kustomization.get("configMapGenerator", []) for f in g["files"]]
        resources = kustomization.get("resources", [])
        self.assertEqual({"kustomization.yaml", *patches, *generated, *resources}, set(os.listdir(os.path.join(ROOT, directory))))
        return ([yaml.safe_load(read(f"{directory}/{path}")) for path in patches],
                [d for path in resources for d in yaml.safe_load_all(read(f"{directory}/{path}"))],
                [f"{directory}/{path}" for path in generated])

    def built(self, *components, patches=(), more=()):
        """What kustomize builds of the base with these components, patches and objects, but for the namespace."""
        patches, more, files = list(patches), list(more), []
        for component in components:
            for found, parts in zip((patches, more, files), self.component(component)):
                found += parts
        data = {name: read("packaging/container/base/" + name) for name in self.kustomization["configMapGenerator"][0]["files"]}
        data.update({os.path.basename(path): read(path) for path in files})
        objects = [{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "devplugd"}, "data": data}]
        for document in copy.deepcopy([o for o in self.objects if o["kind"] != "Namespace"] + more):
            for patch in patches:
                document = helm.merge(document, patch) if patch["kind"] == document["kind"] else document
            objects.append(document)
        for document in objects:
            document["metadata"].setdefault("labels", {})["app.kubernetes.io/name"] = "devplugd"
            if document["kind"] not in CLUSTER_SCOPED:
                document["metadata"]["namespace"] = self.kustomization["namespace"]
            for subject in document.get("subjects", []):
                subject["namespace"] = self.kustomization["namespace"]
            if document["kind"] == "DaemonSet":
                container = document["spec"]["template"]["spec"]["containers"][0]
                container["image"] += ":" + self.kustomization["images"][0]["newTag"]
        return {(o["kind"], o["metadata"]["name"]): o for o in objects}

    def variants(self):
        """The base, and what is built on it: its objects, the values of the chart for the same, the overlay, and the components."""
        _, openshift = self.overlay("openshift")
        patches = [d for d in openshift if d["kind"] == "DaemonSet"]
        more = [d for d in openshift if d["kind"] != "DaemonSet"]
        selinux = {"openshift": True, "seLinuxOptions": {"type": "spc_t"}}
        metrics, dra = {"metrics": {"enabled": True}}, {"dra": {"enabled": True}}
        for values, overlay, *components in (
                ({}, "base"), ({"labels": {"enabled": True}}, "base", "labels"), (selinux, "overlays/openshift"), (metrics, "base", "metrics"), (dra, "base", "dra"),
                ({**selinux, **dra}, "overlays/openshift", "dra"),
                ({"rights": {"report": True}}, "base", "report"),
                ({"rights": {"nodeLabels": True}}, "base", "node-labels"),
                ({"rights": {"eviction": True}, "networkPolicy": {"enabled": True}, **metrics}, "base", "eviction", "metrics", "network-policy"),
                ({"rights": {"report": True, "eviction": True, "forceAfter": True}}, "base", "report", "eviction", "force-after"),
                ({**dra, "rights": {"claimStatus": True}}, "base", "dra", "claim-status"),
                ({**metrics, **dra, "networkPolicy": {"enabled": True}}, "base", "metrics", "dra", "network-policy"),
                ({"kubelet": {"rootDir": "/var/lib/k0s/kubelet"}}, "base", "k0s"),
                ({**dra, "kubelet": {"rootDir": "/var/snap/microk8s/common/var/lib/kubelet"}}, "base", "dra", "microk8s")):
            on_openshift = overlay != "base"
            built = self.built(*components, patches=patches if on_openshift else [], more=more if on_openshift else [])
            yield built, values, overlay, components

    def merge_rights(self, documents):
        """With one ClusterRole: each component has its own, and a release of the chart has one for all values."""
        roles = [document for document in documents if document["kind"] == "ClusterRole"]
        bindings = [document for document in documents if document["kind"] == "ClusterRoleBinding"]
        self.assertEqual([binding["roleRef"]["name"] for binding in bindings], [role["metadata"]["name"] for role in roles])
        for document in roles[1:] + bindings[1:]:
            documents.remove(document)
        if roles:
            roles[0]["rules"] = sorted((rule for role in roles for rule in role["rules"]), key=json.dumps)
            roles[0]["metadata"]["name"] = bindings[0]["metadata"]["name"] = bindings[0]["roleRef"]["name"] = "devplugd"
        return documents

    def plain(self, objects):
        """Without what differs on purpose: a release has its own label, and its configuration no license."""
        for document in self.merge_rights(copy.deepcopy(list(objects))):
            spec = document.get("spec", {})
            for labels in (document["metadata"]["labels"], spec.get("selector", {}).get("matchLabels", {}),
                           spec.get("template", {}).get("metadata", {}).get("labels", {})):
                labels.pop("app.kubernetes.io/instance", None)
            if document["kind"] in CLUSTER_SCOPED:
                # kustomize gives a namespace to kinds that it does not know; the API server removes it.
                document["metadata"].pop("namespace", None)
            if document["kind"] == "ValidatingAdmissionPolicy":
                # The chart knows the name of the account, kustomize only how it begins.
                user = document["spec"]["matchConditions"][0]
                self.assertRegex(user.pop("expression"),
                                 'request.userInfo.username( == |.startsWith.)"system:serviceaccount:devplugd:devplugd"')
            if document["kind"] == "NetworkPolicy":
                document["spec"]["podSelector"]["matchLabels"].pop("app.kubernetes.io/instance", None)
            if document["kind"] == "DaemonSet":
                pod = document["spec"]["template"]["spec"]
                pod["volumes"].sort(key=lambda volume: volume["name"])
                pod["containers"][0]["volumeMounts"].sort(key=lambda mount: mount["name"])
            if document["kind"] == "ConfigMap":
                document["data"] = {name: re.sub(r"^# SPDX.*\n", "", text) for name, text in document["data"].items()}
            yield (document["kind"], document["metadata"]["name"]), document

    def test_chart(self):
        """It gives what the base and its overlays give."""
        for wanted, values, overlay, components in self.variants():
            with self.subTest(overlay=overlay, components=components):
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
            "resources.conf": "resources = ( );\n", "metrics.conf": 'metrics = { listen = "[::]:1234"; };\n'})
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

    def engines(self, directory):
        """The commands of the programs that are installed."""
        if shutil.which("kubectl"):
            yield ["kubectl", "kustomize", directory]
        if shutil.which("helm"):
            yield ["helm", "template", "devplugd", CONTAINER + "/chart", "--namespace=devplugd", "--values", directory + "/values.yaml"]
        # What Helm renders with. A cache of its own, since a test may have no home directory.
        if shutil.which("go") and os.path.isdir(SPRIG):
            binary = os.path.join(self.cache(), "render")
            if not os.path.exists(binary):
                subprocess.run(["go", "build", "-o", binary, os.path.join(ROOT, "tests/helm-engine/main.go")], check=True, env={
                    **os.environ, "GOPATH": "/usr/share/gocode", "GO111MODULE": "off", "CGO_ENABLED": "0", "GOTOOLCHAIN": "local",
                    "GOCACHE": self.cache()})
            yield [binary, CONTAINER + "/chart", "devplugd", "devplugd", directory + "/values.yaml"]

    @functools.lru_cache(maxsize=None)
    def cache(self):
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        return directory.name

    def test_programs_agree(self):
        """Where kubectl, Helm or the packages of Helm's engine are: what they build and render is what is compared here."""
        agreed = 0
        for wanted, values, overlay, components in self.variants():
            with tempfile.TemporaryDirectory(dir=CONTAINER) as directory:
                with open(directory + "/values.yaml", "w") as file:
                    yaml.safe_dump(values, file)
                with open(directory + "/kustomization.yaml", "w") as file:
                    yaml.safe_dump({"namespace": "devplugd", "resources": ["../" + overlay],
                                    "components": ["../components/" + name for name in components]}, file)
                for words in self.engines(directory):
                    with self.subTest(os.path.basename(words[0]), overlay=overlay, components=components):
                        answer = subprocess.run(words, capture_output=True, text=True)
                        self.assertEqual(answer.returncode, 0, answer.stderr)
                        found = [o for o in yaml.safe_load_all(answer.stdout) if o and o["kind"] != "Namespace"]
                        self.assertEqual(dict(self.plain(found)), dict(self.plain(wanted.values())))
                        agreed += 1
        if agreed == 0:
            self.skipTest("needs kubectl, helm, or golang-go and golang-github-masterminds-sprig-dev")

    def test_fields(self):
        """What kustomize builds and what the chart renders has fields and types of Kubernetes' API, and all that are required."""
        self.assertIn(manifest_fields.RELEASE, RELEASES)
        types = schema.split_types(manifest_fields.TYPES)
        examined = set()
        for built, values, overlay, components in self.variants():
            rendered = helm.template(CONTAINER + "/chart", "devplugd", "devplugd", values)
            for document in [*built.values(), *rendered, *(o for o in self.objects if o["kind"] == "Namespace")]:
                # OpenShift's own.
                if document["kind"] != "SecurityContextConstraints":
                    with self.subTest(overlay=overlay, components=components, kind=document["kind"]):
                        reader = schema.Reader(Release(manifest_fields.RELEASE), types)
                        reader.read(document["kind"], document)
                        self.assertEqual((reader.unknown, reader.dropped), ([], []))
                        examined.add(document["kind"])
        self.assertLessEqual({"DaemonSet", "ClusterRole", "ValidatingAdmissionPolicy", "NetworkPolicy", "Role"}, examined)

    def test_device_classes(self):
        """The chart creates what "devplugctl dra classes" prints for the configuration."""
        with tempfile.NamedTemporaryFile("w", suffix=".conf") as file:
            file.write('dra = { driver = "devices.vendor.example"; };\nresources = ( { name = "vendor.example/gpu"; driver = "static"; '
                       'match = ( { count = 1; } ); serve = "dra"; } );\n')
            file.flush()
            printed = subprocess.run([program("devplugctl"), "-c", file.name, "dra", "classes"], check=True, capture_output=True, text=True)
        objects = helm.template(CONTAINER + "/chart", "devplugd", "devplugd", {
            "dra": {"enabled": True, "deviceClasses": printed.stdout}})
        classes, = [o for o in objects if o["kind"] == "List"]
        self.assertEqual(classes, json.loads(printed.stdout))
        self.assertEqual([o["spec"]["extendedResourceName"] for o in classes["items"]], ["vendor.example/gpu"])
        if shutil.which("kubectl"):
            with tempfile.TemporaryDirectory(dir=CONTAINER) as directory:
                with open(directory + "/classes.json", "w") as file:
                    file.write(printed.stdout)
                with open(directory + "/kustomization.yaml", "w") as file:
                    yaml.safe_dump({"resources": ["../base", "classes.json"], "components": ["../components/dra"]}, file)
                answer = subprocess.run(["kubectl", "kustomize", directory], capture_output=True, text=True)
            self.assertEqual(answer.returncode, 0, answer.stderr)
            built = [o["metadata"]["name"] for o in yaml.safe_load_all(answer.stdout) if o["kind"] == "DeviceClass"]
            self.assertEqual(built, [o["metadata"]["name"] for o in classes["items"]])

    def test_other_ports_of_the_api_server(self):
        objects = helm.template(CONTAINER + "/chart", "a", "b", {
            "dra": {"enabled": True}, "networkPolicy": {"enabled": True, "apiServerPorts": [8443]}})
        policy, = [o["spec"] for o in objects if o["kind"] == "NetworkPolicy"]
        self.assertEqual((policy["egress"], "ingress" in policy), ([{"ports": [{"port": 8443}]}], False))

    def test_slices_of_other_nodes(self):
        """The policy admits what a pod writes to the slices of its node, and denies other writes; it ignores other users."""
        rendered = helm.template(CONTAINER + "/chart", "gpu", "pools", {"dra": {"enabled": True}})
        for documents, user in ((rendered, "pools:gpu"), (self.component("dra")[1], "devplugd:devplugd-pool")):
            policy, = [o["spec"] for o in documents if o["kind"] == "ValidatingAdmissionPolicy"]
            binding, = [o["spec"] for o in documents if o["kind"] == "ValidatingAdmissionPolicyBinding"]
            name, = [o["metadata"]["name"] for o in documents if o["kind"] == "ValidatingAdmissionPolicy"]
            self.assertEqual((binding, policy["failurePolicy"]), ({"policyName": name, "validationActions": ["Deny"]}, "Fail"))
            self.assertEqual(policy["matchConstraints"], {"resourceRules": [{
                "apiGroups": ["resource.k8s.io"], "apiVersions": ["*"], "operations": ["CREATE", "UPDATE", "DELETE"],
                "resources": ["resourceslices"]}]})
            for account, node, slice_node, admitted in (
                    (user, "a", "a", True), (user, "a", "b", False), (user, None, "a", False), (user, "a", None, False),
                    ("kube-system:other", "a", "b", True)):
                for operation in ("CREATE", "UPDATE", "DELETE"):
                    with self.subTest(user=account, node=node, slice=slice_node, operation=operation):
                        request = {"operation": operation, "userInfo": {
                            "username": "system:serviceaccount:" + account,
                            "extra": {"authentication.kubernetes.io/node-name": [node]} if node else {}}}
                        slice_ = {"spec": {"nodeName": slice_node} if slice_node else {}}
                        names = {"request": request, "object": None if operation == "DELETE" else slice_,
                                 "oldObject": None if operation == "CREATE" else slice_}
                        self.assertIs(admits(policy, names), admitted)

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
