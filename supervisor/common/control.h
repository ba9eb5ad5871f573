/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The conversation between the supervisor and one child over a SOCK_SEQPACKET pair: fixed header,
 * optional sentence, descriptors by SCM_RIGHTS. Each side treats the other's messages as input from
 * a stranger: type, size and number of descriptors are checked here, once, and a malformed message
 * is -EBADMSG.
 */

#include "common/util.h"

/* The child's end of the pair, whatever else it inherits. */
#define CONTROL_FD       3
#define CONTROL_TEXT_MAX 1024
#define CONTROL_FDS_MAX  2

enum control_type {
	/* supervisor to child */
	CONTROL_CONFIGURE = 1, /* fd 0: sealed memfd with the resource's text; fd 1, if any: what
			    an earlier process remembered of its devices' health */
	CONTROL_SESSION, /* session; text: endpoint name; fd 0: listening socket, fd 1: connected
			    kubelet.sock. Without fd 1 the kubelet comes by itself, and the text is
			    the socket's absolute path */
	CONTROL_END_SESSION, /* session: close it; the child answers SESSION_ENDED */
	CONTROL_STOP,        /* end all and exit 0 */
	CONTROL_PUBLISHED,   /* session: the number of a PUBLISH; text: why nothing came of it, or
				empty */
	CONTROL_OWNERS, /* session: the number of the newest CLAIMS; fd 0, if any: sealed memfd with
			   the devices that belong to other resources, see drivers/claims.h. Also
			   unasked, when that changes */
	CONTROL_IN_USE, /* session: a CLOCK_MONOTONIC time; fd 0: sealed memfd with ids, a line
			   each, that containers had after that: devices that were gone by then and
			   are not among them may be forgotten */
	CONTROL_LOOK,   /* to the reader of pod resources; fd 0: connection to the kubelet */
	/* child to supervisor */
	CONTROL_READY,      /* configuration accepted and first inventory complete */
	CONTROL_REFUSED,    /* text: why the last CONFIGURE was refused; what was in force stays */
	CONTROL_REGISTERED, /* session: the kubelet answered Register with OK */
	CONTROL_SERVING,    /* session: the kubelet opened ListAndWatch */
	CONTROL_SESSION_ENDED, /* session; text: why */
	CONTROL_DEVICES,       /* devices, healthy; fd 0: memfd with the inventory as JSON;
			  fd 1, if any: memfd with what to remember of the devices' health */
	CONTROL_CHANGES,  /* as CONTROL_DEVICES, with the same memfds, to which documents with what
			     has changed were added */
	CONTROL_PUBLISH,  /* session: a number of the child's choice; fd 0: sealed memfd with the
			     files that others find its devices by (drivers/publication.h), all of
			     them */
	CONTROL_GONE,     /* devices: how many that have vanished are still listed */
	CONTROL_ASSIGNED, /* from the reader of pod resources; fd 0: sealed memfd with lines of
			     "RESOURCE<TAB>ID", all that containers have */
	CONTROL_CLAIMS, /* session: a number of the child's choice; fd 0: sealed memfd with what it
			   found, see drivers/claims.h */
	CONTROL_ALIVE,  /* sent every CONTROL_ALIVE_INTERVAL by a child whose threads all move */
};

/* What the child's memfd of CONTROL_DEVICES may hold at most. */
#define CONTROL_DEVICES_MAX    (64U << 20)
#define CONTROL_ALIVE_INTERVAL (4 * USEC_PER_SEC)
#define CONTROL_ALIVE_TIMEOUT  (10 * USEC_PER_SEC)

struct control_message {
	enum control_type type;
	uint64_t session; /* or number of a proposal; 0 where the type has none */
	uint64_t devices, healthy;
	char text[CONTROL_TEXT_MAX]; /* NUL-terminated UTF-8 */
	int fds[CONTROL_FDS_MAX];    /* -EBADF where absent; owned by the holder of the message */
};

#define CONTROL_MESSAGE_INIT(t) ((struct control_message){ .type = (t), .fds = { -EBADF, -EBADF } })

/* Closes the descriptors a received message still holds. */
void control_message_done(struct control_message *message);
#define _cleanup_control_ _cleanup_(control_message_done)

/* Sends one message without blocking; descriptors stay the caller's. -EAGAIN: the peer does not
 * read. */
int control_send(int fd, const struct control_message *message);

/* Receives one message without blocking. -EAGAIN: none there, -ECONNRESET: the peer is gone,
 * -EBADMSG: not a message of ours. Descriptors become the caller's (CLOEXEC). */
int control_receive(int fd, struct control_message *ret_message);
