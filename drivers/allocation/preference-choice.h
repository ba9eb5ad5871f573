/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * One request in progress: the candidates and their units, from which the orders of preference.c
 * and preference-links.c choose.
 */

#include "drivers/inventory/inventory.h"

struct candidate {
	const char *id;
	size_t unit;
	unsigned replica;
	bool must;
};

/* The candidates of one unit. */
struct group {
	struct candidate *next, *end;
	size_t n_free; /* that may be chosen */
	size_t n_must;
	uint64_t nodes; /* set of NUMA nodes */
};

struct choice {
	struct candidate *candidates; /* by unit, then replica */
	size_t n_candidates;
	struct group *groups; /* in the order of units */
	size_t n_groups;
	size_t n_must;
	size_t need; /* still to be chosen */
	const char **ids;
	size_t n_ids;
};

/* Chooses the next free candidates of a unit. */
void choice_take(struct choice *choice, struct group *group, size_t count);

/* Chooses the remaining ids in the order of the groups. */
void choose_first(struct choice *choice);

/* Chooses the remaining ids from as few units as possible. Changes the order of the groups. */
void choose_packed(struct choice *choice);

/* --- preference-links.c --- */

/* Maximum number of units for this search, because of its time; above any host's. */
#define LINKED_UNITS_MAX 1024

/* Chooses the units that are closest to each other and to those that must be included. The groups
 * are in the order of units. Returns 0 or -ENOMEM. */
int choose_links(struct choice *choice, const struct snapshot *snapshot);
