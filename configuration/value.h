/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Reads the value of one option from libconfig's setting. Every problem is added to the report and
 * reading continues, so that one run shows all of them.
 */

#include <libconfig.h>

#include "configuration/source.h"
#include "drivers/model/declaration.h"

struct parser {
	const struct source_text *text;
	struct source **sources;
	struct report *report; /* also records if memory ran out: nothing here returns an error */
	const struct driver *driver; /* of the resource that is being read */
	const config_t *preset;      /* whose keys are read too, and the text of its file */
	const struct source_text *preset_text;
};

/* Maximum length of a path of keys, such as "container.nodes[12].host", and of the part of it
 * before the last key; the tables are not that deep. */
#define KEY_MAX    160
#define PARENT_MAX 100

/* How much of a value is repeated in a message. */
#define QUOTE_MAX 60

/* The place of the setting. */
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

/* Whether the list contains an element or may be empty. */
bool value_check_not_empty(struct parser *parser, const config_setting_t *setting,
	const struct option *option, const char *key);

/* `key` is the path of the option in messages. */
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
