/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Replaces a file as a whole: readers find the old content or the new one, never a part. The new
 * content gets a temporary name in the same directory first. That name begins with a dot, so that a
 * program which reads all files of the directory does not read it. Nothing is synchronized to the
 * disk.
 */

#include "common/util.h"

/* The beginning and end of temporary names. */
#define REPLACE_FILE_PREFIX ".devplugd-"
#define REPLACE_FILE_SUFFIX ".tmp"

/* Replaces the file. `name` is below the directory, or a path with AT_FDCWD. The mode does not
 * depend on the umask. Returns 0 or negative errno; on failure, the old file is unchanged. */
int replace_file(int directory_fd, const char *name, mode_t mode, const void *data, size_t size);

/* Replaces a file in two steps, if the content is not one block of memory. This one returns a
 * descriptor that the caller writes to and closes, or negative errno; */
int replace_file_begin(int directory_fd, const char *name, mode_t mode);
/* then ends it: with a negative errno as `r`, the new content is discarded. Returns `r`, or
 * negative errno if the file cannot take its name. */
int replace_file_end(int directory_fd, const char *name, int r);
