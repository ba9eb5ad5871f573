/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Turns a new process into a child: between fork and exec in the supervisor, and in the copies that
 * the template forks (see spawn-template.h), so that both are set up in the same way. Only
 * async-signal-safe calls.
 */

#include <sys/types.h>

#include "common/util.h"

struct identity {
	bool change; /* whether the user is changed */
	uid_t uid;
	gid_t gid;
	bool own; /* no other process uses the uid, so the kernel's counts for it are the child's */
};

/* A resource that is configured to run as root keeps the service's capabilities; all others get
 * none. */
static inline bool identity_is_root(const struct identity *identity)
{
	return identity->change && identity->uid == 0;
}

/* Descriptors of a new process, moved away from the numbers that they replace. */
struct child_ends {
	int null;    /* becomes stdin */
	int output;  /* becomes stdout and stderr */
	int control; /* becomes CONTROL_FD */
	int status;  /* receives a struct entry_failure; end of file means success */
	int program; /* the program to execute, or -EBADF */
};

enum entry_step {
	ENTRY_DESCRIPTORS,
	ENTRY_BOUNDING,
	ENTRY_GROUPS,
	ENTRY_USER,
	ENTRY_CAPABILITIES,
	ENTRY_NO_NEW_PRIVS,
	ENTRY_SANDBOX,
	ENTRY_DEATH_SIGNAL,
	ENTRY_EXECUTE,
};

struct entry_failure {
	enum entry_step step;
	int code; /* positive errno */
};

/* Sets signals, a session without a terminal, descriptors, limits, the user, the sandbox and the
 * death signal, in this order. exec closes descriptors above CONTROL_FD. `identity` NULL, for the
 * template: keeps the user, and only the capabilities that starting children takes. Ends the
 * process if `parent` is no longer its parent. Returns 0 or negative errno with the failure filled.
 */
int entry_prepare(struct child_ends *ends, const struct identity *identity, pid_t parent,
	struct entry_failure *ret_failure);

/* Only the user, the limit of processes and the sandbox: for a process that stays what it is and
 * runs a resource's programs. Returns 0 or negative errno with the failure filled. */
int entry_confine(const struct identity *identity, struct entry_failure *ret_failure);

/* Gives every signal its default action and blocks none. System calls only: safe after vfork(). */
void signals_reset(void);

/* "cannot %s NAME": for messages about a failure. */
const char *entry_step_name(enum entry_step step);
