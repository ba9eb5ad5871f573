/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Our sockets in the kubelet's directories. A session is one registration with one kubelet: a fresh
 * listening socket and, unless the kubelet comes by itself, a connection to kubelet.sock. Both
 * descriptors go to the child; the supervisor keeps what it needs to remove the path, and only that
 * path, later.
 */

#include <sys/types.h>

#include "common/error.h"
#include "config/config.h"

#define KUBELET_SOCKET_NAME    "kubelet.sock"
#define SESSION_SOCKET_PREFIX  "devplugd-"
#define SESSION_SOCKET_SUFFIX  ".sock"
#define SESSION_HIDDEN_PREFIX  "." /* what the plugin watcher overlooks */
#define SESSION_BACKLOG        64
#define SESSION_INSTANCE_CHARS 8

struct session {
	uint64_t number;                /* 0: none */
	char name[SOCKET_NAME_MAX + 1]; /* of the socket in `directory` */
	char *directory;
	dev_t device;
	ino_t inode;
	int listener_fd, kubelet_fd;
};

#define SESSION_INIT ((struct session){ .listener_fd = -EBADF, .kubelet_fd = -EBADF })

/* Eight hexadecimal digits that tell this run of the daemon from others. */
void session_instance(char ret[static SESSION_INSTANCE_CHARS + 1]);

/* Connects to the kubelet, and only then (a starting kubelet wipes the directory before it listens)
 * binds a socket, mode 0600. -ENOENT: no kubelet.sock, -ECONNREFUSED or -EAGAIN: nobody accepts
 * there yet, else another negative errno; always with the error filled. */
int session_open(const char *directory, const char *resource, const char *instance, uint64_t number,
	struct session *ret, struct error *error);

/* For a kubelet that finds the socket by itself (its plugin watcher): binds it in the registry
 * directory, mode 0600, and puts it in place when it listens; there is no connection. -ENXIO: the
 * directory does not exist, else another negative errno; always with the error filled. */
int session_open_watched(const char *directory, const char *resource, const char *instance,
	uint64_t number, struct session *ret, struct error *error);

/* Connects to a socket of the kubelet's, non-blocking. Returns 0 or negative errno. */
int session_connect(const char *directory, const char *name, int *ret_fd);

/* Closes our copies of the descriptors: the child has its own. */
void session_handed_over(struct session *session);

/* Closes the descriptors, removes the socket if it is still the one that was bound, and makes the
 * session none. */
void session_done(struct session *session);

/* Removes sockets of ours that nobody listens on, left by a daemon that was killed; those of
 * `instance` have their sessions and are left alone. Returns how many. */
unsigned session_sweep(const char *directory, const char *instance);
