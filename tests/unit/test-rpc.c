/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The gRPC binding against itself over a socket pair: unary calls, failures, deferred answers,
 * broadcast streams with a slow reader, sessions that end, unknown methods, cancelled calls, and
 * what gRPC is kept from doing.
 */
#include <dlfcn.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>

#include <cmocka.h>

#include "proto/mailbox.h"
#include "proto/rpc.h"

#define WAIT_USEC (10 * USEC_PER_SEC)

struct fixture {
	sd_event *event;
	struct mailbox *mailbox;
	struct rpc_server *server;
	struct rpc_client *client;
	struct rpc_call *deferred;
	unsigned opened, closed;
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

static void deliver(struct letter *base, void *userdata)
{
	struct event_letter *letter = (struct event_letter *)(void *)base;

	if (userdata)
		letter->act(letter->fixture, letter);
	else if (letter->call)
		rpc_fail(letter->call, RPC_UNAVAILABLE, "too late");
	free(letter);
}

static struct event_letter *letter_new(
	struct fixture *f, void (*act)(struct fixture *fixture, struct event_letter *letter))
{
	struct event_letter *letter = calloc(1, sizeof(*letter));

	assert_non_null(letter);
	letter->letter.deliver = deliver;
	letter->act = act;
	letter->fixture = f;
	return letter;
}

static void on_echo(struct rpc_call *call, const uint8_t *data, size_t size, void *userdata)
{
	rpc_reply(call, data, size);
}

static void on_refuse(struct rpc_call *call, const uint8_t *data, size_t size, void *userdata)
{
	rpc_fail(call, RPC_FAILED_PRECONDITION, "100 % \"no\"; try ü");
}

static void act_defer(struct fixture *f, struct event_letter *letter)
{
	f->deferred = letter->call;
}

static void on_defer(struct rpc_call *call, const uint8_t *data, size_t size, void *userdata)
{
	struct fixture *f = userdata;
	struct event_letter *letter = letter_new(f, act_defer);

	letter->call = call;
	mailbox_post(f->mailbox, &letter->letter);
}

static void act_opened(struct fixture *f, struct event_letter *letter)
{
	f->opened++;
	f->stream_session = letter->session;
}

static void act_closed(struct fixture *f, struct event_letter *letter)
{
	f->closed++;
}

static void on_opened(uint64_t session, void *userdata)
{
	struct fixture *f = userdata;
	struct event_letter *letter = letter_new(f, act_opened);

	letter->session = session;
	mailbox_post(f->mailbox, &letter->letter);
}

static void on_closed(uint64_t session, void *userdata)
{
	struct fixture *f = userdata;

	mailbox_post(f->mailbox, &letter_new(f, act_closed)->letter);
}

static const struct rpc_method methods[] = {
	{ .path = "/t.T/Echo", .on_call = on_echo },
	{ .path = "/t.T/Refuse", .on_call = on_refuse },
	{ .path = "/t.T/Defer", .on_call = on_defer },
	{ .path = "/t.T/Watch", .on_opened = on_opened, .on_closed = on_closed },
};

static void act_result(struct fixture *f, struct event_letter *letter)
{
	f->results++;
	f->status = letter->status;
	memcpy(f->text, letter->text, sizeof(f->text));
	memcpy(f->reply, letter->data, sizeof(f->reply));
}

static void on_result(const struct rpc_result *result, void *userdata)
{
	struct fixture *f = userdata;
	struct event_letter *letter = letter_new(f, act_result);

	letter->status = result->status;
	(void)snprintf(letter->text, sizeof(letter->text), "%s", result->text);
	if (result->data)
		memcpy(letter->data, result->data, MIN_OF(result->size, sizeof(letter->data) - 1));
	mailbox_post(f->mailbox, &letter->letter);
}

static void act_message(struct fixture *f, struct event_letter *letter)
{
	f->messages++;
	f->last_size = letter->size;
	memcpy(f->last_message, letter->data, sizeof(f->last_message));
}

static void on_message(const uint8_t *data, size_t size, void *userdata)
{
	struct fixture *f = userdata;
	struct event_letter *letter = letter_new(f, act_message);

	letter->size = size;
	memcpy(letter->data, data, MIN_OF(size, sizeof(letter->data) - 1));
	mailbox_post(f->mailbox, &letter->letter);
}

static int setup(void **state)
{
	struct fixture *f = calloc(1, sizeof(*f));
	int pair[2];

	assert_non_null(f);
	assert_true(sd_event_new(&f->event) >= 0);
	assert_int_equal(mailbox_new(f->event, f, &f->mailbox), 0);
	assert_int_equal(rpc_start(false), 0);
	assert_int_equal(rpc_server_new(f->event, methods, ARRAY_SIZE(methods), f, &f->server), 0);
	assert_int_equal(
		socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, pair), 0);
	assert_int_equal(rpc_server_add(f->server, pair[0], 42), 0);
	assert_int_equal(rpc_client_new(pair[1], &f->client), 0);
	*state = f;
	return 0;
}

static int teardown(void **state)
{
	struct fixture *f = *state;

	rpc_client_free(f->client);
	rpc_server_stop(f->server, USEC_PER_SEC / 10);
	mailbox_close(f->mailbox);
	rpc_stop();
	rpc_server_free(f->server);
	rpc_shutdown();
	mailbox_free(f->mailbox);
	sd_event_unref(f->event);
	free(f);
	return 0;
}

/* Turns the loop until the number is reached; a test that waits in vain fails here. */
static void wait_for(struct fixture *f, const unsigned *number, unsigned wanted)
{
	uint64_t end = now_usec(CLOCK_MONOTONIC) + WAIT_USEC;

	while (*number < wanted) {
		assert_true(now_usec(CLOCK_MONOTONIC) < end);
		assert_true(sd_event_run(f->event, 100 * USEC_PER_MSEC) >= 0);
	}
}

static void call(struct fixture *f, const char *path, const char *request, uint64_t timeout)
{
	assert_int_equal(rpc_client_call(f->client, path, (const uint8_t *)request, strlen(request),
				 timeout, on_result, f),
		0);
}

static void publish(struct fixture *f, const char *text, size_t size)
{
	uint8_t *data = calloc(1, size);

	assert_non_null(data);
	memcpy(data, text, MIN_OF(strlen(text), size));
	rpc_publish(f->server, data, size);
}

static void watch(struct fixture *f)
{
	assert_int_equal(rpc_client_stream(f->client, "/t.T/Watch", (const uint8_t *)"", 0,
				 on_message, on_result, f),
		0);
	wait_for(f, &f->opened, 1);
}

static void test_unary(void **state)
{
	struct fixture *f = *state;

	call(f, "/t.T/Echo", "hello", 0);
	wait_for(f, &f->results, 1);
	assert_int_equal(f->status, RPC_OK);
	assert_string_equal(f->reply, "hello");
	/* An empty message is a message. */
	call(f, "/t.T/Echo", "", 0);
	wait_for(f, &f->results, 2);
	assert_int_equal(f->status, RPC_OK);
}

static void test_failure_text_arrives_whole(void **state)
{
	struct fixture *f = *state;

	call(f, "/t.T/Refuse", "x", 0);
	wait_for(f, &f->results, 1);
	assert_int_equal(f->status, RPC_FAILED_PRECONDITION);
	assert_string_equal(f->text, "100 % \"no\"; try ü");
}

static void test_unknown_method(void **state)
{
	struct fixture *f = *state;

	call(f, "/t.T/Nothing", "x", 0);
	wait_for(f, &f->results, 1);
	assert_int_equal(f->status, RPC_UNIMPLEMENTED);
}

static void test_deferred_answer(void **state)
{
	struct fixture *f = *state;

	call(f, "/t.T/Defer", "x", 0);
	while (!f->deferred)
		assert_true(sd_event_run(f->event, WAIT_USEC) > 0);
	assert_int_equal(rpc_call_session(f->deferred), 42);
	/* Others are served meanwhile. */
	call(f, "/t.T/Echo", "meanwhile", 0);
	wait_for(f, &f->results, 1);
	assert_string_equal(f->reply, "meanwhile");
	rpc_reply(f->deferred, (const uint8_t *)"late", 4);
	wait_for(f, &f->results, 2);
	assert_string_equal(f->reply, "late");
}

static void test_answer_after_client_gave_up(void **state)
{
	struct fixture *f = *state;

	call(f, "/t.T/Defer", "x", 50 * USEC_PER_MSEC);
	while (!f->deferred)
		assert_true(sd_event_run(f->event, WAIT_USEC) > 0);
	wait_for(f, &f->results, 1);
	assert_int_equal(f->status, RPC_DEADLINE_EXCEEDED);
	rpc_reply(f->deferred, (const uint8_t *)"late", 4);
	call(f, "/t.T/Echo", "alive", 0);
	wait_for(f, &f->results, 2);
	assert_string_equal(f->reply, "alive");
}

static void test_oversized_request(void **state)
{
	struct fixture *f = *state;
	size_t size = RPC_REQUEST_MAX + 1;
	uint8_t *data = calloc(1, size);

	assert_non_null(data);
	assert_int_equal(rpc_client_call(f->client, "/t.T/Echo", data, size, 0, on_result, f), 0);
	wait_for(f, &f->results, 1);
	assert_int_equal(f->status, RPC_RESOURCE_EXHAUSTED);
	free(data);
}

static void test_stream_gets_newest(void **state)
{
	struct fixture *f = *state;

	publish(f, "one", 3);
	watch(f);
	assert_int_equal(f->stream_session, 42);
	wait_for(f, &f->messages, 1);
	assert_string_equal(f->last_message, "one");
	publish(f, "two", 3);
	wait_for(f, &f->messages, 2);
	assert_string_equal(f->last_message, "two");
}

static void test_stream_opened_before_first_list(void **state)
{
	struct fixture *f = *state;

	watch(f);
	publish(f, "first", 5);
	wait_for(f, &f->messages, 1);
	assert_string_equal(f->last_message, "first");
}

static void test_burst_is_coalesced(void **state)
{
	struct fixture *f = *state;
	char text[32];

	publish(f, "start", 5);
	watch(f);
	wait_for(f, &f->messages, 1);
	/* Big messages fill the window, so most of them are overtaken by newer ones. */
	for (unsigned i = 1; i <= 500; i++) {
		(void)snprintf(text, sizeof(text), "number %u", i);
		publish(f, text, 1U << 20);
	}
	while (!streq(f->last_message, "number 500"))
		assert_true(sd_event_run(f->event, WAIT_USEC) > 0);
	assert_true(f->messages < 400);
	assert_int_equal(f->last_size, 1U << 20);
}

static void test_session_end_closes_stream(void **state)
{
	struct fixture *f = *state;

	publish(f, "one", 3);
	watch(f);
	rpc_server_end_session(f->server, 41);
	call(f, "/t.T/Echo", "still here", 0);
	wait_for(f, &f->results, 1);
	assert_int_equal(f->closed, 0);
	rpc_server_end_session(f->server, 42);
	wait_for(f, &f->closed, 1);
	wait_for(f, &f->results, 2);
	assert_int_equal(f->status, RPC_UNAVAILABLE);
}

static void test_client_end_closes_stream(void **state)
{
	struct fixture *f = *state;

	publish(f, "one", 3);
	watch(f);
	wait_for(f, &f->messages, 1);
	f->client = rpc_client_free(f->client);
	wait_for(f, &f->closed, 1);
	wait_for(f, &f->results, 1);
	assert_int_equal(f->status, RPC_CANCELLED);
}

static void test_server_end_tells_stream(void **state)
{
	struct fixture *f = *state;

	publish(f, "one", 3);
	watch(f);
	wait_for(f, &f->messages, 1);
	rpc_server_stop(f->server, USEC_PER_SEC);
	wait_for(f, &f->results, 1);
	assert_int_equal(f->status, RPC_UNAVAILABLE);
}

static void test_drain_waits_for_answers(void **state)
{
	struct fixture *f = *state;
	uint64_t began;

	call(f, "/t.T/Defer", "x", 0);
	while (!f->deferred)
		assert_true(sd_event_run(f->event, WAIT_USEC) > 0);
	began = now_usec(CLOCK_MONOTONIC);
	rpc_server_drain(f->server, USEC_PER_SEC / 10);
	assert_true(now_usec(CLOCK_MONOTONIC) - began >= USEC_PER_SEC / 10 - USEC_PER_MSEC);
	/* What follows a drain may cut the connection. */
	rpc_reply(f->deferred, (const uint8_t *)"in time", 7);
	rpc_server_drain(f->server, WAIT_USEC);
	rpc_server_end_session(f->server, 42);
	wait_for(f, &f->results, 1);
	assert_int_equal(f->status, RPC_OK);
	assert_string_equal(f->reply, "in time");
}

static void test_garbage_peer(void **state)
{
	struct fixture *f = *state;
	static const char *const garbage[] = {
		"GET / HTTP/1.1\r\n\r\n",
		"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\xff\xff\xff\xff\xff\xff\xff\xff\xff",
		"\n\n\n\n",
	};

	for (size_t i = 0; i < ARRAY_SIZE(garbage); i++) {
		char buffer[512];
		int pair[2];

		assert_int_equal(
			socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, pair),
			0);
		assert_int_equal(rpc_server_add(f->server, pair[0], 7), 0);
		assert_true(send(pair[1], garbage[i], strlen(garbage[i]), MSG_NOSIGNAL) > 0);
		(void)recv(pair[1], buffer, sizeof(buffer), 0);
		close_fd(pair[1]);
	}
	call(f, "/t.T/Echo", "fine", 0);
	wait_for(f, &f->results, 1);
	assert_string_equal(f->reply, "fine");
}

static void test_connections_are_bounded(void **state)
{
	struct fixture *f = *state;
	int ends[RPC_CONNECTIONS_MAX + 1];
	int pair[2], n = 0, r = 0;

	while (r >= 0 && n < RPC_CONNECTIONS_MAX + 1) {
		assert_int_equal(
			socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, pair),
			0);
		r = rpc_server_add(f->server, pair[0], 8);
		ends[n++] = pair[1];
	}
	assert_int_equal(r, -EMFILE);
	/* The fixture's connection counts. */
	assert_int_equal(n, RPC_CONNECTIONS_MAX);
	/* Room for one more at the price of the oldest; others are not touched. */
	assert_true(rpc_server_is_full(f->server));
	assert_int_equal(rpc_server_evict(f->server, 7), -ENOENT);
	assert_int_equal(rpc_server_evict(f->server, 8), 0);
	assert_false(rpc_server_is_full(f->server));
	assert_int_equal(
		socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, pair), 0);
	assert_int_equal(rpc_server_add(f->server, pair[0], 8), 0);
	close_fd(pair[1]);
	call(f, "/t.T/Echo", "still here", 0);
	wait_for(f, &f->results, 1);
	assert_string_equal(f->reply, "still here");
	for (int i = 0; i < n; i++)
		close_fd(ends[i]);
	/* Room again once the ends were noticed. */
	do {
		assert_true(sd_event_run(f->event, WAIT_USEC) > 0);
		assert_int_equal(
			socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, pair),
			0);
		r = rpc_server_add(f->server, pair[0], 8);
		close_fd(pair[1]);
	} while (r == -EMFILE);
	assert_int_equal(r, 0);
}

/* Takes the place of absl::GraphCycles::GetId(), which makes a mutex's node in the graph that
 * deadlocks are looked for in. */
#define GET_GRAPH_NODE "_ZN4absl7debian324synchronization_internal11GraphCycles5GetIdEPv"
uint64_t get_graph_node(void *graph, void *mutex) __asm__(GET_GRAPH_NODE);
static atomic_uint graph_nodes;

uint64_t get_graph_node(void *graph, void *mutex)
{
	uint64_t (*real)(void *graph, void *mutex);

	atomic_fetch_add(&graph_nodes, 1);
	*(void **)&real = dlsym(RTLD_NEXT, GET_GRAPH_NODE);
	return real(graph, mutex);
}

/* Last: what every test before it did counts. */
static void test_no_deadlock_detection(void **state)
{
	test_unary(state);
	assert_int_equal(atomic_load(&graph_nodes), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_unary, setup, teardown),
		cmocka_unit_test_setup_teardown(test_failure_text_arrives_whole, setup, teardown),
		cmocka_unit_test_setup_teardown(test_unknown_method, setup, teardown),
		cmocka_unit_test_setup_teardown(test_deferred_answer, setup, teardown),
		cmocka_unit_test_setup_teardown(test_answer_after_client_gave_up, setup, teardown),
		cmocka_unit_test_setup_teardown(test_oversized_request, setup, teardown),
		cmocka_unit_test_setup_teardown(test_stream_gets_newest, setup, teardown),
		cmocka_unit_test_setup_teardown(
			test_stream_opened_before_first_list, setup, teardown),
		cmocka_unit_test_setup_teardown(test_burst_is_coalesced, setup, teardown),
		cmocka_unit_test_setup_teardown(test_session_end_closes_stream, setup, teardown),
		cmocka_unit_test_setup_teardown(test_client_end_closes_stream, setup, teardown),
		cmocka_unit_test_setup_teardown(test_server_end_tells_stream, setup, teardown),
		cmocka_unit_test_setup_teardown(test_drain_waits_for_answers, setup, teardown),
		cmocka_unit_test_setup_teardown(test_garbage_peer, setup, teardown),
		cmocka_unit_test_setup_teardown(test_connections_are_bounded, setup, teardown),
		cmocka_unit_test_setup_teardown(test_no_deadlock_detection, setup, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
