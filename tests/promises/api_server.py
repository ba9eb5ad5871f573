# SPDX-License-Identifier: Apache-2.0
"""devplug-apiserver in the process of a test, with what a test does in place of users and of the scheduler."""
import atexit
import copy
import functools
import json
import os
import shutil
import sys
import tempfile
import uuid

APISERVER = os.path.join(os.path.dirname(os.path.realpath(__file__)), "../../apiserver")
sys.path.insert(0, APISERVER)

from devplug_apiserver.api import Api, Request  # noqa: E402
from devplug_apiserver.allocator import Unallocatable, read_all_pools  # noqa: E402
from devplug_apiserver.authority import Authority, write_kubeconfig  # noqa: E402
from devplug_apiserver.authorizer import ADMINISTRATOR, user_of  # noqa: E402
from devplug_apiserver.cluster import Cluster  # noqa: E402
from devplug_apiserver.releases import RELEASES, Release  # noqa: E402
from devplug_apiserver.resources import CLAIMS, CLASSES, NODES, SLICES, collection_path, find_kind  # noqa: E402
from devplug_apiserver.server import ControlServer, Stoppable  # noqa: E402

__all__ = ["APISERVER", "Api", "ApiServer", "Authority", "CLAIMS_PATH", "ControlServer", "RELEASES", "Release", "SLICES_PATH", "Stoppable", "rights_of", "write_kubeconfig"]

SLICES_PATH = collection_path(SLICES)
CLAIMS_PATH = collection_path(CLAIMS, "{}")
CHART = os.path.join(APISERVER, "../packaging/container/chart")


def rights_of(rules):
    """(verb, API group, resource) of each right."""
    return {(verb, group, resource) for rule in rules for verb in rule["verbs"] for group in rule["apiGroups"] for resource in rule["resources"]}


class SharedAuthority(Authority):
    issue = functools.cache(Authority.issue)


@functools.cache
def shared_authority():
    """All servers of this process use it, because each certificate takes 30 ms of a processor."""
    folder = tempfile.mkdtemp(prefix="devplugd-test.")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return SharedAuthority(folder)


class ApiServer(Cluster):
    """`faults`: see devplug_apiserver/faults.py; a test also uses functions. `features`: of devplug_apiserver/releases.py."""

    def __init__(self, folder, node="node-a", release="1.36", features=None, http2=True, authority=None):
        os.makedirs(folder, exist_ok=True)
        super().__init__(folder, (node,), Release(release, features), http2=http2, authority=authority or shared_authority())
        self.node = node
        self.user = user_of(f"system:node:{node}")
        self.tokens = {"secret-token": self.user}
        self.start()

    slices = property(lambda self: self.table(SLICES))
    claims = property(lambda self: self.table(CLAIMS))
    nodes = property(lambda self: self.table(NODES))
    classes = property(lambda self: self.table(CLASSES))

    def kubeconfig(self, path, **options):
        write_kubeconfig(path, self.url(), self.authority, self.clients[self.node], **options)

    def become_pod(self, path, values):
        """Writes a kubeconfig with the token of a pod of the node that the chart has made with these values, and its rights. Returns
        the rights: (verb, API group, resource)."""
        import helm
        objects = helm.template(CHART, "devplugd", "devplugd", values)
        granted = set()
        for document in objects:
            if document["kind"] in ("ClusterRole", "ClusterRoleBinding"):
                resource = find_kind(document["apiVersion"], document["kind"])
                answer = self.ask("POST", collection_path(resource), document)
                assert answer.code == 201, answer.body
                granted |= rights_of(document.get("rules", []))
        self.tokens["pod-token"] = user_of("system:serviceaccount:devplugd:devplugd", self.node)
        write_kubeconfig(path, self.url(), self.authority, token="pod-token")
        return granted

    # --- what a test looks at

    def pool(self):
        """The devices of all pools by name if each is complete, else None."""
        with self.lock:
            pools = read_all_pools(copy.deepcopy(list(self.slices.values())))
        if not pools or not all(pool.complete for pool in pools):
            return None
        return {device["name"]: device for pool in pools for spec in pool.slices for device in spec.get("devices") or []}

    def device_named(self, resource, number):
        """The name of a device, in the order of ids."""
        found = sorted((device["attributes"]["id"]["string"], name) for name, device in (self.pool() or {}).items()
                       if device["attributes"]["resource"]["string"] == resource)
        return found[number][1]

    def events(self):
        """By kind and name of the object, and reason."""
        found = {}
        for event in self.ask("GET", "/api/v1/events").body["items"]:
            thing = event["involvedObject"]
            found.setdefault((thing["kind"], thing["name"], event["reason"]), []).append(event)
        return found

    def writes(self):
        """Requests that change something, unlike dry runs."""
        with self.lock:
            return [r for r in self.requests if r[0] != "GET" and "dryRun" not in r[1]]

    # --- what users and the scheduler do

    def ask(self, method, path, body=None, user=None, content="application/json"):
        """The answer to an administrator, or to the user with that name."""
        return self.serve(user_of(user) if user else ADMINISTRATOR, Request(method, path, body, content))

    def apply(self, text):
        """Creates the DeviceClasses of a list, as "kubectl apply" does."""
        for item in json.loads(text)["items"]:
            if item["metadata"]["name"] not in self.classes:
                answer = self.serve(ADMINISTRATOR, Request("POST", collection_path(CLASSES), item))
                assert answer.code == 201, answer.body

    def schedule(self, name, requests, namespace="default", annotations=None):
        """Allocates a claim: `requests` are (request, class, number of devices), where None is all of them, and perhaps other
        members of the request. Returns the claim, or None: the pod stays pending."""
        claim = {"apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim",
                 "metadata": {"name": name, "namespace": namespace, "annotations": annotations or {}},
                 "spec": {"devices": {"requests": [
                     {"name": request, "exactly": {"deviceClassName": class_name, **dict(*more), **(
                         {"allocationMode": "All"} if count is None else {"allocationMode": "ExactCount", "count": count})}}
                     for request, class_name, count, *more in requests]}}}
        with self.lock:
            try:
                allocation = self.find_allocation(claim)
            except Unallocatable:
                return None
            self.add(CLAIMS, claim)
            return self.bind(claim, allocation)

    def schedule_limits(self, pod, limits, namespace="default"):
        """The claim that the scheduler makes for the `limits` of the containers of a pod (a list), by the
        extendedResourceName of the classes."""
        names = {found["spec"]["extendedResourceName"]: name for name, found in self.classes.items()}
        requests = [(f"container-{i}-request-{k}", names[resource], count) for i, container in enumerate(limits)
                    for k, (resource, count) in enumerate(container.items())]
        return self.schedule(f"{pod}-extended-resources-{uuid.uuid4().hex[:5]}", requests, namespace,
                             {"resource.kubernetes.io/extended-resource-claim": "true"})

    def release(self, claim):
        """The pod is gone, and with it the claim."""
        del self.claims[claim["metadata"]["namespace"], claim["metadata"]["name"]]

    def allocate(self, name, driver, devices, namespace="default", pool=None, config=None, annotations=None):
        """A claim that the scheduler has allocated: `devices` are (request, device), and perhaps another driver. `config`: of
        the allocation. Returns its uid."""
        results = [{"request": request, "driver": other[0] if other else driver, "pool": pool or self.node, "device": device}
                   for request, device, *other in devices]
        return self.allocate_results(name, results, namespace, config, annotations)

    def allocate_results(self, name, results, namespace="default", config=None, annotations=None):
        """A claim with these results, whether a scheduler could have made them or not. Returns its uid."""
        claim = {"apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim",
                 "metadata": {"name": name, "namespace": namespace, "annotations": annotations or {}},
                 "spec": {"devices": {}}}
        with self.lock:
            self.add(CLAIMS, claim)
            self.bind(claim, {"devices": {"results": results, **({"config": config} if config else {})}})
        return claim["metadata"]["uid"]

    def change(self, kind, name, slice_=None):
        """Somebody else does it: kind is MODIFIED or DELETED."""
        with self.lock:
            self.store.change(SLICES, kind, slice_ or self.slices[name])
