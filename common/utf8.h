/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Checks that text is UTF-8 (RFC 3629). A kubelet from 1.34 on refuses a whole message if one
 * string is not, so all text that may reach it is checked.
 */

#include "common/util.h"

/* Length of the longest valid part at the beginning; equal to `size` if all of it is. NUL is valid.
 */
size_t utf8_valid_length(const char *data, size_t size);

/* Reads the first character. Returns its length, or 0 if there is none or it is not valid. */
size_t utf8_next(const char *data, size_t size, uint32_t *ret_code);

static inline bool utf8_is_valid(const char *string)
{
	size_t size = strlen(string);

	return utf8_valid_length(string, size) == size;
}
