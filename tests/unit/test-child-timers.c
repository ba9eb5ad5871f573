/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A limit that kills a child counts neither pauses of the supervisor nor the child's waiting for a
 * processor, and is reached all the same.
 */
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "supervisor/child-timers.h"

#define LIMIT (4 * USEC_PER_SEC)

/* Steps of that length until the limit is reached; `starved`: how much of each the child waits. */
static uint64_t time_to_end(struct patience *patience, uint64_t step, uint64_t starved)
{
	uint64_t now = 1000 * USEC_PER_SEC, begin = now, waited = patience->starved;

	while (!patience_step(patience, now, waited)) {
		now += step;
		waited += starved;
		assert_true(now - begin < 1000 * USEC_PER_SEC);
	}
	return now - begin;
}

static void test_silence(void **state)
{
	struct patience patience = { .limit = LIMIT };

	assert_int_equal(time_to_end(&patience, CHILD_TIMER_STEP, 0), LIMIT);
}

static void test_P19_paused_supervisor(void **state)
{
	struct patience patience = { .limit = LIMIT };

	/* Each step of ten seconds is one pause of ours. */
	assert_int_equal(time_to_end(&patience, 10 * USEC_PER_SEC, 0), LIMIT * 10 / 1);
	/* However late the first one comes, it counts nothing. */
	patience = (struct patience){ .limit = LIMIT };
	assert_false(patience_step(&patience, 4000 * USEC_PER_SEC, 0));
	assert_int_equal(patience.counted, 0);
}

static void test_P19_starved_child(void **state)
{
	struct patience patience = { .limit = LIMIT, .starved = USEC_PER_SEC };

	/* It runs in one fifth of the time. */
	assert_int_equal(
		time_to_end(&patience, CHILD_TIMER_STEP, CHILD_TIMER_STEP * 4 / 5), 5 * LIMIT);
	/* What it waited before the heartbeat is missed counts for it, too. */
	patience = (struct patience){ .limit = LIMIT };
	assert_false(patience_step(&patience, 1000 * USEC_PER_SEC, 2 * LIMIT));
	patience.counted = 3 * LIMIT - 1;
	assert_false(patience_step(&patience, 1000 * USEC_PER_SEC, 2 * LIMIT));
	patience.counted++;
	assert_true(patience_step(&patience, 1000 * USEC_PER_SEC, 2 * LIMIT));
	/* A number that shrinks is no reason to wait for ever. */
	patience = (struct patience){ .limit = LIMIT, .starved = 5 * LIMIT };
	assert_false(patience_step(&patience, 1000 * USEC_PER_SEC, 0));
	patience.counted = LIMIT;
	assert_true(patience_step(&patience, 1000 * USEC_PER_SEC, 0));
}

static int open_file(const char *path)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);

	assert_true(fd >= 0);
	return fd;
}

/* Nothing else may be read: that could block the supervisor. */
static void test_only_its_own_files(void **state)
{
	static const struct {
		const char *first, *second;
		int other_process;
	} wrong[] = {
		{ "/dev/null", "/proc/self/stat", 0 },
		{ "/proc/self/stat", "/proc/self/schedstat", 0 },
		{ "/proc/self/schedstat", "/proc/self/status", 0 },
		{ "/proc/self/schedstat", "/proc/self/stat", 1 },
	};
	struct child_timers timers = { .schedstat_fd = -EBADF, .stat_fd = -EBADF };
	int right[2], fds[2];

	for (size_t i = 0; i < ARRAY_SIZE(wrong); i++) {
		fds[0] = open_file(wrong[i].first);
		fds[1] = open_file(wrong[i].second);
		assert_true(
			child_timers_take_proc(&timers, fds, getpid() + wrong[i].other_process));
		assert_int_equal(timers.schedstat_fd, -EBADF);
		/* They are left to the caller, who closes them in another process. */
		close_fd(fds[0]);
		close_fd(fds[1]);
		child_timers_end_process(&timers);
	}
	right[0] = fds[0] = open_file("/proc/self/schedstat");
	right[1] = fds[1] = open_file("/proc/self/stat");
	assert_true(child_timers_take_proc(&timers, fds, getpid()));
	assert_int_equal(timers.schedstat_fd, right[0]);
	assert_int_equal(timers.stat_fd, right[1]);
	assert_int_equal(fds[0], -EBADF);
	assert_false(child_timers_take_proc(&timers, (int[]){ -EBADF, -EBADF }, getpid()));
	child_timers_end_process(&timers);
}

/* The kernel counts a wait when it is over. */
static void test_P19_one_long_wait(void **state)
{
	struct starvation starvation = { 0 };
	struct patience patience = { .limit = LIMIT };
	uint64_t now = 1000 * USEC_PER_SEC, waited = 7 * LIMIT;

	patience.starved = starvation_step(&starvation, now, 5, waited * 1000, false);
	assert_int_equal(patience.starved, waited);
	/* It is ready, but does not run for a minute. */
	for (unsigned i = 0; i < 120; i++) {
		now += CHILD_TIMER_STEP;
		assert_false(patience_step(
			&patience, now, starvation_step(&starvation, now, 5, waited * 1000, true)));
	}
	/* Then it runs, is counted to have waited, and hangs. */
	waited += 60 * USEC_PER_SEC;
	for (unsigned i = 0; i < LIMIT / CHILD_TIMER_STEP; i++) {
		now += CHILD_TIMER_STEP;
		assert_false(patience_step(&patience, now,
			starvation_step(&starvation, now, 6, waited * 1000, false)));
	}
	for (unsigned i = 0; i < 2; i++) {
		now += CHILD_TIMER_STEP;
		if (patience_step(&patience, now,
			    starvation_step(&starvation, now, 6, waited * 1000, false)))
			return;
	}
	fail_msg("a child that hangs is spared");
}

/* Ready at every check, because it runs all the time. */
static void test_P8_child_that_spins(void **state)
{
	struct starvation starvation = { 0 };
	struct patience patience = { .limit = LIMIT };
	uint64_t now = 1000 * USEC_PER_SEC, begin = now, ran = 0;

	patience.starved = starvation_step(&starvation, now, ran, 0, true);
	do {
		now += CHILD_TIMER_STEP;
		ran += CHILD_TIMER_STEP * 1000;
		assert_true(now - begin <= 2 * LIMIT);
	} while (!patience_step(&patience, now, starvation_step(&starvation, now, ran, 0, true)));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_silence),
		cmocka_unit_test(test_P19_paused_supervisor),
		cmocka_unit_test(test_P19_starved_child),
		cmocka_unit_test(test_P19_one_long_wait),
		cmocka_unit_test(test_P8_child_that_spins),
		cmocka_unit_test(test_only_its_own_files),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
