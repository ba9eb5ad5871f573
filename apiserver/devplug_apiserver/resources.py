# SPDX-License-Identifier: Apache-2.0
"""The resources of the API, by the paths of their objects."""
import collections
import re

from . import validation

RESOURCE_GROUP, RBAC_GROUP = "resource.k8s.io", validation.RBAC_GROUP

# `type`: of schema.py, None: all fields are kept. `check(new, old, release)`: its rules.
Resource = collections.namedtuple("Resource", "group version plural kind namespaced type check status", defaults=(None, None, False))

RESOURCES = (
    Resource("", "v1", "nodes", "Node", False, status=True),
    Resource("", "v1", "namespaces", "Namespace", False),
    Resource("", "v1", "pods", "Pod", True, status=True),
    Resource("", "v1", "serviceaccounts", "ServiceAccount", True),
    Resource("", "v1", "secrets", "Secret", True, check=validation.check_secret),
    Resource("", "v1", "events", "Event", True, check=validation.check_event),
    Resource("events.k8s.io", "v1", "events", "Event", True),
    Resource("policy", "v1", "poddisruptionbudgets", "PodDisruptionBudget", True, status=True),
    Resource(RBAC_GROUP, "v1", "clusterroles", "ClusterRole", False, check=validation.check_role),
    Resource(RBAC_GROUP, "v1", "clusterrolebindings", "ClusterRoleBinding", False, check=validation.check_binding),
    Resource(RESOURCE_GROUP, "v1", "resourceslices", "ResourceSlice", False, "ResourceSlice", validation.check_slice),
    Resource(RESOURCE_GROUP, "v1", "resourceclaims", "ResourceClaim", True, "ResourceClaim", validation.check_claim, True),
    Resource(RESOURCE_GROUP, "v1", "resourceclaimtemplates", "ResourceClaimTemplate", True, "ResourceClaimTemplate",
             validation.check_template),
    Resource(RESOURCE_GROUP, "v1", "deviceclasses", "DeviceClass", False, "DeviceClass", validation.check_class),
)
NODES, PODS, BUDGETS, SLICES, CLAIMS, CLASSES, ACCOUNTS, SECRETS, ROLES, BINDINGS = (next(r for r in RESOURCES if r.plural == name) for name in (
    "nodes", "pods", "poddisruptionbudgets", "resourceslices", "resourceclaims", "deviceclasses", "serviceaccounts", "secrets",
    "clusterroles", "clusterrolebindings"))
# Fields that a selector may name, beside metadata.name and metadata.namespace.
SELECTABLE = {"resourceslices": ("spec.nodeName", "spec.driver"), "pods": ("spec.nodeName",),
              "events": ("involvedObject.name", "involvedObject.uid", "reason", "type")}

PATH = re.compile(r"/(?:api/(?P<core>v1)|apis/(?P<group>[^/]+)/(?P<version>[^/]+))(?:/namespaces/(?P<namespace>[^/]+))?"
                  r"/(?P<plural>[^/]+)(?:/(?P<name>[^/]+))?(?:/(?P<subresource>[^/]+))?$")
# /api/v1/namespaces/NAME is an object, and no place of other ones.
NAMESPACE = re.compile(r"/api/v1/namespaces(?:/(?P<name>[^/]+))?$")

Place = collections.namedtuple("Place", "resource namespace name subresource")


def find_place(path):
    """What a path names; None: nothing that is served."""
    match = NAMESPACE.match(path)
    if match:
        return Place(next(r for r in RESOURCES if r.plural == "namespaces"), None, match["name"], None)
    match = PATH.match(path)
    if not match:
        return None
    group, version = match["group"] or "", match["core"] or match["version"]
    for resource in RESOURCES:
        if (resource.group, resource.version, resource.plural) == (group, version, match["plural"]):
            break
    else:
        return None
    if match["namespace"] and not resource.namespaced or (resource.namespaced and match["name"] and not match["namespace"]):
        return None
    if match["subresource"] and not (match["subresource"] == "status" and resource.status) and (
            resource.plural, match["subresource"]) != ("pods", "eviction"):
        return None
    return Place(resource, match["namespace"], match["name"], match["subresource"])


def api_version(resource):
    return f"{resource.group}/{resource.version}" if resource.group else resource.version


def collection_path(resource, namespace=None):
    """The path of all objects of a resource, in a namespace if it has any."""
    top = f"/apis/{resource.group}/{resource.version}" if resource.group else f"/api/{resource.version}"
    return f"{top}/namespaces/{namespace}/{resource.plural}" if resource.namespaced and namespace else f"{top}/{resource.plural}"


def full_name(resource):
    return f"{resource.plural}.{resource.group}" if resource.group else resource.plural


def find_kind(version, kind):
    return next((r for r in RESOURCES if api_version(r) == version and r.kind == kind), None)


def key_of(resource, metadata):
    return (metadata["namespace"], metadata["name"]) if resource.namespaced else metadata["name"]


def find_field(found, path):
    for part in path.split("."):
        found = found.get(part, "") if isinstance(found, dict) else ""
    return found


def discovery(path):
    """What clients ask to learn which resources there are; None: the path is none of these."""
    if path == "/api":
        return {"kind": "APIVersions", "versions": ["v1"]}
    groups = sorted({resource.group for resource in RESOURCES if resource.group})
    if path == "/apis":
        return {"kind": "APIGroupList", "apiVersion": "v1", "groups": [
            {"name": group, "versions": [{"groupVersion": f"{group}/v1", "version": "v1"}],
             "preferredVersion": {"groupVersion": f"{group}/v1", "version": "v1"}} for group in groups]}
    for version in ["v1", *(f"{group}/v1" for group in groups)]:
        if path == ("/api/v1" if version == "v1" else f"/apis/{version}"):
            served = [r for r in RESOURCES if api_version(r) == version]
            verbs = ["create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"]
            entries = [{"name": r.plural, "singularName": r.kind.lower(), "namespaced": r.namespaced, "kind": r.kind, "verbs": verbs}
                       for r in served]
            entries += [{"name": f"{r.plural}/status", "singularName": "", "namespaced": r.namespaced, "kind": r.kind,
                         "verbs": ["get", "patch", "update"]} for r in served if r.status]
            entries += [{"name": "pods/eviction", "singularName": "", "namespaced": True, "group": "policy", "version": "v1",
                         "kind": "Eviction", "verbs": ["create"]} for r in served if r.plural == "pods"]
            return {"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": version, "resources": entries}
    return None
