/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * One socket in plugins_registry, and the operation that registers what is behind it: dial,
 * GetInfo, connect to the plugin, NotifyRegistrationStatus.
 */

#include "kubelet/kubelet-manager.h"
#include "kubelet/registrar.h"

/* A socket that was found. The entry exists until the reconciler has noticed that the file was
 * removed. */
struct plugin_socket {
	struct register_request request; /* first: while the connection is being made */
	struct manager *manager;
	struct plugin_socket *next;
	char *path;
	uint64_t wanted;               /* which incarnation is there, 0: none */
	uint64_t current;              /* which one is registered, 0: none */
	uint64_t trying;               /* which one an operation works on, 0: none is under way */
	char *resource;                /* as registered or being registered */
	char *driver_endpoint;         /* NULL, or of a DRA driver; `resource` is its name */
	struct connection *connection; /* to this socket, during an operation */
	uint64_t backoff, not_before;
	uint64_t dial_until, dial_pause; /* while the socket does not accept */
	sd_event_source *dial_source;
	bool stopping; /* outcomes are only cleaned up */
};

/* Begins the operation for the incarnation that is wanted. */
void plugin_socket_register(struct plugin_socket *socket);

/* Deregisters what is registered. */
void plugin_socket_deregister(struct plugin_socket *socket);

/* Reports an event about the socket. */
void plugin_socket_emit(const struct plugin_socket *socket, const char *event, const char *error);
