/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sends and receives messages with file descriptors, in one place because it is easy to lose one: a
 * receiver gets every descriptor of a message, with CLOEXEC, and learns whether the message was
 * cut.
 */
#include "common/descriptors.h"

#include <sys/socket.h>

union buffer {
	char bytes[CMSG_SPACE(sizeof(int) * DESCRIPTORS_MAX) + CMSG_SPACE(sizeof(struct ucred))];
	struct cmsghdr align;
};

int descriptors_send(int socket_fd, struct iovec *iov, size_t n_iov, const int *fds, size_t n_fds)
{
	struct msghdr msg = { .msg_iov = iov, .msg_iovlen = n_iov };
	union buffer buffer;

	if (n_fds > 0) {
		struct cmsghdr *cmsg;

		memset(&buffer, 0, CMSG_SPACE(sizeof(int) * n_fds));
		msg.msg_control = buffer.bytes;
		msg.msg_controllen = CMSG_SPACE(sizeof(int) * n_fds);
		cmsg = CMSG_FIRSTHDR(&msg);
		cmsg->cmsg_level = SOL_SOCKET;
		cmsg->cmsg_type = SCM_RIGHTS;
		cmsg->cmsg_len = CMSG_LEN(sizeof(int) * n_fds);
		memcpy(CMSG_DATA(cmsg), fds, sizeof(int) * n_fds);
	}
	return RETRY_ON_EINTR(sendmsg(socket_fd, &msg, MSG_DONTWAIT | MSG_NOSIGNAL)) < 0 ? -errno
											 : 0;
}

ssize_t descriptors_receive(
	int socket_fd, struct iovec *iov, size_t n_iov, int flags, struct descriptors *ret)
{
	union buffer buffer;
	struct msghdr msg = {
		.msg_iov = iov,
		.msg_iovlen = n_iov,
		.msg_control = buffer.bytes,
		.msg_controllen = sizeof(buffer.bytes),
	};
	ssize_t n = RETRY_ON_EINTR(recvmsg(socket_fd, &msg, flags | MSG_CMSG_CLOEXEC));

	if (n < 0)
		return -errno;
	ret->count = 0;
	ret->ancillary = false;
	ret->truncated = msg.msg_flags & (MSG_TRUNC | MSG_CTRUNC);
	for (struct cmsghdr *cmsg = CMSG_FIRSTHDR(&msg); cmsg; cmsg = CMSG_NXTHDR(&msg, cmsg)) {
		size_t count = (cmsg->cmsg_len - CMSG_LEN(0)) / sizeof(int);

		ret->ancillary = true;
		if (cmsg->cmsg_level != SOL_SOCKET || cmsg->cmsg_type != SCM_RIGHTS)
			continue;
		assert(count <= DESCRIPTORS_MAX - ret->count);
		memcpy(&ret->fds[ret->count], CMSG_DATA(cmsg), count * sizeof(int));
		ret->count += count;
	}
	return n;
}
