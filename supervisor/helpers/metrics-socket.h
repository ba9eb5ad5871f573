/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The socket that the exporter listens on. The supervisor owns it, so that a client that connects
 * while the exporter is replaced waits for the next one.
 */

#include <sys/types.h>

#include "common/error.h"

struct metrics_socket {
	int fd;        /* -EBADF: none */
	char *address; /* NULL: none */
	dev_t device;  /* of the path, if the address is one */
	ino_t inode;
};

#define METRICS_SOCKET_INIT ((struct metrics_socket){ .fd = -EBADF })

/* Opens and listens; the address is as listen_address_parse() takes it. At a path, a socket without
 * a listener is replaced, and the new one has mode 0660. Returns 0, or negative errno with the
 * error filled. */
int metrics_socket_open(const char *address, struct metrics_socket *ret, struct error *error);

/* Whether its path, if it has one, is still the one that was bound. */
bool metrics_socket_is_there(const struct metrics_socket *listener);

/* Closes it, removes its path if that is still the one that was bound, and resets the structure. */
void metrics_socket_done(struct metrics_socket *listener);
