/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The order of a resource's devices in ResourceSlices. The scheduler takes the first devices that
 * fit a claim, so the order is a preference. It depends only on what does not change while devices
 * are used, so it is the same after a restart.
 */

#include <jansson.h>

#include "common/util.h"

/* One device of a slice: a device of the resource's process, or one of its replicas or parts. */
struct slice_place {
	const json_t *device;
	json_int_t replica;
	bool withheld; /* the device plugin still uses the replica */
	/* What the order depends on: the place in the report; how many devices of the same card are
	 * before it; how many of the same NUMA node with as many before them are; the node. */
	size_t index, part, turn;
	json_int_t numa;
};

/* How many devices each resource may have at most, so that all have no more than `total`: those
 * that need less than an equal share leave the rest to the others. `resources` as for
 * dra_inventory_build(). Returns 0 or -ENOMEM. */
int slice_order_share(const json_t *resources, size_t total, const char *driver, unsigned lacks,
	size_t *ret_maximum);

/* Lists the devices of a report in the order of their member `prefer`, for a server that lacks
 * `lacks` (enum slice_lack). Devices with an invalid id (device_id_make()) and devices beyond
 * `maximum` are left out. The caller frees the result. Returns 0 or -ENOMEM. */
int slice_order(const json_t *devices, size_t maximum, const char *driver, unsigned lacks,
	struct slice_place **ret_places, size_t *ret_count);
