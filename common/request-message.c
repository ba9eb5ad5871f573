/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sends and receives one request or answer on the control socket of devplugctl. A text that is too
 * long for a packet travels in a descriptor. Only size and seals are checked here, not the text.
 */
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

#include "common/descriptors.h"
#include "common/foreign.h"
#include "common/request-message.h"
#include "common/sealed.h"

/* Since Linux 6.16: whether descriptors may be received. */
#ifndef SO_PASSRIGHTS
	#define SO_PASSRIGHTS 83
#endif

static int open_socket(int directory_fd, const char *name, struct sockaddr_un *ret_address)
{
	int fd;

	*ret_address = (struct sockaddr_un){ .sun_family = AF_UNIX };
	if ((size_t)snprintf(ret_address->sun_path, sizeof(ret_address->sun_path),
		    "/proc/self/fd/%d/%s", directory_fd, name) >= sizeof(ret_address->sun_path))
		return -ENAMETOOLONG;
	fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
	return fd < 0 ? -errno : fd;
}

int request_bind(int directory_fd, const char *name)
{
	static const int off;
	struct sockaddr_un address;
	_cleanup_close_ int fd = open_socket(directory_fd, name, &address);

	if (fd < 0)
		return fd;
	/* Accepted sockets inherit it. */
	(void)setsockopt(fd, SOL_SOCKET, SO_PASSRIGHTS, &off, sizeof(off));
	/* The mode of the socket becomes the mode of the path, so it is never wider. */
	if (fchmod(fd, 0600) < 0 || bind(fd, (struct sockaddr *)&address, sizeof(address)) < 0)
		return -errno;
	return TAKE_FD(fd);
}

int request_connect(
	int directory_fd, const char *name, unsigned connect_timeout, unsigned receive_timeout)
{
	const struct timeval connecting = { .tv_sec = connect_timeout };
	const struct timeval receiving = { .tv_sec = receive_timeout };
	struct sockaddr_un address;
	_cleanup_close_ int fd = open_socket(directory_fd, name, &address);

	if (fd < 0)
		return fd;
	if (setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &connecting, sizeof(connecting)) < 0 ||
		setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &receiving, sizeof(receiving)) < 0 ||
		connect(fd, (struct sockaddr *)&address, sizeof(address)) < 0)
		return -errno;
	return TAKE_FD(fd);
}

int request_send(int fd, const char *text, size_t size)
{
	_cleanup_close_ int memfd = -EBADF;
	struct iovec iov = { .iov_base = (void *)text, .iov_len = size };

	if (size > ANSWER_MAX)
		return -EFBIG;
	if (size > ANSWER_INLINE_MAX) {
		memfd = sealed_new("devplugd-answer", text, size);
		if (memfd < 0)
			return memfd;
		iov = (struct iovec){ .iov_base = (void *)"{}", .iov_len = 2 };
	}
	return descriptors_send(fd, &iov, 1, &memfd, memfd >= 0 ? 1 : 0);
}

int request_receive(int fd, char ret_text[static REQUEST_MAX + 1], size_t *ret_size)
{
	struct iovec iov = { .iov_base = ret_text, .iov_len = REQUEST_MAX };
	struct descriptors received;
	ssize_t n = descriptors_receive(fd, &iov, 1, MSG_DONTWAIT, &received);

	if (n < 0)
		return (int)n;
	foreign_close_all(received.fds, received.count);
	if (received.count > 0 || received.truncated)
		return -EBADMSG;
	if (n == 0)
		return -ECONNRESET;
	ret_text[n] = '\0';
	*ret_size = (size_t)n;
	return 0;
}

int request_receive_answer(int fd, char **ret_text, size_t *ret_size)
{
	_cleanup_free_ char *text = malloc(ANSWER_INLINE_MAX + 1);
	_cleanup_close_ int memfd = -EBADF;
	struct iovec iov = { .iov_base = text, .iov_len = ANSWER_INLINE_MAX };
	struct descriptors received;
	ssize_t n;

	if (!text)
		return -ENOMEM;
	n = descriptors_receive(fd, &iov, 1, 0, &received);
	if (n < 0)
		return (int)n;
	for (size_t i = 0; i < received.count; i++)
		if (i == 0)
			memfd = received.fds[i];
		else
			(void)close_fd(received.fds[i]);
	if (n == 0)
		return -ECONNRESET;
	if (received.truncated)
		return -EBADMSG;
	if (memfd >= 0)
		return sealed_read(memfd, ANSWER_MAX, ret_text, ret_size);
	text[n] = '\0';
	*ret_size = (size_t)n;
	*ret_text = TAKE_PTR(text);
	return 0;
}
