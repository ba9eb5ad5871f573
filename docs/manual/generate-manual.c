/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Writes the manual of the configuration from the tables that the parser reads by, so that the two
 * cannot differ. The examples are files that the tests give to devplugd --check.
 */
#include "configuration/config.h"
#include "docs/manual/examples.h"
#include "drivers/model/driver.h"
#include "drivers/model/template.h"

static const struct manual_format *arg_format;
static const char *arg_examples;

static const char *const introduction[] = {
	"The file is in the syntax of libconfig: `key = value;`, lists in `( )`, groups in `{ "
	"}`, comments after `#`. Numbers are decimal, or hexadecimal after `0x`; a decimal number "
	"must not begin with 0. An unknown key and a value out of bounds are errors; "
	"`devplugd --check` prints every problem with its file and line. An empty file, or "
	"one with a problem, changes nothing.",
	"After the file, the drop-ins `/etc/devplugd.conf.d/*.conf` and then "
	"`/run/devplugd.conf.d/*.conf` are read, each directory in lexical order. For "
	"`devplugd -c FILE`, they are `FILE.d/*.conf`. The resources in a drop-in are added "
	"to the earlier ones; its other keys override earlier values.",
	"A line `@include \"FILE\"` stands for the content of that file. A relative path starts in "
	"the directory of the file that has this line, even if that file is itself included.",
	"A string that is marked as a template may contain variables: see the section "
	"Variables.",
	NULL,
};

/* --- what may be written for an option --- */

static void describe_choices(FILE *stream, const struct option *option)
{
	for (size_t i = 0; option->choices[i]; i++)
		(void)fprintf(stream,
			option_word_is_bool(option->choices[i]) ? "%s`%s`" : "%s`\"%s\"`",
			i == 0                           ? ""
				: option->choices[i + 1] ? ", "
							 : " or ",
			option->choices[i]);
}

static void describe_length(FILE *stream, const struct option *option)
{
	if (option->maximum > 0)
		(void)fprintf(stream, ", at most %lld bytes", (long long)option->maximum);
	if (option->template)
		(void)fputs(", template", stream);
}

static void describe_value(FILE *stream, const struct option *option)
{
	char variants[OPTION_VARIANTS_MAX];
	const struct option_table *table = option->table;

	switch (option->type) {
	case OPTION_BOOL:
		(void)fputs("`true` or `false`", stream);
		break;
	case OPTION_INTEGER:
		(void)fprintf(stream, "number%s%s, from %lld to %lld", option->unit ? " of " : "",
			option->unit ?: "", (long long)option->minimum, (long long)option->maximum);
		break;
	case OPTION_SECONDS:
		(void)fprintf(stream, "seconds, from %g to %g", (double)option->minimum / 1000,
			(double)option->maximum / 1000);
		break;
	case OPTION_STRING:
		(void)fputs("string", stream);
		describe_length(stream, option);
		break;
	case OPTION_STRINGS:
		(void)fputs("string or list of strings", stream);
		describe_length(stream, option);
		break;
	case OPTION_INTEGERS:
		(void)fprintf(stream, "number or list of numbers, from %lld to %lld",
			(long long)option->minimum, (long long)option->maximum);
		break;
	case OPTION_CHOICE:
		describe_choices(stream, option);
		break;
	case OPTION_GROUP:
		(void)fputs(table->off > 0 ? "group, or `false`" : "group", stream);
		break;
	case OPTION_GROUPS:
		(void)fputs("list of groups", stream);
		if (table->shorthand)
			(void)fprintf(stream, "; a string stands for a group with this `%s`",
				table->shorthand);
		break;
	case OPTION_DRIVER:
		(void)fputs("list of groups, with the keys of the driver", stream);
		break;
	}
	if (option->variant) {
		option_variants(option, variants);
		(void)fprintf(stream, "; only for %s", variants);
	}
}

/* Writes nothing if there is no default. */
static void describe_default(FILE *stream, const struct option *option)
{
	int64_t integer = option->default_integer;

	if (option->required)
		return;
	switch (option->type) {
	case OPTION_BOOL:
		(void)fprintf(stream, "`%s`", integer ? "true" : "false");
		return;
	case OPTION_INTEGER:
		if (integer >= option->minimum && integer <= option->maximum)
			(void)fprintf(stream, "`%lld`", (long long)integer);
		return;
	case OPTION_SECONDS:
		(void)fprintf(stream, "`%g`", (double)integer / 1000);
		return;
	case OPTION_STRING:
		if (option->default_string)
			(void)fprintf(stream, "`\"%s\"`", option->default_string);
		return;
	case OPTION_CHOICE:
		(void)fprintf(stream,
			option_word_is_bool(option->choices[integer]) ? "`%s`" : "`\"%s\"`",
			option->choices[integer]);
		return;
	case OPTION_STRINGS:
	case OPTION_INTEGERS:
	case OPTION_GROUP:
	case OPTION_GROUPS:
	case OPTION_DRIVER:
		return;
	}
}

static int write_key(const struct option *option)
{
	_cleanup_free_ char *value = NULL, *initial = NULL;
	size_t value_size, initial_size;
	FILE *value_stream = open_memstream(&value, &value_size);
	FILE *initial_stream = open_memstream(&initial, &initial_size);
	struct manual_key key = {
		.key = option->key, .help = option->help, .required = option->required
	};

	if (value_stream)
		describe_value(value_stream, option);
	if (initial_stream)
		describe_default(initial_stream, option);
	if ((value_stream && fclose(value_stream) != 0) || !value)
		return -ENOMEM;
	if ((initial_stream && fclose(initial_stream) != 0) || !initial)
		return -ENOMEM;
	key.value = value;
	key.initial = initial_size > 0 ? initial : NULL;
	arg_format->key(stdout, &key);
	return 0;
}

/* --- tables --- */

/* Whether all keys of the table are listed as those of the other. */
static bool is_part_of(const struct option_table *table, const struct option_table *other)
{
	for (size_t i = 0; i < table->count; i++) {
		const struct option *same = option_table_find(other, table->options[i].key);

		if (!same || !streq(same->help, table->options[i].help))
			return false;
	}
	return true;
}

static int write_table(const struct option_table *table, const char *path)
{
	int r = 0;

	arg_format->keys_begin(stdout);
	for (size_t i = 0; i < table->count && r >= 0; i++)
		r = write_key(&table->options[i]);
	for (size_t i = 0; i < table->count && r >= 0; i++) {
		const struct option *option = &table->options[i];
		char deeper[256], text[300];

		/* The resources have a section of their own. */
		if (!option->table || option->table == &declaration_table)
			continue;
		(void)snprintf(
			deeper, sizeof(deeper), "%s%s%s", path, path[0] ? "." : "", option->key);
		(void)snprintf(text, sizeof(text), "Keys of `%s`", deeper);
		arg_format->heading(stdout, 2, text);
		if (is_part_of(option->table, table)) {
			(void)snprintf(
				text, sizeof(text), "The keys above, without `%s`.", option->key);
			arg_format->paragraph(stdout, text);
		} else {
			r = write_table(option->table, deeper);
		}
	}
	return r;
}

static void write_variable(const struct driver_variable *variable)
{
	const char *attribute = driver_variable_attribute(variable);
	char form[64], text[512];

	(void)snprintf(form, sizeof(form), "${%s}", variable->name);
	if (!attribute)
		(void)snprintf(text, sizeof(text), "%s", variable->help);
	else if (streq(attribute, variable->name))
		(void)snprintf(text, sizeof(text), "%s Published by DRA.", variable->help);
	else
		(void)snprintf(text, sizeof(text), "%s Published by DRA as `%s`.", variable->help,
			attribute);
	arg_format->term(stdout, form, text);
}

static int write_driver(const struct driver *driver)
{
	char text[512];

	(void)snprintf(text, sizeof(text), "Driver `%s`", driver->name);
	arg_format->heading(stdout, 1, text);
	(void)snprintf(text, sizeof(text), "For %s.", driver->summary);
	arg_format->paragraph(stdout, text);
	if (driver->variables) {
		arg_format->paragraph(stdout, "It adds these variables:");
		arg_format->terms_begin(stdout);
	}
	for (const struct driver_variable *p = driver->variables; p && p->name; p++) {
		write_variable(p);
	}
	arg_format->paragraph(stdout, "Keys of an entry of `match`:");
	return write_table(driver->match, "match");
}

static void write_variables(void)
{
	const struct template_variable *variable;

	arg_format->heading(stdout, 1, "Variables");
	arg_format->paragraph(stdout,
		"A template may contain these variables and those of the driver. An unknown "
		"variable is an error. `$$` is a plain dollar sign.");
	arg_format->terms_begin(stdout);
	for (size_t i = 0; (variable = template_variable_get(i)); i++)
		arg_format->term(stdout, variable->form, variable->help);
}

/* --- documents --- */

static int write_keys(void)
{
	int r;

	arg_format->heading(stdout, 1, "Description");
	for (size_t i = 0; introduction[i]; i++)
		arg_format->paragraph(stdout, introduction[i]);
	arg_format->heading(stdout, 1, "Keys of the file");
	r = write_table(&config_table, "");
	if (r < 0)
		return r;
	arg_format->heading(stdout, 1, "Keys of a resource");
	arg_format->paragraph(stdout, "Each group in the list `resources` has these keys:");
	return write_table(&declaration_table, "");
}

static int write_configuration(void)
{
	int r = write_keys();

	if (r < 0)
		return r;
	arg_format->paragraph(
		stdout, "The keys of `match` are those of the driver, see devplugd-drivers(7).");
	write_variables();
	arg_format->heading(stdout, 1, "Examples");
	r = examples_write(arg_format, arg_examples, NULL);
	arg_format->heading(stdout, 1, "See also");
	arg_format->paragraph(stdout, "devplugd(8), devplugd-drivers(7), devplugctl(1)");
	return r;
}

static int write_drivers(void)
{
	int r = 0;

	arg_format->heading(stdout, 1, "Description");
	arg_format->paragraph(stdout,
		"A driver finds the devices of a resource, and the nodes and mounts that a "
		"container needs to use them. A resource selects it with `driver`. The keys "
		"of an entry in the resource's list `match` depend on the driver. All other "
		"keys, such as those for sharing, health and mounts, are the same for all "
		"drivers: see devplugd.conf(5).");
	for (size_t i = 0; drivers[i] && r >= 0; i++) {
		r = write_driver(drivers[i]);
		if (r < 0)
			return r;
		arg_format->heading(stdout, 2, "Examples");
		r = examples_write(arg_format, arg_examples, drivers[i]->name);
	}
	arg_format->heading(stdout, 1, "See also");
	arg_format->paragraph(stdout, "devplugd.conf(5), devplugd(8), devplugctl(1)");
	return r;
}

/* All in one, for a browser. */
static int write_everything(void)
{
	int r = write_keys();

	for (size_t i = 0; drivers[i] && r >= 0; i++)
		r = write_driver(drivers[i]);
	if (r < 0)
		return r;
	write_variables();
	arg_format->heading(stdout, 1, "Examples");
	r = examples_write(arg_format, arg_examples, NULL);
	return r < 0 ? r : examples_write(arg_format, arg_examples, ANY_DRIVER);
}

#define SUMMARY "hardware of a host as Kubernetes extended resources"

static const char *const files[] = {
	"/etc/devplugd.conf",
	"/etc/devplugd.conf.d/*.conf",
	"/run/devplugd.conf.d/*.conf",
	NULL,
};

static const struct document {
	const char *name;
	const struct manual_format *format;
	struct manual_title title;
	int (*write)(void);
} documents[] = {
	{ "devplugd.conf.5", &manual_page, { "devplugd.conf", 5, SUMMARY, files },
		write_configuration },
	{ "devplugd-drivers.7", &manual_page,
		{ "devplugd-drivers", 7, "how devplugd finds the devices of a resource", NULL },
		write_drivers },
	{ "configuration.md", &manual_markdown, { "devplugd.conf", 5, SUMMARY, files },
		write_everything },
};

static const struct document *parse_argv(int argc, char *argv[])
{
	for (size_t i = 0; argc == 3 && i < ARRAY_SIZE(documents); i++)
		if (streq(documents[i].name, argv[1]))
			return &documents[i];
	return NULL;
}

int main(int argc, char *argv[])
{
	const struct document *document = parse_argv(argc, argv);
	int r;

	if (!document) {
		(void)fputs("generate-manual DOCUMENT EXAMPLES_DIRECTORY\n", stderr);
		for (size_t i = 0; i < ARRAY_SIZE(documents); i++)
			(void)fprintf(stderr, "  %s\n", documents[i].name);
		return 2;
	}
	arg_format = document->format;
	arg_examples = argv[2];
	arg_format->begin(stdout, &document->title);
	r = document->write();
	if (r >= 0 && fflush(stdout) != 0)
		r = -errno;
	if (r < 0)
		(void)fprintf(stderr, "generate-manual: %s\n", strerror(-r));
	return r < 0 ? EXIT_FAILURE : EXIT_SUCCESS;
}
