/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * From libconfig's settings to the structures that option tables describe. Every problem is added
 * to the report and reading continues, so that one run shows all of them.
 */

#include <libconfig.h>

#include "configuration/source.h"
#include "drivers/model/declaration.h"

struct parser {
	const struct source_text *text;
	struct source **sources;
	struct report *report; /* also records if memory ran out: nothing here returns an error */
	const struct driver *driver; /* of the resource that is being read */
	const config_t *preset;      /* whose keys are read as well, and the text of that file */
	const struct source_text *preset_text;
};

/* Maximum length of a path of keys, such as "container.nodes[12].host", and of the part of it
 * before the last key; the tables are not that deep. */
#define KEY_MAX    160
#define PARENT_MAX 100

/* How much of a value is repeated in a message. */
#define QUOTE_MAX 60

/* Parses a text; `parsed` is initialised. Returns 0, or -EINVAL with a report entry. */
int parse_text(const struct source_text *text, struct report *report, config_t *parsed);

/* Reads the keys of a file's root group. Members of absent keys keep their value; lists of groups
 * are appended to. */
void parse_file(struct parser *parser, config_setting_t *root, const struct option_table *table,
	void *structure);

/* Reads the keys of a group. `base` is the same group of a preset, which supplies keys that this
 * one lacks, or NULL; `path` is that of the group's key, "" for a resource. */
void parse_group(struct parser *parser, config_setting_t *setting, config_setting_t *base,
	const struct option_table *table, void *structure, const char *path);

/* Reads one resource and checks it. `structure` holds the defaults. */
void parse_resource(
	struct parser *parser, config_setting_t *setting, struct declaration *declaration);

/* --- value.c: one option's value; `key` is its path in messages --- */

/* Where the setting stands. */
struct origin origin_of(struct parser *parser, const config_setting_t *setting);

/* Adds a problem with the setting; `key` may be NULL. */
#define complain(parser, setting, key, ...)                                     \
	do {                                                                    \
		struct origin _origin = origin_of(parser, setting);             \
		(void)report_add((parser)->report, &_origin, key, __VA_ARGS__); \
	} while (0)

/* Reports the type found where `wanted` is required. */
void value_wrong_type(struct parser *parser, const config_setting_t *setting, const char *key,
	const char *wanted);

bool value_is_string(const config_setting_t *setting);
bool value_is_sequence(const config_setting_t *setting);

/* Whether the list holds something or need not. */
bool value_check_not_empty(struct parser *parser, const config_setting_t *setting,
	const struct option *option, const char *key);

void value_integer(struct parser *parser, const config_setting_t *setting,
	const struct option *option, const char *key, int64_t *ret);
void value_seconds(struct parser *parser, const config_setting_t *setting,
	const struct option *option, const char *key, uint64_t *ret);
void value_string(struct parser *parser, const config_setting_t *setting,
	const struct option *option, const char *key, char **ret);
void value_strings(struct parser *parser, const config_setting_t *setting,
	const struct option *option, const char *key, struct strings *strings);
void value_integers(struct parser *parser, const config_setting_t *setting,
	const struct option *option, const char *key, struct integers *integers);
void value_choice(struct parser *parser, const config_setting_t *setting,
	const struct option *option, const char *key, int *ret);
