/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The gRPC binding: unary calls, failures, deferred answers, unknown methods, cancelled calls.
 */
#include "rpc-fixture.h"

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

static struct rpc_call *defer_watched(struct fixture *f, uint64_t timeout)
{
	f->deferred = NULL;
	call(f, "/t.T/DeferWatched", "x", timeout);
	while (!f->deferred)
		assert_true(sd_event_run(f->event, WAIT_USEC) > 0);
	return f->deferred;
}

static void test_cancelled_call_is_reported(void **state)
{
	struct fixture *f = *state;
	struct rpc_call *first, *second;

	/* Answered in time, it is not cancelled. */
	rpc_reply(defer_watched(f, 0), (const uint8_t *)"answer", 6);
	wait_for(f, &f->results, 1);
	assert_string_equal(f->reply, "answer");
	rpc_fail(defer_watched(f, 0), RPC_INTERNAL, "no");
	wait_for(f, &f->results, 2);
	assert_string_equal(f->text, "no");
	assert_int_equal(f->cancelled, 0);
	/* By a deadline, and with its connection. */
	first = defer_watched(f, 50 * USEC_PER_MSEC);
	wait_for(f, &f->cancelled, 1);
	second = defer_watched(f, 0);
	rpc_server_end_session(f->server, 42);
	wait_for(f, &f->cancelled, 2);
	/* And is still to be answered. */
	rpc_reply(first, (const uint8_t *)"late", 4);
	rpc_fail(second, RPC_CANCELLED, "cancelled");
	rpc_server_drain(f->server, WAIT_USEC);
	wait_for(f, &f->results, 4);
	assert_int_equal(f->cancelled, 2);
}

static void ask(struct rpc_client *client, const char *path, struct fixture *f)
{
	assert_int_equal(
		rpc_client_call(client, path, (const uint8_t *)"hello", 5, on_result, f), 0);
}

/* What devplugd itself asks with. */
static void test_client(void **state)
{
	struct fixture *f = *state;
	struct rpc_client *client;
	int pair[2];

	assert_int_equal(
		socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, pair), 0);
	assert_int_equal(rpc_server_add(f->server, pair[0], 7), 0);
	assert_int_equal(rpc_client_new(pair[1], &client), 0);
	ask(client, "/t.T/Refuse", f);
	wait_for(f, &f->results, 1);
	assert_int_equal(f->status, RPC_FAILED_PRECONDITION);
	assert_string_equal(f->text, "100 % \"no\"; try ü");
	ask(client, "/t.T/Echo", f);
	wait_for(f, &f->results, 2);
	assert_string_equal(f->reply, "hello");
	/* Freed while its call has no answer. */
	ask(client, "/t.T/DeferWatched", f);
	while (!f->deferred)
		assert_true(sd_event_run(f->event, WAIT_USEC) > 0);
	client = rpc_client_free(client);
	wait_for(f, &f->results, 3);
	assert_int_equal(f->status, RPC_CANCELLED);
	wait_for(f, &f->cancelled, 1);
	rpc_fail(f->deferred, RPC_CANCELLED, "cancelled");
}

static void test_oversized_request(void **state)
{
	struct fixture *f = *state;
	size_t size = RPC_REQUEST_MAX + 1;
	uint8_t *data = calloc(1, size);

	assert_non_null(data);
	assert_int_equal(channel_call(f->client, "/t.T/Echo", data, size, 0, on_result, f), 0);
	wait_for(f, &f->results, 1);
	assert_int_equal(f->status, RPC_RESOURCE_EXHAUSTED);
	free(data);
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

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_unary, setup, teardown),
		cmocka_unit_test_setup_teardown(test_failure_text_arrives_whole, setup, teardown),
		cmocka_unit_test_setup_teardown(test_unknown_method, setup, teardown),
		cmocka_unit_test_setup_teardown(test_deferred_answer, setup, teardown),
		cmocka_unit_test_setup_teardown(test_answer_after_client_gave_up, setup, teardown),
		cmocka_unit_test_setup_teardown(test_cancelled_call_is_reported, setup, teardown),
		cmocka_unit_test_setup_teardown(test_client, setup, teardown),
		cmocka_unit_test_setup_teardown(test_oversized_request, setup, teardown),
		cmocka_unit_test_setup_teardown(test_drain_waits_for_answers, setup, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
