/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * One session with one kubelet: accepts on the session's socket, watches the ListAndWatch streams,
 * and ends when the last of them does. The kubelet client registers the socket meanwhile
 * (kubelet-client.h): this process has no connection to the kubelet but those that the kubelet
 * makes.
 */

#include "proto/plugin/service.h"

struct session;

struct session_events {
	void (*on_serving)(struct session *session, void *userdata);
	/* The session is over; the callee frees it. `why` is for people. */
	void (*on_ended)(struct session *session, const char *why, void *userdata);
};

struct session_parameters {
	uint64_t number;
	pid_t kubelet_pid;    /* 0: unknown */
	uid_t supervisor_uid; /* may connect, in addition to root */
};

/* Takes the listening socket, also on failure. */
int session_new(sd_event *event, struct service *service,
	const struct session_parameters *parameters, int listen_fd,
	const struct session_events *events, void *userdata, struct session **ret);

uint64_t session_number(const struct session *session);

/* The state of ListAndWatch streams, from service_events.on_stream. Ignores labels of other
 * sessions. */
void session_on_stream(struct session *session, uint64_t label, bool opened);

/* A peer blocks gRPC (rpc_is_held_up()): ends all connections but the kubelet's, or, where that is
 * not known, the session. */
void session_free_the_way(struct session *session);

/* Closes the socket and its connections without calling any event. Returns NULL. */
struct session *session_free(struct session *session);
DEFINE_CLEANUP(struct session *, session_free)
