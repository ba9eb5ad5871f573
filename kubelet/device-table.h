/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The devices of one resource, as one ListAndWatch message listed them. Each message is the
 * complete list, so a table is filled once and then replaced as a whole.
 */

#include "common/util.h"

struct listed_device {
	char *id;
	char *health;            /* as sent; if several entries have one id, the last one */
	bool healthy, unhealthy; /* both, if entries with one id disagree: it counts twice */
	int64_t *numa;
	size_t n_numa;
};

struct device_table {
	struct listed_device *devices;
	size_t count, n_healthy, n_unhealthy;
	size_t n_entries; /* entries of the list; more than count if an id was listed twice */
	uint32_t *slots;  /* index + 1 into devices, 0: free */
	size_t n_slots;
};

/* An empty table with room for `capacity` devices. */
int device_table_new(size_t capacity, struct device_table **ret);

/* Adds one entry of the list; copies. -ENOSPC beyond the capacity. */
int device_table_add(struct device_table *table, const char *id, const char *health,
	const int64_t *numa, size_t n_numa);

/* NULL if no entry has the id. */
const struct listed_device *device_table_find(const struct device_table *table, const char *id);

/* Whether any device has a NUMA node. */
bool device_table_has_numa(const struct device_table *table);

/* Makes every device unhealthy, which is what the kubelet does when a stream has ended. */
void device_table_mark_unhealthy(struct device_table *table);

struct device_table *device_table_free(struct device_table *table);
DEFINE_CLEANUP(struct device_table *, device_table_free)
