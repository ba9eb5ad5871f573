/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Decides whether the value of one key is valid: its type, bounds and form are checked against its
 * row of a table. A wrong value is reported together with the valid form, and the option keeps its
 * value.
 */
#include "configuration/value.h"

#include "common/utf8.h"
#include "drivers/model/template.h"

struct origin origin_of(struct parser *parser, const config_setting_t *setting)
{
	return source_origin(setting->config == parser->preset ? parser->preset_text : parser->text,
		config_setting_source_line(setting));
}

/* Describes the type that the administrator wrote. */
static const char *describe(const config_setting_t *setting, char *buffer, size_t size)
{
	const char *text;
	double number;

	switch (config_setting_type(setting)) {
	case CONFIG_TYPE_INT:
	case CONFIG_TYPE_INT64:
		(void)snprintf(buffer, size, "the number %lld", config_setting_get_int64(setting));
		return buffer;
	case CONFIG_TYPE_FLOAT:
		number = config_setting_get_float(setting);
		(void)snprintf(buffer, size, "the number %g%s", number,
			number > -1e6 && number < 1e6 && number == (double)(int)number ? ".0" : "");
		return buffer;
	case CONFIG_TYPE_STRING:
		text = config_setting_get_string(setting);
		if (!utf8_is_valid(text) || strlen(text) > QUOTE_MAX)
			return "a string";
		(void)snprintf(buffer, size, "the string \"%s\"", text);
		return buffer;
	case CONFIG_TYPE_BOOL:
		return config_setting_get_bool(setting) ? "\"true\"" : "\"false\"";
	case CONFIG_TYPE_GROUP:
		return "a group { }";
	case CONFIG_TYPE_ARRAY:
		return "an array [ ]";
	case CONFIG_TYPE_LIST:
		return "a list ( )";
	}
	return "something else";
}

void value_wrong_type(
	struct parser *parser, const config_setting_t *setting, const char *key, const char *wanted)
{
	char found[QUOTE_MAX + 32];

	complain(parser, setting, key, "must be %s, not %s", wanted,
		describe(setting, found, sizeof(found)));
}

static bool is_integer(const config_setting_t *setting)
{
	int type = config_setting_type(setting);

	return type == CONFIG_TYPE_INT || type == CONFIG_TYPE_INT64;
}

bool value_is_string(const config_setting_t *setting)
{
	return config_setting_type(setting) == CONFIG_TYPE_STRING;
}

void value_integer(struct parser *parser, const config_setting_t *setting,
	const struct option *option, const char *key, int64_t *ret)
{
	int64_t value;

	if (!is_integer(setting)) {
		value_wrong_type(parser, setting, key, "a whole number");
		return;
	}
	value = config_setting_get_int64(setting);
	if (value < option->minimum || value > option->maximum) {
		complain(parser, setting, key, "must be from %lld to %lld%s%s, not %lld",
			(long long)option->minimum, (long long)option->maximum,
			option->unit ? " " : "", option->unit ? option->unit : "",
			(long long)value);
		return;
	}
	*ret = value;
}

void value_seconds(struct parser *parser, const config_setting_t *setting,
	const struct option *option, const char *key, uint64_t *ret)
{
	double value;

	if (!is_integer(setting) && config_setting_type(setting) != CONFIG_TYPE_FLOAT) {
		value_wrong_type(parser, setting, key, "a number of seconds");
		return;
	}
	value = is_integer(setting) ? (double)config_setting_get_int64(setting)
				    : config_setting_get_float(setting);
	if (!(value * 1000 >= (double)option->minimum && value * 1000 <= (double)option->maximum)) {
		complain(parser, setting, key, "must be from %g to %g seconds, not %g",
			(double)option->minimum / 1000, (double)option->maximum / 1000, value);
		return;
	}
	*ret = (uint64_t)(value * (double)USEC_PER_SEC + 0.5);
}

/* Checks a string by its option; for a list, one of its strings. */
static bool check_string(struct parser *parser, const config_setting_t *setting,
	const struct option *option, const char *key)
{
	const char *value = config_setting_get_string(setting);
	size_t length = strlen(value);
	struct error error = { 0 };

	if (length == 0)
		complain(parser, setting, key, "must not be empty");
	else if (utf8_valid_length(value, length) < length)
		complain(parser, setting, key, "is not UTF-8");
	else if (option->maximum > 0 && length > (uint64_t)option->maximum)
		complain(parser, setting, key, "is %zu bytes long, the maximum is %lld", length,
			(long long)option->maximum);
	else if (option->template && parser->driver &&
		template_check(value, parser->driver, &error) < 0)
		complain(parser, setting, key, "%s", error.message);
	else if (option->check && option->check(value, &error) < 0)
		complain(parser, setting, key, "%s", error.message);
	else
		return true;
	return false;
}

void value_string(struct parser *parser, const config_setting_t *setting,
	const struct option *option, const char *key, char **ret)
{
	char *copy;

	if (!value_is_string(setting)) {
		value_wrong_type(parser, setting, key, "a string");
		return;
	}
	if (!check_string(parser, setting, option, key))
		return;
	copy = strdup(config_setting_get_string(setting));
	if (!copy) {
		parser->report->incomplete = true;
		return;
	}
	free(*ret);
	*ret = copy;
}

static void add_string(struct parser *parser, const config_setting_t *setting,
	const struct option *option, const char *key, void *list)
{
	const char *value;

	if (!value_is_string(setting)) {
		value_wrong_type(parser, setting, key, "a string");
		return;
	}
	value = config_setting_get_string(setting);
	if (check_string(parser, setting, option, key) &&
		strings_add(list, value, strlen(value)) < 0)
		parser->report->incomplete = true;
}

bool value_is_sequence(const config_setting_t *setting)
{
	return config_setting_is_list(setting) || config_setting_is_array(setting);
}

bool value_check_not_empty(struct parser *parser, const config_setting_t *setting,
	const struct option *option, const char *key)
{
	if (!option->required || config_setting_length(setting) > 0)
		return true;
	complain(parser, setting, key, "must not be empty");
	return false;
}

/* An empty list of conditions would match every device, which is hardly intended. */
static bool check_list(struct parser *parser, const config_setting_t *setting,
	const struct option *option, const char *key)
{
	if (option->required || option->template || config_setting_length(setting) > 0)
		return value_check_not_empty(parser, setting, option, key);
	complain(parser, setting, key, "must not be empty; remove it to match anything");
	return false;
}

/* Takes one element of a list. */
typedef void (*add_function)(struct parser *parser, const config_setting_t *setting,
	const struct option *option, const char *key, void *list);

/* A lone element, for which `is_one` is set, stands for a list of it. */
static void add_all(struct parser *parser, const config_setting_t *setting,
	const struct option *option, const char *key, bool is_one, const char *wanted,
	add_function add, void *list)
{
	if (is_one) {
		add(parser, setting, option, key, list);
		return;
	}
	if (!value_is_sequence(setting)) {
		value_wrong_type(parser, setting, key, wanted);
		return;
	}
	if (!check_list(parser, setting, option, key))
		return;
	for (int i = 0; i < config_setting_length(setting); i++) {
		char element_key[KEY_MAX];

		(void)snprintf(element_key, sizeof(element_key), "%.*s[%d]", PARENT_MAX, key, i);
		add(parser, config_setting_get_elem(setting, (unsigned)i), option, element_key,
			list);
	}
}

void value_strings(struct parser *parser, const config_setting_t *setting,
	const struct option *option, const char *key, struct strings *strings)
{
	strings_done(strings);
	add_all(parser, setting, option, key, value_is_string(setting),
		"a list of strings, ( \"...\", \"...\" )", add_string, strings);
}

static void add_integer(struct parser *parser, const config_setting_t *setting,
	const struct option *option, const char *key, void *list)
{
	size_t before = parser->report->count;
	struct integers *integers = list;
	int64_t value = 0;

	value_integer(parser, setting, option, key, &value);
	if (parser->report->count == before && integers_add(integers, value) < 0)
		parser->report->incomplete = true;
	if (value > 9 && integers->decimal == 0 &&
		config_setting_get_format(setting) != CONFIG_FORMAT_HEX)
		integers->decimal = value;
}

void value_integers(struct parser *parser, const config_setting_t *setting,
	const struct option *option, const char *key, struct integers *integers)
{
	integers_done(integers);
	add_all(parser, setting, option, key, is_integer(setting),
		"a whole number or a list of them, ( 0x8086, 0x15b3 )", add_integer, integers);
}

/* "a", "b" or "c" */
static void list_choices(const char *const *choices, char *buffer, size_t size)
{
	size_t length = 0;

	for (size_t i = 0; choices[i] && length < size; i++) {
		const char *joint = i == 0 ? "" : choices[i + 1] ? ", " : " or ";

		length += (size_t)snprintf(buffer + length, size - length,
			option_word_is_bool(choices[i]) ? "%s%s" : "%s\"%s\"", joint, choices[i]);
	}
}

void value_choice(struct parser *parser, const config_setting_t *setting,
	const struct option *option, const char *key, int *ret)
{
	const char *suggestion, *value;
	char list[256];
	size_t n = 0;

	list_choices(option->choices, list, sizeof(list));
	if (config_setting_type(setting) == CONFIG_TYPE_BOOL) {
		value = config_setting_get_bool(setting) ? "true" : "false";
	} else if (value_is_string(setting)) {
		value = config_setting_get_string(setting);
	} else {
		value_wrong_type(parser, setting, key, list);
		return;
	}
	for (; option->choices[n]; n++)
		if (streq(option->choices[n], value)) {
			*ret = (int)n;
			return;
		}
	suggestion = suggest_word(value, option->choices, n);
	if (suggestion)
		complain(parser, setting, key, "unknown value \"%s\", did you mean \"%s\"?", value,
			suggestion);
	else
		value_wrong_type(parser, setting, key, list);
}
