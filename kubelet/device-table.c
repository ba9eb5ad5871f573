/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Stores devices in an array in the list's order, with a hash index over the ids. The counts follow
 * the kubelet's two sets, healthy and unhealthy, in which one id can be a member of both.
 */
#include "kubelet/device-table.h"

#include "proto/methods.h"

int device_table_new(size_t capacity, struct device_table **ret)
{
	_cleanup_(device_table_freep) struct device_table *table = NULL;
	size_t n_slots = 4;

	if (capacity > UINT32_MAX / 4)
		return -E2BIG;
	while (n_slots < capacity * 2)
		n_slots *= 2;
	table = calloc(1, sizeof(*table));
	if (!table)
		return -ENOMEM;
	table->devices = calloc(n_slots / 2, sizeof(*table->devices));
	table->slots = calloc(n_slots, sizeof(*table->slots));
	if (!table->devices || !table->slots)
		return -ENOMEM;
	table->n_slots = n_slots;
	*ret = TAKE_PTR(table);
	return 0;
}

static uint32_t *find_slot(const struct device_table *table, const char *id)
{
	size_t i = hash_string(id) & (table->n_slots - 1);

	while (table->slots[i] && !streq(table->devices[table->slots[i] - 1].id, id))
		i = (i + 1) & (table->n_slots - 1);
	return &table->slots[i];
}

static void join_sets(struct device_table *table, struct listed_device *device)
{
	if (streq(device->health, DEVICE_HEALTHY)) {
		table->n_healthy += !device->healthy;
		device->healthy = true;
	} else {
		table->n_unhealthy += !device->unhealthy;
		device->unhealthy = true;
	}
}

int device_table_add(struct device_table *table, const char *id, const char *health,
	const int64_t *numa, size_t n_numa)
{
	_cleanup_free_ char *health_copy = strdup(health);
	_cleanup_free_ int64_t *numa_copy = NULL;
	struct listed_device *device;
	uint32_t *slot = find_slot(table, id);

	if (!health_copy)
		return -ENOMEM;
	if (n_numa > 0) {
		numa_copy = calloc(n_numa, sizeof(*numa_copy));
		if (!numa_copy)
			return -ENOMEM;
		memcpy(numa_copy, numa, n_numa * sizeof(*numa_copy));
	}
	if (*slot == 0) {
		if (table->count >= table->n_slots / 2)
			return -ENOSPC;
		device = &table->devices[table->count];
		device->id = strdup(id);
		if (!device->id)
			return -ENOMEM;
		*slot = (uint32_t)++table->count;
	} else {
		device = &table->devices[*slot - 1];
		free(device->health);
		free(device->numa);
	}
	device->health = TAKE_PTR(health_copy);
	device->numa = TAKE_PTR(numa_copy);
	device->n_numa = n_numa;
	table->n_entries++;
	join_sets(table, device);
	return 0;
}

const struct listed_device *device_table_find(const struct device_table *table, const char *id)
{
	uint32_t index = *find_slot(table, id);

	return index > 0 ? &table->devices[index - 1] : NULL;
}

bool device_table_has_numa(const struct device_table *table)
{
	for (size_t i = 0; i < table->count; i++)
		if (table->devices[i].n_numa > 0)
			return true;
	return false;
}

void device_table_mark_unhealthy(struct device_table *table)
{
	for (size_t i = 0; i < table->count; i++) {
		struct listed_device *device = &table->devices[i];

		table->n_unhealthy += device->healthy && !device->unhealthy;
		device->unhealthy = true;
		device->healthy = false;
	}
	table->n_healthy = 0;
}

struct device_table *device_table_free(struct device_table *table)
{
	if (!table)
		return NULL;
	for (size_t i = 0; table->devices && i < table->count; i++) {
		free(table->devices[i].id);
		free(table->devices[i].health);
		free(table->devices[i].numa);
	}
	free(table->devices);
	free(table->slots);
	free(table);
	return NULL;
}
