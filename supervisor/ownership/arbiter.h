/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Collects what children claim, decides whose each device is (ownership.h), and answers them. A
 * child that asks waits for the answer before it offers its devices. Later it is sent an update
 * when a device becomes another resource's, or its own again. The claims of a resource stay in
 * force while its child is replaced. Claims that would exceed CLAIMS_MAX or CLAIMS_BYTES_MAX,
 * together with those of all other resources, are refused, unless they are within an equal share
 * of it; the resource's previous ones stay in force, and its child claims again later.
 */

#include <systemd/sd-event.h>

#include "common/util.h"

/* A child is not answered before the resources before it, and those with booked devices, have sent
 * their claims, so that no device is offered twice even for a moment; but none waits longer than
 * this. */
#define ARBITER_TIMEOUT (2 * USEC_PER_SEC)

struct bookings;
struct arbiter;  /* one for all resources */
struct claimant; /* one resource */

/* What the arbiter needs of the resource's process and state. */
struct claimant_operations {
	/* Sends the answer to the claims of that number; `fd`: the devices of other resources, as
	 * CONTROL_OWNERS has them, or -EBADF; `refusal`: why the claims are not accepted, or empty.
	 * Returns 0 or negative errno, after which the arbiter tries again. */
	int (*answer)(uint64_t number, int fd, const char *refusal, void *userdata);
	/* Whether the child is about to report what it found. */
	bool (*is_starting)(void *userdata);
	/* The child sent claims that are not valid. */
	void (*on_malformed)(void *userdata);
	/* What claimant_note() returns has changed. */
	void (*on_note)(void *userdata);
};

/* Both return 0 or -ENOMEM. The name and `userdata` must outlive the claimant. */
int arbiter_new(sd_event *event, struct arbiter **ret);
int arbiter_add(struct arbiter *arbiter, const char *resource,
	const struct claimant_operations *operations, void *userdata, struct claimant **ret);

/* Decides again soon: called when anything has changed that ownership depends on. */
void arbiter_decide(struct arbiter *arbiter);

/* Decides nothing any more. */
void arbiter_stop(struct arbiter *arbiter);

struct arbiter *arbiter_free(struct arbiter *arbiter);
DEFINE_CLEANUP(struct arbiter *, arbiter_free)

/* The place of the resource in the configuration, and whether it shares devices with others that
 * set `overlap`, too. */
void claimant_set_rank(struct claimant *claimant, size_t rank);
void claimant_set_overlap(struct claimant *claimant, bool overlap);

/* Sets what the kubelet has booked of the resource, of which a reference is taken: other resources
 * do not offer devices that pods have. */
void claimant_set_booked(struct claimant *claimant, struct bookings *booked);

/* Takes a descriptor with the child's claims, and their number; it is read later. */
void claimant_submit(struct claimant *claimant, int fd, uint64_t number);

/* Whether the child waits for an answer. */
bool claimant_is_waiting(const struct claimant *claimant);

/* What people should know of the claims of the resource, or NULL. */
const char *claimant_note(const struct claimant *claimant);

/* The process has ended; its claims stay its resource's. */
void claimant_end_process(struct claimant *claimant);

/* The resource has no devices. */
void claimant_drop_claims(struct claimant *claimant);

/* Its devices are free for others. */
struct claimant *claimant_free(struct claimant *claimant);
DEFINE_CLEANUP(struct claimant *, claimant_free)
