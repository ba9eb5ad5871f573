/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Keeps hardware that several resources offer with overlap = "exclusive" in use by one device of
 * them at a time. Two devices exclude each other if they have a claim in common, or one is a part
 * of the other (device_add_container()); two parts of one device do not. A device is in use if it
 * is booked, or was allocated just now. The table of who uses what is made again for each decision.
 */

#include "supervisor/ownership/decision.h"

/* Adds to the results why devices are unhealthy because their hardware is in use: "in use as
 * vendor.example/gpu by default/a". A device that is in use itself is not. Returns 0 or -ENOMEM. */
int exclusive_decide(struct decision *decisions, size_t n);

/* Whether the devices of `decision`, which is one of them, could be used together. `ids`: a map
 * with their ids as keys; a device that is not known excludes nothing. Returns 0, -EBUSY with the
 * error filled, or -ENOMEM. */
struct map;
int exclusive_check(const struct decision *decisions, size_t n, const struct decision *decision,
	const struct map *ids, struct error *error);
