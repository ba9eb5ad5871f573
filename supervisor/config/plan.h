/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * What taking a configuration into force changes: one line per resource and per key of the daemon's
 * own. The daemon logs these lines when it reloads, and the tools print them, from here.
 */

#include "config/config.h"

struct plan_line {
	char *text; /* "~ change vendor.example/gpu: share, health" */
	char *name; /* of the resource, NULL: it is about a key of the daemon's own */
};

struct plan {
	struct plan_line *lines; /* the daemon's keys, resources in the new file's order, and those
				  * that go */
	size_t count;
	size_t n_changes; /* of the lines, how many say that something changes */
};

/* Compares what is in force (NULL: nothing) with what is to be. Returns 0 or -ENOMEM. */
int plan_make(const struct config *from, const struct config *to, struct plan *ret);

void plan_done(struct plan *plan);
#define _cleanup_plan_ _cleanup_(plan_done)
