/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Finds the nodes of InfiniBand devices. Each class of character devices names in `ibdev` the
 * device that an entry belongs to (Documentation/ABI/stable/sysfs-class-infiniband); the connection
 * manager's node is one for all.
 */

#include "drivers/host/scan.h"
#include "drivers/host/sysfs.h"

enum infiniband_node {
	INFINIBAND_CM,    /* rdma_cm, of all devices */
	INFINIBAND_VERBS, /* uverbsN */
	INFINIBAND_UMAD,  /* umadN */
	INFINIBAND_ISSM,  /* issmN */
	INFINIBAND_UCM,   /* ucmN, of kernels before 5.2 */
	INFINIBAND_NODES
};

extern const char *const infiniband_node_names[INFINIBAND_NODES];

/* All nodes of the host, with their devices. */
struct infiniband_table {
	struct strings nodes, owners; /* "uverbs0", "mlx5_0" */
	bool has_cm;
};

/* Reads the table and triggers a new scan when it changes. Returns 0 or a shortage (sysroot.h). */
int infiniband_table_read(struct scan *scan, struct infiniband_table *ret);
void infiniband_table_done(struct infiniband_table *table);
#define _cleanup_infiniband_table_ _cleanup_(infiniband_table_done)

/* The paths of the nodes that were added to a device, the last one of each kind. */
struct infiniband_nodes {
	char *paths[INFINIBAND_NODES];
};

void infiniband_nodes_done(struct infiniband_nodes *nodes);
#define _cleanup_infiniband_nodes_ _cleanup_(infiniband_nodes_done)

/* Adds to a device the nodes of the InfiniBand devices of these names, and a problem if a required
 * node is missing. A connection manager that is missing is noted. `nodes` must be empty. Returns 0
 * or -ENOMEM. */
int infiniband_add_nodes(struct scan *scan, const struct infiniband_table *table,
	const struct strings *names, const char *permissions, struct device *device,
	struct infiniband_nodes *nodes);
