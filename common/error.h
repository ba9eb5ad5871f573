/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * An error with a sentence for the administrator: what failed, on what, and what to do. Functions
 * that can explain themselves take a `struct error *` as last parameter, fill it when they return a
 * negative errno, and leave it untouched on success. The function that handles the error logs or
 * sends the sentence, once.
 */

#include "common/util.h"

struct error {
	int code;          /* negative errno; 0: no error */
	char message[480]; /* UTF-8, one line, no full stop */
};

/* Fills the error, cutting an over-long message at a character's boundary. Returns `code`
 * (negative). A NULL error is accepted and only the code returned. */
_printf_(3, 4) int error_set(struct error *error, int code, const char *format, ...);

/* Adds "<text>: " before the existing message, for callers that know the context. */
_printf_(2, 3) void error_prefix(struct error *error, const char *format, ...);
