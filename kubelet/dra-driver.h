/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * DRA drivers that the plugin watcher has registered: the connection to each, and the stream with
 * the health of its devices. Several instances of one driver can be registered; the newest is
 * called.
 */

#include <protobuf-c/protobuf-c.h>

#include "kubelet/connection.h"

struct dra_driver;

/* Registers what a DRA driver answered to GetInfo. Returns 0, or negative errno with the kubelet's
 * error text. */
int dra_driver_add(struct manager *manager, const char *name, const char *endpoint,
	char *const *services, size_t n_services, struct error *error);
void dra_driver_remove(struct manager *manager, const char *name, const char *endpoint);

/* Whether the driver is registered; if not, the error contains the kubelet's text. */
int dra_driver_check(struct manager *manager, const char *name, struct error *error);

/* Calls a method of the service for claims; connects first if there is no connection. The handler
 * is called once, unless the manager is freed before. Returns 0, or negative errno with the error
 * filled. */
int dra_driver_call(struct manager *manager, const char *name, const char *method,
	const ProtobufCMessage *request, answer_handler handler, void *userdata,
	struct error *error);

/* To be called first by every handler: if the connection broke, the next call makes a new one. */
void dra_driver_answered(struct manager *manager, const char *name, const struct answer *answer);

/* {"health": "Healthy", "Unhealthy" or "Unknown", "message"} of a device. NULL: no memory. */
json_t *dra_driver_health(
	const struct manager *manager, const char *driver, const char *pool, const char *device);

/* For display: [{"name", "endpoint", "version", "connected", "health"}, ...]. */
json_t *dra_driver_view(const struct manager *manager);

/* For manager_free(). */
void dra_driver_free_all(struct manager *manager);
