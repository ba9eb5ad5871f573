/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The changes that a new configuration makes: one line for each resource and each key of the daemon
 * that changes, and one for all resources that do not. The daemon logs these lines when it reloads,
 * and the tools print the same ones.
 */

#include "configuration/config.h"

struct plan_line {
	char *text; /* "~ change vendor.example/gpu: share, health" */
	char *name; /* of the resource, NULL: a key of the daemon, or all that stay */
};

struct plan {
	struct plan_line *lines; /* the daemon's keys, resources in the new file's order,
				    removed ones, and those that stay */
	size_t count;
	size_t n_changes; /* number of lines that describe a change */
};

/* Compares the applied configuration (NULL: none) with the new one. Returns 0 or -ENOMEM. */
int plan_make(const struct config *from, const struct config *to, struct plan *ret);

/* Checks that a daemon can change from one to the other without a restart. It cannot change its
 * runtime_dir, which contains its state, its control socket and the last accepted configuration.
 * Returns 0, or -EINVAL with a report entry for `file`. */
int plan_check_kept(const struct config *from, const struct config *to, const char *file,
	struct report *report);

void plan_done(struct plan *plan);
#define _cleanup_plan_ _cleanup_(plan_done)
