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

struct connection;

/* A method of a connection with the one call that is armed for it. */
struct armed_method {
	struct tag tag;
	struct connection *connection;
	const struct rpc_method *method; /* NULL: any method that is not registered */
	void *registered;
	grpc_call *call;
	gpr_timespec deadline;
	grpc_metadata_array metadata;
	grpc_call_details details; /* of the unregistered one */
	grpc_byte_buffer *payload;
};

/* One connection. It has a server of the core to itself, so that the server at which a call arrives
 * identifies its session: the core does not promise to identify the connection of a call. */
struct connection {
	struct connection *next;
	struct rpc_server *server;
	uint64_t session;
	grpc_server *core;
	int duplicate; /* of the descriptor that the core owns; reports the connection's end */
	sd_event_source *source;
	struct tag end_tag, ended_tag;
	bool adding; /* a thread of its own gives the connection to the core */
	bool ending;
	size_t n_pending; /* tags that the core has not returned */
	struct armed_method methods[];
};

struct rpc_server {
	sd_event *event;
	void *userdata;
	const struct rpc_method *methods;
	size_t n_methods;
	int calls_max;

	pthread_mutex_t lock;    /* protects everything below */
	pthread_cond_t answered; /* n_calls became 0 */
	size_t n_calls;          /* unary calls that are not answered yet */
	struct connection *connections;
	size_t n_connections; /* without those that are ending */
	struct stream *streams;
	grpc_slice newest;
	uint64_t newest_number; /* 0: nothing published yet */
};

/* Makes the core wait for a call of the method. */
void method_arm(struct armed_method *armed);

/* Called by the core's events, for each tag of the connection that is no longer in use. */
void connection_unref(struct connection *connection);

/* The handler of the tag of an armed call. */
void on_new_call(struct tag *tag, bool ok);

/* Makes a broadcast stream of a new call and takes the call. */
void stream_open(struct connection *connection, const struct rpc_method *method, grpc_call *call);

/* With the lock held: sends the newest message, unless one is in flight or it was sent already. */
void stream_push(struct stream *stream);
struct stream *stream_next(struct stream *stream);

/* Refuses a unary call before a handler has it; takes the call. */
void server_refuse(
	struct connection *connection, grpc_call *call, enum rpc_status status, const char *text);
