/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * PreStartContainer: the resource's command runs before a container starts, and its last log line
 * reaches the pod if it fails. A command that uses variables of one device runs once for each
 * device, one after the other; else it runs once. All runs share one time limit. With the wait
 * until the devices are clean, a call is answered within the kubelet's 30 s: if too little time is
 * left for the command, the call fails, and the kubelet retries. A call that its caller cancels
 * ends its command.
 */

#include <systemd/sd-event.h>

#include "drivers/model/claim-values.h"
#include "proto/plugin/device-use.h"
#include "proto/plugin/offer.h"
#include "proto/rpc.h"

struct pre_start;

/* The commands that run now. */
struct pre_starts {
	struct pre_start *first;
};

/* Called once: 0, or negative errno with a sentence for the pod; -ESHUTDOWN: the process is about
 * to end. */
typedef void (*pre_start_handler)(int status, const struct error *error, void *userdata);

/* Calls the handler when the command has ended, which may be at once. `values` are those of the
 * claim, or NULL, and stay valid until then. Main thread. */
void pre_start_run(struct pre_starts *running, sd_event *event, struct offer *offer,
	const char *const *ids, size_t n_ids, const struct claim_values *values,
	pre_start_handler on_end, void *userdata);

/* Answers a PreStartContainer call in the same way, and before that waits until its devices are
 * clean. */
void pre_start_answer(struct pre_starts *running, struct device_uses *uses, struct offer *offer,
	struct rpc_call *call, const char *const *ids, size_t n_ids);

/* Ends the command of a call whose caller has cancelled, if it has no answer yet. The call is not
 * read. */
void pre_starts_cancel(struct pre_starts *running, const struct rpc_call *call);

/* Kills what runs. */
void pre_starts_done(struct pre_starts *running);
