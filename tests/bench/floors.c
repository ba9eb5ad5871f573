/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The other process is a copy of this one, which shares nothing with it but a pair of sockets and
 * does not outlive it.
 */
#include "floors.h"

#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <sys/inotify.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>

#include "common/util.h"
#include "samples.h"

#define PING_SIZE 18 /* the payload of an Allocate for one device, about */

static void echo(int fd)
{
	char buffer[PING_SIZE];
	ssize_t n;

	while ((n = read(fd, buffer, sizeof(buffer))) > 0)
		if (write(fd, buffer, (size_t)n) != n)
			break;
	_exit(EXIT_SUCCESS);
}

/* Sends the content of the file after each change. */
static void tell_changes(int fd, const char *path)
{
	char buffer[sizeof(struct inotify_event) + NAME_MAX + 1];
	int watch = inotify_init1(IN_CLOEXEC);

	if (watch < 0 || inotify_add_watch(watch, path, IN_CLOSE_WRITE) < 0 ||
		write(fd, "", 1) != 1)
		_exit(EXIT_FAILURE);
	while (read(watch, buffer, sizeof(buffer)) > 0) {
		int file = open(path, O_RDONLY | O_CLOEXEC);
		ssize_t n = read(file, buffer, sizeof(buffer));

		(void)close(file);
		if (n <= 0 || write(fd, buffer, (size_t)n) != n)
			break;
	}
	_exit(EXIT_SUCCESS);
}

/* Starts a process that echoes, or that sends the file after each change. */
static int start_peer(const char *file, int *ret_fd, pid_t *ret_pid)
{
	int fds[2];
	pid_t pid;

	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds) < 0)
		return -errno;
	pid = fork();
	if (pid < 0)
		return -errno;
	if (pid == 0) {
		(void)prctl(PR_SET_PDEATHSIG, SIGKILL);
		fds[0] = close_fd(fds[0]);
		if (file)
			tell_changes(fds[1], file);
		echo(fds[1]);
	}
	fds[1] = close_fd(fds[1]);
	*ret_fd = fds[0];
	*ret_pid = pid;
	return 0;
}

int run_notice(int argc, char *argv[])
{
	unsigned n = (unsigned)atoi(argv[1]);
	useconds_t gap = (useconds_t)atoi(argv[2]);
	_cleanup_free_ uint64_t *samples = calloc(n ?: 1, sizeof(*samples));
	_cleanup_close_ int fd = -EBADF;
	char buffer[PING_SIZE];
	pid_t peer;
	int r;

	if (!samples || n == 0)
		return -EINVAL;
	r = start_peer(argv[0], &fd, &peer);
	if (r >= 0 && read(fd, buffer, sizeof(buffer)) != 1)
		r = -EIO;
	for (unsigned i = 0; i < n && r >= 0; i++) {
		uint64_t began = now_nsec();

		r = write_health(argv[0], i % 2 ? "ok\n" : "bad");
		if (r >= 0 && read(fd, buffer, sizeof(buffer)) <= 0)
			r = -EIO;
		samples[i] = now_nsec() - began;
		(void)usleep(gap);
	}
	return r < 0 ? r : print_samples(samples, n);
}

int run_ping(int argc, char *argv[])
{
	unsigned n = (unsigned)atoi(argv[0]);
	_cleanup_free_ uint64_t *samples = calloc(n ?: 1, sizeof(*samples));
	char buffer[PING_SIZE] = { 0 };
	_cleanup_close_ int fd = -EBADF;
	pid_t peer;
	int r;

	if (!samples || n == 0)
		return -EINVAL;
	r = start_peer(NULL, &fd, &peer);
	if (r < 0)
		return r;
	for (unsigned i = 0; i < WARM_UP + n; i++) {
		uint64_t began = now_nsec();

		if (write(fd, buffer, sizeof(buffer)) != (ssize_t)sizeof(buffer) ||
			read(fd, buffer, sizeof(buffer)) != (ssize_t)sizeof(buffer))
			return -EIO;
		if (i >= WARM_UP)
			samples[i - WARM_UP] = now_nsec() - began;
	}
	fd = close_fd(fd);
	(void)waitpid(peer, NULL, 0);
	return print_samples(samples, n);
}
