/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Counting into a page that outlives the counting process.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/wait.h>

#include <cmocka.h>

#include "common/counters.h"

static void count_in_process(int fd, bool answered, uint64_t usec)
{
	pid_t pid = fork();
	int status;

	assert_true(pid >= 0);
	if (pid == 0) {
		if (counters_use(fd) < 0)
			_exit(1);
		counters_add_allocation(answered, usec);
		_exit(0);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
}

static void test_processes_add_up(void **state)
{
	_cleanup_close_ int fd = counters_new();
	uint64_t values[_COUNTER_MAX];

	assert_true(fd >= 0);
	count_in_process(fd, true, 1000);
	count_in_process(fd, true, 1001);
	count_in_process(fd, false, 3600 * USEC_PER_SEC);
	/* Without a page it is counted elsewhere. */
	counters_add_allocation(true, 1);
	assert_int_equal(counters_read(fd, values), 0);
	assert_int_equal(values[COUNTER_ALLOCATIONS_OK], 2);
	assert_int_equal(values[COUNTER_ALLOCATIONS_FAILED], 1);
	assert_int_equal(values[COUNTER_ALLOCATION_USEC], 2001 + 3600 * USEC_PER_SEC);
	assert_int_equal(values[COUNTER_ALLOCATION_BUCKET], 1);
	assert_int_equal(values[COUNTER_ALLOCATION_BUCKET + 1], 1);
	assert_int_equal(values[COUNTER_ALLOCATION_BUCKET + ALLOCATION_BUCKETS - 1], 1);
	assert_int_equal(values[COUNTER_PROBES_HEALTHY], 0);
}

/* A process that has it cannot shorten it, which would end those who have it mapped. */
static void test_size_is_fixed(void **state)
{
	_cleanup_close_ int fd = counters_new();
	uint64_t values[_COUNTER_MAX];

	assert_int_equal(ftruncate(fd, 0), -1);
	assert_int_equal(errno, EPERM);
	assert_int_equal(counters_read(fd, values), 0);
	assert_int_equal(counters_read(STDERR_FILENO, values) < 0, 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_processes_add_up),
		cmocka_unit_test(test_size_is_fixed),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
