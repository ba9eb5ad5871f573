/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The topology of AMD's compute driver, /sys/class/kfd/kfd/topology (drivers/gpu/drm/amd/amdkfd/
 * kfd_topology.c in the kernel): one node for each GPU or partition of one, and the links between
 * nodes.
 */

#include "drivers/host/sysfs.h"
#include "drivers/model/form.h"

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
	int error; /* why nodes could not be read, as negative errno; 0: all were read */
};

/* The distance of two GPUs, or parts of them: the sum of their link, whether they are parts of one
 * GPU, and whether they have a NUMA node in common; in the measure of AMD's device plugin
 * (internal/pkg/allocator/device.go), less the part that all pairs have there. */
#define KFD_DISTANCE_XGMI  10
#define KFD_DISTANCE_PCIE  40
#define KFD_DISTANCE_OTHER 50
#define KFD_DISTANCE_GPU   10
#define KFD_DISTANCE_NUMA  10

/* Reads the topology; a host without the driver has no nodes. Returns 0 or -ENOMEM. A node that
 * cannot be read is left out. */
int kfd_read(const char *root, struct kfd *ret);
void kfd_done(struct kfd *kfd);

/* The node of a render minor, or NULL. */
const struct kfd_node *kfd_find(const struct kfd *kfd, int64_t render_minor);
