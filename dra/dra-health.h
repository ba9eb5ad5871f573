/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Serves the DRAResourceHealth streams, from which the kubelet shows the health of a pod's devices,
 * and the reason, in the status of the pod. Each message contains all devices. It is sent at each
 * change, and repeated, because the kubelet treats a health that is not repeated in time as
 * unknown.
 */

#include <jansson.h>
#include <systemd/sd-event.h>

#include "proto/rpc.h"

struct dra_health;

/* `node` and `driver` outlive it. */
int dra_health_new(sd_event *event, struct rpc_server *server, const char *node, const char *driver,
	struct dra_health **ret);

/* The current devices by name, see struct dra_inventory; they do not change any more. */
void dra_health_set(struct dra_health *health, json_t *names);

/* Makes the message. If it would be larger than the kubelet accepts, omits the reasons, and if it
 * is still too large, healthy devices, which the kubelet shows as unknown. `now`: seconds since the
 * epoch. Returns 0 or -ENOMEM. */
int dra_health_encode(const json_t *names, const char *node, const char *driver, int64_t now,
	uint8_t **ret_data, size_t *ret_size);

struct dra_health *dra_health_free(struct dra_health *health);
DEFINE_CLEANUP(struct dra_health *, dra_health_free)
