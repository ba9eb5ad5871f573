/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The counters of a resource's process, for metrics: a page of memory that the supervisor makes for
 * each resource and passes to each process that serves it, so that the numbers outlive processes
 * and counting costs no message. A process can falsify the numbers of its own resource only. Until
 * a process receives its page, it counts in its own memory.
 */

#include "common/util.h"

/* The maximum value of a count that is read from another process: JSON can represent it, and the
 * sum of 32,000 such counts. */
#define COUNT_MAX (1ULL << 48)

/* Upper bounds of the histogram of Allocate, in microseconds; the last bucket has none. */
#define ALLOCATION_BOUNDS                                                                        \
	{                                                                                        \
		1000, 2500, 5000, 10000, 25000, 50000, 100000, 250000, 500000, 1000000, 2500000, \
			5000000, 10000000                                                        \
	}
#define ALLOCATION_BUCKETS 14

/* Maximum number of kinds of probes, see enum probe_kind. */
#define COUNTED_PROBES 16

enum counter {
	COUNTER_LIST_UPDATES,          /* messages of ListAndWatch */
	COUNTER_PREFERRED_ALLOCATIONS, /* calls */
	COUNTER_PRESTARTS_OK,
	COUNTER_PRESTARTS_FAILED,
	COUNTER_CLEANINGS_OK,
	COUNTER_CLEANINGS_FAILED,
	COUNTER_SCANS,
	COUNTER_SCANS_FAILED, /* of them */
	COUNTER_SCAN_USEC,
	COUNTER_ALLOCATIONS_OK,
	COUNTER_ALLOCATIONS_FAILED,
	COUNTER_ALLOCATION_USEC,
	COUNTER_ALLOCATION_BUCKET, /* the first of ALLOCATION_BUCKETS; each call is in one */
	COUNTER_PROBES_HEALTHY = COUNTER_ALLOCATION_BUCKET + ALLOCATION_BUCKETS,
	COUNTER_PROBES_UNHEALTHY = COUNTER_PROBES_HEALTHY + COUNTED_PROBES, /* results by kind */
	COUNTER_PROBES_TIMED = COUNTER_PROBES_UNHEALTHY + COUNTED_PROBES,   /* by kind */
	COUNTER_PROBE_USEC = COUNTER_PROBES_TIMED + COUNTED_PROBES,         /* that these took */
	_COUNTER_MAX = COUNTER_PROBE_USEC + COUNTED_PROBES,
};

/* Any thread. */
void counters_add(enum counter counter, uint64_t number);

/* Counts an Allocate, answered or refused after `usec` microseconds. */
void counters_add_allocation(bool answered, uint64_t usec);

/* Counts a probe of that kind that took `usec` microseconds. */
void counters_add_probe_time(unsigned kind, uint64_t usec);

/* Makes a page. Returns its descriptor, or negative errno. */
int counters_new(void);

/* Makes this process count into that page. To be called before any other thread runs. The caller
 * keeps the descriptor. Returns 0 or negative errno. */
int counters_use(int fd);

/* Reads a page, each number at most COUNT_MAX. Returns 0 or negative errno. */
int counters_read(int fd, uint64_t ret[static _COUNTER_MAX]);
