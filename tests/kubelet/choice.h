/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Which devices of a resource a container gets. No topology policy is in force, so the plugin's
 * preference is the only thing that makes one device better than another.
 */

#include "model.h"

enum choice_step {
	CHOICE_NOTHING,  /* nothing to allocate, no call */
	CHOICE_PREFER,   /* ask the plugin what it prefers of `available`, then choice_finish() */
	CHOICE_ALLOCATE, /* call Allocate for `taken` */
};

struct choice {
	size_t required;
	char **available; /* those that are reused first, the others in arbitrary order */
	size_t n_available;
	size_t n_reused; /* of init containers of the pod; they must be included */
	char **taken;    /* of `available` */
	size_t n_taken;
};

/* Begins the choice for a container that requests `required` devices, which may use those of
 * `reusable` again (NULL: none). Returns enum choice_step, or negative with the kubelet's words. */
int choice_begin(struct model *model, const char *pod_uid, const char *container,
	const char *resource, size_t required, const struct id_set *reusable, struct choice *ret,
	struct error *error);

/* Completes a choice that was at CHOICE_PREFER: ids that are not available are ignored, too few are
 * filled up, of too many some are used. Marks what it takes as allocated. */
int choice_finish(struct model *model, const char *resource, struct choice *choice,
	char *const *preferred, size_t n_preferred, struct error *error);

void choice_done(struct choice *choice);
