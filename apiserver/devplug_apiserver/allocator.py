# SPDX-License-Identifier: Apache-2.0
"""Allocates a claim as the scheduler does: pools by driver and name, slices by name, devices in their order, the first that fit.
What it does not know makes it refuse the claim with the reason, and never take a device that the scheduler would not take."""
import collections
import math
import uuid

from . import cel, quantity

STEPS_MAX = 100000
RESULTS_MAX = 32

# A device that may be chosen. `id`: (driver, pool, name). `pool`: its Pool.
Candidate = collections.namedtuple("Candidate", "id device seen pool")
# `names`: (request, request/alternative or request). `consumed`: of the capacities, None: the device is not shared.
Choice = collections.namedtuple("Choice", "candidate request admin tolerations consumed")
# One way to serve a request. `candidates`: in their order; `count`: how many of them, None: there are not enough.
Option = collections.namedtuple("Option", "name request candidates count")


class Unallocatable(Exception):
    """The claim stays pending: why."""


class Pool:
    def __init__(self, driver, name):
        self.driver, self.name = driver, name
        self.slices, self.counters = [], {}
        self.consumers = []  # (id, consumesCounters) of its devices, also of those for other nodes
        self.complete = False  # all slices of the newest generation are there
        self.invalid = ""  # why every scheduler rejects it
        self.fault = ""  # why none of its devices is allocated


def is_tolerated(taint, tolerations):
    for toleration in tolerations:
        operator = toleration.get("operator", "Equal")
        if toleration.get("key") and toleration["key"] != taint["key"]:
            continue
        if operator == "Equal" and toleration.get("value", "") != taint.get("value", ""):
            continue
        if toleration.get("effect", taint["effect"]) == taint["effect"]:
            return True
    return False


def find_attribute(candidate, name):
    """The attribute of a constraint as a set of its values with their type; None: the device has none."""
    attributes = candidate.device.get("attributes", {})
    domain, _, identifier = name.rpartition("/")
    value = attributes.get(name) or (attributes.get(identifier) if domain == candidate.id[0] else None)
    if value is None:
        return None
    kind, content = next(iter(value.items()))
    return frozenset((kind.rstrip("s"), item) for item in (content if isinstance(content, list) else [content]))


# --- pools

def read_all_pools(slices):
    """In the scheduler's order, each with the slices of its newest generation. Here alone is decided what a complete pool is."""
    pools = {}
    for found in sorted(slices, key=lambda found: found["metadata"]["name"]):
        spec = found["spec"]
        key = spec["driver"], spec["pool"]["name"]
        pools.setdefault(key, Pool(*key)).slices.append(spec)
    for pool in pools.values():
        newest = max(spec["pool"]["generation"] for spec in pool.slices)
        pool.slices = [spec for spec in pool.slices if spec["pool"]["generation"] == newest]
        wanted = {spec["pool"]["resourceSliceCount"] for spec in pool.slices}
        pool.complete = wanted == {len(pool.slices)}
        check_pool(pool)
        if pool.invalid:
            pool.fault = pool.invalid
        elif not pool.complete:
            pool.fault = f"pool {pool.name} of {pool.driver} is incomplete: {len(pool.slices)} of {max(wanted)} slices"
    return [pools[key] for key in sorted(pools)]


def read_pools(slices, node):
    """The pools with devices for the node."""
    return [pool for pool in read_all_pools(slices) if any(is_for(spec, None, node) for spec in pool.slices)]


def read_counters(counters):
    return {name: quantity.parse(counter["value"]) for name, counter in counters.items()}


def check_pool(pool):
    names = [device["name"] for spec in pool.slices for device in spec.get("devices", [])]
    sets = [one for spec in pool.slices for one in spec.get("sharedCounters", [])]
    if len(set(names)) != len(names):
        pool.invalid = f"pool {pool.name} of {pool.driver} is invalid: a device is in it twice"
    if len({one["name"] for one in sets}) != len(sets):
        pool.invalid = f"pool {pool.name} of {pool.driver} is invalid: a counter set is in it twice"
    pool.counters = {one["name"]: read_counters(one["counters"]) for one in sets}
    for spec in pool.slices:
        if any(place.get("nodeSelector") for place in (spec, *spec.get("devices", []))):
            pool.fault = f"pool {pool.name} of {pool.driver} uses a nodeSelector, which devplug-apiserver does not know"
        for device in spec.get("devices", []):
            pool.consumers.append(((pool.driver, pool.name, device["name"]), device.get("consumesCounters", [])))
            for use in device.get("consumesCounters", []):
                if set(use["counters"]) - set(pool.counters.get(use["counterSet"], {})):
                    pool.invalid = (f"pool {pool.name} of {pool.driver} is invalid: device {device['name']} consumes a counter of "
                                    f"{use['counterSet']} that no slice has")


def is_for(spec, device, node):
    """Whether the slice, or a device of it, is or may be for the node."""
    place = spec if device is None or not spec.get("perDeviceNodeSelection") else device
    return bool(place.get("allNodes") or place.get("nodeSelector") or place.get("nodeName") == node
                or (device is None and spec.get("perDeviceNodeSelection")))


def read_candidates(pools, node):
    return [Candidate((pool.driver, pool.name, device["name"]), device, cel.Device(pool.driver, device), pool)
            for pool in pools if not pool.fault for spec in pool.slices for device in spec.get("devices", [])
            if is_for(spec, device, node)]


class Usage:
    """What claims have of the devices."""

    def __init__(self, claims, release):
        self.release = release
        self.exclusive, self.shares = set(), {}
        for claim in claims:
            for result in claim.get("status", {}).get("allocation", {}).get("devices", {}).get("results", []):
                if not result.get("adminAccess"):
                    key = result["driver"], result["pool"], result["device"]
                    if "shareID" in result:
                        amounts = {name: quantity.parse(text) for name, text in result.get("consumedCapacity", {}).items()}
                        self.shares.setdefault(key, []).append(amounts)
                    else:
                        self.exclusive.add(key)

    def has(self, key):
        return key in self.exclusive or key in self.shares

    def take(self, choice):
        if choice.admin:
            return
        if choice.consumed is None:
            self.exclusive.add(choice.candidate.id)
        else:
            self.shares.setdefault(choice.candidate.id, []).append(choice.consumed)

    def give_back(self, choice):
        if choice.admin:
            return
        if choice.consumed is None:
            self.exclusive.discard(choice.candidate.id)
        else:
            self.shares[choice.candidate.id].pop()
            if not self.shares[choice.candidate.id]:
                del self.shares[choice.candidate.id]

    def is_free(self, candidate, consumed):
        """`consumed`: of a share, None: the whole device is wanted."""
        key = candidate.id
        if key in self.exclusive:
            return False
        if consumed is None:
            # Up to 1.37 a device that is not shared any more is allocated although shares of it are in use.
            return key not in self.shares or not self.release.at_least("1.38")
        for name, amount in consumed.items():
            used = sum(share.get(name, 0) for share in self.shares.get(key, []))
            if used + amount > quantity.parse(candidate.device["capacity"][name]["value"]):
                return False
        return True

    def counters_fit(self, candidate):
        """Only devices that stand in the slices consume counters, and a shared device consumes them once."""
        uses = candidate.device.get("consumesCounters", [])
        if not uses or self.has(candidate.id):
            return True
        left = {name: dict(counters) for name, counters in candidate.pool.counters.items()}
        for others in [one for key, one in candidate.pool.consumers if self.has(key)] + [uses]:
            for use in others:
                for name, counter in use["counters"].items():
                    left[use["counterSet"]][name] -= quantity.parse(counter["value"])
        return all(left[use["counterSet"]][name] >= 0 for use in uses for name in use["counters"])


# --- capacities

def round_up(amount, capacity):
    """The amount that a share consumes. None: no such share is possible."""
    policy = capacity.get("requestPolicy", {})
    if "validValues" in policy:
        return next((value for value in map(quantity.parse, policy["validValues"]) if value >= amount), None)
    if "validRange" in policy:
        bounds = {name: quantity.parse(text) for name, text in policy["validRange"].items()}
        amount = max(amount, bounds["min"])
        if "step" in bounds:
            amount = bounds["min"] + math.ceil((amount - bounds["min"]) / bounds["step"]) * bounds["step"]
        return amount if amount <= bounds.get("max", amount) else None
    return amount


def consume(candidate, request, release):
    """(whether the device has enough, what a share of it consumes or None)."""
    capacities = candidate.device.get("capacity", {})
    wanted = {name: quantity.parse(text) for name, text in request.get("capacity", {}).get("requests", {}).items()}
    if release.at_least("1.38"):
        own = candidate.id[0] + "/"
        wanted = {name[len(own):] if name.startswith(own) and name not in capacities else name: amount for name, amount in wanted.items()}
    if any(name not in capacities or amount > quantity.parse(capacities[name]["value"]) for name, amount in wanted.items()):
        return False, None
    if not candidate.device.get("allowMultipleAllocations"):
        return True, None
    consumed = {}
    for name, capacity in capacities.items():
        if name in wanted:
            consumed[name] = round_up(wanted[name], capacity)
        else:
            consumed[name] = quantity.parse(capacity.get("requestPolicy", {}).get("default", capacity["value"]))
        if consumed[name] is None:
            return False, None
    return True, consumed


# --- the search

class Search:
    def __init__(self, claim, classes, pools, candidates, usage, release):
        self.claim, self.classes, self.release = claim, classes, release
        self.pools, self.candidates, self.usage = pools, candidates, usage
        self.devices = claim["spec"].get("devices", {})
        self.constraints = self.devices.get("constraints", [])
        self.choices, self.steps, self.why = [], 0, []

    def run(self):
        """The choices, or None."""
        self.requests = [self.options(request) for request in self.devices.get("requests", [])]
        # Otherwise all choices for the other requests would be tried in vain.
        if not all(any(option.count is not None for option in options) for options in self.requests):
            return None
        return self.choices if self.serve_request(0) else None

    def options(self, request):
        """The ways to serve a request, from the best."""
        if "exactly" in request:
            return [self.option(request["name"], request["exactly"])]
        return [self.option(f"{request['name']}/{one['name']}", one) for one in request["firstAvailable"]]

    def option(self, name, request):
        found = self.classes.get(request["deviceClassName"])
        if found is None:
            raise Unallocatable(f"request {name}: there is no DeviceClass {request['deviceClassName']}")
        selectors = [one["cel"]["expression"] for one in [*found["spec"].get("selectors", []), *request.get("selectors", [])]]
        selected = [candidate for candidate in self.candidates if self.is_selected(name, candidate, selectors)]
        admin = request.get("adminAccess", False)
        usable = [one for one in selected if all(taint["effect"] == "None" or is_tolerated(taint, request.get("tolerations", []))
                                                 for taint in one.device.get("taints", []))]
        everything = request["allocationMode"] == "All"
        self.why.append(f"request {name}: {len(selected)} devices are selected, {len(selected) - len(usable)} of them are tainted, "
                        f"{sum(self.usage.has(one.id) for one in usable)} of the others are in use")
        if everything and len(usable) < len(selected):
            usable = []
        free = [one for one in usable if admin or everything or self.may_be_free(one, request)]
        shared = any(one.device.get("allowMultipleAllocations") for one in free)
        enough = free and (everything or shared or len(free) >= request["count"])
        return Option(name, {**request, "adminAccess": admin}, free,
                      (len(free) if everything else request["count"]) if enough else None)

    def may_be_free(self, candidate, request):
        """Before other requests of the claim take anything."""
        fits, consumed = consume(candidate, request, self.release)
        return fits and self.usage.is_free(candidate, consumed)

    def is_selected(self, name, candidate, selectors):
        try:
            return all(cel.compile_expression(text)(candidate.seen) for text in selectors)
        except cel.CelError as error:
            raise Unallocatable(f"request {name}: a selector fails for the device {candidate.id[2]} of {candidate.id[0]}: "
                                f"{error}") from error

    def serve_request(self, index):
        if index == len(self.requests):
            return True
        return any(option.count is not None and self.choose(index, option, 0, 0) for option in self.requests[index])

    def choose(self, index, option, taken, start):
        """Chooses the rest of the devices of a request, and serves the other requests."""
        if taken == option.count:
            return self.serve_request(index + 1)
        for at in range(start, len(option.candidates)):
            candidate = option.candidates[at]
            if len(self.choices) >= RESULTS_MAX:
                return False
            choice = self.make_choice(option, candidate)
            if choice is None:
                continue
            self.choices.append(choice)
            self.usage.take(choice)
            # A request can have two shares of one device.
            if self.choose(index, option, taken + 1, at if choice.consumed is not None else at + 1):
                return True
            self.usage.give_back(choice)
            self.choices.pop()
        return False

    def make_choice(self, option, candidate):
        self.steps += 1
        if self.steps > STEPS_MAX:
            raise Unallocatable(f"devplug-apiserver has tried {STEPS_MAX} choices in vain and gives up; simplify the claim")
        fits, consumed = consume(candidate, option.request, self.release)
        choice = Choice(candidate, option.name, option.request["adminAccess"], option.request.get("tolerations", []), consumed)
        if not fits or not self.meets_constraints(choice):
            return None
        if choice.admin:
            return choice._replace(consumed=None)
        if not self.usage.is_free(candidate, consumed) or not self.usage.counters_fit(candidate):
            return None
        return choice

    def meets_constraints(self, choice):
        for constraint in self.constraints:
            if not self.is_about(constraint, choice.request):
                continue
            attribute = constraint.get("matchAttribute") or constraint["distinctAttribute"]
            values = find_attribute(choice.candidate, attribute)
            if values is None:
                return False
            others = [find_attribute(other.candidate, attribute) for other in self.choices
                      if self.is_about(constraint, other.request)]
            if "matchAttribute" in constraint and not values.intersection(*others):
                return False
            if "distinctAttribute" in constraint and any(values & other for other in others):
                return False
        return True

    @staticmethod
    def is_about(constraint, name):
        return not constraint.get("requests") or bool({name, name.split("/")[0]} & set(constraint["requests"]))


# --- the result

def write_result(choice):
    driver, pool, device = choice.candidate.id
    found = {"request": choice.request, "driver": driver, "pool": pool, "device": device}
    if choice.admin:
        found["adminAccess"] = True
    if choice.tolerations:
        found["tolerations"] = choice.tolerations
    if choice.consumed is not None:
        found["shareID"] = str(uuid.uuid4())
        capacities = choice.candidate.device.get("capacity", {})
        found["consumedCapacity"] = {name: quantity.write(amount, quantity.read(capacities[name]["value"])[1])
                                     for name, amount in choice.consumed.items()}
    for field in ("bindingConditions", "bindingFailureConditions"):
        if field in choice.candidate.device:
            found[field] = choice.candidate.device[field]
    return found


def write_config(claim, classes, choices, release):
    """Entries of classes come first. Up to 1.36 an entry of a class names its requests; later only if not all requests have the class."""
    config, by_class = [], {}
    devices, chosen = claim["spec"]["devices"], {choice.request for choice in choices}
    for request in devices["requests"]:
        for one in [request.get("exactly")] if "exactly" in request else request["firstAvailable"]:
            name = request["name"] if "exactly" in request else f"{request['name']}/{one['name']}"
            if name in chosen:
                by_class.setdefault(one["deviceClassName"], []).append(name)
    for class_name, names in by_class.items():
        for entry in classes[class_name]["spec"].get("config", []):
            if not release.at_least("1.37"):
                config += [{"source": "FromClass", "requests": [name], **entry} for name in names]
            else:
                config.append({"source": "FromClass", **({} if len(by_class) == 1 else {"requests": names}), **entry})
    return config + [{"source": "FromClaim", **entry} for entry in devices.get("config", [])]


def allocate_on(claim, classes, slices, usage, node, release):
    pools = read_pools(slices, node)
    search = Search(claim, classes, pools, read_candidates(pools, node), usage, release)
    choices = search.run()
    if choices is None:
        faults = [pool.fault for pool in pools if pool.fault]
        raise Unallocatable("; ".join(search.why + faults + (["the constraints exclude the rest"] if search.constraints else [])))
    found = {"devices": {"results": [write_result(choice) for choice in choices]}}
    config = write_config(claim, classes, choices, release)
    if config:
        found["devices"]["config"] = config
    if any(spec.get("nodeName") for choice in choices for spec in choice.candidate.pool.slices):
        found["nodeSelector"] = {"nodeSelectorTerms": [{"matchFields": [
            {"key": "metadata.name", "operator": "In", "values": [node]}]}]}
    return found


def allocate(claim, classes, slices, claims, nodes, release):
    """The status.allocation of a claim, on the first of the nodes where it is possible."""
    slices, reasons = list(slices), []
    if not nodes:
        raise Unallocatable("there is no Node")
    for node in nodes:
        try:
            return allocate_on(claim, classes, slices, Usage(claims, release), node, release)
        except Unallocatable as error:
            reasons.append(f"node {node}: {error}")
    raise Unallocatable("; ".join(reasons))
