/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Inside of config: the checks of all resources together: their number, and names and devices that
 * two resources may not share.
 */

#include "configuration/config.h"

/* Checks config->declared. If a resource has a problem of its own (driver is NULL), only its name
 * is checked. `whole`: also checks the keys of the daemon, which the text of one resource lacks.
 * Adds to the report. Returns 0, -EINVAL or -ENOMEM. */
int config_check(const struct config *config, bool whole, struct report *report);
