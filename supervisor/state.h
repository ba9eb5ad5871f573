/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The state files in runtime_dir, by which people and programs learn what the daemon does without a
 * server behind it. Each file is replaced as a whole, never written in place. The lock file makes
 * one daemon the only writer.
 */

#include "common/error.h"

#define STATE_FILE        "state.json"
#define STATE_LOCK_FILE   "lock"
#define STATE_DEVICES_DIR "devices"
#define STATE_NAME_MAX    128

struct state;

/* Creates the directory if it is missing and takes the lock. -EBUSY: another daemon has it. */
int state_open(const char *runtime_dir, struct state **ret, struct error *error);

/* Replaces a file. */
int state_write(struct state *state, const char *name, const void *data, size_t size);

/* Replaces a file by a copy of what the descriptor holds. -EFBIG: more than `limit` bytes. */
int state_copy(struct state *state, const char *name, int fd, size_t limit, size_t *ret_size);

void state_remove(struct state *state, const char *name);

/* Removes the state file and all files of devices: what a daemon that is gone would leave. */
void state_clear(struct state *state);

/* The file, relative to runtime_dir, with the devices of a resource. */
void state_devices_name(const char *resource, char ret[static STATE_NAME_MAX]);

/* Gives the lock back; the files stay. */
struct state *state_free(struct state *state);
DEFINE_CLEANUP(struct state *, state_free)
