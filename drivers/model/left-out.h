/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Why a scan leaves out hardware that is there and was listed until now, such as a function that
 * has virtual functions now. Hardware is known by the last part of its directory in /sys, because
 * a driver has that before it has made an id.
 */

#include <limits.h>

#include "common/map.h"
#include "drivers/model/device.h"

struct left_out {
	struct left_out_item {
		struct device *device; /* a reference */
		unsigned rank;
		char *reason; /* NULL: none */
	} * items;
	size_t count;
	struct map by_name;
};

/* Makes room for that many devices. Returns 0 or -ENOMEM. */
int left_out_reserve(struct left_out *left_out, size_t count);

/* Keeps reasons for a listed device, unless it has no directory in /sys. There must be room.
 * Returns 0 or -ENOMEM. */
int left_out_expect(struct left_out *left_out, struct device *device);

/* Adds the reason for hardware of that name, as a clause ("it has virtual functions"), unless no
 * listed device has it. The one with the highest rank counts, and of several the first. If memory
 * is short, there is no reason. */
_printf_(4, 5) void left_out_add(
	struct left_out *left_out, const char *name, unsigned rank, const char *format, ...);

/* Whether left_out_add() would keep a reason. `left_out` may be NULL. */
bool left_out_wants(const struct left_out *left_out, const char *name, unsigned rank);

/* The rank of a reason that holds for each entry of `match`. */
#define LEFT_OUT_SURE UINT_MAX

/* The reason for a device, of that rank at least, or NULL. */
const char *left_out_reason(
	const struct left_out *left_out, const struct device *device, unsigned rank);

void left_out_done(struct left_out *left_out);
