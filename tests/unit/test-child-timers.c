/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A limit that kills a child is reached in wall-clock time, after its messages were read, and
 * begins again whenever the supervisor was paused.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "supervisor/children/child-timers.h"

#define LIMIT (30 * USEC_PER_SEC)

static sd_event *event;
static struct child_timers timers;
static unsigned received, fired;
static bool unread, answers; /* what receiving finds */

static bool on_receive(void *userdata)
{
	received++;
	if (answers)
		child_timers_set(
			&timers, RESOURCE_TIMER_WATCHDOG, now_usec(CLOCK_MONOTONIC) + LIMIT, true);
	return unread;
}

static void on_fire(enum resource_event what, void *userdata)
{
	assert_int_equal(what, RESOURCE_SILENT);
	fired++;
}

static int setup(void **state)
{
	assert_true(sd_event_new(&event) >= 0);
	assert_int_equal(child_timers_init(&timers, event, on_receive, on_fire, NULL), 0);
	received = fired = 0;
	unread = answers = false;
	return 0;
}

static int teardown(void **state)
{
	child_timers_done(&timers);
	event = sd_event_unref(event);
	return 0;
}

static sd_event_source *watchdog(void)
{
	return timers.items[RESOURCE_TIMER_WATCHDOG].source;
}

/* As if the timer had been due that long ago. */
static void let_fire(uint64_t late)
{
	assert_true(sd_event_source_set_time(watchdog(), now_usec(CLOCK_MONOTONIC) - late) >= 0);
	assert_true(sd_event_run(event, 0) > 0);
}

static void start(bool limit)
{
	child_timers_set(
		&timers, RESOURCE_TIMER_WATCHDOG, now_usec(CLOCK_MONOTONIC) + LIMIT, limit);
}

/* The whole limit lies ahead. */
static void assert_set_again(uint64_t since)
{
	uint64_t due;

	assert_int_equal(fired, 0);
	assert_true(sd_event_source_get_enabled(watchdog(), NULL) > 0);
	assert_true(sd_event_source_get_time(watchdog(), &due) >= 0);
	assert_true(due + USEC_PER_MSEC >= since + LIMIT);
}

static void test_limit(void **state)
{
	start(true);
	let_fire(0);
	assert_int_equal(received, 1);
	assert_int_equal(fired, 1);
	assert_int_equal(sd_event_source_get_enabled(watchdog(), NULL), 0);
}

static void test_P19_each_pause(void **state)
{
	start(true);
	for (unsigned i = 0; i < 3; i++) {
		uint64_t now = now_usec(CLOCK_MONOTONIC);

		let_fire(2 * USEC_PER_SEC);
		assert_set_again(now);
	}
	let_fire(0);
	assert_int_equal(fired, 1);
}

static void test_P19_unread_messages(void **state)
{
	uint64_t now = now_usec(CLOCK_MONOTONIC);

	start(true);
	unread = true;
	let_fire(0);
	assert_set_again(now);
	unread = false;
	let_fire(0);
	assert_int_equal(fired, 1);
}

/* The answer lay in the socket when the timer fired. */
static void test_P19_answer_is_read_first(void **state)
{
	uint64_t now = now_usec(CLOCK_MONOTONIC);

	start(true);
	answers = true;
	let_fire(0);
	assert_int_equal(received, 1);
	assert_set_again(now);
}

/* What is only due does not wait again. */
static void test_late_delay(void **state)
{
	start(false);
	let_fire(2 * USEC_PER_SEC);
	assert_int_equal(fired, 1);
}

static void test_off(void **state)
{
	start(true);
	child_timers_set(&timers, RESOURCE_TIMER_WATCHDOG, USEC_INFINITY, true);
	assert_int_equal(sd_event_source_get_enabled(watchdog(), NULL), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_limit, setup, teardown),
		cmocka_unit_test_setup_teardown(test_P19_each_pause, setup, teardown),
		cmocka_unit_test_setup_teardown(test_P19_unread_messages, setup, teardown),
		cmocka_unit_test_setup_teardown(test_P19_answer_is_read_first, setup, teardown),
		cmocka_unit_test_setup_teardown(test_late_delay, setup, teardown),
		cmocka_unit_test_setup_teardown(test_off, setup, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
