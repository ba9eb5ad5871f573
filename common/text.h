/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Cleans untrusted text (from children, hardware, the kubelet) before it reaches a terminal, a log
 * line or a JSON file.
 */

#include "common/util.h"

/* Replaces, in place, control characters and bytes that are not UTF-8 by '?'. The length stays. */
void text_sanitize(char *text);

/* Cuts white space off both ends, in place. Returns the first character that is left. */
char *text_trim(char *text);

/* Formats microseconds since the epoch as "2024-05-31T12:34:56Z". */
#define TEXT_TIME_MAX 32
void text_time(uint64_t usec, char ret_text[static TEXT_TIME_MAX]);
