/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Registers sessions with the kubelet, through a process that does nothing else (the kubelet
 * client, proto/plugin/kubelet-client.h). It runs while there is something to register or the
 * plugin watcher has connected to a socket, and until it has been idle for KUBELET_CLIENT_IDLE. If
 * it ends, pending registrations fail; sessions that are registered go on.
 */

#include "common/util.h"
#include "supervisor/kubelet/session-sockets.h"

#define KUBELET_CLIENT_IDLE (10 * USEC_PER_SEC)

struct kubelet_client;
struct manager;
struct registration;

/* The kubelet has answered. `why` is for people; NULL: it is registered. If the plugin watcher
 * finds the socket, this may happen more than once. The callee may free the registration. */
typedef void (*registration_handler)(const char *why, void *userdata);

struct registration_options {
	const char *type; /* CLIENT_DEVICE_PLUGIN or CLIENT_DRA_PLUGIN */
	const char *name;
	bool pre_start_required;
	registration_handler on_result;
	void *userdata;
};

int kubelet_client_new(struct manager *manager, struct kubelet_client **ret);

/* The process; 0: none. */
pid_t kubelet_client_pid(const struct kubelet_client *client);

/* All registrations must have been freed. */
struct kubelet_client *kubelet_client_free(struct kubelet_client *client);
DEFINE_CLEANUP(struct kubelet_client *, kubelet_client_free)

/* Registers the session on its connection to kubelet.sock, or answers on its visible socket; takes
 * that descriptor from the session. Returns 0 or negative errno. */
int registration_begin(struct kubelet_client *client, struct session *session,
	const struct registration_options *options, struct registration **ret);

/* The descriptor that it took, which stays its own. */
int registration_fd(const struct registration *registration);

/* Ends it. The connection is shut down, which cancels a call in the client as well. */
struct registration *registration_free(struct registration *registration);
DEFINE_CLEANUP(struct registration *, registration_free)
