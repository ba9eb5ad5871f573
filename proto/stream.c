/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sends the list to every reader of a stream (ListAndWatch), and decides what a slow reader gets.
 * The core allows one message in flight for each call. Later changes are only counted, so a reader
 * that stalls costs one message and gets the newest state when it reads again. A stream is freed
 * when its close was reported and nothing of it is in flight.
 */
#include "proto/server.h"

struct stream {
	struct stream *next;
	struct rpc_server *server;
	const struct rpc_method *method;
	grpc_call *call;
	uint64_t session;
	struct tag closed_tag, sent_tag;
	bool announced; /* initial metadata was sent */
	bool sending, closed;
	uint64_t sent_number;
	int cancelled;
};

struct stream *stream_next(struct stream *stream)
{
	return stream->next;
}

static void start(struct stream *stream, const grpc_op *ops, size_t n, struct tag *tag)
{
	grpc_call_error e = grpc_call_start_batch(stream->call, ops, n, tag, NULL);

	assert(e == GRPC_CALL_OK);
	(void)e;
}

void stream_push(struct stream *stream)
{
	struct rpc_server *server = stream->server;
	grpc_byte_buffer *payload;
	grpc_op ops[2] = {};
	size_t n = 0;

	if (stream->sending || stream->closed || stream->sent_number == server->newest_number)
		return;
	if (!stream->announced)
		ops[n++].op = GRPC_OP_SEND_INITIAL_METADATA;
	payload = grpc_raw_byte_buffer_create(&server->newest, 1);
	ops[n].op = GRPC_OP_SEND_MESSAGE;
	ops[n++].data.send_message.send_message = payload;
	stream->announced = true;
	stream->sending = true;
	stream->sent_number = server->newest_number;
	start(stream, ops, n, &stream->sent_tag);
	grpc_byte_buffer_destroy(payload);
}

static void stream_free(struct stream *stream)
{
	grpc_call_unref(stream->call);
	free(stream);
}

static void on_sent(struct tag *tag, bool ok)
{
	struct stream *stream = TAG_OWNER(tag, struct stream, sent_tag);
	struct rpc_server *server = stream->server;
	bool done;

	(void)pthread_mutex_lock(&server->lock);
	stream->sending = false;
	if (ok)
		stream_push(stream);
	done = stream->closed;
	(void)pthread_mutex_unlock(&server->lock);
	if (done)
		stream_free(stream);
}

static void on_closed(struct tag *tag, bool ok)
{
	struct stream *stream = TAG_OWNER(tag, struct stream, closed_tag);
	struct rpc_server *server = stream->server;
	bool done;

	if (stream->method->on_closed)
		stream->method->on_closed(stream->session, server->userdata);

	(void)pthread_mutex_lock(&server->lock);
	for (struct stream **s = &server->streams; *s; s = &(*s)->next)
		if (*s == stream) {
			*s = stream->next;
			break;
		}
	stream->closed = true;
	done = !stream->sending;
	(void)pthread_mutex_unlock(&server->lock);
	if (done)
		stream_free(stream);
}

void stream_open(struct connection *connection, const struct rpc_method *method, grpc_call *call)
{
	struct rpc_server *server = connection->server;
	struct stream *stream = calloc(1, sizeof(*stream));
	grpc_op close = { .op = GRPC_OP_RECV_CLOSE_ON_SERVER };

	if (!stream) {
		server_refuse(connection, call, RPC_RESOURCE_EXHAUSTED, "out of memory");
		return;
	}
	stream->server = server;
	stream->method = method;
	stream->call = call;
	stream->session = connection->session;
	stream->closed_tag.on_event = on_closed;
	stream->sent_tag.on_event = on_sent;
	close.data.recv_close_on_server.cancelled = &stream->cancelled;

	if (method->on_opened)
		method->on_opened(stream->session, server->userdata);

	(void)pthread_mutex_lock(&server->lock);
	start(stream, &close, 1, &stream->closed_tag);
	stream->next = server->streams;
	server->streams = stream;
	stream_push(stream);
	(void)pthread_mutex_unlock(&server->lock);
}
