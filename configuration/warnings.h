/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Warns about configurations that are valid but cannot work, on this host or at all. They are
 * accepted, because a program, a user or a device may be added later; --check prints warnings.
 */

#include "configuration/config.h"

/* Adds a warning for each program or user that does not exist, pattern that matches only itself,
 * pair of mounts at one path, name that two resources give to different things, probe of a file
 * that does not exist for any device, and kind of CDI or name of a DRA driver that another program
 * has. Returns 0 or -ENOMEM. */
int config_warnings(const struct config *config, struct report *report);
