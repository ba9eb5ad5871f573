/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Inside of a server, shared by server.c (unary calls, life), server-connections.c and stream.c
 * (broadcast streams).
 */

#include <grpc/grpc.h>
#include <pthread.h>
#include <systemd/sd-event.h>

#include "proto/rpc-queue.h"
#include "proto/rpc.h"

struct stream;

/* One connection: the number that gRPC knows it by, and a duplicate that tells us its end. */
struct connection {
	struct connection *next;
	struct rpc_server *server;
	int number; /* of the descriptor that gRPC owns; never used as one */
	int duplicate;
	uint64_t session;
	sd_event_source *source;
};

/* A method with the one call that is armed for it. */
struct armed_method {
	struct tag tag;
	struct rpc_server *server;
	const struct rpc_method *method; /* NULL: any method that is not registered */
	void *registered;
	grpc_call *call;
	gpr_timespec deadline;
	grpc_metadata_array metadata;
	grpc_call_details details; /* of the unregistered one */
	grpc_byte_buffer *payload;
};

struct rpc_server {
	grpc_server *server;
	sd_event *event;
	void *userdata;
	struct tag shutdown_tag;

	pthread_mutex_t lock; /* everything below */
	pthread_cond_t changed;
	bool stopping, stopped;
	size_t n_calls; /* unary ones whose answer is not out yet */
	struct connection *connections;
	size_t n_connections;
	size_t n_adding; /* threads that give a connection to gRPC */
	struct stream *streams;
	grpc_slice newest;
	uint64_t newest_number; /* 0: nothing published yet */

	size_t n_methods;
	struct armed_method methods[];
};

/* Takes the connection out of the list and forgets it; gRPC closes its own descriptor. */
void connection_free(struct connection *connection);

/* Returns when no thread gives a connection to gRPC any more; ends connections to get there. */
void connections_await_added(struct rpc_server *server);

/* Session of the connection a call came on; 0 if it is gone already. */
uint64_t server_session_of(struct rpc_server *server, grpc_call *call);

/* Makes a broadcast stream of a new call and takes the call. */
void stream_open(struct rpc_server *server, const struct rpc_method *method, grpc_call *call);

/* With the lock held: sends the newest message, unless one is in flight or it was sent already. */
void stream_push(struct stream *stream);
struct stream *stream_next(struct stream *stream);

/* With the lock held: ends every stream with UNAVAILABLE. */
void stream_end_all(struct rpc_server *server);

/* A unary call that is refused before anybody saw it; takes the call. */
void server_refuse(
	struct rpc_server *server, grpc_call *call, enum rpc_status status, const char *text);
