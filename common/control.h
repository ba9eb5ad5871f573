/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The messages between the supervisor and one child over a SOCK_SEQPACKET pair: fixed header,
 * optional sentence, descriptors by SCM_RIGHTS. Each side treats the other's messages as untrusted
 * input: type, size and number of descriptors are checked here, once, and a malformed message is
 * -EBADMSG.
 */

#include "common/util.h"

/* The number of the child's end of the pair. */
#define CONTROL_FD       3
#define CONTROL_TEXT_MAX 1024
#define CONTROL_FDS_MAX  2

enum control_type {
	/* supervisor to child */
	CONTROL_CONFIGURE = 1, /* fd 0: sealed memfd with the resource's text; fd 1, if any: the
				  health state that an earlier process saved. To the exporter: its
				  settings as JSON, and its listening socket */
	CONTROL_SESSION, /* session; text: endpoint name; fd 0: listening socket, fd 1: connected
			    kubelet.sock. Without fd 1 the kubelet connects on its own, and the text
			    is the socket's absolute path */
	CONTROL_END_SESSION,  /* session: close it; the child answers SESSION_ENDED */
	CONTROL_STOP,         /* end all and exit 0 */
	CONTROL_PUBLISHED,    /* number: of a PUBLISH; text: why nothing came of it, or empty */
	CONTROL_OWNERS,       /* number: of the newest CLAIMS; text: why they are refused, or empty;
				 fd 0, if any: sealed memfd with the devices that belong to other
				 resources, see drivers/inventory/hardware-claims.h. Also sent
				 whenever that changes */
	CONTROL_BOOKED,       /* gone_by, allocated_before; fd 0: sealed memfd with the offered ids
				 that the kubelet has booked, see drivers/model/bookings.h. A device
				 that is not among them may leave the list if it was removed before
				 gone_by, and is not booked if it was allocated before
				 allocated_before. Sent before CONFIGURE, so that the first list has
				 them */
	CONTROL_FORGET,       /* text: an id that counts as not booked, see inventory_forget() */
	CONTROL_POD_QUESTION, /* to the reader of pod resources; text: the question, see
				 spawn-request.h; fd 0: connection to the kubelet */
	CONTROL_RELEASE,  /* code: enum control_release; text: a device that was reset, or empty */
	CONTROL_COUNTERS, /* fd 0: the page that a resource's process counts into, see counters.h */
	CONTROL_SNAPSHOT, /* to the exporter, after an INVENTORY for each resource that has devices;
			     fd 0: sealed memfd with the daemon's state as JSON, see
			     supervisor/helpers/metrics.h. Without it, there are no metrics now */
	CONTROL_EDIT,     /* number: a number; fd 0: sealed memfd with offered ids, one a line. Asks
			     what a container with these ids gets; the child runs prestart and answers
			     EDITS */
	CONTROL_INVENTORY, /* to devplugd-cluster and the exporter; text: a resource; fd 0: the
			      sealed memfd with its devices that its process sent in DEVICES */
	CONTROL_FILE, /* to devplugd-cluster; text: as that of FILE_WANTED; fd 0, if the file can be
			 read: sealed memfd with its content */
	CONTROL_PREPARED, /* to devplugd-dra; session: that of PREPARE or UNPREPARE; text: why not;
			     fd 0, if the claim is prepared: sealed memfd with JSON, see
			     supervisor/books/dra-claims.h. Neither: PREPARE named no devices, and
			     the claim is not known */
	/* child to supervisor */
	CONTROL_READY,      /* configuration accepted and first inventory complete */
	CONTROL_REFUSED,    /* text: why the last CONFIGURE was refused; the previous configuration
			       stays in force */
	CONTROL_REGISTERED, /* session: the kubelet answered Register with OK */
	CONTROL_SERVING,    /* session: the kubelet opened ListAndWatch */
	CONTROL_SESSION_ENDED, /* session; text: why */
	CONTROL_DEVICES, /* devices, healthy, ids, healthy_ids; sealed memfds with JSON; fd 0: the
			    inventory; fd 1: the devices' health, to be saved */
	CONTROL_PUBLISH, /* number: of the child's choice; fd 0: sealed memfd with the
			    files that others find its devices by
			    (drivers/allocation/publication.h), all of  them */
	CONTROL_GONE,    /* devices: how many removed devices are still listed */
	CONTROL_POD_ANSWER,  /* from the reader of pod resources; fd 0: sealed memfd, see
				pod-table.h */
	CONTROL_CLAIMS,      /* number: of the child's choice; fd 0: sealed memfd with what it
				found, see drivers/inventory/hardware-claims.h */
	CONTROL_CALL_FAILED, /* code: enum control_call; count: how many failures this stands
				for; text: ids of devices, separated by commas, a space, and why */
	CONTROL_SCRAPE,      /* from the exporter: asks for a SNAPSHOT, and before it for a
				POD_ANSWER, if there is one */
	CONTROL_TEXTFILE,    /* from the exporter; fd 0: sealed memfd with the text of the file */
	CONTROL_EDITS, /* number: that of EDIT; text: why not, or fd 0: sealed memfd with JSON,
			  see proto/plugin/edits.h */
	CONTROL_FILE_WANTED, /* from devplugd-dra; text: the kubeconfig file, if empty, or a path
				that is in it */
	CONTROL_PREPARE,     /* from devplugd-dra; session: a number; fd 0: sealed memfd with JSON,
				see supervisor/books/dra-claims.h */
	CONTROL_UNPREPARE,   /* from devplugd-dra; session: a number; text: uid of the claim */
	CONTROL_POOL,  /* from devplugd-dra; devices: generation of what is published, healthy_ids:
			  slices of it; text: what fails, or empty */
	CONTROL_ALIVE, /* sent every CONTROL_ALIVE_INTERVAL by a child whose threads all move */
};

/* Which step of a release of the host's driver a CONTROL_RELEASE is. */
enum control_release {
	CONTROL_RELEASE_BEGIN = 1, /* close it */
	CONTROL_RELEASE_END,       /* open it again */
};

/* Calls of the kubelet that a child can refuse. */
enum control_call {
	CONTROL_CALL_ALLOCATE = 1,
	CONTROL_CALL_PREFER,
	CONTROL_CALL_PRESTART,
	_CONTROL_CALL_MAX,
};

/* This one and those behind it. */
#define CONTROL_FROM_CHILD CONTROL_READY

/* What the child's memfd of CONTROL_DEVICES may hold at most. */
#define CONTROL_DEVICES_MAX (64U << 20)
/* Maximum size of the saved health state. */
#define CONTROL_SAVED_STATE_MAX (16U << 20)
#define CONTROL_ALIVE_INTERVAL  (4 * USEC_PER_SEC)
#define CONTROL_ALIVE_TIMEOUT   (30 * USEC_PER_SEC)

struct control_message {
	enum control_type type;
	/* 0 where the type has none, and nowhere else */
	uint64_t session;
	uint64_t number;
	uint64_t code;
	uint64_t count; /* a count is COUNT_MAX at most when received */
	/* 0 where the type has none */
	uint64_t gone_by, allocated_before; /* CLOCK_MONOTONIC */
	uint64_t devices, healthy;
	uint64_t ids;                /* offered ids; a shared device has several */
	uint64_t healthy_ids;        /* those of healthy devices */
	char text[CONTROL_TEXT_MAX]; /* NUL-terminated UTF-8 */
	int fds[CONTROL_FDS_MAX];    /* -EBADF where absent; owned by the holder of the message */
	bool is_foreign; /* came from a child: the descriptors must be closed as in foreign.h */
};

#define CONTROL_MESSAGE_INIT(t) ((struct control_message){ .type = (t), .fds = { -EBADF, -EBADF } })

/* Closes the descriptors a received message still holds. */
void control_message_done(struct control_message *message);
#define _cleanup_control_ _cleanup_(control_message_done)

/* Sends one message without blocking; descriptors stay the caller's. -EAGAIN: the peer does not
 * read. */
int control_send(int fd, const struct control_message *message);

/* Receives one message without blocking. -EAGAIN: there is none, -ECONNRESET: the peer has closed
 * the connection, -EBADMSG: the message is malformed. Descriptors become the caller's (CLOEXEC). */
int control_receive(int fd, struct control_message *ret_message);

/* As control_receive(), for the supervisor. Also -EBADMSG for a message that a child does not send,
 * and for a descriptor that is not memory (foreign.h). Refused descriptors are closed without
 * waiting. -EMFILE: this process has too few free descriptors for the message, which stays in the
 * socket. */
int control_receive_from_child(int fd, struct control_message *ret_message);
