/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * What must hold for every device, from any driver.
 */

#include "drivers/host/sysfs.h"
#include "drivers/model/device.h"

static inline void demand_device(const struct device *device)
{
	size_t length = strlen(device->id);

	if (length == 0 || length > DEVICE_ID_MAX)
		abort();
	for (size_t i = 0; i < device->n_nodes; i++)
		if (device->nodes[i].host[0] != '/' || device->nodes[i].path[0] != '/' ||
			(!device->nodes[i].mount && !device->nodes[i].permissions[0]))
			abort();
	for (size_t i = 0; i < device->n_variables; i++)
		if (!sysfs_is_text(device->variables[i].value))
			abort();
	for (size_t i = 1; i < device->n_numa; i++)
		if (device->numa[i] <= device->numa[i - 1])
			abort();
}
