/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * A file in runtime_dir that is a copy of the newest descriptor that a child sent, written when the
 * owner asks for it. The contents are never read here.
 */

#include "supervisor/files/state.h"

struct mirror {
	struct state *state;
	char name[STATE_NAME_MAX];
	size_t limit; /* in bytes */
	int fd;       /* the newest, or -EBADF */
	bool pending; /* not written yet */
};

/* Does not touch the file. `name`: as of state_devices_name(). */
void mirror_init(struct mirror *mirror, struct state *state, const char *name, size_t limit);

/* Takes the descriptor. */
void mirror_take(struct mirror *mirror, int fd);

/* Takes what an earlier daemon left in the file, if anything. Returns 0, or negative errno if there
 * may be something that cannot be opened now. */
int mirror_restore(struct mirror *mirror);

/* Writes the file if that is pending. Returns 0 or negative errno, see state_copy(); writing
 * stays pending then, except after -EFBIG. */
int mirror_write(struct mirror *mirror);

/* The file was removed: makes writing it pending, if its descriptor is still there. */
void mirror_write_again(struct mirror *mirror);

/* Closes the descriptor; the file stays. */
void mirror_release(struct mirror *mirror);

/* Closes the descriptor and removes the file. */
void mirror_remove(struct mirror *mirror);
