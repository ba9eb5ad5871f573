/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sentences that are cut stay text, and lose no more than a character by it.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "common/error.h"
#include "common/utf8.h"

static void expect_cut(const char *character)
{
	struct error error = { 0 };
	size_t size = strlen(character), room = sizeof(error.message) - 1;
	char text[2 * sizeof(error.message)];

	/* Every place in a character at which a cut can fall. */
	for (size_t shift = 0; shift < size; shift++) {
		memset(text, 'x', shift);
		for (size_t i = shift; i + size < sizeof(text); i += size)
			memcpy(text + i, character, size + 1);
		assert_int_equal(error_set(&error, -EINVAL, "%s", text), -EINVAL);
		assert_true(utf8_is_valid(error.message));
		assert_true(strlen(error.message) > room - size);
		assert_memory_equal(error.message, text, strlen(error.message));
	}
}

static void test_cut(void **state)
{
	expect_cut("x");
	expect_cut("\xc3\xa4");
	expect_cut("\xe2\x82\xac");
	expect_cut("\xf0\x9f\x99\x82");
}

static void test_short_text_is_kept(void **state)
{
	struct error error = { 0 };

	(void)error_set(&error, -EINVAL, "f\xc3\xbcr \t\xe2\x82\xac");
	assert_string_equal(error.message, "f\xc3\xbcr ?\xe2\x82\xac");
	(void)error_set(&error, -EINVAL, "%s", "");
	assert_string_equal(error.message, "");
}

/* A precision cuts bytes, wherever it is. */
static void test_cut_within(void **state)
{
	struct error error = { 0 };

	(void)error_set(&error, -EINVAL, "\"%.2s\" is not known", "x\xc3\xa4");
	assert_string_equal(error.message, "\"x?\" is not known");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_cut),
		cmocka_unit_test(test_cut_within),
		cmocka_unit_test(test_short_text_is_kept),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
