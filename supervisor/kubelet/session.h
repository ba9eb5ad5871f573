/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Makes our sockets in the kubelet's directories. A session is one registration with one kubelet: a
 * fresh listening socket and, unless the kubelet connects on its own (plugin watcher), a connection
 * to kubelet.sock. Both descriptors go to the child; the supervisor keeps what it needs to remove
 * the path, and only that path, later.
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

struct session {
	uint64_t number;                /* 0: none */
	char name[SOCKET_NAME_MAX + 1]; /* of the socket in `directory` */
	char *directory;
	dev_t device;
	ino_t inode;
	uint64_t kubelet; /* kubelet_watch_number() of the kubelet.sock it was opened with; 0: the
			     kubelet finds the socket with its plugin watcher */
	int listener_fd, kubelet_fd;
};

#define SESSION_INIT ((struct session){ .listener_fd = -EBADF, .kubelet_fd = -EBADF })

/* Eight hexadecimal digits that distinguish this run of the daemon from others. */
void session_instance(char ret[static SESSION_INSTANCE_CHARS + 1]);

/* Connects to the kubelet, and only then (a starting kubelet wipes the directory before it listens)
 * binds a socket, mode 0600. -ENOENT: no kubelet.sock, -ECONNREFUSED or -EAGAIN: no kubelet accepts
 * connections there yet, else another negative errno; always with the error filled. */
int session_open(const char *directory, const char *resource, const char *instance, uint64_t number,
	struct session *ret, struct error *error);

/* For the kubelet's plugin watcher: binds a socket in the registry directory, mode 0600, and moves
 * it into place when it listens; there is no connection. -ENXIO: the directory does not exist, else
 * another negative errno; always with the error filled. */
int session_open_watched(const char *directory, const char *resource, const char *instance,
	uint64_t number, struct session *ret, struct error *error);

/* Connects to a socket of the kubelet's, non-blocking. Returns 0 or negative errno. */
int session_connect(const char *directory, const char *name, int *ret_fd);

/* Whether the session has no socket of its own, because DRA serves the resource. */
bool session_has_no_socket(const struct session *session);

/* Whether the socket is still at its path. */
bool session_is_in_place(const struct session *session);

/* Closes our copies of the descriptors: the child has its own. */
void session_handed_over(struct session *session);

/* Closes the descriptors, removes the socket if it is still the one that was bound, and resets the
 * session. */
void session_done(struct session *session);

/* Removes sockets of ours without a listener, left by a daemon that was killed. Sockets of
 * `instance` belong to its sessions and are kept. Returns how many. */
unsigned session_sweep(const char *directory, const char *instance);
