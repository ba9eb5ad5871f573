/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The pause after a piece of work, which depends on what the thread did, not on what it waited for.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <unistd.h>

#include <cmocka.h>

#include "common/pace.h"

#define WAITED (500 * USEC_PER_MSEC)

static uint64_t pause_after(const struct pace *pace, uint64_t end)
{
	return pace->not_before - end;
}

static void test_waiting_costs_nothing(void **state)
{
	struct pace pace = { 0 };

	pace_begin(&pace);
	(void)usleep(WAITED);
	/* It would be longer than the minimum. */
	assert_int_equal(pause_after(&pace, pace_end(&pace, WAITED)), WAITED);
}

static void test_work_costs_a_pause(void **state)
{
	struct pace pace = { 0 };
	uint64_t begun = now_usec(CLOCK_THREAD_CPUTIME_ID), took;

	pace_begin(&pace);
	do
		took = now_usec(CLOCK_THREAD_CPUTIME_ID) - begun;
	while (took < 100 * USEC_PER_MSEC);
	assert_true(pause_after(&pace, pace_end(&pace, 0)) >= 390 * USEC_PER_MSEC);
}

/* A disk that is slow holds up the whole thread. */
static void test_waiting_for_a_disk_costs_a_pause(void **state)
{
	struct pace pace = { 0 };

	pace_begin(&pace);
	(void)usleep(WAITED);
	assert_true(pause_after(&pace, pace_end_of_writing(&pace, 0)) >= PACE_FACTOR * WAITED);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_waiting_costs_nothing),
		cmocka_unit_test(test_work_costs_a_pause),
		cmocka_unit_test(test_waiting_for_a_disk_costs_a_pause),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
