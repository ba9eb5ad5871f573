/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Allocate where programs are asked what containers are given (drivers/allocation-inquiry.h): the
 * calls that wait for them. Each is answered within the time limit of its programs; one that its
 * caller gives up ends them.
 */

#include <systemd/sd-event.h>

#include "proto/mailbox.h"
#include "proto/message.h"
#include "proto/plugin/offer.h"
#include "proto/rpc.h"

/* Calls whose programs run at the same time; others wait for one of these to end. The kubelet makes
 * one after the other, but for containers that it starts anew. */
#define ALLOCATE_RUNNING_MAX 16
/* Calls without an answer, and the bytes of their requests; one alone may have more. */
#define ALLOCATE_CALLS_MAX 256
#define ALLOCATE_BYTES_MAX (4U << 20)

struct allocate;

/* Calls without an answer, the oldest first, and whom to tell what a container was given. */
struct allocates {
	struct allocate *first;
	size_t n_running;
	atomic_size_t n_calls, n_bytes; /* with those that are on their way */
	sd_event *event;                /* the owner's */
	void (*on_allocated)(const char *const *ids, size_t n_ids, void *userdata);
	void *userdata;
};

/* Has an AllocateRequest of `size` bytes answered when all programs have, or refuses one too many.
 * Takes the message, unless it refuses, and a reference of the offer. Any thread. */
void allocate_post(struct allocates *allocates, struct mailbox *mailbox, struct offer *offer,
	struct rpc_call *call, struct message *request, size_t size);

/* Ends the programs of a call that nobody waits for any more, if it has no answer yet. The call was
 * posted before and is not looked into. Any thread. */
void allocate_post_cancel(
	struct allocates *allocates, struct mailbox *mailbox, const struct rpc_call *call);

/* Kills what runs and answers UNAVAILABLE. Main thread. */
void allocates_done(struct allocates *allocates);
