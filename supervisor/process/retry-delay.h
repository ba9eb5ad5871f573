/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Computes the delays of every retry: they double up to a maximum, with 10 % of jitter either way.
 * All times are in microseconds.
 */

#include "common/util.h"

/* For a process. */
#define RETRY_CHILD_DELAY_MIN (100 * USEC_PER_MSEC)
#define RETRY_CHILD_DELAY_MAX (60 * USEC_PER_SEC)
#define RETRY_CHILD_CREDIT    (1 * USEC_PER_SEC) /* of serving, halves that delay */

/* Doubles `*delay` from `minimum` to `maximum`, 0 meaning none yet, and returns it with jitter. */
uint64_t retry_delay_next(
	uint64_t *delay, uint64_t minimum, uint64_t maximum, uint32_t random_number);

/* A random number for retry_delay_next(), without waiting for randomness. */
uint32_t retry_delay_random(void);

/* Shortens the delay after a process has served: each RETRY_CHILD_CREDIT of service halves the
 * delay before the next start. */
void retry_delay_credit(uint64_t *delay, uint64_t served);
