/* SPDX-License-Identifier: Apache-2.0 */
/*
 * When a resource's child is started, started again, given up and stopped.
 */
#include "resource-fixture.h"
#include "supervisor/process/retry-delay.h"

static void test_delay_law(void **state)
{
	uint64_t delay = 0, expected = 100;

	for (unsigned i = 0; i < 20; i++) {
		uint64_t low = delay, high = delay, least, most;

		least = retry_delay_next(&low, 100, 60000, 0);
		most = retry_delay_next(&high, 100, 60000, UINT32_MAX);
		(void)retry_delay_next(&delay, 100, 60000, 12345);
		assert_int_equal(delay, expected);
		assert_int_equal(least, expected * 9 / 10);
		assert_int_equal(most, expected * 9 / 10 + expected / 5);
		expected = MIN_OF(expected * 2, 60000U);
	}
	assert_int_equal(expected, 60000);
}

static void test_crash_backoff(void **state)
{
	uint64_t expected = 100 * USEC_PER_MSEC;

	begin();
	tell(RESOURCE_START);
	for (unsigned i = 0; i < 15; i++) {
		uint64_t delay;

		tell(RESOURCE_EXIT);
		expect(RESOURCE_BACKOFF);
		delay = wait_of(RESOURCE_TIMER_STATE);
		assert_true(delay >= expected * 9 / 10 && delay <= expected * 11 / 10);
		assert_int_equal(world.resource->next_try, world.timers[RESOURCE_TIMER_STATE]);
		fire(RESOURCE_TIMER_STATE);
		assert_int_equal(world.resource->restarts, i + 1);
		expected = MIN_OF(expected * 2, 60 * USEC_PER_SEC);
	}
	end();
}

/* Serves for that long, dies, and is started again. Returns the delay in between. */
static uint64_t serve_and_die(uint64_t served)
{
	uint64_t delay;

	tell(RESOURCE_READY);
	tell(RESOURCE_REGISTERED);
	tell(RESOURCE_WATCHED);
	expect(RESOURCE_SERVING);
	world.now += served;
	tell(RESOURCE_EXIT);
	delay = wait_of(RESOURCE_TIMER_STATE);
	fire(RESOURCE_TIMER_STATE);
	return delay;
}

/* P4: each second of service halves the delay before it doubles. */
static void test_delay_falls_with_service(void **state)
{
	begin();
	tell(RESOURCE_START);
	for (unsigned i = 0; i < 15; i++)
		(void)serve_and_die(USEC_PER_SEC - 1);
	assert_int_equal(serve_and_die(USEC_PER_SEC - 1), 60 * USEC_PER_SEC - 1);
	assert_int_equal(serve_and_die(USEC_PER_SEC) / USEC_PER_SEC, 59);
	assert_int_equal(serve_and_die(4 * USEC_PER_SEC) / USEC_PER_MSEC, 7499);
	assert_int_equal(serve_and_die(100 * USEC_PER_SEC) / USEC_PER_MSEC, 99);
	end();
}

/* A child that had served for some seconds is killed again and again. */
static void test_kill_storm_is_over_soon(void **state)
{
	begin();
	tell(RESOURCE_START);
	for (unsigned i = 0; i < 15; i++)
		(void)serve_and_die(0);
	for (unsigned i = 0; i < 300; i++)
		assert_true(serve_and_die((2 + i % 5) * USEC_PER_SEC) <= 5 * USEC_PER_SEC || i < 3);
	end();
}

static void test_start_failure_backs_off(void **state)
{
	begin();
	world.start_result = -EAGAIN;
	tell(RESOURCE_START);
	expect(RESOURCE_BACKOFF);
	assert_string_equal(world.resource->reason, "cannot start");
	fire(RESOURCE_TIMER_STATE);
	expect(RESOURCE_BACKOFF);
	assert_true(wait_of(RESOURCE_TIMER_STATE) >= 180 * USEC_PER_MSEC);
	world.start_result = 0;
	fire(RESOURCE_TIMER_STATE);
	expect(RESOURCE_STARTING);
	assert_int_equal(world.resource->restarts, 0);
	end();
}

static void test_hung_child(void **state)
{
	bring_to(RESOURCE_SERVING);
	world.now += 9 * USEC_PER_SEC;
	tell(RESOURCE_ALIVE);
	assert_int_equal(wait_of(RESOURCE_TIMER_WATCHDOG), 30 * USEC_PER_SEC);
	fire(RESOURCE_TIMER_WATCHDOG);
	expect(RESOURCE_DYING);
	assert_int_equal(world.last_signal, SIGABRT);
	fire(RESOURCE_TIMER_STATE);
	assert_int_equal(world.last_signal, SIGKILL);
	tell(RESOURCE_EXIT);
	expect(RESOURCE_BACKOFF);
	assert_non_null(strstr(world.resource->reason, "no heartbeat; because"));
	assert_false(world.session_open);
	end();

	bring_to(RESOURCE_ENDING);
	fire(RESOURCE_TIMER_STATE);
	expect(RESOURCE_DYING);
	assert_int_equal(world.last_signal, SIGABRT);
	end();

	bring_to(RESOURCE_SERVING);
	world.send_result = -EAGAIN;
	tell(RESOURCE_RENEW);
	expect(RESOURCE_DYING);
	end();
}

static void test_refused_start(void **state)
{
	bring_to(RESOURCE_FAILED);
	assert_string_equal(resource_state_name(world.resource), "failed");
	assert_int_equal(wait_of(RESOURCE_TIMER_STATE), 60 * USEC_PER_SEC);
	tell(RESOURCE_EXIT); /* a child may end after it has refused */
	expect(RESOURCE_FAILED);
	assert_non_null(strstr(world.resource->reason, "because"));
	fire(RESOURCE_TIMER_STATE);
	expect(RESOURCE_STARTING);
	assert_int_equal(world.starts, 2);
	tell(RESOURCE_REFUSED);
	update("one", NULL); /* a reload tries again, with the same text, too */
	expect(RESOURCE_STARTING);
	assert_int_equal(world.configures, 1);
	end();
}

static void test_stop(void **state)
{
	bring_to(RESOURCE_SERVING);
	tell(RESOURCE_STOP);
	assert_int_equal(world.stops, 1);
	assert_true(world.session_open); /* the child still serves until it has ended */
	fire(RESOURCE_TIMER_STATE);
	assert_int_equal(world.last_signal, SIGKILL);
	tell(RESOURCE_EXIT);
	expect(RESOURCE_STOPPED);
	assert_false(world.session_open);
	for (size_t i = 0; i < _RESOURCE_TIMER_MAX; i++)
		assert_int_equal(world.timers[i], USEC_INFINITY);
	end();

	bring_to(RESOURCE_SERVING);
	world.send_result = -EAGAIN;
	tell(RESOURCE_STOP);
	assert_int_equal(world.last_signal, SIGKILL); /* it does not read */
	end();
}

static void test_removed_and_added_again(void **state)
{
	bring_to(RESOURCE_STOPPING);
	tell(RESOURCE_START);
	tell(RESOURCE_EXIT);
	expect(RESOURCE_STARTING);
	end();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_delay_law),
		cmocka_unit_test(test_crash_backoff),
		cmocka_unit_test(test_delay_falls_with_service),
		cmocka_unit_test(test_kill_storm_is_over_soon),
		cmocka_unit_test(test_start_failure_backs_off),
		cmocka_unit_test(test_hung_child),
		cmocka_unit_test(test_refused_start),
		cmocka_unit_test(test_stop),
		cmocka_unit_test(test_removed_and_added_again),
	};

	log_setup("test-resource-child", LOG_TARGET_TEXT, LOG_CRIT);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
