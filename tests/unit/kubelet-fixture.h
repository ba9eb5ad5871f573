/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * A model of the kubelet's device manager with one resource, whose plugin is on connection 1.
 */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "kubelet/model.h"

#define GPU "vendor.example/gpu"

static inline struct model *make_model(void)
{
	struct model *model;

	assert_int_equal(
		model_new(kubelet_version_find("1.36"), true, KUBELET_GRACE, 1, &model), 0);
	return model;
}

static inline void list_devices(
	struct model *model, const char *resource, size_t n, const char *unhealthy)
{
	struct device_table *table;
	char id[32];

	assert_int_equal(device_table_new(n, &table), 0);
	for (size_t i = 0; i < n; i++) {
		(void)snprintf(id, sizeof(id), "d%zu", i);
		assert_int_equal(
			device_table_add(table, id,
				unhealthy && streq(unhealthy, id) ? "Unhealthy" : "Healthy", NULL,
				0),
			0);
	}
	assert_int_equal(model_replace_devices(model, resource, table), 0);
}

/* A resource with a plugin on connection 1 and n healthy devices d0, d1, ... */
static inline void serve(struct model *model, size_t n, bool preferred)
{
	struct plugin_options options = { .preferred_allocation = preferred };

	assert_int_equal(model_plugin_connected(model, GPU, "/p/a.sock", 1, &options), 0);
	list_devices(model, GPU, n, NULL);
}
