/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * What is published of devices: in the report to the supervisor (DRA), and for the metadata that
 * containers read (`metadata`). The supervisor makes the files.
 */

#include "common/json-write.h"
#include "proto/plugin/offer.h"

/* Writes the members "numa" and "attributes" of a device, each behind a comma. */
void device_numa_write(struct json_writer *writer, const struct device *device);
void device_attributes_write(struct json_writer *writer, const struct declaration *declaration,
	const struct device *device);

/* Makes the sealed memfd about the devices of these offered ids for a CHILD_USE. Returns a
 * descriptor or negative errno. */
int device_attributes_for_use(const struct offer *offer, const char *const *ids, size_t n_ids);

/* Sends the supervisor the attributes of the devices that containers have, of those in the snapshot
 * whose ids are booked, if the declaration has `metadata` and they differ from those of which
 * `sent` is a hash; 0: none was sent. Returns 0 or negative errno, as control_send(). */
int device_attributes_report(const struct declaration *declaration, const struct snapshot *snapshot,
	const struct bookings *booked, uint64_t *sent);
