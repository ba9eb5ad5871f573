/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Converts to and from base64 (RFC 4648, with padding), the form in which Go writes bytes into JSON
 * and YAML.
 */

#include "common/util.h"

/* Malloc'ed text, or NULL without memory. */
char *base64_encode(const uint8_t *data, size_t size);

/* Malloc'ed bytes. White space is ignored. -EINVAL if the text is not base64,
 * -ENOMEM. */
int base64_decode(const char *text, uint8_t **ret_data, size_t *ret_size);
