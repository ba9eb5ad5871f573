/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Serves the kubelet: the DRA services v1 and v1beta1.
 */

#include <systemd/sd-event.h>

#include "common/control-cluster.h"
#include "dra/dra-allocation.h"
#include "dra/dra-api.h"

struct dra_node;

struct dra_node_options {
	sd_event *event;
	struct dra_api *api;
	uint64_t number;         /* the driver's */
	uint64_t *last_question; /* counts the questions to the supervisor of all drivers, so that
				  * each answer has one taker; outlives the node */
	json_t *claims;          /* an object with the UIDs of the claims that the supervisor may
				  * know; outlives the node */
	uid_t supervisor_uid;    /* may call, as root may */
	struct dra_known (*get_known)(void *userdata);
	/* A claim is prepared, and the kubelet is about to get the devices of CLUSTER_PREPARED. */
	void (*on_prepared)(const char *namespace, const char *name, const char *uid,
		const json_t *devices, void *userdata);
	void *userdata;
};

/* rpc_start() comes before the first one. */
int dra_node_new(const struct dra_node_options *options, struct dra_node **ret);

/* Serves the socket of a CLUSTER_SESSION in place of an earlier one. Takes its descriptor. */
void dra_node_open_session(struct dra_node *node, struct control_message *message);

/* Takes a CLUSTER_PREPARED. */
void dra_node_take_prepared(struct dra_node *node, struct control_message *message);

/* See dra_calls_held_changed(). */
void dra_node_held_changed(struct dra_node *node);

/* Ends all connections, when a peer blocks gRPC (rpc_is_held_up()). */
void dra_node_free_the_way(struct dra_node *node);

/* The object that publishes the health of devices. */
struct rpc_server *dra_node_server(const struct dra_node *node);

/* Waits for calls that are being answered; for the end of the process. */
void dra_node_stop(struct dra_node *node, uint64_t grace);
