/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What is written is read back with jansson: every byte of a string, what is no UTF-8, texts around
 * the size of the buffer, an error that comes late.
 */
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/mman.h>

#include <cmocka.h>
#include <jansson.h>

#include "common/json-write.h"

/* Writes an array of the string and reads it back. */
static json_t *round_trip(const char *string)
{
	int fd = memfd_create("test", MFD_CLOEXEC);
	struct json_writer writer;
	json_t *json;

	json_writer_init(&writer, fd);
	json_write_text(&writer, "[");
	json_write_string(&writer, string);
	json_write_text(&writer, ",");
	json_write_number(&writer, 1234567890);
	json_write_text(&writer, "]");
	assert_int_equal(json_writer_finish(&writer), 0);
	assert_int_equal(lseek(fd, 0, SEEK_SET), 0);
	json = json_loadfd(fd, 0, NULL);
	assert_non_null(json);
	assert_int_equal(json_integer_value(json_array_get(json, 1)), 1234567890);
	close_fd(fd);
	return json;
}

static void check(const char *string, const char *expected)
{
	json_t *json = round_trip(string);

	assert_string_equal(json_string_value(json_array_get(json, 0)), expected);
	json_decref(json);
}

static void test_strings(void **state)
{
	char every[128];
	json_t *json;

	for (int c = 1; c < 128; c++)
		every[c - 1] = (char)c;
	every[127] = '\0';
	check(every, every);
	check("", "");
	check("ü€😀", "ü€😀");
	check("a\xff\xc3(b\xe2\x82", "a?\?(b?\?");
	json = round_trip(NULL);
	assert_true(json_is_null(json_array_get(json, 0)));
	json_decref(json);
}

static void test_buffer_is_no_limit(void **state)
{
	for (size_t size = JSON_BUFFER_SIZE - 8; size < JSON_BUFFER_SIZE + 8; size++) {
		char *text = malloc(size + 1);

		assert_non_null(text);
		memset(text, 'x', size);
		text[size / 2] = '"';
		text[size] = '\0';
		check(text, text);
		free(text);
	}
}

static void test_numbers(void **state)
{
	static const struct {
		uint64_t number;
		const char *text;
	} cases[] = { { 0, "0\"0000000000000000\"" }, { 10, "10\"000000000000000a\"" },
		{ UINT64_MAX, "18446744073709551615\"ffffffffffffffff\"" } };

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		int fd = memfd_create("test", MFD_CLOEXEC);
		struct json_writer writer;
		char text[64] = "";

		json_writer_init(&writer, fd);
		json_write_number(&writer, cases[i].number);
		json_write_hex(&writer, cases[i].number);
		assert_int_equal(json_writer_finish(&writer), 0);
		assert_true(pread(fd, text, sizeof(text) - 1, 0) > 0);
		assert_string_equal(text, cases[i].text);
		close_fd(fd);
	}
}

static void test_error_is_kept(void **state)
{
	int fd = open("/dev/full", O_WRONLY | O_CLOEXEC);
	struct json_writer writer;

	assert_true(fd >= 0);
	json_writer_init(&writer, fd);
	for (size_t i = 0; i < JSON_BUFFER_SIZE; i++)
		json_write_text(&writer, "[1]");
	writer.fd = -EBADF;
	assert_int_equal(json_writer_finish(&writer), -ENOSPC);
	close_fd(fd);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_strings),
		cmocka_unit_test(test_buffer_is_no_limit),
		cmocka_unit_test(test_numbers),
		cmocka_unit_test(test_error_is_kept),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
