/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * What the variables of a template stand for when they are about one device: the source that
 * health probes and allocation hand to template_expand().
 */

#include "drivers/sysfs.h"

struct device_values {
	const char *root;
	const struct device *device;
	size_t index; /* in the resource's list */
	unsigned replica;
	size_t position; /* among what the container is given */
	char buffer[SYSFS_VALUE_MAX + 1];
};

/* Value of a variable of the device (`userdata`: struct device_values), valid until the next call,
 * or NULL if it has none. */
const char *device_values_get(void *userdata, const char *variable);

/* Cuts white space off both ends, in place. Returns the first character that is left. */
char *trim(char *text);
