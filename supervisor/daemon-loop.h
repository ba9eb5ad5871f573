/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The daemon from its start to its end: makes the parts of the manager, connects them, and serves
 * until a signal stops it.
 */

#include "common/error.h"

struct config;
struct manager;

/* Takes the configuration, also on failure; `last_accepted`: the file is not valid, and this is the
 * last accepted one instead, see configuration/last-accepted.h. Returns 0 or negative errno with
 * the error filled. */
int daemon_loop_new(const char *config_file, struct config *config, bool last_accepted,
	struct manager **ret, struct error *error);

/* Reloads automatically from now on whenever the files of the configuration change. Returns 0 or
 * negative errno. */
int daemon_loop_watch_configuration(struct manager *manager);

/* Starts the resources and serves until a signal stops it. Returns 0 or negative errno; -ESTALE:
 * only a new process can see the kubelet's directories as they are now. Logs. */
int daemon_loop_run(struct manager *manager);

struct manager *daemon_loop_free(struct manager *manager);
DEFINE_CLEANUP(struct manager *, daemon_loop_free)
