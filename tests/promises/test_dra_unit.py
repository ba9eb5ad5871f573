# SPDX-License-Identifier: Apache-2.0
"""DRA with the credentials of a kubelet, as the user of the unit, behind the directories that the unit hides."""
import os
import shutil
import unittest

from dra_node import DRIVER, DraTest
from node import as_unit, until

UNITS = os.path.join(os.path.dirname(os.path.realpath(__file__)), "../../units")
# /var/lib of an empty host, with what InaccessiblePaths= hides.
SANDBOX = """set -e
var=$1 hidden=$2
shift 2
mount --bind "$var" /var/lib
for path in $hidden; do
    [ ! -e "$path" ] || mount -t tmpfs -o mode=000,ro none "$path"
done
exec "$@"
"""


def hidden_paths(*names):
    """As systemd reads the key from a unit and its drop-ins."""
    found = []
    for name in names:
        with open(os.path.join(UNITS, name)) as file:
            for line in file:
                key, _, value = line.strip().partition("=")
                if key == "InaccessiblePaths":
                    found = found + [word.lstrip("-") for word in value.split()] if value else []
    return found


class DraUnit(DraTest):
    def begin_unit(self, hidden):
        self.serve_api()
        var = self.node.path("var")
        pki = os.path.join(var, "kubelet/pki")
        for folder in (pki, os.path.join(var, "kubelet/pods/x")):
            os.makedirs(folder)
        os.chmod(os.path.join(var, "kubelet"), 0o750)
        os.chmod(pki, 0o750)
        certificate, key = self.api.clients["node-a"]
        current = os.path.join(pki, "kubelet-client-current.pem")
        with open(os.path.join(pki, "kubelet-client-1.pem"), "w") as file:
            for path in (certificate, key):
                with open(path) as part:
                    shutil.copyfileobj(part, file)
        os.chmod(file.name, 0o600)
        os.symlink("/var/lib/kubelet/pki/kubelet-client-1.pem", current)
        kubeconfig = os.path.join(var, "kubelet/kubeconfig")
        self.api.kubeconfig(kubeconfig, inline=True)
        with open(kubeconfig) as file:
            lines = file.read().splitlines()
        with open(kubeconfig, "w") as file:
            for line in lines:
                name = line.strip().partition("-data:")[0]
                if name in ("client-certificate", "client-key"):
                    line = f"    {name}: /var/lib/kubelet/pki/kubelet-client-current.pem"
                file.write(line + "\n")
        self.node.configure(self.resource("gpu"), kubelet=f'plugins_registry_dir = "{self.registry}";',
                            text=f'cdi_dir = "{self.cdi}"; dra = {{ driver = "{DRIVER}"; }};')
        self.node.prefix = ["unshare", "--mount", "--propagation", "private", "sh", "-c", SANDBOX, "sandbox", var,
                            " ".join(hidden), *as_unit()]
        self.node.start()
        self.register()

    def test_with_the_package(self):
        self.begin_unit(hidden_paths("devplugd.service.in", "devplugd-cluster.conf"))
        self.await_pool(lambda pool: len(pool) == 3)
        until(lambda: self.dra()["identity"] == "kubelet", "the kubelet's identity")
        self.assertEqual((self.dra()["credentials"], self.dra()["node_source"]), ("/var/lib/kubelet/kubeconfig", "certificate"))

    def test_without_the_package(self):
        """The certificate is hidden, and the message names it: the other test would fail without the drop-in."""
        self.begin_unit(hidden_paths("devplugd.service.in"))
        until(lambda: "cannot read /var/lib/kubelet/pki/kubelet-client-current.pem: " in self.dra()["api_failure"],
              "the missing certificate")

    def test_secrets_of_pods_stay_hidden(self):
        before, after = hidden_paths("devplugd.service.in"), hidden_paths("devplugd.service.in", "devplugd-cluster.conf")
        self.assertEqual(set(before) - set(after), {path for path in before if path.endswith("kubelet/pki")})
        self.assertTrue(any(path.endswith("/pods") for path in after))


if __name__ == "__main__":
    unittest.main()
