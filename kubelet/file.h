/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Reads and writes small files as a whole.
 */

#include <sys/types.h>

#include "common/util.h"

/* Reads a regular file into malloc'ed memory, with a NUL behind it. -EFBIG beyond `max` bytes. */
int file_read(const char *path, size_t max, char **ret_data, size_t *ret_size);

/* Replaces dir/name in one step: the file contains either the old or the new content, also after a
 * crash if `durable`. The temporary name begins with a dot. */
int file_replace(const char *dir, const char *name, const void *data, size_t size, mode_t mode,
	bool durable);

/* Makes the directory and its parents. */
int make_directory(const char *path, mode_t mode);
