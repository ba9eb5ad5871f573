/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Decides on which NUMA nodes the devices of a container should be, and whether a pod is refused
 * because they cannot be there. This is the topology manager, with hints from the device manager
 * only. The rules are from pkg/kubelet/cm/topologymanager and devicemanager/topology_hints.go.
 */

#include "common/util.h"

struct error;
struct model;
struct pod;

/* As many as a kubelet accepts without further options. */
#define TOPOLOGY_MAX_NODES 8

enum topology_policy {
	TOPOLOGY_NONE, /* no provider is asked */
	TOPOLOGY_BEST_EFFORT,
	TOPOLOGY_RESTRICTED,
	TOPOLOGY_SINGLE_NUMA_NODE,
};

enum topology_scope {
	TOPOLOGY_SCOPE_CONTAINER, /* each container has nodes of its own */
	TOPOLOGY_SCOPE_POD,       /* all containers of a pod share the same nodes */
};

struct topology_rules {
	enum topology_policy policy;
	enum topology_scope scope;
	unsigned n_nodes; /* of the machine, numbered from 0; 1 to TOPOLOGY_MAX_NODES */
};

/* One provider's hint, and the result of merging all hints. */
struct topology_hint {
	bool aligned;   /* `nodes` counts; otherwise any node is accepted */
	bool preferred; /* no smaller set of nodes could be enough */
	uint64_t nodes; /* bit n: node n */
};

/* The kubelet's message for a refused pod. */
#define TOPOLOGY_REASON  "TopologyAffinityError"
#define TOPOLOGY_MESSAGE "Resources cannot be allocated with Topology locality"

/* Finds the nodes for a container of the pod, before its devices are chosen, and stores them in it;
 * containers are handled in their order. Devices that are already recorded, because the kubelet was
 * restarted, count as they are listed now. Returns 1, 0 if the policy refuses the pod, -ENOMEM, or
 * -EFAULT if a kubelet of this release panics; the message contains the cause. */
int topology_admit(
	const struct model *model, struct pod *pod, size_t container, struct error *error);

/* Applies the policy to the hints of `n` resources: `hints[i]` are the `n_hints[i]` hints of one of
 * them. Returns whether the pod is admitted; `ret` is set in any case. */
bool topology_merge(const struct topology_rules *rules, struct topology_hint *const *hints,
	const size_t *n_hints, size_t n, struct topology_hint *ret);

/* -EINVAL if it is none. */
int topology_policy_from_string(const char *text, enum topology_policy *ret);
const char *topology_policy_to_string(enum topology_policy policy);
int topology_scope_from_string(const char *text, enum topology_scope *ret);
const char *topology_scope_to_string(enum topology_scope scope);
