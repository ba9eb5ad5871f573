/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Puts other files in the place of each node of a device, and expects the device to be unhealthy
 * for that reason until the node is back.
 */

#include "inventory-fixture.h"

#include "drivers/allocation/allocation.h"
#include "drivers/host/sysroot.h"

/* Whether a container would get the device, by a name or a message. */
static inline bool is_allocated(const char *id, struct error *error)
{
	_cleanup_snapshot_ struct snapshot *snapshot = inventory_snapshot(inventory);
	_cleanup_allocation_ struct allocation allocation = { 0 };

	return allocation_build(declaration_of(config), snapshot, host_root, &id, 1, NULL,
		       &allocation, error) >= 0;
}

/* `name`: the path that the message has; `node` is the same without symbolic links. */
static inline void spoil_node(const char *id, const char *name, const char *node)
{
	static const struct {
		void (*make)(const char *path);
		const char *phrase;
	} others[] = {
		{ host_mkfifo, "is not a device node" },
		{ host_mkdir, "is a directory" },
		{ host_touch, "is not a device node" },
	};
	struct error error;

	host_mkdir("/away");
	host_rename(node, "/away/node");
	for (size_t i = 0; i < ARRAY_SIZE(others); i++) {
		others[i].make(node);
		RUN_UNTIL(strstr(reason_of(id), others[i].phrase) && strstr(reason_of(id), name));
		assert_false(is_allocated(id, &error));
		host_remove(node);
		RUN_UNTIL(strstr(reason_of(id), "is missing") ||
			strstr(reason_of(id), "has disappeared"));
	}
	host_rename("/away/node", node);
	RUN_UNTIL(!*reason_of(id));
	assert_true(is_allocated(id, &error));
}

/* Expects this of the nodes that a healthy device of "driver = ...; match = ...;" must have. */
static inline void expect_nodes_matter(const char *text, const char *id, size_t n_nodes)
{
	_cleanup_snapshot_ struct snapshot *snapshot = NULL;
	const struct device *device;
	unsigned replica;
	size_t unit, n = 0;

	start(text);
	RUN_UNTIL(!*reason_of(id));
	snapshot = inventory_snapshot(inventory);
	assert_int_equal(snapshot_find(snapshot, id, &unit, &replica), 0);
	device = snapshot->units[unit].device;
	for (size_t i = 0; i < device->n_nodes; i++) {
		_cleanup_free_ char *node = NULL;

		if (device->nodes[i].mount || device->nodes[i].optional)
			continue;
		assert_int_equal(sysroot_resolve(host_root, device->nodes[i].host, &node), 0);
		spoil_node(id, device->nodes[i].host, node);
		n++;
	}
	assert_int_equal(n, n_nodes);
}
