/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * What children claim, and what they are told of it (ownership.h). A child that asks waits for the
 * answer before it offers its devices; later it is told when something becomes another's, or its
 * own again. What a child claimed stays in force while it is started anew.
 */

#include "child.h"
#include "common/control.h"

/* A child is not answered before those of resources before it have said what they found, so that
 * no device is offered twice even for a moment; but none waits longer for that. */
#define CLAIMS_PATIENCE (2 * USEC_PER_SEC)

/* Takes what the child claims out of a message; it is read when it is its turn. */
void child_claim(struct child *child, struct control_message *message);

/* The process is gone; what it claimed stays its resource's. */
void child_claims_forget(struct child *child);

/* Something has changed that whose a device is may depend on: decides anew, soon. */
void manager_decide_owners(struct manager *manager);

/* A resource that could not take up its configuration has no devices. */
void manager_drop_claims_of_failed(struct manager *manager);
