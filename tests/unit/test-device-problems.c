/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which devices are problems, how they are named within a size, and the types of conditions.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "common/node-condition.h"
#include "dra/model/device-problems.h"

static json_t *read_problems(const char *text, size_t *ret_total)
{
	json_auto_t *devices = json_loads(text, 0, NULL);

	assert_non_null(devices);
	return device_problems(devices, ret_total);
}

static void test_causes(void **state)
{
	static const char text[] =
		"[{\"id\": \"a\", \"health\": \"Healthy\"},"
		" {\"id\": \"b\", \"health\": \"Unhealthy\", \"cause\": \"probe\", \"reason\": "
		"\"hot\", \"since\": \"s\"},"
		" {\"id\": \"c\", \"health\": \"Unhealthy\", \"cause\": \"cordoned\"},"
		" {\"id\": \"d\", \"health\": \"Claimed\", \"cause\": \"claimed\"},"
		" {\"id\": \"e\", \"health\": \"Unhealthy\", \"cause\": \"gone\"},"
		" {\"id\": \"f\", \"health\": \"Unhealthy\", \"cause\": \"booked\"},"
		" {\"id\": \"g\", \"health\": \"Unhealthy\", \"cause\": \"in_use\", \"reason\": "
		"\"in use as v.e/card by default/a\"},"
		" {\"id\": \"h\", \"health\": \"Unhealthy\", \"cause\": \"cleaning\", \"reason\": "
		"\"being cleaned after a pod\"},"
		" {\"id\": \"i\", \"health\": \"Unhealthy\", \"cause\": \"cleaning\", \"reason\": "
		"\"could not be cleaned after a pod (devplugctl resume): x\"},"
		" {\"health\": \"Unhealthy\"}, 7]";
	json_auto_t *problems = NULL;
	size_t total;

	problems = read_problems(text, &total);
	assert_int_equal(total, 8);
	assert_int_equal(json_object_size(problems), 3);
	assert_string_equal(
		json_string_value(json_object_get(json_object_get(problems, "b"), "reason")),
		"hot");
	assert_non_null(json_object_get(problems, "i"));
	assert_true(json_is_true(json_object_get(json_object_get(problems, "e"), "missing")));
	assert_false(json_is_true(json_object_get(json_object_get(problems, "b"), "missing")));
}

static void test_text(void **state)
{
	json_auto_t *problems = json_object();
	char text[1024], small[40], id[16];

	device_problems_text(problems, text, sizeof(text));
	assert_string_equal(text, "");
	for (unsigned i = 0; i < 100; i++) {
		(void)snprintf(id, sizeof(id), "gpu-%02u", i);
		(void)json_object_set_new(problems, id, json_pack("{s:s}", "reason", "a\nb"));
	}
	device_problems_text(problems, text, sizeof(text));
	assert_true(startswith(text, "gpu-00 (a?b), gpu-01 (a?b), "));
	assert_non_null(strstr(text, " more"));
	assert_true(strlen(text) > 900 && strlen(text) < sizeof(text));
	device_problems_text(problems, small, sizeof(small));
	assert_string_equal(small, "100 more");
}

static void test_long_reason(void **state)
{
	json_auto_t *problems = json_object();
	char reason[4096], text[1024];

	memset(reason, 'x', sizeof(reason) - 1);
	reason[sizeof(reason) - 1] = '\0';
	(void)json_object_set_new(problems, "a", json_pack("{s:s}", "reason", reason));
	device_problems_text(problems, text, sizeof(text));
	assert_int_equal(strlen(text), strlen("a ()") + 200);
}

static void test_types(void **state)
{
	static const struct {
		const char *resource, *type;
	} cases[] = {
		{ "vendor.example/gpu", "DevplugdVendorExampleGpu" },
		{ "a-b.c/D_e.9f", "DevplugdABCDE9f" },
		{ "amd.com/gpu", "DevplugdAmdComGpu" },
	};
	char type[NODE_CONDITION_TYPE_MAX + 1];

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		node_condition_type(cases[i].resource, type);
		assert_string_equal(type, cases[i].type);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_causes),
		cmocka_unit_test(test_text),
		cmocka_unit_test(test_long_reason),
		cmocka_unit_test(test_types),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
