/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The files that devplugd keeps for itself in runtime_dir. Each is replaced as a whole, never
 * written in place. The lock in runtime-lock.h makes one daemon the only writer.
 */

#include "common/error.h"

struct runtime_files;

/* Creates the directory if it is missing and takes the lock. -EBUSY: another daemon has it, -EPERM:
 * it is a directory that others can write to. */
int runtime_files_open(const char *runtime_dir, struct runtime_files **ret, struct error *error);

/* Restores the directory, the lock and the directory of health where they were removed, and takes
 * the lock. Returns 0 if nothing was missing, 1 if all files have to be written again, or negative
 * errno with the error filled, as runtime_files_open(); then it can be tried again. */
int runtime_files_restore(struct runtime_files *files, struct error *error);

/* mkdir -p; the directories it makes have mode 0755. */
int runtime_files_make_directory(const char *path);

/* Opens a directory that only the daemon's user may enter, and creates it if it is missing; `path`
 * is for the error. Returns a descriptor, or negative errno with the error filled; -EPERM: others
 * can write to it. */
int runtime_files_open_private(int at, const char *name, const char *path, struct error *error);

/* Replaces a file that only the daemon's user may read. Returns 0 or negative errno. */
int runtime_files_write(
	struct runtime_files *files, const char *name, const void *data, size_t size);

void runtime_files_remove(struct runtime_files *files, const char *name);

/* Removes a file of any type, or an empty directory. Returns 0, also if there is none, or negative
 * errno. */
int runtime_files_remove_any(int at, const char *name);

/* The directory, and the one in it for saved-health.h; they stay this object's. */
int runtime_files_directory(const struct runtime_files *files);
int runtime_files_health_directory(const struct runtime_files *files);

/* The path of a file that outlives a stop and a reboot: below $STATE_DIRECTORY, of which systemd
 * may name several, separated by colons, or below runtime_dir without it (malloc'ed). */
int runtime_files_state_path(const char *runtime_dir, const char *name, char **ret);

/* The directory of complete lists of devices there, which is created if it is missing, or negative
 * errno. It stays this object's. */
int runtime_files_lists_directory(struct runtime_files *files);

/* Opens a file for reading, in one of these directories or another. Returns a descriptor or
 * negative errno; -EPERM: it is not a regular file of ours, or others can write to it. */
int runtime_files_open_file(int directory_fd, const char *name);

/* Gives the lock back; the files stay. */
struct runtime_files *runtime_files_free(struct runtime_files *files);
DEFINE_CLEANUP(struct runtime_files *, runtime_files_free)
