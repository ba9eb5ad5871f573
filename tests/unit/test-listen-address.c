/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Addresses that a configuration may contain, and others that it may not.
 */
#include <arpa/inet.h>
#include <netinet/in.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "configuration/listen-address.h"

static void test_good(void **state)
{
	const struct sockaddr_in *four;
	const struct sockaddr_in6 *six;
	union listen_address address;
	struct error error;
	socklen_t length;

	four = (const void *)&address;
	six = (const void *)&address;
	assert_int_equal(listen_address_parse("127.0.0.1:10970", &address, &length, &error), 0);
	assert_int_equal(four->sin_family, AF_INET);
	assert_int_equal(ntohs(four->sin_port), 10970);
	assert_int_equal(ntohl(four->sin_addr.s_addr), INADDR_LOOPBACK);
	assert_int_equal(listen_address_parse("[::1]:65535", &address, &length, &error), 0);
	assert_int_equal(six->sin6_family, AF_INET6);
	assert_int_equal(ntohs(six->sin6_port), 65535);
	assert_int_equal(listen_address_parse("/run/x.sock", &address, &length, &error), 0);
	assert_int_equal(address.local.sun_family, AF_UNIX);
	assert_string_equal(address.local.sun_path, "/run/x.sock");
}

static void test_bad(void **state)
{
	static const char *const texts[] = { "", ":1", "127.0.0.1", "127.0.0.1:", "127.0.0.1:0",
		"127.0.0.1:65536", "127.0.0.1:+1", "127.0.0.1:1x", "127.0.0:1", "localhost:1",
		"::1:80", "[::1]", "[::1:80", "[]:80", "/", "/run/", "run/x.sock", "unix:/run/x" };
	char longest[200];
	union listen_address address;
	struct error error;
	socklen_t length;

	for (size_t i = 0; i < ARRAY_SIZE(texts); i++)
		assert_int_equal(
			listen_address_parse(texts[i], &address, &length, &error), -EINVAL);
	memset(longest, 'x', sizeof(longest));
	longest[0] = '/';
	longest[108] = '\0';
	assert_int_equal(listen_address_parse(longest, &address, &length, &error), -EINVAL);
	longest[107] = '\0';
	assert_int_equal(listen_address_parse(longest, &address, &length, &error), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_good),
		cmocka_unit_test(test_bad),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
