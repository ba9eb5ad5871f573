/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A sorted array: looked up once per device of a report, grown once per device ever allocated.
 */
#include "proto/plugin/tally.h"

/* Position of the id, or where it belongs. */
static size_t position(const struct tally *tally, const char *id, bool *ret_found)
{
	size_t low = 0, high = tally->n_entries;

	while (low < high) {
		size_t middle = low + (high - low) / 2;
		int order = strcmp(tally->entries[middle].id, id);

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

static void count(struct tally *tally, const char *id)
{
	bool found;
	size_t at = position(tally, id, &found);
	char *copy;

	if (found) {
		tally->entries[at].count++;
		return;
	}
	if (array_reserve((void **)&tally->entries, tally->n_entries, sizeof(tally->entries[0])) <
		0)
		return;
	copy = strdup(id);
	if (!copy)
		return;
	memmove(&tally->entries[at + 1], &tally->entries[at],
		(tally->n_entries - at) * sizeof(tally->entries[0]));
	tally->entries[at] = (struct tally_entry){ .id = copy, .count = 1 };
	tally->n_entries++;
}

void tally_add(struct tally *tally, const char *const *ids, size_t n_ids)
{
	for (size_t i = 0; i < n_ids; i++)
		count(tally, ids[i]);
	tally->allocations++;
	tally->last = now_usec(CLOCK_REALTIME);
}

uint64_t tally_of(const struct tally *tally, const char *id)
{
	bool found;
	size_t at = position(tally, id, &found);

	return found ? tally->entries[at].count : 0;
}

void tally_done(struct tally *tally)
{
	for (size_t i = 0; i < tally->n_entries; i++)
		free(tally->entries[i].id);
	free(tally->entries);
	*tally = (struct tally){};
}
