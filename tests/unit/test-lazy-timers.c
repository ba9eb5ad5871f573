/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Threads that name themselves as gRPC's timer threads do: they wait longer than they say, can be
 * woken at any time, and nobody else's system calls are changed.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <linux/futex.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/syscall.h>
#include <time.h>

#include "supervisor/common/util.h"

#define NSEC_PER_MSEC 1000000L

struct waiter {
	const char *name;
	bool absolute;
	atomic_int tid;
	atomic_uint word;
	int error; /* 0: it was woken */
};

static void *wait_shortly(void *userdata)
{
	struct timespec timeout = { .tv_nsec = 20 * NSEC_PER_MSEC };
	struct waiter *waiter = userdata;
	long r;

	(void)pthread_setname_np(pthread_self(), waiter->name);
	if (waiter->absolute)
		(void)clock_gettime(CLOCK_REALTIME, &timeout);
	atomic_store(&waiter->tid, (int)syscall(SYS_gettid));
	if (waiter->absolute)
		r = syscall(SYS_futex, &waiter->word,
			FUTEX_WAIT_BITSET_PRIVATE | FUTEX_CLOCK_REALTIME, 0U, &timeout, NULL,
			FUTEX_BITSET_MATCH_ANY);
	else
		r = syscall(SYS_futex, &waiter->word, FUTEX_WAIT_PRIVATE, 0U, &timeout, NULL, 0);
	waiter->error = r < 0 ? errno : 0;
	return NULL;
}

/* Lets it wait far longer than it says, and wakes it. */
static int wait_and_wake(const char *name, bool absolute)
{
	struct waiter waiter = { .name = name, .absolute = absolute };
	pthread_t thread;

	assert_int_equal(pthread_create(&thread, NULL, wait_shortly, &waiter), 0);
	while (atomic_load(&waiter.tid) == 0)
		(void)nanosleep(&(struct timespec){ .tv_nsec = NSEC_PER_MSEC }, NULL);
	(void)nanosleep(&(struct timespec){ .tv_nsec = 200 * NSEC_PER_MSEC }, NULL);
	atomic_store(&waiter.word, 1);
	(void)syscall(SYS_futex, &waiter.word, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
	assert_int_equal(pthread_join(thread, NULL), 0);
	return waiter.error;
}

static void test_timer_threads_wait_longer(void **state)
{
	assert_int_equal(wait_and_wake("timer_manager", true), 0);
	assert_int_equal(wait_and_wake("grpc_global_timer", true), 0);
	assert_int_equal(wait_and_wake("timer_manager", false), 0);
}

static void test_other_threads_do_not(void **state)
{
	assert_int_equal(wait_and_wake("event_engine", true), ETIMEDOUT);
	assert_int_equal(wait_and_wake("event_engine", false), ETIMEDOUT);
}

static void test_system_calls_are_passed_on(void **state)
{
	char text[] = "text", copy[sizeof(text)] = "";
	int fds[2];

	assert_int_equal(syscall(SYS_getpid), getpid());
	assert_int_equal(syscall(SYS_close, -1), -1);
	assert_int_equal(errno, EBADF);
	assert_int_equal(syscall(SYS_pipe2, fds, 0), 0);
	assert_int_equal(syscall(SYS_write, fds[1], text, sizeof(text)), sizeof(text));
	/* One with six. */
	assert_int_equal(syscall(SYS_splice, fds[0], NULL, -1, NULL, sizeof(text), 0), -1);
	assert_int_equal(errno, EBADF);
	assert_int_equal(syscall(SYS_read, fds[0], copy, sizeof(copy)), sizeof(text));
	assert_string_equal(copy, text);
	close_fd(fds[0]);
	close_fd(fds[1]);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_timer_threads_wait_longer),
		cmocka_unit_test(test_other_threads_do_not),
		cmocka_unit_test(test_system_calls_are_passed_on),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
