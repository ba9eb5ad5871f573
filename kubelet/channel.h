/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * A kubelet's connection to a plugin or a DRA driver: calls, streams, and cancelling them. Handlers
 * run on the thread of the gRPC binding.
 */

#include "proto/rpc.h"

struct channel;

/* Calls the peer of a connected, non-blocking stream socket; takes the descriptor, also on failure.
 * `authority` is the :authority of calls; NULL means "localhost". */
int channel_new(int fd, const char *authority, struct channel **ret);

/* Calls a unary method; `on_result` is called once. `timeout` in microseconds, 0: none. */
int channel_call(struct channel *channel, const char *path, const uint8_t *data, size_t size,
	uint64_t timeout, rpc_result_handler on_result, void *userdata);

/* Calls a server-streaming method; `on_message` for each message, then `on_result` once (data is
 * NULL). */
typedef void (*channel_message_handler)(const uint8_t *data, size_t size, void *userdata);
int channel_stream(struct channel *channel, const char *path, const uint8_t *data, size_t size,
	channel_message_handler on_message, rpc_result_handler on_result, void *userdata);

/* Cancels the calls that were started with this `userdata`, as RST_STREAM does; their on_result is
 * called with RPC_CANCELLED unless they are over. The connection stays. */
void channel_cancel(struct channel *channel, const void *userdata);

/* Cancels what is outstanding (handlers are called with RPC_CANCELLED) and closes the connection.
 * Does not wait: handlers may run until rpc_stop() returns. Returns NULL. */
struct channel *channel_free(struct channel *channel);
