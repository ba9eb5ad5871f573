/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Passes messages from gRPC's thread to the main loop: messages that any thread posts are
 * delivered, in order, on the thread that runs the sd-event loop. Wakes the loop once per burst.
 */

#include <systemd/sd-event.h>

#include "common/util.h"

struct mailbox;

/* To be embedded as the first member of a posted structure. `deliver` owns the message and frees
 * it. `userdata` is NULL for a message that arrives after mailbox_close(), so that it can still be
 * freed. */
struct mailbox_message {
	struct mailbox_message *next;
	void (*deliver)(struct mailbox_message *posted, void *userdata);
};

/* `userdata` (not NULL) is passed to every message's deliver(). */
int mailbox_new(sd_event *event, void *userdata, struct mailbox **ret);

/* Posts a message; never fails, never blocks. */
void mailbox_post(struct mailbox *mailbox, struct mailbox_message *posted);

/* Delivers all waiting messages, and from now on every message at once on the poster's thread, with
 * `userdata` NULL. */
void mailbox_close(struct mailbox *mailbox);

/* Frees the mailbox. No other thread may post any longer: stop the other threads first
 * (rpc_stop()). */
struct mailbox *mailbox_free(struct mailbox *mailbox);
DEFINE_CLEANUP(struct mailbox *, mailbox_free)
