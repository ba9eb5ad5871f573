/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The devices that a resource had when it last had as many as `expect`, and what lacks compared
 * with it. Only the devices of the host count: not replicas (`share`), nor devices that belong to
 * another resource. Each device that a driver makes of a part of another, such as a MIG instance,
 * counts. The list is a JSON document, which the process of the resource makes and the supervisor
 * saves:
 *
 *   { "match": HASH, "devices": [ID, ...] }
 */

#include "common/error.h"
#include "drivers/inventory/inventory.h"

/* Maximum size of the document; it has EXPECT_MAX devices at most. */
#define COMPLETE_LIST_SIZE_MAX (8U << 20)

struct complete_list {
	uint64_t match;     /* match_fingerprint_whole() of the declaration that found
			     * them */
	struct strings ids; /* sorted; none: there was no complete list */
};

/* Reads and checks a document; the ids are valid and each is there once. Returns 0, -EBADMSG or
 * -ENOMEM. */
int complete_list_read(const char *text, size_t size, struct complete_list *ret);

/* Writes the document at the descriptor's position. Returns 0 or negative errno. */
int complete_list_write(const struct complete_list *list, int fd);

bool complete_list_equal(const struct complete_list *a, const struct complete_list *b);
void complete_list_done(struct complete_list *list);
#define _cleanup_complete_list_ _cleanup_(complete_list_done)

/* What the devices that were found last are in comparison. */
struct expectation {
	uint64_t count; /* `expect`; 0: nothing is expected */
	uint64_t found;
	bool compared;          /* there was a complete list to compare with */
	struct strings missing; /* of that list; sorted */
	struct strings extra;   /* not in that list, although it has all devices; sorted */
	char *reason;           /* for people: what lacks; NULL if there are as many as expected */
};

/* The ids of a snapshot's devices that count, sorted. Returns 0 or -ENOMEM. */
int expectation_found(const struct snapshot *snapshot, struct strings *ret);

/* Compares. A list with another number of devices is of an earlier configuration, and is not
 * compared with; `last` may be empty. Returns 0 or -ENOMEM. */
int expectation_new(uint64_t count, const struct strings *found, const struct complete_list *last,
	struct expectation *ret);

void expectation_done(struct expectation *expectation);
#define _cleanup_expectation_ _cleanup_(expectation_done)
