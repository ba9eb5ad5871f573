/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Inside of service: how it answers calls, on gRPC's thread. `userdata` is the service.
 */

#include <pthread.h>
#include <stdatomic.h>

#include "proto/plugin/service.h"

/* Maximum number of containers of an Allocate; a kubelet sends one. */
#define SERVICE_CONTAINERS_MAX 1024

struct service {
	struct rpc_server *server;
	struct mailbox *mailbox;
	const struct service_events *events;
	void *userdata;
	atomic_uint_fast64_t busy_since;

	pthread_mutex_t lock;
	struct offer *offer;
	/* Allocate calls that the main loop does not know of yet, the oldest first. */
	struct ids_message *unsettled, **unsettled_end;

	bool offer_owed; /* main thread: one waits for them */
};

/* Whether the snapshot lacks a listed device that a call has got without the main loop's
 * knowledge. The lock is held. */
bool service_drops_unsettled(const struct service *service, const struct snapshot *snapshot);

/* GetDevicePluginOptions */
void service_on_options(struct rpc_call *call, const uint8_t *data, size_t size, void *userdata);

/* Allocate. If programs run first, the call goes to the main loop. */
void service_on_allocate(struct rpc_call *call, const uint8_t *data, size_t size, void *userdata);

/* GetPreferredAllocation */
void service_on_preferred(struct rpc_call *call, const uint8_t *data, size_t size, void *userdata);

/* PreStartContainer. If there is a program to run, the call goes to the main loop. */
void service_on_pre_start(struct rpc_call *call, const uint8_t *data, size_t size, void *userdata);
