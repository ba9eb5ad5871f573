/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * PreStartContainer: the resource's command runs before a container starts, and its last words
 * reach the pod if it fails. A command that uses variables of one device runs once for each device,
 * one after the other; else it runs once. All of it shares one time limit, below the kubelet's 30
 * s.
 */

#include <systemd/sd-event.h>

#include "proto/plugin/offer.h"
#include "proto/rpc.h"

struct pre_start;

/* The commands that run now. */
struct pre_starts {
	struct pre_start *first;
};

/* Answers the call when the command has ended. Main thread. */
void pre_start_run(struct pre_starts *running, sd_event *event, struct offer *offer,
	struct rpc_call *call, const char *const *ids, size_t n_ids);

/* Kills what runs and answers UNAVAILABLE. */
void pre_starts_done(struct pre_starts *running);
