/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * What hardware is behind a resource's devices, as text: for each device that is there a line of
 * its id and its claims, with tabs between. A claim is the path of a node that is the device's own,
 * behind symbolic links, or what a driver names (device_add_claim()). Two devices with a claim in
 * common are the same hardware. Answered with a text of the same form: the id of a device that
 * belongs to another resource, and the name of that.
 */

#include "drivers/inventory.h"

/* Makes the text (malloc'ed). Returns 0 or -ENOMEM. */
int claims_text(const struct snapshot *snapshot, const char *root, char **ret);
