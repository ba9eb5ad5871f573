/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The text format, and what becomes of names that no label should have.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "exporter/exposition.h"

static void assert_text(struct exposition *exposition, const char *text)
{
	assert_false(exposition->failed);
	assert_int_equal(exposition->size, strlen(text));
	assert_memory_equal(exposition->text, text, strlen(text));
	exposition_done(exposition);
}

static void test_format(void **state)
{
	const struct label labels[] = { { "resource", "a/b" }, { "none", NULL }, { "le", "+Inf" } };
	struct exposition out = { 0 };

	exposition_begin(&out, "a_total", "counter", "Of \\ and\nmore.");
	exposition_add(&out, "", NULL, 0, 0);
	exposition_begin(&out, "without_samples", "gauge", "Nothing.");
	exposition_begin(&out, "b_seconds", "histogram", "Long \"ago\".");
	exposition_add(&out, "_bucket", labels, ARRAY_SIZE(labels), UINT64_MAX);
	exposition_add_seconds(&out, "_sum", labels, 1, 1500000);
	assert_text(&out,
		"# HELP a_total Of \\\\ and\\nmore.\n"
		"# TYPE a_total counter\n"
		"a_total 0\n"
		"# HELP b_seconds Long \"ago\".\n"
		"# TYPE b_seconds histogram\n"
		"b_seconds_bucket{resource=\"a/b\",le=\"+Inf\"} 18446744073709551615\n"
		"b_seconds_sum{resource=\"a/b\"} 1.5\n");
}

static void test_seconds(void **state)
{
	static const struct {
		uint64_t usec;
		const char *text;
	} times[] = { { 0, "0" }, { 1, "0.000001" }, { 100000, "0.1" }, { 1000000, "1" },
		{ 1000010, "1.00001" }, { 1795351789729422, "1795351789.729422" } };

	for (size_t i = 0; i < ARRAY_SIZE(times); i++) {
		struct exposition out = { 0 };
		char text[128];

		exposition_begin(&out, "t", "gauge", "T.");
		exposition_add_seconds(&out, "", NULL, 0, times[i].usec);
		(void)snprintf(
			text, sizeof(text), "# HELP t T.\n# TYPE t gauge\nt %s\n", times[i].text);
		assert_text(&out, text);
	}
}

static void test_hostile_values(void **state)
{
	const struct label label = { "device", "a\"b\\c\nd\xff\xc3\xa9\xc3" };
	struct exposition out = { 0 };

	exposition_begin(&out, "d", "gauge", "D.");
	exposition_add(&out, "", &label, 1, 1);
	assert_text(&out,
		"# HELP d D.\n# TYPE d gauge\n"
		"d{device=\"a\\\"b\\\\c\\nd?\xc3\xa9?\"} 1\n");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_format),
		cmocka_unit_test(test_seconds),
		cmocka_unit_test(test_hostile_values),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
