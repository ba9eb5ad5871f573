/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Decides which parameters a claim may set, and with which values. The author of a pod chooses
 * them, so a value without a declared list or pattern consists of a few harmless characters, and
 * none contains a control character.
 */
#include "drivers/model/parameter.h"

#include <fnmatch.h>
#include <inttypes.h>
#include <stdlib.h>

#include "common/error.h"
#include "common/text.h"

#define LETTERS "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
#define DIGITS  "0123456789"
/* The characters of a string without a pattern. It begins with a letter or digit, so that it is
 * neither the option of a program nor "..". */
#define SIGNS "._:@+=,-"

const char *const parameter_types[] = {
	[PARAMETER_STRING] = "string",
	[PARAMETER_INT] = "int",
	[PARAMETER_BOOL] = "bool",
	NULL,
};

static const struct declared_parameter *find(const struct groups *declared, const char *name)
{
	for (size_t i = 0; i < declared->count; i++) {
		const struct declared_parameter *parameter = groups_get(declared, i);

		if (streq(parameter->name, name))
			return parameter;
	}
	return NULL;
}

bool parameter_name_is_valid(const char *name)
{
	size_t length = strlen(name);

	return length > 0 && length <= PARAMETER_NAME_MAX && strspn(name, LETTERS) > 0 &&
		strspn(name, LETTERS DIGITS "_-") == length;
}

/* --- values --- */

static void describe_values(const struct strings *values, char *ret)
{
	size_t length = 0;

	for (size_t i = 0; i < values->count && length < PARAMETER_DESCRIBED_MAX; i++)
		length +=
			(size_t)snprintf(ret + length, PARAMETER_DESCRIBED_MAX - length, "%s\"%s\"",
				i == 0                          ? ""
					: i + 1 < values->count ? ", "
								: " or ",
				values->items[i]);
	text_sanitize_cut(ret, PARAMETER_DESCRIBED_MAX);
}

void parameter_describe(
	const struct declared_parameter *parameter, char ret[static PARAMETER_DESCRIBED_MAX])
{
	ret[0] = '\0';
	if (parameter->type == PARAMETER_BOOL)
		(void)strcpy(ret, "true or false");
	else if (parameter->type == PARAMETER_INT)
		(void)snprintf(ret, PARAMETER_DESCRIBED_MAX,
			"a whole number from %" PRId64 " to %" PRId64, parameter->min,
			parameter->max);
	else if (parameter->values.count > 0)
		describe_values(&parameter->values, ret);
	else if (parameter->pattern)
		(void)snprintf(ret, PARAMETER_DESCRIBED_MAX,
			"a text of at most %" PRId64 " bytes that matches \"%s\"",
			parameter->max_length, parameter->pattern);
	else
		(void)snprintf(ret, PARAMETER_DESCRIBED_MAX,
			"a text of at most %" PRId64 " letters, digits and \"" SIGNS
			"\" that begins with a letter or digit",
			parameter->max_length);
}

static bool is_permitted_string(const struct declared_parameter *parameter, const char *text)
{
	size_t length = strlen(text);

	if (length == 0 || length > PARAMETER_VALUE_MAX || !text_is_plain(text))
		return false;
	if (parameter->values.count > 0)
		return strings_contain(&parameter->values, text);
	if (length > (uint64_t)parameter->max_length)
		return false;
	if (parameter->pattern)
		return fnmatch(parameter->pattern, text, 0) == 0;
	return strspn(text, LETTERS DIGITS) > 0 && strspn(text, LETTERS DIGITS SIGNS) == length;
}

static bool is_permitted_int(const struct declared_parameter *parameter, const char *text)
{
	size_t digits = strspn(text + (text[0] == '-'), DIGITS);
	char *end;
	long long value;

	if (digits == 0)
		return false;
	errno = 0;
	value = strtoll(text, &end, 10);
	return errno == 0 && !*end && value >= parameter->min && value <= parameter->max;
}

bool parameter_permits(const struct declared_parameter *parameter, const char *text)
{
	switch (parameter->type) {
	case PARAMETER_INT:
		return is_permitted_int(parameter, text);
	case PARAMETER_BOOL:
		return streq(text, "true") || streq(text, "false");
	default:
		return is_permitted_string(parameter, text);
	}
}

bool parameter_is_component(const char *text)
{
	return !strchr(text, '/') && !streq(text, ".") && !streq(text, "..");
}

/* The text of a value of the parameter's type, or of any value with the type as what it is. */
static int make_text(const json_t *value, char ret[static PARAMETER_VALUE_MAX + 1], int *ret_type)
{
	const char *text = json_string_value(value);

	if (text && strlen(text) <= PARAMETER_VALUE_MAX) {
		(void)strcpy(ret, text);
		*ret_type = PARAMETER_STRING;
	} else if (json_is_integer(value)) {
		(void)snprintf(ret, PARAMETER_VALUE_MAX + 1, "%" JSON_INTEGER_FORMAT,
			json_integer_value(value));
		*ret_type = PARAMETER_INT;
	} else if (json_is_boolean(value)) {
		(void)strcpy(ret, json_is_true(value) ? "true" : "false");
		*ret_type = PARAMETER_BOOL;
	} else {
		return -EINVAL;
	}
	return 0;
}

/* Fills the error with what the value must be. */
static int refuse(const struct declared_parameter *parameter, const char *text, struct error *error)
{
	char permitted[PARAMETER_DESCRIBED_MAX], shown[80];

	parameter_describe(parameter, permitted);
	(void)snprintf(shown, sizeof(shown), "%.*s", (int)sizeof(shown) - 1, text);
	text_sanitize_cut(shown, sizeof(shown));
	return error_set(
		error, -EINVAL, "%s: must be %s, not \"%s\"", parameter->name, permitted, shown);
}

json_t *parameters_shown(const struct groups *declared)
{
	json_auto_t *shown = json_array();
	char permitted[PARAMETER_DESCRIBED_MAX];

	for (size_t i = 0; i < declared->count; i++) {
		const struct declared_parameter *parameter = groups_get(declared, i);

		parameter_describe(parameter, permitted);
		if (json_array_append_new(shown,
			    json_pack("{s:s, s:s, s:s, s:s*}", "name", parameter->name, "type",
				    parameter_types[parameter->type], "permitted", permitted,
				    "default", parameter->default_text)) < 0)
			return NULL;
	}
	return json_incref(shown);
}

/* --- parameters of a claim --- */

int parameters_check_form(const json_t *parameters, size_t size, struct error *error)
{
	char text[PARAMETER_VALUE_MAX + 1];
	const char *name;
	json_t *value;
	int type;

	if (!json_is_object(parameters))
		return error_set(error, -EINVAL,
			"must be an object of names and values, such as { \"mode\": \"fast\" }");
	json_object_foreach((json_t *)(uintptr_t)parameters, name, value)
	{
		if (!parameter_name_is_valid(name))
			return error_set(error, -EINVAL,
				"contains a name that is not valid: names consist of letters, "
				"digits, \"_\" and \"-\", begin with a letter and have at most %d "
				"bytes",
				PARAMETER_NAME_MAX);
		if (make_text(value, text, &type) < 0)
			return error_set(error, -EINVAL,
				"%s: must be a string of at most %d bytes, a whole number of 64 "
				"bits, true or false",
				name, PARAMETER_VALUE_MAX);
		if (!text_is_plain(text))
			return error_set(error, -EINVAL, "%s: contains a control character", name);
	}
	if (json_object_size(parameters) > PARAMETERS_MAX)
		return error_set(
			error, -EINVAL, "contains more than %d parameters", PARAMETERS_MAX);
	if (json_dumpb(parameters, NULL, 0, JSON_COMPACT) > size)
		return error_set(error, -EINVAL, "exceeds %zu bytes", size);
	return 0;
}

static int refuse_unknown(
	const struct groups *declared, const char *resource, const char *name, struct error *error)
{
	char names[PARAMETERS_MAX * (PARAMETER_NAME_MAX + 4)] = "";
	size_t length = 0;

	for (size_t i = 0; i < declared->count && length < sizeof(names); i++) {
		const struct declared_parameter *parameter = groups_get(declared, i);

		length += (size_t)snprintf(names + length, sizeof(names) - length, "%s\"%s\"",
			i > 0 ? ", " : "", parameter->name);
	}
	return declared->count > 0
		? error_set(error, -EINVAL, "%s: is not a parameter of %s, which has %s", name,
			  resource, names)
		: error_set(error, -EINVAL, "%s: is not a parameter of %s, which has none", name,
			  resource);
}

static int resolve(const struct declared_parameter *parameter, const char *resource,
	const json_t *value, json_t *texts, struct error *error)
{
	char text[PARAMETER_VALUE_MAX + 1], permitted[PARAMETER_DESCRIBED_MAX];
	int type = parameter->type;

	if (value && make_text(value, text, &type) < 0)
		return refuse(parameter, "another value", error);
	if (value && (type != parameter->type || !parameter_permits(parameter, text)))
		return refuse(parameter, text, error);
	if (!value && !parameter->default_text) {
		parameter_describe(parameter, permitted);
		return error_set(error, -EINVAL,
			"%s: is missing, and %s has no default for it; it must be %s",
			parameter->name, resource, permitted);
	}
	return json_object_set_new(texts, parameter->name,
		       json_string(value ? text : parameter->default_text)) < 0
		? error_set(error, -ENOMEM, "out of memory")
		: 0;
}

int parameters_resolve(const struct groups *declared, const char *resource, const json_t *sent,
	json_t **ret, struct error *error)
{
	json_auto_t *texts = json_object();
	const char *name;
	json_t *value;
	int r = texts ? 0 : error_set(error, -ENOMEM, "out of memory");

	json_object_foreach((json_t *)(uintptr_t)sent, name, value)
	{
		if (r >= 0 && !find(declared, name))
			r = refuse_unknown(declared, resource, name, error);
	}
	for (size_t i = 0; i < declared->count && r >= 0; i++) {
		const struct declared_parameter *parameter = groups_get(declared, i);

		r = resolve(
			parameter, resource, json_object_get(sent, parameter->name), texts, error);
	}
	if (r < 0)
		return r;
	*ret = json_incref(texts);
	return 0;
}

static int add_value(
	struct strings *values, const char *name, const char *text, struct error *error)
{
	_cleanup_free_ char *assignment = NULL;

	if (format_text(&assignment, "%s=%s", name, text) < 0 ||
		strings_add(values, assignment, strlen(assignment)) < 0)
		return error_set(error, -ENOMEM, "out of memory");
	return 0;
}

int parameters_read(const struct groups *declared, const json_t *resolved, struct strings *ret,
	struct error *error)
{
	_cleanup_strings_ struct strings values = { 0 };
	int r = 0;

	for (size_t i = 0; i < declared->count && r >= 0; i++) {
		const struct declared_parameter *parameter = groups_get(declared, i);
		const char *text = json_string_value(json_object_get(resolved, parameter->name));

		if (text)
			r = parameter_permits(parameter, text)
				? add_value(&values, parameter->name, text, error)
				: refuse(parameter, text, error);
	}
	if (r < 0)
		return r;
	*ret = values;
	values = (struct strings){ 0 };
	return 0;
}

const char *parameter_value(
	const struct groups *declared, const struct strings *values, const char *name)
{
	const struct declared_parameter *parameter = declared ? find(declared, name) : NULL;

	for (size_t i = 0; parameter && values && i < values->count; i++) {
		const char *rest = startswith(values->items[i], name);

		if (rest && *rest == '=')
			return rest + 1;
	}
	return parameter ? parameter->default_text : NULL;
}
