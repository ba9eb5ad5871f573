/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Devices to prefer among, "u000000" and so on, and a preference asked.
 */

#include "host-fixture.h"

#include "drivers/allocation/preference.h"

static struct device **devices;
static struct snapshot snapshot;
static struct declaration declaration;
static bool know_links;

/* Distances are a function of the ids here, so that they can be worked out again. */
static inline unsigned distance(size_t a, size_t b)
{
	return (unsigned)(1 + (MAX_OF(a, b) * 31 + MIN_OF(a, b) * 17) % 7 * 9);
}

/* `numa[i]` is a set of nodes; NULL: none have any. */
static inline void make(size_t n_units, unsigned replicas, const unsigned *numa)
{
	devices = calloc(n_units, sizeof(*devices));
	snapshot = (struct snapshot){
		.shared = replicas > 1,
		.units = calloc(n_units, sizeof(*snapshot.units)),
		.n_units = n_units,
	};
	assert_non_null(devices);
	assert_non_null(snapshot.units);
	for (size_t i = 0; i < n_units; i++) {
		char id[32];

		(void)snprintf(id, sizeof(id), "u%06zu", i);
		assert_int_equal(device_new(id, &devices[i]), 0);
		for (int k = 0; numa && k < 8; k++)
			if (numa[i] & 1U << k)
				assert_int_equal(device_add_numa(devices[i], k), 0);
		for (size_t k = 0; know_links && k < i; k++)
			assert_int_equal(
				device_add_distance(devices[i], devices[k]->id, distance(i, k)), 0);
		snapshot.units[i] = (struct snapshot_unit){
			.device = devices[i], .replicas = replicas, .present = true, .healthy = true
		};
	}
}

static inline void unmake(void)
{
	for (size_t i = 0; i < snapshot.n_units; i++)
		(void)device_unref(devices[i]);
	free(devices);
	free(snapshot.units);
}

static inline void choose(
	int preference, const char *const *available, size_t n, size_t size, const char *first)
{
	const char *answer[8];

	declaration.prefer = preference;
	assert_int_equal(
		preference_choose(&declaration, &snapshot, available, n, NULL, 0, size, answer),
		size);
	assert_string_equal(answer[0], first);
}
