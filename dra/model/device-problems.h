/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Which devices of a resource have a problem that the cluster learns. A device that an
 * administrator keeps away, such as a cordoned one, has none.
 */

#include <jansson.h>

#include "common/util.h"

/* `devices`: as dra_devices_read() returns them; not trusted. Returns an object with a member for
 * each device with a problem, by id: {"reason", "since", "missing"}; NULL without memory.
 * `ret_total`: number of devices that the resource has, missing ones included. */
json_t *device_problems(const json_t *devices, size_t *ret_total);

/* Writes "a (reason), b (reason) and 3 more" for these problems, in their order, as far as it fits.
 */
void device_problems_text(json_t *problems, char *ret, size_t size);
