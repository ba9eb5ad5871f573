/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Decides which devices are preferred for a container, by `prefer`. The available ids are grouped
 * by unit and the groups are sorted, which costs a few sorts for any number of ids. Ties are
 * decided by the place in the snapshot, so the same request always has the same answer. Ids that
 * must be included come first, and their units and NUMA nodes are preferred.
 */
#include "drivers/allocation/preference.h"

#include "drivers/allocation/preference-choice.h"

/* Every set of that many NUMA nodes is tried; with more of them the best node is added each time.
 */
#define NUMA_EXACT_MAX 10
/* Bits of a set. Further nodes share the last one. */
#define NUMA_SET_MAX 64

static void choice_done(struct choice *choice)
{
	free(choice->candidates);
	free(choice->groups);
}

static int compare_candidates(const void *a, const void *b)
{
	const struct candidate *x = a, *y = b;

	if (x->unit != y->unit)
		return x->unit < y->unit ? -1 : 1;
	return (x->replica > y->replica) - (x->replica < y->replica);
}

/* Keeps the candidates this resource offers, each once. */
static int find_candidates(struct choice *choice, const struct snapshot *snapshot,
	const char *const *available, size_t n_available)
{
	size_t n = 0;

	choice->candidates = calloc(n_available + 1, sizeof(*choice->candidates));
	if (!choice->candidates)
		return -ENOMEM;
	for (size_t i = 0; i < n_available; i++) {
		struct candidate *candidate = &choice->candidates[n];

		candidate->id = available[i];
		if (snapshot_find(snapshot, available[i], &candidate->unit, &candidate->replica) >=
			0)
			n++;
	}
	qsort(choice->candidates, n, sizeof(*choice->candidates), compare_candidates);
	for (size_t i = 0; i < n; i++)
		if (i == 0 ||
			compare_candidates(&choice->candidates[i - 1], &choice->candidates[i]) != 0)
			choice->candidates[choice->n_candidates++] = choice->candidates[i];
	return 0;
}

static int mark_must(struct choice *choice, const struct snapshot *snapshot,
	const char *const *must, size_t n_must)
{
	for (size_t i = 0; i < n_must; i++) {
		struct candidate key, *candidate;

		if (snapshot_find(snapshot, must[i], &key.unit, &key.replica) < 0)
			return -ENOENT;
		candidate = bsearch(&key, choice->candidates, choice->n_candidates, sizeof(key),
			compare_candidates);
		if (!candidate)
			return -ENOENT;
		choice->n_must += !candidate->must;
		candidate->must = true;
	}
	return 0;
}

/* A unit that is not healthy is chosen last. The kubelet offers one while it is listed as healthy
 * for pods that are admitted again, or if its list is not the newest. Returns whether there is one.
 */
static bool put_unhealthy_last(struct choice *choice, const struct snapshot *snapshot, size_t size)
{
	size_t n = 0;

	for (size_t i = 0; i < choice->n_candidates; i++)
		n += choice->candidates[i].must ||
			snapshot->units[choice->candidates[i].unit].healthy;
	if (n == choice->n_candidates)
		return false;
	if (n < size) {
		for (size_t i = 0; i < choice->n_candidates; i++)
			choice->candidates[i].must |=
				snapshot->units[choice->candidates[i].unit].healthy;
		choice->n_must = n;
		return true;
	}
	n = 0;
	for (size_t i = 0; i < choice->n_candidates; i++)
		if (choice->candidates[i].must ||
			snapshot->units[choice->candidates[i].unit].healthy)
			choice->candidates[n++] = choice->candidates[i];
	choice->n_candidates = n;
	return true;
}

/* Distinct NUMA node numbers; each is identified by its index here. */
struct node_names {
	int numbers[NUMA_SET_MAX];
	size_t count;
};

static uint64_t node_set(struct node_names *names, const struct device *device)
{
	uint64_t set = 0;

	for (size_t i = 0; i < device->n_numa; i++) {
		size_t k = 0;

		while (k < names->count && names->numbers[k] != device->numa[i])
			k++;
		if (k == names->count && k < NUMA_SET_MAX)
			names->numbers[names->count++] = device->numa[i];
		set |= UINT64_C(1) << MIN_OF(k, (size_t)NUMA_SET_MAX - 1);
	}
	return set;
}

static int make_groups(
	struct choice *choice, const struct snapshot *snapshot, struct node_names *names)
{
	struct group *group = NULL;

	choice->groups = calloc(choice->n_candidates + 1, sizeof(*choice->groups));
	if (!choice->groups)
		return -ENOMEM;
	for (size_t i = 0; i < choice->n_candidates; i++) {
		struct candidate *candidate = &choice->candidates[i];

		if (i == 0 || candidate->unit != candidate[-1].unit) {
			group = &choice->groups[choice->n_groups++];
			group->next = candidate;
			group->nodes = node_set(names, snapshot->units[candidate->unit].device);
		}
		group->end = candidate + 1;
		group->n_must += candidate->must;
		group->n_free += !candidate->must;
	}
	return 0;
}

/* The card of a device: the physical function of a virtual one, or the PCI function that has
 * several devices. Any other device is its own card. */
static const char *parent_of(const struct device *device)
{
	const char *pf = device_variable(device, "pf"), *bdf = device_variable(device, "bdf");

	if (pf && *pf)
		return pf;
	return bdf && *bdf ? bdf : device->id;
}

/* One candidate of a unit. Turns with equal `round` contain one candidate of each unit; among
 * these, turns with equal `parent_round` contain one of each parent. */
struct turn {
	struct group *group;
	const char *parent;
	size_t round; /* how many of the unit are chosen earlier */
	size_t parent_round;
	size_t n_offered, n_parent_offered;
	bool must;
};

static int compare_numbers(size_t x, size_t y)
{
	return (x > y) - (x < y);
}

/* As if no other parent were there. */
static int compare_siblings(const void *a, const void *b)
{
	const struct turn *x = a, *y = b;
	int r = strcmp(x->parent, y->parent);

	if (r == 0)
		r = compare_numbers(!x->must, !y->must);
	if (r == 0)
		r = compare_numbers(x->round, y->round);
	if (r == 0)
		r = compare_numbers(y->n_offered, x->n_offered);
	return r != 0 ? r : (x->group > y->group) - (x->group < y->group);
}

static int compare_turns(const void *a, const void *b)
{
	const struct turn *x = a, *y = b;
	int r = compare_numbers(x->round, y->round);

	if (r == 0)
		r = compare_numbers(x->parent_round, y->parent_round);
	if (r == 0)
		r = compare_numbers(y->n_parent_offered, x->n_parent_offered);
	if (r == 0)
		r = compare_numbers(y->n_offered, x->n_offered);
	return r != 0 ? r : (x->group > y->group) - (x->group < y->group);
}

static void number_siblings(struct turn *turns, size_t n)
{
	qsort(turns, n, sizeof(*turns), compare_siblings);
	for (size_t first = 0, end = 0; first < n; first = end) {
		while (end < n && streq(turns[end].parent, turns[first].parent))
			end++;
		for (size_t i = first; i < end; i++) {
			turns[i].parent_round = i - first;
			turns[i].n_parent_offered = end - first;
		}
	}
}

/* Chooses one id of each unit before a second one of any, and one of each parent before a second
 * one of any; the least used units come first. Or chooses one of each unit, in their order. */
static int choose_spread(struct choice *choice, const struct snapshot *snapshot, bool in_order)
{
	_cleanup_free_ struct turn *turns = calloc(choice->n_candidates + 1, sizeof(*turns));
	size_t n = 0;

	if (!turns)
		return -ENOMEM;
	for (size_t i = 0; i < choice->n_groups; i++) {
		struct group *group = &choice->groups[i];
		const struct device *device = snapshot->units[group->next->unit].device;
		size_t n_offered = group->n_must + group->n_free;

		for (size_t k = 0; k < n_offered; k++)
			turns[n++] = (struct turn){
				.group = group,
				.parent = parent_of(device),
				.round = k,
				.n_offered = in_order ? 0 : n_offered,
				.must = k < group->n_must,
			};
	}
	if (!in_order)
		number_siblings(turns, n);
	qsort(turns, n, sizeof(*turns), compare_turns);
	for (size_t i = 0; choice->need > 0; i++)
		if (!turns[i].must)
			choice_take(choice, turns[i].group, 1);
	return 0;
}

/* How many may be chosen if only these nodes are used. */
static size_t free_within(const struct choice *choice, uint64_t nodes)
{
	size_t n = 0;

	for (size_t i = 0; i < choice->n_groups; i++)
		if (!(choice->groups[i].nodes & ~nodes))
			n += choice->groups[i].n_free;
	return n;
}

static uint64_t best_nodes_exact(const struct choice *choice, uint64_t base, size_t n_nodes)
{
	size_t free_of_set[1 << NUMA_EXACT_MAX] = { 0 }, best_free = SIZE_MAX;
	uint64_t best = UINT64_MAX;

	for (size_t i = 0; i < choice->n_groups; i++)
		free_of_set[choice->groups[i].nodes] += choice->groups[i].n_free;
	for (uint64_t set = 0; set < UINT64_C(1) << n_nodes; set++) {
		int size = __builtin_popcountll(set), best_size = __builtin_popcountll(best);
		size_t n = free_of_set[0];

		if ((set & base) != base || size > best_size)
			continue;
		for (uint64_t subset = set; subset > 0; subset = (subset - 1) & set)
			n += free_of_set[subset];
		/* Among sets of as few nodes, prefers the set with the fewest remaining ids. */
		if (n < choice->need || (size == best_size && n >= best_free))
			continue;
		best = set;
		best_free = n;
	}
	return best;
}

static uint64_t best_nodes_greedy(const struct choice *choice, uint64_t base, size_t n_nodes)
{
	uint64_t nodes = base;

	while (free_within(choice, nodes) < choice->need) {
		uint64_t best = nodes;
		size_t best_free = 0;

		for (size_t i = 0; i < n_nodes; i++) {
			uint64_t more = nodes | UINT64_C(1) << i;
			size_t n = more == nodes ? 0 : free_within(choice, more) + 1;

			if (n > best_free) {
				best = more;
				best_free = n;
			}
		}
		nodes = best;
	}
	return nodes;
}

/* Chooses from as few NUMA nodes as possible, packed within them. */
static void choose_numa(struct choice *choice, const struct node_names *names)
{
	uint64_t base = 0, nodes;

	for (size_t i = 0; i < choice->n_groups; i++)
		if (choice->groups[i].n_must > 0)
			base |= choice->groups[i].nodes;
	if (names->count <= NUMA_EXACT_MAX)
		nodes = best_nodes_exact(choice, base, names->count);
	else
		nodes = best_nodes_greedy(choice, base, names->count);
	for (size_t i = 0; i < choice->n_groups; i++)
		if (choice->groups[i].nodes & ~nodes)
			choice->groups[i].n_free = 0;
	choose_packed(choice);
}

static int choose(struct choice *choice, int preference, const struct snapshot *snapshot,
	const struct node_names *names)
{
	for (size_t i = 0; i < choice->n_candidates; i++)
		if (choice->candidates[i].must)
			choice->ids[choice->n_ids++] = choice->candidates[i].id;
	switch (preference) {
	case PREFER_PACKED:
		choose_packed(choice);
		return 0;
	case PREFER_SPREAD:
		return choose_spread(choice, snapshot, false);
	case PREFER_DISTINCT:
		return choose_spread(choice, snapshot, true);
	case PREFER_LINKS:
		if (choice->n_groups <= LINKED_UNITS_MAX)
			return choose_links(choice, snapshot);
		choose_numa(choice, names); /* the nearest to it */
		return 0;
	case PREFER_NUMA:
		choose_numa(choice, names);
		return 0;
	default:
		choose_first(choice);
		return 0;
	}
}

size_t preference_choose(const struct declaration *declaration, const struct snapshot *snapshot,
	const char *const *available, size_t n_available, const char *const *must, size_t n_must,
	size_t size, const char **ret)
{
	_cleanup_(choice_done) struct choice choice = { .ids = ret };
	struct node_names names = { 0 };

	if (find_candidates(&choice, snapshot, available, n_available) < 0 ||
		mark_must(&choice, snapshot, must, n_must) < 0)
		return 0;
	if (size > choice.n_candidates || size < choice.n_must)
		return 0;
	if (!put_unhealthy_last(&choice, snapshot, size) && declaration->prefer == PREFER_NONE)
		return 0;
	choice.need = size - choice.n_must;
	if (make_groups(&choice, snapshot, &names) < 0 ||
		choose(&choice, declaration->prefer, snapshot, &names) < 0)
		return 0;
	return choice.n_ids;
}
