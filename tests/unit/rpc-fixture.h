/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * A server and a client of the gRPC binding with a socket pair between them. Events of gRPC's
 * thread arrive as messages, so that a test sees them only while it runs the loop.
 */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>

#include <cmocka.h>

#include "kubelet/channel.h"
#include "kubelet/server-end.h"
#include "proto/mailbox.h"
#include "proto/rpc.h"

#define WAIT_USEC (10 * USEC_PER_SEC)

struct fixture {
	sd_event *event;
	struct mailbox *mailbox;
	struct rpc_server *server;
	struct channel *client;
	struct rpc_call *deferred;
	unsigned opened, closed, cancelled;
	uint64_t stream_session;
	unsigned messages, results;
	char last_message[64];
	size_t last_size;
	int status;
	char text[256], reply[64];
};

struct event_message {
	struct mailbox_message base;
	void (*act)(struct fixture *fixture, struct event_message *posted);
	struct fixture *fixture;
	uint64_t session;
	struct rpc_call *call;
	int status;
	size_t size;
	char text[256];
	char data[64];
};

static inline void deliver(struct mailbox_message *base, void *userdata)
{
	struct event_message *posted = (struct event_message *)(void *)base;

	if (userdata)
		posted->act(posted->fixture, posted);
	else if (posted->call)
		rpc_fail(posted->call, RPC_UNAVAILABLE, "too late");
	free(posted);
}

static inline struct event_message *event_new(
	struct fixture *f, void (*act)(struct fixture *fixture, struct event_message *posted))
{
	struct event_message *posted = calloc(1, sizeof(*posted));

	assert_non_null(posted);
	posted->base.deliver = deliver;
	posted->act = act;
	posted->fixture = f;
	return posted;
}

static inline void on_echo(struct rpc_call *call, const uint8_t *data, size_t size, void *userdata)
{
	rpc_reply(call, data, size);
}

static inline void on_refuse(
	struct rpc_call *call, const uint8_t *data, size_t size, void *userdata)
{
	rpc_fail(call, RPC_FAILED_PRECONDITION, "100 % \"no\"; try ü");
}

static inline void act_defer(struct fixture *f, struct event_message *posted)
{
	f->deferred = posted->call;
}

static inline void on_defer(struct rpc_call *call, const uint8_t *data, size_t size, void *userdata)
{
	struct fixture *f = userdata;
	struct event_message *posted = event_new(f, act_defer);

	posted->call = call;
	mailbox_post(f->mailbox, &posted->base);
}

static inline void act_cancelled(struct fixture *f, struct event_message *posted)
{
	f->cancelled++;
}

static inline void on_cancelled(struct rpc_call *call, void *userdata)
{
	struct fixture *f = userdata;

	mailbox_post(f->mailbox, &event_new(f, act_cancelled)->base);
}

static inline void on_defer_watched(
	struct rpc_call *call, const uint8_t *data, size_t size, void *userdata)
{
	rpc_call_watch(call, on_cancelled);
	on_defer(call, data, size, userdata);
}

static inline void act_opened(struct fixture *f, struct event_message *posted)
{
	f->opened++;
	f->stream_session = posted->session;
}

static inline void act_closed(struct fixture *f, struct event_message *posted)
{
	f->closed++;
}

static inline void on_opened(uint64_t session, void *userdata)
{
	struct fixture *f = userdata;
	struct event_message *posted = event_new(f, act_opened);

	posted->session = session;
	mailbox_post(f->mailbox, &posted->base);
}

static inline void on_closed(uint64_t session, void *userdata)
{
	struct fixture *f = userdata;

	mailbox_post(f->mailbox, &event_new(f, act_closed)->base);
}

static const struct rpc_method methods[] = {
	{ .path = "/t.T/Echo", .on_call = on_echo },
	{ .path = "/t.T/Refuse", .on_call = on_refuse },
	{ .path = "/t.T/Defer", .on_call = on_defer },
	{ .path = "/t.T/DeferWatched", .on_call = on_defer_watched },
	{ .path = "/t.T/Watch", .on_opened = on_opened, .on_closed = on_closed },
};

static inline void act_result(struct fixture *f, struct event_message *posted)
{
	f->results++;
	f->status = posted->status;
	memcpy(f->text, posted->text, sizeof(f->text));
	memcpy(f->reply, posted->data, sizeof(f->reply));
}

static inline void on_result(const struct rpc_result *result, void *userdata)
{
	struct fixture *f = userdata;
	struct event_message *posted = event_new(f, act_result);

	posted->status = result->status;
	(void)snprintf(posted->text, sizeof(posted->text), "%s", result->text);
	if (result->data)
		memcpy(posted->data, result->data, MIN_OF(result->size, sizeof(posted->data) - 1));
	mailbox_post(f->mailbox, &posted->base);
}

static inline void act_message(struct fixture *f, struct event_message *posted)
{
	f->messages++;
	f->last_size = posted->size;
	memcpy(f->last_message, posted->data, sizeof(f->last_message));
}

static inline void on_message(const uint8_t *data, size_t size, void *userdata)
{
	struct fixture *f = userdata;
	struct event_message *posted = event_new(f, act_message);

	posted->size = size;
	memcpy(posted->data, data, MIN_OF(size, sizeof(posted->data) - 1));
	mailbox_post(f->mailbox, &posted->base);
}

static inline int setup(void **state)
{
	struct fixture *f = calloc(1, sizeof(*f));
	int pair[2];

	assert_non_null(f);
	assert_true(sd_event_new(&f->event) >= 0);
	assert_int_equal(mailbox_new(f->event, f, &f->mailbox), 0);
	assert_int_equal(rpc_start(), 0);
	assert_int_equal(rpc_server_new(f->event, methods, ARRAY_SIZE(methods), f, &f->server), 0);
	assert_int_equal(
		socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, pair), 0);
	assert_int_equal(rpc_server_add(f->server, pair[0], 42), 0);
	assert_int_equal(channel_new(pair[1], NULL, &f->client), 0);
	*state = f;
	return 0;
}

static inline int teardown(void **state)
{
	struct fixture *f = *state;

	channel_free(f->client);
	mailbox_close(f->mailbox);
	if (f->server)
		server_end(f->server);
	rpc_stop();
	mailbox_free(f->mailbox);
	sd_event_unref(f->event);
	free(f);
	return 0;
}

/* Turns the loop until the number is reached; a test that waits in vain fails here. */
static inline void wait_for(struct fixture *f, const unsigned *number, unsigned wanted)
{
	uint64_t end = now_usec(CLOCK_MONOTONIC) + WAIT_USEC;

	while (*number < wanted) {
		assert_true(now_usec(CLOCK_MONOTONIC) < end);
		assert_true(sd_event_run(f->event, 100 * USEC_PER_MSEC) >= 0);
	}
}

static inline void call(struct fixture *f, const char *path, const char *request, uint64_t timeout)
{
	assert_int_equal(channel_call(f->client, path, (const uint8_t *)request, strlen(request),
				 timeout, on_result, f),
		0);
}

static inline void publish(struct fixture *f, const char *text, size_t size)
{
	uint8_t *data = calloc(1, size);

	assert_non_null(data);
	memcpy(data, text, MIN_OF(strlen(text), size));
	rpc_publish(f->server, data, size);
}

static inline void watch(struct fixture *f)
{
	assert_int_equal(channel_stream(f->client, "/t.T/Watch", (const uint8_t *)"", 0, on_message,
				 on_result, f),
		0);
	wait_for(f, &f->opened, 1);
}
