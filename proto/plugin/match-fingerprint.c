/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Decides whether a device that a scan no longer finds may come back after a configuration has
 * changed, or a process was replaced: if the keys that select devices are the same.
 */
#include "proto/plugin/match-fingerprint.h"

#include "common/map.h"
#include "configuration/libconfig-text.h"
#include "drivers/model/driver.h"

/* The keys of the declaration that select devices, and the root. */
static char *match_text(const struct declaration *declaration)
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
	if (fclose(stream) != 0) {
		free(text);
		return NULL;
	}
	return text;
}

uint64_t match_fingerprint(const struct declaration *declaration)
{
	_cleanup_free_ char *text = match_text(declaration);

	return text ? hash_string(text) : 0;
}
