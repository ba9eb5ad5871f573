/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Checks untrusted text (from children, hardware, the kubelet), and cleans it before it reaches a
 * terminal, a log line or a JSON file.
 */

#include "common/util.h"

/* Whether the text is UTF-8 without control characters, and without characters that reorder or
 * break a line or have no width. */
bool text_is_plain(const char *text);

/* Whether the text is one decimal digit or more. NULL is none. */
bool text_is_number(const char *text);

/* Replaces, in place, each byte that text_is_plain() does not allow by '?'. The length stays. */
void text_sanitize(char *text);

/* As text_sanitize(), for a buffer of that size which snprintf() has filled: if its end splits a
 * character, the part of the character is dropped. */
void text_sanitize_cut(char *text, size_t size);

/* Removes white space at both ends, in place. Returns the first remaining character. */
char *text_trim(char *text);

/* Formats microseconds since the epoch as "2024-05-31T12:34:56Z". */
#define TEXT_TIME_MAX 32
void text_time(uint64_t usec, char ret_text[static TEXT_TIME_MAX]);
