/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Bytes in JSON (RFC 4648, with padding), as Go's encoder writes them.
 */

#include "common/util.h"

/* Malloc'ed text; NULL: no memory. */
char *base64_encode(const uint8_t *data, size_t size);

/* Malloc'ed bytes. -EINVAL if the text is not base64. */
int base64_decode(const char *text, uint8_t **ret_data, size_t *ret_size);
