/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The problems of an inventory's units, and a card that has some.
 */

#include "inventory-fixture.h"

#define CARD "/sys/devices/pci0000:00/0000:03:00.0"

/* Why the unit is not healthy; "" if it is. */
static inline const char *reason(size_t unit)
{
	_cleanup_snapshot_ struct snapshot *snapshot = inventory_snapshot(inventory);
	static char text[512];

	assert_true(unit < snapshot->n_units);
	assert_int_equal(snapshot->units[unit].healthy, !snapshot->units[unit].reason);
	(void)snprintf(text, sizeof(text), "%s", snapshot->units[unit].reason ?: "");
	return text;
}

/* A card of driver drm. */
static inline void health_make_card(void)
{
	host_mkdir(CARD "/drm/card0");
	host_symlink("../..", CARD "/drm/card0/device");
	host_write(CARD "/drm/card0/uevent", "DEVNAME=dri/card0\n");
	host_mkdir("/dev/dri");
	host_mknod("/dev/dri/card0");
	host_mkdir("/sys/class/drm");
	host_symlink("../../devices/pci0000:00/0000:03:00.0/drm/card0", "/sys/class/drm/card0");
	host_mkdir("/sys/bus/pci/devices");
	host_symlink(
		"../../../devices/pci0000:00/0000:03:00.0", "/sys/bus/pci/devices/0000:03:00.0");
}
