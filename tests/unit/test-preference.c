/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Preferences where there are others' replicas, many nodes and many devices, and requests that make
 * no sense.
 * complaints.md: R6.
 */
#include "preference-fixture.h"

#define UNITS_MAX 200000

static void test_what_others_use(void **state)
{
	/* Unit 0 is untouched, two replicas of unit 1 are allocated, one of unit 2 is. */
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

/* Devices that are not healthy: last with each preference, but what must be included is. */
static void test_unhealthy_last(void **state)
{
	static const int all[] = { PREFER_PACKED, PREFER_SPREAD, PREFER_NUMA, PREFER_LINKS,
		PREFER_DISTINCT, PREFER_NONE };
	static const char *const available[] = { "u000000", "u000001", "u000002", "u000003" };
	const char *answer[4];

	make(4, 1, NULL);
	for (size_t i = 0; i < 4; i++)
		snapshot.units[i].healthy = i == 1 || i == 3;
	for (size_t i = 0; i < ARRAY_SIZE(all); i++) {
		declaration.prefer = all[i];
		assert_int_equal(preference_choose(&declaration, &snapshot, available,
					 ARRAY_SIZE(available), NULL, 0, 2, answer),
			2);
		assert_string_equal(answer[0], "u000001");
		assert_string_equal(answer[1], "u000003");
		assert_int_equal(
			preference_choose(&declaration, &snapshot, available, ARRAY_SIZE(available),
				(const char *[]){ "u000002" }, 1, 2, answer),
			2);
		assert_true(streq(answer[0], "u000002") || streq(answer[1], "u000002"));
		assert_false(streq(answer[0], "u000000") || streq(answer[1], "u000000"));
		assert_int_equal(preference_choose(&declaration, &snapshot, available,
					 ARRAY_SIZE(available), NULL, 0, 3, answer),
			3);
		assert_string_equal(answer[0], "u000001");
		assert_string_equal(answer[1], "u000003");
	}
	unmake();
}

/* Without a preference the kubelet chooses, as long as all are healthy. */
static void test_none(void **state)
{
	static const char *const available[] = { "u000000", "u000001" };
	const char *answer[2];

	make(2, 1, NULL);
	declaration.prefer = PREFER_NONE;
	assert_int_equal(
		preference_choose(&declaration, &snapshot, available, 2, NULL, 0, 1, answer), 0);
	snapshot.units[0].healthy = false;
	assert_int_equal(
		preference_choose(&declaration, &snapshot, available, 2, NULL, 0, 1, answer), 1);
	assert_string_equal(answer[0], "u000001");
	assert_int_equal(
		preference_choose(&declaration, &snapshot, available + 1, 1, NULL, 0, 1, answer),
		0);
	unmake();
}

/* As Intel's GPU plugin without a policy: shares of one card only where there is no other. */
static void test_intel_none_policy(void **state)
{
	static const char *const available[] = { "u000000#1", "u000001#0", "u000001#1", "u000002#0",
		"u000002#1", "u000002#2" };
	const char *answer[4];

	make(3, 3, NULL);
	declaration.prefer = PREFER_DISTINCT;
	assert_int_equal(preference_choose(&declaration, &snapshot, available,
				 ARRAY_SIZE(available), NULL, 0, 2, answer),
		2);
	assert_string_equal(answer[0], "u000000#1");
	assert_string_equal(answer[1], "u000001#0");
	assert_int_equal(
		preference_choose(&declaration, &snapshot, available, ARRAY_SIZE(available),
			(const char *[]){ "u000002#0" }, 1, 4, answer),
		4);
	assert_string_equal(answer[1], "u000000#1");
	assert_string_equal(answer[2], "u000001#0");
	assert_string_equal(answer[3], "u000001#1");
	unmake();
}

/* Intel's QAT plugin: TestGetPreferredAllocation. 20 virtual functions of 4 cards are free. */
static void test_intel_qat_balanced(void **state)
{
	static const char *const available[] = { "u000004", "u000006", "u000013", "u000014",
		"u000011", "u000005", "u000009", "u000019", "u000007", "u000001", "u000010",
		"u000012", "u000008", "u000002", "u000015", "u000018", "u000003", "u000000",
		"u000016", "u000017" };
	static const char *const pf[] = { "0000:03", "0000:04", "0000:05", "0000:06" };
	const char *answer[6];

	make(20, 1, NULL);
	for (size_t i = 0; i < 20; i++)
		assert_int_equal(device_add_variable(devices[i], "pf", pf[i / 5]), 0);
	declaration.prefer = PREFER_PACKED;
	assert_int_equal(preference_choose(&declaration, &snapshot, available,
				 ARRAY_SIZE(available), NULL, 0, 4, answer),
		4);
	assert_string_equal(answer[0], "u000000");
	assert_string_equal(answer[1], "u000001");
	assert_string_equal(answer[2], "u000002");
	assert_string_equal(answer[3], "u000003");
	declaration.prefer = PREFER_SPREAD;
	assert_int_equal(preference_choose(&declaration, &snapshot, available,
				 ARRAY_SIZE(available), NULL, 0, 4, answer),
		4);
	assert_string_equal(answer[0], "u000000");
	assert_string_equal(answer[1], "u000005");
	assert_string_equal(answer[2], "u000010");
	assert_string_equal(answer[3], "u000015");
	/* What must be included counts; then comes the card of which most is free. */
	assert_int_equal(
		preference_choose(&declaration, &snapshot, available, ARRAY_SIZE(available) - 2,
			(const char *[]){ "u000006" }, 1, 6, answer),
		6);
	assert_string_equal(answer[0], "u000006");
	assert_string_equal(answer[1], "u000000");
	assert_string_equal(answer[2], "u000010");
	assert_string_equal(answer[3], "u000015");
	assert_string_equal(answer[4], "u000001");
	assert_string_equal(answer[5], "u000005");
	assert_int_equal(preference_choose(&declaration, &snapshot, available,
				 ARRAY_SIZE(available), NULL, 0, 32, answer),
		0);
	unmake();
}

/* Parts of two GPUs, which have the PCI address of their GPU. */
static void test_spread_over_functions(void **state)
{
	static const char *const available[] = { "u000000", "u000001", "u000002", "u000003" };
	const char *answer[2];

	make(4, 1, NULL);
	for (size_t i = 0; i < 4; i++)
		assert_int_equal(device_add_variable(devices[i], "bdf",
					 i < 2 ? "0000:19:00.0" : "0000:49:00.0"),
			0);
	declaration.prefer = PREFER_SPREAD;
	assert_int_equal(preference_choose(&declaration, &snapshot, available,
				 ARRAY_SIZE(available), NULL, 0, 2, answer),
		2);
	assert_string_equal(answer[0], "u000000");
	assert_string_equal(answer[1], "u000002");
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
			preference == PREFER_NONE ? 0 : UNITS_MAX / 2);
	}
	unmake();
	free(available);
	free(answer);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_what_others_use),
		cmocka_unit_test(test_unhealthy_last),
		cmocka_unit_test(test_none),
		cmocka_unit_test(test_intel_none_policy),
		cmocka_unit_test(test_intel_qat_balanced),
		cmocka_unit_test(test_spread_over_functions),
		cmocka_unit_test(test_more_nodes_than_tried),
		cmocka_unit_test(test_nonsense),
		cmocka_unit_test(test_many),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
