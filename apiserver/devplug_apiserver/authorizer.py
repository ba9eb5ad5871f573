# SPDX-License-Identifier: Apache-2.0
"""Who may do what. A user is an administrator, a kubelet with the rights that the Node authorizer and NodeRestriction give, or
has the rights of the ClusterRoles that ClusterRoleBindings give it (RBAC)."""
import collections

from .resources import CLAIMS, NODES, SLICES, full_name

ADMINISTRATORS, NODE_GROUP, ACCOUNTS_GROUP = "system:masters", "system:nodes", "system:serviceaccounts"
NODE_PREFIX, ACCOUNT_PREFIX = "system:node:", "system:serviceaccount:"

# `node`: of the token of a service account, as in authentication.kubernetes.io/node-name; None: the token has none.
User = collections.namedtuple("User", "name groups node", defaults=((), None))
ADMINISTRATOR = User("kubernetes-admin", (ADMINISTRATORS,))

READ, WRITE = ("get", "list", "watch"), ("create", "update", "patch", "delete")
# The rights of the first driver's service account: those of common charts.
DRIVER_RULES = [
    {"apiGroups": [""], "resources": ["nodes"], "verbs": ["get"]},
    {"apiGroups": ["resource.k8s.io"], "resources": ["resourceslices"], "verbs": [*READ, *WRITE]},
    {"apiGroups": ["resource.k8s.io"], "resources": ["resourceclaims"], "verbs": [*READ]},
    {"apiGroups": ["resource.k8s.io"], "resources": ["resourceclaims/status"], "verbs": ["update", "patch"]},
    {"apiGroups": ["resource.k8s.io"], "resources": ["resourceclaims/driver"],
     "verbs": ["associated-node:update", "associated-node:patch"]},
    {"apiGroups": ["", "events.k8s.io"], "resources": ["events"], "verbs": ["create", "patch"]},
]

# What is asked for. `fields`: of the field selector; `new`, `old`: the object, None: there is none.
Question = collections.namedtuple("Question", "verb place fields new old")


def user_of(name, node=None):
    """A user by its name alone."""
    if name.startswith(ACCOUNT_PREFIX):
        namespace = name[len(ACCOUNT_PREFIX):].partition(":")[0]
        return User(name, (ACCOUNTS_GROUP, f"{ACCOUNTS_GROUP}:{namespace}"), node)
    return User(name, (NODE_GROUP,) if name.startswith(NODE_PREFIX) else ())


def is_subject(user, subject):
    """Whether a subject of a binding is the user."""
    kind, name = subject.get("kind"), subject.get("name")
    if kind == "ServiceAccount":
        return user.name == f"{ACCOUNT_PREFIX}{subject.get('namespace')}:{name}"
    return kind == "Group" and name in user.groups or kind == "User" and name == user.name


def rules_of(user, roles, bindings):
    """The rules of the ClusterRoles that are bound to a user. `roles`: by name; `bindings`: ClusterRoleBindings."""
    found = []
    for binding in bindings:
        role, reference = None, binding.get("roleRef", {})
        if reference.get("kind") == "ClusterRole" and any(is_subject(user, one) for one in binding.get("subjects") or []):
            role = roles.get(reference.get("name"))
        found += (role or {}).get("rules") or []
    return found


def nodes_of(claim):
    """The nodes to which the allocation of a claim is bound."""
    terms = claim.get("status", {}).get("allocation", {}).get("nodeSelector", {}).get("nodeSelectorTerms", [])
    return {value for term in terms for field in term.get("matchFields", []) if field["key"] == "metadata.name"
            for value in field.get("values", [])}


def is_used_on(claim, node):
    """Whether a pod of the node uses the claim. Who reserved it stands for the pod."""
    names = nodes_of(claim)
    return bool(claim.get("status", {}).get("reservedFor")) and (not names or node in names)


def check_node_slices(question, node):
    if question.verb in ("list", "watch", "deletecollection"):
        if question.fields.get("spec.nodeName") != node:
            return "can only list/watch/deletecollection resourceslices with spec.nodeName field selector"
        return None
    for found in (question.new, question.old):
        if found is not None and found.get("spec", {}).get("nodeName") != node:
            return f"no relationship found between node '{node}' and this object" if found is question.old else (
                f"can only {question.verb} ResourceSlice with the same NodeName as the requesting node")
    if question.new is None and question.old is None:
        return f"no relationship found between node '{node}' and this object"
    return None


def check_node_pods(question, node):
    if question.verb in READ and not question.place.subresource:
        return None
    evicts = question.place.subresource == "eviction" and question.verb == "create"
    if not evicts and (question.place.subresource or question.verb != "delete"):
        return ""
    # The authorizer does not know which pods there are; then the answer is 404.
    if question.old and question.old.get("spec", {}).get("nodeName") != node:
        return f"node \"{node}\" can only {'evict' if evicts else 'delete'} pods with spec.nodeName set to itself"
    return None


def check_node(question, node):
    place = question.place
    if place.resource is SLICES:
        return check_node_slices(question, node)
    if place.resource is NODES:
        allowed = place.name == node and question.verb in ("get", "update", "patch")
        return None if allowed else f"node '{node}' cannot {question.verb} this node"
    if place.resource is CLAIMS:
        allowed = question.verb == "get" and not place.subresource and question.old and is_used_on(question.old, node)
        return None if allowed else f"no relationship found between node '{node}' and this object"
    if place.resource.plural == "events":
        return None if question.verb in ("create", "update", "patch") else ""
    if place.resource.plural == "pods":
        return check_node_pods(question, node)
    return ""


def name_of(place):
    """As a rule names it."""
    return f"{place.resource.plural}/{place.subresource}" if place.subresource else place.resource.plural


def has(words, word):
    return word in words or "*" in words


def changed_drivers(old, new):
    """The drivers whose entries in status.devices differ."""
    before, now = (found.get("status", {}).get("devices", []) for found in (old, new))
    return {device.get("driver") for list_, other in ((before, now), (now, before)) for device in list_ if device not in other}


def driver_refusal_of(user, question, rules):
    """Kubernetes 1.36 (DRAResourceClaimGranularStatusAuthorization): who writes the status of devices needs a right for their
    driver, which is a lesser one if the user's token belongs to the node of the claim. None: it is allowed."""
    if question.place.resource is not CLAIMS or question.place.subresource != "status" or question.old is None:
        return None
    if ADMINISTRATORS in user.groups:
        return None
    scopes = ["associated-node", "arbitrary-node"] if user.node and nodes_of(question.old) == {user.node} else ["arbitrary-node"]
    for driver in sorted(changed_drivers(question.old, question.new)):
        place = question.place._replace(subresource="driver", name=driver)
        asked = [question._replace(verb=f"{scope}:{question.verb}", place=place) for scope in scopes]
        if not any(is_allowed(rule, one) for rule in rules for one in asked):
            return (f"resourceclaims.resource.k8s.io \"{question.place.name}\" is forbidden: User \"{user.name}\" cannot "
                    f"{asked[-1].verb} resource \"resourceclaims/driver\" named \"{driver}\" in API group \"resource.k8s.io\"")
    return None


def is_allowed(rule, question):
    place = question.place
    return (has(rule.get("apiGroups", ()), place.resource.group) and has(rule.get("resources", ()), name_of(place))
            and has(rule.get("verbs", ()), question.verb)
            and (not rule.get("resourceNames") or place.name in rule["resourceNames"]))


def check_rules(question, user, rules):
    if not any(is_allowed(rule, question) for rule in rules):
        return ""
    if user.node and question.place.resource is SLICES and question.verb in WRITE:
        # The policy that drivers ship: the token's node is the slice's.
        names = {found.get("spec", {}).get("nodeName") for found in (question.new, question.old) if found is not None}
        if names - {user.node}:
            return f"ValidatingAdmissionPolicy denied request: the token is bound to the node {user.node}"
    return None


def refusal_of(user, question, rules):
    """None: it is allowed; else the message. `rules`: those of rules_of()."""
    if ADMINISTRATORS in user.groups:
        return None
    if user.name.startswith(NODE_PREFIX) and NODE_GROUP in user.groups:
        why = check_node(question, user.name[len(NODE_PREFIX):])
    else:
        why = check_rules(question, user, rules)
    if why is None:
        return None
    place = question.place
    scope = f"in the namespace \"{place.namespace}\"" if place.namespace else "at the cluster scope"
    object_ = f"{full_name(place.resource)} \"{place.name}\"" if place.name else full_name(place.resource)
    return (f"{object_} is forbidden: User \"{user.name}\" cannot {question.verb} resource \"{name_of(place)}\" in API group "
            f"\"{place.resource.group}\" {scope}{': ' if why else ''}{why}")
