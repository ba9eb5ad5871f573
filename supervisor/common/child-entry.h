/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * What a process does to itself on its way to being a child: between fork and exec in the
 * supervisor, and in what the template forks (see spawn-template.h), so that both are made alike.
 * Only async-signal-safe calls.
 */

#include <sys/types.h>

#include "common/util.h"

struct identity {
	bool change; /* we are root and become somebody */
	uid_t uid;
	gid_t gid;
};

/* Descriptors of a new process, moved away from the numbers that it assigns. */
struct child_ends {
	int null;    /* becomes stdin */
	int output;  /* becomes stdout and stderr */
	int control; /* becomes CONTROL_FD */
	int status;  /* takes a struct entry_failure; its end says that there was none */
	int program; /* what will be executed, or -EBADF */
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

/* Signals, descriptors, limits, the user, the sandbox, and death with the parent, in this order.
 * What is above CONTROL_FD is closed by exec. `identity` NULL: who we are, with all that we may do.
 * Ends the process if `parent` is not its parent any more. Returns 0 or negative errno with the
 * failure filled. */
int entry_prepare(struct child_ends *ends, const struct identity *identity, pid_t parent,
	struct entry_failure *ret_failure);

/* Gives every signal its default action and blocks none. System calls only: safe after vfork(). */
void signals_reset(void);

/* "cannot %s NAME": for messages about a failure. */
const char *entry_step_name(enum entry_step step);
