/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Which devices of a resource a container gets: those on the NUMA nodes that the topology manager
 * found, and of them those that the plugin prefers.
 */

#include "kubelet/model.h"

enum choice_step {
	CHOICE_NOTHING,  /* nothing to allocate, no call */
	CHOICE_PREFER,   /* ask the plugin what it prefers, then choice_finish() */
	CHOICE_ALLOCATE, /* call Allocate for `taken` */
};

/* `available` begins with what is reused from init containers; then come the devices on the nodes
 * wanted, those on other nodes, those without nodes, each in arbitrary order. */
struct choice {
	size_t required;
	char **available;
	size_t n_available;
	size_t n_offered; /* the first of `available`: the candidates that are sent to the plugin */
	size_t n_must;    /* the first of them, which it must include; they are taken already */
	char **taken;     /* of `available` */
	size_t n_taken;
};

/* Begins the choice for a container that requests `required` devices, which may use those of
 * `reusable` again (NULL: none), on the nodes of `hint` (NULL: any). Returns enum choice_step, or
 * negative with the kubelet's words. */
int choice_begin(struct model *model, const char *pod_uid, const char *container,
	const char *resource, size_t required, const struct id_set *reusable,
	const struct topology_hint *hint, struct choice *ret, struct error *error);

/* Completes a choice that was at CHOICE_PREFER: ids that are not available are ignored, too few are
 * filled up, of too many some are used. Marks what it takes as allocated. */
int choice_finish(struct model *model, const char *resource, struct choice *choice,
	char *const *preferred, size_t n_preferred, struct error *error);

void choice_done(struct choice *choice);
