/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Starting one child: the only place that forks. What a child inherits is decided here and nowhere
 * else: a control socket, an output pipe, /dev/null, a handful of environment variables, and no
 * privilege.
 */

#include <sys/types.h>

#include "common/error.h"

struct spawn_options {
	int executable_fd;      /* opened with O_PATH, so that an upgrade cannot mix versions */
	const char *executable; /* its path, for messages */
	const char *resource;   /* shown by ps */
	const char *user;       /* name or number; NULL: "devplugd" if it exists, else 65534 */
};

struct spawned {
	pid_t pid;
	int control_fd; /* our end of the control socket, non-blocking */
	int output_fd;  /* what the child writes to stdout and stderr, non-blocking */
};

/* Opens the executable "devplugd-plugin" beside our own, or else where it was installed to.
 * `ret_path` is malloc'ed. Returns the descriptor or negative errno with the error filled. */
int spawn_open_executable(char **ret_path, struct error *error);

/* Starts a child and waits until it executes its program. On success the descriptors and the duty
 * to reap `pid` are the caller's. Returns 0 or negative errno with the error filled, after which no
 * process is left. */
int spawn_child(const struct spawn_options *options, struct spawned *ret, struct error *error);
