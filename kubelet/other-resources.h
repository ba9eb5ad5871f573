/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * What PodResources reports about the kubelet's other managers. The kubelet of this program does
 * not assign these resources: they are set as JSON, with the member names of the API: {"cpu_ids":
 * [0, 1],
 *  "memory": [{"memory_type": "memory", "size": 1048576, "nodes": [0]}],
 *  "dynamic_resources": [{"claim_name": "a", "claim_namespace": "default", "claim_resources":
 *    [{"driver_name": "d", "pool_name": "p", "device_name": "n", "share_id": "s",
 *      "cdi_devices": ["v.e/c=1"]}]}]}
 *    Every member may be missing.
 */

#include <jansson.h>

#include "kubelet/message-pool.h"
#include "podresources.pb-c.h"

/* Checks the JSON. Returns 0, or -EBADMSG if its form is wrong. */
int other_resources_check(const json_t *json);

/* Adds the resources to a container or to the node. The messages point into the JSON; NULL:
 * nothing. -ENOMEM, -EBADMSG. */
int other_resources_fill(struct message_pool *pool, const json_t *json, bool with_claims,
	V1__ContainerResources *container);
int other_resources_fill_node(
	struct message_pool *pool, const json_t *json, V1__AllocatableResourcesResponse *node);
