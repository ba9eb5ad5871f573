/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Which NUMA nodes something of a container is on, to compare its exclusive CPUs with its devices.
 * The kubelet names CPUs and the nodes of devices (PodResources); the nodes of CPUs are the host's:
 * /sys/devices/system/node/nodeN/cpulist (Documentation/ABI/stable/sysfs-devices-node).
 */

#include <jansson.h>

#include "common/util.h"

#define NUMA_NODES_MAX 1024U /* as the kernel's MAX_NUMNODES */

/* A set of nodes. */
struct numa_nodes {
	uint64_t words[NUMA_NODES_MAX / 64];
};

bool numa_nodes_are_none(const struct numa_nodes *nodes);

/* Whether a node is in both. */
bool numa_nodes_meet(const struct numa_nodes *a, const struct numa_nodes *b);

bool numa_nodes_have(const struct numa_nodes *nodes, unsigned node);

/* Adds the nodes of a list such as "0,2-3". What is no number of a node, such as "-1", is left
 * out. */
void numa_nodes_add(struct numa_nodes *nodes, const char *list);

/* Their numbers, a new reference; NULL: no memory. */
json_t *numa_nodes_pack(const struct numa_nodes *nodes);

/* The lists of CPUs of this host's nodes, below a directory that stands for its root: an object
 * such as {"0": "0-7,16-23", "1": "8-15"}, empty where the kernel has none; NULL: no memory. */
json_t *numa_cpus_read(const char *root);

/* Adds the nodes on which CPUs of a list are. `cpus`: as from numa_cpus_read(). */
void numa_nodes_add_of_cpus(struct numa_nodes *nodes, json_t *cpus, const char *list);
