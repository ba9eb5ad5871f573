/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Decides how much memory a child may use, and ends it with a message when gRPC runs out of memory.
 * Only the soft limit is set, so that it can be lifted again. The handler runs in a process that is
 * out of memory and may hold any lock, so it only makes system calls, with a message that was made
 * before.
 */
#include "proto/plugin/memory-limit.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/resource.h>

#include "common/util.h"

#ifndef __SANITIZE_ADDRESS__

/* When a buffer that doubles exceeds the limit, the failed allocation is as large as the memory in
 * use. */
	#define MEMORY_MUCH (MEMORY_MAX / 2)
	#define DATA_FIELD  5 /* of /proc/self/statm, see proc_pid_statm(5); in pages */

static size_t page_size;
static char complaint[256];
static size_t complaint_length;

static size_t memory_in_use(void)
{
	char text[128];
	int fd = open("/proc/self/statm", O_RDONLY | O_CLOEXEC);
	ssize_t n = fd < 0 ? -1 : read(fd, text, sizeof(text));
	size_t pages = 0;
	unsigned field = 0;

	close_fd(fd);
	for (ssize_t i = 0; i < n && field <= DATA_FIELD; i++)
		if (text[i] == ' ')
			field++;
		else if (field == DATA_FIELD)
			pages = pages * 10 + (size_t)(text[i] - '0');
	return pages * page_size;
}

/* The signals of libraries that check the result of malloc(), and of libraries that do not. */
static void on_crash(int number, siginfo_t *info, void *context)
{
	bool fault = info->si_code > 0;

	/* The supervisor asks by SIGABRT for the core of a process that hangs. */
	if ((fault || info->si_pid == getpid()) && memory_in_use() > MEMORY_MUCH) {
		(void)RETRY_ON_EINTR(write(STDERR_FILENO, complaint, complaint_length));
		/* No core is written, because it would be large and would not help. */
		_exit(EXIT_FAILURE);
	}
	/* The default action applies again, and a fault repeats itself. */
	if (!fault)
		(void)raise(number);
}

void memory_limit_set(void)
{
	const struct sigaction action = {
		.sa_sigaction = on_crash,
		.sa_flags = (int)(SA_RESETHAND | SA_SIGINFO),
	};
	struct rlimit limit;

	if (getrlimit(RLIMIT_DATA, &limit) < 0)
		return;
	limit.rlim_cur = MIN_OF(limit.rlim_cur, (rlim_t)MEMORY_MAX);
	if (setrlimit(RLIMIT_DATA, &limit) < 0)
		return;
	page_size = (size_t)sysconf(_SC_PAGESIZE);
	complaint_length = (size_t)snprintf(complaint, sizeof(complaint),
		"<3>this process needed more than its limit of %lu MiB of memory; a new one is started. "
		"If no process of root floods the resource's socket, report this\n",
		MEMORY_MAX >> 20);
	(void)sigaction(SIGABRT, &action, NULL);
	(void)sigaction(SIGSEGV, &action, NULL);
}

#else

void memory_limit_set(void)
{
}

#endif
