/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Which container has which device, joined with the devices of a resource, and the numbers that a
 * node shows: offered ids, healthy ones, those in use, and those that are free.
 */

#include <jansson.h>

#include "common/util.h"

/* Adds "pods" and "booked" to each device of a resource, "claims" if it is served by DRA, and
 * "offered", "healthy", "in_use" and "free" to the resource. `found`: the resource in the daemon's
 * answer, whose "assigned", "booked" and "claims" list which container has which device, what only
 * the kubelet's checkpoint has, and what is prepared. If that is not `known`, "in_use" and "free"
 * are null. */
void holders_join(json_t *resource, const json_t *found, bool known);

/* Leaves only the devices that the pod "NAMESPACE/NAME" has. Returns how many. */
size_t holders_select_pod(json_t *resource, const char *pod);

/* "default/p1/main, default/p2/main (2)", where the number is that of the ids that a container has,
 * with " (claim default/c)" if it is prepared for a claim; that alone if no pod is known; the text
 * for a device that only the checkpoint assigns; "free"; or "-" if it is not known (malloc'ed). */
char *holders_describe(const json_t *resource, const json_t *device);

/* The two pods, as "a/b and c/d", that have the same offered id, which a kubelet must never do
 * (malloc'ed); NULL: there are none. */
char *holders_find_conflict(const json_t *device);
