/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Adds to a resource which containers use its devices, and the numbers that a node shows: offered,
 * healthy, used and free ids. The daemon decides it (supervisor/books/pod-assignments.c).
 */

#include <jansson.h>

#include "common/util.h"

/* Adds "pods" and "booked" to each device of a resource, "claims" if it is served by DRA, and
 * "offered", "healthy", "in_use" and "free" to the resource. `found`: the resource in the daemon's
 * answer, whose "assigned", "booked" and "claims" list the devices of containers, devices that only
 * the kubelet's checkpoint assigns, and prepared devices. If these are not `known`, "in_use" and
 * "free" are null. */
void usage_join(json_t *resource, const json_t *found, bool known);

/* Keeps only the devices of the pod "NAMESPACE/NAME". Returns how many. */
size_t usage_select_pod(json_t *resource, const char *pod);

/* Whether a pod or claim takes the device, as those with admin access do not. */
bool usage_is_taken(const json_t *device);

/* "default/p1/main, default/p2/main (2)", where the number counts the ids of a container, with "
 * (claim default/c)" if it is prepared for a claim; only the claim if no pod is known; empty
 * without both (malloc'ed). */
char *usage_name_holders(const json_t *device);

/* The same for a table: "free" if nothing takes the device, with "free, " before those with admin
 * access; the text for a device that only the checkpoint assigns; or "-" if it is not known
 * (malloc'ed). */
char *usage_describe(const json_t *resource, const json_t *device);

/* Two pods with the same offered id, as "a/b and c/d" (malloc'ed); a kubelet must never assign one
 * twice. NULL: there are none. */
char *usage_find_conflict(const json_t *device);
