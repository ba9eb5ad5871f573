/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Calls the kubelet over a socket that the caller connected. A channel is one connection, without a
 * resolver, load balancer or reconnects. The client is freed when both its owner and its call have
 * released it, because gRPC's thread may still use the call when the owner frees the client.
 */
#include <grpc/grpc.h>
#include <grpc/grpc_posix.h>
#include <grpc/grpc_security.h>
#include <grpc/slice.h>
#include <grpc/support/alloc.h>
#include <grpc/support/time.h>
#include <pthread.h>
#include <stdatomic.h>
/* Where it exists, it declares the insecure credentials. */
#if __has_include(<grpc/credentials.h>)
	#include <grpc/credentials.h>
#endif

#include "proto/rpc-queue.h"
#include "proto/rpc.h"

struct rpc_client {
	grpc_channel *channel;
	grpc_call *running; /* NULL: none. With the lock held */
	atomic_uint references;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

struct client_call {
	struct tag tag;
	struct rpc_client *client;
	grpc_call *call;
	grpc_metadata_array initial, trailing;
	grpc_byte_buffer *received;
	grpc_status_code status;
	grpc_slice details;
	rpc_result_handler on_result;
	void *userdata;
};

int rpc_client_new(int fd, struct rpc_client **ret)
{
	char retries[] = GRPC_ARG_ENABLE_RETRIES, authority[] = GRPC_ARG_DEFAULT_AUTHORITY,
	     compression[] = GRPC_ARG_ENABLE_PER_MESSAGE_DECOMPRESSION,
	     bandwidth_probe[] = GRPC_ARG_HTTP2_BDP_PROBE,
	     limit[] = GRPC_ARG_MAX_RECEIVE_MESSAGE_LENGTH, name[] = "localhost";
	grpc_arg list[] = {
		{ .type = GRPC_ARG_INTEGER, .key = limit, .value.integer = RPC_REQUEST_MAX },
		{ .type = GRPC_ARG_INTEGER, .key = retries, .value.integer = 0 },
		{ .type = GRPC_ARG_INTEGER, .key = compression, .value.integer = 0 },
		/* Its frames cost both ends a wakeup. */
		{ .type = GRPC_ARG_INTEGER, .key = bandwidth_probe, .value.integer = 0 },
		{ .type = GRPC_ARG_STRING, .key = authority, .value.string = name },
	};
	grpc_channel_args arguments = { .num_args = ARRAY_SIZE(list), .args = list };
	grpc_channel_credentials *credentials;
	struct rpc_client *client = calloc(1, sizeof(*client));

	if (!client) {
		close_fd(fd);
		return -ENOMEM;
	}
	credentials = grpc_insecure_credentials_create();
	client->channel = grpc_channel_create_from_fd(name, fd, credentials, &arguments);
	grpc_channel_credentials_release(credentials);
	atomic_init(&client->references, 1);
	*ret = client;
	return 0;
}

static void client_unref(struct rpc_client *client)
{
	if (atomic_fetch_sub(&client->references, 1) > 1)
		return;
	grpc_channel_destroy(client->channel);
	free(client);
}

static void deliver(const struct client_call *call)
{
	struct rpc_result result = { .status = call->status };
	grpc_slice message = grpc_empty_slice();
	char *text = grpc_slice_to_c_string(call->details);

	result.text = text;
	if (call->status == GRPC_STATUS_OK) {
		if (rpc_read_message(call->received, &message) < 0) {
			result.status = RPC_INTERNAL;
			result.text = "the reply has no message";
		} else {
			result.data = GRPC_SLICE_START_PTR(message);
			result.size = GRPC_SLICE_LENGTH(message);
		}
	}
	call->on_result(&result, call->userdata);
	gpr_free(text);
	grpc_slice_unref(message);
}

static void set_running(struct rpc_client *client, grpc_call *call)
{
	(void)pthread_mutex_lock(&lock);
	client->running = call;
	(void)pthread_mutex_unlock(&lock);
}

static void on_done(struct tag *tag, bool ok)
{
	struct client_call *call = TAG_OWNER(tag, struct client_call, tag);

	/* The handler may start the next call, or make another thread start it. */
	set_running(call->client, NULL);
	deliver(call);
	grpc_metadata_array_destroy(&call->initial);
	grpc_metadata_array_destroy(&call->trailing);
	if (call->received)
		grpc_byte_buffer_destroy(call->received);
	grpc_slice_unref(call->details);
	grpc_call_unref(call->call);
	client_unref(call->client);
	free(call);
}

static grpc_call *core_call_new(struct rpc_client *client, const char *path)
{
	grpc_slice method = grpc_slice_from_copied_string(path);
	grpc_call *call = grpc_channel_create_call(client->channel, NULL, GRPC_PROPAGATE_DEFAULTS,
		rpc_queue(), method, NULL, gpr_inf_future(GPR_CLOCK_MONOTONIC), NULL);

	grpc_slice_unref(method);
	return call;
}

static void call_start(struct client_call *call, const uint8_t *data, size_t size)
{
	grpc_slice request = grpc_slice_from_copied_buffer((const char *)data, size);
	grpc_byte_buffer *payload = grpc_raw_byte_buffer_create(&request, 1);
	grpc_op ops[] = {
		{ .op = GRPC_OP_SEND_INITIAL_METADATA },
		{ .op = GRPC_OP_SEND_MESSAGE, .data.send_message.send_message = payload },
		{ .op = GRPC_OP_SEND_CLOSE_FROM_CLIENT },
		{ .op = GRPC_OP_RECV_INITIAL_METADATA,
			.data.recv_initial_metadata.recv_initial_metadata = &call->initial },
		{ .op = GRPC_OP_RECV_MESSAGE, .data.recv_message.recv_message = &call->received },
		{ .op = GRPC_OP_RECV_STATUS_ON_CLIENT,
			.data.recv_status_on_client = {
				.trailing_metadata = &call->trailing,
				.status = &call->status,
				.status_details = &call->details,
			} },
	};
	grpc_call_error e =
		grpc_call_start_batch(call->call, ops, ARRAY_SIZE(ops), &call->tag, NULL);

	/* Batches are refused only when they are malformed, which no input can cause. */
	assert(e == GRPC_CALL_OK);
	(void)e;
	grpc_slice_unref(request);
	grpc_byte_buffer_destroy(payload);
}

int rpc_client_call(struct rpc_client *client, const char *path, const uint8_t *data, size_t size,
	rpc_result_handler on_result, void *userdata)
{
	struct client_call *call = calloc(1, sizeof(*call));

	if (!call)
		return -ENOMEM;
	call->tag.on_event = on_done;
	call->client = client;
	call->details = grpc_empty_slice();
	call->on_result = on_result;
	call->userdata = userdata;
	grpc_metadata_array_init(&call->initial);
	grpc_metadata_array_init(&call->trailing);
	call->call = core_call_new(client, path);
	set_running(client, call->call);
	atomic_fetch_add(&client->references, 1);
	call_start(call, data, size);
	return 0;
}

struct rpc_client *rpc_client_free(struct rpc_client *client)
{
	if (!client)
		return NULL;
	(void)pthread_mutex_lock(&lock);
	if (client->running)
		(void)grpc_call_cancel(client->running, NULL);
	(void)pthread_mutex_unlock(&lock);
	client_unref(client);
	return NULL;
}
