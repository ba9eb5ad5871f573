/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Whether the processes of a container can really open device nodes. A process of ours enters the
 * container's cgroup and root directory and asks with access(2): the kernel consults the cgroup's
 * rules for devices there (devcgroup_inode_permission() in fs/namei.c), with both versions of
 * cgroups, and no driver is opened.
 */

#include <sys/types.h>

#include "common/error.h"

/* The longest path, and the most nodes, that are checked in one container. */
#define CONTAINER_NODES_MAX 4096

struct container_node {
	const char *path; /* in the container */
	bool read, write; /* what must be allowed */
	bool block;       /* which device it must be, if `rdev` is not 0: a block device */
	dev_t rdev;       /* and its number */
	int result;       /* 0, -ENOENT: missing, -EPERM: the cgroup denies it, -ENXIO: another
			     device, or another negative errno */
};

/* Called with the path of a node that is in the container's own /dev, and that its cgroup denies.
 */
typedef void (*denied_node_handler)(const char *path, void *userdata);

/* Fills `result` of the nodes, and calls the handler for other nodes. Returns 0, or negative errno
 * with the error filled; -ESRCH if the process has ended. Needs root. */
int container_access(pid_t pid, struct container_node *nodes, size_t n_nodes,
	denied_node_handler on_denied, void *userdata, struct error *error);
