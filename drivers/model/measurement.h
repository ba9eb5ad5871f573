/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Numbers that a driver measures of its devices, for metrics. They are not part of a device,
 * because a device does not change when its temperature does. No decision depends on them.
 */

#include "drivers/model/device.h"

struct measurement {
	char device[DEVICE_ID_MAX + 1];
	const char *name; /* a literal; exporter/families.c has the metric */
	unsigned code;    /* number of an error, if there are several of the name; else 0 */
	uint64_t value;
};

/* By device, then by name. */
struct measurements {
	struct measurement *items;
	size_t count;
};
