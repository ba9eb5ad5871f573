/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * How a service answers calls, on gRPC's thread. `userdata` is the service.
 */

#include <pthread.h>
#include <stdatomic.h>

#include "proto/plugin/service.h"

struct service {
	struct rpc_server *server;
	struct mailbox *mailbox;
	struct announcement *announcement;
	const struct service_events *events;
	void *userdata;
	atomic_uint_fast64_t busy_since;

	pthread_mutex_t lock;
	struct offer *offer;
};

/* GetDevicePluginOptions */
void service_on_options(struct rpc_call *call, const uint8_t *data, size_t size, void *userdata);

/* Allocate. Where programs are asked first, the call goes to the main loop. */
void service_on_allocate(struct rpc_call *call, const uint8_t *data, size_t size, void *userdata);

/* GetPreferredAllocation */
void service_on_preferred(struct rpc_call *call, const uint8_t *data, size_t size, void *userdata);

/* PreStartContainer. Where there is a program to run, the call goes to the main loop. */
void service_on_pre_start(struct rpc_call *call, const uint8_t *data, size_t size, void *userdata);
