/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Saves a device that is inside a container and thus not visible on the host. It is saved as it was
 * found last, because the next process cannot scan it.
 */

#include <jansson.h>

#include "common/json-write.h"
#include "drivers/model/device.h"

/* Whether the file can represent the whole device: nodes, variables, claims, information for CNI, a
 * problem; not mounts, nor what a program adds to containers. */
bool saved_device_is_plain(const struct device *device);

/* Writes such a device as an object, without its id. */
void saved_device_write(struct json_writer *writer, const struct device *device);

/* Makes a mobile device (device_set_mobile()). Returns 0, -EBADMSG if the entry is not a device, or
 * -ENOMEM. */
int saved_device_read(const char *id, const json_t *json, struct device **ret);
