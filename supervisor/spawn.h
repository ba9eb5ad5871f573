/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Starting one child. What it inherits is decided here and in common/child-entry.h and nowhere
 * else: a control socket, an output pipe, /dev/null, a handful of environment variables, and no
 * privilege. It is a copy of the template where that works, and executes its program where not; the
 * difference is how fast it starts and how much memory is its own.
 */

#include <sys/types.h>

#include "common/error.h"

struct spawn_template;

struct spawn_options {
	int executable_fd;      /* opened with O_PATH, so that an upgrade cannot mix versions */
	const char *executable; /* its path, for messages */
	const char *resource;   /* shown by ps */
	const char *user;       /* name or number; NULL: "devplugd" if it exists, else 65534 */
	struct spawn_template *template; /* NULL: execute the program */
};

struct spawned {
	pid_t pid;
	int control_fd; /* our end of the control socket, non-blocking */
	int output_fd;  /* what the child writes to stdout and stderr, non-blocking */
};

/* Opens the executable "devplugd-plugin" beside our own, or else where it was installed to.
 * `ret_path` is malloc'ed. Returns the descriptor or negative errno with the error filled. */
int spawn_open_executable(char **ret_path, struct error *error);

/* Starts a child and waits until it runs its program. On success the descriptors and the duty
 * to reap `pid` are the caller's. Returns 0 or negative errno with the error filled, after which no
 * process is left. */
int spawn_child(const struct spawn_options *options, struct spawned *ret, struct error *error);

/* Executes the program as template, with all that we may do; `resource` and `user` are not used.
 * What is returned is as for a child. */
int spawn_template_program(
	const struct spawn_options *options, struct spawned *ret, struct error *error);
