/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Text that could deceive a reader, and text that no JSON encoder takes, is replaced; everything
 * else stays.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "common/text.h"
#include "common/utf8.h"

static void test_sanitize(void **state)
{
	static const struct {
		const char *text, *clean;
	} cases[] = {
		{ "", "" },
		{ "plain", "plain" },
		{ "f\xc3\xbcr \xe2\x82\xac \xf0\x9f\x99\x82",
			"f\xc3\xbcr \xe2\x82\xac \xf0\x9f\x99\x82" },
		{ "a\tb\x7f", "a?b?" },
		{ "\xc2\x85 \xc2\xa0", "?? \xc2\xa0" },
		/* Not UTF-8: a part of a character, an overlong one, a surrogate. */
		{ "\xc3", "?" },
		{ "\xe2\x82 x", "?? x" },
		{ "\xc0\xaf\xed\xa0\x80", "?????" },
		/* Characters without width, characters that reorder, separators. */
		{ "a\u200bb\u200fc", "a???b???c" },
		{ "a\u2028b\u202ec", "a???b???c" },
		{ "a\u2060b\u2069c", "a???b???c" },
		{ "\ufeffa\u061cb", "???a??b" },
		{ "\U000e0041", "????" },
		/* Their neighbours. */
		{ "\u200a\u2010\u2027\u202f\u205f\u2070\ufefe",
			"\u200a\u2010\u2027\u202f\u205f\u2070\ufefe" },
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		char text[64];

		(void)strcpy(text, cases[i].text);
		text_sanitize(text);
		assert_string_equal(text, cases[i].clean);
		assert_true(utf8_is_valid(text));
		assert_true(text_is_plain(text));
		assert_int_equal(
			text_is_plain(cases[i].text), streq(cases[i].text, cases[i].clean));
	}
}

static void test_number(void **state)
{
	assert_true(text_is_number("0") && text_is_number("0012345678901234567890"));
	assert_false(text_is_number(NULL) || text_is_number("") || text_is_number("-1"));
	assert_false(text_is_number("1 ") || text_is_number("0x1"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_sanitize),
		cmocka_unit_test(test_number),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
