/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Chooses the devices of a resource for a container: on the NUMA nodes that the topology manager
 * found, and among these the ones that the plugin prefers.
 */

#include "kubelet/model.h"

enum choice_step {
	CHOICE_NOTHING,  /* nothing to allocate, no call */
	CHOICE_PREFER,   /* ask the plugin what it prefers, then choice_finish() */
	CHOICE_ALLOCATE, /* call Allocate for `taken` */
};

/* `available` begins with the devices reused from init containers. The devices on wanted nodes, on
 * other nodes, and without nodes follow; each group is in arbitrary order. */
struct choice {
	size_t required;
	char **available;
	size_t n_available;
	size_t n_offered; /* the first of `available` are sent to the plugin as candidates */
	size_t n_must;    /* the plugin must include the first of these, which are taken already */
	char **taken;     /* of `available` */
	size_t n_taken;
};

/* Begins the choice for a container that requests `required` devices, which may use those of
 * `reusable` again (NULL: none), on the nodes of `hint` (NULL: any). Returns enum choice_step, or
 * negative with the kubelet's error text. */
int choice_begin(struct model *model, const char *pod_uid, const char *container,
	const char *resource, size_t required, const struct id_set *reusable,
	const struct topology_hint *hint, struct choice *ret, struct error *error);

/* Completes a choice that was at CHOICE_PREFER: ids that are not available are ignored, missing
 * ones are added, and surplus ones are dropped. Marks the chosen devices as allocated. */
int choice_finish(struct model *model, const char *resource, struct choice *choice,
	char *const *preferred, size_t n_preferred, struct error *error);

void choice_done(struct choice *choice);
