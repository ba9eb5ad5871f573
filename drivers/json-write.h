/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * json_dumpfd() makes a system call of every brace and comma, which is tenths of seconds of them
 * where devices are many; this one has a buffer.
 */

#include <jansson.h>

/* Writes compact JSON at the descriptor's position; it stays the caller's. Returns 0 or negative
 * errno. */
int json_write(int fd, const json_t *json);
