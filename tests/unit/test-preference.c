/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Preferences against a search of all possible answers, at sizes where that is possible, and the
 * requests that make no sense.
 * docs/complaints.md: R6, W7.
 */
#include "host-fixture.h"

#include "drivers/preference.h"

#define UNITS_MAX 200000

static struct device **devices;
static struct snapshot snapshot;
static struct declaration declaration;
static bool know_links;

static unsigned distance(size_t a, size_t b);

/* `numa[i]` is a set of nodes; NULL: none have any. */
static void make(size_t n_units, unsigned replicas, const unsigned *numa)
{
	devices = calloc(n_units, sizeof(*devices));
	snapshot = (struct snapshot){
		.shared = replicas > 1,
		.units = calloc(n_units, sizeof(*snapshot.units)),
		.n_units = n_units,
	};
	assert_non_null(devices);
	assert_non_null(snapshot.units);
	for (size_t i = 0; i < n_units; i++) {
		char id[32];

		(void)snprintf(id, sizeof(id), "u%06zu", i);
		assert_int_equal(device_new(id, &devices[i]), 0);
		for (int k = 0; numa && k < 8; k++)
			if (numa[i] & 1U << k)
				assert_int_equal(device_add_numa(devices[i], k), 0);
		for (size_t k = 0; know_links && k < i; k++)
			assert_int_equal(
				device_add_distance(devices[i], devices[k]->id, distance(i, k)), 0);
		snapshot.units[i] = (struct snapshot_unit){
			.device = devices[i], .replicas = replicas, .present = true, .healthy = true
		};
	}
}

static void unmake(void)
{
	for (size_t i = 0; i < snapshot.n_units; i++)
		(void)device_unref(devices[i]);
	free(devices);
	free(snapshot.units);
}

static unsigned random_state = 1;

static unsigned roll(unsigned sides)
{
	random_state = random_state * 1103515245 + 12345;
	return (random_state >> 16) % sides;
}

struct question {
	char ids[16][OFFERED_ID_MAX + 1];
	const char *available[16];
	size_t units[16];
	size_t n;
	unsigned must; /* set of positions in `available` */
	const char *must_ids[16];
	size_t n_must;
	size_t size;
};

static void ask(struct question *question, size_t n_units, unsigned replicas)
{
	*question = (struct question){ 0 };
	for (size_t i = 0; i < n_units; i++)
		for (unsigned k = 0; k < replicas; k++) {
			size_t n = question->n;

			if (roll(4) == 0)
				continue;
			snapshot_offered_id(&snapshot, i, k, question->ids[n]);
			question->units[n] = i;
			question->available[n] = question->ids[n];
			question->n++;
			if (roll(8) == 0) {
				question->must |= 1U << n;
				question->must_ids[question->n_must++] = question->ids[n];
			}
		}
	question->size = question->n_must;
	if (question->n > question->n_must)
		question->size += roll((unsigned)(question->n - question->n_must) + 1);
	/* The order in which they are named must not matter. */
	for (size_t i = question->n; i > 1; i--) {
		size_t k = roll((unsigned)i);
		const char *other = question->available[i - 1];

		question->available[i - 1] = question->available[k];
		question->available[k] = other;
	}
}

/* How good an answer is, given as a set of positions in `ids`; less is better. */
typedef unsigned (*cost_function)(
	const struct question *question, unsigned set, const unsigned *numa);

static unsigned unit_set(const struct question *question, unsigned set)
{
	unsigned units = 0;

	for (size_t i = 0; i < question->n; i++)
		if (set & 1U << i)
			units |= 1U << question->units[i];
	return units;
}

static unsigned cost_packed(const struct question *question, unsigned set, const unsigned *numa)
{
	return (unsigned)__builtin_popcount(unit_set(question, set));
}

static unsigned cost_spread(const struct question *question, unsigned set, const unsigned *numa)
{
	return 100 - cost_packed(question, set, numa);
}

static unsigned cost_numa(const struct question *question, unsigned set, const unsigned *numa)
{
	unsigned units = unit_set(question, set), nodes = 0;

	for (size_t i = 0; units >> i; i++)
		if (units & 1U << i)
			nodes |= numa[i];
	return (unsigned)__builtin_popcount(nodes);
}

static unsigned answer_set(const struct question *question, const char *const *answer, size_t n)
{
	unsigned set = 0;

	for (size_t i = 0; i < n; i++)
		for (size_t k = 0; k < question->n; k++)
			if (streq(answer[i], question->ids[k])) {
				assert_false(set & 1U << k);
				set |= 1U << k;
			}
	return set;
}

static void check_against_all(int preference, cost_function cost, unsigned rounds)
{
	declaration = (struct declaration){ .prefer = preference };
	for (unsigned round = 0; round < rounds; round++) {
		size_t n_units = 1 + roll(6);
		unsigned replicas = 1 + roll(n_units > 4 ? 2 : 3), numa[8], best = UINT32_MAX, set;
		const char *answer[16], *again[16];
		struct question question;

		for (size_t i = 0; i < n_units; i++)
			numa[i] = roll(4) == 0 ? roll(16) : 1U << roll(4);
		make(n_units, replicas, numa);
		ask(&question, n_units, replicas);
		for (unsigned s = 0; s < 1U << question.n; s++)
			if ((size_t)__builtin_popcount(s) == question.size &&
				(s & question.must) == question.must &&
				cost(&question, s, numa) < best)
				best = cost(&question, s, numa);
		assert_int_equal(
			preference_choose(&declaration, &snapshot, question.available, question.n,
				question.must_ids, question.n_must, question.size, answer),
			question.size);
		set = answer_set(&question, answer, question.size);
		assert_int_equal(__builtin_popcount(set), question.size);
		assert_int_equal(set & question.must, question.must);
		assert_int_equal(cost(&question, set, numa), best);

		for (size_t i = 0; i < question.n; i++)
			question.available[i] = question.ids[i];
		assert_int_equal(
			preference_choose(&declaration, &snapshot, question.available, question.n,
				question.must_ids, question.n_must, question.size, again),
			question.size);
		for (size_t i = 0; i < question.size; i++)
			assert_string_equal(answer[i], again[i]);
		unmake();
	}
}

static unsigned cost_none(const struct question *question, unsigned set, const unsigned *numa)
{
	return 0;
}

static void test_none(void **state)
{
	check_against_all(PREFER_NONE, cost_none, 500);
}

static void test_packed(void **state)
{
	check_against_all(PREFER_PACKED, cost_packed, 2000);
}

static void test_spread(void **state)
{
	check_against_all(PREFER_SPREAD, cost_spread, 2000);
}

static void test_numa(void **state)
{
	check_against_all(PREFER_NUMA, cost_numa, 2000);
}

/* Distances are a function of the ids here, so that they can be worked out again. */
static unsigned distance(size_t a, size_t b)
{
	return (unsigned)(1 + (MAX_OF(a, b) * 31 + MIN_OF(a, b) * 17) % 7 * 9);
}

static unsigned cost_links(const struct question *question, unsigned set, const unsigned *numa)
{
	unsigned units = unit_set(question, set), cost = 0;

	for (size_t a = 0; units >> a; a++)
		for (size_t b = 0; b < a; b++)
			if (units & 1U << a && units & 1U << b)
				cost += distance(a, b);
	return cost;
}

static void test_links(void **state)
{
	know_links = true;
	check_against_all(PREFER_LINKS, cost_links, 2000);
	know_links = false;
}

static void place(size_t index, const char *path)
{
	assert_int_equal(device_add_variable(devices[index], "sysfs", path), 0);
}

static void choose(
	int preference, const char *const *available, size_t n, size_t size, const char *first)
{
	const char *answer[8];

	declaration.prefer = preference;
	assert_int_equal(
		preference_choose(&declaration, &snapshot, available, n, NULL, 0, size, answer),
		size);
	assert_string_equal(answer[0], first);
}

static void expect_pair(const char *const *available, size_t n, const char *a, const char *b)
{
	const char *answer[2];

	declaration.prefer = PREFER_LINKS;
	assert_int_equal(
		preference_choose(&declaration, &snapshot, available, n, NULL, 0, 2, answer), 2);
	assert_string_equal(answer[0], a);
	assert_string_equal(answer[1], b);
}

/* Behind one switch, behind one root port, on one socket, elsewhere. */
static void test_links_by_buses(void **state)
{
	static const char *const available[] = { "u000000", "u000001", "u000002", "u000003",
		"u000004" };
	static const unsigned numa[] = { 1, 1, 1, 2, 2 };

	make(5, 1, numa);
	place(0, "/sys/devices/pci0000:00/0000:00:01.0/0000:01:00.0/0000:02:00.0/0000:03:00.0");
	place(1, "/sys/devices/pci0000:00/0000:00:02.0/0000:04:00.0");
	place(2, "/sys/devices/pci0000:00/0000:00:01.0/0000:01:00.0/0000:02:01.0/0000:05:00.0");
	place(3, "/sys/devices/pci0000:80/0000:80:01.0/0000:81:00.0");
	place(4, "/sys/devices/pci0000:c0/0000:c0:01.0/0000:c1:00.0");
	expect_pair(available, 5, "u000000", "u000002");
	/* What is left together counts where there is a tie: the lone ones go first. */
	choose(PREFER_LINKS, available, 3, 1, "u000001");
	expect_pair(available + 2, 3, "u000003", "u000004");
	/* A known link is closer than any bus. */
	assert_int_equal(device_add_distance(devices[4], "u000001", 20), 0);
	expect_pair(available, 5, "u000001", "u000004");
	unmake();
}

/* More units than are tried one by one: eight boards of eight in one host. */
static void test_links_of_many(void **state)
{
	enum { BOARDS = 8, EACH = 8 };
	const char *available[BOARDS * EACH], *answer[EACH];
	char ids[BOARDS * EACH][32];

	make(BOARDS * EACH, 1, NULL);
	for (size_t i = 0; i < BOARDS * EACH; i++) {
		(void)snprintf(ids[i], sizeof(ids[i]), "u%06zu", i);
		available[i] = ids[i];
	}
	for (size_t i = 0; i < BOARDS * EACH; i++)
		for (size_t k = 0; k < i; k++)
			assert_int_equal(device_add_distance(devices[i], ids[k],
						 i % BOARDS == k % BOARDS ? 2 : 40),
				0);
	declaration.prefer = PREFER_LINKS;
	/* Board 0 lacks one. */
	assert_int_equal(
		preference_choose(&declaration, &snapshot, available + 1, BOARDS * EACH - 1,
			(const char *[]){ available[8] }, 1, EACH - 1, answer),
		EACH - 1);
	for (size_t i = 0; i < EACH - 1; i++)
		assert_int_equal(atoi(answer[i] + 1) % BOARDS, 0);
	assert_int_equal(preference_choose(&declaration, &snapshot, available + 1,
				 BOARDS * EACH - 1, NULL, 0, EACH, answer),
		EACH);
	for (size_t i = 1; i < EACH; i++)
		assert_int_equal(atoi(answer[i] + 1) % BOARDS, atoi(answer[0] + 1) % BOARDS);
	unmake();
}

static void test_what_others_use(void **state)
{
	/* Unit 0 is untouched, two of unit 1 are given out, one of unit 2 is. */
	static const char *const available[] = { "u000000#0", "u000000#1", "u000000#2", "u000001#2",
		"u000002#1", "u000002#2", "unknown", "u000009#0", "u000000#3" };

	make(3, 3, NULL);
	choose(PREFER_PACKED, available, ARRAY_SIZE(available), 1, "u000001#2");
	choose(PREFER_PACKED, available, ARRAY_SIZE(available), 2, "u000002#1");
	choose(PREFER_PACKED, available, ARRAY_SIZE(available), 3, "u000000#0");
	choose(PREFER_SPREAD, available, ARRAY_SIZE(available), 1, "u000000#0");
	choose(PREFER_SPREAD, available, ARRAY_SIZE(available), 6, "u000000#0");
	unmake();
}

static void test_more_nodes_than_tried(void **state)
{
	unsigned numa[64];
	const char *available[64], *answer[64];
	char ids[64][32];

	for (size_t i = 0; i < ARRAY_SIZE(numa); i++)
		numa[i] = 1U << (i % 8);
	make(64, 1, numa);
	/* Beyond what the fixture makes: nodes 8 to 15. */
	for (size_t i = 0; i < ARRAY_SIZE(numa); i++) {
		devices[i]->numa[0] = (int)(i % 16);
		(void)snprintf(ids[i], sizeof(ids[i]), "u%06zu", i);
		available[i] = ids[i];
	}
	declaration.prefer = PREFER_NUMA;
	assert_int_equal(
		preference_choose(&declaration, &snapshot, available, 64, NULL, 0, 8, answer), 8);
	unsigned nodes = 0;
	for (size_t i = 0; i < 8; i++)
		nodes |= 1U << atoi(answer[i] + 1) % 16;
	assert_int_equal(__builtin_popcount(nodes), 2);
	unmake();
}

static void test_nonsense(void **state)
{
	static const char *const available[] = { "u000000", "u000001" };
	static const char *const elsewhere[] = { "u000002" }, *const unknown[] = { "x" };
	const char *answer[8];

	make(3, 1, NULL);
	for (int preference = PREFER_NONE; preference <= PREFER_LINKS; preference++) {
		declaration.prefer = preference;
		assert_int_equal(preference_choose(
					 &declaration, &snapshot, available, 2, NULL, 0, 3, answer),
			0);
		assert_int_equal(preference_choose(&declaration, &snapshot, available, 2, elsewhere,
					 1, 1, answer),
			0);
		assert_int_equal(preference_choose(&declaration, &snapshot, available, 2, unknown,
					 1, 1, answer),
			0);
		assert_int_equal(preference_choose(&declaration, &snapshot, available, 2, available,
					 2, 1, answer),
			0);
		assert_int_equal(
			preference_choose(&declaration, &snapshot, NULL, 0, NULL, 0, 1, answer), 0);
		assert_int_equal(
			preference_choose(&declaration, &snapshot, NULL, 0, NULL, 0, 0, answer), 0);
		assert_int_equal(
			preference_choose(&declaration, &snapshot, unknown, 1, NULL, 0, 1, answer),
			0);
		assert_int_equal(preference_choose(&declaration, &snapshot, available, 2, NULL, 0,
					 SIZE_MAX, answer),
			0);
	}
	unmake();
}

/* Enough of them that anything quadratic would not end within the test's time. */
static void test_many(void **state)
{
	const char **available = calloc(UNITS_MAX, sizeof(*available));
	const char **answer = calloc(UNITS_MAX, sizeof(*answer));

	assert_non_null(available);
	assert_non_null(answer);
	make(UNITS_MAX, 1, NULL);
	for (size_t i = 0; i < UNITS_MAX; i++)
		available[i] = devices[UNITS_MAX - 1 - i]->id;
	for (int preference = PREFER_NONE; preference <= PREFER_LINKS; preference++) {
		declaration.prefer = preference;
		assert_int_equal(preference_choose(&declaration, &snapshot, available, UNITS_MAX,
					 available, UNITS_MAX / 4, UNITS_MAX / 2, answer),
			UNITS_MAX / 2);
	}
	unmake();
	free(available);
	free(answer);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_none),
		cmocka_unit_test(test_packed),
		cmocka_unit_test(test_spread),
		cmocka_unit_test(test_numa),
		cmocka_unit_test(test_links),
		cmocka_unit_test(test_links_by_buses),
		cmocka_unit_test(test_links_of_many),
		cmocka_unit_test(test_what_others_use),
		cmocka_unit_test(test_more_nodes_than_tried),
		cmocka_unit_test(test_nonsense),
		cmocka_unit_test(test_many),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
