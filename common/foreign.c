/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Closes untrusted descriptors without blocking: a helper process that shares our table of
 * descriptors and nothing else does it. Its close() acts on our descriptor, but only that process
 * waits for it. It ends with this process.
 */
#include "common/foreign.h"

#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "common/descriptors.h"

#ifndef P_PIDFD
	#define P_PIDFD 3
#endif

/* Processes that may wait at a time. */
#define CLOSERS_MAX 32
#define STACK_SIZE  16384
/* Freeing more memory than this takes time, too. */
#define MEMORY_MAX (64 << 20)
/* More messages do not fit into a socket with the limits that an unprivileged process has. */
#define UNREAD_MAX 4096

bool foreign_is_memory(int fd)
{
	struct stat st;

	return fcntl(fd, F_GET_SEALS) >= 0 && fstat(fd, &st) >= 0 && S_ISREG(st.st_mode);
}

static bool is_large(int fd)
{
	struct stat st;

	return fstat(fd, &st) < 0 || st.st_blocks > MEMORY_MAX / 512;
}

struct closing {
	const int *fds;
	size_t n;
};

/* Runs on a copy of our memory, but with our descriptors. */
static int close_and_end(void *userdata)
{
	const struct closing *closing = userdata;

	(void)prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
	for (size_t i = 0; i < closing->n; i++)
		(void)close(closing->fds[i]);
	return EXIT_SUCCESS;
}

/* Frees the slots of processes that have ended. Returns a free one, or NULL. */
static int *find_slot(void)
{
	static int pidfds[CLOSERS_MAX];
	static bool initialized;
	int *found = NULL;

	for (size_t i = 0; i < CLOSERS_MAX; i++) {
		siginfo_t info = { 0 };

		if (!initialized)
			pidfds[i] = -EBADF;
		else if (pidfds[i] >= 0 &&
			(waitid((idtype_t)P_PIDFD, (id_t)pidfds[i], &info, WEXITED | WNOHANG) < 0 ||
				info.si_pid != 0))
			pidfds[i] = close_fd(pidfds[i]);
		if (pidfds[i] < 0)
			found = &pidfds[i];
	}
	initialized = true;
	return found;
}

static void close_apart(const int *fds, size_t n)
{
	static char stack[STACK_SIZE] __attribute__((aligned(16)));
	struct closing closing = { .fds = fds, .n = n };
	int *slot = find_slot(), pidfd = -EBADF;

	if (slot &&
		clone(close_and_end, stack + sizeof(stack), CLONE_FILES | CLONE_PIDFD | SIGCHLD,
			&closing, &pidfd) > 0)
		*slot = pidfd;
}

/* Closes the descriptors that are memory, and moves the others to the front. Returns the number of
 * the others. */
static size_t close_memory(int *fds, size_t n)
{
	size_t kept = 0;

	for (size_t i = 0; i < n; i++)
		if (fds[i] >= 0 && foreign_is_memory(fds[i]) && !is_large(fds[i]))
			(void)close(fds[i]);
		else if (fds[i] >= 0)
			fds[kept++] = fds[i];
	return kept;
}

void foreign_close_all(int *fds, size_t n)
{
	int saved = errno;
	size_t rest = close_memory(fds, n);

	if (rest > 0)
		close_apart(fds, rest);
	errno = saved;
}

int foreign_close(int fd)
{
	foreign_close_all(&fd, 1);
	return -EBADF;
}

/* Receives a message from the socket; `ret_fds`: its descriptors that are not memory. Returns
 * whether there was a message; the end of the stream has no credentials. */
static bool discard(int fd, int ret_fds[static DESCRIPTORS_MAX], size_t *ret_n)
{
	char byte;
	struct iovec iov = { .iov_base = &byte, .iov_len = sizeof(byte) };
	struct descriptors received;

	if (descriptors_receive(fd, &iov, 1, MSG_DONTWAIT, &received) < 0)
		return false;
	*ret_n = close_memory(received.fds, received.count);
	memcpy(ret_fds, received.fds, *ret_n * sizeof(*ret_fds));
	return received.ancillary;
}

int foreign_close_socket(int fd)
{
	int fds[DESCRIPTORS_MAX];
	const int yes = 1;
	size_t n_fds = 0;
	unsigned n = 0;

	if (fd < 0)
		return -EBADF;
	(void)shutdown(fd, SHUT_RDWR);
	(void)setsockopt(fd, SOL_SOCKET, SO_PASSCRED, &yes, sizeof(yes));
	while (n < UNREAD_MAX && n_fds == 0 && discard(fd, fds, &n_fds))
		n++;
	if (n < UNREAD_MAX && n_fds == 0)
		return close_fd(fd);
	if (n_fds > 0)
		close_apart(fds, n_fds);
	/* With all further messages. */
	close_apart(&fd, 1);
	return -EBADF;
}
