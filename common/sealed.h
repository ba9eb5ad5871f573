/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Passes texts that are too long for a message from one process to another: in a memfd that can no
 * longer be changed, so that the checked text is the text that is used.
 */

#include "common/util.h"

/* Makes a sealed memfd of the bytes. Returns the descriptor or negative errno. */
int sealed_new(const char *name, const void *data, size_t size);

/* Make a sealed memfd in two steps: sealed_begin() returns an empty memfd for the caller to write
 * to, or negative errno. sealed_end() seals it, and returns 0 or negative errno. */
int sealed_begin(const char *name);
int sealed_end(int fd);

/* Whether a descriptor that an untrusted process sent can be passed on or read: -EBADMSG: it is not
 * a memfd or lacks a seal, -EFBIG: more than `limit` bytes. */
int sealed_check(int fd, size_t limit, size_t *ret_size);

/* Reads all of such a descriptor; the text is malloc'ed and ends in a NUL that is not counted.
 * Errors as sealed_check(). */
int sealed_read(int fd, size_t limit, char **ret_text, size_t *ret_size);
