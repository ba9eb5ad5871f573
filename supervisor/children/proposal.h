/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The files that a resource wants published, on their way to published-files.h: the newest proposal
 * of its child, at a bounded rate, and the answer for which the child waits before it offers the
 * devices.
 */

#include <systemd/sd-event.h>

#include "common/util.h"

struct published;
struct proposal;
struct resource;

/* Answers the proposal of that number; `why`: why nothing was published, or empty. Returns 0 or
 * negative errno; -EAGAIN is tried again. */
typedef int (*proposal_answer_t)(uint64_t number, const char *why, void *userdata);

/* Returns 0 or -ENOMEM. The resource must outlive it. */
int proposal_new(sd_event *event, struct published *published, const struct resource *resource,
	proposal_answer_t answer, void *userdata, struct proposal **ret);

/* Takes a descriptor with the files, and the number of the proposal. */
void proposal_submit(struct proposal *proposal, int fd, uint64_t number);

/* The directories have changed, or a file is damaged: publishes the newest proposal again. */
void proposal_publish_again(struct proposal *proposal);

/* The child has accepted another configuration: a proposal that waits is of an earlier one. */
void proposal_drop_pending(struct proposal *proposal);

/* Why the newest proposal could not be published, until the call to `answer` that follows a
 * success; NULL: it could, or there is none. Valid until the next proposal. */
const char *proposal_failure(const struct proposal *proposal);

/* The process has ended; its files stay. */
void proposal_end_process(struct proposal *proposal);

struct proposal *proposal_free(struct proposal *proposal);
DEFINE_CLEANUP(struct proposal *, proposal_free)
