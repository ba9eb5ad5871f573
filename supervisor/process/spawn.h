/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Starts one child. Only this file and common/child-entry.h decide what it inherits: a control
 * socket, an output pipe, /dev/null, a few environment variables, and no
 * privilege. It is a copy of the template where that works, and executes its program otherwise; a
 * copy starts faster and has less memory of its own.
 */

#include <sys/types.h>
#include <systemd/sd-event.h>

#include "common/child-entry.h"
#include "common/error.h"

struct spawn_template;

struct spawn_options {
	int executable_fd;      /* opened with O_PATH, so that an upgrade cannot mix versions */
	const char *executable; /* its path, for messages */
	const char *name;       /* of the program, NULL: "devplugd-plugin" */
	const char *resource;   /* its argument, shown by ps; also what the user is its own of */
	const char *user;       /* name or number; NULL: one of its own, see child-user.h */

	/* Makes the process as a copy of the template: spawn_template_copy(). NULL: execute the
	 * program. */
	int (*copy)(struct spawn_template *template, const struct identity *identity,
		const char *resource, const struct child_ends *ends, pid_t *ret_pid);
	struct spawn_template *template;

	/* Of the template itself, which keeps our identity: spaces, into which its copies write
	 * their arguments. NULL: not the template. */
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

/*
 * The template: devplugd-plugin executed once, with its libraries loaded and relocated and gRPC
 * never initialised, which makes children by copying itself. A copy starts in a third of the time
 * and shares the pages that relocation wrote.
 *
 * A copy must be our own child (reaping, parent-death signal), and it lives long and has threads.
 * clone(CLONE_PARENT) would do the first and break the second: only the C library's fork() renews
 * the library's data about the calling thread. So the template makes a process with vfork(), which
 * calls fork() and ends, and its orphan becomes our child because we are a subreaper.
 *
 * Copies have one address-space layout and one stack canary, as in any pre-forking server; only
 * root can send them data.
 */

/* A template that does not answer within this time is killed. */
#define SPAWN_TEMPLATE_TIMEOUT_MSEC 2000
/* After a template that failed, the next one is started no earlier than this. */
#define SPAWN_TEMPLATE_RETRY (60 * USEC_PER_SEC)

/* Makes a template of the program, which must stay open and named as long as the template lives,
 * and fills in `copy` and `template`. Its process is started now, and again by spawn_child() when
 * it has died. Returns 0 or negative errno; failing to start the process is not an error. */
int spawn_template_new(sd_event *event, struct spawn_options *program);

/* Makes a process with those ends and that identity, see struct spawn_options. Returns 0 or
 * negative errno; logs why, and the program is to be executed instead. */
int spawn_template_copy(struct spawn_template *template, const struct identity *identity,
	const char *resource, const struct child_ends *ends, pid_t *ret_pid);

/* Ends the process, for which spawn_template_free() waits; no more children are made. */
void spawn_template_dismiss(struct spawn_template *template);

struct spawn_template *spawn_template_free(struct spawn_template *template);
DEFINE_CLEANUP(struct spawn_template *, spawn_template_free)
