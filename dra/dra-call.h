/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Calls of the kubelet for claims. The claims of a call, and of different calls, are handled side
 * by side: each waits for devplugd on its own. The API server is asked for up to eight claims at a
 * time, and for one while it fails.
 *
 * A kubelet repeats a failed preparation after a minute or more. So claims wait during the call for
 * what passes: another claim has the device, a process starts, the API server is away. A claim that
 * waits holds nothing, and a call that is cancelled, or an unprepare of the claim, ends
 * the wait.
 */

#include <jansson.h>
#include <stdatomic.h>
#include <systemd/sd-event.h>

#include "common/control-cluster.h"
#include "dra.pb-c.h"
#include "dra/dra-api.h"
#include "proto/mailbox.h"
#include "proto/message.h"
#include "proto/rpc.h"

struct dra_calls;
struct dra_node_options;

/* How many claims a call may have, and how many calls of each kind may wait. */
#define DRA_CALL_CLAIMS_MAX 1024
#define DRA_CALLS_MAX       256

/* The result of one claim of a call. */
struct dra_outcome {
	json_t *devices;
	char *failure;
};

/* v1beta1 of the service has no field for the id of a share. */
enum dra_call_kind { DRA_CALL_PREPARE, DRA_CALL_PREPARE_BETA, DRA_CALL_UNPREPARE };

struct dra_call {
	struct mailbox_message base;
	struct dra_call *next;
	atomic_size_t *counter; /* of the calls of its kind that wait */
	struct rpc_call *call;
	enum dra_call_kind kind;
	bool prepare;
	bool cancelled;      /* no kubelet gets the answer */
	uint64_t arrived_at; /* CLOCK_MONOTONIC */
	uint64_t until;      /* when all claims have their outcome, before the kubelet gives up */
	struct message message;
	Dra__Claim **claims; /* in the message */
	size_t n_claims;
	size_t n_begun, n_open, n_waiting;
	struct dra_outcome *outcomes;
};

/* Reads a request, on any thread, and takes a place in the counter. NULL: the call is answered with
 * the reason. */
struct dra_call *dra_call_new(struct rpc_call *rpc, enum dra_call_kind kind, const uint8_t *data,
	size_t size, atomic_size_t *counter);

/* Sends the outcomes of all claims, or fails as a whole. Both free the call. */
void dra_call_answer(struct dra_call *call);
void dra_call_fail(struct dra_call *call, enum rpc_status status, const char *text);

int dra_calls_new(const struct dra_node_options *options, struct dra_calls **ret);

/* Takes the call, and answers it in time for the kubelet. */
void dra_calls_add(struct dra_calls *calls, struct dra_call *call);

/* The caller no longer waits for the call, which may have been answered already. */
void dra_calls_cancel(struct dra_calls *calls, const struct rpc_call *rpc);

/* A CLUSTER_HELD has replaced the UIDs of claims; those of questions that it has crossed are added.
 * Claims may wait for what has changed. */
void dra_calls_held_changed(struct dra_calls *calls);

/* Takes a CLUSTER_PREPARED. */
void dra_calls_take_prepared(struct dra_calls *calls, struct control_message *message);

/* Fails all calls, for the end of the process. */
void dra_calls_stop(struct dra_calls *calls);
