/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * What a container is given for the devices it was allocated: pure functions of a snapshot and a
 * declaration, safe on any thread. Nodes and mounts are sorted by path in the container and each is
 * there once; two devices that want different things at one path are an error that says so.
 */

#include "drivers/inventory.h"

struct pair {
	char *name;
	char *value;
};

struct allocation {
	struct device_node *nodes; /* nodes and mounts */
	size_t n_nodes;
	struct pair *env;
	size_t n_env;
	struct pair *annotations;
	size_t n_annotations;
	char **cdi;
	size_t n_cdi;
};

/* What a program adds to that, see allocation-inquiry.h: nodes, mounts, variables, annotations and
 * CDI names, which count like those of one more device. */
struct allocation_answer {
	const char *program; /* its path */
	const struct device *edits;
};

struct allocation_answers {
	struct allocation_answer *items;
	size_t count;
};

/* Builds the edits for the offered ids; `answers` NULL: no program was asked. Errors name the
 * device, what is wrong and what to do, because the text is what the pod shows: -ENOENT (unknown
 * id, or a required node is missing), -EIO (unhealthy), -EINVAL (no ids, an id twice, over
 * share.max_per_container), -EEXIST (conflict), -ENOMEM. */
int allocation_build(const struct declaration *declaration, const struct snapshot *snapshot,
	const char *root, const char *const *ids, size_t n_ids,
	const struct allocation_answers *answers, struct allocation *ret, struct error *error);

/* What of that belongs to one device alone, whatever else a container is given, and can be said in
 * a CDI file: the edits of its CDI device. Its health is not looked at. A device node has the path
 * behind symbolic links. Errors are -ENOENT (a required node is missing), -EEXIST, -ENOMEM. */
int allocation_build_device(const struct declaration *declaration, const struct snapshot *snapshot,
	const char *root, size_t unit, struct allocation *ret, struct error *error);

/* The same as allocation_build() for a resource with a CDI file: names in place of what the file
 * has, all else as it is. Fails where allocation_build() would. */
int allocation_build_cdi(const struct declaration *declaration, const struct snapshot *snapshot,
	const char *root, const char *const *ids, size_t n_ids,
	const struct allocation_answers *answers, struct allocation *ret, struct error *error);

/* Whether a container would notice nothing of it. */
bool allocation_is_empty(const struct allocation *allocation);

void allocation_done(struct allocation *allocation);
#define _cleanup_allocation_ _cleanup_(allocation_done)
