/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * How a kubelet treats a booked device that the plugin does not list. From 1.34 on, its table
 * contains pointers, and the search for the device panics; earlier releases find a device without
 * topology (pkg/kubelet/cm/devicemanager: generateDeviceTopologyHints(),
 * allocateContainerResources()).
 */

#include "kubelet/model.h"

/* Searches for all booked devices. Returns 0, or -EFAULT if a missing device makes a kubelet of
 * this release panic; the message names the first such device and the kubelet's `function`. */
int missing_device_check(const struct model *model, const struct resource *resource,
	const struct id_set *ids, const char *function, struct error *error);
