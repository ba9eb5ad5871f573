# SPDX-License-Identifier: Apache-2.0
"""A node with devplugd, some of whose resources are served by DRA, an API server, and what a kubelet does to the driver."""
import contextlib
import json
import os

from api_server import ApiServer
from dra_kubelet import Call, Kubelet
from node import children_of, command_line, until
from pod_resources import ask, fields
from tool import ToolTest

DRIVER = "devices.vendor.example"
METADATA = "/var/run/kubernetes.io/dra-device-attributes"


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

    def register_again(self):
        """After the driver has ended: its socket of before may still be there."""
        self.socket = until(lambda: self.kubelet.find_other(self.socket), "another socket of the driver")
        self.kubelet.register(self.socket)

    def begin(self, *resources, **options):
        self.configure(*resources, **options)
        self.node.start()
        self.register()

    def script(self, name, text):
        path = self.node.path(name)
        with open(path, "w") as file:
            file.write("#!/bin/sh\n" + text)
        os.chmod(path, 0o755)
        return path

    def dra(self):
        state = self.node.state()
        return state and state.get("dra")

    def await_pool(self, condition=lambda pool: True):
        return until(lambda: (lambda pool: pool is not None and condition(pool) and (pool or True))(self.api.pool()),
                     "the pool")

    def document(self, uid):
        """The container edits of a claim by CDI name, or None."""
        try:
            with open(os.path.join(self.cdi, f"devplugd.dra-{uid}.json")) as file:
                document = json.load(file)
        except FileNotFoundError:
            return None
        return {f"{document['kind']}={device['name']}": device["containerEdits"] for device in document["devices"]}

    def specification(self, uid):
        """The same without the mounts of metadata."""
        document = self.document(uid)
        for edits in (document or {}).values():
            edits["mounts"] = [mount for mount in edits.get("mounts", []) if not mount["containerPath"].startswith(METADATA)]
            if not edits["mounts"]:
                del edits["mounts"]
        return document

    def metadata(self, uid):
        """What the containers of a claim read, by path: the text of each file."""
        found = {}
        for edits in (self.document(uid) or {}).values():
            for mount in edits.get("mounts", []):
                if mount["containerPath"].startswith(METADATA):
                    self.assertEqual(mount["options"], ["ro", "bind"])
                    self.assertNotIn(mount["containerPath"], found)
                    with open(mount["hostPath"]) as file:
                        found[mount["containerPath"]] = file.read()
        return found

    def kubelet_claims(self):
        """The claims in the kubelet's file, by uid."""
        with open(os.path.join(self.node.kubelet_state, "dra_manager_state")) as file:
            claims = json.loads(json.load(file)["Data"])["ClaimInfoStateList"]
        return {claim["ClaimUID"]: claim for claim in claims or []}

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

    def refusals(self, *claims):
        """The answer of a call whose time is short, so that devplugd does not wait long for what may pass."""
        return self.prepare(*claims, deadline=6)

    def refusal(self, claim):
        return self.refusals(claim)[claim[2]]

    def unprepare(self, *claims, **options):
        return self.kubelet.unprepare(self.socket, *claims, **options)


class DraPodTest(DraTest):
    """With devplug-kubelet, which registers the driver and runs pods."""
    CLAIM_TIMEOUT = "10"

    def setUp(self):
        super().setUp()
        # A claim that waits fails after half of the time, or 5 s before its end.
        self.node.kubelet_options = ["--plugins-registry", self.registry, "--time-scale", "20", "--claim-timeout", self.CLAIM_TIMEOUT]

    def begin(self, *resources, pods=False, **options):
        """With the kubelet and the DeviceClasses; no other kubelet is played. `pods`: devplugd asks which pod has what."""
        self.configure(*resources, **options)
        if pods:
            with open(self.node.config) as file:
                text = file.read()
            with open(self.node.config, "w") as file:
                file.write(text.replace("kubelet = {", "kubelet = { pod_resources_interval = 1; pod_resources_socket = "
                                        f'"{self.node.kubelet_state}/pod-resources/kubelet.sock";', 1))
        self.node.start_kubelet()
        # A socket that appears while the kubelet's watcher starts may be registered twice.
        until(self.node.kubelet_status, "the kubelet to listen")
        self.node.start()
        self.await_driver()
        self.await_pool()
        self.api.apply(self.ctl("dra", "classes").stdout)

    def await_driver(self):
        until(lambda: (dra := self.dra()) and dra["registered"], "the driver to be registered")

    def await_registration(self):
        """By the kubelet that runs now."""
        until(lambda: (status := self.node.kubelet_status()) and status["drivers"], "the driver to be registered")

    def await_all(self, process=None):
        """The kubelet that runs now has registered the socket of each driver, and the devices are known; `process`: of older
        drivers, which have been killed."""
        def endpoints():
            # A socket may belong to a process that has just been killed.
            with contextlib.suppress(OSError, Call):
                return set(map(self.kubelet.service, self.kubelet.sockets()))
            return None

        def look():
            drivers = (self.node.kubelet_status() or {"drivers": []})["drivers"]
            status = self.node.state()
            return (drivers and {driver["endpoint"] for driver in drivers} == endpoints() and status
                    and all(driver["registered"] for driver in status["dra"]["drivers"])
                    and len(status["dra"]["drivers"]) == len(drivers) and status["dra"]["pid"] not in (0, process)
                    and all(resource["state"] == "serving" for resource in status["resources"]))

        until(look, "all to be back")

    def count_events(self, *names):
        return len([event for event in self.node.kubelet_events() if event["event"] in names])

    def pod(self, name, *claims, limits=None):
        """Returns the answer of devplug-kubelet."""
        files = []
        for claim in claims:
            files.append(self.node.path(f"claim-{claim['metadata']['name']}.json"))
            with open(files[-1], "w") as file:
                json.dump(claim, file)
        words = [word for file in files for word in ("--claim", file)]
        for container in limits or []:
            words += ["--container", container]
        answer = self.node.ask_kubelet("pod", name, *words, "--json")
        return json.loads(answer.stdout) if answer.stdout else answer.stderr

    def restart(self, name):
        return json.loads(self.node.ask_kubelet("pod", "restart", name, "--json").stdout)

    def remove(self, name):
        """Returns why the pod stays, or an empty string."""
        return self.node.ask_kubelet("pod", "rm", name).stderr

    def find_pod(self, name):
        pods = json.loads(self.node.ask_kubelet("pods", "--json").stdout)["pods"]
        return next(pod for pod in pods if pod["name"] == name)

    def edits(self, container):
        """What the runtime makes of the CDI names of a container: its environment."""
        environment = {}
        documents = []
        for file in self.files():
            with open(os.path.join(self.cdi, file)) as stream:
                documents.append(json.load(stream))
        for name in container["cdi"]:
            found = [device["containerEdits"] for document in documents for device in document["devices"]
                     if f"{document['kind']}={device['name']}" == name]
            self.assertEqual(len(found), 1, name)
            environment.update(variable.split("=", 1) for variable in found[0]["env"])
        return environment

    def dynamic_resources(self, shares=False):
        """The devices of each pod's first container in PodResources: [(claim, driver, pool, device, CDI names)], with `shares` also
        the share id."""
        message, refused = ask(os.path.join(self.node.kubelet_state, "pod-resources", "kubelet.sock"), "List")
        self.assertIsNone(refused)
        found = {}
        for pod in map(fields, fields(message).get(1, [])):
            container = fields(pod[3][0])
            found[pod[1][0].decode()] = [
                (claim[2][0].decode(), part[2][0].decode(), part[3][0].decode(), part[4][0].decode(),
                 [fields(cdi)[1][0].decode() for cdi in part.get(1, [])], *([part[5][0].decode()] if shares else []))
                for claim in map(fields, container.get(5, [])) for part in map(fields, claim[4])]
        return found
