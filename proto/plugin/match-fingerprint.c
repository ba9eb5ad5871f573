/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Decides whether a device that a scan no longer finds may come back after a configuration has
 * changed, or a process was replaced: if the keys that select devices are the same. `where` and
 * `exclude` do not count for that: a device that they leave out is not one that has disappeared.
 */
#include "proto/plugin/match-fingerprint.h"

#include "common/map.h"
#include "configuration/libconfig-text.h"
#include "drivers/model/driver.h"

/* `exclude` and `where`. */
static void write_left_out(FILE *stream, const struct declaration *declaration)
{
	for (size_t i = 0; i < declaration->where.count; i++)
		(void)fprintf(stream, "where %s\n", declaration->where.items[i]);
	for (size_t i = 0; i < declaration->exclude.count; i++) {
		(void)fputs("exclude\n", stream);
		text_write(stream, declaration->exclude.table, groups_get(&declaration->exclude, i),
			TEXT_CANONICAL, 0);
	}
}

/* The keys of the declaration that select devices, and the root; `whole`: also those that leave
 * devices out. */
static char *match_text(const struct declaration *declaration, bool whole)
{
	char *text = NULL;
	size_t size;
	FILE *stream = open_memstream(&text, &size);

	if (!stream)
		return NULL;
	(void)fprintf(stream, "%s\n%s\n", declaration->driver->name, declaration_root(declaration));
	for (size_t i = 0; i < declaration->match.count; i++)
		text_write(stream, declaration->match.table, groups_get(&declaration->match, i),
			TEXT_CANONICAL, 0);
	if (whole)
		write_left_out(stream, declaration);
	if (fclose(stream) != 0) {
		free(text);
		return NULL;
	}
	return text;
}

static uint64_t hash_of(const struct declaration *declaration, bool whole)
{
	_cleanup_free_ char *text = match_text(declaration, whole);

	return text ? hash_string(text) : 0;
}

uint64_t match_fingerprint(const struct declaration *declaration)
{
	return hash_of(declaration, false);
}

uint64_t match_fingerprint_whole(const struct declaration *declaration)
{
	return hash_of(declaration, true);
}
