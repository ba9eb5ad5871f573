/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * A set of strings: device ids, pod uids. It only grows; to remove an element, build a new set,
 * which is what the kubelet does.
 */

#include "common/util.h"

struct id_set {
	char **slots; /* open addressing, NULL: free */
	size_t n_slots, count;
};

/* Inserts a copy. Returns 1 if it was new, 0 if it was there, -ENOMEM. */
int id_set_insert(struct id_set *set, const char *id);

bool id_set_contains(const struct id_set *set, const char *id);

/* Empties the set and frees its memory. */
void id_set_done(struct id_set *set);
#define _cleanup_id_set_ _cleanup_(id_set_done)
