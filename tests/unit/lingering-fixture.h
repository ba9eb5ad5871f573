/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * A descriptor that blocks who closes it last.
 */
#include <arpa/inet.h>
#include <fcntl.h>
#include <sys/socket.h>

/* A socket whose last close() waits for an hour, or until the peer is closed. */
static int lingering_socket(int *ret_peer)
{
	const struct linger linger = { .l_onoff = 1, .l_linger = 3600 };
	struct sockaddr_in address = { .sin_family = AF_INET,
		.sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	static const char data[1 << 20];
	socklen_t size = sizeof(address);
	int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

	assert_int_equal(bind(listener, (struct sockaddr *)&address, size), 0);
	assert_int_equal(listen(listener, 1), 0);
	assert_int_equal(getsockname(listener, (struct sockaddr *)&address, &size), 0);
	(void)connect(fd, (struct sockaddr *)&address, size);
	*ret_peer = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
	assert_true(*ret_peer >= 0);
	while (send(fd, data, sizeof(data), MSG_NOSIGNAL) > 0)
		;
	assert_int_equal(errno, EAGAIN);
	assert_int_equal(fcntl(fd, F_SETFL, 0), 0);
	assert_int_equal(setsockopt(fd, SOL_SOCKET, SO_LINGER, &linger, sizeof(linger)), 0);
	(void)close(listener);
	return fd;
}
