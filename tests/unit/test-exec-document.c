/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Documents of programs: reading good ones, and the errors about others.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "drivers/exec/exec-document.h"
#include "drivers/exec/exec-fields.h"
#include "error-fixture.h"

#define DOCUMENT(devices) "{\"version\": 1, \"devices\": [" devices "]}"
#define DEVICE(fields)    DOCUMENT("{\"id\": \"a\", " fields "}")

static struct exec_list *read_good(const char *text, enum exec_properties properties)
{
	struct exec_list *list = NULL;
	struct error error;

	if (exec_document_read(text, strlen(text), properties, &list, &error) < 0)
		fail_msg("%s", error.message);
	return list;
}

static void expect_strings(const struct strings *strings, const char *expected)
{
	char text[1024] = "";

	for (size_t i = 0; i < strings->count; i++) {
		(void)strcat(text, strings->items[i]);
		(void)strcat(text, " ");
	}
	assert_string_equal(text, expected);
}

static void test_everything(void **state)
{
	_cleanup_(exec_list_unrefp) struct exec_list *list = read_good(
		DEVICE("\"healthy\": true, \"reason\": \"not told\", \"numa\": [2, -1, 0],"
		       "\"nodes\": [{\"host\": \"/dev/x\"}, {\"host\": \"/dev/y\", \"path\": \"/dev/z\","
		       "\"permissions\": \"r\", \"optional\": true}],"
		       "\"mounts\": [{\"host\": \"/run/s\", \"path\": \"/s\", \"read_only\": true}],"
		       "\"env\": {\"A\": \"1\", \"B\": \"\"}, \"annotations\": {\"v.e/k\": \"v=w\"},"
		       "\"cdi\": [\"v.e/c=1\"], \"properties\": {\"P\": \"$ {}\"}"),
		PROPERTIES_VARIABLES);
	const struct device *device = list->devices[0];

	assert_int_equal(list->n_devices, 1);
	assert_string_equal(device->id, "a");
	assert_null(device->problem);
	assert_int_equal(device->n_numa, 2);
	assert_int_equal(device->numa[1], 2);
	assert_int_equal(device->n_nodes, 3);
	assert_string_equal(device->nodes[0].path, "/dev/x");
	assert_string_equal(device->nodes[0].permissions, "rw");
	assert_false(device->nodes[0].optional);
	assert_string_equal(device->nodes[1].path, "/dev/z");
	assert_string_equal(device->nodes[1].permissions, "r");
	assert_true(device->nodes[1].optional);
	assert_true(device->nodes[2].mount && device->nodes[2].read_only);
	expect_strings(&device->env, "A=1 B= ");
	expect_strings(&device->annotations, "v.e/k=v=w ");
	expect_strings(&device->cdi, "v.e/c=1 ");
	assert_string_equal(device_variable(device, "property:P"), "$ {}");
	assert_string_equal(device_variable(device, "original_id"), "a");
}

static void test_ids(void **state)
{
	_cleanup_(exec_list_unrefp) struct exec_list *list = read_good(
		DOCUMENT("{\"id\": \"front door/\\u00fc\"}, {\"id\": \"front door/\\u00e4\"}, "
			 "{\"id\": \"plain\"}"),
		PROPERTIES_VARIABLES);

	assert_int_equal(list->n_devices, 3);
	assert_non_null(startswith(list->devices[0]->id, "front-door-"));
	assert_string_not_equal(list->devices[0]->id, list->devices[1]->id);
	assert_string_equal(device_variable(list->devices[0], "original_id"), "front door/\u00fc");
	assert_string_equal(list->devices[2]->id, "plain");
}

static void test_health(void **state)
{
	_cleanup_(exec_list_unrefp) struct exec_list *list =
		read_good(DOCUMENT("{\"id\": \"a\", \"healthy\": false, \"reason\": \"too hot\"},"
				   "{\"id\": \"b\", \"healthy\": false}"),
			PROPERTIES_VARIABLES);

	assert_string_equal(list->devices[0]->problem, "too hot");
	assert_string_equal(
		list->devices[1]->problem, "its program reports it as unhealthy without a reason");
}

static void test_properties(void **state)
{
	static const char text[] =
		DEVICE("\"env\": {\"X\": \"said\"}, \"properties\": {\"X\": \"1\", \"Y\": \"2\"}");
	_cleanup_(exec_list_unrefp) struct exec_list *variables =
		read_good(text, PROPERTIES_VARIABLES);
	_cleanup_(exec_list_unrefp) struct exec_list *env = read_good(text, PROPERTIES_ENV);
	_cleanup_(exec_list_unrefp) struct exec_list *akri = read_good(text, PROPERTIES_AKRI);
	const char *hash = device_variable(akri->devices[0], "hash");
	char expected[128];

	assert_int_equal(strlen(hash), 6);
	assert_int_equal(strspn(hash, "0123456789ABCDEF"), 6);
	expect_strings(&variables->devices[0]->env, "X=said ");
	expect_strings(&env->devices[0]->env, "X=said Y=2 ");
	(void)snprintf(expected, sizeof(expected), "X=said X_%s=1 Y=2 Y_%s=2 ", hash, hash);
	expect_strings(&akri->devices[0]->env, expected);
}

static void test_equality(void **state)
{
	static const char *const texts[] = {
		DOCUMENT(""),
		DEVICE("\"healthy\": true"),
		DEVICE("\"healthy\": false"),
		DEVICE("\"env\": {\"X\": \"1\"}"),
		DEVICE("\"env\": {\"X\": \"2\"}"),
		DEVICE("\"annotations\": {\"X\": \"2\"}"),
		DEVICE("\"cdi\": [\"v.e/c=1\"]"),
		DEVICE("\"nodes\": [{\"host\": \"/dev/x\"}]"),
		DEVICE("\"nodes\": [{\"host\": \"/dev/x\", \"optional\": true}]"),
		DEVICE("\"properties\": {\"X\": \"2\"}"),
	};

	for (size_t i = 0; i < ARRAY_SIZE(texts); i++)
		for (size_t k = 0; k < ARRAY_SIZE(texts); k++) {
			_cleanup_(exec_list_unrefp) struct exec_list *a =
				read_good(texts[i], PROPERTIES_VARIABLES);
			_cleanup_(exec_list_unrefp) struct exec_list *b =
				read_good(texts[k], PROPERTIES_VARIABLES);

			assert_int_equal(exec_list_equal(a, b), i == k);
			/* A copy is as the original. */
			if (i > 0) {
				_cleanup_device_ struct device *copy = NULL;

				assert_int_equal(device_new("a", &copy), 0);
				assert_int_equal(device_copy(a->devices[0], copy), 0);
				assert_int_equal(
					k > 0 && device_equal(copy, b->devices[0]), i == k);
			}
		}
}

static void expect_bad_bytes(const char *text, size_t size, const char *message)
{
	struct exec_list *list = NULL;
	struct error error = { 0 };
	int r = exec_document_read(text, size, PROPERTIES_AKRI, &list, &error);

	if (r != -EBADMSG)
		fail_msg("%.80s: %d %s", text, r, error.message);
	assert_null(list);
	expect_words(error.message, message);
}

static void test_bad_documents(void **state)
{
	static const struct {
		const char *text;
		const char *message;
	} cases[] = {
		{ "", "line 1" },
		{ "hello", "is not valid JSON: " },
		{ "[]", "must be an object" },
		{ "{}", "\"version\" is missing" },
		{ "{\"version\": 1}", "\"devices\" is missing" },
		{ "{\"version\": 2, \"things\": []}",
			"unsupported version 2 of the protocol (expected 1)" },
		{ "{\"version\": \"1\", \"devices\": []}", "\"version\" must be a whole number" },
		{ "{\"version\": 1, \"devices\": {}}", "\"devices\" must be a list" },
		{ "{\"version\": 1, \"device\": []}", "did you mean \"devices\"?" },
		{ "{\"version\": 1, \"version\": 1, \"devices\": []}", "duplicate" },
		{ DOCUMENT("") " more", "end of file" },
		{ "{\"version\": 1,\n\"devices\": [\n}", "line 3" },
		{ DOCUMENT("7"), "devices[0]: must be an object" },
		{ DOCUMENT("{}"), "devices[0]: \"id\" is missing" },
		{ DOCUMENT("{\"id\": \"a\"}, {\"id\": \"\"}"),
			"devices[1]: \"id\" must not be empty" },
		{ DOCUMENT("{\"id\": \"a\\u0007b\"}"), "\"id\" contains a control character" },
		{ DOCUMENT("{\"id\": \"a\\u0085b\"}"), "\"id\" contains a control character" },
		{ DOCUMENT("{\"id\": \"a\\u0000b\"}"), "line 1" },
		{ DOCUMENT("{\"id\": \"a\nb\"}"), "line 1" },
		{ DOCUMENT("{\"id\": \"\xff\"}"), "unable to decode byte 0xff" },
		{ DOCUMENT("{\"id\": \"\\ud800\"}"), "line 1" },
		{ DEVICE("\"helthy\": true"),
			"devices[0]: unknown field \"helthy\", did you mean "
			"\"healthy\"?" },
		{ DEVICE("\"\\u001b[2J\": true"), "devices[0]: unknown field \"?[2J\"" },
		{ DEVICE("\"healthy\": 1"), "\"healthy\" must be true or false" },
		{ DEVICE("\"id\": \"b\""), "duplicate" },
		{ DEVICE("\"numa\": 0"), "\"numa\" must be a list" },
		{ DEVICE("\"numa\": [0.5]"), "numa[0]: must be the number of a NUMA node" },
		{ DEVICE("\"numa\": [0, 65536]"), "numa[1]: must be the number of a NUMA node" },
		{ DEVICE("\"numa\": [99999999999999999999]"), "too big" },
		{ DEVICE("\"nodes\": [{}]"), "nodes[0]: \"host\" is missing" },
		{ DEVICE("\"nodes\": [{\"host\": \"dev/x\"}]"),
			"devices[0]: nodes[0]: \"host\" must be an absolute path beginning with "
			"\"/\", not \"dev/x\"" },
		{ DEVICE("\"nodes\": [{\"host\": \"\"}]"), "must be an absolute path" },
		{ DEVICE("\"nodes\": [{\"host\": \"/dev/../etc\"}]"), "must not contain \"..\"" },
		{ DEVICE("\"nodes\": [{\"host\": \"/dev/x\", \"path\": \"x\"}]"), "\"path\" must" },
		{ DEVICE("\"nodes\": [{\"host\": \"/dev/x\", \"permissions\": \"rx\"}]"),
			"\"permissions\" must consist of" },
		{ DEVICE("\"nodes\": [{\"host\": \"/dev/x\", \"permissions\": \"\"}]"),
			"\"permissions\" must not be empty" },
		{ DEVICE("\"nodes\": [{\"host\": \"/dev/x\", \"read_only\": true}]"),
			"unknown field \"read_only\"" },
		{ DEVICE("\"mounts\": [{\"host\": \"/x\"}, {\"host\": \"x\"}]"),
			"mounts[1]: \"host\" must be" },
		{ DEVICE("\"mounts\": [{\"host\": \"/x\", \"read_only\": \"yes\"}]"),
			"\"read_only\" must be true or false" },
		{ DEVICE("\"env\": {\"A=B\": \"\"}"), "env: \"A=B\" must be a name" },
		{ DEVICE("\"env\": {\"1\": \"\"}"), "must be a name" },
		{ DEVICE("\"env\": {\"\": \"\"}"), "must be a name" },
		{ DEVICE("\"env\": {\"A\": 1}"), "env: \"A\" must be a string" },
		{ DEVICE("\"annotations\": {\"a b\": \"\"}"), "annotations: \"a b\" must be" },
		{ DEVICE("\"properties\": {\"a/b\": \"\"}"), "properties: \"a/b\" must be" },
		{ DEVICE("\"properties\": {\"a}\": \"\"}"), "must be a name" },
		{ DEVICE("\"cdi\": [\"gpu\"]"), "cdi[0]: \"cdi\" must be a CDI device name" },
		{ DEVICE("\"cdi\": [\"v.e/c=${id}\"]"), "must be a CDI device name" },
		{ DEVICE("\"cdi\": [[]]"), "\"cdi\" must be a string" },
		{ DEVICE("\"nodes\": [{\"host\": [[]]}]"), "deeper than the protocol allows" },
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++)
		expect_bad_bytes(cases[i].text, strlen(cases[i].text), cases[i].message);
	expect_bad_bytes("{\"version\": 1\0, \"devices\": []}", 30, "line 1: a NUL byte");
}

/* A document with something in it so many times. */
static char *repeat(
	const char *before, const char *what, const char *separator, size_t n, const char *after)
{
	size_t size;
	char *text = NULL;
	FILE *stream = open_memstream(&text, &size);

	assert_non_null(stream);
	(void)fputs(before, stream);
	for (size_t i = 0; i < n; i++)
		(void)fprintf(stream, "%s%s", i > 0 ? separator : "", what);
	(void)fputs(after, stream);
	assert_int_equal(fclose(stream), 0);
	return text;
}

static void test_bounds(void **state)
{
	static const struct {
		const char *before, *what, *separator, *after;
		size_t n;
		const char *message;
	} cases[] = {
		{ "", "[", "", "", 4000000, "deeper than the protocol allows" },
		{ "{\"a\":", "{\"a\":", "", "", 4000, "deeper than the protocol allows" },
		{ "{\"version\": 1, \"devices\": [", "[]", ",", "]}", 600000,
			"more than 500000 values" },
		{ "", " ", "", "", EXEC_DOCUMENT_MAX + 1, "more than 4194304 bytes" },
		{ "{\"version\": 1, \"devices\": [{\"id\": \"", "x", "", "\"}]}", 4097,
			"\"id\" is 4097 bytes long, the maximum is 4096" },
		{ "{\"version\": 1, \"devices\": [{\"id\": \"x\", \"nodes\": [",
			"{\"host\": \"/dev/x\"}", ",", "]}]}", 65,
			"\"nodes\" has 65 entries, the maximum is 64" },
		{ "{\"version\": 1, \"devices\": [{\"id\": \"x\", \"nodes\": [{\"host\": \"/",
			"\xc3\xa4", "", "/../x\"}]}]}", 2000, "must not contain" },
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		_cleanup_free_ char *text = repeat(cases[i].before, cases[i].what,
			cases[i].separator, cases[i].n, cases[i].after);

		expect_bad_bytes(text, strlen(text), cases[i].message);
	}
}

static void test_too_many_variables(void **state)
{
	size_t size;
	char *text = NULL;
	FILE *stream = open_memstream(&text, &size);

	(void)fputs("{\"version\": 1, \"devices\": [{\"id\": \"x\", \"env\": {", stream);
	for (unsigned i = 0; i < 65; i++)
		(void)fprintf(stream, "%s\"V%u\": \"\"", i > 0 ? "," : "", i);
	(void)fputs("}}]}", stream);
	assert_int_equal(fclose(stream), 0);
	expect_bad_bytes(text, size, "\"env\" has 65 members, the maximum is 64");
	free(text);
}

static void test_many_devices(void **state)
{
	_cleanup_(exec_list_unrefp) struct exec_list *list = NULL;
	size_t size;
	char *text = NULL;
	FILE *stream = open_memstream(&text, &size);

	(void)fputs("{\"version\": 1, \"devices\": [", stream);
	for (unsigned i = 0; i < 100000; i++)
		(void)fprintf(stream, "%s{\"id\": \"d%u\"}", i > 0 ? "," : "", i);
	(void)fputs("]}", stream);
	assert_int_equal(fclose(stream), 0);
	list = read_good(text, PROPERTIES_VARIABLES);
	assert_int_equal(list->n_devices, 100000);
	free(text);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_everything),
		cmocka_unit_test(test_ids),
		cmocka_unit_test(test_health),
		cmocka_unit_test(test_properties),
		cmocka_unit_test(test_equality),
		cmocka_unit_test(test_bad_documents),
		cmocka_unit_test(test_bounds),
		cmocka_unit_test(test_too_many_variables),
		cmocka_unit_test(test_many_devices),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
