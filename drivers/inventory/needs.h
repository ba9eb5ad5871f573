/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Checks the host's part of an allocation: the nodes, mounts and CDI names of the device and of
 * `container`, and values for the variables of its templates. A device that lacks any of it gets a
 * problem (device_set_problem()), so that it is not offered as healthy and then refused. What is at
 * these paths, also at optional ones, is noted in the device (host_paths). The directories
 * concerned are watched with the scan, so that a change causes the next scan. A node
 * must be a character or block device; only where an administrator names the path may it be a
 * directory with such nodes, which stands for all of them. Paths and names are not checked where a
 * program runs at Allocate, because it may make them; nor are names of the resource's own CDI file.
 */

#include "drivers/host/node-state.h"
#include "drivers/host/scan-run.h"
#include "drivers/model/declaration.h"

/* What is at a path. */
struct needed_path {
	enum node_state state;
	uint64_t hash; /* of the state and the path without symbolic links */
};

/* The needs found in one scan: each path is read once for all devices that need it. */
struct needs {
	const struct declaration *declaration;
	struct scan *scan;
	struct map nodes, mounts; /* the paths that were read, to their places in `paths`, from 1 */
	struct strings names;
	struct needed_path *paths; /* one for each name */
};

/* Where a path is declared: the key, and the remedy if the host lacks the path. */
struct need_origin {
	const char *key, *remedy;
};

extern const struct need_origin need_of_match, need_of_nodes, need_of_mounts;

/* Whether a node of this origin can be used if the host has this at its path. */
bool need_is_met(const struct need_origin *origin, const struct declaration *declaration,
	enum node_state state);

/* Describes a need that is not met: "needs /dev/kfd, which is missing on the host: load its driver,
 * or correct match in the configuration". Returns 0 or -ENOMEM. */
int need_describe(
	const struct need_origin *origin, const char *path, enum node_state state, char **ret);

/* Checks the needs of a device at that place in the list, unless it has a problem already. Returns
 * 0 or -ENOMEM. */
int needs_check(struct needs *needs, struct device *device, size_t index);

/* --- needs-cdi.c --- */

/* Reads what is at a path, and watches it. A mount that is there has the state NODE_DEVICE. Returns
 * 0 or -ENOMEM. */
typedef int (*need_reader)(struct needs *needs, const char *path, bool mount, enum node_state *ret);

/* As needs_check(), for one CDI device ("vendor.example/class=device") that the device needs. */
int needs_check_cdi(struct needs *needs, struct device *device, const char *name, need_reader read);

void needs_done(struct needs *needs);
#define _cleanup_needs_ _cleanup_(needs_done)
