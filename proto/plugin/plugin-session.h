/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * One registration with one kubelet: accepts on the session's socket, registers on the connection
 * to the kubelet, watches the ListAndWatch streams, and ends when the last of them does. Serving
 * begins before Register and goes on while it is pending, because the kubelet calls back inside of
 * it.
 */

#include "proto/plugin/service.h"

struct session;

struct session_events {
	void (*on_registered)(struct session *session, void *userdata);
	void (*on_serving)(struct session *session, void *userdata);
	/* The session is over; the callee frees it. `why` is for people. */
	void (*on_ended)(struct session *session, const char *why, void *userdata);
};

struct session_parameters {
	uint64_t number;
	const char *resource;
	const char *endpoint;    /* file name in the kubelet's plugin directory, or absolute path */
	uid_t supervisor_uid;    /* may connect, in addition to root */
	bool pre_start_required; /* for completeness; the kubelet asks the service itself */
};

/* Takes both descriptors, also on failure: the listening socket and the connection to the kubelet.
 * Without the latter (-EBADF) the kubelet's plugin watcher will find the socket at `endpoint`. */
int session_new(sd_event *event, struct service *service,
	const struct session_parameters *parameters, int listen_fd, int kubelet_fd,
	const struct session_events *events, void *userdata, struct session **ret);

uint64_t session_number(const struct session *session);

/* The state of ListAndWatch streams, from service_events.on_stream. Ignores labels of other
 * sessions. */
void session_on_stream(struct session *session, uint64_t label, bool opened);

/* The registration status from the plugin watcher, from service_events.on_verdict. Ignores labels
 * of other sessions. */
void session_on_registration(
	struct session *session, uint64_t label, bool registered, const char *text);

/* A peer blocks gRPC (rpc_is_held_up()): ends all connections but the kubelet's, or, where that is
 * not known, the session. */
void session_free_the_way(struct session *session);

/* Closes socket, connections and a pending Register without calling any event. Returns NULL. */
struct session *session_free(struct session *session);
DEFINE_CLEANUP(struct session *, session_free)
