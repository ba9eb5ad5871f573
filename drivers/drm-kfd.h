/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The topology of AMD's compute driver, /sys/class/kfd/kfd/topology (drivers/gpu/drm/amd/amdkfd/
 * kfd_topology.c in the kernel): one node for each GPU or partition of one, and the links between
 * nodes.
 */

#include "drivers/sysfs.h"

struct kfd_link {
	unsigned to;       /* number of a node */
	unsigned distance; /* as in device_add_distance() */
};

struct kfd_node {
	unsigned number;
	int64_t render_minor;           /* of /dev/dri/renderD<minor> */
	char address[PCI_ADDRESS_SIZE]; /* of the GPU, also if this is a part of it */
	int partition;                  /* which part of it; -1: all of it */
	struct kfd_link *links;
	size_t n_links;
};

struct kfd {
	struct kfd_node *nodes; /* with processors, not those of the CPU */
	size_t n_nodes;
};

/* Partitions of one GPU. */
#define KFD_DISTANCE_SAME 5

/* Reads it; a host without the driver has no nodes. Returns 0 or -ENOMEM. What cannot be read of a
 * node leaves the node out. */
int kfd_read(const char *root, struct kfd *ret);
void kfd_done(struct kfd *kfd);

/* The node of a render minor, or NULL. */
const struct kfd_node *kfd_find(const struct kfd *kfd, int64_t render_minor);
