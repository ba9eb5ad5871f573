/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The control socket: how devplugctl reaches the daemon. Clients are not trusted: their number, the
 * size and rate of their requests, and the time that they may be silent are bounded, and one that
 * does not read its answer is disconnected.
 */

#include <systemd/sd-event.h>

#include "common/error.h"

/* Maximum number of clients, and how many of them may be other users than root and the daemon's
 * own. */
#define REQUEST_CLIENTS_MAX       32
#define REQUEST_OTHER_CLIENTS_MAX 16
/* Maximum number of requests within a second: of one client of root or the daemon's own user, and
 * of all other clients together. Further requests wait. Other users also get at most a fifth of the
 * time (PACE_FACTOR). */
#define REQUEST_RATE 50
/* Maximum number of connections that are accepted within a second at each socket. */
#define REQUEST_CONNECTION_RATE 200
/* Without a request. */
#define REQUEST_IDLE_TIMEOUT (10 * USEC_PER_SEC)

struct manager;
struct request_server;

/* Listens at both sockets in runtime_dir. Returns 0 or negative errno with the error
 * filled. */
int request_server_new(struct manager *manager, struct request_server **ret, struct error *error);

/* Makes the sockets again, because one was removed; clients that are connected stay. Returns 0 or
 * negative errno. */
int request_server_listen(struct request_server *server);

/* Whether the sockets still have their names. */
bool request_server_is_there(const struct request_server *server);

/* To be called when something has changed: handles waiting requests again. */
void request_server_changed(struct request_server *server);

struct request_server *request_server_free(struct request_server *server);
DEFINE_CLEANUP(struct request_server *, request_server_free)
