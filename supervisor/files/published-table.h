/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Which files are ours, and a list of those whose names do not show it, for the daemon that starts
 * after one that was killed. The list is written before the first new file, so that it names too
 * many files rather than too few.
 */

#include <sys/stat.h>

#include "common/map.h"
#include "supervisor/files/state.h"

/* The list of device information that a daemon has written, in runtime_dir: such files have names
 * that others prescribe, so a killed daemon must leave a list for its successor. */
#define PUBLISHED_LIST_FILE "published"

struct published_file {
	char *resource, *path;
	/* Of the file when it was written; inode 0: it was not. */
	dev_t device;
	ino_t inode;
	struct timespec changed;
	bool info; /* device information, in the list */
	bool kept;
};

struct published_table {
	struct state *state;
	struct published_file **files;
	size_t n_files;
	struct map by_path;
	bool list_changed; /* since it was written */
	bool list_failed;  /* it could not be written, and that was logged */
};

/* Starts with what the list has; a line that names no device information is left out. Returns 0 or
 * -ENOMEM. Logs. */
int published_table_load(struct published_table *table, struct state *state);

/* Adds the files of another list, called `list` in messages; only files in the directory count.
 * Closes `fd`; if it is negative, there is no list. */
int published_table_read(
	struct published_table *table, int fd, const char *directory, const char *list);

/* The list as text, for free(); NULL without memory. */
char *published_table_list(const struct published_table *table);

/* Adds a file, kept. -EEXIST: it is there, or -ENOMEM. */
int published_table_add(
	struct published_table *table, const char *resource, const char *path, bool info);

/* Unlinks files that are not kept, all or those of one resource; only regular files of ours. */
void published_table_remove(struct published_table *table, const char *resource);

/* Writes the list if it has changed. After a failure, the next call tries it again. */
void published_table_save(struct published_table *table);

/* Opens the directory of the file, which must not be a symbolic link; `ret_name` is in `path`.
 * Returns a descriptor or negative errno. */
int published_table_open_directory(const char *path, const char **ret_name);

void published_table_done(struct published_table *table);
