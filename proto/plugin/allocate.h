/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Handles Allocate calls that wait for programs which add to containers
 * (drivers/allocation/allocation-inquiry.h), or for the supervisor to save that devices are in use
 * (proto/plugin/device-use.h). Each is answered within the time limit of its
 * programs; a call that its caller cancels ends its programs.
 */

#include <systemd/sd-event.h>

#include "drivers/model/bookings.h"
#include "proto/mailbox.h"
#include "proto/message.h"
#include "proto/plugin/device-use.h"
#include "proto/plugin/offer.h"
#include "proto/rpc.h"

/* Calls whose programs run at the same time; others wait for one of these to end. The kubelet makes
 * one call after the other, except for containers that it restarts. */
#define ALLOCATE_RUNNING_MAX 16
/* Maximum number of calls without an answer, and of bytes in their requests; a single request may
 * be larger. */
#define ALLOCATE_CALLS_MAX 256
#define ALLOCATE_BYTES_MAX (4U << 20)

struct allocate;

/* The calls without an answer, the oldest first, and the handler that records allocations. */
struct allocates {
	struct allocate *first;
	size_t n_running;
	atomic_size_t n_calls, n_bytes; /* including calls that were posted and not delivered yet */
	sd_event *event;                /* the owner's */
	struct device_uses *uses;       /* the owner's */
	void (*on_allocated)(const char *const *ids, size_t n_ids, void *userdata);
	void (*on_refused)(const char *const *ids, size_t n_ids, void *userdata);
	/* Called when the set of ids in unanswered calls has changed; NULL: there is no such call.
	 * Takes a reference. */
	void (*on_pending)(struct bookings *pending, void *userdata);
	void *userdata;
};

/* Answers an AllocateRequest of `size` bytes when all programs have, or refuses it if there are too
 * many. Takes the message, unless it refuses, and a reference of the offer. Any thread. */
void allocate_post(struct allocates *allocates, struct mailbox *mailbox, struct offer *offer,
	struct rpc_call *call, struct message *request, size_t size);

/* Ends the programs of a call whose caller has cancelled, if it has no answer yet. The call is not
 * read. Main thread. */
void allocates_cancel(struct allocates *allocates, const struct rpc_call *call);

/* Kills the running programs and answers UNAVAILABLE. Main thread. */
void allocates_done(struct allocates *allocates);
