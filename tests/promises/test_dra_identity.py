# SPDX-License-Identifier: Apache-2.0
"""As whom devplugd asks the API server, and as which node: what is configured, a pod's ServiceAccount, the host's kubelet."""
import base64
import json
import os
import re
import unittest

from api_server import write_kubeconfig
from devplug_apiserver import resources
from dra_node import DRIVER, DraTest
from node import until

# As in a container with a ServiceAccount.
POD = """set -e
mount -t tmpfs none /run
mkdir -p /run/secrets/kubernetes.io
ln -s "$1" /run/secrets/kubernetes.io/serviceaccount
shift
exec "$@"
"""
COMPATIBILITY = os.path.join(os.path.dirname(os.path.realpath(__file__)), "../../docs/compatibility.md")
MAXIMUM = 1 << 20  # of a file
SECRET = "/api/v1/namespaces/kube-system/secrets/devplugd"


class DraIdentity(DraTest):
    def setUp(self):
        super().setUp()
        self.serve_api()
        self.host = self.node.path("host")
        self.kubelet_file = os.path.join(self.host, "var/lib/rancher/k3s/agent/kubelet.kubeconfig")
        os.makedirs(os.path.dirname(self.kubelet_file))

    def configure(self, dra="", resource=None):
        self.node.configure(resource or self.resource("gpu"), kubelet=f'plugins_registry_dir = "{self.registry}";',
                            text=f'cdi_dir = "{self.cdi}"; host_root = "{self.host}"; dra = {{ driver = "{DRIVER}"; {dra} }};')

    def start(self):
        self.node.start()
        self.register()

    def run_in_pod(self, **environment):
        """With the ServiceAccount of the objects that devplugctl prints."""
        for found in json.loads(self.ctl("dra", "credentials").stdout)["items"]:
            resource = resources.find_kind(found["apiVersion"], found["kind"])
            path = resources.collection_path(resource, found["metadata"].get("namespace"))
            self.assertEqual(self.api.ask("POST", path, found).code, 201)
        self.account = self.node.path("account")
        os.makedirs(self.account, exist_ok=True)
        for name, value in self.api.ask("GET", SECRET).body["data"].items():
            self.write_account(name, base64.b64decode(value).decode())
        self.node.prefix = ["unshare", "--mount", "--propagation", "private", "sh", "-c", POD, "pod", self.account]
        self.node.environment = {"KUBERNETES_SERVICE_HOST": "127.0.0.1", "KUBERNETES_SERVICE_PORT": str(self.api.port), **environment}

    def write_account(self, name, text):
        path = os.path.join(self.account, name)
        with open(path + ".new", "w") as file:
            file.write(text)
        os.rename(path + ".new", path)

    def await_identity(self, word, credentials, source, node="node-a"):
        def shown():
            dra = self.dra() or {}
            return [dra.get(name) for name in ("identity", "credentials", "node_source", "node")] == [word, credentials, source, node]

        until(shown, lambda: f"the identity {word}; it is {self.dra()}")

    def test_service_account(self):
        """A token that Kubernetes replaces is read again."""
        self.configure()
        self.run_in_pod(NODE_NAME="node-a")
        self.start()
        self.await_pool(lambda pool: len(pool) == 3)
        directory = "/var/run/secrets/kubernetes.io/serviceaccount"
        self.await_identity("ServiceAccount", directory, "NODE_NAME")
        self.assertIn(f"  identity: {directory} (ServiceAccount); the node's name is from NODE_NAME\n", self.ctl("status").stdout)
        user, = [user for user in self.api.tokens.values() if user.name.startswith("system:serviceaccount:kube-system:")]
        self.api.tokens = {"newer-token": user}
        self.write_account("token", "newer-token")
        self.api.change("DELETED", next(iter(self.api.slices)))
        self.await_pool(lambda pool: len(pool) == 3)
        os.unlink(os.path.join(self.account, "ca.crt"))
        self.node.daemon.kill()
        self.node.daemon.wait()
        self.node.start()
        until(lambda: f"cannot read {directory}/ca.crt: No such file or directory" in (self.dra() or {}).get("api_failure", ""),
              "the missing file to be named")

    def test_order(self):
        """What is configured is before the pod's account, and that before the kubelet, whose file may come later."""
        self.configure()
        self.run_in_pod(NODE_NAME="node-a")
        self.api.kubeconfig(self.kubelet_file, inline=True)
        self.start()
        self.await_identity("ServiceAccount", "/var/run/secrets/kubernetes.io/serviceaccount", "NODE_NAME")
        self.configure(f'kubeconfig = "{self.kubeconfig}"; node = "node-a";')
        self.node.reload()
        self.await_identity("dra.kubeconfig", self.kubeconfig, "dra.node")
        self.node.stop()
        # A pod without a token has the address only.
        os.unlink(os.path.join(self.account, "token"))
        self.configure()
        self.node.start()
        self.await_identity("kubelet", self.kubelet_file, "NODE_NAME")

    def test_kubelet(self):
        """Before the kubelet has joined the cluster, it has no kubeconfig. Its certificate names the node."""
        self.configure()
        self.start()
        until(lambda: "no kubeconfig file of a kubelet is in a place that it knows" in (self.dra() or {}).get("api_failure", ""),
              "the reason")
        self.assertEqual(self.dra()["identity"], "")
        self.api.kubeconfig(self.kubelet_file, inline=True)
        self.await_identity("kubelet", self.kubelet_file, "certificate")
        self.await_pool(lambda pool: len(pool) == 3)
        self.assertIn("the node is node-a, as in the client certificate", self.node.output())
        until(lambda: self.dra()["slices"] == 1, "the slice")
        self.assertIn(f"  identity: {self.kubelet_file} (kubelet); the node's name is from the client certificate\n",
                      self.ctl("explain", "vendor.example/gpu").stdout)
        # No request was made for a node of another name.
        with self.api.lock:
            self.assertEqual([one for one in self.api.requests if "/nodes/" in one[1] and not one[1].endswith("/nodes/node-a")], [])

    def test_each_distribution(self):
        """The kubelet's file of each row of docs/compatibility.md."""
        with open(COMPATIBILITY) as page:
            rows = [line.split(" | ") for line in page.read().partition("## Credentials for the API server")[2].splitlines()]
        paths = {path for row in rows if len(row) == 3 for path in re.findall("`(/[^`]*)`", row[2])}
        self.assertEqual(len(paths), 9)
        for path in sorted(paths):
            with self.subTest(path):
                self.kubelet_file = self.host + path
                os.makedirs(os.path.dirname(self.kubelet_file), exist_ok=True)
                self.api.kubeconfig(self.kubelet_file, inline=True)
                self.configure()
                self.start()
                self.await_identity("kubelet", self.kubelet_file, "certificate")
                self.await_pool(lambda pool: len(pool) == 3)
                self.node.stop()
                os.unlink(self.kubelet_file)
                self.api.change("DELETED", next(iter(self.api.slices)))

    def test_program_for_credentials(self):
        """A user by "exec" is refused with the way to another identity."""
        self.configure()
        write_kubeconfig(self.kubelet_file, self.api.url(), self.api.authority, token="x")
        with open(self.kubelet_file) as file:
            text = file.read()
        with open(self.kubelet_file, "w") as file:
            file.write(text.replace("token: x", "exec: { command: aws }"))
        self.start()
        failure = until(lambda: (self.dra() or {}).get("api_failure"), "the failure")
        self.assertIn(f"no credentials: {self.kubelet_file}: ", failure)
        self.assertIn('"devplugctl dra credentials"', failure)
        self.assertIn("dra.kubeconfig", failure)


    def check_warning(self, *words):
        answer = self.run_tool("devplugd", "--check")
        self.assertEqual(answer.returncode, 0)
        self.assertEqual(answer.stderr.count("warning: no credentials for the API server"), 1 if words else 0, answer.stderr)
        for word in words:
            self.assertIn(word, answer.stderr)

    def test_check(self):
        """--check reads the file of the identity, and the files that it names."""
        self.configure()
        self.check_warning("no kubeconfig file of a kubelet", "set dra.kubeconfig")
        self.configure(f'kubeconfig = "{self.host}/absent";')
        self.check_warning(f"cannot read {self.host}/absent: No such file or directory")
        path = os.path.join(self.host, "own")
        self.configure(f'kubeconfig = "{path}";')
        self.api.kubeconfig(path)
        self.check_warning()
        self.api.kubeconfig(path, token_file="token")
        self.check_warning(f"cannot read {self.host}/token: No such file or directory")
        with open(os.path.join(self.host, "token"), "w") as file:
            file.write("x")
        self.check_warning()
        with open(path) as file:
            text = file.read()
        for before, after, words in (("https://", "http://", ("no server that begins with https://",)),
                                     ("tokenFile: token", "username: x", ("no client certificate",)),
                                     ("tokenFile: token", "exec: { command: aws }", ('"devplugctl dra credentials"',)),
                                     ("apiVersion", "\tapiVersion", ("YAML",))):
            with open(path, "w") as file:
                file.write(text.replace(before, after))
            with self.subTest(after):
                self.check_warning(f": {path}: ", *words)
        for size, words in ((MAXIMUM, ()), (MAXIMUM + 1, (f"cannot read {path}: not a regular file, or larger than 1 MiB",))):
            with open(path, "w") as file:
                file.write(text + "#" * (size - len(text) - 1) + "\n")
            with self.subTest(size):
                self.check_warning(*words)
        # Without a resource that DRA serves, no credentials are needed.
        self.configure(f'kubeconfig = "{path}";', self.resource("gpu", serve="plugin"))
        self.check_warning()


if __name__ == "__main__":
    unittest.main()
