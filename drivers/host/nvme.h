/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Finds the nodes of devices, also of namespaces of NVMe with native multipath
 * (nvme_core.multipath, the kernel's default for controllers that share a subsystem). Such a
 * controller has a hidden block device nvmeXcYnZ for each path to a namespace. It has no node: the
 * nodes nvmeXnZ and ngXnZ belong to devices of the subsystem.
 */

#include "drivers/host/scan.h"
#include "drivers/host/sysfs.h"

struct declaration;

/* Adds the paths of the device's nodes, each once: sysfs_read_node(), or the two nodes of the
 * namespace to which the device is a path. Returns as sysfs_read_node(). */
int nvme_read_nodes(const char *root, const char *directory, struct strings *nodes);

/* Adds such a node to a device. Several controllers may lead to one namespace: the first device
 * with its nodes is offered, and each other one gets a problem. Returns 0 or -ENOMEM. */
int nvme_add_node(struct scan *scan, const struct declaration *declaration, struct device *device,
	const char *node, const char *permissions);

/* Whether a block device has no node, because the kernel uses it only as a path to another one. */
bool nvme_is_hidden(const char *root, const char *directory);
