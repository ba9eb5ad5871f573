/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Text from plugins, shown in JSON and in messages without breaking either.
 */

#include <jansson.h>

#include "common/util.h"

#define _cleanup_json_ _cleanup_(json_decrefp)

/* A JSON string; bytes that are not UTF-8 become U+FFFD, as Go's encoder does. NULL: no memory. */
json_t *text_json(const char *text);

/* The string in double quotes with quotes, backslashes and control characters escaped, as Go's %q
 * prints it, cut to the size of the buffer. Returns the buffer. */
char *text_quote(char *buffer, size_t size, const char *text);
