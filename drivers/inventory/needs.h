/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Checks the host's part of an allocation: the nodes, mounts and CDI names of the device and of
 * `container`, and values for the variables of its templates. A device that lacks any of it gets a
 * problem (device_set_problem()), so that it is not offered as healthy and then refused. The
 * directories concerned are watched with the scan, so that a change causes the next scan. Paths and
 * names are not checked where a program runs at Allocate, because it may make them; nor are names
 * of the resource's own CDI file.
 */

#include "drivers/host/cdi-lookup.h"
#include "drivers/host/scan-run.h"
#include "drivers/model/declaration.h"

/* The needs found in one scan: each path is read once for all devices that need it. */
struct needs {
	const struct declaration *declaration;
	struct scan *scan;
	struct map paths; /* the paths that were read; the value is private */
	struct strings names;
	struct cdi_files cdi;
};

/* Checks the needs of a device at that place in the list, unless it has a problem already. Returns
 * 0 or -ENOMEM. */
int needs_check(struct needs *needs, struct device *device, size_t index);

/* --- needs-cdi.c --- */

/* As needs_check(), for one CDI device ("vendor.example/class=device") that the device needs.
 * `has_path` returns 1 if the host has the path, 0 if not, or -ENOMEM. */
int needs_check_cdi(struct needs *needs, struct device *device, const char *name,
	int (*has_path)(struct needs *needs, const char *path));

void needs_done(struct needs *needs);
#define _cleanup_needs_ _cleanup_(needs_done)
