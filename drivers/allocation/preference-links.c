/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Decides which devices are closest to each other (`prefer = "links"`): the set with the smallest
 * sum of distances. With few units, every set is tried. With more, sets are grown from as many
 * units as the budget of steps allows, which gives a good answer and not always the best. Among
 * equally close sets, the one farthest from the remaining units is taken, so that these stay close
 * to each other, too.
 */
#include "drivers/allocation/preference-choice.h"

/* Every set of that many units is tried: 65536 sums. */
#define EXACT_UNITS_MAX 16
/* Maximum number of steps for growing sets: 50 ms on a slow machine. */
#define STEPS_MAX 20000000ULL

/* Distances for devices without a known link depend on the path between them along the buses. */
#define DISTANCE_BUSES 100
#define BUSES_MAX      32
/* The devices are not even on the same tree of buses. */
#define DISTANCE_APART (DISTANCE_BUSES + BUSES_MAX + 8)
#define DISTANCE_NUMA  50

struct links {
	struct choice *choice;
	size_t n;
	unsigned *distances; /* n * n */
	uint64_t *rest;      /* of each unit, the sum of its distances to all */
};

static void links_done(struct links *links)
{
	free(links->distances);
	free(links->rest);
}

static unsigned known_distance(const struct device *from, const struct device *to)
{
	for (size_t i = 0; i < from->n_distances; i++)
		if (streq(from->distances[i].id, to->id))
			return from->distances[i].distance;
	return 0;
}

static bool share_numa(const struct device *a, const struct device *b)
{
	for (size_t i = 0; i < a->n_numa; i++)
		for (size_t k = 0; k < b->n_numa; k++)
			if (a->numa[i] == b->numa[k])
				return true;
	return a->n_numa == 0 || b->n_numa == 0;
}

static unsigned count_levels(const char *path)
{
	unsigned n = 0;

	for (; *path; path++)
		n += *path == '/';
	return n;
}

/* Counts the directories from each device up to the one that they share. That is at least
 * "/sys/devices", which is not a bus. */
static unsigned bus_distance(const char *a, const char *b)
{
	size_t same = 0, shared = 0;

	for (; a[same] && a[same] == b[same]; same++)
		if (a[same] == '/')
			shared = same;
	if ((!a[same] && b[same] == '/') || (!b[same] && a[same] == '/'))
		shared = same;
	if (!startswith(a, "/sys/devices/") || shared <= strlen("/sys/devices"))
		return DISTANCE_APART;
	return DISTANCE_BUSES +
		MIN_OF(count_levels(a + shared) + count_levels(b + shared), (unsigned)BUSES_MAX);
}

static unsigned distance_of(const struct device *a, const struct device *b)
{
	const char *path_a = device_variable(a, "sysfs"), *path_b = device_variable(b, "sysfs");
	unsigned known = known_distance(a, b) ?: known_distance(b, a);
	unsigned distance = DISTANCE_APART;

	if (known > 0)
		return known;
	if (path_a && path_b)
		distance = bus_distance(path_a, path_b);
	return distance + (share_numa(a, b) ? 0 : DISTANCE_NUMA);
}

static unsigned between(const struct links *links, size_t a, size_t b)
{
	return links->distances[a * links->n + b];
}

static const struct device *unit_device(
	const struct links *links, const struct snapshot *snapshot, size_t index)
{
	return snapshot->units[links->choice->groups[index].next->unit].device;
}

static int measure(struct links *links, const struct snapshot *snapshot)
{
	size_t n = links->n;

	links->distances = calloc(n * n + 1, sizeof(*links->distances));
	links->rest = calloc(n + 1, sizeof(*links->rest));
	if (!links->distances || !links->rest)
		return -ENOMEM;
	for (size_t i = 0; i < n; i++)
		for (size_t k = 0; k < i; k++) {
			unsigned distance = distance_of(
				unit_device(links, snapshot, i), unit_device(links, snapshot, k));

			links->distances[i * n + k] = links->distances[k * n + i] = distance;
			links->rest[i] += distance;
			links->rest[k] += distance;
		}
	return 0;
}

/* The quality of a set of units. The distances within it count twice in the sum of `rest`. */
struct merit {
	uint64_t within; /* less is better */
	uint64_t away;   /* to what stays; more is better */
};

static bool is_better(const struct merit *a, const struct merit *b)
{
	if (a->within != b->within)
		return a->within < b->within;
	return a->away > b->away;
}

/* --- every set --- */

static uint64_t must_set(const struct choice *choice)
{
	uint64_t set = 0;

	for (size_t i = 0; i < choice->n_groups; i++)
		if (choice->groups[i].n_must > 0)
			set |= UINT64_C(1) << i;
	return set;
}

static int best_of_all(const struct links *links, bool *ret_chosen)
{
	size_t n_sets = (size_t)1 << links->n, best = 0;
	_cleanup_free_ uint64_t *within = calloc(n_sets, sizeof(*within));
	uint64_t must = must_set(links->choice);
	struct merit best_merit = { .within = UINT64_MAX };

	if (!within)
		return -ENOMEM;
	for (size_t set = 1; set < n_sets; set++) {
		size_t first = (size_t)__builtin_ctzll(set), others = set & (set - 1);
		struct merit merit = { .within = within[others] };
		size_t n_free = 0;

		for (size_t i = 0; i < links->n; i++) {
			if (!(set >> i & 1))
				continue;
			if (i != first)
				merit.within += between(links, first, i);
			merit.away += links->rest[i];
			n_free += links->choice->groups[i].n_free;
		}
		within[set] = merit.within;
		merit.away -= 2 * merit.within;
		if ((set & must) != must || n_free < links->choice->need ||
			!is_better(&merit, &best_merit))
			continue;
		best_merit = merit;
		best = set;
	}
	for (size_t i = 0; i < links->n; i++)
		ret_chosen[i] = best >> i & 1;
	return 0;
}

/* --- growing sets --- */

struct growth {
	bool *chosen;
	uint64_t *to_set; /* of each unit, its distance to all that are chosen */
	struct merit merit;
	size_t n_free;
	size_t n_chosen;
};

static void grow_by(const struct links *links, struct growth *growth, size_t index)
{
	growth->chosen[index] = true;
	growth->merit.within += growth->to_set[index];
	growth->merit.away += links->rest[index];
	growth->n_free += links->choice->groups[index].n_free;
	growth->n_chosen++;
	for (size_t i = 0; i < links->n; i++)
		growth->to_set[i] += between(links, i, index);
}

static size_t nearest(const struct links *links, const struct growth *growth)
{
	size_t best = SIZE_MAX;

	for (size_t i = 0; i < links->n; i++) {
		if (growth->chosen[i] || links->choice->groups[i].n_free == 0)
			continue;
		if (best == SIZE_MAX || growth->to_set[i] < growth->to_set[best] ||
			(growth->to_set[i] == growth->to_set[best] &&
				links->rest[i] > links->rest[best]))
			best = i;
	}
	return best;
}

/* Begins with what must be included and one more unit, SIZE_MAX for none. */
static void grow(const struct links *links, struct growth *growth, size_t seed)
{
	memset(growth->chosen, 0, links->n * sizeof(*growth->chosen));
	memset(growth->to_set, 0, links->n * sizeof(*growth->to_set));
	growth->merit = (struct merit){ 0 };
	growth->n_free = growth->n_chosen = 0;
	for (size_t i = 0; i < links->n; i++)
		if (links->choice->groups[i].n_must > 0 || i == seed)
			grow_by(links, growth, i);
	while (growth->n_free < links->choice->need)
		grow_by(links, growth, nearest(links, growth));
	growth->merit.away -= 2 * growth->merit.within;
}

static int best_of_grown(const struct links *links, bool *ret_chosen)
{
	size_t n = links->n;
	_cleanup_free_ bool *chosen = calloc(n + 1, sizeof(*chosen));
	_cleanup_free_ uint64_t *to_set = calloc(n + 1, sizeof(*to_set));
	struct growth growth = { .chosen = chosen, .to_set = to_set };
	struct merit best = { .within = UINT64_MAX };
	uint64_t steps = 0;

	if (!chosen || !to_set)
		return -ENOMEM;
	for (size_t seed = 0; seed < n && steps < STEPS_MAX; seed++) {
		if (links->choice->groups[seed].n_free == 0)
			continue;
		grow(links, &growth, seed);
		steps += n * (1 + 2 * growth.n_chosen);
		if (!is_better(&growth.merit, &best))
			continue;
		best = growth.merit;
		memcpy(ret_chosen, chosen, n * sizeof(*chosen));
	}
	return 0;
}

int choose_links(struct choice *choice, const struct snapshot *snapshot)
{
	_cleanup_(links_done) struct links links = { .choice = choice, .n = choice->n_groups };
	_cleanup_free_ bool *chosen = calloc(choice->n_groups + 1, sizeof(*chosen));
	int r;

	if (!chosen)
		return -ENOMEM;
	if (choice->need == 0)
		return 0;
	r = measure(&links, snapshot);
	if (r >= 0)
		r = links.n <= EXACT_UNITS_MAX ? best_of_all(&links, chosen)
					       : best_of_grown(&links, chosen);
	if (r < 0)
		return r;
	for (size_t i = 0; i < choice->n_groups; i++)
		if (!chosen[i])
			choice->groups[i].n_free = 0;
	choose_packed(choice);
	return 0;
}
