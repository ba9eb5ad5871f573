/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The devices of one resource that the kubelet has booked for containers, by offered id. The ids
 * may be from another plugin or an earlier configuration, so they are kept in the kubelet's form:
 * any text of any length. One thread builds a list and sorts it; after that, the list is immutable
 * and shared by reference.
 */

#include <stdatomic.h>

#include "common/util.h"
#include "drivers/model/option.h"

/* More NUMA nodes than any host has. */
#define BOOKING_NUMA_MAX 65535

struct booking {
	char *id;
	int *numa; /* the NUMA nodes that the device had when it was booked, ascending */
	size_t n_numa;
	uint64_t allocated_at; /* CLOCK_MONOTONIC microseconds of the Allocate call that was
				  answered here; 0: known from the kubelet only */
};

/* An answer to Allocate that the kubelet stores, and replays whenever the container starts again:
 * the parts of it that may lead to another device some day. */
struct booked_answer {
	struct strings ids;    /* the offered ids that it is for */
	struct strings nodes;  /* host paths of device nodes, below /dev */
	struct strings values; /* variables and annotations: "NAME=value" */
};

struct bookings {
	atomic_uint references;
	struct booking *items; /* sorted by id (strcmp), each once */
	size_t count;
	struct booked_answer *answers; /* not merged, and not sent to other processes */
	size_t n_answers;
};

/* An empty list with one reference. Returns 0 or -ENOMEM. */
int bookings_new(struct bookings **ret);
struct bookings *bookings_ref(struct bookings *bookings);
struct bookings *bookings_unref(struct bookings *bookings);
DEFINE_CLEANUP(struct bookings *, bookings_unref)
#define _cleanup_bookings_ _cleanup_(bookings_unrefp)

/* Adds one, in any order; a node that is not in 0..BOOKING_NUMA_MAX is left out. Returns 0 or
 * -ENOMEM. */
int bookings_add(struct bookings *bookings, const char *id, const int *numa, size_t n_numa,
	uint64_t allocated_at);

/* Adds an answer with the nodes and values of `parts`, if there are any, for these ids, which it
 * takes. Returns 0 or -ENOMEM. */
int bookings_add_answer(
	struct bookings *bookings, struct strings *ids, const struct booked_answer *parts);
void booked_answer_done(struct booked_answer *answer);

/* Sorts the list, after the last bookings_add(). Entries with the same id are merged into one, with
 * the NUMA nodes of all and the latest time. Returns 0 or -ENOMEM. */
int bookings_sort(struct bookings *bookings);

/* Merges two lists, each of which may be NULL. Returns 0 or -ENOMEM. */
int bookings_merge(const struct bookings *a, const struct bookings *b, struct bookings **ret);

/* The booking with that id, or NULL; `bookings` may be NULL. */
const struct booking *bookings_find(const struct bookings *bookings, const char *id);

/* Whether the id, or any replica of the unit with that id, is booked; `bookings` may be NULL. */
bool bookings_have_unit(const struct bookings *bookings, const char *id);

/* Adds NUMA nodes to a booking; one that is not in 0..BOOKING_NUMA_MAX is left out. Returns 0 or
 * -ENOMEM. */
int booking_add_numa(struct booking *booking, const int *numa, size_t n_numa);

/* Whether the booking has these NUMA nodes. */
bool booking_has_numa(const struct booking *booking, const int *numa, size_t n_numa);

/* Writes the list as text for another process: "NODES<TAB>ID" with a NUL behind each, NODES being
 * numbers separated by commas. Returns 0 or -ENOMEM. */
int bookings_write(const struct bookings *bookings, char **ret_text, size_t *ret_size);

/* A hash of such a text and of the answers, never 0. */
uint64_t bookings_hash(const struct bookings *bookings, const char *text, size_t size);

/* Reads such a text, which is not trusted. Returns 0, -EBADMSG or -ENOMEM. */
int bookings_read(const char *text, size_t size, struct bookings **ret);
