/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Converts libconfig's settings into the structures that option tables describe. */

#include "configuration/value.h"

/* Parses a text; `parsed` is initialised. Returns 0, or -EINVAL with a report entry. */
int parse_text(const struct source_text *text, struct report *report, config_t *parsed);

/* Reads the keys of a file's root group. Members of absent keys keep their value; lists of groups
 * are appended to. */
void parse_file(struct parser *parser, config_setting_t *root, const struct option_table *table,
	void *structure);

/* Reads the keys of a group. `base` is the same group of a preset, which supplies missing keys, or
 * NULL; `path` is the path of the group's key, "" for a resource. */
void parse_group(struct parser *parser, config_setting_t *setting, config_setting_t *base,
	const struct option_table *table, void *structure, const char *path);
