/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Text from strangers (children, hardware, the kubelet) before it reaches a terminal, a log line or
 * a JSON file.
 */

#include "common/util.h"

/* Replaces, in place, control characters and bytes that are not UTF-8 by '?'. The length stays. */
void text_sanitize(char *text);

/* Formats microseconds since the epoch as "2024-05-31T12:34:56Z". */
#define TEXT_TIME_MAX 32
void text_time(uint64_t usec, char ret_text[static TEXT_TIME_MAX]);
