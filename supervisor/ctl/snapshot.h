/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * What the state files say, joined into one document whose shape can be relied on: every member
 * that is documented is there and has its type, whatever was in the files.
 */

#include <jansson.h>

#include "common/error.h"

struct snapshot {
	bool running; /* a daemon holds the lock */
	bool known;   /* there is a state file; of a dead daemon if not running */
	char *runtime_dir;
	json_t *root; /* {"generation", "pid", "running", "resources": [{..., "devices": [...]}]} */
};

/* `runtime_dir` NULL: as the configuration file says; `config_file` NULL: the default one, and a
 * built-in directory if that cannot be used. Returns 0 or negative errno with the error filled. */
int snapshot_read(const char *config_file, const char *runtime_dir, struct snapshot *ret,
	struct error *error);

/* Leaves only the resource of that name. Returns 0, or -ENOENT with the error filled. */
int snapshot_select(struct snapshot *snapshot, const char *resource, struct error *error);

void snapshot_done(struct snapshot *snapshot);

/* Members of the document. A string is never NULL. */
const char *snapshot_string(const json_t *object, const char *key);
json_int_t snapshot_integer(const json_t *object, const char *key);
