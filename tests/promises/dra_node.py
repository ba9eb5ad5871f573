# SPDX-License-Identifier: Apache-2.0
"""A node with devplugd, some of whose resources are served by DRA, an API server, and what a kubelet does to the driver."""
import json
import os

from api_server import ApiServer
from dra_kubelet import Kubelet
from node import children_of, command_line, until
from tool import ToolTest

DRIVER = "devices.vendor.example"


class DraTest(ToolTest):
    def setUp(self):
        super().setUp()
        os.makedirs(self.node.plugins, exist_ok=True)
        self.registry, self.cdi, self.kubeconfig = (self.node.path(name) for name in ("registry", "cdi", "kubeconfig"))
        self.kubelet = Kubelet(self.registry)
        self.socket = None

    def serve_api(self, **options):
        self.api = ApiServer(self.node.path("api"), **options)
        self.addCleanup(self.api.stop)
        self.api.kubeconfig(self.kubeconfig)

    def resource(self, name, more="", count=3, serve="dra"):
        return (f'{{ name = "vendor.example/{name}"; driver = "static"; match = ( {{ count = {count}; }} ); '
                f'serve = "{serve}"; container = {{ env = "{name.upper()}=${{ids:,}}"; }}; {more} }}')

    def configure(self, *resources, dra="", text="", kubelet=""):
        super_text = (f'cdi_dir = "{self.cdi}"; dra = {{ driver = "{DRIVER}"; kubeconfig = "{self.kubeconfig}"; '
                      f'node = "node-a"; {dra} }}; {text}')
        self.node.configure(*resources, kubelet=f'plugins_registry_dir = "{self.registry}"; {kubelet}', text=super_text)

    def register(self):
        self.socket = until(self.kubelet.find, "the driver's socket")
        self.kubelet.register(self.socket)

    def begin(self, *resources, **options):
        self.configure(*resources, **options)
        self.node.start()
        self.register()

    def dra(self):
        status = self.node.status()
        return status and status.get("dra")

    def await_pool(self, condition=lambda pool: True):
        return until(lambda: (lambda pool: pool is not None and condition(pool) and (pool or True))(self.api.pool()),
                     "the pool")

    def specification(self, uid):
        """The container edits of a claim by CDI name, or None."""
        try:
            with open(os.path.join(self.cdi, f"devplugd.dra-{uid}.json")) as file:
                document = json.load(file)
        except FileNotFoundError:
            return None
        return {f"{document['kind']}={device['name']}": device["containerEdits"] for device in document["devices"]}

    def files(self):
        return sorted(name for name in os.listdir(self.cdi) if name.startswith("devplugd.dra-")) if os.path.isdir(self.cdi) else []

    def saved(self, uid):
        """The path of a claim's file."""
        return os.path.join(self.node.environment.get("STATE_DIRECTORY", self.node.run), "claims", f"{uid}.json")

    def change_saved(self, uid, change):
        """Changes the saved claim by a function."""
        with open(self.saved(uid)) as file:
            claim = json.load(file)
        change(claim)
        with open(self.saved(uid), "w") as file:
            json.dump(claim, file)

    def process(self):
        """The pid of devplugd-cluster, or None."""
        for pid in children_of(self.node.daemon.pid):
            words = command_line(pid)
            if words and os.path.basename(words[0]) == "devplugd-cluster":
                return pid
        return None

    def prepare(self, *claims, **options):
        return self.kubelet.prepare(self.socket, *claims, **options)

    def unprepare(self, *claims, **options):
        return self.kubelet.unprepare(self.socket, *claims, **options)
