/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The packets between devplugd and its clients (devplugctl) on the control socket in runtime_dir:
 * SOCK_SEQPACKET, one JSON document a packet. A client sends a request, reads the answer, and may
 * then send the next. The members are documented in docs/contributing/control-socket.md.
 */

#include "common/util.h"

#define REQUEST_SOCKET  "control" /* for root and the daemon's own user */
#define REQUEST_VERSION 1
/* Users of this group may send reading verbs. They use a separate socket, so that they cannot fill
 * the queue in which root waits. */
#define REQUEST_GROUP       "devplugd-view"
#define REQUEST_VIEW_SOCKET "control-view"

/* Maximum size of a request. */
#define REQUEST_MAX 4096
/* Answers that are longer travel as a sealed memfd. */
#define ANSWER_INLINE_MAX 16384
#define ANSWER_MAX        (64U << 20)

/* Opens a socket for `name` in a directory whose path may be longer than a socket address allows.
 * `directory_fd` may be an O_PATH descriptor. The timeouts are in seconds; after them, connecting
 * or receiving fails with -EAGAIN. Returns a blocking descriptor or negative errno. */
int request_bind(int directory_fd, const char *name);
int request_connect(
	int directory_fd, const char *name, unsigned connect_timeout, unsigned receive_timeout);

/* Sends the text without blocking. -EAGAIN: the peer does not read. */
int request_send(int fd, const char *text, size_t size);

/* Receives a request without blocking. `ret_size`: without the NUL that is added. -EAGAIN: there is
 * none, -ECONNRESET: the peer has closed the connection, -EBADMSG: too long. Descriptors are
 * refused. */
int request_receive(int fd, char ret_text[static REQUEST_MAX + 1], size_t *ret_size);

/* Receives an answer (malloc'ed, with a NUL that is not counted); waits as the socket is set to.
 * Errors as request_receive(), and -EFBIG: more than ANSWER_MAX. */
int request_receive_answer(int fd, char **ret_text, size_t *ret_size);

/* Sends the document of a resource's devices behind an answer, without blocking. The descriptor, a
 * sealed memfd, stays the caller's. Errors as request_send(). After the last one, "{}" is sent. */
int request_send_devices(int fd, const char *resource, int devices_fd);

/* Receives one of those. Returns 1 with the packet, {"resource": NAME}, and the document
 * (malloc'ed, with a NUL that is not counted), or 0 after the last one, or errors as
 * request_receive_answer(). */
int request_receive_devices(
	int fd, char ret_packet[static REQUEST_MAX + 1], char **ret_text, size_t *ret_size);
