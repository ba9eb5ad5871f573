/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The gRPC binding: broadcast streams with a slow reader, and what ends them.
 */
#include "rpc-fixture.h"

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
	f->client = channel_free(f->client);
	wait_for(f, &f->closed, 1);
	wait_for(f, &f->results, 1);
	assert_int_equal(f->status, RPC_CANCELLED);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_stream_gets_newest, setup, teardown),
		cmocka_unit_test_setup_teardown(
			test_stream_opened_before_first_list, setup, teardown),
		cmocka_unit_test_setup_teardown(test_burst_is_coalesced, setup, teardown),
		cmocka_unit_test_setup_teardown(test_session_end_closes_stream, setup, teardown),
		cmocka_unit_test_setup_teardown(test_client_end_closes_stream, setup, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
