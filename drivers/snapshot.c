/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Snapshots: what other threads may see of an inventory. Nothing in one changes after it was made.
 * Those that differ in health only keep their devices together, so that a change of one among many
 * does not touch them all.
 */
#include "drivers/inventory.h"

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
		if (snapshot->units[i].device != other->units[i].device)
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
	devices = malloc(sizeof(*devices) + snapshot->n_units * sizeof(devices->items[0]));
	if (!devices)
		return -ENOMEM;
	atomic_init(&devices->references, 1);
	devices->count = snapshot->n_units;
	for (size_t i = 0; i < devices->count; i++)
		devices->items[i] = device_ref((struct device *)snapshot->units[i].device);
	snapshot->devices = devices;
	return 0;
}

bool snapshot_shares_devices(const struct snapshot *a, const struct snapshot *b)
{
	return a && a->devices && a->devices == b->devices;
}

bool snapshot_same_devices(const struct snapshot *a, const struct snapshot *b)
{
	if (!a || a->n_units != b->n_units)
		return false;
	for (size_t i = 0; i < a->n_units; i++)
		if (a->units[i].device != b->units[i].device ||
			a->units[i].present != b->units[i].present)
			return false;
	return true;
}

/* The number behind '#' in canonical form, or -1. */
static int64_t replica_number(const char *text)
{
	int64_t number = 0;

	if (!*text || (text[0] == '0' && text[1]))
		return -1;
	for (; *text; text++) {
		if (*text < '0' || *text > '9' || number > UINT32_MAX)
			return -1;
		number = number * 10 + (*text - '0');
	}
	return number;
}

static int compare_id(const char *id, size_t length, const char *unit_id)
{
	int order = strncmp(id, unit_id, length);

	return order ? order : unit_id[length] ? -1 : 0;
}

int snapshot_find(
	const struct snapshot *snapshot, const char *id, size_t *ret_unit, unsigned *ret_replica)
{
	size_t low = 0, high = snapshot->n_units, length = strlen(id);
	int64_t replica = 0;

	if (snapshot->shared) {
		const char *mark = strrchr(id, '#');

		replica = mark ? replica_number(mark + 1) : -1;
		if (replica < 0)
			return -ENOENT;
		length = (size_t)(mark - id);
	}
	while (low < high) {
		size_t middle = low + (high - low) / 2;
		int order = compare_id(id, length, snapshot->units[middle].device->id);

		if (order == 0) {
			if (replica >= (int64_t)snapshot->units[middle].replicas)
				return -ENOENT;
			*ret_unit = middle;
			*ret_replica = (unsigned)replica;
			return 0;
		}
		if (order > 0)
			low = middle + 1;
		else
			high = middle;
	}
	return -ENOENT;
}

void snapshot_offered_id(const struct snapshot *snapshot, size_t unit, unsigned replica,
	char ret_id[static OFFERED_ID_MAX + 1])
{
	const char *id = snapshot->units[unit].device->id;
	size_t length = strnlen(id, OFFERED_ID_MAX);

	memcpy(ret_id, id, length);
	ret_id[length] = '\0';
	if (snapshot->shared)
		(void)snprintf(ret_id + length, OFFERED_ID_MAX + 1 - length, "#%u", replica);
}
