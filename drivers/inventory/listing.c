/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Decides which of the devices that a driver finds are left out by `exclude`. An entry of `exclude`
 * is a `match` of its own: the driver lists what it finds, and devices with the same ids are
 * dropped. Both lists read the same host, so the watches of the first serve both.
 */
#include "drivers/inventory/listing.h"

#include "drivers/host/sysfs-locked.h"
#include "drivers/model/driver.h"

static void drop_found(struct scan *scan, const struct scan *excluded)
{
	size_t kept = 0;

	for (size_t i = 0; i < scan->n_devices; i++) {
		struct device *device = scan->devices[i];

		if (map_get(&excluded->by_id, device->id)) {
			(void)map_remove(&scan->by_id, device->id);
			(void)device_unref(device);
			continue;
		}
		scan->devices[kept++] = device;
	}
	scan->n_devices = kept;
}

static int exclude_selected(const struct declaration *declaration,
	const struct exclusion *exclusion, struct scan *scan, struct error *error)
{
	struct declaration selected = *declaration;
	_cleanup_scan_ struct scan excluded = {
		.root = scan->root,
		.state = scan->state,
		.lists = scan->lists,
		.userdata = scan->userdata,
	};
	unsigned refusals = sysfs_locked_refusals();
	int r;

	selected.match = exclusion->match;
	r = declaration->driver->list(&selected, &excluded, error);
	/* A device must not be offered while it is unknown whether it is excluded. */
	if (r >= 0 && sysfs_locked_refusals() != refusals)
		r = error_set(error, -EBUSY, "the kernel has locked an attribute of a device");
	if (r < 0) {
		error_prefix(error, "exclude");
		return r;
	}
	drop_found(scan, &excluded);
	return 0;
}

int list_devices(const struct declaration *declaration, struct scan *scan, struct error *error)
{
	int r;

	r = declaration->driver->list(declaration, scan, error);
	for (size_t i = 0; i < declaration->exclude.count && r >= 0; i++) {
		const struct exclusion *exclusion = groups_get(&declaration->exclude, i);

		if (exclusion->match.count > 0)
			r = exclude_selected(declaration, exclusion, scan, error);
	}
	return r;
}
