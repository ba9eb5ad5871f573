/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * A hash map from strings to pointers, for the places where thousands of names must be found
 * without a linear search. It uses open addressing with linear probing. Keys belong to the values.
 * The hash uses the process's random key (siphash.h), so that no peer can choose strings that
 * collide.
 */

#include "common/util.h"

struct map_slot {
	const char *key; /* NULL: free */
	void *value;
	uint64_t hash;
};

struct map {
	struct map_slot *slots;
	size_t capacity; /* a power of two, or 0 */
	size_t count;
};

/* The value of the key, or NULL. */
void *map_get(const struct map *map, const char *key);

/* Adds a value; the key must live as long as it is in the map. -EEXIST: the key is there already,
 * -ENOMEM. */
int map_put(struct map *map, const char *key, void *value);

/* Makes room for `count` values. Returns 0 or -ENOMEM. */
int map_reserve(struct map *map, size_t count);

/* Removes the value of the key. Returns it, or NULL if there was none. */
void *map_remove(struct map *map, const char *key);

/* Frees the table, not the values. */
void map_done(struct map *map);
