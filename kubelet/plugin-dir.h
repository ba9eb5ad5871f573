/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The directory that kubelet and plugins share: made and cleaned at each start of the kubelet.
 */

#include "kubelet/model.h"

#define KUBELET_SOCKET_NAME "kubelet.sock"

/* Makes the directory if it is missing and removes what that version of the kubelet removes: 1.36
 * sockets, 1.32 everything but directories; both keep the checkpoint. `on_removed` is called for
 * each name. */
int plugin_dir_prepare(const char *dir, const struct kubelet_version *version,
	void (*on_removed)(const char *name, void *userdata), void *userdata, struct error *error);

/* -EADDRINUSE if a process serves dir/kubelet.sock: a kubelet, whose plugins would be disturbed. */
int plugin_dir_check_unused(const char *dir, struct error *error);

/* Binds dir/kubelet.sock with the mode that the umask gives and listens. */
int plugin_dir_listen(const char *dir, int *ret_fd, struct error *error);

/* Connects a non-blocking stream socket to a path. -ENAMETOOLONG if the path does not fit into an
 * address. */
int socket_connect(const char *path, int *ret_fd);

/* Binds a non-blocking stream socket to a path and listens. Between the two steps, the path exists
 * and refuses connections, as a kubelet's own does. */
int socket_listen(const char *path, int *ret_fd);

/* Like socket_listen(), in place of the file at the path; every client may connect. */
int socket_publish(const char *path, int *ret_fd);
