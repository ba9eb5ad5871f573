# SPDX-License-Identifier: Apache-2.0
"""The eviction of pods, and the end of pods: what pkg/registry/core/pod/storage/eviction.go does. Whether a budget allows an eviction is
its status.disruptionsAllowed, which no controller updates here: a client sets it."""
from .refusal import Refusal

# Budgets do not apply to an eviction of these.
FREE_PHASES = ("Pending", "Succeeded", "Failed")


def selects(budget, pod):
    """Only matchLabels is known."""
    wanted = budget["spec"].get("selector", {}).get("matchLabels", {})
    labels = pod["metadata"].get("labels", {})
    return budget["metadata"]["namespace"] == pod["metadata"]["namespace"] and all(labels.get(key) == wanted[key] for key in wanted)


def is_running(pod):
    """Whether a kubelet has it, so that its deletion ends when the kubelet has stopped it."""
    return bool(pod.get("spec", {}).get("nodeName")) and pod.get("status", {}).get("phase") not in ("Succeeded", "Failed")


def check_conditions(found, options):
    conditions = (options or {}).get("preconditions") or {}
    for name in ("uid", "resourceVersion"):
        if conditions.get(name, found["metadata"][name]) != found["metadata"][name]:
            raise Refusal(409, f"Precondition failed: {name} in precondition: {conditions[name]}, {name} in object meta: "
                               f"{found['metadata'][name]}")


def take_from_budget(pod, budgets):
    """Returns the budget with one disruption fewer, or None. Refuses the eviction if the budget allows none."""
    found = [budget for budget in budgets if selects(budget, pod)]
    if not found or pod.get("status", {}).get("phase", "Pending") in FREE_PHASES or "deletionTimestamp" in pod["metadata"]:
        return None
    if len(found) > 1:
        raise Refusal(500, "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support.")
    budget, status = found[0], found[0].get("status", {})
    allowed = status.get("disruptionsAllowed", 0)
    if allowed < 0:
        raise Refusal(403, "pdb disruptions allowed is negative")
    if allowed == 0:
        refusal = Refusal(429, "Cannot evict pod as it would violate the pod's disruption budget.")
        refusal.causes = [{"reason": "DisruptionBudget", "message": (
            f"The disruption budget {budget['metadata']['name']} needs {status.get('desiredHealthy', 0)} healthy pods and has "
            f"{status.get('currentHealthy', 0)} currently")}]
        raise refusal
    return {**budget, "metadata": dict(budget["metadata"]), "status": {**status, "disruptionsAllowed": allowed - 1}}
