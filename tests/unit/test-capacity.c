/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The key `capacity`: every rule of the API, before any device is known.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "configuration/config.h"

static void expect(const char *keys, const char *problem)
{
	_cleanup_report_ struct report report = { 0 };
	_cleanup_free_ char *text = NULL;
	struct config *config = NULL;
	int r;

	assert_true(asprintf(&text, "name = \"v.e/x\"; driver = \"path\"; match = \"/dev/x\"; %s",
			    keys) > 0);
	r = config_load_resource(text, &report, &config);
	if (r != (problem ? -EINVAL : 0) || report.count != (problem != NULL) ||
		(problem && !strstr(report.entries[0].text, problem)))
		fail_msg("%s: %s", keys, report.count > 0 ? report.entries[0].text : "accepted");
	config_free(config);
}

static void test_broken(void **state)
{
	static const struct {
		const char *keys, *problem;
	} cases[] = {
		{ "capacity = ( { name = \"a\"; } );",
			"capacity[0]: needs \"value\", because driver \"path\" reports no \"a\"" },
		{ "capacity = ( { name = \"a\"; value = \"80GiB\"; } );",
			"capacity[0]: \"value\" must be a whole number from 0 to 9223372036854775807 such as \"80Gi\", \"5k\" or \"16\", not \"80GiB\"" },
		{ "capacity = ( { name = \"a\"; value = \"8\"; step = \"-1\"; } );",
			"capacity[0].step: must be a whole number from 0 to 9223372036854775807 such as \"80Gi\", \"5k\" or \"16\", not \"-1\"" },
		{ "capacity = ( { name = \"a\"; value = \"8\"; max = \"9223372036854775808\"; } );",
			"capacity[0].max: must be a whole number from 0 to 9223372036854775807 such as \"80Gi\", \"5k\" or \"16\", not \"9223372036854775808\"" },
		{ "capacity = ( { name = \"a\"; value = \"8\"; values = \"1.5\"; default = \"1\"; } );",
			"capacity[0].values: must be a whole number from 0 to 9223372036854775807 such as \"80Gi\", \"5k\" or \"16\", not \"1.5\"" },
		{ "capacity = ( { name = \"a\"; value = \"8\"; step = \"0\"; } );",
			"capacity[0]: \"step\" must be more than 0" },
		{ "capacity = ( { name = \"a\"; value = \"1Gi\"; step = \"1Gi\"; } );",
			"capacity[0]: \"min\" (1Gi) and \"step\" (1Gi) together must not be more than the value, which is 1Gi" },
		{ "capacity = ( { name = \"a\"; value = \"8Gi\"; step = \"1Gi\"; default = \"1500Mi\"; } );",
			"capacity[0]: \"default\" (1500Mi) must be a multiple of \"step\" (1Gi)" },
		{ "capacity = ( { name = \"a\"; value = \"8Gi\"; step = \"2Gi\"; max = \"16Gi\"; default = \"2Gi\"; } );",
			"capacity[0]: \"max\" (16Gi) must not be more than the value, which is 8Gi" },
		{ "capacity = ( { name = \"a\"; value = \"8Gi\"; min = \"2Gi\"; step = \"1Gi\"; default = \"1Gi\"; } );",
			"capacity[0]: \"default\" (1Gi) must be from 2Gi to 8Gi" },
		{ "capacity = ( { name = \"a\"; value = \"${id}\"; max = \"4\"; } );",
			"capacity[0]: needs \"default\", because a claim that names no amount cannot get all with \"max\"" },
		{ "capacity = ( { name = \"a\"; value = \"8\"; values = ( \"1\", \"2\" ); step = \"1\"; } );",
			"capacity[0]: has \"values\" and a range: remove \"values\", or \"min\", \"step\" and \"max\"" },
		{ "capacity = ( { name = \"a\"; value = \"8\"; values = ( \"2\", \"1\" ); default = \"1\"; } );",
			"capacity[0]: \"values\" must ascend, and 1 is not more than 2" },
		{ "capacity = ( { name = \"a\"; value = \"8\"; values = ( \"1\", \"16\" ); default = \"1\"; } );",
			"capacity[0]: \"values\" must be from 0 to the value, 8" },
		{ "capacity = ( { name = \"a\"; value = \"8\"; values = ( \"1\", \"2\" ); default = \"3\"; } );",
			"capacity[0]: \"default\" (3) must be one of the values" },
		{ "capacity = ( { name = \"a\"; value = \"20\"; values = ( \"1\", \"2\", \"3\", \"4\", \"5\", \"6\", \"7\", \"8\", \"9\", \"10\", \"11\" ); default = \"3\"; } );",
			"capacity[0]: has 11 values, the maximum is 10: use a range" },
		{ "capacity = ( { name = \"a\"; value = \"8\"; default = \"0\"; } );",
			"capacity[0]: \"default\" (0) must be more than 0, and not more than the value, which is 8" },
		{ "capacity = ( { name = \"a\"; value = \"8\"; }, { name = \"a\"; value = \"8\"; } );",
			"capacity[1]: \"a\" is declared twice, remove one" },
		{ "capacity = ( { name = \"a\"; value = \"8\"; } ); share = { replicas = 2; };",
			"share.replicas: cannot be used with \"capacity\", because replicas would share a device without regard to the amounts: remove one of them" },
		{ "capacity = ( { name = \"a\"; value = \"8\"; } ); container = { env = \"X=${capacity:b}\"; };",
			"container.env: \"${capacity:b}\" names no capacity of the resource: add it to \"capacity\", or correct the name" },
		{ "container = { env = \"X=${capacity:b:MiB}\"; };",
			"container.env: has \"${capacity:b:MiB}\", which must name a capacity and may name a unit, such as \"${capacity:memory:Mi}\"" },
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++)
		expect(cases[i].keys, cases[i].problem);
}

static void test_accepted(void **state)
{
	static const char *const cases[] = {
		"capacity = ( { name = \"a\"; value = \"8\"; } );",
		"capacity = ( { name = \"a\"; value = \"8\"; default = \"3\"; } );",
		"capacity = ( { name = \"a\"; value = \"2Gi\"; step = \"1Gi\"; } );",
		"capacity = ( { name = \"a\"; value = \"2047Mi\"; min = \"0\"; step = \"1Gi\"; } );",
		"capacity = ( { name = \"a\"; value = \"8\"; max = \"8\"; default = \"8\"; } );",
		"capacity = ( { name = \"a\"; value = \"8\"; values = ( \"8\" ); default = \"8\"; } );",
		"capacity = ( { name = \"v.example/a\"; value = \"9223372036854775807\"; step = \"1\"; } );",
		"capacity = ( { name = \"a\"; value = \"${id}\"; step = \"1Ei\"; max = \"7Ei\"; default = \"1Ei\"; } );",
		"capacity = ( { name = \"a\"; value = \"8\"; } ); container = { env = ( \"X=${capacity:a}\", \"Y=${capacity:a:Ki}\" ); };",
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++)
		expect(cases[i], NULL);
}

static void test_many(void **state)
{
	char keys[1024] = "capacity = ( ";

	for (int i = 0; i < 9; i++)
		(void)sprintf(keys + strlen(keys), "%s{ name = \"a%d\"; value = \"8\"; }",
			i > 0 ? ", " : "", i);
	(void)strcat(keys, " );");
	expect(keys, "capacity: has 9 entries, the maximum is 8");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_broken),
		cmocka_unit_test(test_accepted),
		cmocka_unit_test(test_many),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
