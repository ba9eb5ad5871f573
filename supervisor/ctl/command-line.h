/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The command line of devplugctl: a table of commands, a table of options, and the help text made
 * from both.
 */

#include "supervisor/ctl/daemon-state.h"
#include "supervisor/ctl/verb.h"

/* Options that not every command has. */
enum {
	ARGUMENT_JSON = 1 << 0,
	ARGUMENT_ROOT = 1 << 1,
	ARGUMENT_ALLOCATE = 1 << 2,
	ARGUMENT_FOLLOW = 1 << 3,
	ARGUMENT_POD = 1 << 4,
	ARGUMENT_FOR = 1 << 5,
	ARGUMENT_TIMEOUT = 1 << 6,
	ARGUMENT_LIST = 1 << 7,
	ARGUMENT_FORCE = 1 << 8,
	ARGUMENT_CONTAINERS = 1 << 9,
	ARGUMENT_DUMP_TREE = 1 << 10,
	ARGUMENT_RESOURCES = 1 << 11,
};

/* A command either shows the daemon's state or runs. */
struct command {
	const char *name;
	const char *words;   /* what follows the name, for help */
	const char *summary; /* a line */
	const char *help;    /* more of it for "help COMMAND", or NULL */
	int (*show)(const struct daemon_state *daemon, const struct command_line *line);
	int (*run)(const struct command_line *line);
	unsigned options;    /* ARGUMENT_... */
	int least, most;     /* words behind the name */
	const char *missing; /* what the first of them is */
};

extern const struct command commands[];
extern const size_t n_commands;

/* Returns 1 with the command line and its command, 0 when the option was complete, or -EINVAL for a
 * wrong command line, which is explained on stderr. */
int arguments_parse(
	int argc, char *argv[], struct command_line *ret_line, const struct command **ret_command);
