/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The devices of one resource that the kubelet has booked for containers, by offered id, and by
 * which way: the device plugin, or a claim of DRA. The ids may be from another plugin or an earlier
 * configuration, so they are kept in the kubelet's form: any text of any length. One thread builds
 * a list and sorts it; after that, the list is immutable and shared by reference.
 */

#include <stdatomic.h>

#include "common/util.h"
#include "drivers/model/option.h"

/* More NUMA nodes than any host has. */
#define BOOKING_NUMA_MAX 65535

/* How a device is booked; an id may have several. The kubelet's data contain bookings of pods that
 * have ended, too. */
#define BOOKED_BY_PLUGIN 1U /* for the device plugin, in the kubelet's data */
#define BOOKED_FOR_POD   2U /* the same, and its pod may still use it */
#define BOOKED_BY_CLAIM  4U
#define BOOKED_BY_ADMIN  8U /* by a claim with admin access, which others do not notice */
#define BOOKED_IN_PLUGIN (BOOKED_BY_PLUGIN | BOOKED_FOR_POD)
#define BOOKED_IN_DRA    (BOOKED_BY_CLAIM | BOOKED_BY_ADMIN)
/* No other pod may get the device. */
#define BOOKED_ALONE (BOOKED_FOR_POD | BOOKED_BY_CLAIM)
#define BOOKED_EVER  (BOOKED_IN_PLUGIN | BOOKED_IN_DRA)

struct booking {
	char *id;
	unsigned uses; /* BOOKED_*, at least one */
	int *numa;     /* the NUMA nodes that the device had when it was booked, ascending */
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
	char *metadata;        /* the host's path of the file that METADATA_DIRECTORY has for the
				  resource; NULL: none. Not kept in bookings */
	bool follows;          /* it is the CDI file of a claim, which is written again when its
				  devices change, as long as none of them is missing */
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
int bookings_add(struct bookings *bookings, const char *id, unsigned uses, const int *numa,
	size_t n_numa, uint64_t allocated_at);

/* Adds an answer with the nodes and values of `parts`, if there are any, for these ids, which it
 * takes. Returns 0 or -ENOMEM. */
int bookings_add_answer(
	struct bookings *bookings, struct strings *ids, const struct booked_answer *parts);
void booked_answer_done(struct booked_answer *answer);

/* Sorts the list, after the last bookings_add(). Entries with the same id are merged into one, with
 * the uses and NUMA nodes of all and the latest time. Returns 0 or -ENOMEM. */
int bookings_sort(struct bookings *bookings);

/* Merges two lists, each of which may be NULL. Returns 0 or -ENOMEM. */
int bookings_merge(const struct bookings *a, const struct bookings *b, struct bookings **ret);

/* Copies the bookings that have one of `uses` and none of `but_for`, without answers. `bookings`
 * may be NULL. Returns 0 or -ENOMEM. */
int bookings_select(
	const struct bookings *bookings, unsigned uses, unsigned but_for, struct bookings **ret);

/* Whether any booking has one of these uses; `bookings` may be NULL. */
bool bookings_have_use(const struct bookings *bookings, unsigned uses);

/* The booking with that id, or NULL; `bookings` may be NULL. */
const struct booking *bookings_find(const struct bookings *bookings, const char *id);

/* Whether the id, or any replica of the unit with that id, is booked with one of `uses`; `bookings`
 * may be NULL. */
bool bookings_have_unit(const struct bookings *bookings, const char *id, unsigned uses);

/* Adds NUMA nodes to a booking; one that is not in 0..BOOKING_NUMA_MAX is left out. Returns 0 or
 * -ENOMEM. */
int booking_add_numa(struct booking *booking, const int *numa, size_t n_numa);

/* Whether the booking has these NUMA nodes. */
bool booking_has_numa(const struct booking *booking, const int *numa, size_t n_numa);

/* Writes the list as text for another process: "USES NODES<TAB>ID" with a NUL behind each, USES
 * being a hexadecimal digit and NODES numbers separated by commas. Returns 0 or -ENOMEM. */
int bookings_write(const struct bookings *bookings, char **ret_text, size_t *ret_size);

/* A hash of such a text and of the answers, never 0. */
uint64_t bookings_hash(const struct bookings *bookings, const char *text, size_t size);

/* Reads such a text, which is not trusted. Returns 0, -EBADMSG or -ENOMEM. */
int bookings_read(const char *text, size_t size, struct bookings **ret);
