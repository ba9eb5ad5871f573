/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * What a container gets from all its resources together. The first value wins, as in the kubelet: a
 * later device or mount with the same path in the container, and a later variable, annotation or
 * CDI name that repeats one, is dropped.
 */

#include <jansson.h>

#include "common/util.h"
#include "deviceplugin.pb-c.h"

struct container {
	json_t *parts[5]; /* objects in the order of arrival, keyed by what must be unique */
	size_t dropped;   /* values that another resource had set differently */
};

int container_init(struct container *container);
void container_done(struct container *container);
#define _cleanup_container_ _cleanup_(container_done)

/* Merges one resource's answer. 0 or -ENOMEM. */
int container_merge(
	struct container *container, const V1beta1__ContainerAllocateResponse *response);

/* Adds a CDI name. 0 or -ENOMEM. */
int container_add_cdi(struct container *container, const char *name);

/* {"devices": [{"container_path", "host_path", "permissions"}], "mounts": [{"container_path",
 * "host_path", "read_only"}], "env": {}, "annotations": {}, "cdi": []}. NULL: no memory. */
json_t *container_to_json(const struct container *container);
