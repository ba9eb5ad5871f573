/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * A server and a client of the gRPC binding with a socket pair between them. Events of gRPC's
 * thread arrive as letters, so that a test sees them only while it runs the loop.
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

struct event_letter {
	struct letter letter;
	void (*act)(struct fixture *fixture, struct event_letter *letter);
	struct fixture *fixture;
	uint64_t session;
	struct rpc_call *call;
	int status;
	size_t size;
	char text[256];
	char data[64];
};

static inline void deliver(struct letter *base, void *userdata)
{
	struct event_letter *letter = (struct event_letter *)(void *)base;

	if (userdata)
		letter->act(letter->fixture, letter);
	else if (letter->call)
		rpc_fail(letter->call, RPC_UNAVAILABLE, "too late");
	free(letter);
}

static inline struct event_letter *letter_new(
	struct fixture *f, void (*act)(struct fixture *fixture, struct event_letter *letter))
{
	struct event_letter *letter = calloc(1, sizeof(*letter));

	assert_non_null(letter);
	letter->letter.deliver = deliver;
	letter->act = act;
	letter->fixture = f;
	return letter;
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

static inline void act_defer(struct fixture *f, struct event_letter *letter)
{
	f->deferred = letter->call;
}

static inline void on_defer(struct rpc_call *call, const uint8_t *data, size_t size, void *userdata)
{
	struct fixture *f = userdata;
	struct event_letter *letter = letter_new(f, act_defer);

	letter->call = call;
	mailbox_post(f->mailbox, &letter->letter);
}

static inline void act_cancelled(struct fixture *f, struct event_letter *letter)
{
	f->cancelled++;
}

static inline void on_cancelled(struct rpc_call *call, void *userdata)
{
	struct fixture *f = userdata;

	mailbox_post(f->mailbox, &letter_new(f, act_cancelled)->letter);
}

static inline void on_defer_watched(
	struct rpc_call *call, const uint8_t *data, size_t size, void *userdata)
{
	rpc_call_watch(call, on_cancelled);
	on_defer(call, data, size, userdata);
}

static inline void act_opened(struct fixture *f, struct event_letter *letter)
{
	f->opened++;
	f->stream_session = letter->session;
}

static inline void act_closed(struct fixture *f, struct event_letter *letter)
{
	f->closed++;
}

static inline void on_opened(uint64_t session, void *userdata)
{
	struct fixture *f = userdata;
	struct event_letter *letter = letter_new(f, act_opened);

	letter->session = session;
	mailbox_post(f->mailbox, &letter->letter);
}

static inline void on_closed(uint64_t session, void *userdata)
{
	struct fixture *f = userdata;

	mailbox_post(f->mailbox, &letter_new(f, act_closed)->letter);
}

static const struct rpc_method methods[] = {
	{ .path = "/t.T/Echo", .on_call = on_echo },
	{ .path = "/t.T/Refuse", .on_call = on_refuse },
	{ .path = "/t.T/Defer", .on_call = on_defer },
	{ .path = "/t.T/DeferWatched", .on_call = on_defer_watched },
	{ .path = "/t.T/Watch", .on_opened = on_opened, .on_closed = on_closed },
};

static inline void act_result(struct fixture *f, struct event_letter *letter)
{
	f->results++;
	f->status = letter->status;
	memcpy(f->text, letter->text, sizeof(f->text));
	memcpy(f->reply, letter->data, sizeof(f->reply));
}

static inline void on_result(const struct rpc_result *result, void *userdata)
{
	struct fixture *f = userdata;
	struct event_letter *letter = letter_new(f, act_result);

	letter->status = result->status;
	(void)snprintf(letter->text, sizeof(letter->text), "%s", result->text);
	if (result->data)
		memcpy(letter->data, result->data, MIN_OF(result->size, sizeof(letter->data) - 1));
	mailbox_post(f->mailbox, &letter->letter);
}

static inline void act_message(struct fixture *f, struct event_letter *letter)
{
	f->messages++;
	f->last_size = letter->size;
	memcpy(f->last_message, letter->data, sizeof(f->last_message));
}

static inline void on_message(const uint8_t *data, size_t size, void *userdata)
{
	struct fixture *f = userdata;
	struct event_letter *letter = letter_new(f, act_message);

	letter->size = size;
	memcpy(letter->data, data, MIN_OF(size, sizeof(letter->data) - 1));
	mailbox_post(f->mailbox, &letter->letter);
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
