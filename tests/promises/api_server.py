# SPDX-License-Identifier: Apache-2.0
"""A small API server: TLS with client certificates or tokens, Nodes, ResourceClaims and ResourceSlices with
resourceVersion, conflicts and watches, what the Node authorizer allows to a kubelet, the rules of ResourceSlices that the
real one checks, and faults on demand. Beside it what the scheduler does: it allocates devices of the slices to claims."""
import base64
import contextlib
import copy
import http.server
import json
import os
import re
import socket
import ssl
import subprocess
import threading
import time
import urllib.parse
import uuid

from threads import HttpServer

SLICES = "/apis/resource.k8s.io/v1/resourceslices"
CLAIM = re.compile(r"/apis/resource\.k8s\.io/v1/namespaces/([^/]+)/resourceclaims/([^/]+)$")
NODE = re.compile(r"/api/v1/nodes/([^/]+)$")
# What "devplugctl dra classes" prints, as far as the scheduler here knows CEL.
EXPRESSION = re.compile(r'device\.driver == "(?P<driver>[^"]+)" && device\.attributes\["(?P=driver)"\]\.resource == "([^"]+)"$')
LABEL = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$")


def openssl(*words, **options):
    subprocess.run(["openssl", *words], check=True, capture_output=True, **options)


class Authority:
    """A certificate authority in a folder."""

    def __init__(self, folder, name="test-ca"):
        self.folder, self.name = folder, name
        os.makedirs(folder, exist_ok=True)
        self.certificate, self.key = self.path("ca.crt"), self.path("ca.key")
        openssl("req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2",
                "-subj", f"/CN={name}", "-keyout", self.key, "-out", self.certificate)

    def path(self, name):
        return os.path.join(self.folder, name)

    def issue(self, name, subject, extension=""):
        """Returns the files of a certificate and its key."""
        key, request, certificate = (self.path(f"{name}.{kind}") for kind in ("key", "csr", "crt"))
        openssl("req", "-new", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-subj", subject,
                "-keyout", key, "-out", request)
        with open(self.path(f"{name}.ext"), "w") as file:
            file.write(extension)
        openssl("x509", "-req", "-in", request, "-CA", self.certificate, "-CAkey", self.key, "-CAcreateserial", "-days",
                "2", "-extfile", self.path(f"{name}.ext"), "-out", certificate)
        return certificate, key


def quantity(devices):
    return 64 if any(device.get("taints") for device in devices) else 128


def slice_error(spec):
    """What the real server's validation says of a ResourceSlice, as far as it is known here; None: it is valid."""
    devices = spec.get("devices") or []
    names = [device["name"] for device in devices]
    if len(devices) > quantity(devices):
        return f"spec.devices: Too many: {len(devices)}"
    if len(set(names)) != len(names):
        return "spec.devices: Duplicate value"
    if len(spec["driver"]) > 63:
        return "spec.driver: Too long"
    for device in devices:
        attributes = device.get("attributes", {})
        if not LABEL.match(device["name"]):
            return f"device name {device['name']}: Invalid value"
        if len(attributes) + len(device.get("capacity", {})) > 32:
            return "attributes: Too many"
        for name, value in attributes.items():
            identifier = name.rpartition("/")[2]
            if not re.match(r"[A-Za-z_][A-Za-z0-9_]{0,31}$", identifier) or name.count("/") > 1:
                return f"attribute {name}: Invalid value"
            if len(value) != 1 or len(value.get("string", "")) > 64:
                return f"attribute {name}: {value}: Invalid value"
        for taint in device.get("taints", []):
            if taint["effect"] not in ("NoSchedule", "NoExecute", "None") or not re.match(
                    r"[A-Za-z0-9]?([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?$", taint.get("value", "")):
                return f"taint {taint}: Invalid value"
    return None


class ApiServer:
    """`faults`: callables that are given (method, path) and return None, or a status code, "hang", "close", "garbage" or
    "empty", or as a float the seconds after which the request is served. `retry_after`: seconds, sent with status code 429."""

    def __init__(self, folder, node="node-a", taints=True):
        self.node, self.taints = node, taints
        self.lock = threading.Condition()
        self.version = 100
        self.slices, self.claims, self.classes = {}, {}, {}
        self.nodes = {node: {"apiVersion": "v1", "kind": "Node", "metadata": {"name": node, "uid": str(uuid.uuid4())}}}
        self.events = []  # (version, type, object)
        self.requests = []  # (method, path, code)
        self.spent = []  # (method, path, seconds until the answer was written)
        self.faults = []
        self.retry_after = 1
        self.list_metadata = {}  # of each list of slices, in place of what is true
        self.tokens = {"secret-token": f"system:node:{node}"}
        self.authority = Authority(os.path.join(folder, "pki"))
        self.client = self.authority.issue("client", f"/O=system:nodes/CN=system:node:{node}", "extendedKeyUsage=clientAuth\n")
        self.server = None
        self.port = 0
        self.certificate = self.issue_server(self.authority)
        self.start()

    @staticmethod
    def issue_server(authority):
        return authority.issue("server", "/CN=kube-apiserver",
                               "subjectAltName=IP:127.0.0.1,DNS:localhost\nextendedKeyUsage=serverAuth\n")

    # --- life

    def start(self):
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(*self.certificate)
        context.load_verify_locations(self.authority.certificate)
        context.verify_mode = ssl.CERT_OPTIONAL
        owner = self

        class Handler(RequestHandler):
            api = owner

        class Server(HttpServer):
            def finish_request(self, request, address):
                # In the connection's own thread.
                request.settimeout(60)
                with context.wrap_socket(request, server_side=True, do_handshake_on_connect=False) as wrapped:
                    with owner.lock:
                        owner.connections.add(wrapped)
                        if self.stopping.is_set():
                            return
                    try:
                        wrapped.do_handshake()
                        Handler(wrapped, address, self)
                    except OSError:
                        pass
                    finally:
                        with owner.lock:
                            owner.connections.discard(wrapped)

            def cut_connections(self):
                with owner.lock:
                    connections = list(owner.connections)
                    owner.lock.notify_all()
                for connection in connections:
                    with contextlib.suppress(OSError):
                        connection.shutdown(socket.SHUT_RDWR)

        self.connections = set()
        self.server = Server(("127.0.0.1", self.port), Handler)
        self.port = self.server.server_address[1]

    def stop(self):
        """As if the host were gone: connections are cut."""
        self.server.stop()

    def restart(self):
        self.stop()
        self.start()

    # --- what a test looks at

    def kubeconfig(self, path, inline=False, token=None, token_file=None):
        def secret(name, file):
            if not inline:
                return f"{name}: {file}"
            with open(file, "rb") as stream:
                return f"{name}-data: {base64.b64encode(stream.read()).decode()}"

        user = (f"token: {token}" if token else f"tokenFile: {token_file}" if token_file else
                secret("client-certificate", self.client[0]) + "\n    " + secret("client-key", self.client[1]))
        with open(path + ".new", "w") as file:
            file.write(f"apiVersion: v1\nkind: Config\ncurrent-context: c\nclusters:\n- name: k\n  cluster:\n"
                       f"    server: https://127.0.0.1:{self.port}\n    {secret('certificate-authority', self.authority.certificate)}\n"
                       f"contexts:\n- context:\n    cluster: k\n    user: u\n  name: c\n"
                       f"users:\n- name: u\n  user:\n    {user}\n")
        os.chmod(path + ".new", 0o600)
        os.rename(path + ".new", path)

    def pool(self):
        """The devices of the pool by name if it is complete and of one generation, else None."""
        with self.lock:
            slices = copy.deepcopy(list(self.slices.values()))
        generation = max((s["spec"]["pool"]["generation"] for s in slices), default=0)
        newest = [s for s in slices if s["spec"]["pool"]["generation"] == generation]
        if not newest or any(s["spec"]["pool"]["resourceSliceCount"] != len(newest) for s in newest):
            return None
        return {device["name"]: device for s in newest for device in s["spec"].get("devices") or []}

    def device_named(self, resource, number):
        """The name of a device, in the order of ids."""
        found = sorted((device["attributes"]["id"]["string"], name) for name, device in (self.pool() or {}).items()
                       if device["attributes"]["resource"]["string"] == resource)
        return found[number][1]

    def writes(self):
        with self.lock:
            return [r for r in self.requests if r[0] != "GET"]

    # --- the scheduler

    def apply(self, text):
        """Creates the DeviceClasses of a list, as "kubectl apply" does."""
        for item in json.loads(text)["items"]:
            self.classes[item["metadata"]["name"]] = item["spec"]

    def free_devices(self, class_name):
        """(driver, device) of the class that no claim has and that no taint keeps pods from, in their order."""
        driver, resource = EXPRESSION.match(self.classes[class_name]["selectors"][0]["cel"]["expression"]).groups()
        taken = {(r["driver"], r["device"]) for claim in self.claims.values()
                 for r in claim["status"]["allocation"]["devices"]["results"]}
        return [(driver, name) for name, device in sorted((self.pool() or {}).items())
                if device["attributes"]["resource"]["string"] == resource and (driver, name) not in taken
                and not any(taint["effect"] in ("NoSchedule", "NoExecute") for taint in device.get("taints", []))]

    def schedule(self, name, requests, namespace="default", annotations=None):
        """Allocates a claim: `requests` are (request, class, number of devices). Returns it, or None: the pod stays pending."""
        results = []
        for request, class_name, count in requests:
            free = [pair for pair in self.free_devices(class_name)
                    if pair not in [(driver, device) for _, driver, device in results]]
            if len(free) < count:
                return None
            results += [(request, *pair) for pair in free[:count]]
        self.allocate(name, results[0][1], [(request, device) for request, _, device in results], namespace)
        self.claims[namespace, name]["metadata"]["annotations"] = annotations or {}
        return self.claims[namespace, name]

    def schedule_limits(self, pod, limits, namespace="default"):
        """The claim that the scheduler makes for the `limits` of the containers of a pod (a list), by the
        extendedResourceName of the classes."""
        names = {spec["extendedResourceName"]: name for name, spec in self.classes.items()}
        requests = [(f"container-{i}-request-{k}", names[resource], count) for i, container in enumerate(limits)
                    for k, (resource, count) in enumerate(container.items())]
        return self.schedule(f"{pod}-extended-resources-{uuid.uuid4().hex[:5]}", requests, namespace,
                             {"resource.kubernetes.io/extended-resource-claim": "true"})

    def release(self, claim):
        """The pod is gone, and with it the claim."""
        del self.claims[claim["metadata"]["namespace"], claim["metadata"]["name"]]

    def allocate(self, name, driver, devices, namespace="default", pool=None):
        """A claim that the scheduler has allocated: `devices` are (request, device). Returns its uid."""
        uid = str(uuid.uuid4())
        results = [{"request": request, "driver": driver, "pool": pool or self.node, "device": device}
                   for request, device in devices]
        with self.lock:
            self.version += 1
            self.claims[namespace, name] = {
                "apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim",
                "metadata": {"name": name, "namespace": namespace, "uid": uid, "resourceVersion": str(self.version)},
                "spec": {"devices": {"requests": []}}, "status": {"allocation": {"devices": {"results": results}}}}
        return uid

    def change(self, kind, name, slice_=None):
        """Somebody else does it: kind is MODIFIED or DELETED."""
        with self.lock:
            self.store(kind, name, slice_ or self.slices[name])

    # --- with the lock

    def store(self, kind, name, object_):
        self.version += 1
        object_["metadata"]["resourceVersion"] = str(self.version)
        if kind == "DELETED":
            self.slices.pop(name, None)
        else:
            self.slices[name] = object_
        self.events.append((self.version, kind, copy.deepcopy(object_)))
        self.lock.notify_all()

    def fault(self, method, path):
        for fault in self.faults:
            found = fault(method, path)
            if found:
                return found
        return None


class RequestHandler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    # As Go's servers do; otherwise an answer may wait 40 ms for the client's acknowledgement.
    disable_nagle_algorithm = True
    api = None

    def log_message(self, *words):
        pass

    def user(self):
        authorization = self.headers.get("Authorization", "")
        if authorization.startswith("Bearer "):
            return self.api.tokens.get(authorization[7:])
        certificate = self.connection.getpeercert()
        return dict(pair[0] for pair in certificate["subject"]).get("commonName") if certificate else None

    def answer(self, code, body, headers=()):
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        with self.api.lock:
            self.api.requests.append((self.command, self.path, code))
        self.send_response(code)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        for name, value in headers:
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(data)

    def status(self, code, message, headers=()):
        self.answer(code, {"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": code, "message": message}, headers)

    def handle_any(self):
        url = urllib.parse.urlsplit(self.path)
        query = dict(urllib.parse.parse_qsl(url.query))
        size = int(self.headers.get("Content-Length") or 0)
        body = json.loads(self.rfile.read(size)) if size else None
        fault = self.api.fault(self.command, self.path)
        if isinstance(fault, float):
            self.server.stopping.wait(fault)
            fault = None
        if fault == "hang":
            self.server.stopping.wait(30)
            self.close_connection = True
        elif fault == "close":
            self.close_connection = True
        elif fault == "empty":
            self.answer(200, b"")
        elif fault == "garbage":
            self.answer(200, b"<html>not the API server</html>")
        elif fault:
            self.status(fault, "as the test demands", [("Retry-After", str(self.api.retry_after))] if fault == 429 else ())
        elif not self.user():
            self.status(401, "Unauthorized")
        elif self.user() != f"system:node:{self.api.node}":
            self.status(403, f"{self.user()} is not the node {self.api.node}")
        else:
            self.route(url.path, query, body)

    def handle_timed(self):
        began = time.monotonic()
        self.handle_any()
        self.api.spent.append((self.command, self.path, time.monotonic() - began))

    do_GET = do_POST = do_PUT = do_DELETE = handle_timed

    def route(self, path, query, body):
        node, claim = NODE.match(path), CLAIM.match(path)
        if node and self.command == "GET":
            self.get(self.api.nodes, node.group(1), "nodes", node.group(1) == self.api.node)
        elif claim and self.command == "GET":
            self.get(self.api.claims, claim.groups(), "resourceclaims", True)
        elif path == SLICES and self.command == "GET":
            self.list_slices(query)
        elif path == SLICES and self.command == "POST":
            # Who sees the change sees the request, too.
            with self.api.lock:
                self.create(body)
        elif path.startswith(SLICES + "/"):
            with self.api.lock:
                self.write(path[len(SLICES) + 1:], body)
        else:
            self.status(403, f"{self.command} {path} is forbidden")

    def get(self, table, name, kind, allowed):
        with self.api.lock:
            found = copy.deepcopy(table.get(name))
        if not allowed:
            self.status(403, f"{kind} {name} is forbidden")
        elif found is None:
            self.status(404, f"{kind} \"{name}\" not found")
        else:
            self.answer(200, found)

    def list_slices(self, query):
        fields = dict(pair.split("=") for pair in query.get("fieldSelector", "").split(",") if "=" in pair)
        if fields.get("spec.nodeName") != self.api.node:
            self.status(403, "can only list/watch with a field selector for the own node")
        elif query.get("watch"):
            self.watch(int(query.get("resourceVersion") or 0), float(query.get("timeoutSeconds", 300)))
        else:
            with self.api.lock:
                items = [copy.deepcopy(s) for s in self.api.slices.values() if s["spec"]["driver"] == fields["spec.driver"]]
                version = self.api.version
            self.answer(200, {"kind": "ResourceSliceList", "apiVersion": "resource.k8s.io/v1",
                              "metadata": {"resourceVersion": str(version), **self.api.list_metadata}, "items": items})

    def watch(self, version, seconds):
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        end = time.monotonic() + seconds
        while time.monotonic() < end and not self.server.stopping.is_set():
            with self.api.lock:
                new = [event for event in self.api.events if event[0] > version]
                if not new:
                    self.api.lock.wait(0.5)
                    continue
            for number, kind, object_ in new:
                line = json.dumps({"type": kind, "object": object_}).encode() + b"\n"
                self.wfile.write(b"%x\r\n%s\r\n" % (len(line), line))
                version = number
            self.wfile.flush()
        self.wfile.write(b"0\r\n\r\n")

    def refuse_spec(self, body):
        """Returns whether it was refused; drops what the server does not know."""
        spec = body["spec"]
        if spec.get("nodeName") != self.api.node:
            self.status(403, "spec.nodeName is not the node's own")
            return True
        if not self.api.taints:
            for device in spec.get("devices") or []:
                device.pop("taints", None)
        error = slice_error(spec)
        if error:
            self.status(422, f"ResourceSlice is invalid: {error}")
        return bool(error)

    def create(self, body):
        if self.refuse_spec(body):
            return
        with self.api.lock:
            metadata = body["metadata"]
            name = metadata.setdefault("name", metadata.get("generateName", "") + uuid.uuid4().hex[:5])
            metadata["uid"] = str(uuid.uuid4())
            self.api.store("ADDED", name, body)
            stored = copy.deepcopy(body)
        self.answer(201, stored)

    def write(self, name, body):
        with self.api.lock:
            found = self.api.slices.get(name)
        if found is None:
            self.status(404, f"resourceslices \"{name}\" not found")
            return
        if self.command == "DELETE":
            with self.api.lock:
                self.api.store("DELETED", name, found)
            self.answer(200, {"kind": "Status", "status": "Success"})
            return
        if self.refuse_spec(body):
            return
        with self.api.lock:
            conflict = body["metadata"].get("resourceVersion") != self.api.slices[name]["metadata"]["resourceVersion"]
            if not conflict:
                self.api.store("MODIFIED", name, body)
            stored = copy.deepcopy(body)
        if conflict:
            self.status(409, "the object has been modified")
        else:
            self.answer(200, stored)
