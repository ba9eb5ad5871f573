# SPDX-License-Identifier: Apache-2.0
"""Who may do what. A user is an administrator, a kubelet with the rights that the Node authorizer and NodeRestriction give, or
the service account of a driver with the rights of the common charts."""
import collections

from .resources import CLAIMS, NODES, SLICES, full_name

ADMINISTRATORS, NODE_GROUP = "system:masters", "system:nodes"
NODE_PREFIX, ACCOUNT_PREFIX = "system:node:", "system:serviceaccount:"

# `node`: of the token of a service account, as in authentication.kubernetes.io/node-name; None: the token has none.
User = collections.namedtuple("User", "name groups node", defaults=((), None))
ADMINISTRATOR = User("kubernetes-admin", (ADMINISTRATORS,))

READ, WRITE = ("get", "list", "watch"), ("create", "update", "patch", "delete")
# The verbs of a driver's service account, by the resource.
DRIVER_RULES = {"nodes": ("get",), "resourceslices": READ + WRITE, "resourceclaims": READ, "resourceclaims/status": ("update", "patch"),
                "events": ("create", "patch")}

# What is asked for. `fields`: of the field selector; `new`, `old`: the object, None: there is none.
Question = collections.namedtuple("Question", "verb place fields new old")


def user_of(name):
    """A user by its name alone."""
    return User(name, (NODE_GROUP,) if name.startswith(NODE_PREFIX) else ())


def is_used_on(claim, node):
    """Whether a pod of the node uses the claim. Who reserved it stands for the pod."""
    status = claim.get("status", {})
    terms = status.get("allocation", {}).get("nodeSelector", {}).get("nodeSelectorTerms", [])
    names = [value for term in terms for field in term.get("matchFields", []) if field["key"] == "metadata.name"
             for value in field.get("values", [])]
    return bool(status.get("reservedFor")) and (not terms or node in names)


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
        return None if question.verb in READ else ""
    return ""


def name_of(place):
    """As a rule names it."""
    return f"{place.resource.plural}/{place.subresource}" if place.subresource else place.resource.plural


def check_account(question, node):
    place = question.place
    if question.verb not in DRIVER_RULES.get(name_of(place), ()):
        return ""
    if place.resource is SLICES and question.verb in WRITE:
        # The policy that drivers ship: the token's node is the slice's.
        names = {found.get("spec", {}).get("nodeName") for found in (question.new, question.old) if found is not None}
        if names - {node}:
            return f"ValidatingAdmissionPolicy denied request: the token is bound to the node {node}"
    return None


def refusal_of(user, question):
    """None: it is allowed; else the message."""
    if ADMINISTRATORS in user.groups:
        return None
    if user.name.startswith(NODE_PREFIX) and NODE_GROUP in user.groups:
        why = check_node(question, user.name[len(NODE_PREFIX):])
    elif user.name.startswith(ACCOUNT_PREFIX):
        why = check_account(question, user.node)
    else:
        why = ""
    if why is None:
        return None
    place = question.place
    scope = f"in the namespace \"{place.namespace}\"" if place.namespace else "at the cluster scope"
    object_ = f"{full_name(place.resource)} \"{place.name}\"" if place.name else full_name(place.resource)
    return (f"{object_} is forbidden: User \"{user.name}\" cannot {question.verb} resource \"{name_of(place)}\" in API group "
            f"\"{place.resource.group}\" {scope}{': ' if why else ''}{why}")
