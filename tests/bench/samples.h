/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Timing and printing for all benchmarks here.
 */

#include <stddef.h>
#include <stdint.h>

/* Calls before the first that counts. */
#define WARM_UP 100

/* CLOCK_MONOTONIC */
uint64_t now_nsec(void);

/* Sorts the samples, in nanoseconds, and prints their number and their median, 99th percentile and
 * minimum in microseconds as a JSON object. Returns 0. */
int print_samples(uint64_t *samples, size_t n);

/* Writes a text over the one of the same length in the file. Returns 0 or negative errno. */
int write_health(const char *path, const char *text);
