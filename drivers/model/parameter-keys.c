/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Defines the keys of a resource's `parameters`, and decides where its templates may use them.
 * Because values come from the author of a pod, they may not be the name of a program, of a
 * variable or of a CDI device, nor be read by a shell.
 */
#include "common/error.h"
#include "common/text.h"
#include "drivers/model/declaration-tables.h"
#include "drivers/model/parameter.h"
#include "drivers/model/template.h"

static int check_name(const char *value, struct error *error)
{
	return parameter_name_is_valid(value)
		? 0
		: error_set(error, -EINVAL,
			  "must consist of at most %d letters, digits, \"_\" and \"-\", and begin "
			  "with a letter, not \"%s\"",
			  PARAMETER_NAME_MAX, value);
}

static int check_plain(const char *value, struct error *error)
{
	return text_is_plain(value)
		? 0
		: error_set(error, -EINVAL, "must not contain control characters");
}

static const struct option parameter_options[] = {
	{
		.key = "name",
		.type = OPTION_STRING,
		.offset = offsetof(struct declared_parameter, name),
		.required = true,
		.check = check_name,
		.help = "Name of the parameter in claims, and in templates as ${param:NAME}.",
	},
	{
		.key = "type",
		.type = OPTION_CHOICE,
		.offset = offsetof(struct declared_parameter, type),
		.default_integer = PARAMETER_STRING,
		.choices = parameter_types,
		.help = "Type of the value in claims: a \"string\", a whole number (\"int\"), or true or false (\"bool\").",
	},
	{
		.key = "values",
		.type = OPTION_STRINGS,
		.offset = offsetof(struct declared_parameter, values),
		.variant = "string",
		.maximum = PARAMETER_VALUE_MAX,
		.check = check_plain,
		.help = "Permitted values. Without `values` and `pattern`, a value begins with a letter or digit, and consists of these and \"._:@+=,-\".",
	},
	{
		.key = "pattern",
		.type = OPTION_STRING,
		.offset = offsetof(struct declared_parameter, pattern),
		.variant = "string",
		.maximum = PARAMETER_VALUE_MAX,
		.check = check_plain,
		.help = "Pattern, as in a shell, that values must match, in place of `values`. It may permit any characters but control characters, so check what your programs do with them.",
	},
	{
		.key = "max_length",
		.type = OPTION_INTEGER,
		.offset = offsetof(struct declared_parameter, max_length),
		.variant = "string",
		.minimum = 1,
		.maximum = PARAMETER_VALUE_MAX,
		.default_integer = 64,
		.unit = "bytes",
		.help = "Maximum length of values that `values` does not list.",
	},
	{
		.key = "min",
		.type = OPTION_INTEGER,
		.offset = offsetof(struct declared_parameter, min),
		.required = true,
		.variant = "int",
		.minimum = INT64_MIN + 1,
		.maximum = INT64_MAX,
		.default_integer = INT64_MIN,
		.help = "Smallest permitted number.",
	},
	{
		.key = "max",
		.type = OPTION_INTEGER,
		.offset = offsetof(struct declared_parameter, max),
		.required = true,
		.variant = "int",
		.minimum = INT64_MIN + 1,
		.maximum = INT64_MAX,
		.default_integer = INT64_MIN,
		.help = "Largest permitted number.",
	},
	{
		.key = "default",
		.type = OPTION_STRING,
		.offset = offsetof(struct declared_parameter, default_text),
		.maximum = PARAMETER_VALUE_MAX,
		.help = "Value, as a string, where a claim does not set the parameter. Without it, each claim must set the parameter. Required with serve = \"plugin\", whose pods always get it.",
	},
};
const struct option_table parameter_table = {
	.name = "parameter",
	.selector = "type",
	.size = sizeof(struct declared_parameter),
	.options = parameter_options,
	.count = ARRAY_SIZE(parameter_options),
};

/* --- where templates use them --- */

struct use {
	const struct declaration *declaration;
	struct report *report;
	bool used[PARAMETERS_MAX], in_path[PARAMETERS_MAX];
};

static void note_use(
	struct use *use, const char *name, bool path, const struct origin *origin, const char *key)
{
	const struct groups *declared = &use->declaration->parameters;
	bool found = false;

	for (size_t i = 0; i < declared->count; i++) {
		const struct declared_parameter *parameter = groups_get(declared, i);

		if (!streq(parameter->name, name))
			continue;
		found = true;
		use->used[i] = true;
		use->in_path[i] = use->in_path[i] || path;
	}
	if (!found)
		(void)report_add(use->report, origin, key,
			"uses \"${param:%s}\", which `parameters` does not declare", name);
}

/* `forbidden`: what a parameter cannot be there; NULL: it may be used. */
static void check_text(struct use *use, const char *text, const struct origin *origin,
	const char *key, const char *forbidden)
{
	char name[TEMPLATE_VARIABLE_MAX + 1];

	while (text && template_next_parameter(&text, name)) {
		if (forbidden)
			(void)report_add(use->report, origin, key,
				"must not use \"${param:%s}\": a parameter cannot be %s", name,
				forbidden);
		else
			note_use(use, name, false, origin, key);
	}
}

static void check_path(
	struct use *use, const char *text, const struct origin *origin, const char *key)
{
	char name[TEMPLATE_VARIABLE_MAX + 1];

	while (text && template_next_parameter(&text, name))
		note_use(use, name, true, origin, key);
}

static void check_assignments(struct use *use, const struct strings *assignments, const char *key)
{
	const struct origin *origin = &use->declaration->container.origin;

	for (size_t i = 0; i < assignments->count; i++) {
		const char *text = assignments->items[i];
		size_t length = declaration_assigned_name(text);
		_cleanup_free_ char *name = strndup(text, length);

		if (!name)
			use->report->incomplete = true;
		check_text(use, name, origin, key, "a part of a name");
		check_text(use, text + length, origin, key, NULL);
	}
}

static void check_paths(struct use *use)
{
	const struct container *container = &use->declaration->container;
	char key[64];

	for (size_t i = 0; i < container->nodes.count; i++) {
		const struct declared_node *node = groups_get(&container->nodes, i);

		(void)snprintf(key, sizeof(key), "container.nodes[%zu]", i);
		check_path(use, node->host, &node->origin, key);
		check_path(use, node->path, &node->origin, key);
	}
	for (size_t i = 0; i < container->mounts.count; i++) {
		const struct declared_mount *mount = groups_get(&container->mounts, i);

		(void)snprintf(key, sizeof(key), "container.mounts[%zu]", i);
		check_path(use, mount->host, &mount->origin, key);
		check_path(use, mount->path, &mount->origin, key);
	}
}

static bool is_shell(const char *word)
{
	static const char *const shells[] = { "sh", "bash", "dash", "ash", "zsh", "ksh",
		"busybox" };
	const char *slash = strrchr(word, '/');

	for (size_t i = 0; i < ARRAY_SIZE(shells); i++)
		if (streq(slash ? slash + 1 : word, shells[i]))
			return true;
	return false;
}

/* The word whose text a shell executes: the one after "-c", or "-ec", of a shell. `count`: none. */
static size_t find_script(const struct strings *words)
{
	bool shell = false;

	for (size_t i = 0; i + 1 < words->count; i++) {
		const char *word = words->items[i];

		shell = shell || is_shell(word);
		if (shell && word[0] == '-' && word[1] != '-' && strchr(word, 'c'))
			return i + 1;
	}
	return words->count;
}

static void check_command(struct use *use)
{
	const struct prestart *prestart = &use->declaration->prestart;
	size_t script = find_script(&prestart->command);

	for (size_t i = 0; i < prestart->command.count; i++)
		check_text(use, prestart->command.items[i], &prestart->origin, "prestart.command",
			i == 0 ? "the path of a program"
				: i == script
				? "a part of a shell's script, pass it as an "
				  "argument: [ \"/bin/sh\", \"-c\", \"... \\\"$$1\\\"\", "
				  "\"sh\", \"${param:NAME}\" ]"
				: NULL);
}

/* --- what is declared --- */

static bool has_allocate_program(const struct declaration *declaration)
{
	for (size_t i = 0; i < declaration->match.count; i++)
		if (declaration_allocate(declaration, i))
			return true;
	return false;
}

static void check_default(
	const struct use *use, const struct declared_parameter *parameter, const char *prefix)
{
	char key[64], permitted[PARAMETER_DESCRIBED_MAX];

	(void)snprintf(key, sizeof(key), "%s.default", prefix);
	parameter_describe(parameter, permitted);
	if (parameter->default_text && !parameter_permits(parameter, parameter->default_text))
		(void)report_add(use->report, &parameter->origin, key, "must be %s, not \"%s\"",
			permitted, parameter->default_text);
	else if (!parameter->default_text && use->declaration->serve == SERVE_PLUGIN)
		(void)report_add(use->report, &parameter->origin, key,
			"is missing: with serve = \"plugin\", no pod can set the parameter");
}

static void check_component(const struct use *use, const struct declared_parameter *parameter,
	const char *value, const char *key)
{
	if (!parameter_is_component(value))
		(void)report_add(use->report, &parameter->origin, key,
			"has \"%s\", but \"%s\" is a part of a path in `container`: use names "
			"without \"/\"",
			value, parameter->name);
}

static void check_declared(const struct use *use, size_t index)
{
	const struct groups *declared = &use->declaration->parameters;
	const struct declared_parameter *parameter = groups_get(declared, index);
	const struct origin *origin = &parameter->origin;
	char prefix[32];

	(void)snprintf(prefix, sizeof(prefix), "parameters[%zu]", index);
	for (size_t i = 0; i < index; i++)
		if (streq(((const struct declared_parameter *)groups_get(declared, i))->name,
			    parameter->name))
			(void)report_add(use->report, origin, prefix,
				"\"%s\" is declared twice, remove one", parameter->name);
	if (parameter->values.count > 0 && parameter->pattern)
		(void)report_add(use->report, origin, prefix,
			"has \"values\" and \"pattern\": remove one of them");
	if (parameter->type == PARAMETER_INT && parameter->min > parameter->max)
		(void)report_add(use->report, origin, prefix, "has a min that is larger than max");
	else
		check_default(use, parameter, prefix);
	for (size_t i = 0; use->in_path[index] && i < parameter->values.count; i++)
		check_component(use, parameter, parameter->values.items[i], prefix);
	if (use->in_path[index] && parameter->default_text && parameter->pattern)
		check_component(use, parameter, parameter->default_text, prefix);
	if (!use->used[index])
		(void)report_add(use->report, origin, prefix,
			"\"%s\" has no effect: write ${param:%s} in a template, or remove it",
			parameter->name, parameter->name);
}

void parameters_check(const struct declaration *declaration, struct report *report)
{
	struct use use = { .declaration = declaration, .report = report };
	const struct container *container = &declaration->container;

	if (declaration->parameters.count > PARAMETERS_MAX) {
		(void)report_add(report, &declaration->origin, "parameters",
			"has %zu parameters, the maximum is %d", declaration->parameters.count,
			PARAMETERS_MAX);
		return;
	}
	/* Such a program receives all parameters. */
	if (has_allocate_program(declaration))
		memset(use.used, true, sizeof(use.used));
	check_paths(&use);
	check_assignments(&use, &container->env, "container.env");
	check_assignments(&use, &container->annotations, "container.annotations");
	for (size_t i = 0; i < container->cdi.count; i++)
		check_text(&use, container->cdi.items[i], &container->origin, "container.cdi",
			"a part of a CDI name");
	check_command(&use);
	for (size_t i = 0; i < declaration->parameters.count; i++)
		check_declared(&use, i);
}
