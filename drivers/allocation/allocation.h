/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Decides what a container gets with its allocated devices: pure functions of a snapshot and a
 * declaration, safe on any thread. Nodes and mounts are sorted by path in the container, and each
 * appears once. If two devices need different things at one path, that is an error with this
 * reason.
 */

#include "drivers/inventory/inventory.h"
#include "drivers/model/claim-values.h"

/* Maximum size of a variable with its name, "=" and the end of the string: the kernel starts no
 * program with a longer one (MAX_ARG_STRLEN, 32 pages of 4 KiB). */
#define VARIABLE_MAX (128U << 10)

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

/* A program's additions, see allocation-inquiry.h: nodes, mounts, variables, annotations and CDI
 * names, which count like those of one more device. */
struct allocation_answer {
	const char *program; /* its path */
	const struct device *edits;
};

struct allocation_answers {
	struct allocation_answer *items;
	size_t count;
	struct claim_values values; /* of the claim */
	bool claim; /* the edits go into the CDI file of a claim: symbolic links are resolved, and a
		     * failed probe or a cordon is ignored, because the scheduler has decided */
	bool admin; /* the claim has admin access: what others use is ignored, too */
	bool in_use; /* a container has the ids already: health is ignored */
};

/* Builds the edits for the offered ids; `answers` NULL: no program was run. Errors name the device,
 * the fault and the remedy, because the pod shows the text: -ENOENT (unknown id, or a required node
 * is missing), -EIO (unhealthy), -EINVAL (no ids, an id twice, over share.max_per_container),
 * -EEXIST (conflict), -E2BIG (over VARIABLE_MAX), -ENOMEM. */
int allocation_build(const struct declaration *declaration, const struct snapshot *snapshot,
	const char *root, const char *const *ids, size_t n_ids,
	const struct allocation_answers *answers, struct allocation *ret, struct error *error);

/* Records that the devices of these offered ids were allocated. To be called once the answer to the
 * call is complete. */
void allocation_note(const struct snapshot *snapshot, const char *const *ids, size_t n_ids);

/* The edits that belong to one device alone, independent of other devices of a container, and that
 * a CDI file can express: the edits of its CDI device. Health is ignored. A device node has the
 * path with symbolic links resolved. Errors are -ENOENT (a required node is missing), -EEXIST,
 * -ENOMEM. */
int allocation_build_device(const struct declaration *declaration, const struct snapshot *snapshot,
	const char *root, size_t unit, struct allocation *ret, struct error *error);

/* As allocation_build(), for a resource with a CDI file: uses names instead of the edits that the
 * file contains. Fails where allocation_build() would. */
int allocation_build_cdi(const struct declaration *declaration, const struct snapshot *snapshot,
	const char *root, const char *const *ids, size_t n_ids,
	const struct allocation_answers *answers, struct allocation *ret, struct error *error);

/* Where a container finds the metadata of a resource's devices: in a directory for each resource,
 * with "_" for "/", below this one. Returns 0 or -ENOMEM. */
#define METADATA_DIRECTORY "/run/devplugd/devices/"
int allocation_metadata_path(const char *resource, char **ret);

/* Adds the mount of a file of the host there. Returns 0, or -EEXIST (the container gets something
 * else at that path) or -ENOMEM with the error filled. */
int allocation_add_metadata(
	struct allocation *allocation, const char *resource, const char *host, struct error *error);

/* Whether the edits change nothing in a container. */
bool allocation_is_empty(const struct allocation *allocation);

void allocation_done(struct allocation *allocation);
#define _cleanup_allocation_ _cleanup_(allocation_done)
