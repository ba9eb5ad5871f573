/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Merges hints: one hint of every resource is taken, their nodes are intersected, and the best of
 * all combinations is used. The kubelet tries all combinations. The result depends only on the
 * intersection and on whether all hints agree and are preferred, so it is enough to know which
 * outcomes can be reached.
 */
#include "kubelet/topology.h"

#define N_MASKS (1U << TOPOLOGY_MAX_NODES)

/* Outcomes of combining the hints of the resources so far. */
struct outcomes {
	bool open[2];           /* no resource named nodes; [1]: all hints are preferred */
	bool nodes[2][N_MASKS]; /* [1]: all are preferred and name the same nodes */
};

static const char *const policy_names[] = {
	[TOPOLOGY_NONE] = "none",
	[TOPOLOGY_BEST_EFFORT] = "best-effort",
	[TOPOLOGY_RESTRICTED] = "restricted",
	[TOPOLOGY_SINGLE_NUMA_NODE] = "single-numa-node",
};

static const char *const scope_names[] = {
	[TOPOLOGY_SCOPE_CONTAINER] = "container",
	[TOPOLOGY_SCOPE_POD] = "pod",
};

int topology_policy_from_string(const char *text, enum topology_policy *ret)
{
	for (size_t i = 0; i < ARRAY_SIZE(policy_names); i++)
		if (streq(policy_names[i], text)) {
			*ret = (enum topology_policy)i;
			return 0;
		}
	return -EINVAL;
}

const char *topology_policy_to_string(enum topology_policy policy)
{
	return policy_names[policy];
}

int topology_scope_from_string(const char *text, enum topology_scope *ret)
{
	for (size_t i = 0; i < ARRAY_SIZE(scope_names); i++)
		if (streq(scope_names[i], text)) {
			*ret = (enum topology_scope)i;
			return 0;
		}
	return -EINVAL;
}

const char *topology_scope_to_string(enum topology_scope scope)
{
	return scope_names[scope];
}

static size_t count(uint64_t nodes)
{
	return (size_t)__builtin_popcountll(nodes);
}

/* Whether `a` has fewer nodes than `b`, or as many with lower numbers. */
static bool is_narrower(uint64_t a, uint64_t b)
{
	return count(a) == count(b) ? a < b : count(a) < count(b);
}

static void combine(
	const struct outcomes *from, const struct topology_hint *hint, struct outcomes *to)
{
	for (unsigned preferred = 0; preferred < 2; preferred++) {
		bool both = preferred && hint->preferred;

		if (from->open[preferred] && hint->aligned)
			to->nodes[both][hint->nodes] = true;
		else if (from->open[preferred])
			to->open[both] = true;
		for (uint64_t nodes = 0; nodes < N_MASKS; nodes++) {
			if (!from->nodes[preferred][nodes])
				continue;
			if (hint->aligned)
				to->nodes[both && hint->nodes == nodes][nodes & hint->nodes] = true;
			else
				to->nodes[both][nodes] = true;
		}
	}
}

/* Whether the candidate replaces the best one so far. `enough` is the largest number of nodes that
 * any resource needs; without a preferred outcome, the result should have as many. */
static bool is_better(
	const struct topology_hint *candidate, const struct topology_hint *best, size_t enough)
{
	size_t n = count(candidate->nodes), n_best = count(best->nodes);

	if (candidate->preferred != best->preferred)
		return candidate->preferred;
	if (best->preferred || n_best > enough || n == n_best)
		return is_narrower(candidate->nodes, best->nodes);
	return n_best < enough && n <= enough && n > n_best;
}

static bool is_usable(enum topology_policy policy, const struct topology_hint *hint)
{
	if (policy != TOPOLOGY_SINGLE_NUMA_NODE)
		return true;
	return hint->preferred && (!hint->aligned || count(hint->nodes) == 1);
}

/* The largest of the minimum numbers of nodes that the resources need. */
static size_t find_enough(enum topology_policy policy, struct topology_hint *const *hints,
	const size_t *n_hints, size_t n)
{
	size_t enough = 0;

	for (size_t i = 0; i < n; i++) {
		size_t least = 0;

		for (size_t k = 0; k < n_hints[i]; k++) {
			const struct topology_hint *hint = &hints[i][k];

			if (is_usable(policy, hint) && hint->aligned &&
				(least == 0 || count(hint->nodes) < least))
				least = count(hint->nodes);
		}
		enough = MAX_OF(enough, least);
	}
	return enough;
}

static void find_best(
	const struct outcomes *outcomes, uint64_t all, size_t enough, struct topology_hint *ret)
{
	struct topology_hint best = { .aligned = true, .nodes = all };
	bool found = false;

	for (unsigned preferred = 0; preferred < 2; preferred++)
		for (uint64_t nodes = 1; nodes <= all; nodes++) {
			const struct topology_hint candidate = {
				.aligned = true, .preferred = preferred == 1, .nodes = nodes
			};

			if (!outcomes->nodes[preferred][nodes] &&
				!(nodes == all && outcomes->open[preferred]))
				continue;
			if (!found || is_better(&candidate, &best, enough))
				best = candidate;
			found = true;
		}
	*ret = best;
}

bool topology_merge(const struct topology_rules *rules, struct topology_hint *const *hints,
	const size_t *n_hints, size_t n, struct topology_hint *ret)
{
	uint64_t all = (1ULL << rules->n_nodes) - 1;
	struct outcomes outcomes = { .open = { false, true } };

	for (size_t i = 0; i < n; i++) {
		struct outcomes next = {};

		for (size_t k = 0; k < n_hints[i]; k++)
			if (is_usable(rules->policy, &hints[i][k]))
				combine(&outcomes, &hints[i][k], &next);
		outcomes = next;
	}
	find_best(&outcomes, all, find_enough(rules->policy, hints, n_hints, n), ret);
	if (rules->policy != TOPOLOGY_SINGLE_NUMA_NODE)
		return ret->preferred || rules->policy == TOPOLOGY_BEST_EFFORT;
	/* All nodes together are not an alignment, even if the machine has only one. */
	if (ret->nodes == all)
		ret->aligned = false;
	return ret->preferred;
}
