# SPDX-License-Identifier: Apache-2.0
"""The container's manifests say what the image, the daemon and its manual say: paths, options, privileges."""
import os
import re
import subprocess
import tempfile
import unittest

from node import program

try:
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
        for key in ("runtime_dir", "device_plugin_dir", "pod_resources_dir", "cdi_dir", "device_info_dir"):
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
        self.assertEqual(writable, {"/run/devplugd", "/run/devplugd.conf.d", "/var/lib/kubelet/device-plugins", "/var/run/cdi",
                                    "/var/run/k8s.cni.cncf.io/devinfo/dp"})

    def test_image(self):
        """What is copied into the image is what is installed; what it starts is there."""
        text = read("packaging/container/Containerfile")
        for place in re.findall(r"cp (?:-r )?([a-z]+/\S+)", text):
            self.assertTrue(any(line.strip().startswith("usr/" + place)
                                for line in read("packaging/debian/devplugd.install").splitlines()), place)
        self.assertIn("packaging/container/devplugd.conf /image/etc/", text)
        self.assertEqual(set(re.findall(r"^FROM (\S+)", text, re.M)), {"debian:bookworm-slim"})


if __name__ == "__main__":
    unittest.main()
