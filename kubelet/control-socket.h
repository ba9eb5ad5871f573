/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The socket through which the other commands talk to the running kubelet: one request and one
 * reply for each connection, JSON objects on one line each. A failure is {"error": text}.
 */

#include "kubelet/kubelet-manager.h"

#define CONTROL_SOCKET_NAME "control"
#define REQUEST_MAX         (1U << 20)

struct control_request;

/* Listens in the state directory, which is made if it is missing. */
int control_new(struct manager *manager, struct control **ret, struct error *error);
struct control *control_free(struct control *control);

/* Replies and forgets the request; takes the reply. NULL: no memory. */
void control_reply(struct control_request *request, json_t *reply);
_printf_(2, 3) void control_fail(struct control_request *request, const char *format, ...);

/* Replies to the request once each resource in `wanted` has that many allocatable devices, or after
 * `timeout` microseconds: {"reached": bool, "resources": {...}}. */
int control_wait(struct control_request *request, json_t *wanted, uint64_t timeout);

/* Checks whether a request waits for the new state of the model. */
void control_changed(struct control *control);
