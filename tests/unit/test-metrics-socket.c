/* SPDX-License-Identifier: Apache-2.0 */
/* The addresses that the socket for scrapes listens on, with and without IPv6 in the kernel. */
#include <arpa/inet.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cmocka.h>

#include "supervisor/helpers/metrics-socket.h"

static bool without_ipv6;

/* Takes the place of libc's. */
int socket(int domain, int type, int protocol)
{
	if (domain == AF_INET6 && without_ipv6) {
		errno = EAFNOSUPPORT;
		return -1;
	}
	return (int)syscall(SYS_socket, domain, type, protocol);
}

/* A port that was free just now. */
static uint16_t find_port(void)
{
	struct sockaddr_in address = { .sin_family = AF_INET };
	_cleanup_close_ int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	socklen_t length = sizeof(address);

	assert_true(fd >= 0);
	assert_int_equal(bind(fd, (struct sockaddr *)&address, length), 0);
	assert_int_equal(getsockname(fd, (struct sockaddr *)&address, &length), 0);
	return ntohs(address.sin_port);
}

static int open_at(const char *host, struct metrics_socket *ret, uint16_t *ret_port)
{
	struct error error = { 0 };
	char text[64];

	*ret_port = find_port();
	(void)snprintf(text, sizeof(text), "%s:%u", host, *ret_port);
	return metrics_socket_open(text, ret, &error);
}

static void expect_answer(uint16_t port)
{
	struct sockaddr_in address = { .sin_family = AF_INET, .sin_port = htons(port) };
	_cleanup_close_ int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	assert_int_equal(connect(fd, (struct sockaddr *)&address, sizeof(address)), 0);
}

static void test_all_addresses(void **state)
{
	for (unsigned i = 0; i < 2; i++) {
		_cleanup_(metrics_socket_done) struct metrics_socket listener = METRICS_SOCKET_INIT;
		uint16_t port;

		without_ipv6 = i > 0;
		assert_int_equal(open_at("[::]", &listener, &port), 0);
		expect_answer(port);
	}
	without_ipv6 = false;
}

static void test_one_address_needs_ipv6(void **state)
{
	struct metrics_socket listener = METRICS_SOCKET_INIT;
	uint16_t port;

	without_ipv6 = true;
	assert_int_equal(open_at("[::1]", &listener, &port), -EAFNOSUPPORT);
	assert_int_equal(listener.fd, -EBADF);
	without_ipv6 = false;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_all_addresses),
		cmocka_unit_test(test_one_address_needs_ipv6),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
