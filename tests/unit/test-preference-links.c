/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Devices that are close to each other: by what drivers say, by their buses, and where they are too
 * many to try all.
 * docs/complaints.md: W7.
 */
#include "preference-fixture.h"

static void place(size_t index, const char *path)
{
	assert_int_equal(device_add_variable(devices[index], "sysfs", path), 0);
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

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_links_by_buses),
		cmocka_unit_test(test_links_of_many),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
