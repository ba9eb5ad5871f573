/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finds out what has become of a device that a scan does not list any more. Only what was seen is a
 * reason: the hardware is removed if its directory or node is; if it is there, the driver has kept
 * the reason for which it left it out (left-out.h).
 */
#include "drivers/inventory/units.h"

#include "drivers/host/sysroot.h"

#define NOT_LISTED "%s is not listed any more"

int unit_list_expect(const struct unit_list *list, struct scan *scan)
{
	int r = left_out_reserve(&scan->left_out, list->n_units);

	for (size_t i = 0; i < list->n_units && r >= 0; i++)
		r = left_out_expect(&scan->left_out, list->units[i]->device);
	return r;
}

static bool is_missing(const char *root, const char *path)
{
	struct stat st;

	return path && sysroot_is_absent(sysroot_stat(root, path, &st));
}

/* The device that the scan found in a directory of /sys, or NULL. */
static const struct device *find_in(const struct scan *scan, const char *directory)
{
	for (size_t i = 0; i < scan->n_devices; i++)
		if (streq(device_variable(scan->devices[i], "sysfs") ?: "", directory))
			return scan->devices[i];
	return NULL;
}

/* The key of the resource that leaves the device out, or NULL. */
static const char *find_excluding_key(const struct unit *unit)
{
	for (size_t i = 0; i < unit->list->n_excluded; i++) {
		const struct device *device = unit->list->excluded[i];

		if (streq(device->id, unit->device->id))
			return declaration_excludes(unit->list->declaration, device) ? "exclude"
										     : "where";
	}
	return NULL;
}

bool unit_is_removed(const struct unit *unit, const struct scan *scan)
{
	return is_missing(scan->root, device_variable(unit->device, "sysfs"));
}

void unit_describe_loss(struct unit *unit, const struct scan *scan)
{
	const struct device *device = unit->device, *other;
	const char *node = device->n_nodes > 0 ? device->nodes[0].host : NULL;
	const char *directory = device_variable(device, "sysfs");
	const char *sure = left_out_reason(&scan->left_out, device, LEFT_OUT_SURE);
	const char *reason = left_out_reason(&scan->left_out, device, 0);
	const char *excluding = find_excluding_key(unit);
	char *text = NULL;

	if (unit->list->declaration->driver->runs_programs)
		(void)format_text(&text, NOT_LISTED, device->id);
	else if (unit_is_removed(unit, scan))
		(void)format_text(&text, "%s has disappeared",
			is_missing(scan->root, node) ? node : device->id);
	else if (excluding)
		(void)format_text(&text, NOT_LISTED ": `%s` leaves it out", device->id, excluding);
	else if (sure)
		(void)format_text(&text, NOT_LISTED ": %s", device->id, sure);
	else if (!reason && is_missing(scan->root, node))
		(void)format_text(&text, "%s has disappeared", node);
	else if (directory && (other = find_in(scan, directory)))
		(void)format_text(
			&text, NOT_LISTED ": it is listed as %s now", device->id, other->id);
	else if (reason)
		(void)format_text(&text, NOT_LISTED ": %s", device->id, reason);
	free(unit->loss);
	unit->loss = text;
}

void unit_forget_loss(struct unit *unit)
{
	free(unit->loss);
	unit->loss = NULL;
}
