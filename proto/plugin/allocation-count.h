/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Counts how often devices were allocated since this process started. The kubelet never reports
 * when one is free again, so this counts allocations and not devices in use.
 */

#include "common/util.h"

struct allocation_count_entry {
	char *id;
	uint64_t count;
};

struct allocation_count {
	struct allocation_count_entry *entries; /* sorted by id */
	size_t n_entries;
	uint64_t allocations; /* Allocate answers for a container, edits for a request of a claim */
	uint64_t last;        /* CLOCK_REALTIME microseconds, 0: never */
};

/* Counts one such answer. If there is no memory for an id, its count is lost, nothing else. */
void allocation_count_add(
	struct allocation_count *allocation_count, const char *const *ids, size_t n_ids);

/* How often the id was allocated. */
uint64_t allocation_count_of(const struct allocation_count *allocation_count, const char *id);

void allocation_count_done(struct allocation_count *allocation_count);
