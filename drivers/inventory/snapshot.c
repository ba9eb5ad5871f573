/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Holds the list of devices at one moment, for other threads and the kubelet's calls. A snapshot
 * never changes. Snapshots that differ in health only share their devices, so that a change of one
 * among many does not touch them all.
 */
#include "drivers/inventory/inventory.h"

struct snapshot_devices {
	atomic_uint references;
	size_t count;
	struct device *items[];
};

struct snapshot *snapshot_ref(struct snapshot *snapshot)
{
	atomic_fetch_add_explicit(&snapshot->references, 1, memory_order_relaxed);
	return snapshot;
}

static void devices_unref(struct snapshot_devices *devices)
{
	if (!devices ||
		atomic_fetch_sub_explicit(&devices->references, 1, memory_order_acq_rel) > 1)
		return;
	for (size_t i = 0; i < devices->count; i++)
		(void)device_unref(devices->items[i]);
	free(devices);
}

struct snapshot *snapshot_unref(struct snapshot *snapshot)
{
	if (!snapshot ||
		atomic_fetch_sub_explicit(&snapshot->references, 1, memory_order_acq_rel) > 1)
		return NULL;
	devices_unref(snapshot->devices);
	(void)bookings_unref(snapshot->bookings);
	(void)bookings_unref(snapshot->elsewhere);
	for (size_t i = 0; snapshot->keeps_findings && i < snapshot->n_units; i++)
		(void)finding_set_unref(snapshot->units[i].findings);
	free(snapshot->units);
	free(snapshot->reasons);
	free(snapshot);
	return NULL;
}

static bool has_devices_of(const struct snapshot *snapshot, const struct snapshot *other)
{
	if (!other || !other->devices || other->n_units != snapshot->n_units)
		return false;
	for (size_t i = 0; i < snapshot->n_units; i++)
		if (snapshot->units[i].device != other->units[i].device ||
			snapshot->units[i].excluded != other->units[i].excluded ||
			snapshot->units[i].present != other->units[i].present)
			return false;
	return true;
}

int snapshot_keep_devices(struct snapshot *snapshot, const struct snapshot *previous)
{
	struct snapshot_devices *devices;

	assert(!snapshot->devices);

	if (has_devices_of(snapshot, previous)) {
		snapshot->devices = previous->devices;
		atomic_fetch_add_explicit(&snapshot->devices->references, 1, memory_order_relaxed);
		return 0;
	}
	devices = malloc(sizeof(*devices) +
		(snapshot->n_units + snapshot->n_placeholders) * sizeof(devices->items[0]));
	if (!devices)
		return -ENOMEM;
	atomic_init(&devices->references, 1);
	devices->count = 0;
	for (size_t i = 0; i < snapshot->n_units; i++) {
		const struct snapshot_unit *unit = &snapshot->units[i];

		devices->items[devices->count++] = device_ref((struct device *)unit->device);
		if (unit->excluded)
			devices->items[devices->count++] =
				device_ref((struct device *)unit->excluded);
	}
	snapshot->devices = devices;
	return 0;
}

bool snapshot_shares_devices(const struct snapshot *a, const struct snapshot *b)
{
	return a && a->devices && a->devices == b->devices;
}

const struct device *snapshot_existing(const struct snapshot *snapshot, size_t unit)
{
	const struct snapshot_unit *shown = &snapshot->units[unit];
	/* Ids of one device are side by side: the same text before a "#", which no id has. */
	bool is_again = unit > 0 && shown->excluded == snapshot->units[unit - 1].excluded;

	return shown->present ? shown->device : is_again ? NULL : shown->excluded;
}

static int compare_id(const char *id, size_t length, const char *unit_id)
{
	int order = strncmp(id, unit_id, length);

	return order ? order : unit_id[length] ? -1 : 0;
}

/* Searches `count` units from `first` on for the id. */
static int find_unit(const struct snapshot *snapshot, size_t first, size_t count, const char *id,
	size_t length, size_t *ret_unit)
{
	size_t low = first, high = first + count;

	while (low < high) {
		size_t middle = low + (high - low) / 2;
		int order = compare_id(id, length, snapshot->units[middle].device->id);

		if (order == 0) {
			*ret_unit = middle;
			return 0;
		}
		if (order > 0)
			low = middle + 1;
		else
			high = middle;
	}
	return -ENOENT;
}

int snapshot_find(
	const struct snapshot *snapshot, const char *id, size_t *ret_unit, unsigned *ret_replica)
{
	size_t length = strlen(id), n = snapshot->n_units - snapshot->n_placeholders, unit;
	unsigned replica = 0;

	if ((!snapshot->shared || offered_id_split(id, &length, &replica)) &&
		find_unit(snapshot, 0, n, id, length, &unit) >= 0 &&
		replica < snapshot->units[unit].replicas) {
		*ret_unit = unit;
		*ret_replica = replica;
		return 0;
	}
	if (find_unit(snapshot, n, snapshot->n_placeholders, id, strlen(id), &unit) < 0)
		return -ENOENT;
	*ret_unit = unit;
	*ret_replica = 0;
	return 0;
}

const char *snapshot_offered_id(const struct snapshot *snapshot, size_t unit, unsigned replica,
	char buffer[static OFFERED_ID_MAX + 1])
{
	const char *id = snapshot->units[unit].device->id;

	return snapshot->shared && unit < snapshot->n_units - snapshot->n_placeholders
		? offered_id_make(id, replica, buffer)
		: id;
}

bool snapshot_withholds(const struct snapshot *snapshot, size_t unit, const char *offered_id)
{
	return snapshot->units[unit].claimed_by_other ||
		(snapshot->units[unit].withheld > 0 &&
			bookings_find(snapshot->elsewhere, offered_id));
}

const int *snapshot_numa(
	const struct snapshot *snapshot, size_t unit, const char *offered_id, size_t *ret_n)
{
	const struct snapshot_unit *shown = &snapshot->units[unit];
	const struct booking *booking =
		shown->numa_kept ? bookings_find(snapshot->bookings, offered_id) : NULL;

	if (booking && booking->n_numa > 0) {
		*ret_n = booking->n_numa;
		return booking->numa;
	}
	*ret_n = shown->device->n_numa;
	return shown->device->numa;
}

int snapshot_add_bookings(const struct snapshot *snapshot, const char *const *ids, size_t n_ids,
	uint64_t allocated_at, struct bookings *bookings)
{
	int r = 0;

	for (size_t i = 0; i < n_ids && r >= 0; i++) {
		const int *numa = NULL;
		size_t unit, n_numa = 0;
		unsigned replica;

		if (snapshot_find(snapshot, ids[i], &unit, &replica) >= 0)
			numa = snapshot_numa(snapshot, unit, ids[i], &n_numa);
		r = bookings_add(bookings, ids[i], BOOKED_IN_PLUGIN, numa, n_numa, allocated_at);
	}
	return r;
}
