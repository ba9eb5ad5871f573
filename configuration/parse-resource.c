/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Decides how a resource's own keys override the keys of its preset: both are read as one block,
 * and then checked. Later code does not distinguish the two sources.
 */
#include "configuration/parse-resource.h"

#include "common/utf8.h"
#include "configuration/parse.h"
#include "configuration/preset.h"
#include "drivers/model/declaration.h"
#include "drivers/model/driver.h"
#include "drivers/model/parameter.h"

/* Where a resource stands and what it is called. */
#define CONTEXT_MAX (QUOTE_MAX + 40)

/* Strips a leading '?', which only marks the node as optional. */
static void settle_nodes(struct groups *nodes)
{
	for (size_t i = 0; i < nodes->count; i++) {
		struct declared_node *node = groups_get(nodes, i);

		if (node->host && node->host[0] == '?') {
			node->optional = true;
			memmove(node->host, node->host + 1, strlen(node->host));
		}
	}
}

static const char *peek_string(config_setting_t *setting, const char *key)
{
	config_setting_t *member = config_setting_get_member(setting, key);
	const char *value =
		member && value_is_string(member) ? config_setting_get_string(member) : NULL;

	return value && utf8_is_valid(value) ? value : NULL;
}

/* The beginning of messages about the resource. */
static void describe_resource(config_setting_t *setting, size_t position, char *buffer, size_t size)
{
	const char *name = peek_string(setting, "name");
	int shown =
		name ? (int)utf8_valid_length(name, MIN_OF(strlen(name), (size_t)QUOTE_MAX)) : 0;
	char place[32];

	if (config_setting_is_root(setting))
		(void)snprintf(place, sizeof(place), "resource");
	else
		(void)snprintf(place, sizeof(place), "resources[%zu]", position);
	(void)snprintf(buffer, size, "%s%s%.*s%s", place, name ? " \"" : "", shown,
		name ? name : "", name ? "\"" : "");
}

static void read_preset(struct parser *parser, config_setting_t *setting, const char *name,
	config_t *parsed, struct source_text *ret_text)
{
	_cleanup_free_ char *path = NULL;
	struct error error = { 0 };
	int r;

	if (preset_find(name, &path, &error) < 0) {
		complain(parser, setting, "preset", "%s", error.message);
		return;
	}
	r = source_read(path, SOURCE_PRESET, parser->sources, parser->report, ret_text);
	if (r == -ENOMEM)
		parser->report->incomplete = true;
	if (r < 0)
		return;
	parser->preset = parsed;
	parser->preset_text = ret_text;
	(void)parse_text(ret_text, parser->report, parsed);
}

/* Checks which keys a preset may not set, and how a resource may not change its preset. */
static void check_preset(struct parser *parser, config_setting_t *setting, config_setting_t *base)
{
	static const char *const foreign[] = { "name", "preset" };
	const char *own_driver = peek_string(setting, "driver");
	const char *driver = peek_string(base, "driver");

	for (size_t i = 0; i < ARRAY_SIZE(foreign); i++) {
		config_setting_t *member = config_setting_get_member(base, foreign[i]);

		if (member)
			complain(parser, member, foreign[i],
				"belongs in the resource, not in a preset");
	}
	if (own_driver && driver && !streq(own_driver, driver) &&
		!config_setting_get_member(setting, "match"))
		complain(parser, config_setting_get_member(setting, "driver"), "driver",
			"is \"%s\", but \"match\" of the preset is for driver \"%s\": remove \"driver\", or also set \"match\"",
			own_driver, driver);
}

/* Reads the resource's preset if it names one. Returns its keys, or NULL. */
static config_setting_t *parse_preset(struct parser *parser, config_setting_t *setting,
	struct declaration *declaration, config_t *parsed, struct source_text *text)
{
	config_setting_t *member = config_setting_get_member(setting, "preset"), *base;
	size_t before = parser->report->count;

	if (!member)
		return NULL;
	value_string(parser, member, option_table_find(&declaration_table, "preset"), "preset",
		&declaration->preset);
	if (declaration->preset)
		read_preset(parser, member, declaration->preset, parsed, text);
	if (parser->report->count > before || parser->report->incomplete)
		return NULL;
	base = config_root_setting(parsed);
	check_preset(parser, setting, base);
	return base;
}

/* Reads the keys of the resource and of its preset. */
static void parse_keys(
	struct parser *parser, config_setting_t *setting, struct declaration *declaration)
{
	_cleanup_source_text_ struct source_text text = { 0 };
	size_t before = parser->report->count;
	config_setting_t *base;
	const char *driver;
	config_t parsed;

	config_init(&parsed);
	base = parse_preset(parser, setting, declaration, &parsed, &text);
	/* Without its preset, a resource would be reported to lack keys that it has. */
	if (parser->report->count == before && !parser->report->incomplete) {
		driver = peek_string(setting, "driver");
		if (!driver && base)
			driver = peek_string(base, "driver");
		parser->driver = driver ? driver_find(driver) : NULL;
		declaration->driver = parser->driver;
		parse_group(parser, setting, base, &declaration_table, declaration, "");
	}
	config_destroy(&parsed);
	parser->preset = NULL;
	parser->preset_text = NULL;
	/* The preset's keys belong to the resource now. */
	free(declaration->preset);
	declaration->preset = NULL;
}

void parse_resource(struct parser *parser, config_setting_t *setting, void *element)
{
	struct declaration *declaration = element;
	size_t before = parser->report->count;
	char context[CONTEXT_MAX];

	/* The text of a single resource is not in a list. */
	if (!config_setting_is_root(setting))
		declaration->position = (size_t)config_setting_index(setting);
	describe_resource(setting, declaration->position, context, sizeof(context));
	parser->report->context = context;
	parse_keys(parser, setting, declaration);
	settle_nodes(&declaration->container.nodes);
	if (parser->report->count == before && !parser->report->incomplete &&
		declaration_check(declaration, parser->report) >= 0)
		parameters_check(declaration, parser->report);
	if (parser->report->count > before)
		declaration->driver = NULL;
	parser->report->context = NULL;
	parser->driver = NULL;
}
