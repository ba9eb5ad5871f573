/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Loads a file of the kubelet. The kubelet replaces its files as a whole, so none is read in the
 * middle of a write. Nothing is assumed about their content.
 */

#include <jansson.h>
#include <stdbool.h>

#include "common/error.h"

/* Whether an open file or directory has been removed or replaced. `ret_mounted`: it stays at its
 * path as the root of a mount, so that the view is old; else another process has just removed it.
 * Returns 1, 0, or negative errno. */
int kubelet_file_is_removed(int fd, bool *ret_mounted);

/* Loads a JSON document, which has at most `maximum` bytes. Returns 0 or, with the error filled,
 * -ENOENT (there is none), -EFBIG, -EBADMSG (not a regular file, or not JSON), -ESTALE (a mount
 * keeps a file that was replaced), or the error of reading it. */
int kubelet_file_load(const char *path, unsigned maximum, json_t **ret, struct error *error);
