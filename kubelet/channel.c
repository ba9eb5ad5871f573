/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Calls a plugin as a kubelet does: many calls at a time, streams, and calls that are cancelled.
 * devplugd itself needs less (proto/client.c). A call is freed when all its batches have completed,
 * and the channel after its last call.
 */
#include "kubelet/channel.h"

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

#include "common/kubelet.h"
#include "proto/rpc-queue.h"

struct channel_call {
	struct channel_call *next;
	struct channel *channel;
	grpc_call *call;
	struct tag sent_tag, message_tag, status_tag;
	atomic_uint pending; /* batches that have not come back */
	grpc_metadata_array initial, trailing;
	grpc_byte_buffer *received;
	grpc_status_code status;
	grpc_slice details;
	channel_message_handler on_message; /* NULL: unary */
	rpc_result_handler on_result;
	void *userdata;
};

struct channel {
	grpc_channel *core;
	pthread_mutex_t lock;
	struct channel_call *calls;
	bool freed;
};

int channel_new(int fd, const char *name, struct channel **ret)
{
	char retries[] = GRPC_ARG_ENABLE_RETRIES, authority[] = GRPC_ARG_DEFAULT_AUTHORITY,
	     compression[] = GRPC_ARG_ENABLE_PER_MESSAGE_DECOMPRESSION,
	     limit[] = GRPC_ARG_MAX_RECEIVE_MESSAGE_LENGTH;
	grpc_arg list[] = {
		{ .type = GRPC_ARG_INTEGER, .key = limit, .value.integer = KUBELET_MESSAGE_MAX },
		{ .type = GRPC_ARG_INTEGER, .key = retries, .value.integer = 0 },
		{ .type = GRPC_ARG_INTEGER, .key = compression, .value.integer = 0 },
		{ .type = GRPC_ARG_STRING,
			.key = authority,
			.value.string = (char *)(uintptr_t)(name ? name : "localhost") },
	};
	grpc_channel_args arguments = { .num_args = ARRAY_SIZE(list), .args = list };
	grpc_channel_credentials *credentials;
	struct channel *channel;

	channel = calloc(1, sizeof(*channel));
	if (!channel) {
		close_fd(fd);
		return -ENOMEM;
	}
	(void)pthread_mutex_init(&channel->lock, NULL);
	credentials = grpc_insecure_credentials_create();
	channel->core =
		grpc_channel_create_from_fd(name ? name : "localhost", fd, credentials, &arguments);
	grpc_channel_credentials_release(credentials);
	*ret = channel;
	return 0;
}

static void channel_destroy(struct channel *channel)
{
	grpc_channel_destroy(channel->core);
	(void)pthread_mutex_destroy(&channel->lock);
	free(channel);
}

static void call_done(struct channel_call *call)
{
	struct channel *channel = call->channel;
	bool last;

	(void)pthread_mutex_lock(&channel->lock);
	for (struct channel_call **c = &channel->calls; *c; c = &(*c)->next)
		if (*c == call) {
			*c = call->next;
			break;
		}
	last = channel->freed && !channel->calls;
	(void)pthread_mutex_unlock(&channel->lock);

	grpc_metadata_array_destroy(&call->initial);
	grpc_metadata_array_destroy(&call->trailing);
	if (call->received)
		grpc_byte_buffer_destroy(call->received);
	grpc_slice_unref(call->details);
	grpc_call_unref(call->call);
	free(call);
	if (last)
		channel_destroy(channel);
}

static void finish(struct channel_call *call)
{
	struct rpc_result result = { .status = call->status };
	grpc_slice message = grpc_empty_slice();
	char *text = grpc_slice_to_c_string(call->details);

	result.text = text;
	if (call->status == GRPC_STATUS_OK && !call->on_message) {
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
	call_done(call);
}

static void batch_done(struct channel_call *call)
{
	if (atomic_fetch_sub(&call->pending, 1) == 1)
		finish(call);
}

static void on_sent(struct tag *tag, bool ok)
{
	batch_done(TAG_OWNER(tag, struct channel_call, sent_tag));
}

static void on_status(struct tag *tag, bool ok)
{
	batch_done(TAG_OWNER(tag, struct channel_call, status_tag));
}

static void start(struct channel_call *call, const grpc_op *ops, size_t n, struct tag *tag)
{
	grpc_call_error e = grpc_call_start_batch(call->call, ops, n, tag, NULL);

	/* Batches are refused only when they are malformed, which no input can cause. */
	assert(e == GRPC_CALL_OK);
	(void)e;
}

static void receive_next(struct channel_call *call)
{
	grpc_op op = { .op = GRPC_OP_RECV_MESSAGE };

	op.data.recv_message.recv_message = &call->received;
	start(call, &op, 1, &call->message_tag);
}

/* Once the channel is freed the queue may be shut down, and a batch that is started then aborts. */
static void receive_more(struct channel_call *call)
{
	struct channel *channel = call->channel;

	(void)pthread_mutex_lock(&channel->lock);
	if (!channel->freed) {
		atomic_fetch_add(&call->pending, 1);
		receive_next(call);
	}
	(void)pthread_mutex_unlock(&channel->lock);
}

static void on_message(struct tag *tag, bool ok)
{
	struct channel_call *call = TAG_OWNER(tag, struct channel_call, message_tag);
	grpc_byte_buffer *received = TAKE_PTR(call->received);
	grpc_slice message;

	/* No buffer: the stream has ended, and the status has the reason. */
	if (ok && received) {
		if (rpc_read_message(received, &message) < 0)
			(void)grpc_call_cancel(call->call, NULL);
		else {
			call->on_message(GRPC_SLICE_START_PTR(message), GRPC_SLICE_LENGTH(message),
				call->userdata);
			grpc_slice_unref(message);
		}
		receive_more(call);
	}
	if (received)
		grpc_byte_buffer_destroy(received);
	batch_done(call);
}

static void start_unary(struct channel_call *call, grpc_op ops[static 6], size_t n, grpc_op status)
{
	ops[n].op = GRPC_OP_RECV_MESSAGE;
	ops[n++].data.recv_message.recv_message = &call->received;
	ops[n++] = status;
	atomic_init(&call->pending, 1);
	start(call, ops, n, &call->sent_tag);
}

static void start_stream(
	struct channel_call *call, const grpc_op ops[static 6], size_t n, grpc_op status)
{
	atomic_init(&call->pending, 3);
	start(call, &status, 1, &call->status_tag);
	start(call, ops, n, &call->sent_tag);
	receive_next(call);
}

static struct channel_call *call_new(struct channel *channel, const char *path, uint64_t timeout)
{
	struct channel_call *call = calloc(1, sizeof(*call));
	gpr_timespec deadline = gpr_inf_future(GPR_CLOCK_MONOTONIC);
	grpc_slice method;

	if (!call)
		return NULL;
	if (timeout > 0)
		deadline = gpr_time_add(gpr_now(GPR_CLOCK_MONOTONIC),
			gpr_time_from_micros((int64_t)timeout, GPR_TIMESPAN));
	call->channel = channel;
	call->sent_tag.on_event = on_sent;
	call->message_tag.on_event = on_message;
	call->status_tag.on_event = on_status;
	call->details = grpc_empty_slice();
	grpc_metadata_array_init(&call->initial);
	grpc_metadata_array_init(&call->trailing);
	method = grpc_slice_from_copied_string(path);
	call->call = grpc_channel_create_call(channel->core, NULL, GRPC_PROPAGATE_DEFAULTS,
		rpc_queue(), method, NULL, deadline, NULL);
	grpc_slice_unref(method);

	(void)pthread_mutex_lock(&channel->lock);
	call->next = channel->calls;
	channel->calls = call;
	(void)pthread_mutex_unlock(&channel->lock);
	return call;
}

static int call_start(struct channel *channel, const char *path, const uint8_t *data, size_t size,
	uint64_t timeout, channel_message_handler on_each, rpc_result_handler on_result,
	void *userdata)
{
	struct channel_call *call = call_new(channel, path, timeout);
	grpc_op ops[6] = {}, status = { .op = GRPC_OP_RECV_STATUS_ON_CLIENT };
	grpc_byte_buffer *payload;
	grpc_slice request;
	size_t n = 0;

	if (!call)
		return -ENOMEM;
	call->on_message = on_each;
	call->on_result = on_result;
	call->userdata = userdata;
	request = grpc_slice_from_copied_buffer((const char *)data, size);
	payload = grpc_raw_byte_buffer_create(&request, 1);
	ops[n++].op = GRPC_OP_SEND_INITIAL_METADATA;
	ops[n].op = GRPC_OP_SEND_MESSAGE;
	ops[n++].data.send_message.send_message = payload;
	ops[n++].op = GRPC_OP_SEND_CLOSE_FROM_CLIENT;
	ops[n].op = GRPC_OP_RECV_INITIAL_METADATA;
	ops[n++].data.recv_initial_metadata.recv_initial_metadata = &call->initial;
	status.data.recv_status_on_client.trailing_metadata = &call->trailing;
	status.data.recv_status_on_client.status = &call->status;
	status.data.recv_status_on_client.status_details = &call->details;
	if (on_each)
		start_stream(call, ops, n, status);
	else
		start_unary(call, ops, n, status);
	grpc_slice_unref(request);
	grpc_byte_buffer_destroy(payload);
	return 0;
}

int channel_call(struct channel *channel, const char *path, const uint8_t *data, size_t size,
	uint64_t timeout, rpc_result_handler on_result, void *userdata)
{
	return call_start(channel, path, data, size, timeout, NULL, on_result, userdata);
}

int channel_stream(struct channel *channel, const char *path, const uint8_t *data, size_t size,
	channel_message_handler on_each, rpc_result_handler on_result, void *userdata)
{
	return call_start(channel, path, data, size, 0, on_each, on_result, userdata);
}

void channel_cancel(struct channel *channel, const void *userdata)
{
	(void)pthread_mutex_lock(&channel->lock);
	for (struct channel_call *c = channel->calls; c; c = c->next)
		if (c->userdata == userdata)
			(void)grpc_call_cancel(c->call, NULL);
	(void)pthread_mutex_unlock(&channel->lock);
}

struct channel *channel_free(struct channel *channel)
{
	bool last;

	if (!channel)
		return NULL;
	(void)pthread_mutex_lock(&channel->lock);
	channel->freed = true;
	for (struct channel_call *c = channel->calls; c; c = c->next)
		(void)grpc_call_cancel(c->call, NULL);
	last = !channel->calls;
	(void)pthread_mutex_unlock(&channel->lock);
	if (last)
		channel_destroy(channel);
	return NULL;
}
