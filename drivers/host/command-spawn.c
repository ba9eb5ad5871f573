/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Starts a program that cannot outlive this process. It uses vfork(), because posix_spawn() cannot
 * set a parent-death signal. Between vfork() and execve(), the program's process runs in our memory
 * while the calling thread waits, so it may only make system calls and take no locks.
 */
#include "drivers/host/command-spawn.h"

#include <fcntl.h>
#include <linux/close_range.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>

#include "common/child-entry.h"

/* Removes the memory limit, which is meant for the process of a resource and not for programs. */
static void lift_memory_limit(void)
{
	struct rlimit limit;

	if (getrlimit(RLIMIT_DATA, &limit) < 0)
		return;
	limit.rlim_cur = limit.rlim_max;
	(void)setrlimit(RLIMIT_DATA, &limit);
}

/* Returns only if it fails, with errno set. */
static void become_program(char *const *argv, int input, int output, int error_output, pid_t parent)
{
	static char path[] = "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";
	static char language[] = "LANG=C.UTF-8";
	static char *const environment[] = { path, language, NULL };

	if (prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0) < 0)
		return;
	if (getppid() != parent) {
		errno = ESRCH;
		return;
	}
	if (input < 0)
		input = open("/dev/null", O_RDONLY | O_CLOEXEC);
	if (input < 0 || setsid() < 0 || dup2(input, STDIN_FILENO) < 0 ||
		dup2(output, STDOUT_FILENO) < 0 || dup2(error_output, STDERR_FILENO) < 0)
		return;
	/* Our own descriptors are close-on-exec, but descriptors of libraries may not be. */
	if (close_range(STDERR_FILENO + 1, ~0U, CLOSE_RANGE_CLOEXEC) < 0 && errno != ENOSYS &&
		errno != EINVAL)
		return;
	signals_reset();
	lift_memory_limit();
	(void)execve(argv[0], argv, environment);
}

int command_spawn(char *const *argv, int input, int output, int error_output, pid_t *ret_pid)
{
	/* Written by the other process, too. */
	volatile int failure = 0;
	pid_t parent = getpid(), pid;
	sigset_t all, before;

	/* None of our signal handlers may run in the new process. */
	(void)sigfillset(&all);
	(void)sigprocmask(SIG_SETMASK, &all, &before);
	pid = vfork();
	if (pid == 0) {
		become_program(argv, input, output, error_output, parent);
		failure = errno;
		_exit(EXIT_FAILURE);
	}
	if (pid < 0)
		failure = errno;
	else if (failure != 0)
		(void)RETRY_ON_EINTR(waitpid(pid, NULL, 0));
	(void)sigprocmask(SIG_SETMASK, &before, NULL);
	if (failure != 0)
		return -failure;
	*ret_pid = pid;
	return 0;
}
