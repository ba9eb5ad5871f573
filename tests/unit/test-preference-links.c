/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Devices that are close to each other: by their drivers' distances, by their buses, and where they
 * are too many to try all. complaints.md: W7.
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

/* Parts of MI300X GPUs, as their weights are in AMD's plugin: link, chip and NUMA node. */
static unsigned amd_weight(size_t a, size_t b)
{
	if (a / 8 == b / 8)
		return 10 + 10 + 10;
	return 10 + 20 + (a / 32 == b / 32 ? 10 : 20);
}

/* Chooses `size` of all but the parts in `used`, which is a list such as " 0 8 ". */
static const char *prefer_parts(const char *used, size_t size)
{
	static char ids[64][32], text[256];
	const char *available[64], *answer[64];
	size_t n = 0;

	for (size_t i = 0; i < snapshot.n_units; i++) {
		char number[32];

		(void)snprintf(number, sizeof(number), " %zu ", i);
		if (strstr(used, number))
			continue;
		(void)snprintf(ids[n], sizeof(ids[n]), "u%06zu", i);
		available[n] = ids[n];
		n++;
	}
	assert_int_equal(
		preference_choose(&declaration, &snapshot, available, n, NULL, 0, size, answer),
		size);
	text[0] = '\0';
	for (size_t i = 0; i < size; i++)
		(void)snprintf(text + strlen(text), sizeof(text) - strlen(text), "%d ",
			atoi(answer[i] + 1));
	return text;
}

/* Cases of AMD's TestBestPolicyAllocator with partitions (besteffort_policy_test.go). Their "test8"
 * and "amdgpu_xcp_57" are the parts 56 and 57 here; the last GPU has seven. */
static void test_amd_best_policy_partitions(void **state)
{
	make(63, 1, NULL);
	for (size_t i = 0; i < 63; i++)
		for (size_t k = 0; k < i; k++)
			assert_int_equal(
				device_add_distance(devices[i], devices[k]->id, amd_weight(i, k)),
				0);
	declaration.prefer = PREFER_LINKS;
	print_message("Allocate 1 device\n");
	assert_string_equal(prefer_parts("", 1), "56 ");
	print_message("Allocate 3 devices\n");
	assert_string_equal(prefer_parts("", 3), "56 57 58 ");
	print_message("Allocate 5 devices\n");
	assert_string_equal(prefer_parts("", 5), "56 57 58 59 60 ");
	print_message("Allocate 7 devices\n");
	assert_string_equal(prefer_parts("", 7), "56 57 58 59 60 61 62 ");
	print_message("Allocate 8 devices\n");
	/* Theirs is the first GPU. This one is as close, on the node of which less is left. */
	assert_string_equal(prefer_parts("", 8), "32 33 34 35 36 37 38 39 ");
	print_message("Allocate 4 devices\n");
	assert_string_equal(prefer_parts(" 56  57  58 ", 4), "59 60 61 62 ");
	print_message("Allocate 10 devices\n");
	assert_string_equal(
		prefer_parts(" 0  8  16  24  56  57 ", 10), "32 33 34 35 36 37 38 39 58 59 ");
	print_message("Allocate 12 devices\n");
	(void)prefer_parts("", 12);
	print_message("Allocate 30 devices\n");
	(void)prefer_parts("", 30);
	unmake();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_links_by_buses),
		cmocka_unit_test(test_links_of_many),
		cmocka_unit_test(test_amd_best_policy_partitions),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
