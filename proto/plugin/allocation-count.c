/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Counts allocations for each device in a sorted array. It is searched once for each device of a
 * report, and grows once for each device that is ever allocated.
 */
#include "proto/plugin/allocation-count.h"

/* Position of the id, or where it belongs. */
static size_t position(
	const struct allocation_count *allocation_count, const char *id, bool *ret_found)
{
	size_t low = 0, high = allocation_count->n_entries;

	while (low < high) {
		size_t middle = low + (high - low) / 2;
		int order = strcmp(allocation_count->entries[middle].id, id);

		if (order == 0) {
			*ret_found = true;
			return middle;
		}
		if (order < 0)
			low = middle + 1;
		else
			high = middle;
	}
	*ret_found = false;
	return low;
}

static void count(struct allocation_count *allocation_count, const char *id)
{
	bool found;
	size_t at = position(allocation_count, id, &found);
	char *copy;

	if (found) {
		allocation_count->entries[at].count++;
		return;
	}
	if (array_reserve((void **)&allocation_count->entries, allocation_count->n_entries,
		    sizeof(allocation_count->entries[0])) < 0)
		return;
	copy = strdup(id);
	if (!copy)
		return;
	memmove(&allocation_count->entries[at + 1], &allocation_count->entries[at],
		(allocation_count->n_entries - at) * sizeof(allocation_count->entries[0]));
	allocation_count->entries[at] = (struct allocation_count_entry){ .id = copy, .count = 1 };
	allocation_count->n_entries++;
}

void allocation_count_add(
	struct allocation_count *allocation_count, const char *const *ids, size_t n_ids)
{
	for (size_t i = 0; i < n_ids; i++)
		count(allocation_count, ids[i]);
	allocation_count->allocations++;
	allocation_count->last = now_usec(CLOCK_REALTIME);
}

uint64_t allocation_count_of(const struct allocation_count *allocation_count, const char *id)
{
	bool found;
	size_t at = position(allocation_count, id, &found);

	return found ? allocation_count->entries[at].count : 0;
}

void allocation_count_done(struct allocation_count *allocation_count)
{
	for (size_t i = 0; i < allocation_count->n_entries; i++)
		free(allocation_count->entries[i].id);
	free(allocation_count->entries);
	*allocation_count = (struct allocation_count){};
}
