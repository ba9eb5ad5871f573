# SPDX-License-Identifier: Apache-2.0
"""The API with its certificates and kubeconfigs in a folder, and the server that listens."""
import os
import secrets

from .api import DRIVER_ACCOUNT, DRIVER_NAMESPACE, Api
from .authority import Authority, write_kubeconfig
from .authorizer import ACCOUNT_PREFIX, ADMINISTRATOR, ADMINISTRATORS, NODE_GROUP, NODE_PREFIX, user_of
from .server import TlsServer

ACCOUNT = f"{ACCOUNT_PREFIX}{DRIVER_NAMESPACE}:{DRIVER_ACCOUNT}"


class Cluster(Api):
    """`port` 0: any; it stays the same over a stop and a start. `authority`: instead of one in the folder."""

    def __init__(self, folder, nodes=("node-a",), release=None, address="127.0.0.1", port=0, http2=True, authority=None):
        super().__init__(release, nodes)
        self.folder, self.address, self.port, self.http2 = folder, address, port, http2
        self.authority = authority or Authority(os.path.join(folder, "pki"))
        self.certificate = self.issue_server(self.authority)
        self.clients = {node: self.authority.issue_client(f"kubelet-{node}", NODE_PREFIX + node, NODE_GROUP) for node in nodes}
        self.server = None

    def issue_server(self, authority):
        return authority.issue_server(sorted({"127.0.0.1", self.address}))

    def authority_certificate(self):
        with open(self.authority.certificate, "rb") as file:
            return file.read()

    def start(self):
        self.server = TlsServer((self.address, self.port), self, self.authority, self.certificate, self.http2)
        self.port = self.server.server_address[1]

    def stop(self):
        """Cuts all connections, as the end of the server's host does."""
        self.server.stop()

    def url(self):
        return f"https://[{self.address}]:{self.port}" if ":" in self.address else f"https://{self.address}:{self.port}"

    def write_kubeconfigs(self):
        """One for the administrator, and for each node one of its kubelet and one of a driver's service account. Returns their
        paths."""
        found = []

        def write(name, **user):
            found.append(os.path.join(self.folder, f"{name}.kubeconfig"))
            write_kubeconfig(found[-1], self.url(), self.authority, **user)

        write("admin", client=self.authority.issue_client("admin", ADMINISTRATOR.name, ADMINISTRATORS))
        for node, client in self.clients.items():
            token = secrets.token_hex(16)
            self.tokens[token] = user_of(ACCOUNT, node)
            write(f"kubelet-{node}", client=client)
            write(f"driver-{node}", token=token)
        return found
