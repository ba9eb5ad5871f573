/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Chooses the preferred devices for a container. Pure, bounded, and never fails: an invalid request
 * gets an empty answer, because the kubelet leaks devices on an error (kubernetes#130172).
 */

#include "drivers/inventory/inventory.h"

/* Chooses `size` of the available ids by the declaration's preference, all of `must` among them,
 * and devices that are not healthy last. With PREFER_NONE the kubelet chooses, unless a device is
 * not healthy: then it is named last here, too. `ret` has room for `size` pointers, which point
 * into `available` or `must`. Returns how many were chosen: `size`, or 0 if the kubelet chooses or
 * the request cannot be met (size above the number of available ids, must not part of available,
 * unknown ids). */
size_t preference_choose(const struct declaration *declaration, const struct snapshot *snapshot,
	const char *const *available, size_t n_available, const char *const *must, size_t n_must,
	size_t size, const char **ret);
