/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads and expands "text ${variable:argument} text". One splitter cuts a template into pieces and
 * finds every error of syntax; checking, classifying and expanding are loops over its pieces, so
 * that they cannot disagree about what a template is.
 */
#include "drivers/model/template.h"

#include <ctype.h>

#include "drivers/model/driver.h"
#include "drivers/model/parameter.h"
#include "drivers/model/quantity.h"

enum source { FROM_RESOURCE, FROM_DEVICE, FROM_REPLICA, FROM_ALLOCATION, FROM_CLAIM };
enum argument { ARGUMENT_NONE, ARGUMENT_OPTIONAL, ARGUMENT_REQUIRED };

static const struct variable {
	const char *name;
	enum source source;
	enum argument argument;
	struct template_variable manual;
} variables[] = {
	{ "id", FROM_DEVICE, ARGUMENT_NONE,
		{ "${id}", "The id of the device, without the number of a replica." } },
	{ "hash", FROM_DEVICE, ARGUMENT_NONE,
		{ "${hash}",
			"Six hexadecimal digits for names of variables that must differ, derived from the device's id; with driver exec, from original_id." } },
	{ "index", FROM_DEVICE, ARGUMENT_NONE,
		{ "${index}",
			"Position of the device in the list of its resource, from 0. It may change "
			"when devices come and go." } },
	{ "node", FROM_DEVICE, ARGUMENT_NONE,
		{ "${node}", "Path on the host of the device's first node or mount." } },
	{ "number", FROM_DEVICE, ARGUMENT_OPTIONAL,
		{ "${number:N}",
			"Number N in the name of the device's first node, from 1: ${number:1} is 0 of /dev/snd/pcmC0D3p. ${number} is the one that the name ends in: 12 of /dev/video12." } },
	{ "bdf", FROM_DEVICE, ARGUMENT_NONE, { "${bdf}", "PCI address of the device." } },
	{ "numa", FROM_DEVICE, ARGUMENT_NONE,
		{ "${numa}", "First NUMA node of the device; empty if it has none." } },
	{ "attr", FROM_DEVICE, ARGUMENT_REQUIRED,
		{ "${attr:FILE}", "Content of a file in the device's directory in /sys." } },
	{ "replica", FROM_REPLICA, ARGUMENT_NONE,
		{ "${replica}",
			"Number of the replica, from 0. Has a value only while devices are "
			"assigned to a container." } },
	{ "position", FROM_REPLICA, ARGUMENT_NONE,
		{ "${position}",
			"Position among the devices that the container gets, from 0. Has a value "
			"only while devices are assigned to a container." } },
	{ "capacity", FROM_REPLICA, ARGUMENT_REQUIRED,
		{ "${capacity:NAME:UNIT}",
			"Amount that the container gets of the device's capacity NAME, see `capacity`: all of it, unless a claim (DRA) shares the device. ${capacity:memory} is the number, and ${capacity:memory:Mi} the number of whole Mi. Has a value only while devices are assigned to a container." } },
	{ "ids", FROM_ALLOCATION, ARGUMENT_OPTIONAL,
		{ "${ids:SEPARATOR}",
			"Ids of all devices that the container gets, each once; ${ids} puts "
			"commas between them. Has a value only while devices are assigned to a "
			"container." } },
	{ "n", FROM_ALLOCATION, ARGUMENT_NONE,
		{ "${n}",
			"Number of devices that the container gets. Has a value only while devices are assigned to a container, and in `labels`." } },
	{ "info", FROM_ALLOCATION, ARGUMENT_NONE,
		{ "${info}",
			"The devices that the container gets, as a JSON object with the information of each device under its id, in the form of the SR-IOV plugin. Has a value only "
			"while devices are assigned to a container." } },
	{ "param", FROM_CLAIM, ARGUMENT_REQUIRED,
		{ "${param:NAME}",
			"Value of one of the resource's `parameters` in the claim, or its default. Has a value only while devices are assigned to a container." } },
	{ "name", FROM_RESOURCE, ARGUMENT_NONE, { "${name}", "The resource's name." } },
	{ "env_name", FROM_RESOURCE, ARGUMENT_NONE,
		{ "${env_name}",
			"The resource's name as KubeVirt and the SR-IOV plugin use it in names of variables: in upper case, with \"_\" for \"/\" and \".\"." } },
};

/* A driver's variables belong to a device. */
static const struct variable any_driver_variable = { .source = FROM_DEVICE };

const struct template_variable *template_variable_get(size_t index)
{
	return index < ARRAY_SIZE(variables) ? &variables[index].manual : NULL;
}

#define VARIABLE_NAMES_MAX 64

struct piece {
	bool is_variable;
	const char *text; /* of a variable: between the braces */
	size_t length;
	char name[TEMPLATE_VARIABLE_MAX + 1];
	const char *argument; /* in `text`; NULL: no ':' */
	size_t argument_length;
};

/* Cuts the next piece off. Returns 1, 0 at the end, or -EINVAL. */
static int piece_next(const char **cursor, struct piece *ret_piece, struct error *error)
{
	struct piece piece = { .text = *cursor };
	const char *end, *colon;

	if (piece.text[0] == '\0')
		return 0;
	if (piece.text[0] != '$') {
		piece.length = strcspn(piece.text, "$");
		*cursor = piece.text + piece.length;
		goto finish;
	}
	if (piece.text[1] == '$') {
		piece.length = 1;
		*cursor = piece.text + 2;
		goto finish;
	}
	if (piece.text[1] != '{')
		return error_set(error, -EINVAL,
			"has a lone \"$\" in \"%s\": write \"${variable}\", or \"$$\" for a dollar sign",
			*cursor);
	piece.text += 2;
	end = strchr(piece.text, '}');
	if (!end)
		return error_set(error, -EINVAL, "has \"${\" without \"}\" in \"%s\"", *cursor);
	piece.is_variable = true;
	piece.length = (size_t)(end - piece.text);
	*cursor = end + 1;
	if (piece.length == 0)
		return error_set(error, -EINVAL,
			"has \"${}\" without a variable's name: \"${id}\" is the device's id");
	if (piece.length > TEMPLATE_VARIABLE_MAX)
		return error_set(error, -EINVAL,
			"has a variable of %zu bytes between \"${\" and \"}\", the maximum is %d",
			piece.length, TEMPLATE_VARIABLE_MAX);
	colon = memchr(piece.text, ':', piece.length);
	if (colon) {
		piece.argument = colon + 1;
		piece.argument_length = (size_t)(end - piece.argument);
	}
	memcpy(piece.name, piece.text, (size_t)((colon ? colon : end) - piece.text));

finish:
	*ret_piece = piece;
	return 1;
}

static const struct variable *variable_find(const char *name)
{
	for (size_t i = 0; i < ARRAY_SIZE(variables); i++)
		if (streq(variables[i].name, name))
			return &variables[i];
	return &any_driver_variable;
}

/* The driver's variable of that name, which it may list as "property:NAME"; or NULL. */
static const struct driver_variable *driver_variable_find(
	const struct driver *driver, const char *name)
{
	if (!driver || !driver->variables)
		return NULL;
	for (const struct driver_variable *p = driver->variables; p->name; p++) {
		size_t length = strcspn(p->name, ":");

		if (strncmp(p->name, name, length) == 0 && name[length] == '\0')
			return p;
	}
	return NULL;
}

static int unknown_variable(const char *name, const struct driver *driver, struct error *error)
{
	const char *names[VARIABLE_NAMES_MAX];
	const char *suggestion;
	size_t n = 0;

	for (size_t i = 0; i < ARRAY_SIZE(variables); i++)
		names[n++] = variables[i].name;
	if (driver && driver->variables)
		for (const struct driver_variable *p = driver->variables;
			p->name && n < ARRAY_SIZE(names); p++)
			names[n++] = p->name;
	suggestion = suggest_word(name, names, n);
	if (suggestion)
		return error_set(error, -EINVAL,
			"unknown variable \"${%s}\", did you mean \"${%s}\"?", name, suggestion);
	return error_set(error, -EINVAL,
		"unknown variable \"${%s}\"; \"${id}\" is the device's id, the manual lists the others",
		name);
}

/* A file of the device's directory: relative, and not out of it. */
static bool attribute_valid(const char *text, size_t length)
{
	if (length == 0 || text[0] == '/')
		return false;
	for (const char *p = text, *end = text + length; p < end;) {
		const char *slash = memchr(p, '/', (size_t)(end - p));
		size_t component = (size_t)((slash ? slash : end) - p);

		if (component == 2 && p[0] == '.' && p[1] == '.')
			return false;
		p += component + 1;
	}
	return true;
}

/* "NAME" or "NAME:UNIT". */
static int capacity_variable_check(const struct piece *piece, struct error *error)
{
	char argument[TEMPLATE_VARIABLE_MAX + 1] = "", *unit;

	memcpy(argument, piece->argument ?: "", piece->argument_length);
	unit = strchr(argument, ':');
	if (unit)
		*unit++ = '\0';
	if (!attribute_name_is_valid(argument) || (unit && quantity_unit(unit) == 0))
		return error_set(error, -EINVAL,
			"has \"${%.*s}\", which must name a capacity and may name a unit, such as "
			"\"${capacity:memory:Mi}\"",
			(int)piece->length, piece->text);
	return 0;
}

static int variable_check(
	const struct piece *piece, const struct driver *driver, struct error *error)
{
	const struct variable *variable = variable_find(piece->name);
	const struct driver_variable *known = driver_variable_find(driver, piece->name);
	const char *listed = known ? known->name : NULL;
	bool takes_more = listed && strchr(listed, ':');

	if (variable == &any_driver_variable && !listed)
		return unknown_variable(piece->name, driver, error);
	if (variable == &any_driver_variable && takes_more)
		return piece->argument_length > 0
			? 0
			: error_set(error, -EINVAL,
				  "has \"${%.*s}\", which needs an argument: \"${%s}\"",
				  (int)piece->length, piece->text, listed);
	if (driver && driver->without_pci && streq(piece->name, "bdf"))
		return error_set(error, -EINVAL,
			"has \"${bdf}\", but devices of driver \"%s\" have no PCI address: use "
			"driver \"pci\"",
			driver->name);
	if (variable->argument == ARGUMENT_NONE && piece->argument)
		return error_set(error, -EINVAL,
			"has \"${%.*s}\", but \"${%s}\" takes no argument after a \":\"",
			(int)piece->length, piece->text, piece->name);
	if (streq(piece->name, "number") && piece->argument &&
		(piece->argument_length != 1 || piece->argument[0] < '1' ||
			piece->argument[0] > '9'))
		return error_set(error, -EINVAL,
			"has \"${%.*s}\", but which number of the name is counted from 1 to 9",
			(int)piece->length, piece->text);
	if (streq(piece->name, "capacity"))
		return capacity_variable_check(piece, error);
	if (variable->source == FROM_CLAIM && piece->argument_length == 0)
		return error_set(error, -EINVAL,
			"has \"${%.*s}\", which must name one of `parameters`: \"${param:NAME}\"",
			(int)piece->length, piece->text);
	if (variable->argument == ARGUMENT_REQUIRED && variable->source != FROM_CLAIM &&
		!attribute_valid(piece->argument, piece->argument_length))
		return error_set(error, -EINVAL,
			"has \"${%.*s}\", which must name a file in the device's directory, such as "
			"\"${attr:serial}\"",
			(int)piece->length, piece->text);
	return 0;
}

int template_check(const char *text, const struct driver *driver, struct error *error)
{
	struct piece piece;
	int r;

	while ((r = piece_next(&text, &piece, error)) > 0) {
		if (!piece.is_variable)
			continue;
		r = variable_check(&piece, driver, error);
		if (r < 0)
			return r;
	}
	return r;
}

static bool uses_source(const char *text, unsigned sources)
{
	struct piece piece;

	while (piece_next(&text, &piece, NULL) > 0)
		if (piece.is_variable && (1U << variable_find(piece.name)->source) & sources)
			return true;
	return false;
}

bool template_is_per_device(const char *text)
{
	return uses_source(text, 1U << FROM_DEVICE | 1U << FROM_REPLICA);
}

bool template_is_per_allocation(const char *text)
{
	return uses_source(text, 1U << FROM_ALLOCATION | 1U << FROM_REPLICA | 1U << FROM_CLAIM);
}

bool template_next_parameter(const char **text, char ret_name[static TEMPLATE_VARIABLE_MAX + 1])
{
	struct piece piece;

	while (piece_next(text, &piece, NULL) > 0) {
		if (!piece.is_variable || variable_find(piece.name)->source != FROM_CLAIM)
			continue;
		(void)snprintf(ret_name, TEMPLATE_VARIABLE_MAX + 1, "%.*s",
			(int)piece.argument_length, piece.argument ?: "");
		return true;
	}
	return false;
}

bool template_next_capacity(const char **text, char ret[static TEMPLATE_VARIABLE_MAX + 1])
{
	struct piece piece;

	while (piece_next(text, &piece, NULL) > 0) {
		if (!piece.is_variable || !piece.argument || !streq(piece.name, "capacity"))
			continue;
		(void)snprintf(ret, TEMPLATE_VARIABLE_MAX + 1, "%.*s",
			(int)MIN_OF(piece.argument_length, strcspn(piece.argument, ":")),
			piece.argument);
		return true;
	}
	return false;
}

int template_blank(const char *text, char **ret)
{
	/* No piece gets longer: the shortest variable is "${n}". */
	_cleanup_free_ char *blank = malloc(strlen(text) + 1);
	struct piece piece = { 0 };
	size_t length = 0;
	int r;

	if (!blank)
		return -ENOMEM;
	while ((r = piece_next(&text, &piece, NULL)) > 0) {
		if (piece.is_variable) {
			blank[length++] = 'x';
			continue;
		}
		memcpy(blank + length, piece.text, piece.length);
		length += piece.length;
	}
	if (r < 0)
		return r;
	blank[length] = '\0';
	*ret = TAKE_PTR(blank);
	return 0;
}

/* Uses Go's form of a map: without blanks, in order. An id needs no escapes, see
 * device_id_make(). */
static void write_info(FILE *stream, const struct template_context *context)
{
	(void)fputc('{', stream);
	for (size_t i = 0; i < context->n_devices; i++) {
		const struct device *device = context->devices[i];
		const char *info = device_variable(device, DEVICE_INFO);

		(void)fprintf(stream, "%s\"%s\":", i > 0 ? "," : "", device->id);
		if (info)
			(void)fputs(info, stream);
		else
			(void)fprintf(stream, "{\"generic\":{\"deviceID\":\"%s\"}}", device->id);
	}
	(void)fputc('}', stream);
}

static int write_allocation(FILE *stream, const struct piece *piece,
	const struct template_context *context, struct error *error)
{
	const char *separator = piece->argument ? piece->argument : ",";
	int separator_length = piece->argument ? (int)piece->argument_length : 1;

	if (!context->devices)
		return error_set(error, -ENOENT,
			"\"${%s}\" has a value only while devices are assigned to a container",
			piece->name);
	if (streq(piece->name, "n")) {
		(void)fprintf(stream, "%zu", context->n_devices);
		return 0;
	}
	if (streq(piece->name, "info")) {
		write_info(stream, context);
		return 0;
	}
	for (size_t i = 0; i < context->n_devices; i++)
		(void)fprintf(stream, "%.*s%s", i > 0 ? separator_length : 0, separator,
			context->devices[i]->id);
	return 0;
}

static int write_parameter(FILE *stream, const struct piece *piece,
	const struct template_context *context, struct error *error)
{
	char name[TEMPLATE_VARIABLE_MAX + 1];
	const char *value;

	(void)snprintf(
		name, sizeof(name), "%.*s", (int)piece->argument_length, piece->argument ?: "");
	value = parameter_value(context->parameters, context->parameter_values, name);
	if (!value)
		return error_set(error, -ENODATA,
			"the parameter \"%s\" has no default, and only a claim can set it", name);
	if (context->in_path && !parameter_is_component(value))
		return error_set(error, -EINVAL,
			"the parameter \"%s\" is a part of a path, so it must not be \".\" or "
			"\"..\", nor contain \"/\" as \"%s\" does",
			name, value);
	(void)fputs(value, stream);
	return 0;
}

/* A "-" is kept: it is legal in the environment, and both plugins keep it. */
static void write_environment_name(FILE *stream, const char *name)
{
	for (const char *p = name; *p; p++)
		(void)fputc(*p == '/' || *p == '.' ? '_' : toupper((unsigned char)*p), stream);
}

static int write_variable(FILE *stream, const struct piece *piece,
	const struct template_context *context, struct error *error)
{
	enum source source = variable_find(piece->name)->source;
	char name[TEMPLATE_VARIABLE_MAX + 1] = "";
	const char *value = NULL;

	if (source == FROM_ALLOCATION)
		return write_allocation(stream, piece, context, error);
	if (source == FROM_CLAIM)
		return write_parameter(stream, piece, context, error);
	memcpy(name, piece->text, piece->length);
	if (source == FROM_RESOURCE)
		value = context->name;
	else if (context->device_value)
		value = context->device_value(context->userdata, name);
	if (!value)
		return error_set(error, -ENOENT, "\"${%s}\" has no value here", name);
	if (streq(name, "env_name"))
		write_environment_name(stream, value);
	else
		(void)fputs(value, stream);
	return 0;
}

int template_prefix(const char *text, const char *name, char **ret_prefix, const char **ret_rest)
{
	const struct template_context context = { .name = name };
	_cleanup_free_ char *prefix = NULL;
	_cleanup_fclose_ FILE *stream = NULL;
	const char *rest = text;
	struct piece piece;
	size_t size;
	int r;

	stream = open_memstream(&prefix, &size);
	if (!stream)
		return -ENOMEM;
	while ((r = piece_next(&text, &piece, NULL)) > 0) {
		if (!piece.is_variable)
			(void)fwrite(piece.text, 1, piece.length, stream);
		else if (variable_find(piece.name)->source != FROM_RESOURCE)
			break;
		else
			(void)write_variable(stream, &piece, &context, NULL);
		rest = text;
	}
	if (r < 0)
		return r;
	if (ferror(stream) || fclose(TAKE_PTR(stream)) != 0)
		return -ENOMEM;
	*ret_prefix = TAKE_PTR(prefix);
	*ret_rest = rest;
	return 0;
}

/* Variables of the core and of drivers whose values are, or contain, numbers that the kernel gives
 * in the order in which it finds devices. */
static bool is_number_variable(const char *name)
{
	static const char *const names[] = { "number", "major", "minor", "card", "render",
		"iommu_group", "uio", "kernel_name", "devname", "info", "value" };

	for (size_t i = 0; i < ARRAY_SIZE(names); i++)
		if (streq(names[i], name))
			return true;
	return false;
}

bool template_may_go_stale(const char *text)
{
	struct piece piece;

	while (piece_next(&text, &piece, NULL) > 0)
		if (piece.is_variable && is_number_variable(piece.name))
			return true;
	return false;
}

/* Variables of the core that depend on the order in which the kernel finds devices. */
static bool is_order_variable(const char *name)
{
	return streq(name, "index") || streq(name, "node") || streq(name, "number");
}

bool template_find_changing(
	const char *text, const struct driver *driver, char ret[static TEMPLATE_VARIABLE_MAX + 1])
{
	struct piece piece;

	while (piece_next(&text, &piece, NULL) > 0) {
		const struct variable *variable =
			piece.is_variable ? variable_find(piece.name) : NULL;
		const struct driver_variable *listed = variable == &any_driver_variable
			? driver_variable_find(driver, piece.name)
			: NULL;

		/* A program decides about its properties. */
		if (!variable ||
			(listed ? listed->permanent || strchr(listed->name, ':')
				: !is_order_variable(piece.name)))
			continue;
		(void)strcpy(ret, piece.name);
		return true;
	}
	return false;
}

/* Variables of the core and of drivers whose values have a "/". */
static bool is_path_variable(const char *name)
{
	static const char *const names[] = { "node", "sysfs", "devpath", "tty", "video", "input",
		"card", "render", "name", "devname", "value" };

	for (size_t i = 0; i < ARRAY_SIZE(names); i++)
		if (streq(names[i], name))
			return true;
	return false;
}

bool template_may_have_slash(const char *text)
{
	struct piece piece;

	while (piece_next(&text, &piece, NULL) > 0)
		if (piece.is_variable ? is_path_variable(piece.name)
				      : memchr(piece.text, '/', piece.length) != NULL)
			return true;
	return false;
}

int template_expand(
	const char *text, const struct template_context *context, char **ret, struct error *error)
{
	_cleanup_free_ char *expanded = NULL;
	_cleanup_fclose_ FILE *stream = NULL;
	struct piece piece;
	size_t size;
	int r;

	stream = open_memstream(&expanded, &size);
	if (!stream)
		return error_set(error, -ENOMEM, "out of memory");
	while ((r = piece_next(&text, &piece, error)) > 0) {
		if (!piece.is_variable) {
			(void)fwrite(piece.text, 1, piece.length, stream);
			continue;
		}
		r = write_variable(stream, &piece, context, error);
		if (r < 0)
			return r;
	}
	if (r < 0)
		return r;
	/* A memory stream can fail only for lack of memory. */
	if (ferror(stream) || fclose(TAKE_PTR(stream)) != 0)
		return error_set(error, -ENOMEM, "out of memory");
	*ret = TAKE_PTR(expanded);
	return 0;
}

void template_words_freep(char ***words)
{
	for (char **word = *words; word && *word; word++)
		free(*word);
	free(*words);
}

int template_expand_words(const struct strings *words, const struct template_context *context,
	char ***ret, struct error *error)
{
	_cleanup_words_ char **expanded = calloc(words->count + 1, sizeof(*expanded));
	int r = expanded ? 0 : error_set(error, -ENOMEM, "out of memory");

	for (size_t i = 0; i < words->count && r >= 0; i++)
		r = template_expand(words->items[i], context, &expanded[i], error);
	if (r < 0)
		return r;
	*ret = TAKE_PTR(expanded);
	return 0;
}
