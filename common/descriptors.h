/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Sends and receives messages with descriptors (SCM_RIGHTS) over a local socket. The receiver
 * always has room for the kernel's maximum per message: otherwise the kernel would close the excess
 * descriptors, and block the receiver meanwhile.
 */

#include <sys/uio.h>

#include "common/util.h"

#define DESCRIPTORS_MAX 253 /* SCM_MAX_FD of the kernel */

/* The descriptors and flags of a received message. */
struct descriptors {
	int fds[DESCRIPTORS_MAX]; /* CLOEXEC; owned by the receiver */
	size_t count;
	bool ancillary; /* the message carried something in addition to bytes, for example
			 * credentials */
	bool truncated; /* a part of the message had no room */
};

/* Sends one message without blocking; the caller keeps the descriptors. Returns 0 or negative
 * errno. */
int descriptors_send(int socket_fd, struct iovec *iov, size_t n_iov, const int *fds, size_t n_fds);

/* Receives one message; `flags` as for recvmsg(). Returns its size or negative errno, after which
 * there are no descriptors. */
ssize_t descriptors_receive(
	int socket_fd, struct iovec *iov, size_t n_iov, int flags, struct descriptors *ret);
