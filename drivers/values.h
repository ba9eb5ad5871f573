/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * What the variables of a template stand for when they are about one device: the source that
 * health probes and allocation hand to template_expand().
 */

#include "drivers/device.h"

/* A sysfs attribute is one page at most. */
#define ATTRIBUTE_MAX 4096

struct device_values {
	const char *root;
	const struct device *device;
	size_t index; /* in the resource's list */
	unsigned replica;
	char buffer[ATTRIBUTE_MAX];
};

/* Value of a variable of the device (`userdata`: struct device_values), valid until the next call,
 * or NULL if it has none. */
const char *device_values_get(void *userdata, const char *variable);

/* Cuts white space off both ends, in place. Returns the first character that is left. */
char *trim(char *text);
