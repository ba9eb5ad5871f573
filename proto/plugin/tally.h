/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * How often devices were given to containers since this process started. The kubelet never says
 * when one is given back, so this counts events and claims nothing about use.
 */

#include "common/util.h"

struct tally_entry {
	char *id;
	uint64_t count;
};

struct tally {
	struct tally_entry *entries; /* sorted by id */
	size_t n_entries;
	uint64_t allocations; /* Allocate answers for a container */
	uint64_t last;        /* CLOCK_REALTIME microseconds, 0: never */
};

/* Counts one allocation of a container. Without memory for an id its count is lost, nothing else.
 */
void tally_add(struct tally *tally, const char *const *ids, size_t n_ids);

/* How often the id was given out. */
uint64_t tally_of(const struct tally *tally, const char *id);

void tally_done(struct tally *tally);
