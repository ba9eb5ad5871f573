/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Descriptors from systemd: of its socket units, and the listening sockets of DRA drivers that a
 * killed devplugd left in systemd's store (sd_notify(3), FDSTORE=1). The kubelet's calls wait in
 * the backlog of such a socket instead of being refused. Without systemd nothing is kept. Sockets
 * of device plugins are not kept: their session ends with the kubelet's ListAndWatch call.
 */

#include "supervisor/kubelet/session-sockets.h"

struct kept_sockets;

/* Takes what systemd passed to this process, which may be nothing. Returns 0 or negative errno. */
int kept_sockets_new(struct kept_sockets **ret);

/* Closes what was not taken: no calls wait for a driver that does not come back. */
void kept_sockets_close(struct kept_sockets *kept);
struct kept_sockets *kept_sockets_free(struct kept_sockets *kept);
DEFINE_CLEANUP(struct kept_sockets *, kept_sockets_free)

/* The descriptor that a socket unit calls `name`, or -EBADF. The caller closes it. */
int kept_sockets_take(struct kept_sockets *kept, const char *name);

/* The session of the DRA driver in that directory, which the kubelet has registered. Its number is
 * not set. Returns 0, -ENOENT, or -ENOMEM. */
int kept_sockets_take_session(
	struct kept_sockets *kept, const char *driver, const char *directory, struct session *ret);

/* Has systemd keep the sockets of a session, or drop them. `visible_fd`: its visible socket. */
void kept_sockets_store(const char *driver, const struct session *session, int visible_fd);
void kept_sockets_drop(const char *driver, const struct session *session);
