/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finds thousands of names without a linear search. Linear probing needs no tombstones if a removal
 * moves later entries of the run back into the gap. At most two thirds of the slots are in use, so
 * every run ends.
 */
#include "common/map.h"

#include "common/siphash.h"

#define MAP_CAPACITY_MIN 16

static size_t map_find(const struct map *map, const char *key, uint64_t hash)
{
	size_t i = hash & (map->capacity - 1);

	while (map->slots[i].key && !(map->slots[i].hash == hash && streq(map->slots[i].key, key)))
		i = (i + 1) & (map->capacity - 1);
	return i;
}

int map_reserve(struct map *map, size_t count)
{
	struct map grown = { .capacity = MAX_OF(map->capacity, (size_t)MAP_CAPACITY_MIN) };

	if (count * 3 <= map->capacity * 2)
		return 0;
	while (count * 3 > grown.capacity * 2)
		grown.capacity *= 2;
	grown.slots = calloc(grown.capacity, sizeof(*grown.slots));
	if (!grown.slots)
		return -ENOMEM;
	for (size_t i = 0; i < map->capacity; i++)
		if (map->slots[i].key)
			grown.slots[map_find(&grown, map->slots[i].key, map->slots[i].hash)] =
				map->slots[i];
	grown.count = map->count;
	free(map->slots);
	*map = grown;
	return 0;
}

void *map_get(const struct map *map, const char *key)
{
	if (map->count == 0)
		return NULL;
	return map->slots[map_find(map, key, hash_foreign(key))].value;
}

int map_put(struct map *map, const char *key, void *value)
{
	uint64_t hash = hash_foreign(key);
	size_t i;
	int r;

	r = map_reserve(map, map->count + 1);
	if (r < 0)
		return r;
	i = map_find(map, key, hash);
	if (map->slots[i].key)
		return -EEXIST;
	map->slots[i] = (struct map_slot){ .key = key, .value = value, .hash = hash };
	map->count++;
	return 0;
}

void *map_remove(struct map *map, const char *key)
{
	size_t mask = map->capacity - 1, gap;
	void *value;

	if (map->count == 0)
		return NULL;
	gap = map_find(map, key, hash_foreign(key));
	if (!map->slots[gap].key)
		return NULL;
	value = map->slots[gap].value;

	for (size_t i = (gap + 1) & mask; map->slots[i].key; i = (i + 1) & mask) {
		size_t home = map->slots[i].hash & mask;

		/* An entry may fill the gap unless its home lies between gap and entry. */
		if (((i - home) & mask) < ((i - gap) & mask))
			continue;
		map->slots[gap] = map->slots[i];
		gap = i;
	}
	map->slots[gap] = (struct map_slot){ 0 };
	map->count--;
	return value;
}

void map_done(struct map *map)
{
	free(map->slots);
	*map = (struct map){ 0 };
}
