/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Inside of arbiter: the devices of a resource that were allocated just now, until the kubelet has
 * booked them.
 */

#include "common/map.h"
#include "drivers/model/bookings.h"

struct taken;

struct taken_devices {
	struct taken *first;
	struct map by_id;
};

/* Adds a device, or restarts its time. `again`: it is booked for a former pod. Returns 0, -ENOMEM,
 * or -ENOSPC if CLAIMS_MAX devices are taken. */
int taken_add(struct taken_devices *taken, const char *id, bool again, uint64_t now);

/* Drops the devices that are booked by now, or were not booked in time. Returns when the next one
 * is due (CLOCK_MONOTONIC), or 0 if none is left. */
uint64_t taken_drop(struct taken_devices *taken, const struct bookings *booked, uint64_t now);

void taken_done(struct taken_devices *taken);
