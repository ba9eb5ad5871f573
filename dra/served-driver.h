/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * A DRA driver: a name that the kubelet registers, with the resources that are served under it, its
 * slices and its socket. The supervisor numbers the drivers.
 */

#include <jansson.h>
#include <systemd/sd-event.h>

#include "common/control-cluster.h"
#include "dra/dra-api.h"

struct served_driver;

struct served_driver_options {
	sd_event *event;
	struct dra_api *api;
	uid_t supervisor_uid;
	const char *node; /* outlives the driver */
	uint64_t number;
	uint64_t *last_question; /* see struct dra_node_options */
	json_t *claims;          /* see there, too */
};

int served_driver_new(
	const struct served_driver_options *options, const char *name, struct served_driver **ret);

uint64_t served_driver_number(const struct served_driver *driver);
const char *served_driver_name(const struct served_driver *driver);

/* See dra_publisher_has_published(). */
bool served_driver_has_published(const struct served_driver *driver, uint64_t since);

/* The names of its resources, in the order of the configuration. The supervisor gets a report again
 * of each whose devices are published. */
void served_driver_configure(struct served_driver *driver, json_t *resources, bool claim_status);

/* Publishes its resources. `devices`: by resource, of all resources that have reported theirs;
 * `held`: see CLUSTER_HELD. After a start, slices that are published already stay until each
 * resource has reported its devices, or has had time for it. Both outlive the driver, or the next
 * call. Logs. */
void served_driver_publish(struct served_driver *driver, json_t *devices, json_t *held);

/* Publishes its resources with another `held`, if that changes them. */
void served_driver_set_held(struct served_driver *driver, json_t *held);

/* Takes a CLUSTER_SESSION, a CLUSTER_REGISTERED, and a CLUSTER_PREPARED. The latter may be the
 * answer to another driver's question. */
void served_driver_open_session(struct served_driver *driver, struct control_message *message);
void served_driver_registered(struct served_driver *driver);
void served_driver_take_prepared(struct served_driver *driver, struct control_message *message);

/* See dra_node_free_the_way(). */
void served_driver_free_the_way(struct served_driver *driver);

/* Waits for calls that are being answered, for the end of the process, and frees the driver. */
void served_driver_stop(struct served_driver *driver, uint64_t grace);
