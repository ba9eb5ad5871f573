/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Stores ids with open addressing and linear probing, in a table that is at most half full, so that
 * a probe always ends.
 */
#include "kubelet/id-set.h"

static char **find_slot(char **slots, size_t n_slots, const char *id)
{
	size_t i = hash_string(id) & (n_slots - 1);

	while (slots[i] && !streq(slots[i], id))
		i = (i + 1) & (n_slots - 1);
	return &slots[i];
}

static int grow(struct id_set *set)
{
	size_t n = set->n_slots ? set->n_slots * 2 : 16;
	char **slots = calloc(n, sizeof(*slots));

	if (!slots)
		return -ENOMEM;
	for (size_t i = 0; i < set->n_slots; i++)
		if (set->slots[i])
			*find_slot(slots, n, set->slots[i]) = set->slots[i];
	free(set->slots);
	set->slots = slots;
	set->n_slots = n;
	return 0;
}

int id_set_insert(struct id_set *set, const char *id)
{
	char **slot;
	int r;

	if (set->count * 2 >= set->n_slots) {
		r = grow(set);
		if (r < 0)
			return r;
	}
	slot = find_slot(set->slots, set->n_slots, id);
	if (*slot)
		return 0;
	*slot = strdup(id);
	if (!*slot)
		return -ENOMEM;
	set->count++;
	return 1;
}

bool id_set_contains(const struct id_set *set, const char *id)
{
	return set->n_slots > 0 && *find_slot(set->slots, set->n_slots, id);
}

void id_set_done(struct id_set *set)
{
	for (size_t i = 0; i < set->n_slots; i++)
		free(set->slots[i]);
	free(set->slots);
	*set = (struct id_set){};
}
