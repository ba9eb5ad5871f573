/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Loads a file of the kubelet. The kubelet replaces its files as a whole, so none is read in the
 * middle of a write. Nothing is assumed about their content.
 */

#include <jansson.h>
#include <sys/stat.h>

#include "common/error.h"

/* Loads a JSON document, which has at most `maximum` bytes. `ret_status` is that of the file that
 * was read. Returns 0 or, with the error filled, -ENOENT (there is none), -EFBIG, -EBADMSG (not a
 * regular file, or not JSON), or the error of reading it. */
int kubelet_file_load(const char *path, unsigned maximum, json_t **ret, struct stat *ret_status,
	struct error *error);
