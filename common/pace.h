/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Keeps work whose cost depends on other processes' input from taking all of a thread's time: after
 * each piece of work, the next is due after PACE_FACTOR times as long as the last one took. The
 * processor time of the thread counts, because a piece that only waited has taken nothing from
 * others. For work that writes files, elapsed time counts, because the thread does nothing else
 * while a disk is slow.
 */

#include "common/util.h"

#define PACE_FACTOR 4

/* All times but `processor` are CLOCK_MONOTONIC microseconds. Zeroed: work is due at once. */
struct pace {
	uint64_t begun;
	uint64_t processor;  /* the thread's processor time when the piece was begun */
	uint64_t not_before; /* the earliest time of the next piece */
};

static inline void pace_begin(struct pace *pace)
{
	pace->begun = now_usec(CLOCK_MONOTONIC);
	pace->processor = now_usec(CLOCK_THREAD_CPUTIME_ID);
}

/* `spacing`: the minimum length of the pause. The same thread has called pace_begin(). Returns the
 * current time. */
static inline uint64_t pace_end(struct pace *pace, uint64_t spacing)
{
	uint64_t end = now_usec(CLOCK_MONOTONIC);
	uint64_t took = now_usec(CLOCK_THREAD_CPUTIME_ID) - pace->processor;

	pace->not_before = end + MAX_OF(spacing, PACE_FACTOR * took);
	return end;
}

/* As pace_end(), for work that writes files. */
static inline uint64_t pace_end_of_writing(struct pace *pace, uint64_t spacing)
{
	uint64_t end = now_usec(CLOCK_MONOTONIC);

	pace->not_before = end + MAX_OF(spacing, PACE_FACTOR * (end - pace->begun));
	return end;
}

/* When work may begin: now or later. */
static inline uint64_t pace_next(const struct pace *pace)
{
	return MAX_OF(now_usec(CLOCK_MONOTONIC), pace->not_before);
}
