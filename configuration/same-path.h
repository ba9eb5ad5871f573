/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Finds two nodes or mounts with the same path in a container, which cannot get both. Allocate
 * refuses such a container; --check warns earlier, as far as paths are known without a scan.
 */

#include "drivers/model/declaration.h"

/* Adds a warning for each entry of `container.mounts` and `container.nodes`, and each path of a
 * match entry, whose path in the container is already used. Returns 0 or -ENOMEM. */
int same_path_warnings(const struct declaration *declaration, struct report *report);

/* Visits each path in a container that is known without a device. `host` is NULL if the path on the
 * host is not known. Returns 0, -ENOMEM, or what the visitor returns below 0. */
typedef int (*same_path_visitor)(const char *key, const struct origin *origin, const char *host,
	const char *path, void *userdata);
int same_path_visit(
	const struct declaration *declaration, same_path_visitor visitor, void *userdata);
