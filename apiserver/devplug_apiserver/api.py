# SPDX-License-Identifier: Apache-2.0
"""The API: what a request of a user does to the store, and what it answers. Knows nothing of connections."""
import base64
import collections
import copy
import datetime
import json
import secrets
import time
import traceback
import urllib.parse
import uuid

from . import allocator, eviction, resources
from .authorizer import ACCOUNT_PREFIX, ADMINISTRATORS, DRIVER_RULES, Question, driver_refusal_of, refusal_of, rules_of, user_of
from .faults import Fault
from .refusal import Refusal, read_number
from .releases import Release
from .resources import ACCOUNTS, BINDINGS, BUDGETS, CLAIMS, CLASSES, NODES, PODS, ROLES, SECRETS, SLICES, key_of
from .schema import Reader
from .store import Store
from .validation import ACCOUNT_ANNOTATION, RBAC_GROUP, TOKEN_SECRET

REQUESTS_MAX = 100000  # that are kept
BOOKMARK_SECONDS = 60
MERGE_PATCH, APPLY_PATCH = "application/merge-patch+json", ("application/apply-patch+yaml", "application/apply-patch+json")
STRATEGIC_PATCH = "application/strategic-merge-patch+json"
SUCCESS = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success"}
# What a write does not change.
FIXED = ("name", "namespace", "uid", "creationTimestamp", "generation")
# The service account of the first driver.
DRIVER_NAMESPACE, DRIVER_ACCOUNT = "devplug", "driver"
# What distinguishes the entries of a claim's status.devices.
DEVICE_KEYS = ("driver", "pool", "device", "shareID")

# `body`: parsed. `content`: its type.
Request = collections.namedtuple("Request", "method path body content", defaults=(None, "application/json"))
Answer = collections.namedtuple("Answer", "code body headers", defaults=((),))
# Lines are to be sent as they come. `lines(stopping)` ends with the watch.
Watch = collections.namedtuple("Watch", "lines")


def now():
    """As the server writes times: whole seconds."""
    return datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")


def merge(old, patch):
    """RFC 7386."""
    if not isinstance(patch, dict):
        return copy.deepcopy(patch)
    found = dict(old) if isinstance(old, dict) else {}
    for key, value in patch.items():
        if value is None:
            found.pop(key, None)
        else:
            found[key] = merge(found.get(key), value)
    return found


def apply_patch(old, patch):
    """Server-side apply, as far as claims need it: the entries of status.devices are merged by their keys, which must differ. Other
    fields are merged as by a merge patch, and fields have no owners."""
    found = merge(old, patch)
    devices = patch.get("status", {}).get("devices") if isinstance(patch, dict) else None
    if devices is not None:
        def key(device):
            return tuple(device.get(name) for name in DEVICE_KEYS)
        twice = [key(device) for i, device in enumerate(devices) if key(device) in map(key, devices[:i])]
        if twice:
            names = ",".join(f'{name}="{value or ""}"' for name, value in zip(DEVICE_KEYS, twice[0]))
            raise Refusal(500, f"failed to create typed patch object: .status.devices: duplicate entries for key [{names}]")
        known = {key(device): device for device in old.get("status", {}).get("devices", [])}
        known.update({key(device): merge(known.get(key(device), {}), device) for device in devices})
        found["status"]["devices"] = list(known.values())
    return found


def strategic_patch(old, patch):
    """A strategic merge patch, as far as Nodes and Events need it: the entries of status.conditions are merged by type, and removed
    by "$patch": "delete". Other fields are merged as by a merge patch."""
    found = merge(old, patch)
    conditions = patch.get("status", {}).get("conditions")
    if conditions is not None:
        known = {condition["type"]: condition for condition in old.get("status", {}).get("conditions", [])}
        for condition in conditions:
            if condition.get("$patch") == "delete":
                known.pop(condition["type"], None)
            else:
                known[condition["type"]] = merge(known.get(condition["type"], {}), condition)
        found["status"]["conditions"] = list(known.values())
    return found


def read_selector(text, resource):
    """Fields of a field selector: {path: (value, whether it is equal)}."""
    found = {}
    for term in filter(None, text.split(",")):
        sign = "!=" if "!=" in term else "==" if "==" in term else "="
        path, separator, value = term.partition(sign)
        if not separator:
            raise Refusal(400, f"invalid field selector {text!r}")
        if path not in ("metadata.name", "metadata.namespace", *resources.SELECTABLE.get(resource.plural, ())):
            raise Refusal(400, f"field label not supported: {path}")
        found[path] = value, sign != "!="
    return found


def is_dry(query):
    """Whether the server only answers what it would store."""
    if query.get("dryRun", "All") != "All":
        raise Refusal(400, f"dryRun: Unsupported value: {query['dryRun']!r}: supported values: All")
    return "dryRun" in query


class Api:
    """`faults`: see faults.py; the first that does something counts. `nodes`: names of the first Nodes."""

    def __init__(self, release=None, nodes=("node-a",)):
        self.kubernetes = release or Release()
        self.store = Store()
        self.lock = self.store.lock
        self.requests = collections.deque(maxlen=REQUESTS_MAX)  # (method, path, code)
        self.dropped = False  # whether a field of a slice was dropped since the release was set
        self.tokens = {}  # User by bearer token
        self.faults = []
        self.retry_after = 1  # seconds, sent with the status code 429
        self.list_metadata = {}  # of each list, in place of what is true
        self.pending = {}  # why a claim is not allocated, by its key
        with self.lock:
            for name in nodes:
                self.add(NODES, {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}})
            self.add_driver_account()

    def add_driver_account(self):
        metadata = {"name": f"{DRIVER_NAMESPACE}:{DRIVER_ACCOUNT}"}
        self.add(ACCOUNTS, {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {
            "name": DRIVER_ACCOUNT, "namespace": DRIVER_NAMESPACE}})
        self.add(ROLES, {"apiVersion": f"{RBAC_GROUP}/v1", "kind": "ClusterRole", "metadata": {**metadata},
                         "rules": copy.deepcopy(DRIVER_RULES)})
        self.add(BINDINGS, {"apiVersion": f"{RBAC_GROUP}/v1", "kind": "ClusterRoleBinding", "metadata": {**metadata},
                            "roleRef": {"apiGroup": RBAC_GROUP, "kind": "ClusterRole", **metadata},
                            "subjects": [{"kind": "ServiceAccount", "name": DRIVER_ACCOUNT, "namespace": DRIVER_NAMESPACE}]})

    # --- the tables

    def table(self, resource):
        return self.store.tables[resource]

    def add(self, resource, found):
        """Stores a new object without any check. With the lock."""
        metadata = found["metadata"]
        metadata.update(uid=str(uuid.uuid4()), creationTimestamp=now())
        if resource.type:
            metadata["generation"] = 1
        self.store.change(resource, "ADDED", found)

    # --- requests

    def find_fault(self, method, path):
        """What a fault does with the request, and the seconds of Retry-After."""
        for fault in list(self.faults):
            found = fault(method, path)
            if found:
                own = fault.retry_after() if isinstance(fault, Fault) else None
                return found, own if own is not None else self.retry_after
        return None, 0

    def note(self, method, path, code):
        with self.lock:
            self.requests.append((method, path, code))

    def serve(self, user, request):
        """Returns an Answer or a Watch. Who sees a change in the store sees its request, too."""
        with self.lock:
            try:
                answer = self.route(user, request)
                code = answer.code if isinstance(answer, Answer) else 200
            except Refusal as refusal:
                answer, code = Answer(refusal.code, refusal.status()), refusal.code
            except Exception as error:  # a fault of this program, which a client must see
                traceback.print_exc()
                code = 500
                answer = Answer(code, Refusal(code, f"devplug-apiserver failed: {type(error).__name__}: {error}").status())
            self.requests.append((request.method, request.path, code))
            return answer

    def route(self, user, request):
        url = urllib.parse.urlsplit(request.path)
        query = dict(urllib.parse.parse_qsl(url.query))
        path = urllib.parse.unquote(url.path)
        if path.startswith("/devplug/"):
            return self.serve_tool(user, request, path, query)
        if request.method == "GET" and path in ("/healthz", "/livez", "/readyz"):
            return Answer(200, b"ok")
        if request.method == "GET" and path == "/version":
            major, minor = self.kubernetes.name.split(".")
            return Answer(200, {"major": major, "minor": minor, "gitVersion": f"v{self.kubernetes.name}.0", "platform": "linux/amd64"})
        found = resources.discovery(path.rstrip("/")) if request.method == "GET" else None
        if found:
            return Answer(200, found)
        place = resources.find_place(path)
        if place is None:
            raise Refusal(404, f"devplug-apiserver does not serve {path}")
        return self.serve_place(user, request, place, query)

    def serve_place(self, user, request, place, query):
        fields = read_selector(query.get("fieldSelector", ""), place.resource)
        if "labelSelector" in query:
            raise Refusal(400, "devplug-apiserver does not know label selectors")
        watching = query.get("watch") in ("1", "true")
        verb = {("GET", True): "get", ("GET", False): "watch" if watching else "list", ("POST", False): "create",
                ("PUT", True): "update", ("PATCH", True): "patch", ("DELETE", True): "delete",
                ("DELETE", False): "deletecollection"}.get((request.method, bool(place.name)))
        if place.subresource == "eviction":
            verb = "create" if request.method == "POST" else None
        if verb is None:
            raise Refusal(405, f"the server does not allow {request.method} on {request.path}")
        old = self.find(place)
        if verb == "patch" and request.content.split(";")[0] in APPLY_PATCH and not query.get("fieldManager"):
            raise Refusal(400, "PatchOptions.meta.k8s.io \"\" is invalid: fieldManager: Required value: is required for apply patch")
        evicting = place.subresource == "eviction"
        new = self.read_body(verb, place, request, old) if verb in ("create", "update", "patch") and not evicting else None
        rules = rules_of(user, self.table(ROLES), self.table(BINDINGS).values())
        why = refusal_of(user, Question(verb, place, {path: value for path, (value, same) in fields.items() if same}, new, old), rules)
        if not why and verb in ("update", "patch") and self.kubernetes.at_least("1.36"):
            why = driver_refusal_of(user, Question(verb, place, {}, new, old), rules)
        if why:
            raise Refusal(403, why, place=place)
        if place.name and old is None:
            raise Refusal(404, f"{resources.full_name(place.resource)} \"{place.name}\" not found", place=place)
        return getattr(self, "evict" if evicting else verb)(place, query, fields, new, old, request)

    def find(self, place):
        if not place.name:
            return None
        return self.table(place.resource).get((place.namespace, place.name) if place.resource.namespaced else place.name)

    def read_body(self, verb, place, request, old):
        if not isinstance(request.body, dict):
            raise Refusal(400, "the body is not a JSON object")
        body = request.body
        if verb == "patch":
            content = request.content.split(";")[0]
            patches = {MERGE_PATCH: merge, STRATEGIC_PATCH: strategic_patch, **dict.fromkeys(APPLY_PATCH, apply_patch)}
            if content not in patches or content == STRATEGIC_PATCH and place.resource.type:
                raise Refusal(415, f"devplug-apiserver does not know patches of the type {content}; it knows {MERGE_PATCH}, "
                                   "server-side apply, and strategic merge patches of objects whose fields it does not check")
            if old is None:
                return body
            body = patches[content](old, body)
        elif request.content.split(";")[0] != "application/json":
            raise Refusal(415, f"devplug-apiserver reads application/json, and not {request.content}")
        metadata = body.get("metadata")
        if not isinstance(metadata, dict):
            raise Refusal(422, "metadata: Required value")
        version, kind = resources.api_version(place.resource), place.resource.kind
        if (body.get("apiVersion", version), body.get("kind", kind)) != (version, kind):
            raise Refusal(400, f"the object is a {body.get('apiVersion')} {body.get('kind')}, and not a {version} {kind}")
        return {**body, "apiVersion": version, "kind": kind}

    # --- reading

    def get(self, place, query, fields, new, old, request):
        return Answer(200, copy.deepcopy(old))

    def select(self, place, fields):
        """The objects in the order of their keys."""
        for key, found in sorted(self.table(place.resource).items()):
            if self.is_selected(place, fields, found):
                yield key, found

    @staticmethod
    def is_selected(place, fields, found):
        if place.namespace and found["metadata"].get("namespace") != place.namespace:
            return False
        return all((str(resources.find_field(found, path)) == value) is same for path, (value, same) in fields.items())

    def list(self, place, query, fields, new, old, request):
        selected, metadata = list(self.select(place, fields)), {}
        if query.get("continue") and "continue" not in self.list_metadata:
            try:
                last = json.loads(base64.b64decode(query["continue"]))
                last = tuple(last) if isinstance(last, list) else last
                selected = [(key, found) for key, found in selected if key > last]
            except (ValueError, TypeError):
                raise Refusal(400, "the continue token is not valid") from None
        limit = read_number("limit", query.get("limit") or "0")
        if limit and len(selected) > limit:
            metadata = {"continue": base64.b64encode(json.dumps(selected[limit - 1][0]).encode()).decode(),
                        "remainingItemCount": len(selected) - limit}
            selected = selected[:limit]
        return Answer(200, {"kind": place.resource.kind + "List", "apiVersion": resources.api_version(place.resource),
                            "metadata": {"resourceVersion": str(self.store.version), **metadata, **self.list_metadata},
                            "items": [copy.deepcopy(found) for _, found in selected]})

    def watch(self, place, query, fields, new, old, request):
        asked = read_number("resourceVersion", query.get("resourceVersion") or "0")
        initial = query.get("sendInitialEvents") == "true"
        version = asked if asked and not initial else self.store.version
        first = [self.event("ADDED", found) for _, found in self.select(place, fields)] if initial or not asked else []
        if initial:
            first.append(self.bookmark(place, version, {"annotations": {"k8s.io/initial-events-end": "true"}}))
        seconds = read_number("timeoutSeconds", query.get("timeoutSeconds") or "1800")
        bookmarks = query.get("allowWatchBookmarks") in ("1", "true")
        return Watch(lambda stopping: self.watch_lines(place, fields, first, version, seconds, bookmarks, stopping))

    @staticmethod
    def event(type_, found):
        return json.dumps({"type": type_, "object": found}).encode() + b"\n"

    def bookmark(self, place, version, more=None):
        return self.event("BOOKMARK", {"kind": place.resource.kind, "apiVersion": resources.api_version(place.resource),
                                       "metadata": {"resourceVersion": str(version), **(more or {})}})

    def watch_lines(self, place, fields, first, version, seconds, bookmarks, stopping):
        """Lines as they come, some at once, in lists."""
        if first:
            yield first
        end, next_bookmark = time.monotonic() + seconds, time.monotonic() + BOOKMARK_SECONDS
        while time.monotonic() < end and not stopping():
            with self.lock:
                changes = self.store.changes_after(place.resource, version)
                if changes == []:
                    self.lock.wait(min(0.5, max(0, end - time.monotonic())))
                    changes = self.store.changes_after(place.resource, version)
            if changes is None:
                yield [self.event("ERROR", Refusal(410, f"too old resource version: {version} ({self.store.version})").status())]
                return
            lines = [self.event(one.type, one.object) for one in changes if self.is_selected(place, fields, one.object)]
            version = changes[-1].version if changes else version
            if bookmarks and time.monotonic() >= next_bookmark:
                lines.append(self.bookmark(place, version))
                next_bookmark = time.monotonic() + BOOKMARK_SECONDS
            if lines:
                yield lines

    # --- writing

    def accept(self, place, query, new, old):
        """The object as the server stores it, and warnings."""
        resource, warnings = place.resource, ()
        if resource.type:
            reader = Reader(self.kubernetes)
            new = reader.read(resource.type, new)
            if reader.unknown and query.get("fieldValidation") == "Strict":
                raise Refusal(400, "strict decoding error: " + ", ".join(f"unknown field \"{path}\"" for path in reader.unknown))
            warnings = [("Warning", f'299 - "unknown field \\"{path}\\""') for path in reader.unknown[:8]]
            if resource is SLICES:
                self.dropped = self.dropped or bool(reader.dropped)
                self.add_times(new)
        else:
            new = copy.deepcopy(new)
        if resource.check:
            resource.check(new, old, self.kubernetes)
        return new, warnings

    @staticmethod
    def add_times(new):
        for device in new["spec"].get("devices", []):
            for taint in device.get("taints", []):
                taint["timeAdded"] = taint.get("timeAdded") or now()

    def create(self, place, query, fields, new, old, request):
        metadata = dict(new["metadata"])
        if not metadata.get("name"):
            if not metadata.get("generateName"):
                raise Refusal(422, "metadata.name: Required value: name or generateName is required")
            metadata["name"] = metadata["generateName"] + uuid.uuid4().hex[:5]
        if place.resource.namespaced:
            if metadata.setdefault("namespace", place.namespace) != place.namespace or not place.namespace:
                raise Refusal(400, "the namespace of the object does not match the namespace on the request")
        elif metadata.pop("namespace", None):
            raise Refusal(400, f"a {place.resource.kind} has no namespace")
        if key_of(place.resource, metadata) in self.table(place.resource):
            raise Refusal(409, f"{place.resource.plural} \"{metadata['name']}\" already exists", "AlreadyExists")
        if place.resource.status and place.resource is not NODES:
            new = {key: value for key, value in new.items() if key != "status"}
        new, warnings = self.accept(place, query, {**new, "metadata": metadata}, None)
        if not is_dry(query):
            self.issue_token(place.resource, new)
            self.add(place.resource, new)
            self.schedule_waiting(place.resource)
        return Answer(201, copy.deepcopy(new), warnings)

    def authority_certificate(self):
        """What a client needs to trust the server."""
        return b""

    def issue_token(self, resource, secret):
        """Fills a Secret for the token of a service account."""
        metadata = secret["metadata"]
        if resource is not SECRETS or secret.get("type") != TOKEN_SECRET or secret.get("data", {}).get("token"):
            return
        account = metadata["annotations"][ACCOUNT_ANNOTATION]
        if (metadata["namespace"], account) not in self.table(ACCOUNTS):
            return
        token = secrets.token_hex(16)
        self.tokens[token] = user_of(f"{ACCOUNT_PREFIX}{metadata['namespace']}:{account}")
        data = {"token": token.encode(), "namespace": metadata["namespace"].encode(), "ca.crt": self.authority_certificate()}
        secret["data"] = {**secret.get("data", {}), **{name: base64.b64encode(value).decode() for name, value in data.items()}}

    def revoke_token(self, resource, secret):
        if resource is SECRETS and secret.get("type") == TOKEN_SECRET:
            self.tokens.pop(base64.b64decode(secret.get("data", {}).get("token", "")).decode(), None)

    def update(self, place, query, fields, new, old, request):
        metadata = new["metadata"]
        if metadata.get("name", place.name) != place.name:
            raise Refusal(400, "the name of the object does not match the name on the URL")
        stale = metadata.get("resourceVersion") not in (None, "", old["metadata"]["resourceVersion"])
        if stale or metadata.get("uid") not in (None, "", old["metadata"]["uid"]):
            raise Refusal(409, f"Operation cannot be fulfilled on {resources.full_name(place.resource)} \"{place.name}\": the object has "
                               "been modified; please apply your changes to the latest version and try again")
        # Each of the two paths leaves the other one's part as it is.
        if place.subresource:
            new = {**old, "status": new.get("status", {})}
        elif place.resource.status and "status" in old:
            new = {**new, "status": old["status"]}
        elif place.resource.status:
            new = {key: value for key, value in new.items() if key != "status"}
        new, warnings = self.accept(place, query, new, old)
        fixed = {name: value for name, value in old["metadata"].items() if name in FIXED}
        new["metadata"] = {**new["metadata"], **fixed}
        if new.get("spec") != old.get("spec") and "generation" in fixed:
            new["metadata"]["generation"] += 1
        if self.is_same(new, old):
            return Answer(200, copy.deepcopy(old), warnings)
        if is_dry(query):
            return Answer(200, copy.deepcopy(new), warnings)
        if new.get("data") != old.get("data"):
            self.revoke_token(place.resource, old)
        self.issue_token(place.resource, new)
        self.store.change(place.resource, "MODIFIED", new)
        self.schedule_waiting(place.resource)
        return Answer(200, copy.deepcopy(new), warnings)

    patch = update

    @staticmethod
    def is_same(new, old):
        """A write without a change keeps the version."""
        def rest(found):
            return {**found, "metadata": {name: value for name, value in found["metadata"].items() if name != "resourceVersion"}}
        return rest(new) == rest(old)

    def delete(self, place, query, fields, new, old, request):
        options = request.body if isinstance(request.body, dict) else {}
        eviction.check_conditions(old, options)
        if not is_dry(query):
            self.end(place.resource, old, options)
        return Answer(200, SUCCESS)

    def end(self, resource, found, options):
        """Removes an object. A pod that runs gets a deletionTimestamp, until its kubelet deletes it without a grace period."""
        if resource is not PODS or not eviction.is_running(found) or options.get("gracePeriodSeconds") == 0:
            self.remove(resource, found)
        elif "deletionTimestamp" not in found["metadata"]:
            seconds = options.get("gracePeriodSeconds", found["spec"].get("terminationGracePeriodSeconds", 30))
            self.store.change(resource, "MODIFIED", {**found, "metadata": {
                **found["metadata"], "deletionTimestamp": now(), "deletionGracePeriodSeconds": seconds}})

    def evict(self, place, query, fields, new, old, request):
        body = request.body if isinstance(request.body, dict) else {}
        version, kind = body.get("apiVersion", "policy/v1"), body.get("kind", "Eviction")
        if (version, kind) != ("policy/v1", "Eviction"):
            raise Refusal(400, f"the object is a {version} {kind}, and not a policy/v1 Eviction")
        if body.get("metadata", {}).get("name") != place.name:
            raise Refusal(400, "name in URL does not match name in Eviction object")
        options = body.get("deleteOptions") or {}
        eviction.check_conditions(old, options)
        budget = eviction.take_from_budget(old, self.table(BUDGETS).values())
        if not is_dry(query):
            if budget:
                self.store.change(BUDGETS, "MODIFIED", budget)
            self.end(PODS, old, options)
        return Answer(201, SUCCESS)

    def deletecollection(self, place, query, fields, new, old, request):
        for _, found in [] if is_dry(query) else list(self.select(place, fields)):
            self.remove(place.resource, found)
        return Answer(200, {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success"})

    def remove(self, resource, found):
        """With the lock."""
        self.revoke_token(resource, found)
        self.store.change(resource, "DELETED", found)
        self.store.delete_owned(found["metadata"]["uid"])
        self.schedule_waiting(resource)

    # --- the scheduler's part

    def find_allocation(self, claim):
        """An allocation for a claim on one of the nodes. Raises allocator.Unallocatable with the reason. With the lock."""
        return allocator.allocate(claim, self.table(CLASSES), self.table(SLICES).values(), self.table(CLAIMS).values(),
                                  list(self.table(NODES)), self.kubernetes)

    def schedule_waiting(self, resource):
        """Allocates the claims that wait, after a change of a resource. A claim without requests waits for another client."""
        if resource not in (SLICES, CLAIMS, CLASSES, NODES):
            return
        waiting = [claim for claim in self.table(CLAIMS).values()
                   if "allocation" not in claim.get("status", {}) and claim["spec"].get("devices", {}).get("requests")]
        self.pending = {}
        for claim in sorted(waiting, key=lambda claim: int(claim["metadata"]["resourceVersion"])):
            try:
                self.bind(claim, self.find_allocation(claim))
            except allocator.Unallocatable as error:
                self.pending[key_of(CLAIMS, claim["metadata"])] = str(error)

    def bind(self, claim, allocation):
        """As the scheduler does for a pod, which has the name of the claim here."""
        claim = copy.deepcopy(claim)
        pod = {"resource": "pods", "name": claim["metadata"]["name"], "uid": str(uuid.uuid4())}
        claim["status"] = {**claim.get("status", {}), "allocation": allocation, "reservedFor": [pod]}
        self.store.change(CLAIMS, "MODIFIED", claim)
        return claim

    # --- for the tests of drivers

    def serve_tool(self, user, request, path, query):
        if ADMINISTRATORS not in user.groups:
            raise Refusal(403, f"only administrators may use {path}")
        if (request.method, path) == ("GET", "/devplug/pending"):
            return Answer(200, {"pending": [{"namespace": namespace, "name": name, "reason": reason}
                                            for (namespace, name), reason in self.pending.items()]})
        if (request.method, path) == ("GET", "/devplug/pools"):
            return Answer(200, {"pools": [
                {"driver": pool.driver, "name": pool.name, "complete": pool.complete, "fault": pool.fault,
                 "invalid": pool.invalid,
                 "devices": [device for spec in pool.slices for device in copy.deepcopy(spec.get("devices", []))]}
                for pool in allocator.read_all_pools(self.table(SLICES).values())
                if query.get("driver", pool.driver) == pool.driver]})
        if (request.method, path) == ("GET", "/devplug/requests"):
            return Answer(200, {"requests": [dict(zip(("method", "path", "code"), one)) for one in self.requests
                                             if not one[1].startswith("/devplug/")]})
        if (request.method, path) == ("DELETE", "/devplug/requests"):
            self.requests.clear()
            return Answer(200, {})
        if (request.method, path) == ("GET", "/devplug/faults"):
            return Answer(200, {"faults": [{**fault.document, **({} if fault.left is None else {"times": fault.left})}
                                           for fault in self.faults if isinstance(fault, Fault) and fault.left != 0]})
        if path == "/devplug/faults" and request.method in ("PUT", "POST"):
            try:
                if request.method == "POST":
                    self.faults = [*self.faults, Fault(request.body)]
                else:
                    self.faults = [Fault(document) for document in (request.body or {}).get("faults", [])]
            except ValueError as error:
                raise Refusal(422, str(error)) from error
            return Answer(200, {})
        if (request.method, path) == ("GET", "/devplug/release"):
            return Answer(200, {"release": self.kubernetes.name, "features": self.kubernetes.on, "dropped": self.dropped})
        if (request.method, path) == ("PUT", "/devplug/release"):
            try:
                self.kubernetes = Release((request.body or {}).get("release"), (request.body or {}).get("features"))
            except ValueError as error:
                raise Refusal(422, str(error)) from error
            self.dropped = False
            return Answer(200, {})
        if (request.method, path) == ("POST", "/devplug/compact"):
            self.store.forget_changes()
            return Answer(200, {})
        raise Refusal(404, f"devplug-apiserver does not serve {request.method} {path}")
