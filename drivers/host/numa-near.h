/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Which NUMA nodes are near another one: the nodes of the same socket at the minimal distance, as
 * KEP-6072 defines the list in resource.kubernetes.io/numaNode. The kernel has both in
 * /sys/devices/system (Documentation/ABI/stable/sysfs-devices-node, sysfs-devices-system-cpu).
 */

#include "common/util.h"
#include "drivers/model/dra-attribute.h"

struct numa_host;

/* Reads the host when the first node is asked about. */
struct numa_near {
	const char *root;
	struct numa_host *host; /* NULL: not read yet */
};

void numa_near_done(struct numa_near *near);

/* Adds a node to a list such as "1,0", which has `count` nodes; not twice, nor beyond the limits of
 * an attribute. */
void numa_near_add_node(char list[static ATTRIBUTE_VALUE_MAX + 1], size_t *count, int node);

/* Adds the nodes that are near `node`; none if the kernel does not report them. Returns 0, or a
 * shortage (sysroot.h). */
int numa_near_add(
	struct numa_near *near, int node, char list[static ATTRIBUTE_VALUE_MAX + 1], size_t *count);
