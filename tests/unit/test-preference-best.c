/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Every preference against a search of all possible answers, at sizes where that is possible.
 * complaints.md: W7.
 */
#include "preference-fixture.h"

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
			char buffer[OFFERED_ID_MAX + 1];

			if (roll(4) == 0)
				continue;
			(void)strcpy(
				question->ids[n], snapshot_offered_id(&snapshot, i, k, buffer));
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

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_packed),
		cmocka_unit_test(test_spread),
		cmocka_unit_test(test_numa),
		cmocka_unit_test(test_links),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
