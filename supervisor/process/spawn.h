/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Starts one child. Only this file and common/child-entry.h decide what it inherits: a control
 * socket, an output pipe, /dev/null, a few environment variables, and no
 * privilege. It is a copy of the template where that works, and executes its program otherwise; a
 * copy starts faster and has less memory of its own.
 */

#include <sys/types.h>

#include "common/child-entry.h"
#include "common/error.h"

struct spawn_template;

struct spawn_options {
	int executable_fd;      /* opened with O_PATH, so that an upgrade cannot mix versions */
	const char *executable; /* its path, for messages */
	const char *name;       /* of the program, NULL: "devplugd-plugin" */
	const char *resource;   /* its argument; a user id is reserved for it */
	const char *user;       /* name or number; NULL: one of its own, see child-user.h */

	/* Makes the process as a copy of the template (spawn-template.h), or returns negative
	 * errno. NULL: execute the program. */
	int (*copy)(struct spawn_template *template, const struct identity *identity,
		const char *resource, const struct child_ends *ends, pid_t *ret_pid);
	struct spawn_template *template;

	/* For the template itself, which keeps our identity: room into which its copies write their
	 * arguments. NULL: not the template. */
	const char *template_room;
};

struct spawned {
	pid_t pid;
	int control_fd; /* our end of the control socket, non-blocking */
	int output_fd;  /* what the child writes to stdout and stderr, non-blocking */
};

/* Opens a program of ours beside our own executable, or else where it was installed to; NULL is
 * "devplugd-plugin". `ret_path` is malloc'ed. Returns the descriptor or negative errno with the
 * error filled. */
int spawn_open_executable(const char *name, char **ret_path, struct error *error);

/* Starts a child and waits until it runs its program. On success the descriptors and the duty
 * to reap `pid` are the caller's. Returns 0 or negative errno with the error filled, after which no
 * process is left. */
int spawn_child(const struct spawn_options *options, struct spawned *ret, struct error *error);
