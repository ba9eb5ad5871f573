/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Allocate where programs add to what containers get (drivers/allocation/allocation-inquiry.h): the
 * calls that wait for them. Each is answered within the time limit of its programs; a call that its
 * caller cancels ends its programs.
 */

#include <systemd/sd-event.h>

#include "drivers/model/bookings.h"
#include "proto/mailbox.h"
#include "proto/message.h"
#include "proto/plugin/offer.h"
#include "proto/rpc.h"

/* Calls whose programs run at the same time; others wait for one of these to end. The kubelet makes
 * one call after the other, except for containers that it restarts. */
#define ALLOCATE_RUNNING_MAX 16
/* Calls without an answer, and the bytes of their requests; one alone may have more. */
#define ALLOCATE_CALLS_MAX 256
#define ALLOCATE_BYTES_MAX (4U << 20)

struct allocate;

/* Calls without an answer, the oldest first, and the handler that notes allocations. */
struct allocates {
	struct allocate *first;
	size_t n_running;
	atomic_size_t n_calls, n_bytes; /* with those that are on their way */
	sd_event *event;                /* the owner's */
	void (*on_allocated)(const char *const *ids, size_t n_ids, void *userdata);
	/* What the calls without an answer ask for has changed; NULL: there is no such call. Takes
	 * a reference. */
	void (*on_pending)(struct bookings *pending, void *userdata);
	void *userdata;
};

/* Answers an AllocateRequest of `size` bytes when all programs have, or refuses it if there are too
 * many. Takes the message, unless it refuses, and a reference of the offer. Any thread. */
void allocate_post(struct allocates *allocates, struct mailbox *mailbox, struct offer *offer,
	struct rpc_call *call, struct message *request, size_t size);

/* Ends the programs of a call whose caller has cancelled, if it has no answer yet. The call was
 * posted before and is not read. Any thread. */
void allocate_post_cancel(
	struct allocates *allocates, struct mailbox *mailbox, const struct rpc_call *call);

/* Kills what runs and answers UNAVAILABLE. Main thread. */
void allocates_done(struct allocates *allocates);
