/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Labels of the node: how names and values are made of texts, and which files of a process are
 * written. test_labels.py covers the configuration.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "drivers/model/node-label.h"

static void test_texts(void **state)
{
	static const struct {
		const char *text, *value, *name;
	} cases[] = {
		{ "NVIDIA A100 (80 GB)", "NVIDIA-A100-80-GB", "NVIDIA-A100-80-GB" },
		{ "v.e/a b/", "v.e-a-b", "v.e/a-b" },
		{ "--a--b__.", "a--b", "a--b" },
		{ "\xc3\xa4", "", "" },
		{ "", "", "" },
		{ "0123456789012345678901234567890123456789012345678901234567890.x-y",
			"0123456789012345678901234567890123456789012345678901234567890.x",
			"0123456789012345678901234567890123456789012345678901234567890.x" },
	};
	char made[NODE_LABEL_NAME_MAX + 1];

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		node_label_make(cases[i].text, false, made);
		assert_string_equal(made, cases[i].value);
		node_label_make(cases[i].text, true, made);
		assert_string_equal(made, cases[i].name);
	}
}

static void test_configuration(void **state)
{
	static const char *const good[] = { "a=", "a=x=y", "v.e/a.${b}=x", "${attr:a/b}=x" };
	static const char *const bad[] = { "", "=", "a", "${attr:a=b}", "${attr:a/b}/c=x",
		"a/${b}/c=x", "${b", "/a=x", "a/=x", "a=${ids}", "a=${info}", "a=${replica}",
		"a=${position}", "a=${capacity:b}", "a=${param:b}" };
	struct error error;

	for (size_t i = 0; i < ARRAY_SIZE(good); i++)
		assert_int_equal(node_label_check(good[i], &error), 0);
	for (size_t i = 0; i < ARRAY_SIZE(bad); i++)
		assert_int_equal(node_label_check(bad[i], &error), -EINVAL);
	assert_true(node_label_has_domain("v.e/a=x"));
	assert_false(node_label_has_domain("${attr:a/b}=x/y"));
}

static void test_files(void **state)
{
	static const char *const good[] = { "", "model=x\n", "model=\n",
		"gpu.x=1\nmodel=a-b_c.d\nv.e/vendor.example=2\n" };
	static const char *const bad[] = { "model", "model=x", "model\n", "=x\n", "other=x\n",
		"models=x\n", "gpu=x\n", "gpu.=x\n", "gpu.a/b=x\n", "x/model=x\n", "model=a b\n",
		"model=-\n", "\n", "# +no-label\n", "model=x\n\n", "gpu.x=1=2\n", "gpu. x=1\n",
		"v.e/other=2\n" };
	_cleanup_strings_ struct strings templates = { 0 };
	char *text = calloc(1, NODE_LABELS_SIZE_MAX + 64);

	assert_int_equal(strings_add(&templates, "model=${model}", 14), 0);
	assert_int_equal(strings_add(&templates, "gpu.${model}=1", 14), 0);
	assert_int_equal(strings_add(&templates, "v.e/vendor.example=${n}", 23), 0);
	for (size_t i = 0; i < ARRAY_SIZE(good); i++)
		assert_int_equal(node_labels_check(good[i], &templates, "vendor.example/gpu"), 0);
	for (size_t i = 0; i < ARRAY_SIZE(bad); i++)
		assert_int_equal(
			node_labels_check(bad[i], &templates, "vendor.example/gpu"), -EBADMSG);
	/* No more than node-feature-discovery reads. */
	for (size_t i = 0; i < NODE_LABELS_SIZE_MAX / 8; i++)
		(void)strcpy(text + 8 * i, "model=x\n");
	assert_int_equal(node_labels_check(text, &templates, "vendor.example/gpu"), 0);
	(void)strcat(text, "model=x\n");
	assert_int_equal(node_labels_check(text, &templates, "vendor.example/gpu"), -EBADMSG);
	free(text);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_texts),
		cmocka_unit_test(test_configuration),
		cmocka_unit_test(test_files),
	};

	return cmocka_run_group_tests_name("node-label", tests, NULL, NULL);
}
