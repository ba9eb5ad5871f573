/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Decides which keys of a file are known, and reads each by its row of the option tables. Options
 * are read in the table's order, not the file's, so that a key that selects other keys (a driver, a
 * kind of probe) is known before them.
 */
#include "configuration/parse.h"
#include "drivers/model/declaration.h"
#include "drivers/model/driver.h"

/* Whether a line begins with a bracket, as a resource does that is not in a list. */
static bool begins_with_group(const char *text, int line)
{
	while (--line > 0 && text)
		text = strchr(text, '\n') ? strchr(text, '\n') + 1 : NULL;
	return text && text[strspn(text, " \t")] == '{';
}

/* Replaces "syntax error", which does not help on its own. */
static int report_syntax(
	const config_t *parsed, const struct source_text *text, struct report *report)
{
	struct origin origin = source_origin(text, (unsigned)config_error_line(parsed));
	const char *what = config_error_text(parsed);
	const char *advice = "";

	if (streq(what, "syntax error") && begins_with_group(text->text, config_error_line(parsed)))
		advice =
			": a resource must be in a list: write \"resources = ( { name = ...; } );\"";
	else if (streq(what, "syntax error"))
		advice = " here or just before: a \";\", \",\" or quote may be missing";
	else if (streq(what, "mismatched element type in array"))
		advice = ": all in [ ] are numbers, or all are strings; ( ) may hold both";
	return report_add(report, &origin, NULL, "%s%s", what, advice);
}

int parse_text(const struct source_text *text, struct report *report, config_t *parsed)
{
	return config_read_string(parsed, text->text) ? 0 : report_syntax(parsed, text, report);
}

static void parse_option(struct parser *parser, config_setting_t *setting, config_setting_t *base,
	const struct option *option, void *member, const char *key);

static void parse_element(struct parser *parser, config_setting_t *setting,
	const struct option *option, const struct option_table *table, const char *key,
	struct groups *groups)
{
	const struct option *shorthand;
	char shorthand_key[KEY_MAX];
	void *element;

	if (!config_setting_is_group(setting) && !(table->shorthand && value_is_string(setting))) {
		value_wrong_type(parser, setting, key,
			table->shorthand ? "a group { ... } or a string" : "a group { ... }");
		return;
	}
	if (groups_add(groups, &element) < 0) {
		parser->report->incomplete = true;
		return;
	}
	if (option->parse) {
		option->parse(parser, setting, element);
		return;
	}
	if (config_setting_is_group(setting)) {
		parse_group(parser, setting, NULL, table, element, key);
		return;
	}
	*(struct origin *)element = origin_of(parser, setting);
	shorthand = option_table_find(table, table->shorthand);
	(void)snprintf(
		shorthand_key, sizeof(shorthand_key), "%.*s.%s", PARENT_MAX, key, table->shorthand);
	parse_option(parser, setting, NULL, shorthand, (char *)element + shorthand->offset,
		shorthand_key);
}

static void parse_groups(struct parser *parser, config_setting_t *setting,
	const struct option *option, const struct option_table *table, const char *key,
	struct groups *groups)
{
	groups->table = table;
	if (table->shorthand && value_is_string(setting)) {
		parse_element(parser, setting, option, table, key, groups);
		return;
	}
	if (!value_is_sequence(setting)) {
		value_wrong_type(parser, setting, key, "a list of groups, ( { ... }, { ... } )");
		return;
	}
	if (!value_check_not_empty(parser, setting, option, key))
		return;
	for (int i = 0; i < config_setting_length(setting); i++) {
		char element_key[KEY_MAX];

		(void)snprintf(element_key, sizeof(element_key), "%.*s[%d]", PARENT_MAX, key, i);
		parse_element(parser, config_setting_get_elem(setting, (unsigned)i), option, table,
			element_key, groups);
	}
}

/* Whether the value switches the group off. */
static bool is_off(const config_setting_t *setting, const struct option_table *table)
{
	return table->off > 0 && config_setting_type(setting) == CONFIG_TYPE_BOOL &&
		!config_setting_get_bool(setting);
}

static void parse_single_group(struct parser *parser, config_setting_t *setting,
	config_setting_t *base, const struct option_table *table, void *structure, const char *key)
{
	const char *wanted = table->off > 0 ? "a group { ... } or false" : "a group { ... }";

	if (is_off(setting, table))
		*(bool *)((char *)structure + table->off) = true;
	else if (!config_setting_is_group(setting))
		value_wrong_type(parser, setting, key, wanted);
	else if (base && !config_setting_is_group(base) && !is_off(base, table))
		value_wrong_type(parser, base, key, wanted);
	else
		parse_group(parser, setting, base && config_setting_is_group(base) ? base : NULL,
			table, structure, key);
}

/* `base`: the preset's value of the same key, or NULL; only groups are merged from both. */
static void parse_option(struct parser *parser, config_setting_t *setting, config_setting_t *base,
	const struct option *option, void *member, const char *key)
{
	switch (option->type) {
	case OPTION_BOOL:
		if (config_setting_type(setting) == CONFIG_TYPE_BOOL)
			*(bool *)member = config_setting_get_bool(setting);
		else
			value_wrong_type(parser, setting, key, "true or false");
		return;
	case OPTION_INTEGER:
		value_integer(parser, setting, option, key, member);
		return;
	case OPTION_SECONDS:
		value_seconds(parser, setting, option, key, member);
		return;
	case OPTION_STRING:
		value_string(parser, setting, option, key, member);
		return;
	case OPTION_STRINGS:
		value_strings(parser, setting, option, key, member);
		return;
	case OPTION_INTEGERS:
		value_integers(parser, setting, option, key, member);
		return;
	case OPTION_CHOICE:
		value_choice(parser, setting, option, key, member);
		return;
	case OPTION_GROUP:
		parse_single_group(parser, setting, base, option->table, member, key);
		return;
	case OPTION_GROUPS:
		parse_groups(parser, setting, option, option->table, key, member);
		return;
	case OPTION_DRIVER:
		/* Without a driver its keys cannot be checked; the missing driver has been
		 * reported. */
		if (parser->driver)
			parse_groups(parser, setting, option, parser->driver->match, key, member);
		return;
	}
}

/* The option that has this key one level deeper. */
static const struct option *find_home(
	struct parser *parser, const struct option_table *table, const char *key)
{
	for (size_t i = 0; i < table->count; i++) {
		const struct option *option = &table->options[i];
		const struct option_table *deeper = option->table;

		if (option->type == OPTION_DRIVER) {
			/* A guess would miss the most likely place. */
			if (!parser->driver)
				return NULL;
			deeper = parser->driver->match;
		}
		if (deeper && option_table_find(deeper, key))
			return option;
	}
	return NULL;
}

static void unknown_key(struct parser *parser, const config_setting_t *setting,
	const struct option_table *table, const char *path)
{
	const char *key = config_setting_name(setting);
	const struct option *home = find_home(parser, table, key);
	const char *suggestion = option_table_suggest(table, key);
	const char *where = path[0] ? path : NULL;
	char list[512] = "";
	size_t length = 0;

	if (home) {
		bool group = home->type == OPTION_GROUP;

		complain(parser, setting, where,
			"unknown key \"%s\", which belongs in \"%s = %s %s = ... %s\"", key,
			home->key, group ? "{" : "( {", key, group ? "}" : "} )");
		return;
	}
	if (suggestion) {
		complain(parser, setting, where, "unknown key \"%s\", did you mean \"%s\"?", key,
			suggestion);
		return;
	}
	for (size_t i = 0; i < table->count && length < sizeof(list); i++)
		length += (size_t)snprintf(list + length, sizeof(list) - length, "%s%s",
			i == 0 ? "" : ", ", table->options[i].key);
	complain(parser, setting, where, "unknown key \"%s\", the keys here are: %s", key, list);
}

static void check_keys(struct parser *parser, const config_setting_t *setting,
	const struct option_table *table, const char *path)
{
	for (int i = 0; i < config_setting_length(setting); i++) {
		config_setting_t *member = config_setting_get_elem(setting, (unsigned)i);

		if (!option_table_find(table, config_setting_name(member)))
			unknown_key(parser, member, table, path);
	}
}

static void complain_of_variant(struct parser *parser, config_setting_t *member,
	const struct option_table *table, const struct option *option, const char *key)
{
	char words[OPTION_VARIANTS_MAX];

	option_variants(option, words);
	complain(parser, member, key, "is only for %s = %s, remove it", table->selector, words);
}

void parse_group(struct parser *parser, config_setting_t *setting, config_setting_t *base,
	const struct option_table *table, void *structure, const char *path)
{
	bool selected = true;

	*(struct origin *)structure = origin_of(parser, setting);

	check_keys(parser, setting, table, path);
	if (base)
		check_keys(parser, base, table, path);
	for (size_t i = 0; i < table->count; i++) {
		const struct option *option = &table->options[i];
		config_setting_t *own = config_setting_get_member(setting, option->key);
		config_setting_t *inherited =
			base ? config_setting_get_member(base, option->key) : NULL;
		config_setting_t *member = own ?: inherited;
		bool applies = option_applies(table, option, structure);
		size_t before = parser->report->count;
		char key[KEY_MAX];

		(void)snprintf(key, sizeof(key), "%.*s%s%s", PARENT_MAX, path, path[0] ? "." : "",
			option->key);
		/* Keys cannot be checked while the variant is unknown. */
		if (option->variant && !selected)
			continue;
		if (member && applies)
			parse_option(parser, member, own ? inherited : NULL, option,
				(char *)structure + option->offset, key);
		else if (member)
			complain_of_variant(parser, member, table, option, key);
		else if (option->required && applies)
			complain(parser, setting, key, "is missing");
		if (table->selector && streq(option->key, table->selector))
			selected = parser->report->count == before;
	}
}

void parse_file(struct parser *parser, config_setting_t *root, const struct option_table *table,
	void *structure)
{
	parse_group(parser, root, NULL, table, structure, "");
}
