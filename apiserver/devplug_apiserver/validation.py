# SPDX-License-Identifier: Apache-2.0
"""The rules of the API server for ResourceSlices, ResourceClaims, DeviceClasses and objects of RBAC. A driver that breaks one gets an error with
the path of the field. Each function raises a Refusal with the code 422."""
import re

from . import cel, quantity
from .refusal import invalid

LABEL = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$")
SUBDOMAIN = re.compile(r"(?=.{1,253}$)[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$")
IDENTIFIER = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,31}$")
LABEL_NAME = re.compile(r"[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?$")
LABEL_VALUE = re.compile(r"([A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?)?$")
# semver.org, 2.0.0
VERSION = re.compile(r"(0|[1-9]\d*)\.(0|[1-9]\d*)\.(0|[1-9]\d*)(?:-(?:0|[1-9]\d*|\d*[a-zA-Z-][0-9a-zA-Z-]*)"
                     r"(?:\.(?:0|[1-9]\d*|\d*[a-zA-Z-][0-9a-zA-Z-]*))*)?(?:\+[0-9a-zA-Z-]+(?:\.[0-9a-zA-Z-]+)*)?$")

DRIVER_MAX = 63
DEVICES_MAX, DEVICES_MAX_WITH_FEATURES = 128, 64
ATTRIBUTES_MAX = 32  # of a device, with its capacities
ATTRIBUTE_VALUES_MAX = 48  # of a device, where lists count by their elements
TEXT_MAX = 64
TAINTS_MAX, TAINTS_MAX_1_34 = 16, 4
COUNTER_SETS_MAX, COUNTERS_MAX, CONSUMED_SETS_MAX, CONSUMED_COUNTERS_MAX = 8, 32, 2, 2048
POLICY_VALUES_MAX = 10
BINDING_CONDITIONS_MAX = 4
REQUESTS_MAX, CONSTRAINTS_MAX, SELECTORS_MAX, TOLERATIONS_MAX, CONFIG_MAX, ALTERNATIVES_MAX = 32, 32, 32, 16, 32, 8
PARAMETERS_MAX = 10 * 1024
CEL_MAX = 10 * 1024
RESULTS_MAX = 32
RESERVED_MAX = 256
EFFECTS = ("None", "NoSchedule", "NoExecute")
RBAC_GROUP = "rbac.authorization.k8s.io"
TOKEN_SECRET, ACCOUNT_ANNOTATION = "kubernetes.io/service-account-token", "kubernetes.io/service-account.name"
# A taint of an unknown effect is treated as None by the scheduler, and refused by the server.
LIST_TYPES = {"bools": bool, "ints": int, "strings": str, "versions": str}


def at_most(path, items, limit):
    if len(items) > limit:
        raise invalid(path, f"Too many: {len(items)}: must have at most {limit} items")


def check_name(path, value, form, what):
    if not form.match(value):
        raise invalid(path, f"Invalid value: {value!r}: must be {what}")


def check_label(path, value):
    check_name(path, value, LABEL, "a DNS label")


def check_driver(path, value):
    if len(value) > DRIVER_MAX:
        raise invalid(path, f"Too long: may not be more than {DRIVER_MAX} bytes")
    check_name(path, value, SUBDOMAIN, "a DNS subdomain")


def check_unique(path, names):
    seen = set()
    for name in names:
        if name in seen:
            raise invalid(path, f"Duplicate value: {name!r}")
        seen.add(name)


def check_qualified(path, name):
    """The name of an attribute or a capacity: an identifier, or a domain and an identifier."""
    domain, slash, identifier = name.rpartition("/")
    if slash and (len(domain) > DRIVER_MAX or not SUBDOMAIN.match(domain)):
        raise invalid(path, f"Invalid value: {name!r}: the domain must be a DNS subdomain of at most {DRIVER_MAX} bytes")
    if not IDENTIFIER.match(identifier):
        raise invalid(path, f"Invalid value: {name!r}: must be a C identifier of at most 32 characters")


def check_text(path, kind, value):
    if len(value.encode()) > TEXT_MAX:
        raise invalid(path, f"Too long: may not be more than {TEXT_MAX} bytes")
    if kind.startswith("version") and not VERSION.match(value):
        raise invalid(path, f"Invalid value: {value!r}: must be a version according to semver.org 2.0.0")


def check_attribute(path, value):
    """Returns the number of its values."""
    if len(value) != 1:
        raise invalid(path, "Invalid value: exactly one value must be specified")
    kind, content = next(iter(value.items()))
    values = content if isinstance(content, list) else [content]
    if not values:
        raise invalid(path, "Required value")
    for item in values:
        if isinstance(item, str):
            check_text(f"{path}.{kind}", kind, item)
    return len(values)


# --- capacities

def check_range(path, policy, value, release):
    bounds = policy["validRange"]
    low, default = quantity.parse(bounds["min"]), quantity.parse(policy["default"])
    high, step = (quantity.parse(bounds[name]) if name in bounds else None for name in ("max", "step"))
    numbers = [number for number in (low, default, high, step) if number is not None]
    if any(number < 0 for number in numbers) or step == 0:
        raise invalid(path, "Invalid value: must not be negative, and step must not be 0")
    if not release.on["DRAFractionalCapacityRange"] and any(number.denominator != 1 for number in numbers):
        raise invalid(path, "Invalid value: must be whole numbers")
    if low > default or (high is not None and (default > high or high > value)) or low > value or default > value:
        raise invalid(path, "Invalid value: must be min <= default <= max <= value")
    if step is not None:
        if low + step > value:
            raise invalid(path, "Invalid value: min + step must not be more than the capacity's value")
        for name, number in (("default", default), ("max", high)):
            if number is not None and (number - low) % step != 0:
                raise invalid(path, f"Invalid value: {name} must be min and a multiple of step")


def check_values(path, policy, value):
    values = [quantity.parse(text) for text in policy["validValues"]]
    at_most(path, values, POLICY_VALUES_MAX)
    if values != sorted(set(values)):
        raise invalid(path, "Invalid value: must be in ascending order, without duplicates")
    if quantity.parse(policy["default"]) not in values:
        raise invalid(path, "Invalid value: default must be one of the valid values")
    if values[0] < 0 or values[-1] > value:
        raise invalid(path, "Invalid value: must be from 0 to the capacity's value")


def check_capacity(path, device, name, release):
    capacity = device["capacity"][name]
    check_qualified(path, name)
    value, policy = quantity.parse(capacity["value"]), capacity.get("requestPolicy")
    if policy is None:
        return
    if not device.get("allowMultipleAllocations"):
        raise invalid(path + ".requestPolicy", "Forbidden: needs allowMultipleAllocations")
    if "validRange" in policy and "validValues" in policy:
        raise invalid(path + ".requestPolicy", "Invalid value: at most one of validRange and validValues")
    if "default" not in policy:
        if "validRange" in policy or "validValues" in policy:
            raise invalid(path + ".requestPolicy.default", "Required value")
        return
    if "validRange" in policy:
        check_range(path + ".requestPolicy.validRange", policy, value, release)
    elif "validValues" in policy:
        check_values(path + ".requestPolicy.validValues", policy, value)
    elif not 0 <= quantity.parse(policy["default"]) <= value:
        raise invalid(path + ".requestPolicy.default", "Invalid value: must be from 0 to the capacity's value")


# --- slices

def check_taint(path, taint, release):
    domain, slash, name = taint["key"].rpartition("/")
    if (slash and not SUBDOMAIN.match(domain)) or not LABEL_NAME.match(name):
        raise invalid(path + ".key", f"Invalid value: {taint['key']!r}: must be a label name")
    check_name(path + ".value", taint.get("value", ""), LABEL_VALUE, "a label value")
    effects = EFFECTS if release.at_least("1.35") else EFFECTS[1:]
    if taint["effect"] not in effects:
        raise invalid(path + ".effect", f"Unsupported value: {taint['effect']!r}: supported values: {', '.join(effects)}")


def check_conditions(path, device):
    for field in ("bindingConditions", "bindingFailureConditions"):
        at_most(f"{path}.{field}", device.get(field, []), BINDING_CONDITIONS_MAX)
        check_unique(f"{path}.{field}", device.get(field, []))
        for condition in device.get(field, []):
            domain, slash, name = condition.rpartition("/")
            if (slash and not SUBDOMAIN.match(domain)) or not LABEL_NAME.match(name):
                raise invalid(f"{path}.{field}", f"Invalid value: {condition!r}: must be a type of a condition")
    if ("bindingConditions" in device) != ("bindingFailureConditions" in device):
        raise invalid(path, "Invalid value: bindingConditions and bindingFailureConditions must be set together")


def check_device(path, device, release):
    check_label(path + ".name", device["name"])
    attributes, capacities = device.get("attributes", {}), device.get("capacity", {})
    if len(attributes) + len(capacities) > ATTRIBUTES_MAX:
        raise invalid(path, f"Too many: {len(attributes) + len(capacities)}: must have at most {ATTRIBUTES_MAX} attributes and "
                            "capacities")
    values = len(capacities)
    for name, value in attributes.items():
        check_qualified(f"{path}.attributes[{name}]", name)
        values += check_attribute(f"{path}.attributes[{name}]", value)
    if values > ATTRIBUTE_VALUES_MAX:
        raise invalid(path, f"Too many: {values}: must have at most {ATTRIBUTE_VALUES_MAX} values of attributes and capacities")
    for name in capacities:
        check_capacity(f"{path}.capacity[{name}]", device, name, release)
    at_most(path + ".taints", device.get("taints", []), TAINTS_MAX if release.at_least("1.35") else TAINTS_MAX_1_34)
    for i, taint in enumerate(device.get("taints", [])):
        check_taint(f"{path}.taints[{i}]", taint, release)
    check_conditions(path, device)
    at_most(path + ".consumesCounters", device.get("consumesCounters", []), CONSUMED_SETS_MAX)
    check_unique(path + ".consumesCounters", [use["counterSet"] for use in device.get("consumesCounters", [])])
    for i, use in enumerate(device.get("consumesCounters", [])):
        check_counters(f"{path}.consumesCounters[{i}]", use["counterSet"], use["counters"])


def check_counters(path, name, counters):
    check_label(path, name)
    if not counters:
        raise invalid(path + ".counters", "Required value")
    at_most(path + ".counters", counters, COUNTERS_MAX)
    for counter in counters:
        check_label(f"{path}.counters[{counter}]", counter)


def check_places(path, spec, devices):
    """Exactly one place for the slice, or one for each device."""
    places = [name for name in ("nodeName", "nodeSelector", "allNodes", "perDeviceNodeSelection") if spec.get(name)]
    if len(places) != 1:
        raise invalid(path, "Invalid value: exactly one of nodeName, nodeSelector, allNodes, perDeviceNodeSelection is required")
    for i, device in enumerate(devices):
        own = [name for name in ("nodeName", "nodeSelector", "allNodes") if device.get(name)]
        if len(own) != (1 if spec.get("perDeviceNodeSelection") else 0):
            raise invalid(f"{path}.devices[{i}]", "Invalid value: has its own place if and only if perDeviceNodeSelection is set")


def check_slice(new, old, release):
    spec = new["spec"]
    devices, sets = spec.get("devices", []), spec.get("sharedCounters", [])
    check_driver("spec.driver", spec["driver"])
    pool = spec["pool"]
    if len(pool["name"]) > 253 or not all(SUBDOMAIN.match(part) for part in pool["name"].split("/")):
        raise invalid("spec.pool.name", f"Invalid value: {pool['name']!r}: must be DNS subdomains separated by slashes")
    if pool["generation"] < 0:
        raise invalid("spec.pool.generation", "Invalid value: must not be negative")
    if pool["resourceSliceCount"] < 1:
        raise invalid("spec.pool.resourceSliceCount", "Invalid value: must be greater than zero")
    if old and (old["spec"]["driver"], old["spec"]["pool"]["name"], old["spec"].get("nodeName")) != (
            spec["driver"], pool["name"], spec.get("nodeName")):
        raise invalid("spec", "Invalid value: driver, pool.name and nodeName are immutable")
    check_places("spec", spec, devices)
    if sets and devices and release.at_least("1.35"):
        raise invalid("spec", "Invalid value: exactly one of `sharedCounters`, `devices` is required")
    special = any(device.get(name) for device in devices for name in ("taints", "consumesCounters")) or any(
        kind in LIST_TYPES for device in devices for value in device.get("attributes", {}).values() for kind in value)
    at_most("spec.devices", devices, DEVICES_MAX_WITH_FEATURES if special else DEVICES_MAX)
    check_unique("spec.devices", [device["name"] for device in devices])
    for i, device in enumerate(devices):
        check_device(f"spec.devices[{i}]", device, release)
    at_most("spec.sharedCounters", sets, COUNTER_SETS_MAX)
    check_unique("spec.sharedCounters", [one["name"] for one in sets])
    for i, one in enumerate(sets):
        check_counters(f"spec.sharedCounters[{i}]", one["name"], one["counters"])
    for i, device in enumerate(devices):
        for k, use in enumerate(device.get("consumesCounters", [])):
            if not release.at_least("1.35") and use["counterSet"] not in [one["name"] for one in sets]:
                raise invalid(f"spec.devices[{i}].consumesCounters[{k}]", f"Invalid value: {use['counterSet']!r}: must reference a counterSet "
                              "defined in the ResourceSlice sharedCounters")
    consumed = sum(len(use["counters"]) for device in devices for use in device.get("consumesCounters", []))
    if consumed > CONSUMED_COUNTERS_MAX:
        raise invalid("spec.devices", f"Too many: {consumed}: must consume at most {CONSUMED_COUNTERS_MAX} counters in all")


# --- classes and claims

def check_selectors(path, selectors):
    at_most(path, selectors, SELECTORS_MAX)
    for i, selector in enumerate(selectors):
        here = f"{path}[{i}].cel.expression"
        if "cel" not in selector:
            raise invalid(f"{path}[{i}].cel", "Required value")
        expression = selector["cel"]["expression"]
        if len(expression) > CEL_MAX:
            raise invalid(here, f"Too long: may not be more than {CEL_MAX} bytes")
        try:
            cel.compile_expression(expression)
        except cel.UnknownCel as error:
            raise invalid(here, f"devplug-apiserver does not know this part of CEL: {error}") from error
        except cel.InvalidCel as error:
            raise invalid(here, f"Invalid value: {expression!r}: {error}") from error


def check_config(path, config):
    at_most(path, config, CONFIG_MAX)
    for i, entry in enumerate(config):
        if "opaque" not in entry:
            raise invalid(f"{path}[{i}].opaque", "Required value")
        check_driver(f"{path}[{i}].opaque.driver", entry["opaque"]["driver"])
        if not isinstance(entry["opaque"]["parameters"], dict):
            raise invalid(f"{path}[{i}].opaque.parameters", "Invalid value: must be an object")
        if len(str(entry["opaque"]["parameters"])) > PARAMETERS_MAX:
            raise invalid(f"{path}[{i}].opaque.parameters", f"Too long: may not be more than {PARAMETERS_MAX} bytes")


def check_class(new, old, release):
    spec = new["spec"]
    check_selectors("spec.selectors", spec.get("selectors", []))
    check_config("spec.config", spec.get("config", []))


def check_toleration(path, toleration):
    operator = toleration.get("operator", "Equal")
    if operator not in ("Exists", "Equal"):
        raise invalid(path + ".operator", f"Unsupported value: {operator!r}: supported values: Equal, Exists")
    if operator == "Exists" and toleration.get("value"):
        raise invalid(path + ".value", "Invalid value: must be empty if the operator is Exists")
    if not toleration.get("key") and operator != "Exists":
        raise invalid(path + ".operator", "Invalid value: must be Exists if the key is empty")
    if toleration.get("effect", "NoSchedule") not in EFFECTS[1:]:
        raise invalid(path + ".effect", f"Unsupported value: {toleration['effect']!r}: supported values: NoSchedule, NoExecute")


def check_request(path, request):
    """One that allocates: "exactly", or an alternative."""
    mode, count = request.setdefault("allocationMode", "ExactCount"), request.get("count")
    if mode not in ("ExactCount", "All"):
        raise invalid(path + ".allocationMode", f"Unsupported value: {mode!r}: supported values: All, ExactCount")
    if mode == "ExactCount":
        request.setdefault("count", 1)
    if (mode == "All" and count) or (count is not None and mode == "ExactCount" and count < 1):
        raise invalid(path + ".count", f"Invalid value: {count}: must be greater than zero for ExactCount, and unset for All")
    check_name(path + ".deviceClassName", request["deviceClassName"], SUBDOMAIN, "a DNS subdomain")
    check_selectors(path + ".selectors", request.get("selectors", []))
    at_most(path + ".tolerations", request.get("tolerations", []), TOLERATIONS_MAX)
    for i, toleration in enumerate(request.get("tolerations", [])):
        check_toleration(f"{path}.tolerations[{i}]", toleration)


def request_names(devices):
    """What a list of requests may name."""
    for request in devices.get("requests", []):
        yield request["name"]
        for alternative in request.get("firstAvailable", []):
            yield f"{request['name']}/{alternative['name']}"


def check_constraint(path, constraint):
    names = [name for name in ("matchAttribute", "distinctAttribute") if name in constraint]
    if len(names) != 1:
        raise invalid(path, "Invalid value: exactly one of `matchAttribute`, `distinctAttribute` is required")
    if "/" not in constraint[names[0]]:
        raise invalid(f"{path}.{names[0]}", f"Invalid value: {constraint[names[0]]!r}: must include the domain")
    check_qualified(f"{path}.{names[0]}", constraint[names[0]])


def check_claim_spec(path, spec):
    devices = spec.get("devices", {})
    requests = devices.get("requests", [])
    at_most(path + ".devices.requests", requests, REQUESTS_MAX)
    check_unique(path + ".devices.requests", [request["name"] for request in requests])
    for i, request in enumerate(requests):
        here = f"{path}.devices.requests[{i}]"
        check_label(here + ".name", request["name"])
        if ("exactly" in request) == ("firstAvailable" in request):
            raise invalid(here, "Invalid value: exactly one of `exactly`, `firstAvailable` is required")
        if "exactly" in request:
            check_request(here + ".exactly", request["exactly"])
        alternatives = request.get("firstAvailable", [])
        at_most(here + ".firstAvailable", alternatives, ALTERNATIVES_MAX)
        check_unique(here + ".firstAvailable", [one["name"] for one in alternatives])
        for k, one in enumerate(alternatives):
            check_label(f"{here}.firstAvailable[{k}].name", one["name"])
            check_request(f"{here}.firstAvailable[{k}]", one)
    known = set(request_names(devices))
    at_most(path + ".devices.constraints", devices.get("constraints", []), CONSTRAINTS_MAX)
    for field in ("constraints", "config"):
        for i, entry in enumerate(devices.get(field, [])):
            here = f"{path}.devices.{field}[{i}]"
            for name in entry.get("requests", []):
                if name not in known:
                    raise invalid(here + ".requests", f"Invalid value: {name!r}: must be the name of a request in the claim")
            if field == "constraints":
                check_constraint(here, entry)
    check_config(path + ".devices.config", devices.get("config", []))


def check_status(claim, release):
    status = claim.get("status", {})
    at_most("status.reservedFor", status.get("reservedFor", []), RESERVED_MAX)
    allocation = status.get("allocation")
    results = allocation.get("devices", {}).get("results", []) if allocation else []
    at_most("status.allocation.devices.results", results, RESULTS_MAX)
    known = set(request_names(claim["spec"].get("devices", {})))
    for i, result in enumerate(results):
        if known and result["request"] not in known:
            raise invalid(f"status.allocation.devices.results[{i}].request",
                          f"Invalid value: {result['request']!r}: must be the name of a request in the claim")

    def key(entry):
        return entry["driver"], entry["pool"], entry["device"], entry.get("shareID")
    allocated = {key(result) for result in results}
    for i, device in enumerate(status.get("devices", [])):
        if key(device) not in allocated:
            raise invalid(f"status.devices[{i}]",
                          f"Invalid value: {'/'.join(key(device)[:3])}: must be an allocated device in the claim")
        at_most(f"status.devices[{i}].conditions", device.get("conditions", []), 8)
    check_unique("status.devices", [key(device) for device in status.get("devices", [])])


def check_claim(new, old, release):
    check_claim_spec("spec", new["spec"])
    if old and old["spec"] != new["spec"]:
        raise invalid("spec", "Invalid value: field is immutable")
    check_status(new, release)


def check_template(new, old, release):
    check_claim_spec("spec.spec", new["spec"]["spec"])


# --- identities and rights

def check_role(new, old, release):
    for i, rule in enumerate(new.get("rules") or []):
        for name in ("verbs", "apiGroups", "resources"):
            words = rule.get(name)
            if not isinstance(words, list) or not words or not all(isinstance(word, str) for word in words):
                raise invalid(f"rules[{i}].{name}", "Required value: must be a list of at least one text")


def check_binding(new, old, release):
    reference = new.get("roleRef", {})
    if (reference.get("apiGroup"), reference.get("kind")) != (RBAC_GROUP, "ClusterRole") or not reference.get("name"):
        raise invalid("roleRef", f"Invalid value: must name a ClusterRole of the group {RBAC_GROUP}")
    if old and old.get("roleRef") != reference:
        raise invalid("roleRef", "Invalid value: cannot change roleRef")
    for i, subject in enumerate(new.get("subjects") or []):
        account = subject.get("kind") == "ServiceAccount"
        if subject.get("kind") not in ("User", "Group", "ServiceAccount"):
            raise invalid(f"subjects[{i}].kind", "Unsupported value: supported values: ServiceAccount, User, Group")
        if not subject.get("name") or account and not subject.get("namespace"):
            raise invalid(f"subjects[{i}]", "Required value: a subject has a name, and a ServiceAccount also has a namespace")
        if not account and subject.get("apiGroup") != RBAC_GROUP:
            raise invalid(f"subjects[{i}].apiGroup", f"Unsupported value: supported values: {RBAC_GROUP}")


def check_event(new, old, release):
    """An Event of the core group is in the namespace of its object, or in "default" if that has none."""
    object_, namespace = new.get("involvedObject") or {}, new["metadata"]["namespace"]
    if (object_.get("namespace") or "default") != namespace:
        raise invalid("involvedObject.namespace", f"Invalid value: {object_.get('namespace', '')!r}: does not match event.namespace")


def check_secret(new, old, release):
    if new.get("type") == TOKEN_SECRET and not (new["metadata"].get("annotations") or {}).get(ACCOUNT_ANNOTATION):
        raise invalid(f"metadata.annotations[{ACCOUNT_ANNOTATION}]", "Required value")
