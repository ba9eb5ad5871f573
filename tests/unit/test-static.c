/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Driver "static": names, numbers, NUMA, and the limit on the list's size, which is held against
 * the size law by counting.
 */
#include "host-fixture.h"

#include "common/kubelet.h"
#include "drivers/host/scan-run.h"
#include "drivers/inventory/list-size.h"

static void test_list(void **state)
{
	_cleanup_config_ struct config *config = declare(
		"driver = \"static\"; match = ( \"left\", { count = 3; numa = 1; }, { id = \"right\"; } );");
	static const char *const expected[] = { "left", "unit-0", "unit-1", "unit-2", "right" };
	_cleanup_strings_ struct strings claims = { 0 };
	_cleanup_scan_ struct scan scan = { .root = "" };
	struct error error;

	assert_int_equal(
		declaration_of(config)->driver->list(declaration_of(config), &scan, &error), 0);
	assert_int_equal(
		declaration_of(config)->driver->claims(declaration_of(config), &claims), 0);
	assert_int_equal(scan.n_devices, ARRAY_SIZE(expected));
	assert_int_equal(claims.count, ARRAY_SIZE(expected));
	for (size_t i = 0; i < ARRAY_SIZE(expected); i++) {
		assert_string_equal(scan.devices[i]->id, expected[i]);
		assert_string_equal(claims.items[i], expected[i]);
		assert_int_equal(scan.devices[i]->n_nodes, 0);
		assert_int_equal(scan.devices[i]->n_numa, i >= 1 && i <= 3);
	}
}

static void expect_problem(const char *keys, const char *expected)
{
	_cleanup_free_ char *text = NULL, *problem = NULL;

	assert_true(asprintf(&text, "driver = \"static\"; %s", keys) > 0);
	problem = declare_problem(text);
	if (!strstr(problem, expected))
		fail_msg("\"%s\" is not in \"%s\"", expected, problem);
}

static void test_check(void **state)
{
	expect_problem("match = ( { id = \"a\"; count = 2; } );", "both");
	expect_problem("match = ( { numa = 0; } );", "neither");
	expect_problem("match = ( { count = 2; }, { count = 3; } );", "in one entry only");
	expect_problem("match = ( { count = 200001; } );", "200000");
	expect_problem("match = ( { count = 0; } );", "count");
	expect_problem("match = \"white space\";", "letters");
	expect_problem("match = \"a#1\";", "letters");
}

static size_t size_of(unsigned count, unsigned replicas)
{
	static const int numa = 1;
	size_t total = 0;

	for (unsigned i = 0; i < count; i++)
		for (unsigned k = 0; k < replicas; k++)
			total += device_list_entry_size(
				(size_t)(replicas > 1 ? snprintf(NULL, 0, "unit-%u#%u", i, k)
						      : snprintf(NULL, 0, "unit-%u", i)),
				&numa, 1);
	return total;
}

static void test_limit(void **state)
{
	char text[256], number[32];
	unsigned count = 1;

	for (unsigned replicas = 1; replicas <= 3; replicas += 2) {
		count = 1;
		/* The largest list that fits. */
		for (unsigned step = 1 << 17; step > 0; step /= 2)
			if (size_of(count + step, replicas) <= KUBELET_MESSAGE_MAX)
				count += step;
		(void)snprintf(text, sizeof(text),
			"driver = \"static\"; share = { replicas = %u; };\n"
			"match = ( { count = %u; numa = 1; } );",
			replicas, count);
		_cleanup_config_ struct config *config = declare(text);
		assert_non_null(config);

		(void)snprintf(text, sizeof(text),
			"share = { replicas = %u; }; match = ( { count = %u; numa = 1; } );",
			replicas, count + 1);
		(void)snprintf(number, sizeof(number), "%zu", size_of(count + 1, replicas));
		expect_problem(text, number);
		expect_problem(text, "4194304");
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_list),
		cmocka_unit_test(test_check),
		cmocka_unit_test(test_limit),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
