/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Ends a server of the gRPC binding in a process that goes on: a kubelet that a conformance run
 * restarts, and tests that check for leaks. The binding itself has no such function, because
 * devplugd's processes end together with their servers.
 */
#include "kubelet/server-end.h"

#include "common/log.h"
#include "proto/server.h"

/* gRPC needs milliseconds to end a connection that is broken. */
#define END_LIMIT (60 * USEC_PER_SEC)
#define END_PAUSE USEC_PER_MSEC

/* Returns false once nothing of gRPC uses the server. */
static bool is_used(struct rpc_server *server, uint64_t *ret_session)
{
	bool used;

	(void)pthread_mutex_lock(&server->lock);
	used = server->connections || server->n_calls > 0;
	for (const struct connection *c = server->connections; c; c = c->next)
		if (!c->ending)
			*ret_session = c->session;
	(void)pthread_mutex_unlock(&server->lock);
	return used;
}

void server_end(struct rpc_server *server)
{
	uint64_t end = now_usec(CLOCK_MONOTONIC) + END_LIMIT, session = 0;

	while (is_used(server, &session)) {
		rpc_server_end_session(server, session);
		if (now_usec(CLOCK_MONOTONIC) >= end) {
			log_error("gRPC does not end a connection that was shut down; aborting");
			abort();
		}
		(void)usleep(END_PAUSE);
	}
	grpc_slice_unref(server->newest);
	sd_event_unref(server->event);
	(void)pthread_mutex_destroy(&server->lock);
	(void)pthread_cond_destroy(&server->answered);
	free(server);
}
