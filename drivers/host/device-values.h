/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The values of template variables that belong to one device: the source that health probes and
 * allocation pass to template_expand().
 */

#include "drivers/host/sysfs.h"
#include "drivers/model/capacity.h"

struct device_values {
	const char *root;
	const struct device *device;
	size_t index; /* in the resource's list */
	unsigned replica;
	size_t position;               /* among the container's devices */
	const struct amounts *amounts; /* that the container gets; NULL: all */
	bool busy; /* set if an attribute could not be read because the kernel has locked it */
	char buffer[SYSFS_VALUE_MAX + 1];
};

/* Value of a variable of the device (`userdata`: struct device_values), valid until the next call,
 * or NULL if it has none. */
const char *device_values_get(void *userdata, const char *variable);
