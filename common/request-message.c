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

/* Receives a packet as the socket is set to, with room for the NUL behind it. `ret_memfd`: what
 * came with it, or -EBADF. Returns its size or negative errno. */
static int receive_packet(int fd, char *text, size_t size, int *ret_memfd)
{
	struct iovec iov = { .iov_base = text, .iov_len = size - 1 };
	_cleanup_close_ int memfd = -EBADF;
	struct descriptors received;
	ssize_t n;

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
	text[n] = '\0';
	*ret_memfd = TAKE_FD(memfd);
	return (int)n;
}

int request_receive_answer(int fd, char **ret_text, size_t *ret_size)
{
	_cleanup_free_ char *text = malloc(ANSWER_INLINE_MAX + 1);
	_cleanup_close_ int memfd = -EBADF;
	int n;

	if (!text)
		return -ENOMEM;
	n = receive_packet(fd, text, ANSWER_INLINE_MAX + 1, &memfd);
	if (n < 0)
		return n;
	if (memfd >= 0)
		return sealed_read(memfd, ANSWER_MAX, ret_text, ret_size);
	*ret_size = (size_t)n;
	*ret_text = TAKE_PTR(text);
	return 0;
}

int request_send_devices(int fd, const char *resource, int devices_fd)
{
	char text[REQUEST_MAX];
	struct iovec iov = { .iov_base = text };

	/* Nothing in the name of a resource is special in JSON. */
	iov.iov_len = (size_t)snprintf(text, sizeof(text), "{\"resource\":\"%s\"}", resource);
	return descriptors_send(fd, &iov, 1, &devices_fd, 1);
}

int request_receive_devices(
	int fd, char ret_packet[static REQUEST_MAX + 1], char **ret_text, size_t *ret_size)
{
	_cleanup_close_ int memfd = -EBADF;
	int r = receive_packet(fd, ret_packet, REQUEST_MAX + 1, &memfd);

	if (r < 0 || memfd < 0)
		return r < 0 ? r : 0;
	r = sealed_read(memfd, ANSWER_MAX, ret_text, ret_size);
	return r < 0 ? r : 1;
}
