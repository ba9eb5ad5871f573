/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Keeps the ResourceSlices of this node in the API server equal to the devices of the resources,
 * also after another client has changed or deleted them. Changes are collected for half a second
 * and written together; a failure is retried after 1 s to a minute.
 */

#include <jansson.h>
#include <systemd/sd-event.h>

#include "dra/dra-api.h"

struct dra_publisher;

/* The state of publication. */
struct dra_pool_state {
	uint64_t generation, slices;
	uint64_t lacks;      /* bits of enum slice_lack: what the API server does not have */
	const char *failure; /* "" or what fails */
};
typedef void (*dra_pool_handler)(const struct dra_pool_state *state, void *userdata);

/* `driver` and `node` outlive the publisher. */
int dra_publisher_new(sd_event *event, struct dra_api *api, const char *driver, const char *node,
	dra_pool_handler on_change, void *userdata, struct dra_publisher **ret);

/* The current devices; `resources` as dra_inventory_build() takes them; `held`: see its options.
 * The caller keeps its references, and changes neither any more. Returns 0 or -ENOMEM. */
int dra_publisher_set(struct dra_publisher *publisher, json_t *resources, json_t *held);

/* Takes `held` if it does not change the slices, which is rare: 100 claims would make them again
 * 100 times. Returns whether it was taken; if not, use the function above. */
bool dra_publisher_keep_held(struct dra_publisher *publisher, json_t *held);

/* To be called when the kubelet has registered the driver: it deletes the slices when it starts,
 * and its node may have joined the cluster just now. Earlier failures delay nothing. */
void dra_publisher_registered(struct dra_publisher *publisher);

/* The resources of dra_publisher_set() if the server stores their devices as they are now; NULL if
 * not. For the handler; the publisher owns the result. */
const json_t *dra_publisher_published(const struct dra_publisher *publisher);

/* Whether the server stores the devices as they were at that time (CLOCK_MONOTONIC) or later. While
 * devices change all the time, the function above may never return them. */
bool dra_publisher_has_published(const struct dra_publisher *publisher, uint64_t since);

/* The resource and id of each device, see struct dra_inventory. The publisher owns the result. */
json_t *dra_publisher_names(const struct dra_publisher *publisher);

struct dra_publisher *dra_publisher_free(struct dra_publisher *publisher);
DEFINE_CLEANUP(struct dra_publisher *, dra_publisher_free)
