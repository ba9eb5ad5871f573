/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A process that became our child because its parent ended is reaped, however many end; one that is
 * watched is left to its watcher.
 */
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/prctl.h>
#include <sys/wait.h>

#include <cmocka.h>

#include "common/util.h"
#include "supervisor/process/orphans.h"

#define N_ORPHANS 32
#define N_STORM   50

static unsigned watched_ended;

static int on_watched(sd_event_source *source, const siginfo_t *info, void *userdata)
{
	watched_ended++;
	assert_int_equal(info->si_status, 3);
	return 0;
}

/* Makes a process that ends at once and leaves another behind, which ends when the pipe does. */
static void make_orphan(const int pipe_fds[static 2])
{
	pid_t between = fork();
	char none;

	assert_true(between >= 0);
	if (between > 0) {
		assert_int_equal(waitpid(between, NULL, 0), between);
		return;
	}
	if (fork() == 0) {
		(void)close(pipe_fds[1]);
		(void)!read(pipe_fds[0], &none, sizeof(none));
	}
	_exit(0);
}

static bool has_children(void)
{
	siginfo_t info = { 0 };

	return waitid(P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT) >= 0;
}

static sd_event *reaping_loop_new(void)
{
	sd_event *event = NULL;
	sigset_t blocked;

	(void)sigemptyset(&blocked);
	(void)sigaddset(&blocked, SIGCHLD);
	assert_int_equal(sigprocmask(SIG_BLOCK, &blocked, NULL), 0);
	assert_int_equal(sd_event_new(&event), 0);
	assert_int_equal(orphans_reap(event), 0);
	return event;
}

static void test_orphans_are_reaped(void **state)
{
	sd_event_source *source = NULL;
	sd_event *event = reaping_loop_new();
	int pipe_fds[2];
	pid_t watched;

	assert_int_equal(pipe2(pipe_fds, O_CLOEXEC), 0);

	watched = fork();
	if (watched == 0)
		_exit(3);
	for (unsigned i = 0; i < N_ORPHANS; i++)
		make_orphan(pipe_fds);
	close_fd(pipe_fds[0]);
	close_fd(pipe_fds[1]);
	assert_true(sd_event_add_child(event, &source, watched, WEXITED, on_watched, NULL) >= 0);
	while (has_children())
		assert_true(sd_event_run(event, 60 * USEC_PER_SEC) > 0);
	assert_int_equal(watched_ended, 1);
	sd_event_source_disable_unref(source);
	sd_event_unref(event);
}

/* Each end is a signal of its own, while another process has the descriptors of the loop. */
static void test_a_storm_of_ends(void **state)
{
	sd_event *event = reaping_loop_new();
	siginfo_t info;
	pid_t holder, one;

	holder = fork();
	if (holder == 0) {
		(void)prctl(PR_SET_PDEATHSIG, SIGKILL);
		(void)pause();
		_exit(0);
	}
	assert_true(holder > 0);
	for (unsigned i = 0; i < N_STORM; i++) {
		one = fork();
		if (one == 0)
			_exit(0);
		assert_true(one > 0);
		assert_true(sd_event_run(event, 60 * USEC_PER_SEC) > 0);
		/* As if another one had ended. */
		assert_int_equal(raise(SIGCHLD), 0);
		while (waitid(P_PID, (id_t)one, &info, WEXITED | WNOHANG | WNOWAIT) >= 0)
			assert_true(sd_event_run(event, 60 * USEC_PER_SEC) > 0);
	}
	assert_int_equal(kill(holder, SIGKILL), 0);
	assert_int_equal(waitpid(holder, NULL, 0), holder);
	sd_event_unref(event);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_orphans_are_reaped),
		cmocka_unit_test(test_a_storm_of_ends),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
