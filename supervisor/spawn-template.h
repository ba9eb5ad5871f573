/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The template: devplugd-plugin executed once, with its libraries loaded and relocated and gRPC
 * never initialised, which makes children by copying itself. A copy starts in a third of the time
 * and shares the pages that relocation wrote.
 *
 * A copy must be our own child (reaping, parent-death signal), and it lives long and has threads.
 * clone(CLONE_PARENT) would do the first and break the second: only the C library's fork() renews
 * what the library remembers about the calling thread. So the template makes a process with
 * vfork(), which calls fork() and ends, and its orphan comes to us because we are, for that moment,
 * a subreaper.
 *
 * Copies have one address-space layout and one stack canary, as those of any pre-forking server;
 * nobody but root can talk to them.
 */

#include <systemd/sd-event.h>

#include "common/child-entry.h"
#include "spawn.h"

/* A template that does not answer for this long, or is not there within it, is killed. */
#define SPAWN_TEMPLATE_TIMEOUT_MSEC 2000
/* No other one is tried for this long after one that was of no use. */
#define SPAWN_TEMPLATE_RETRY (60 * USEC_PER_SEC)

struct spawn_template;

/* A template of the executable, which must stay open and named for as long as it lives; its process
 * is started now, and again by spawn_template_fork() when it has died. Returns 0 or negative errno;
 * that no process can be started is no error. */
int spawn_template_new(
	sd_event *event, int executable_fd, const char *executable, struct spawn_template **ret);

/* Has a child forked that enters as `identity` with the ends (of which `null` and `program` are not
 * used; all stay the caller's) and whose outcome comes by its status pipe. Returns 0 with the pid,
 * which is the caller's to reap, or negative errno, after which no child is left that would hold
 * the ends for long. Logs. */
int spawn_template_fork(struct spawn_template *template, const struct identity *identity,
	const char *resource, const struct child_ends *ends, pid_t *ret_pid);

/* Ends the process, which spawn_template_free() waits for; no child is made any more. */
void spawn_template_dismiss(struct spawn_template *template);

struct spawn_template *spawn_template_free(struct spawn_template *template);
DEFINE_CLEANUP(struct spawn_template *, spawn_template_free)
