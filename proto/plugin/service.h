/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The DevicePlugin service: answers the kubelet's calls from the current offer, inline on gRPC's
 * thread. Work that takes time (PreStartContainer, programs at Allocate) or changes state (counting
 * allocations) goes to the main loop as a message.
 */

#include "proto/mailbox.h"
#include "proto/message.h"
#include "proto/plugin/offer.h"
#include "proto/rpc.h"

struct service;

/* The service's events, called in the main loop. */
struct service_events {
	/* The kubelet opened or closed a ListAndWatch stream on a connection of that label. */
	void (*on_stream)(uint64_t label, bool opened, void *userdata);
	/* Devices went to a container; offered ids. */
	void (*on_allocated)(const char *const *ids, size_t n_ids, void *userdata);
	/* A call for these offered ids was refused, some of which may be readmitted. */
	void (*on_refused)(const char *const *ids, size_t n_ids, void *userdata);
	/* Called after service_offer() has returned -EBUSY. */
	void (*on_offer_possible)(void *userdata);
	/* A container is about to start: the callee answers the call, now or later. */
	void (*on_pre_start)(
		struct rpc_call *call, const char *const *ids, size_t n_ids, void *userdata);

	/* The caller no longer waits for the answer to one of these calls. It is to be answered all
	 * the same, if that is not done, and is not read. */
	void (*on_cancelled)(const struct rpc_call *call, void *userdata);

	/* Called on gRPC's thread, with the mailbox of the loop, if programs add to containers: the
	 * callee answers the AllocateRequest of `size` bytes later, and may take it. */
	void (*on_allocate)(struct mailbox *mailbox, struct offer *offer, struct rpc_call *call,
		struct message *request, size_t size, void *userdata);
};

/* Starts gRPC and serves; `events` are called with `userdata` from the loop of `event`. */
int service_new(
	sd_event *event, const struct service_events *events, void *userdata, struct service **ret);

/* Offers this from now on; the list is sent if its bytes differ from the last one sent. Takes its
 * own reference. Returns 1 if a list was sent, 0 if not, -EBUSY if it lacks a device that is
 * allocated at this moment (on_offer_possible() follows on_allocated()), or negative errno. */
int service_offer(struct service *service, struct offer *offer);

/* Sends the last list again, if there was any. Returns 1, 0 or -ENOMEM. */
int service_list_again(struct service *service);

/* The current offer as a new reference, or NULL before the first. */
struct offer *service_current(struct service *service);

/* The server, to add connections with a label of the caller's choice as their session. */
struct rpc_server *service_server(struct service *service);

/* The CLOCK_MONOTONIC microsecond at which the handler that runs now was entered; 0 if none runs.
 */
uint64_t service_busy_since(struct service *service);

/* Waits at most `grace` microseconds for the answers to calls. It is the last call before _exit():
 * nothing is freed, and no event follows. Calls passed to on_pre_start() and on_allocate() must
 * have been answered. */
void service_stop(struct service *service, uint64_t grace);
