/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The messages between the supervisor and another process of ours over a SOCK_SEQPACKET pair: fixed
 * header, optional sentence, descriptors by SCM_RIGHTS. Each kind of process has a protocol of its
 * own, which is a table of rules: control-child.h, control-kubelet-client.h, control-cluster.h,
 * control-exporter.h, control-node-users.h and control-pods.h. Each side treats the other's
 * messages as untrusted input: type, direction, fields and number of descriptors are checked here,
 * once, and a malformed message is -EBADMSG.
 */

#include "common/util.h"

/* The number of the other process's end of the pair. */
#define CONTROL_FD       3
#define CONTROL_TEXT_MAX 1024
#define CONTROL_FDS_MAX  2

/* Maximum size of the documents with the devices of a resource, and of its saved health. */
#define CONTROL_DEVICES_MAX     (64U << 20)
#define CONTROL_SAVED_STATE_MAX (16U << 20)
#define CONTROL_ALIVE_INTERVAL  (4 * USEC_PER_SEC)
#define CONTROL_ALIVE_TIMEOUT   (30 * USEC_PER_SEC)

/* Types that several protocols share; the types of a protocol begin with CONTROL_OWN. */
enum {
	CONTROL_STOP = 1,  /* [] end all, and exit with status 0 */
	CONTROL_ALIVE,     /* [] sent every CONTROL_ALIVE_INTERVAL while no thread hangs */
	CONTROL_INVENTORY, /* [text, fd] text: a resource; the sealed memfd with its devices that
			      its process sent in CHILD_DEVICES */
	CONTROL_OWN,
};

/* The fields that a message can have. Each has one meaning, in all protocols. */
enum control_field {
	FIELD_SESSION = 1 << 0,   /* `session`, not 0 */
	FIELD_NUMBER = 1 << 1,    /* `number`, not 0 */
	FIELD_PHASE = 1 << 2,     /* `phase`, not 0 */
	FIELD_CALL = 1 << 3,      /* `call` and `count`, not 0 */
	FIELD_TIMES = 1 << 4,     /* `gone_by`, `allocated_before`, `kubelet_restarted` */
	FIELD_DEVICES = 1 << 5,   /* `devices`, `healthy`, `ids`, `healthy_ids` */
	FIELD_REMOVED = 1 << 6,   /* `removed` */
	FIELD_POOL = 1 << 7,      /* `generation`, `slices`, `lacks` */
	FIELD_TEXT = 1 << 8,      /* `text` */
	FIELD_PEER = 1 << 9,      /* `peer` */
	FIELD_PRESTART = 1 << 10, /* `prestart` */
	FIELD_DRIVER = 1 << 11,   /* `driver`, not 0 */
	FIELD_UNTIL = 1 << 12,    /* `until` */
	FIELD_AGAIN = 1 << 13,    /* `again` */
};

struct control_rule {
	const char *name; /* for tests; NULL: there is no such type */
	bool to_supervisor;
	unsigned fields;
	size_t n_fds, n_optional_fds;
};

struct control_protocol {
	const struct control_rule *rules; /* by type */
	size_t n_rules;
};

struct control_message {
	const struct control_protocol *protocol;
	uint32_t type;
	/* 0 where the type does not have the field. Counts are COUNT_MAX at most when received. */
	uint64_t session;
	uint64_t number; /* of a request, chosen by its sender; the answer repeats it */
	uint64_t phase;  /* enum child_release_phase, child_use or child_cleaned */
	uint64_t call;   /* enum child_call */
	uint64_t count;  /* how many failures this one stands for */
	uint64_t gone_by, allocated_before, kubelet_restarted; /* CLOCK_MONOTONIC */
	uint64_t devices, healthy;
	uint64_t ids;         /* offered ids; a shared device has several */
	uint64_t healthy_ids; /* offered ids that are listed as healthy */
	uint64_t removed;     /* removed devices that are still listed */
	uint64_t generation, slices;
	uint64_t lacks;              /* of the API server: bits of enum slice_lack */
	uint64_t peer;               /* process that listens on kubelet.sock; 0: unknown */
	uint64_t prestart;           /* whether PreStartContainer is required */
	uint64_t driver;             /* a DRA driver, numbered by the supervisor */
	uint64_t until;              /* when the answer is no longer waited for; CLOCK_MONOTONIC */
	uint64_t again;              /* enum cluster_again */
	char text[CONTROL_TEXT_MAX]; /* NUL-terminated UTF-8 */
	int fds[CONTROL_FDS_MAX];    /* -EBADF where absent; owned by the holder of the message */
	bool is_foreign; /* came from a child: the descriptors must be closed as in foreign.h */
};

#define CONTROL_MESSAGE_INIT(p, t) \
	((struct control_message){ .protocol = (p), .type = (t), .fds = { -EBADF, -EBADF } })

/* Closes the descriptors a received message still holds. */
void control_message_done(struct control_message *message);
#define _cleanup_control_ _cleanup_(control_message_done)

/* Sends one message of its protocol without blocking; descriptors stay the caller's. -EAGAIN: the
 * peer does not read; -EBADMSG: a rule forbids it. */
int control_send(int fd, const struct control_message *message);

/* Receives one message of the supervisor without blocking. -EAGAIN: there is none, -ECONNRESET: the
 * peer has closed the connection, -EBADMSG: it is malformed, or not one that the supervisor sends
 * in this protocol. Descriptors become the caller's (CLOEXEC). */
int control_receive(
	int fd, const struct control_protocol *protocol, struct control_message *ret_message);

/* As control_receive(), for the supervisor: receives one message of the other process. Also
 * -EBADMSG for a descriptor that is not memory (foreign.h). Refused descriptors are closed without
 * waiting. -EMFILE: this process has too few free descriptors for the message, which stays in the
 * socket. */
int control_receive_from_child(
	int fd, const struct control_protocol *protocol, struct control_message *ret_message);
