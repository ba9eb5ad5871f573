/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Two things with the same path in a container, which cannot get both: Allocate refuses it, and
 * --check warns before, as far as paths are known without a scan.
 */

#include "drivers/model/declaration.h"

/* Adds a warning for each entry of `container.mounts` and `container.nodes`, and each path of a
 * match entry, whose path in the container something else already has. Returns 0 or -ENOMEM. */
int same_path_warnings(const struct declaration *declaration, struct report *report);
