/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The checks that look at all resources together: how many, and what two of them may not both have.
 */

#include "config/config.h"

/* Checks config->declared. Of a resource that has a problem of its own (driver is NULL) only the
 * name is looked at. Adds to the report. Returns 0, -EINVAL or -ENOMEM. */
int config_check(const struct config *config, struct report *report);
