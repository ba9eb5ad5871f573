/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The commands. Each prints its result on stdout and errors on stderr, and returns the exit status.
 */

#include "supervisor/ctl/daemon-state.h"

struct report;

#define EXIT_USAGE       2
#define EXIT_NOT_RUNNING 3
#define EXIT_CONFIG      78

/* Seconds; the daemon gives up after 30. */
#define RELOAD_TIMEOUT 35

/* The command line; absent members are NULL. */
struct command_line {
	const char *config_file, *runtime_dir;
	const char *verb;
	const char *subject;   /* resource, device or preset */
	const char *reason;    /* or the ids of devices */
	const char *root;      /* of the host's files, or NULL */
	const char *pod;       /* "NAMESPACE/NAME" */
	const char *condition; /* of "wait" */
	const char *timeout;   /* seconds */
	bool json;
	bool allocate; /* programs of Allocate are run */
	bool follow, list, force;
	bool resources;  /* only what the configuration lacks */
	bool containers; /* what they can open is checked */
	bool dump_tree;  /* print the files that are read */
};

/* Lists the presets, or prints the file of one. */
int command_presets(const struct command_line *line);

/* Prints, ready to be pasted, a resource for each preset (or the one) that finds devices, or only
 * those that the configuration lacks. */
int command_discover(const struct command_line *line);

/* Prints the devices that a resource of the file would find, and the answer for a container. */
int command_preview(const struct command_line *line);

/* Shows resources, devices and pods until it is ended. */
int command_top(const struct command_line *line);

/* Prints all that the kubelet has assigned to a pod. */
int command_pod(const struct command_line *line);

/* Prints the events that the daemon keeps. */
int command_events(const struct command_line *line);

/* Waits until a resource meets line->condition. */
int command_wait(const struct command_line *line);

/* Prints in one line whether there is a problem; returns the exit status that node-problem-detector
 * expects. */
int command_check(const struct command_line *line);

/* Has the daemon scan for devices. */
int command_rescan(const struct command_line *line);

/* Checks the file, makes the daemon reload it, and prints what that changed. */
int command_reload(const struct command_line *line);

/* Makes the daemon close the files of the host's driver that a resource keeps open, or open them
 * again. */
int command_release(const struct command_line *line);
int command_resume(const struct command_line *line);

/* Lists devices as unhealthy for new containers, or no longer. */
int command_cordon(const struct command_line *line);
int command_uncordon(const struct command_line *line);

/* Marks a device as not assigned to a pod. */
int command_forget(const struct command_line *line);
int command_evict(const struct command_line *line);

/* Changes the service's unit so that the service may write to a directory. */
int command_allow(const struct command_line *line);

/* Prints objects of Dynamic Resource Allocation for kubectl. */
int command_dra(const struct command_line *line);

/* --- shared by them --- */

/* The runtime_dir of the daemon in question (malloc'ed). Returns 0 or -ENOMEM with the error
 * filled. */
int command_line_runtime_dir(const struct command_line *line, char **ret, struct error *error);

/* Prints the error on stderr if r is negative. Returns the exit status: success only if r is 0. */
int finish_command(int r, const struct error *error);

/* Adds to the error of a request the remedy, if there is one: that it needs root, or the nearest
 * name of a resource. `resource` may be NULL. */
void request_explain(const struct command_line *line, const char *resource, struct error *error);

/* Prints on stderr why the daemon has not answered, if so. Returns the exit status that follows
 * from it. */
int print_unanswered(const struct daemon_state *daemon);

/* Returns 0, or -EPERM with the error filled if only root can do what the verb does to this
 * daemon. */
int require_root(const struct daemon_state *daemon, const char *verb, struct error *error);

/* Returns 0, or -EINVAL with the error filled if the file that was named is not the one that the
 * daemon reads. */
int require_config_file(
	const struct command_line *line, const struct daemon_state *daemon, struct error *error);

/* The file of the daemon that runs, if none was named. */
const char *command_line_config_file(
	const struct command_line *line, const struct daemon_state *daemon);

/* Prints the problems of a configuration; `file` is the name for entries without one. */
void print_report(const struct report *report, const char *file);

/* Makes the daemon apply its files (the verb "reload" or "cordons" of the control socket), and
 * waits until they are applied. Returns 0, or negative errno with the error filled: -ESRCH: it has
 * ended, -EINVAL: it refused, -ETIMEDOUT: it did not answer, or a resource needs longer. */
int have_applied(const struct daemon_state *daemon, const char *verb, struct error *error);
