/* SPDX-License-Identifier: Apache-2.0 */
/*
 * When a resource registers with the kubelet, again, and how often.
 */
#include "resource-fixture.h"

static void test_registration_backoff(void **state)
{
	uint64_t expected = 100 * USEC_PER_MSEC;

	bring_to(RESOURCE_REGISTERING);
	for (unsigned i = 0; i < 12; i++) {
		uint64_t delay;

		tell(RESOURCE_SESSION_ENDED);
		expect(RESOURCE_WAITING);
		delay = wait_of(RESOURCE_TIMER_STATE);
		assert_true(delay >= expected * 9 / 10 && delay <= expected * 11 / 10);
		fire(RESOURCE_TIMER_STATE);
		expect(RESOURCE_REGISTERING);
		expected = MIN_OF(expected * 2, 10 * USEC_PER_SEC);
	}
	tell(RESOURCE_REGISTERED);
	tell(RESOURCE_WATCHED);
	world.now += 2 * USEC_PER_SEC;
	tell(RESOURCE_SESSION_ENDED);
	expect(RESOURCE_REGISTERING); /* at once */
	tell(RESOURCE_SESSION_ENDED);
	assert_true(wait_of(RESOURCE_TIMER_STATE) <= 110 * USEC_PER_MSEC);
	assert_int_equal(world.starts, 1);
	end();
}

/* The kubelet client reports the failure; the child still has the session. */
static void test_refused_registration(void **state)
{
	uint64_t expected = 100 * USEC_PER_MSEC;

	bring_to(RESOURCE_REGISTERING);
	for (unsigned i = 0; i < 12; i++) {
		uint64_t delay;

		tell(RESOURCE_REGISTRATION_FAILED);
		expect(RESOURCE_ENDING);
		assert_int_equal(world.ends, i + 1);
		/* It may have come after the answer that another session had. */
		tell(RESOURCE_REGISTERED);
		expect(RESOURCE_ENDING);
		tell(RESOURCE_SESSION_ENDED);
		expect(RESOURCE_WAITING);
		assert_string_equal(world.resource->reason, "because");
		delay = wait_of(RESOURCE_TIMER_STATE);
		assert_true(delay >= expected * 9 / 10 && delay <= expected * 11 / 10);
		fire(RESOURCE_TIMER_STATE);
		expect(RESOURCE_REGISTERING);
		expected = MIN_OF(expected * 2, 10 * USEC_PER_SEC);
	}
	assert_int_equal(world.resource->counts.registration_failures, 12);
	end();
}

/* The kubelet may watch before it has answered. */
static void test_answers_in_either_order(void **state)
{
	static const enum resource_event orders[][2] = {
		{ RESOURCE_REGISTERED, RESOURCE_WATCHED },
		{ RESOURCE_WATCHED, RESOURCE_REGISTERED },
	};

	for (size_t i = 0; i < ARRAY_SIZE(orders); i++) {
		bring_to(RESOURCE_REGISTERING);
		tell(orders[i][0]);
		expect(RESOURCE_REGISTERING);
		tell(orders[i][1]);
		expect(RESOURCE_SERVING);
		end();
	}
}

/* A kubelet that takes us and drops us again must not be kept busy; a new one is greeted at once.
 */
static void test_short_sessions(void **state)
{
	bring_to(RESOURCE_SERVING);
	tell(RESOURCE_SESSION_ENDED);
	expect(RESOURCE_REGISTERING);
	for (unsigned i = 0; i < 5; i++) {
		tell(RESOURCE_REGISTERED);
		tell(RESOURCE_WATCHED);
		tell(RESOURCE_SESSION_ENDED);
		expect(RESOURCE_WAITING);
		assert_true(wait_of(RESOURCE_TIMER_STATE) >= 90 * USEC_PER_MSEC << i);
		fire(RESOURCE_TIMER_STATE);
	}
	tell(RESOURCE_SESSION_ENDED);
	tell(RESOURCE_KUBELET);
	expect(RESOURCE_REGISTERING);
	tell(RESOURCE_SESSION_ENDED);
	assert_true(wait_of(RESOURCE_TIMER_STATE) <= 110 * USEC_PER_MSEC);
	end();
}

/* The child reports the beginning and the end of the stream before the kubelet client reports the
 * registration. That is no failure of it. */
static void test_short_session_before_the_answer(void **state)
{
	bring_to(RESOURCE_REGISTERING);
	tell(RESOURCE_WATCHED);
	tell(RESOURCE_SESSION_ENDED);
	expect(RESOURCE_REGISTERING); /* at once */
	for (unsigned i = 0; i < 5; i++) {
		tell(RESOURCE_WATCHED);
		tell(RESOURCE_SESSION_ENDED);
		expect(RESOURCE_WAITING);
		assert_true(wait_of(RESOURCE_TIMER_STATE) >= 90 * USEC_PER_MSEC << i);
		fire(RESOURCE_TIMER_STATE);
	}
	assert_int_equal(world.resource->failures[FAILURE_REGISTRATION].count, 0);
	end();
}

static void test_kubelet_away(void **state)
{
	uint64_t expected = USEC_PER_MSEC;

	bring_to(RESOURCE_WAITING);
	world.session_result = -ENOENT;
	tell(RESOURCE_KUBELET);
	expect(RESOURCE_WAITING);
	assert_int_equal(world.timers[RESOURCE_TIMER_STATE], USEC_INFINITY);
	world.session_result = -ECONNREFUSED;
	tell(RESOURCE_KUBELET);
	for (unsigned i = 0; i < 15; i++) {
		uint64_t delay = wait_of(RESOURCE_TIMER_STATE);

		assert_true(delay >= expected * 9 / 10 && delay <= expected * 11 / 10);
		fire(RESOURCE_TIMER_STATE);
		expected = MIN_OF(expected * 2, USEC_PER_SEC);
	}
	tell(RESOURCE_KUBELET);
	assert_true(wait_of(RESOURCE_TIMER_STATE) <= 2 * USEC_PER_MSEC);
	world.session_result = -EACCES;
	fire(RESOURCE_TIMER_STATE);
	assert_true(wait_of(RESOURCE_TIMER_STATE) >= 90 * USEC_PER_MSEC);
	assert_string_equal(world.resource->reason, "no session");
	end();
}

static void test_kubelet_never_disturbs(void **state)
{
	bring_to(RESOURCE_SERVING);
	for (unsigned i = 0; i < 100; i++)
		tell(RESOURCE_KUBELET);
	expect(RESOURCE_SERVING);
	assert_int_equal(world.sessions, 1);
	assert_int_equal(world.ends, 0);
	end();
}

/* A kubelet with a plugin watcher may connect in an hour, or have abandoned the socket: there is
 * always one for it, and none is older than the limit. */
static void test_watched_session_is_made_again(void **state)
{
	begin();
	world.session_result = 1;
	tell(RESOURCE_START);
	tell(RESOURCE_READY);
	expect(RESOURCE_REGISTERING);
	for (unsigned i = 1; i < 10; i++) {
		assert_int_equal(world.sessions, i);
		assert_int_equal(wait_of(RESOURCE_TIMER_STATE), RESOURCE_REGISTER_TIMEOUT);
		fire(RESOURCE_TIMER_STATE);
		expect(RESOURCE_ENDING);
		tell(RESOURCE_SESSION_ENDED);
		expect(RESOURCE_REGISTERING); /* at once */
	}
	tell(RESOURCE_WATCHED);
	expect(RESOURCE_REGISTERING);
	tell(RESOURCE_REGISTERED);
	expect(RESOURCE_SERVING);
	tell(RESOURCE_SESSION_ENDED);
	expect(RESOURCE_REGISTERING);
	assert_int_equal(world.sessions, 11);
	/* Registered, but not watched: that has a limit. */
	tell(RESOURCE_REGISTERED);
	assert_int_equal(wait_of(RESOURCE_TIMER_STATE), RESOURCE_WATCH_TIMEOUT);
	end();
}

static void test_both_orders_of_registration(void **state)
{
	bring_to(RESOURCE_REGISTERING);
	tell(RESOURCE_WATCHED);
	expect(RESOURCE_REGISTERING);
	assert_int_equal(wait_of(RESOURCE_TIMER_STATE), 30 * USEC_PER_SEC);
	tell(RESOURCE_REGISTERED);
	expect(RESOURCE_SERVING);
	assert_string_equal(resource_state_name(world.resource), "serving");
	assert_string_equal(world.resource->reason, "");
	end();

	bring_to(RESOURCE_REGISTERING);
	tell(RESOURCE_REGISTERED);
	expect(RESOURCE_REGISTERING);
	assert_int_equal(wait_of(RESOURCE_TIMER_STATE), 15 * USEC_PER_SEC);
	fire(RESOURCE_TIMER_STATE);
	expect(RESOURCE_ENDING);
	assert_int_equal(world.ends, 1);
	tell(RESOURCE_SESSION_ENDED);
	expect(RESOURCE_WAITING);
	assert_int_equal(wait_of(RESOURCE_TIMER_STATE), 100 * USEC_PER_MSEC);
	fire(RESOURCE_TIMER_STATE);
	assert_false(world.resource->registered); /* nothing of the last session is left */
	tell(RESOURCE_WATCHED);
	expect(RESOURCE_REGISTERING);
	end();
}

static void test_new_directory(void **state)
{
	bring_to(RESOURCE_SERVING);
	tell(RESOURCE_RENEW);
	expect(RESOURCE_ENDING);
	assert_int_equal(world.sessions, 1);
	tell(RESOURCE_SESSION_ENDED);
	expect(RESOURCE_REGISTERING); /* at once */
	assert_int_equal(world.sessions, 2);
	assert_int_equal(world.starts, 1);
	end();
}

/* The old one hangs: it does not end the session, nor answer Register. */
static void test_replaced_kubelet(void **state)
{
	static const enum resource_state states[] = { RESOURCE_SERVING, RESOURCE_REGISTERING };

	for (size_t i = 0; i < ARRAY_SIZE(states); i++) {
		bring_to(states[i]);
		world.resource->session_delay = RESOURCE_SESSION_DELAY_MAX;
		tell(RESOURCE_KUBELET_REPLACED);
		expect(RESOURCE_ENDING);
		assert_int_equal(world.sessions, 1);
		tell(RESOURCE_KUBELET_REPLACED);
		assert_int_equal(world.ends, 1);
		tell(RESOURCE_SESSION_ENDED);
		expect(RESOURCE_REGISTERING);
		assert_int_equal(world.sessions, 2);
		end();
	}
}

/* The delay after short sessions is not for the next kubelet, however late the session with the
 * last one ends. */
static void test_new_kubelet_while_a_session_ends(void **state)
{
	static const enum resource_event events[] = { RESOURCE_KUBELET, RESOURCE_RENEW };

	for (size_t i = 0; i < ARRAY_SIZE(events); i++) {
		bring_to(RESOURCE_REGISTERING);
		world.resource->session_delay = RESOURCE_SESSION_DELAY_MAX / 2;
		tell(RESOURCE_SOCKET_LOST);
		expect(RESOURCE_ENDING);
		tell(events[i]);
		expect(RESOURCE_ENDING);
		tell(RESOURCE_SESSION_ENDED);
		expect(RESOURCE_REGISTERING); /* at once */
		end();
	}
}

/* The new kubelet is noticed before the end of the session with the last one. */
static void test_new_kubelet_before_a_session_ends(void **state)
{
	bring_to(RESOURCE_REGISTERING);
	world.resource->session_delay = RESOURCE_SESSION_DELAY_MAX;
	tell(RESOURCE_KUBELET);
	tell(RESOURCE_SESSION_ENDED);
	assert_true(wait_of(RESOURCE_TIMER_STATE) <= 110 * USEC_PER_MSEC);
	end();

	bring_to(RESOURCE_SERVING);
	world.resource->session_delay = RESOURCE_SESSION_DELAY_MAX;
	tell(RESOURCE_KUBELET);
	tell(RESOURCE_SESSION_ENDED);
	expect(RESOURCE_REGISTERING); /* at once */
	end();
}

static void test_lost_socket(void **state)
{
	bring_to(RESOURCE_SERVING);
	world.now += RESOURCE_SESSION_PROVEN;
	tell(RESOURCE_SOCKET_LOST);
	expect(RESOURCE_ENDING);
	tell(RESOURCE_SESSION_ENDED);
	expect(RESOURCE_REGISTERING); /* at once */
	/* A process that removes every new one does not keep us busy. */
	for (unsigned i = 0; i < 5; i++) {
		tell(RESOURCE_SOCKET_LOST);
		tell(RESOURCE_SESSION_ENDED);
		expect(RESOURCE_WAITING);
		assert_true(wait_of(RESOURCE_TIMER_STATE) >= 90 * USEC_PER_MSEC << i);
		fire(RESOURCE_TIMER_STATE);
		expect(RESOURCE_REGISTERING);
	}
	end();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_registration_backoff),
		cmocka_unit_test(test_refused_registration),
		cmocka_unit_test(test_answers_in_either_order),
		cmocka_unit_test(test_short_sessions),
		cmocka_unit_test(test_short_session_before_the_answer),
		cmocka_unit_test(test_kubelet_away),
		cmocka_unit_test(test_kubelet_never_disturbs),
		cmocka_unit_test(test_watched_session_is_made_again),
		cmocka_unit_test(test_replaced_kubelet),
		cmocka_unit_test(test_new_kubelet_while_a_session_ends),
		cmocka_unit_test(test_new_kubelet_before_a_session_ends),
		cmocka_unit_test(test_lost_socket),
		cmocka_unit_test(test_both_orders_of_registration),
		cmocka_unit_test(test_new_directory),
	};

	log_setup("test-resource-session", LOG_TARGET_TEXT, LOG_CRIT);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
