/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How many devices the kubelet offers, counted in the rows of its answer.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "supervisor/sessions/offer-check.h"

static void test_count(void **state)
{
	struct pod_device rows[] = {
		{ .resource = "vendor.example/gpu", .id = "a", .nodes = "0" },
		{ .resource = "vendor.example/gpu", .id = "a", .nodes = "1" },
		{ .resource = "vendor.example/fpga", .id = "a", .nodes = "" },
		{ .resource = "vendor.example/gpu", .id = "b", .nodes = "" },
		{ .resource = "vendor.example/gpu2", .id = "c", .nodes = "" },
	};
	const struct pod_table table = { .devices = rows, .n_devices = ARRAY_SIZE(rows) };

	assert_int_equal(offer_count(&table, "vendor.example/gpu"), 2);
	assert_int_equal(offer_count(&table, "vendor.example/fpga"), 1);
	assert_int_equal(offer_count(&table, "vendor.example/none"), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_count),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
