/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The commands that do something. Each says on stdout what it did and on stderr why not, and
 * returns the exit status.
 */

#include "ctl/snapshot.h"

struct report;

#define EXIT_USAGE       2
#define EXIT_NOT_RUNNING 3
#define EXIT_CONFIG      78

/* How long the daemon has to answer; a reload of a thousand resources takes a second. */
#define RELOAD_TIMEOUT (30 * USEC_PER_SEC)

/* The command line; absent members are NULL. */
struct request {
	const char *config_file, *runtime_dir;
	const char *subject; /* resource, device or preset */
	const char *reason;  /* or the ids of devices */
	const char *root;    /* of the host's files, "" for this host's; never NULL */
	bool json;
	bool allocate; /* programs of Allocate are run */
};

/* Lists the presets, or prints the file of one. */
int command_presets(const struct request *request);

/* Prints, ready to be pasted, a resource for each preset (or the one) that finds devices. */
int command_discover(const struct request *request);

/* Prints what a resource of the file would find and what a container would be given. */
int command_preview(const struct request *request);

/* Checks the file, has the daemon reload it, and prints what that changed. */
int command_reload(const struct request *request);

/* Lists devices as unhealthy for new containers, or no longer. */
int command_cordon(const struct request *request);
int command_uncordon(const struct request *request);

/* --- shared by them --- */

/* The file of the daemon that runs, if none was named. */
const char *request_config_file(const struct request *request, const struct snapshot *snapshot);

/* Prints what is wrong with a configuration; `file` where an entry names none. */
void print_report(const struct report *report, const char *file);

/* Has the daemon of the snapshot reload. Returns 0, or negative errno with the error filled:
 * -ESRCH: it is gone, -EINVAL: it refused, -ETIMEDOUT: it did not answer. */
int reload_daemon(
	const struct request *request, const struct snapshot *snapshot, struct error *error);
