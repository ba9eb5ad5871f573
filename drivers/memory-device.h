/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * A device in the file that outlives a process: one that is in a container while nothing of it is
 * to be seen on the host. It is as it was found last, because nobody can look at it again.
 */

#include <jansson.h>

#include "drivers/device.h"
#include "drivers/json-write.h"

/* Whether the file has room for all that the device is: nodes, variables, claims, information for
 * CNI, a problem; not mounts, nor what a program adds to containers. */
bool memory_device_is_plain(const struct device *device);

/* Writes such a device as an object, without its id. */
void memory_device_write(struct json_writer *writer, const struct device *device);

/* Makes a device of it, which is mobile (device_set_mobile()). Returns 0, -EBADMSG if it is none,
 * or -ENOMEM. */
int memory_device_read(const char *id, const json_t *json, struct device **ret);
