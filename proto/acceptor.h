/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Accepts the connections of a listening socket that only root and the supervisor's user may use.
 * Other users are refused and logged, within a budget.
 */

#include <sys/socket.h>
#include <systemd/sd-event.h>

#include "common/util.h"

struct acceptor;

struct acceptor_events {
	/* A connection: takes the descriptor, also on failure. Negative errno: it was refused,
	 * which is logged; -EMFILE: there are too many. */
	int (*on_connection)(int fd, const struct ucred *peer, void *userdata);
	/* A connection waits that cannot be accepted: this process is out of descriptors or memory,
	 * or the socket was shut down. The callee frees the acceptor. */
	void (*on_broken)(void *userdata);
};

/* Takes the descriptor, also on failure; it is non-blocking. Returns 0 or negative errno. */
int acceptor_new(sd_event *event, int fd, uid_t supervisor_uid,
	const struct acceptor_events *events, void *userdata, struct acceptor **ret);

/* Closes the listening socket. */
struct acceptor *acceptor_free(struct acceptor *acceptor);
DEFINE_CLEANUP(struct acceptor *, acceptor_free)
