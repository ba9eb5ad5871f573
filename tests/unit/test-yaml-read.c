/* SPDX-License-Identifier: Apache-2.0 */
/*
 * YAML and JSON as trees, what is refused because it is not valid, and what is only not read here.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "common/yaml-read.h"

static void expect_tree(const char *text, const char *expected)
{
	struct error error = { 0 };
	json_t *tree = NULL;
	char *found;

	print_message("%s\n", text);
	if (yaml_read(text, strlen(text), &tree, &error) < 0)
		fail_msg("%s", error.message);
	found = json_dumps(tree, JSON_COMPACT | JSON_SORT_KEYS | JSON_ENCODE_ANY);
	assert_string_equal(found, expected);
	free(found);
	json_decref(tree);
}

static void test_trees(void **state)
{
	static const char expected[] = "{\"a\":\"1\",\"b\":[\"x\",{\"c\":\"y z\"},[]],\"d\":{}}";

	expect_tree("{\"a\": 1, \"b\": [\"x\", {\"c\": \"y z\"}, []], \"d\": {}}", expected);
	expect_tree("{\n\t\"a\":\t1,\n\t\"b\": [\"x\", {\"c\": \"y z\"}, []],\n\t\"d\": {}\n}",
		expected);
	expect_tree("---\na: 1 # no part of it\nb:\n- x\n- c: y\n    z\n- []\nd: {}\n", expected);
	expect_tree("a: '1'\nb:\n    - \"x\"\n    - {c: y z}\n    - []\nd: {}\n---\nsecond\n",
		expected);
	expect_tree("a: |\n  b: c\n  d\n", "{\"a\":\"b: c\\nd\\n\"}");
	expect_tree("a: &anchor b\nc: \"\\u00e9\"\n", "{\"a\":\"b\",\"c\":\"\xc3\xa9\"}");
	expect_tree("- a\n- b\n", "[\"a\",\"b\"]");
	expect_tree("text", "\"text\"");
}

static void expect_refused(const char *text, int code, const char *why)
{
	struct error error = { 0 };
	json_t *tree = NULL;

	print_message("%.60s\n", text);
	assert_int_equal(yaml_read(text, strlen(text), &tree, &error), code);
	assert_null(tree);
	if (!strstr(error.message, why))
		fail_msg("\"%s\" lacks \"%s\"", error.message, why);
	/* Without a structure for the error. */
	assert_int_equal(yaml_read(text, strlen(text), &tree, NULL), code);
}

static void test_refused(void **state)
{
	char deep[400];

	expect_refused("", -EBADMSG, "it is empty");
	expect_refused("# nothing\n", -EBADMSG, "it is empty");
	expect_refused("{\"a\": [\"b\"", -EBADMSG, "line 1: ");
	expect_refused("a:\n  - b\n c: d\n", -EBADMSG, "line 3: ");
	expect_refused("a: b\nc: \"d\n", -EBADMSG, "line 2: ");
	expect_refused("a: b\n\tc: d\n", -EBADMSG, "line 2: ");
	expect_refused("a: \x01\n", -EBADMSG, "control characters are not allowed");
	expect_refused("a: \xff\n", -EBADMSG, "UTF-8");
	expect_refused("a: b\na: c\n", -EBADMSG, "line 2: a key occurs twice");
	expect_refused("? [a]\n: b\n", -EBADMSG, "line 1: a key is not a scalar");
	expect_refused("a: &x b\nc: *x\n", -EOPNOTSUPP, "line 2: aliases of anchors");
	expect_refused("*x\n", -EOPNOTSUPP, "line 1: aliases of anchors");
	memset(deep, '[', sizeof(deep) - 1);
	deep[sizeof(deep) - 1] = '\0';
	expect_refused(deep, -EOPNOTSUPP, "line 1: it is nested too deeply");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_trees),
		cmocka_unit_test(test_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
