/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Makes the calls of a case to the plugin, on the kubelet's own connection. As in the kubelet, a
 * call itself has no time limit; the run's limit cancels calls that are not answered.
 */

#include "kubelet/conformance/trial.h"

#include <protobuf-c/protobuf-c.h>

struct call;

struct reply {
	int status; /* enum rpc_status, -ETIMEDOUT: none came, -ENOTCONN: there is no plugin */
	char text[256];
	uint8_t *data; /* NULL on failure */
	size_t size;
};
void reply_done(struct reply *reply);
#define _cleanup_reply_ _cleanup_(reply_done)

/* The full name of a method of the version that the kubelet has chosen. Returns the buffer, of
 * CALL_METHOD_MAX. */
#define CALL_METHOD_MAX 96
const char *call_dra_method(const struct trial *trial, const char *name, char *buffer);

/* Begins a call; NULL: no connection. */
struct call *call_start(struct trial *trial, const char *method, const void *data, size_t size);
void call_cancel(struct trial *trial, struct call *call);

/* Whether the answer has arrived. */
bool call_is_done(struct call *call);

/* Returns the answer, which must have arrived; frees the call. */
void call_take(struct call *call, struct reply *ret);

/* Cancels the call, which frees itself. */
void call_abandon(struct trial *trial, struct call *call);

/* Start, wait, take. */
void call_bytes(struct trial *trial, const char *method, const void *data, size_t size,
	uint64_t limit, struct reply *ret);
/* The same with the limit as the deadline of the call, as kubelets send it with claims. */
void call_with_deadline(struct trial *trial, const char *method, const void *data, size_t size,
	uint64_t limit, struct reply *ret);
void call_message(struct trial *trial, const char *method, const ProtobufCMessage *request,
	struct reply *ret);

/* Checks that the plugin still works: the stream of the resource is open and a call is answered. If
 * not, returns another result than OUTCOME_OK, with a message. */
enum outcome trial_check_alive(struct trial *trial, const char *after);
