/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Compares the devices of a resource with the key `expect`, and has the supervisor keep the last
 * complete list of them.
 */

#include "common/control-child.h"
#include "common/json-write.h"
#include "drivers/inventory/complete-list.h"

struct expecting {
	struct complete_list last;
	struct expectation now; /* count 0: not compared yet, or nothing is expected */
	char *logged;           /* the reason that was logged last; NULL: none */
};

/* The supervisor's copy of what an earlier process sent, CHILD_LAST_COMPLETE. */
void expecting_take(struct expecting *expecting, int fd);

/* Compares the snapshot, whose devices have known owners, and logs a change. `match`: of the
 * declaration, see match_fingerprint_whole(). A new complete list is sent. */
void expecting_update(struct expecting *expecting, sd_event *event,
	const struct declaration *declaration, uint64_t match, const struct snapshot *snapshot);

/* Writes the member "expect" of the document of devices; nothing if nothing is expected. */
void expecting_write(const struct expecting *expecting, struct json_writer *writer,
	const struct declaration *declaration);

void expecting_done(struct expecting *expecting);
