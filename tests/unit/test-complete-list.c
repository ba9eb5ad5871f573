/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Complete lists of devices: which documents are one, and what is missing or in excess compared
 * with one.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/mman.h>

#include <cmocka.h>

#include "drivers/inventory/complete-list.h"

#define MATCH "\"match\":\"0123456789abcdef\""

static int read_text(const char *text, struct complete_list *ret)
{
	return complete_list_read(text, strlen(text), ret);
}

static void add(struct strings *strings, const char *words)
{
	while (*words) {
		size_t length = strcspn(words, " ");

		assert_int_equal(strings_add(strings, words, length), 0);
		words += length + (words[length] == ' ');
	}
}

static void test_documents(void **state)
{
	static const char *const refused[] = {
		"",
		"[]",
		"{}",
		"{" MATCH "}",
		"{\"devices\":[]}",
		"{" MATCH ",\"devices\":{}}",
		"{" MATCH ",\"devices\":[1]}",
		"{" MATCH ",\"devices\":[\"\"]}",
		"{" MATCH ",\"devices\":[\"a/b\"]}",
		"{" MATCH ",\"devices\":[\"b\",\"a\"]}",
		"{" MATCH ",\"devices\":[\"a\",\"a\"]}",
		"{" MATCH ",\"devices\":[],\"more\":1}",
		"{\"match\":\"0123456789abcde\",\"devices\":[]}",
		"{\"match\":\"0123456789ABCDEF\",\"devices\":[]}",
		"{\"match\":1,\"devices\":[]}",
		"{" MATCH ",\"devices\":[\"a\"]",
	};
	_cleanup_complete_list_ struct complete_list list = { 0 }, again = { 0 };
	char text[256];
	ssize_t n;
	int fd;

	for (size_t i = 0; i < ARRAY_SIZE(refused); i++)
		assert_int_equal(read_text(refused[i], &list), -EBADMSG);
	assert_int_equal(read_text("{" MATCH ",\"devices\":[\"a\",\"b\"]}", &list), 0);
	assert_int_equal(list.match, 0x0123456789abcdef);
	assert_int_equal(list.ids.count, 2);
	/* What is written is read again. */
	fd = memfd_create("list", MFD_CLOEXEC);
	assert_int_equal(complete_list_write(&list, fd), 0);
	n = pread(fd, text, sizeof(text), 0);
	(void)close_fd(fd);
	assert_true(n > 0);
	assert_int_equal(complete_list_read(text, (size_t)n, &again), 0);
	assert_true(complete_list_equal(&list, &again));
	again.match++;
	assert_false(complete_list_equal(&list, &again));
}

static void test_comparison(void **state)
{
	static const struct {
		uint64_t count;
		const char *last, *found, *missing, *extra, *reason;
	} cases[] = {
		{ 2, "", "a b", "", "", NULL },
		{ 2, "a b", "a b", "", "", NULL },
		{ 2, "a b", "a c", "", "", NULL },
		{ 2, "a b", "b", "a", "", "1 of 2 devices is present; missing: a" },
		{ 2, "a b", "", "a b", "", "0 of 2 devices are present; missing: a, b" },
		{ 3, "a b c", "a d", "b c", "d",
			"2 of 3 devices are present; missing: b, c; not in the last complete list: d" },
		{ 2, "a b", "a b c", "", "c",
			"3 devices are present instead of 2; not in the last complete list: c" },
		{ 1, "a", "b c", "a", "b c",
			"2 devices are present instead of 1; missing: a; not in the last complete list: b, c" },
		{ 3, "a b", "a b", "", "",
			"2 of 3 devices are present; no complete list was ever seen, so none can be named" },
		{ 1, "", "", "", "",
			"0 of 1 devices are present; no complete list was ever seen, so none can be named" },
		{ 10, "a b c d e f g h i j", "", "a b c d e f g h i j", "",
			"0 of 10 devices are present; missing: a, b, c, d, e, f, g, h and 2 more" },
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		_cleanup_expectation_ struct expectation expectation = { 0 };
		_cleanup_complete_list_ struct complete_list last = { 0 };
		_cleanup_strings_ struct strings found = { 0 }, missing = { 0 }, extra = { 0 };

		add(&last.ids, cases[i].last);
		add(&found, cases[i].found);
		add(&missing, cases[i].missing);
		add(&extra, cases[i].extra);
		assert_int_equal(expectation_new(cases[i].count, &found, &last, &expectation), 0);
		assert_int_equal(expectation.found, found.count);
		assert_true(strings_equal(&expectation.missing, &missing));
		assert_true(strings_equal(&expectation.extra, &extra));
		if (cases[i].reason)
			assert_string_equal(expectation.reason, cases[i].reason);
		else
			assert_null(expectation.reason);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_documents),
		cmocka_unit_test(test_comparison),
	};

	return cmocka_run_group_tests_name("complete-list", tests, NULL, NULL);
}
