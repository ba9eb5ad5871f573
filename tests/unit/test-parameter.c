/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Parameters of claims: which declarations are refused and where templates may use them, and which
 * values are permitted.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "configuration/config.h"
#include "drivers/model/declaration-tables.h"
#include "drivers/model/parameter.h"

#define SHELL                                                                          \
	"pass it as an argument: [ \"/bin/sh\", \"-c\", \"... \\\"$$1\\\"\", \"sh\", " \
	"\"${param:NAME}\" ]"
#define MODE "parameters = ( { name = \"mode\"; default = \"a\"; } ); "
#define ENV  "container = { env = \"M=${param:mode}\"; }; "

/* The process of the resource reads the text of its configuration. */
static void check_text(const struct config *config)
{
	_cleanup_report_ struct report report = { 0 };
	_cleanup_config_ struct config *again = NULL;
	const char *text = config->resources[0].text;

	if (config_load_resource(text, &report, &again) < 0)
		fail_msg("%s\n%s", text, report.entries[0].text);
	assert_string_equal(again->resources[0].text, text);
}

static void test_declared(void **state)
{
	static const struct {
		const char *keys, *problem; /* NULL: accepted */
	} cases[] = {
		{ MODE ENV, NULL },
		{ MODE "allocate = { command = \"/bin/a\"; };", NULL },
		{ MODE "prestart = { command = [ \"/bin/a\", \"-c\", \"${param:mode}\" ]; };",
			NULL },
		{ MODE "prestart = { command = [ \"/bin/sh\", \"-c\", \"x \\\"$$1\\\"\", \"sh\", "
		       "\"${param:mode}\" ]; };",
			NULL },
		{ MODE "container = { mounts = ( { host = \"/data/${param:mode}\"; } ); };", NULL },
		{ MODE "container = { nodes = ( \"?/dev/x${param:mode}\" ); };", NULL },
		{ ENV, "container.env: uses \"${param:mode}\", which `parameters` does not declare" },
		{ MODE,
			"parameters[0]: \"mode\" has no effect: write ${param:mode} in a template, or "
			"remove it" },
		{ MODE "container = { env = \"X${param:mode}=1\"; };",
			"container.env: must not use \"${param:mode}\": a parameter cannot be a part of a "
			"name" },
		{ MODE "container = { cdi = \"v.e/x=${param:mode}\"; };",
			"container.cdi: must not use \"${param:mode}\": a parameter cannot be a part of a "
			"CDI name" },
		{ MODE "prestart = { command = \"/bin/${param:mode}\"; };",
			"prestart.command: must not use \"${param:mode}\": a parameter cannot be the path "
			"of a program" },
		{ MODE "prestart = { command = [ \"/bin/bash\", \"-ec\", \"x ${param:mode}\" ]; };",
			"prestart.command: must not use \"${param:mode}\": a parameter cannot be a part of "
			"a shell's script, " SHELL },
		{ MODE "prestart = { command = [ \"/usr/bin/env\", \"sh\", \"-c\", \"${param:mode}\" ]; };",
			"prestart.command: must not use \"${param:mode}\": a parameter cannot be a part of "
			"a shell's script, " SHELL },
		{ MODE "health = ( { probe = \"exec\"; command = [ \"/bin/a\", \"${param:mode}\" ]; } );",
			"health[0].command[1]: must not use ${ids}, ${n}, ${info}, ${replica}, ${position}, "
			"${capacity} or ${param:NAME} as \"${param:mode}\" does: they have a value only while devices are "
			"assigned to a container; ${id} is the device's id" },
		{ ENV "parameters = ( { name = \"mode\"; } );",
			"parameters[0].default: is missing: with serve = \"plugin\", no pod can set the "
			"parameter" },
		{ ENV "parameters = ( { name = \"mode\"; values = ( \"a\", \"b\" ); default = \"c\"; } );",
			"parameters[0].default: must be \"a\" or \"b\", not \"c\"" },
		{ ENV "parameters = ( { name = \"mode\"; values = \"a\"; pattern = \"a\"; default = \"a\"; "
		      "} );",
			"parameters[0]: has \"values\" and \"pattern\": remove one of them" },
		{ ENV "parameters = ( { name = \"mode\"; default = \"a\"; }, { name = \"mode\"; default = "
		      "\"a\"; } );",
			"parameters[1]: \"mode\" is declared twice, remove one" },
		{ ENV "parameters = ( { name = \"1mode\"; default = \"a\"; } );",
			"parameters[0].name: must consist of at most 32 letters, digits, \"_\" and \"-\", and "
			"begin with a letter, not \"1mode\"" },
		{ ENV "parameters = ( { name = \"mode\"; type = \"int\"; default = \"1\"; } );",
			"parameters[0].min: is missing" },
		{ ENV "parameters = ( { name = \"mode\"; type = \"int\"; min = 2; max = 1; default = "
		      "\"1\"; } );",
			"parameters[0]: has a min that is larger than max" },
		{ ENV "parameters = ( { name = \"mode\"; type = \"int\"; min = 1; max = 2; default = "
		      "\"x\"; } );",
			"parameters[0].default: must be a whole number from 1 to 2, not \"x\"" },
		{ ENV "parameters = ( { name = \"mode\"; type = \"int\"; min = 0; max = 0; default = "
		      "\"0\"; } );",
			NULL },
		{ ENV "parameters = ( { name = \"mode\"; type = \"int\"; min = -9223372036854775807L; "
		      "max = 9223372036854775807L; default = \"0\"; } );",
			NULL },
		{ ENV "parameters = ( { name = \"mode\"; type = \"bool\"; values = \"a\"; } );",
			"parameters[0].values: is only for type = \"string\", remove it" },
		{ ENV "parameters = ( { name = \"mode\"; values = \"a\tb\"; default = \"a\"; } );",
			"parameters[0].values: must not contain control characters" },
		{ "container = { mounts = ( { host = \"/data/${param:mode}\"; } ); }; parameters = ( { "
		  "name = \"mode\"; values = ( \"a\", \"a/b\" ); default = \"a\"; } );",
			"parameters[0]: has \"a/b\", but \"mode\" is a part of a path in `container`: use "
			"names without \"/\"" },
		{ "container = { nodes = ( \"/dev/${param:mode}\" ); }; parameters = ( { name = \"mode\"; "
		  "pattern = \"*\"; default = \"..\"; } );",
			"parameters[0]: has \"..\", but \"mode\" is a part of a path in `container`: use "
			"names without \"/\"" },
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		_cleanup_report_ struct report report = { 0 };
		struct config *config = NULL;
		char text[2048];

		(void)snprintf(text, sizeof(text),
			"name = \"v.e/x\"; driver = \"path\"; match = \"/dev/x\"; %s",
			cases[i].keys);
		if (config_load_resource(text, &report, &config) !=
			(cases[i].problem ? -EINVAL : 0))
			fail_msg("%s\n%s", cases[i].keys,
				report.count > 0 ? report.entries[0].text : "accepted");
		assert_int_equal(report.count > 0, cases[i].problem != NULL);
		if (cases[i].problem && !strstr(report.entries[0].text, cases[i].problem))
			fail_msg("%s\n%s", cases[i].keys, report.entries[0].text);
		if (!cases[i].problem)
			check_text(config);
		config_free(config);
	}
}

static void test_many(void **state)
{
	for (int count = PARAMETERS_MAX; count <= PARAMETERS_MAX + 1; count++) {
		_cleanup_report_ struct report report = { 0 };
		struct config *config = NULL;
		char text[4096];
		int length;

		length = snprintf(text, sizeof(text),
			"name = \"v.e/x\"; driver = \"path\"; match = \"/dev/x\"; allocate = { command "
			"= \"/bin/a\"; }; parameters = ( ");
		for (int i = 0; i < count; i++)
			length += snprintf(text + length, sizeof(text) - (size_t)length,
				"%s{ name = \"a%d\"; default = \"x\"; }", i > 0 ? ", " : "", i);
		(void)snprintf(text + length, sizeof(text) - (size_t)length, " );");
		assert_int_equal(config_load_resource(text, &report, &config),
			count > PARAMETERS_MAX ? -EINVAL : 0);
		if (count > PARAMETERS_MAX)
			assert_non_null(strstr(report.entries[0].text,
				"parameters: has 17 parameters, the maximum is 16"));
		config_free(config);
	}
}

/* What the process of a resource gets from the supervisor. */
static void test_read(void **state)
{
	static char mode[] = "mode", level[] = "level", two[] = "2";
	static struct declared_parameter declared[] = {
		{ .name = mode, .max_length = 8 },
		{ .name = level, .type = PARAMETER_INT, .min = -3, .max = 3, .default_text = two },
	};
	const struct groups groups = {
		.items = declared, .count = ARRAY_SIZE(declared), .table = &parameter_table
	};
	static const struct {
		const char *resolved, *mode, *level;
		int r;
	} cases[] = {
		{ "{}", NULL, "2", 0 },
		{ "{\"mode\": \"a.b\", \"level\": \"-3\", \"other\": \"\\n\"}", "a.b", "-3", 0 },
		{ "{\"mode\": \"a b\"}", NULL, NULL, -EINVAL },
		{ "{\"mode\": \"123456789\"}", NULL, NULL, -EINVAL },
		{ "{\"mode\": \"\"}", NULL, NULL, -EINVAL },
		{ "{\"level\": \"4\"}", NULL, NULL, -EINVAL },
		{ "{\"level\": \"99999999999999999999\"}", NULL, NULL, -EINVAL },
		{ "{\"level\": \"1 \"}", NULL, NULL, -EINVAL },
		{ "{\"level\": \"-\"}", NULL, NULL, -EINVAL },
		{ "{\"level\": \" 1\"}", NULL, NULL, -EINVAL },
		/* The supervisor sends texts. */
		{ "{\"level\": 1}", NULL, "2", 0 },
		{ "[]", NULL, "2", 0 },
	};

	assert_null(parameter_value(NULL, NULL, "mode"));
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		_cleanup_strings_ struct strings values = { 0 };
		json_auto_t *resolved = json_loads(cases[i].resolved, 0, NULL);
		struct error error = { 0 };

		assert_non_null(resolved);
		assert_int_equal(parameters_read(&groups, resolved, &values, &error), cases[i].r);
		if (cases[i].r < 0)
			continue;
		assert_string_equal(
			parameter_value(&groups, &values, "mode") ?: "-", cases[i].mode ?: "-");
		assert_string_equal(parameter_value(&groups, &values, "level"), cases[i].level);
		assert_null(parameter_value(&groups, &values, "other"));
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_declared),
		cmocka_unit_test(test_many),
		cmocka_unit_test(test_read),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
