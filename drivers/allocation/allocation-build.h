/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * One request in progress: its units, the parts collected for them, and the current values of
 * template variables.
 */

#include "drivers/host/device-values.h"
#include "drivers/inventory/inventory.h"
#include "drivers/model/template.h"

struct allocation;
struct allocation_answers;

struct chosen {
	size_t unit;
	unsigned replica;
};

/* A node or mount, and the device or program that adds it. If both are NULL, every container of the
 * resource gets it. */
struct wanted {
	struct device_node node;
	const char *device_id;
	const char *program;
};

/* With a CDI file, the device's part is in that file, and the rest in the answer. */
enum build_part { BUILD_WHOLE, BUILD_DEVICE, BUILD_REST };

struct build {
	enum build_part part;
	const struct declaration *declaration;
	const struct snapshot *snapshot;
	const char *root;
	const struct allocation_answers *answers; /* or NULL */
	bool claim, admin, in_use;                /* as in the answers */
	struct error *error;
	struct chosen *chosen; /* offered ids in the order of the snapshot */
	size_t n_chosen;
	const struct device **devices; /* of the physical units, each once */
	size_t n_devices;
	struct wanted *wanted;
	size_t n_wanted;
	struct device_values values; /* of the device in hand */
	struct template_context context;
};

/* Collects the results of a list of templates; `device_id` is NULL for templates that are expanded
 * once. */
typedef int (*collect_function)(
	struct build *build, const void *item, const char *device_id, void *target);

/* Calls a function for each device, with its values set, or once without any. */
int build_for_devices(struct build *build, bool per_device, collect_function collect,
	const void *item, void *target);

/* Expands a template with the values at hand. */
int build_expand(struct build *build, const char *text, char **ret);

/* Whether this part is built now, depending on whether it belongs to a single device. */
static inline bool build_wants(const struct build *build, bool of_device)
{
	return build->part == BUILD_WHOLE || (build->part == BUILD_DEVICE) == of_device;
}

int build_out_of_memory(struct build *build);

/* Finds the units behind offered ids. Errors are as in allocation_build(). */
int build_choose(struct build *build, const char *const *ids, size_t n_ids);

void build_done(struct build *build);
#define _cleanup_build_ _cleanup_(build_done)

/* --- allocation.c --- */

/* A request for which nothing is collected yet. `answers` may be NULL. */
struct build build_begin(enum build_part part, const struct declaration *declaration,
	const struct snapshot *snapshot, const char *root, const struct allocation_answers *answers,
	struct error *error);

/* Builds all parts for the chosen units. */
int build_allocation(struct build *build, struct allocation *ret);

/* --- allocation-nodes.c --- */

/* Collects nodes and mounts, sorts them and merges duplicates. */
int build_nodes(struct build *build, struct allocation *allocation);
