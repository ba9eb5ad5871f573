/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * An address to listen on as it is written in a configuration: "127.0.0.1:10970", "[::1]:10970", or
 * the absolute path of a socket. Names are not resolved.
 */

#include <sys/socket.h>
#include <sys/un.h>

#include "common/error.h"

union listen_address {
	struct sockaddr any;
	struct sockaddr_un local;
	struct sockaddr_storage storage;
};

/* Returns 0, or -EINVAL with the error filled. */
int listen_address_parse(
	const char *text, union listen_address *ret, socklen_t *ret_length, struct error *error);
