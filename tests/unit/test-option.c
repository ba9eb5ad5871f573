/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Option tables: defaults, freeing, suggestions and reports.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "drivers/model/option.h"

struct inner {
	struct origin origin;
	char *text;
};

struct outer {
	struct origin origin;
	bool flag;
	int64_t number;
	uint64_t wait;
	int choice;
	char *text, *absent;
	struct strings list;
	struct integers numbers;
	struct inner inner;
	struct groups groups;
};

static const char *const choices[] = { "zero", "one", "two", NULL };

static const struct option inner_options[] = {
	{
		.key = "text",
		.type = OPTION_STRING,
		.offset = offsetof(struct inner, text),
		.default_string = "inner",
	},
};

static const struct option_table inner_table = {
	.size = sizeof(struct inner),
	.options = inner_options,
	.count = ARRAY_SIZE(inner_options),
};

static const struct option outer_options[] = {
	{
		.key = "choice",
		.type = OPTION_CHOICE,
		.offset = offsetof(struct outer, choice),
		.choices = choices,
		.default_integer = 2,
	},
	{
		.key = "flag",
		.type = OPTION_BOOL,
		.offset = offsetof(struct outer, flag),
		.default_integer = true,
	},
	{
		.key = "number",
		.type = OPTION_INTEGER,
		.offset = offsetof(struct outer, number),
		.default_integer = -7,
	},
	{
		.key = "wait",
		.type = OPTION_SECONDS,
		.offset = offsetof(struct outer, wait),
		.default_integer = 2500,
	},
	{
		.key = "text",
		.type = OPTION_STRING,
		.offset = offsetof(struct outer, text),
		.default_string = "outer",
		.variant = "two",
	},
	{
		.key = "absent",
		.type = OPTION_STRING,
		.offset = offsetof(struct outer, absent),
		.variant = "one",
	},
	{
		.key = "list",
		.type = OPTION_STRINGS,
		.offset = offsetof(struct outer, list),
	},
	{
		.key = "numbers",
		.type = OPTION_INTEGERS,
		.offset = offsetof(struct outer, numbers),
	},
	{
		.key = "inner",
		.type = OPTION_GROUP,
		.offset = offsetof(struct outer, inner),
		.table = &inner_table,
	},
	{
		.key = "groups",
		.type = OPTION_GROUPS,
		.offset = offsetof(struct outer, groups),
		.table = &inner_table,
	},
};

static const struct option_table outer_table = {
	.selector = "choice",
	.size = sizeof(struct outer),
	.options = outer_options,
	.count = ARRAY_SIZE(outer_options),
};

static void test_defaults(void **state)
{
	struct outer outer;
	struct inner *inner;
	void *element;

	memset(&outer, 0xff, sizeof(outer));
	assert_int_equal(option_table_init(&outer_table, &outer), 0);
	assert_true(outer.flag);
	assert_int_equal(outer.number, -7);
	assert_int_equal(outer.wait, 2500 * USEC_PER_MSEC);
	assert_int_equal(outer.choice, 2);
	assert_string_equal(outer.text, "outer");
	assert_null(outer.absent);
	assert_int_equal(outer.list.count, 0);
	assert_true(integers_admit(&outer.numbers, 4));
	assert_string_equal(outer.inner.text, "inner");
	assert_int_equal(outer.groups.count, 0);

	for (size_t i = 0; i < 20; i++) {
		assert_int_equal(groups_add(&outer.groups, &element), 0);
		inner = groups_get(&outer.groups, i);
		assert_ptr_equal(inner, element);
		assert_string_equal(inner->text, "inner");
		assert_int_equal(strings_add(&outer.list, "abcdef", i % 6), 0);
		assert_int_equal(integers_add(&outer.numbers, (int64_t)i * 2), 0);
	}
	assert_int_equal(outer.list.count, 20);
	assert_string_equal(outer.list.items[4], "abcd");
	assert_string_equal(outer.list.items[18], "");
	assert_true(integers_admit(&outer.numbers, 4));
	assert_false(integers_admit(&outer.numbers, 5));

	/* Twice: what was freed once is not there any more. */
	option_table_done(&outer_table, &outer);
	option_table_done(&outer_table, &outer);
	assert_null(outer.text);
	assert_int_equal(outer.groups.count, 0);
}

static void test_done_of_zeroes(void **state)
{
	struct outer outer = { 0 };

	option_table_done(&outer_table, &outer);
}

static void test_variants(void **state)
{
	struct outer outer = { .choice = 1 };

	assert_true(
		option_applies(&outer_table, option_table_find(&outer_table, "absent"), &outer));
	assert_false(option_applies(&outer_table, option_table_find(&outer_table, "text"), &outer));
	assert_true(
		option_applies(&outer_table, option_table_find(&outer_table, "number"), &outer));
	assert_null(option_table_find(&outer_table, "numbe"));
}

/* Each of several words counts as a whole. */
static void test_variants_of_words(void **state)
{
	static const struct {
		const char *variant, *shown;
		bool applies; /* to "one" */
	} cases[] = {
		{ "one", "\"one\"", true },
		{ "two one", "\"two\" or \"one\"", true },
		{ "zero one two", "\"zero\", \"one\" or \"two\"", true },
		{ "ones", "\"ones\"", false },
		{ "on two", "\"on\" or \"two\"", false },
	};
	struct outer outer = { .choice = 1 };

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		const struct option option = { .key = "x", .variant = cases[i].variant };
		char shown[OPTION_VARIANTS_MAX];

		assert_int_equal(option_applies(&outer_table, &option, &outer), cases[i].applies);
		option_variants(&option, shown);
		assert_string_equal(shown, cases[i].shown);
	}
}

static const struct option ending_options[] = {
	{ .key = "root_dir" },
	{ .key = "device_plugin_dir" },
	{ .key = "fail_after" },
	{ .key = "recover_after" },
	{ .key = "pci_numa_unit" },
};

static const struct option_table endings_table = {
	.options = ending_options,
	.count = ARRAY_SIZE(ending_options),
};

static void test_suggestions(void **state)
{
	static const char *const words[] = { "name", "driver", "match", "fail_after",
		"recover_after", "max_per_container", "permissions", "id", "ids", "interval" };
	static const struct {
		const char *word, *meant;
	} cases[] = {
		{ "matc", "match" },
		{ "match", "match" },
		{ "MATCH", "match" },
		{ "macth", "match" },
		{ "max_per_cntaner", "max_per_container" },
		{ "dirver", "driver" },
		{ "fail-after", "fail_after" },
		{ "failafter", "fail_after" },
		{ "recover_afer", "recover_after" },
		{ "max_per_contaner", "max_per_container" },
		{ "perm", "permissions" },
		{ "idss", "ids" },
		{ "nmae", "name" },
		{ "intervall", "interval" },
		{ "in", NULL },
		{ "ip", NULL },
		{ "path", NULL },
		{ "matches", NULL },
		{ "device", NULL },
		{ "zork", NULL },
		{ "", NULL },
		{ "x", NULL },
	};
	char longest[4096];

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		const char *found = suggest_word(cases[i].word, words, ARRAY_SIZE(words));

		if (cases[i].meant && !found)
			fail_msg("nothing for %s", cases[i].word);
		if (cases[i].meant)
			assert_string_equal(found, cases[i].meant);
		else if (found)
			fail_msg("%s for %s", found, cases[i].word);
	}
	memset(longest, 'a', sizeof(longest) - 1);
	longest[sizeof(longest) - 1] = '\0';
	assert_null(suggest_word(longest, words, ARRAY_SIZE(words)));
	assert_string_equal(option_table_suggest(&outer_table, "nunber"), "number");
	assert_string_equal(option_table_suggest(&outer_table, "group"), "groups");
	assert_null(option_table_suggest(&outer_table, "elsewhere"));
	assert_string_equal(
		option_table_suggest(&endings_table, "plugin_dir"), "device_plugin_dir");
	assert_string_equal(option_table_suggest(&endings_table, "root"), "root_dir");
	assert_null(option_table_suggest(&endings_table, "after"));
	assert_null(option_table_suggest(&endings_table, "in_dir"));
	assert_null(option_table_suggest(&endings_table, "unit"));
}

static void test_report(void **state)
{
	_cleanup_report_ struct report report = { 0 };
	char file[] = "/etc/file";
	struct origin origin = { .file = file, .line = 12 };

	assert_int_equal(report_add(&report, &origin, NULL, "%d\n%s", 5, "x"), -EINVAL);
	report.context = "here";
	assert_int_equal(report_add(&report, &origin, "key", "is wrong"), -EINVAL);
	report.context = NULL;
	assert_int_equal(report_add(&report, NULL, "key", "is wrong"), -EINVAL);
	/* The report outlives the file name that it was made with. */
	memset(file, 'x', strlen(file));

	assert_int_equal(report.count, 3);
	assert_false(report.incomplete);
	assert_string_equal(report.entries[0].text, "5?x");
	assert_string_equal(report.entries[0].origin.file, "/etc/file");
	assert_int_equal(report.entries[0].origin.line, 12);
	assert_string_equal(report.entries[1].text, "here: key: is wrong");
	assert_string_equal(report.entries[2].text, "key: is wrong");
	assert_string_equal(report.entries[2].origin.file, "");
	assert_int_equal(report.entries[2].origin.line, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_defaults),
		cmocka_unit_test(test_done_of_zeroes),
		cmocka_unit_test(test_variants),
		cmocka_unit_test(test_variants_of_words),
		cmocka_unit_test(test_suggestions),
		cmocka_unit_test(test_report),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
