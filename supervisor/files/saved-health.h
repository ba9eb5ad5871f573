/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * What a resource's process found, saved in a file, so that the resource's next process begins with
 * it, also after a restart of devplugd: the health of its devices, and its last complete list of
 * devices, which outlives a reboot. The content is the process's own and is never read here.
 */

#include "supervisor/files/runtime-files.h"

enum saved_kind {
	SAVED_HEALTH, /* in runtime_dir */
	SAVED_LIST,   /* in the state directory, see drivers/inventory/complete-list.h */
};

/* What these files leave free in their file system: this, or a quarter of it if that
 * is less. */
#define SAVED_HEALTH_RESERVE (256U << 20)

/* After this, what could not be written is written again: there may be space. */
#define SAVED_HEALTH_RETRY USEC_PER_SEC

#define SAVED_HEALTH_NAME_MAX 128

struct saved_health {
	struct runtime_files *files;
	enum saved_kind kind;
	char name[SAVED_HEALTH_NAME_MAX];
	int fd;       /* the newest content, or -EBADF */
	bool pending; /* not written yet */
};

/* The name of a resource's file in the directory of a kind. */
void saved_health_name(const char *resource, char ret[static SAVED_HEALTH_NAME_MAX]);

/* Takes what an earlier daemon left in the file, if anything. Returns 0, or negative errno if there
 * may be something that cannot be opened now. */
int saved_health_open(struct saved_health *saved, struct runtime_files *files, enum saved_kind kind,
	const char *resource);

/* Takes the descriptor as the newest content. */
void saved_health_take(struct saved_health *saved, int fd);

/* Writes the file if that is pending. Returns 0, or negative errno: -EFBIG: more than
 * CONTROL_SAVED_STATE_MAX bytes, -ENOSPC: more than the file system has room for. Writing stays
 * pending then, except after -EFBIG. */
int saved_health_write(struct saved_health *saved);

/* The file was removed: makes writing it pending, if there is something to write. */
void saved_health_write_again(struct saved_health *saved);

/* Closes the descriptor; the file stays. */
void saved_health_close(struct saved_health *saved);

/* Closes the descriptor and removes the file. */
void saved_health_remove(struct saved_health *saved);

/* Removes files of the kind that belong to none of these resources. */
void saved_health_keep_only(
	struct runtime_files *files, enum saved_kind kind, const char *const *resources, size_t n);
