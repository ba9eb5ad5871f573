/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Inside of config: the checks of all resources together, how many there are and what two of them
 * may not both have.
 */

#include "configuration/config.h"

/* Checks config->declared. Of a resource that has a problem of its own (driver is NULL) only the
 * name is checked. `whole`: with the keys beside the resources, which the text of one resource
 * lacks. Adds to the report. Returns 0, -EINVAL or -ENOMEM. */
int config_check(const struct config *config, bool whole, struct report *report);
