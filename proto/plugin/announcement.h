/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The answers to the kubelet's plugin watcher (pluginregistration.Registration), which asks which
 * plugin serves the socket and then reports whether it registered it. Calls come on gRPC's thread
 * and are answered there at once, because the watcher waits for one second only; the registration
 * status goes to the main loop.
 */

#include "proto/mailbox.h"
#include "proto/rpc.h"

struct announcement;

/* Called on the main loop when the watcher has registered the socket, or has failed to, with the
 * reason. `label` is the label of the connection. */
typedef void (*announcement_handler)(
	uint64_t label, bool registered, const char *text, void *userdata);

int announcement_new(struct mailbox *mailbox, announcement_handler on_verdict, void *userdata,
	struct announcement **ret);
struct announcement *announcement_free(struct announcement *announcement);

/* Sets the answer to GetInfo from now on; `resource` NULL: this socket is not for the watcher.
 * `endpoint` is the socket's absolute path. Returns 0 or -ENOMEM. */
int announcement_set(struct announcement *announcement, const char *resource, const char *endpoint);

/* The two methods; gRPC's thread. */
void announcement_get_info(struct announcement *announcement, struct rpc_call *call);
void announcement_take_verdict(
	struct announcement *announcement, struct rpc_call *call, const uint8_t *data, size_t size);
