/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Decides whether an address to listen on is valid, and makes a socket address of it. getaddrinfo()
 * would do the same, but it reads files and loads libraries.
 */
#include "configuration/listen-address.h"

#include <arpa/inet.h>
#include <netinet/in.h>

static int refuse(const char *text, struct error *error)
{
	return error_set(error, -EINVAL,
		"must be an address with a port such as \"127.0.0.1:10970\" or \"[::1]:10970\", or "
		"the absolute path of a socket of up to %zu bytes, not \"%s\"",
		sizeof(((struct sockaddr_un *)NULL)->sun_path) - 1, text);
}

static int parse_port(const char *text, in_port_t *ret)
{
	char *end;
	unsigned long port;

	errno = 0;
	port = strtoul(text, &end, 10);
	if (*text < '0' || *text > '9' || *end || errno || port == 0 || port > UINT16_MAX)
		return -EINVAL;
	*ret = htons((uint16_t)port);
	return 0;
}

static int parse_path(const char *text, union listen_address *ret, socklen_t *ret_length)
{
	size_t length = strlen(text);

	if (length >= sizeof(ret->local.sun_path) || text[length - 1] == '/')
		return -EINVAL;
	ret->local.sun_family = AF_UNIX;
	memcpy(ret->local.sun_path, text, length + 1);
	*ret_length = sizeof(ret->local);
	return 0;
}

static int parse_internet(const char *text, union listen_address *ret, socklen_t *ret_length)
{
	struct sockaddr_in6 *six = (void *)&ret->storage;
	struct sockaddr_in *four = (void *)&ret->storage;
	const char *colon = strrchr(text, ':');
	char host[INET6_ADDRSTRLEN + 2];
	size_t length = colon ? (size_t)(colon - text) : 0;

	if (length == 0 || length >= sizeof(host))
		return -EINVAL;
	memcpy(host, text, length);
	host[length] = '\0';
	if (host[0] == '[' && host[length - 1] == ']') {
		host[length - 1] = '\0';
		six->sin6_family = AF_INET6;
		*ret_length = sizeof(*six);
		return inet_pton(AF_INET6, host + 1, &six->sin6_addr) == 1
			? parse_port(colon + 1, &six->sin6_port)
			: -EINVAL;
	}
	four->sin_family = AF_INET;
	*ret_length = sizeof(*four);
	return inet_pton(AF_INET, host, &four->sin_addr) == 1
		? parse_port(colon + 1, &four->sin_port)
		: -EINVAL;
}

int listen_address_parse(
	const char *text, union listen_address *ret, socklen_t *ret_length, struct error *error)
{
	union listen_address address = { 0 };
	socklen_t length = 0;
	int r = text[0] == '/' ? parse_path(text, &address, &length)
			       : parse_internet(text, &address, &length);

	if (r < 0)
		return refuse(text, error);
	*ret = address;
	*ret_length = length;
	return 0;
}
