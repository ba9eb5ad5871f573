/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * What devices have of capacities: those that the resource declares, and others that its driver
 * knows. A scan adds them to the devices as variables (CAPACITY_VARIABLE).
 */

#include "drivers/host/scan.h"
#include "drivers/model/capacity.h"

/* Adds the variables. A device whose declared capacity is unknown or breaks a rule is explained
 * (scan_explain()). Returns 0 or a shortage (sysroot.h). */
int published_capacity_add(const struct declaration *declaration, struct scan *scan);

/* Whether claims share the device by amount: it has all declared capacities, and each of them
 * keeps the rules. */
bool published_capacity_is_shared(
	const struct declaration *declaration, const struct device *device);

typedef void (*published_capacity_handler)(
	const char *name, const struct capacity *capacity, void *userdata);

/* Calls the handler for each capacity that DRA publishes. A device that is not shared by amount has
 * capacities without rules. */
void published_capacity_each(const struct declaration *declaration, const struct device *device,
	published_capacity_handler handler, void *userdata);
