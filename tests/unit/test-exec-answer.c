/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The documents for programs at Allocate, and reading their answers.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "common/sealed.h"
#include "drivers/allocation/inquiry-documents.h"
#include "drivers/exec/exec-document.h"
#include "drivers/exec/exec-fields.h"
#include "error-fixture.h"

/* --- requests --- */

static void expect_request(const struct snapshot *snapshot, const struct exec_given *given,
	size_t n_given, const char *expected)
{
	char name[] = "v.e/seat";
	const struct declaration declaration = { .name = name };
	_cleanup_close_ int fd = exec_request_new(&declaration, NULL, snapshot, given, n_given);
	_cleanup_free_ char *text = NULL;
	char first;
	size_t size;

	assert_true(fd >= 0);
	assert_int_equal(sealed_read(fd, 1U << 20, &text, &size), 0);
	assert_string_equal(text, expected);
	/* A program reads from the beginning, and changes nothing. */
	assert_int_equal(read(fd, &first, 1), 1);
	assert_int_equal(first, '{');
	assert_int_equal(write(fd, "x", 1), -1);
}

static void test_request(void **state)
{
	static const char text[] =
		"{\"version\": 1, \"devices\": [{\"id\": \"a b\", \"numa\": [1, 0],"
		"\"nodes\": [{\"host\": \"/dev/x\", \"path\": \"/dev/y\"}],"
		"\"mounts\": [{\"host\": \"/run/s\", \"read_only\": true, \"optional\": true}],"
		"\"env\": {\"A\": \"1=2\", \"B\": \"\\\"\"}, \"annotations\": {\"v.e/a\": \"x\"},"
		"\"cdi\": [\"v.e/c=1\", \"v.e/c=2\"], \"properties\": {\"P\": \"\u00e4\", \"Q\": \"\"}},"
		"{\"id\": \"b\"}]}";
	static const struct exec_given given[] = { { 0, 0 }, { 0, 7 }, { 1, 3 } };
	_cleanup_(exec_list_unrefp) struct exec_list *list = NULL;
	struct snapshot_unit units[2] = { { .replicas = 10 }, { .replicas = 10 } };
	struct snapshot snapshot = { .shared = true, .units = units, .n_units = 2 };
	struct error error;

	assert_int_equal(
		exec_document_read(text, strlen(text), PROPERTIES_VARIABLES, &list, &error), 0);
	units[0].device = list->devices[0];
	units[1].device = list->devices[1];
	expect_request(&snapshot, given, ARRAY_SIZE(given),
		"{\"version\": 1, \"resource\": \"v.e/seat\", \"devices\": ["
		"{\"id\": \"a b\", \"device_id\": \"a-b-99190483dead\", "
		"\"offered_ids\": [\"a-b-99190483dead#0\", \"a-b-99190483dead#7\"], \"numa\": [0, 1], "
		"\"nodes\": [{\"host\": \"/dev/x\", \"path\": \"/dev/y\", \"permissions\": \"rw\", "
		"\"optional\": false}], "
		"\"mounts\": [{\"host\": \"/run/s\", \"path\": \"/run/s\", \"read_only\": true, "
		"\"optional\": true}], "
		"\"env\": {\"A\": \"1=2\", \"B\": \"\\u0022\"}, \"annotations\": {\"v.e/a\": \"x\"}, "
		"\"cdi\": [\"v.e/c=1\", \"v.e/c=2\"], \"properties\": {\"P\": \"\u00e4\", \"Q\": \"\"}}, "
		"{\"id\": \"b\", \"device_id\": \"b\", \"offered_ids\": [\"b#3\"], \"numa\": [], "
		"\"nodes\": [], \"mounts\": [], \"env\": {}, \"annotations\": {}, \"cdi\": [], "
		"\"properties\": {}}]}\n");
	snapshot.shared = false;
	expect_request(&snapshot, &(struct exec_given){ 1, 0 }, 1,
		"{\"version\": 1, \"resource\": \"v.e/seat\", \"devices\": ["
		"{\"id\": \"b\", \"device_id\": \"b\", \"offered_ids\": [\"b\"], \"numa\": [], "
		"\"nodes\": [], \"mounts\": [], \"env\": {}, \"annotations\": {}, \"cdi\": [], "
		"\"properties\": {}}]}\n");
}

/* --- answers --- */

static void expect_strings(const struct strings *strings, const char *expected)
{
	char text[1024] = "";

	for (size_t i = 0; i < strings->count; i++) {
		(void)strcat(text, strings->items[i]);
		(void)strcat(text, " ");
	}
	assert_string_equal(text, expected);
}

static void test_answer(void **state)
{
	static const char text[] =
		"{\"cdi\": [\"v.e/c=1\"], \"version\": 1, \"env\": {\"A\": \"1\"},\n"
		"\"nodes\": [{\"host\": \"/dev/x\", \"permissions\": \"r\"}],\n"
		"\"mounts\": [{\"host\": \"/run/s\", \"path\": \"/s\", \"read_only\": true}],\n"
		"\"annotations\": {\"v.e/a\": \"x\"}}\n";
	_cleanup_device_ struct device *answer = NULL, *empty = NULL;
	struct error error;

	assert_int_equal(exec_answer_read(text, strlen(text), &answer, &error), 0);
	assert_int_equal(answer->n_nodes, 2);
	assert_string_equal(answer->nodes[0].host, "/dev/x");
	assert_string_equal(answer->nodes[0].path, "/dev/x");
	assert_string_equal(answer->nodes[0].permissions, "r");
	assert_true(answer->nodes[1].mount && answer->nodes[1].read_only);
	expect_strings(&answer->env, "A=1 ");
	expect_strings(&answer->annotations, "v.e/a=x ");
	expect_strings(&answer->cdi, "v.e/c=1 ");
	assert_int_equal(exec_answer_read("{\"version\": 1}", 14, &empty, &error), 0);
	assert_int_equal(empty->n_nodes + empty->env.count, 0);
}

static void expect_bad(const char *text, const char *message)
{
	struct device *answer = NULL;
	struct error error = { 0 };

	assert_int_equal(exec_answer_read(text, strlen(text), &answer, &error), -EBADMSG);
	assert_null(answer);
	expect_words(error.message, message);
}

static void test_bad_answers(void **state)
{
	static const struct {
		const char *text;
		const char *message;
	} cases[] = {
		{ "", "line 1" },
		{ "done", "is not valid JSON: " },
		{ "[]", "must be an object" },
		{ "{}", "\"version\" is missing" },
		{ "{\"version\": 2, \"things\": 1}",
			"unsupported version 2 of the protocol (expected 1)" },
		{ "{\"version\": \"1\"}", "\"version\" must be a whole number" },
		{ "{\"version\": 1, \"devices\": []}", "unknown field \"devices\"" },
		{ "{\"version\": 1, \"id\": \"a\"}", "unknown field \"id\"" },
		{ "{\"version\": 1, \"mount\": []}", "did you mean \"mounts\"?" },
		{ "{\"version\": 1, \"env\": []}", "\"env\" must be an object" },
		{ "{\"version\": 1, \"env\": {\"A=\": \"\"}}", "env: \"A=\" must be a name" },
		{ "{\"version\": 1, \"env\": {\"A\": \"\\u0007\"}}",
			"contains a control character" },
		{ "{\"version\": 1, \"mounts\": [{\"host\": \"x\"}]}",
			"mounts[0]: \"host\" must be an absolute path" },
		{ "{\"version\": 1, \"nodes\": [{\"host\": \"/dev/../x\"}]}",
			"nodes[0]: \"host\" must not contain \"..\"" },
		{ "{\"version\": 1, \"annotations\": {\"a b\": \"\"}}",
			"annotations: \"a b\" must be" },
		{ "{\"version\": 1, \"cdi\": [\"gpu\"]}", "must be a CDI device name" },
		{ "{\"version\": 1} {\"version\": 1}", "end of file" },
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++)
		expect_bad(cases[i].text, cases[i].message);
}

/* The limits are those of a list of devices. */
static void test_bounds(void **state)
{
	_cleanup_free_ char *text = malloc(EXEC_DOCUMENT_MAX + 2);

	assert_non_null(text);
	memset(text, ' ', EXEC_DOCUMENT_MAX + 1);
	text[EXEC_DOCUMENT_MAX + 1] = '\0';
	expect_bad(text, "more than 4194304 bytes");
	memset(text, '[', 1000);
	text[1000] = '\0';
	expect_bad(text, "deeper than the protocol allows");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_request),
		cmocka_unit_test(test_answer),
		cmocka_unit_test(test_bad_answers),
		cmocka_unit_test(test_bounds),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
