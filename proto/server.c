/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Serves calls on connections that the caller accepted. gRPC's own listener is not used: it stops
 * permanently at the first EMFILE, unlinks its socket by path at shutdown, and gives no information
 * about its peers. Invariants: one call is always armed for each method of each connection; every
 * call is answered once. The connections are in server-connections.c.
 */
#include "proto/server.h"

#include <grpc/slice.h>

struct rpc_call {
	struct tag tag;
	struct rpc_server *server;
	grpc_call *call;
	uint64_t session;
	uint64_t timeout;
	grpc_slice details;
	int cancelled;
	struct tag closed_tag; /* of a call that is watched */
	rpc_cancel_handler on_cancelled;
	bool answered, closed;
};

void method_arm(struct armed_method *armed)
{
	grpc_server *core = armed->connection->core;
	grpc_call_error e;

	armed->call = NULL;
	armed->payload = NULL;
	grpc_metadata_array_init(&armed->metadata);
	if (armed->method)
		e = grpc_server_request_registered_call(core, armed->registered, &armed->call,
			&armed->deadline, &armed->metadata, &armed->payload, rpc_queue(),
			rpc_queue(), &armed->tag);
	else {
		grpc_call_details_init(&armed->details);
		e = grpc_server_request_call(core, &armed->call, &armed->details, &armed->metadata,
			rpc_queue(), rpc_queue(), &armed->tag);
	}
	/* Errors here are misuse (a queue that is not the server's), never a condition of the host.
	 */
	assert(e == GRPC_CALL_OK);
	(void)e;
}

static void call_begin(struct rpc_server *server)
{
	(void)pthread_mutex_lock(&server->lock);
	server->n_calls++;
	(void)pthread_mutex_unlock(&server->lock);
}

static void call_end(struct rpc_server *server)
{
	(void)pthread_mutex_lock(&server->lock);
	if (--server->n_calls == 0)
		(void)pthread_cond_broadcast(&server->answered);
	(void)pthread_mutex_unlock(&server->lock);
}

static void call_free(struct rpc_call *call)
{
	grpc_slice_unref(call->details);
	grpc_call_unref(call->call);
	free(call);
}

static void on_answered(struct tag *tag, bool ok)
{
	struct rpc_call *call = TAG_OWNER(tag, struct rpc_call, tag);

	call_end(call->server);
	call->answered = true;
	if (!call->on_cancelled || call->closed)
		call_free(call);
}

static void on_closed(struct tag *tag, bool ok)
{
	struct rpc_call *call = TAG_OWNER(tag, struct rpc_call, closed_tag);

	if (call->cancelled && !call->answered)
		call->on_cancelled(call, call->server->userdata);
	call->closed = true;
	if (call->answered)
		call_free(call);
}

void rpc_call_watch(struct rpc_call *call, rpc_cancel_handler on_cancelled)
{
	grpc_op close = { .op = GRPC_OP_RECV_CLOSE_ON_SERVER };
	grpc_call_error e;

	call->on_cancelled = on_cancelled;
	call->closed_tag.on_event = on_closed;
	close.data.recv_close_on_server.cancelled = &call->cancelled;
	e = grpc_call_start_batch(call->call, &close, 1, &call->closed_tag, NULL);
	assert(e == GRPC_CALL_OK);
	(void)e;
}

static void answer(
	struct rpc_call *call, enum rpc_status status, const char *text, grpc_byte_buffer *payload)
{
	grpc_op ops[4] = {};
	size_t n = 0;
	grpc_call_error e;

	call->details = grpc_slice_from_copied_string(text);
	ops[n++].op = GRPC_OP_SEND_INITIAL_METADATA;
	if (payload) {
		ops[n].op = GRPC_OP_SEND_MESSAGE;
		ops[n++].data.send_message.send_message = payload;
	}
	ops[n].op = GRPC_OP_SEND_STATUS_FROM_SERVER;
	ops[n].data.send_status_from_server.status = (grpc_status_code)status;
	ops[n++].data.send_status_from_server.status_details = &call->details;
	if (!call->on_cancelled) {
		ops[n].op = GRPC_OP_RECV_CLOSE_ON_SERVER;
		ops[n++].data.recv_close_on_server.cancelled = &call->cancelled;
	}
	e = grpc_call_start_batch(call->call, ops, n, &call->tag, NULL);
	assert(e == GRPC_CALL_OK);
	(void)e;
}

void rpc_reply(struct rpc_call *call, const uint8_t *data, size_t size)
{
	grpc_slice slice = grpc_slice_from_copied_buffer((const char *)data, size);
	grpc_byte_buffer *payload = grpc_raw_byte_buffer_create(&slice, 1);

	grpc_slice_unref(slice);
	answer(call, RPC_OK, "", payload);
	grpc_byte_buffer_destroy(payload);
}

void rpc_fail(struct rpc_call *call, enum rpc_status status, const char *text)
{
	answer(call, status, text, NULL);
}

uint64_t rpc_call_session(const struct rpc_call *call)
{
	return call->session;
}

uint64_t rpc_call_timeout(const struct rpc_call *call)
{
	return call->timeout;
}

static uint64_t time_left(gpr_timespec deadline)
{
	gpr_timespec left = gpr_time_sub(deadline, gpr_now(deadline.clock_type));

	if (gpr_time_cmp(deadline, gpr_inf_future(deadline.clock_type)) == 0)
		return USEC_INFINITY;
	return left.tv_sec < 0 ? 0
			       : (uint64_t)MIN_OF(left.tv_sec, (int64_t)3600) * USEC_PER_SEC +
			(uint64_t)left.tv_nsec / 1000;
}

static struct rpc_call *call_new(struct connection *connection, grpc_call *core)
{
	struct rpc_call *call = calloc(1, sizeof(*call));

	if (!call) {
		(void)grpc_call_cancel_with_status(
			core, GRPC_STATUS_RESOURCE_EXHAUSTED, "out of memory", NULL);
		grpc_call_unref(core);
		return NULL;
	}
	call_begin(connection->server);
	call->tag.on_event = on_answered;
	call->server = connection->server;
	call->call = core;
	call->session = connection->session;
	return call;
}

void server_refuse(
	struct connection *connection, grpc_call *core, enum rpc_status status, const char *text)
{
	struct rpc_call *call = call_new(connection, core);

	if (call)
		rpc_fail(call, status, text);
}

static void dispatch(struct armed_method *armed, grpc_call *core, grpc_byte_buffer *payload)
{
	struct connection *connection = armed->connection;
	const struct rpc_method *method = armed->method;
	struct rpc_call *call;
	grpc_slice request;

	if (!method) {
		server_refuse(connection, core, RPC_UNIMPLEMENTED, "no such method");
		return;
	}
	if (payload && payload->data.raw.compression != GRPC_COMPRESS_NONE) {
		server_refuse(connection, core, RPC_UNIMPLEMENTED,
			"compressed messages are not accepted");
		return;
	}
	if (rpc_read_message(payload, &request) < 0) {
		server_refuse(connection, core, RPC_INVALID_ARGUMENT,
			"the call did not contain a complete message");
		return;
	}
	if (!method->on_call)
		stream_open(connection, method, core);
	else {
		call = call_new(connection, core);
		if (call) {
			call->timeout = time_left(armed->deadline);
			method->on_call(call, GRPC_SLICE_START_PTR(request),
				GRPC_SLICE_LENGTH(request), connection->server->userdata);
		}
	}
	grpc_slice_unref(request);
}

void on_new_call(struct tag *tag, bool ok)
{
	struct armed_method *armed = TAG_OWNER(tag, struct armed_method, tag);
	grpc_call *call = armed->call;
	grpc_byte_buffer *payload = armed->payload;

	grpc_metadata_array_destroy(&armed->metadata);
	if (!armed->method)
		grpc_call_details_destroy(&armed->details);
	if (!ok) {
		connection_unref(armed->connection);
		return;
	}
	dispatch(armed, call, payload);
	method_arm(armed);
	if (payload)
		grpc_byte_buffer_destroy(payload);
}

int rpc_server_new(sd_event *event, const struct rpc_method *methods, size_t n_methods,
	void *userdata, struct rpc_server **ret)
{
	struct rpc_server *server = calloc(1, sizeof(*server));

	if (!server)
		return -ENOMEM;
	server->event = sd_event_ref(event);
	server->userdata = userdata;
	server->methods = methods;
	server->n_methods = n_methods;
	server->newest = grpc_empty_slice();
	server->calls_max = RPC_CALLS_MAX;
	(void)pthread_mutex_init(&server->lock, NULL);
	(void)pthread_cond_init(&server->answered, NULL);
	*ret = server;
	return 0;
}

void rpc_server_set_calls_max(struct rpc_server *server, int calls_max)
{
	server->calls_max = calls_max;
}

void rpc_publish(struct rpc_server *server, uint8_t *data, size_t size)
{
	grpc_slice slice = grpc_slice_new(data, size, free);

	(void)pthread_mutex_lock(&server->lock);
	grpc_slice_unref(server->newest);
	server->newest = slice;
	server->newest_number++;
	for (struct stream *s = server->streams; s; s = stream_next(s))
		stream_push(s);
	(void)pthread_mutex_unlock(&server->lock);
}

const uint8_t *rpc_newest(const struct rpc_server *server, size_t *ret_size)
{
	*ret_size = GRPC_SLICE_LENGTH(server->newest);
	return server->newest_number > 0 ? GRPC_SLICE_START_PTR(server->newest) : NULL;
}

void rpc_server_drain(struct rpc_server *server, uint64_t grace)
{
	uint64_t until = now_usec(CLOCK_REALTIME) + grace;
	const struct timespec end = {
		.tv_sec = (time_t)(until / USEC_PER_SEC),
		.tv_nsec = (long)(until % USEC_PER_SEC * 1000),
	};

	(void)pthread_mutex_lock(&server->lock);
	while (server->n_calls > 0)
		if (pthread_cond_timedwait(&server->answered, &server->lock, &end) == ETIMEDOUT)
			break;
	(void)pthread_mutex_unlock(&server->lock);
}
