/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The hardware behind a resource's devices, as text: for each device that exists, or is excluded
 * but used by a pod, a line of its id and its claims, separated by tabs. A claim is the path of a
 * node that belongs to the device alone, with symbolic links resolved, or a name from the driver
 * (device_add_claim()). Two devices with a claim in common are the same hardware. A device without
 * claims has no line. The answer is a text of the same form: the id of a device that belongs to
 * another resource, and a text for people that begins with the name of that resource.
 */

#include "drivers/inventory/inventory.h"

/* Makes the text (malloc'ed). Returns 0 or -ENOMEM. */
int hardware_claims_text(const struct snapshot *snapshot, const char *root, char **ret);
