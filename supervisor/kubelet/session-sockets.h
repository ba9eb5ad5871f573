/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Makes our sockets in the kubelet's directories. A session is one registration with one kubelet: a
 * fresh listening socket, which goes to the child that serves, and what the kubelet client
 * registers it with (supervisor/children/registrations.h). That is a connection to kubelet.sock or,
 * for the kubelet's plugin watcher, a second listening socket with a visible name. The supervisor
 * keeps what it needs to remove the paths, and only those paths, later.
 */

#include <sys/types.h>

#include "common/error.h"
#include "configuration/config.h"

#define KUBELET_SOCKET_NAME    "kubelet.sock"
#define SESSION_SOCKET_PREFIX  "devplugd-"
#define SESSION_SOCKET_SUFFIX  ".sock"
#define SESSION_HIDDEN_PREFIX  "." /* prefix of names that the plugin watcher ignores */
#define SESSION_BACKLOG        64
#define SESSION_INSTANCE_CHARS 8
#define SESSION_NUMBERS        10000000000ULL /* ten digits of a name: 300 years of one a second */

struct session_socket {
	char name[SOCKET_NAME_MAX + 1]; /* in the directory of the session */
	dev_t device;
	ino_t inode;
	int fd; /* listens; -EBADF: was passed on */
};

struct session {
	uint64_t number; /* 0: none */
	char *directory;
	struct session_socket socket;  /* on which the plugin serves */
	struct session_socket visible; /* which the plugin watcher finds; without a name: none */
	uint64_t kubelet; /* kubelet_watch_number() of the kubelet.sock it was opened with; 0: the
			     kubelet finds the socket with its plugin watcher */
	int kubelet_fd;   /* connection to kubelet.sock */
};

#define SESSION_INIT \
	((struct session){ .socket.fd = -EBADF, .visible.fd = -EBADF, .kubelet_fd = -EBADF })

/* Eight hexadecimal digits that distinguish this run of the daemon from others. */
void session_instance(char ret[static SESSION_INSTANCE_CHARS + 1]);

/* Connects to the kubelet, and only then (a starting kubelet wipes the directory before it listens)
 * binds a socket, mode 0600. -ENOENT: no kubelet.sock, -ECONNREFUSED or -EAGAIN: no kubelet accepts
 * connections there yet, else another negative errno; always with the error filled. */
int session_open(const char *directory, const char *resource, const char *instance, uint64_t number,
	struct session *ret, struct error *error);

/* For the kubelet's plugin watcher: binds two sockets in the registry directory, mode 0600. The one
 * with a visible name is moved into place when it listens; the plugin serves on the other one,
 * whose name the watcher ignores. It is not in the plugin directory, because a kubelet that starts
 * wipes that. -ENXIO: the directory does not exist, else another negative errno; always with the
 * error filled. */
int session_open_watched(const char *directory, const char *resource, const char *instance,
	uint64_t number, struct session *ret, struct error *error);

/* Completes a session of session_open_watched() that another devplugd opened, and of which the
 * descriptors and the numbers of both files are known. Returns 0, -EBADF: they are not its
 * listening sockets, -ESTALE: its files have been removed, or another negative errno. */
int session_adopt(const char *directory, struct session *session);

/* Connects to a socket of the kubelet's, non-blocking. Returns 0 or negative errno. */
int session_connect(const char *directory, const char *name, int *ret_fd);

/* Whether the session has no socket of its own, because DRA serves the resource. */
bool session_has_no_socket(const struct session *session);

/* The process that listens on the socket that session_connect() connected to; 0: unknown, or not in
 * devplugd's PID namespace. */
pid_t session_peer_pid(int fd);

/* Whether each socket is still at its path. */
bool session_is_in_place(const struct session *session);

/* Closes the descriptors, removes the sockets that are still those that were bound, and resets the
 * session. */
void session_done(struct session *session);

/* Removes sockets of ours without a listener, left by a daemon that was killed. Sockets of
 * `instance` belong to its sessions and are kept. Returns how many. */
unsigned session_sweep(const char *directory, const char *instance);
