/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Which files are ours, and the list of those among them whose names do not tell, for a daemon that
 * comes after one that was killed. The list is written before the first file that is new in it, so
 * that it names too much rather than too little.
 */

#include "drivers/map.h"
#include "state.h"

struct published_file {
	char *resource, *path;
	uint64_t hash; /* of what is in it, 0: not known */
	bool info;     /* device information, in the list */
	bool kept;
};

struct published_table {
	struct state *state;
	struct published_file **files;
	size_t n_files;
	struct map by_path;
	bool list_changed;
};

/* Starts with what the list has. Returns 0 or -ENOMEM. */
int published_table_load(struct published_table *table, struct state *state);

/* Adds a file, kept. -EEXIST: it is there, or -ENOMEM. */
int published_table_add(
	struct published_table *table, const char *resource, const char *path, bool info);

/* Unlinks files that are not kept, all or those of one resource. */
void published_table_remove(struct published_table *table, const char *resource);

/* Writes the list if it has changed. */
void published_table_save(struct published_table *table);

void published_table_done(struct published_table *table);
