/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The plugin under test as a process that the tool started: it leads a session of its own, so that
 * its descendants can be ended with it. Its resource usage, descendants included, is read from
 * /proc.
 */

#include <sys/types.h>

#include "common/error.h"

struct plugin_process {
	pid_t pid; /* the shell, or what it has become by exec; 0: not running */
	const char *command;
	int status; /* of waitpid(), once it has ended */
	bool ended; /* without a request of the trial */
	uint64_t started;
};

/* The resource usage of a process and its descendants together. */
struct process_usage {
	size_t descriptors;
	size_t memory;   /* resident bytes */
	uint64_t cpu;    /* microseconds */
	uint64_t waited; /* for a processor, microseconds; 0 where the kernel does not count it */
};

/* Runs the command, which must outlive the process, in a shell. Output goes to standard error. */
int plugin_process_start(const char *command, const char *plugin_dir, struct plugin_process *ret,
	struct error *error);

/* Whether it runs. Records its end. */
bool plugin_process_is_running(struct plugin_process *process);

/* Signals only the plugin, not its descendants. The plugin is the shell's only child, or the shell
 * itself after exec; in any other case, the command must use exec. */
void plugin_process_signal(const struct plugin_process *process, int number);

/* Waits until it has been started for more than a second. */
void plugin_process_let_age(const struct plugin_process *process);

/* Kills the session and waits for the process. */
void plugin_process_kill(struct plugin_process *process);

/* -ESRCH if it does not run. */
int plugin_process_usage(const struct plugin_process *process, struct process_usage *ret);

/* Runs a command in a shell to its end, with the plugin's process id and folder in the environment.
 * An error if its exit status is not 0, or if it has not ended when `limit` microseconds are over;
 * it is killed then. */
int plugin_process_hook(const struct plugin_process *process, const char *command,
	const char *plugin_dir, uint64_t limit, struct error *error);
