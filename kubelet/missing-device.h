/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * What a kubelet does about a device that it has booked and that the plugin does not list. From
 * 1.34 on its table holds pointers, and searching for the device panics; before, it finds a device
 * without topology (pkg/kubelet/cm/devicemanager: generateDeviceTopologyHints(),
 * allocateContainerResources()).
 */

#include "kubelet/model.h"

/* Searches for all of them. Returns 0, or -EFAULT with a message that names the first missing one
 * and the kubelet's `function`, if that ends a kubelet of this release. */
int missing_device_check(const struct model *model, const struct resource *resource,
	const struct id_set *ids, const char *function, struct error *error);
