/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * What probes have found about devices, in the words of devplugctl: a notice leaves the device
 * healthy.
 */

#include <jansson.h>

#include "common/util.h"

/* Copies what the process of a resource reports of a device: an array of {"reason", "severity",
 * "text"}, with reasons and severities that exist; the reason is "" if the probe has none. */
json_t *notices_clean(const json_t *device);

/* The finding at a position if it is a notice, or NULL; and whether a device has any. */
const json_t *notices_get(const json_t *device, size_t at);
bool notices_exist(const json_t *device);

/* "notice temperature" or "notice" (malloc'ed). */
char *notices_name(const json_t *finding);

/* Why the device is not healthy, and its notices, for a table (malloc'ed). */
char *notices_add(const json_t *device);
