/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The state files in runtime_dir, which show what the daemon does without asking it. Each file is
 * replaced as a whole, never written in place. The lock file makes one daemon the only writer.
 */

#include "common/error.h"

#define STATE_FILE        "state.json"
#define STATE_LOCK_FILE   "lock"
#define STATE_DEVICES_DIR "devices"
#define STATE_HEALTH_DIR  "health"
#define STATE_NAME_MAX    128

/* The free space that content from children leaves in the file system of runtime_dir: this, or a
 * quarter of it if that is less. */
#define STATE_RESERVE (256U << 20)

/* After this time, failed writes are repeated, because there may be space. */
#define STATE_RETRY USEC_PER_SEC

struct state;

/* Creates the directory if it is missing and takes the lock. -EBUSY: another daemon has it, -EPERM:
 * it is a directory that others can write to. */
int state_open(const char *runtime_dir, struct state **ret, struct error *error);

/* Restores the directory, the lock and the directories in it where they were removed, and takes the
 * lock. Returns 0 if nothing was missing, 1 if all files have to be written again, or negative
 * errno with the error filled, as state_open(); then it can be tried again. */
int state_restore(struct state *state, struct error *error);

/* mkdir -p; the directories it makes have mode 0755. */
int state_make_directory(const char *path);

/* Replaces a file. */
int state_write(struct state *state, const char *name, const void *data, size_t size);

/* Replaces a file that only the daemon's user may read. */
int state_write_private(struct state *state, const char *name, const void *data, size_t size);

/* Replaces a file by a copy of what the descriptor holds. -EFBIG: more than `limit` bytes, -ENOSPC:
 * more than the file system has room for (STATE_RESERVE). */
int state_copy(struct state *state, const char *name, int fd, size_t limit);

void state_remove(struct state *state, const char *name);

/* Removes the state file and all files of devices of a daemon that has ended. The last accepted
 * configuration stays, see configuration/last-accepted.h. */
void state_clear(struct state *state);

/* Removes files of devices and of their health that belong to none of these resources. */
void state_keep_only(struct state *state, const char *const *resources, size_t n);

/* The file, relative to runtime_dir, with the devices of a resource. */
void state_devices_name(const char *resource, char ret[static STATE_NAME_MAX]);

/* The file with the saved health state of a resource's devices; state_clear() leaves it. */
void state_health_name(const char *resource, char ret[static STATE_NAME_MAX]);

/* Removes a file of any type, or an empty directory. Returns 0, also if there is none, or negative
 * errno. */
int state_remove_any(int at, const char *name);

/* The directory, for files of other kinds; stays the state's. */
int state_directory(const struct state *state);

/* Opens a file for reading. Returns a descriptor or negative errno; -EPERM: it is not a regular
 * file of ours. */
int state_open_file(const struct state *state, const char *name);

/* Gives the lock back; the files stay. */
struct state *state_free(struct state *state);
DEFINE_CLEANUP(struct state *, state_free)
