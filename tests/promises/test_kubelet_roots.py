# SPDX-License-Identifier: Apache-2.0
"""The layouts of Kubernetes distributions, with the configuration that docs/compatibility.md has for each: both ways to register,
and the pods that hold devices. In a mount namespace of its own, where /var has nothing but /var/tmp, which may have libraries."""
import os
import re
import shutil
import subprocess
import sys
import unittest

from node import NodeTest, static, until

PAGE = os.path.realpath(os.path.join(os.path.dirname(__file__), "../../docs/compatibility.md"))
PLUGINS = "/var/lib/kubelet/device-plugins"
# The --root-dir of each kubelet, as the distribution starts it.
ROOTS = {
    "kubeadm": "/var/lib/kubelet",
    "k3s": "/var/lib/kubelet",
    "k0s": "/var/lib/k0s/kubelet",
    "MicroK8s": "/var/snap/microk8s/common/var/lib/kubelet",
}


def documented():
    """What goes into `kubelet = { ... };`, by the first word of the row."""
    with open(PAGE, encoding="utf-8") as file:
        section = file.read().split("## Kubernetes distributions")[1].split("\n## ")[0]
    rows = re.findall(r"^\| (\w+)[^|]*\| [^|]* \| (?:`kubelet = \{ (.*) \};`|none) \|$", section, re.M)
    return dict(rows)


@unittest.skipUnless(os.environ.get("DEVPLUGD_EMPTY_VAR"), "needs a mount namespace")
class Roots(NodeTest):
    def serve(self, root, keys):
        os.makedirs(root + "/plugins_registry", exist_ok=True)
        os.makedirs(PLUGINS, exist_ok=True)
        os.symlink(os.path.join(self.node.kubelet_state, "pod-resources"), root + "/pod-resources")
        self.node.plugins = PLUGINS
        self.node.configure(static("a", 2), static("b", 1, 'registration = "watcher";'), kubelet=keys)
        self.node.start_kubelet("--plugins-registry", root + "/plugins_registry")
        self.node.start()
        self.node.await_serving()
        self.node.await_allocatable(a=2, b=1)
        self.node.pod("p", a=1, b=1)
        until(lambda: [self.node.resource(f"vendor.example/{name}")["in_use"] for name in "ab"] == [1, 1], "the pod to be known")

    def test_documented_layouts(self):
        found = documented()
        self.assertEqual(set(ROOTS) - set(found), set())
        for name, root in ROOTS.items():
            with self.subTest(name):
                self.serve(root, found[name])
                self.node.stop()
                self.node.stop_kubelet()
                for path in (root, "/var/lib/kubelet", self.node.kubelet_state):
                    shutil.rmtree(path, ignore_errors=True)


if __name__ == "__main__":
    command = ["unshare", "--mount", "sh", "-c",
               'exec 9</var/tmp && mount -t tmpfs -o mode=0755 tmpfs /var && ln -s /run /var/run && mkdir /var/tmp && '
               'mount --no-canonicalize --rbind /proc/self/fd/9 /var/tmp && exec "$@" 9<&-', "sh"]
    if "DEVPLUGD_EMPTY_VAR" not in os.environ and subprocess.run([*command, "true"], capture_output=True).returncode == 0:
        os.environ["DEVPLUGD_EMPTY_VAR"] = "1"
        os.execvp(command[0], [*command, sys.executable, "-B", *sys.argv])
    unittest.main()
