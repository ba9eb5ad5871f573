/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The hardware behind a resource's devices, as text: for each device that exists, or is excluded
 * but used by a pod, a line of its id and its claims, separated by tabs. A claim is the path of a
 * node that belongs to the device alone, with symbolic links resolved, or a name from the driver
 * (device_add_claim()). Two devices with a claim in common are the same hardware.
 *
 * Further entries of a line are marks, which begin with one of the characters below. They describe
 * what a container gets with the device, so that the supervisor finds out which answers to Allocate
 * are outdated (supervisor/ownership/replayed.h). A line with an empty id has the marks of what
 * containers get with any device. A device without any entry has no line.
 *
 * The answer is a text of the same form: the id of a device, and the resource that it belongs to
 * or, behind OWNERS_STALE, why it is unhealthy because of an outdated answer, or, behind
 * OWNERS_IN_USE, by whom its hardware is in use under another name. MARK_CONTAINER (device.h) is
 * another mark.
 */

#include "drivers/inventory/inventory.h"
#include "drivers/model/declaration.h"

#define MARK_OPTIONAL '?' /* a claim, too: a node that the device may lack */
#define MARK_NODE     '+' /* a node from the configuration, or one that devices share */
#define MARK_VALUE    '$' /* NAME=value: part of a variable's or annotation's list of values */
#define MARK_WHOLE    '%' /* NAME=value: the whole value, if a container has no other device */
#define MARK_LINK     '@' /* the link that leads to a node: when udev moves it, the text changes */
#define OWNERS_STALE  '!'
#define OWNERS_IN_USE '&'

/* Whether the entry is a claim, and nothing else. */
static inline bool is_plain_claim(const char *entry)
{
	return *entry != MARK_OPTIONAL && *entry != MARK_NODE && *entry != MARK_VALUE &&
		*entry != MARK_WHOLE && *entry != MARK_LINK && *entry != MARK_CONTAINER;
}

/* Makes the text (malloc'ed). Returns 0 or -ENOMEM. */
int hardware_claims_text(const struct declaration *declaration, const struct snapshot *snapshot,
	const char *root, char **ret);
