/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Shared by the two files of the registrar: registrar.c manages the connections to kubelet.sock,
 * and register-call.c the calls on them.
 */

#include <pthread.h>

#include "kubelet/registrar.h"
#include "proto/rpc.h"

struct register_call {
	struct register_request request;
	struct mailbox_message base;
	struct registrar *registrar;
	struct register_call *next, *next_held;
	struct rpc_call *call; /* NULL after the registrar was freed */
	uint8_t *data;
	size_t size;
};

/* A server and the number of its callers. */
struct slot {
	struct rpc_server *server;
	unsigned n_callers;
};

/* A connection to kubelet.sock. */
struct caller {
	struct registrar *registrar;
	struct caller *next;
	uint64_t number;
	size_t slot;
	int duplicate; /* notices when the caller hangs up */
	sd_event_source *source;
};

struct registrar {
	struct manager *manager;
	int fd;
	sd_event_source *listen_source, *pause_source;
	struct slot *slots;
	size_t n_slots;
	struct caller *callers;
	uint64_t last_caller;
	struct register_call *held; /* by a fault */

	pthread_mutex_t lock; /* below: shared with gRPC's thread */
	bool stopping;
	struct register_call *requests;
};

/* The service's method; on gRPC's thread, `userdata` is the registrar. */
void register_call_arrive(struct rpc_call *call, const uint8_t *data, size_t size, void *userdata);

/* Answers all calls, because servers end only then, and refuses new ones. The owners of the
 * requests free them. */
void register_calls_stop(struct registrar *registrar);
