/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The one long-lived object: the configuration in force, the resources it declares, the event loop,
 * and what people and systemd are told. It decides nothing about a resource (resource.h does).
 */

#include <systemd/sd-event.h>

#include "child.h"
#include "config/config.h"
#include "kubelet-watch.h"
#include "session.h"
#include "state.h"

struct spawn_template;

struct manager {
	sd_event *event;
	const char *config_file;
	struct config *config;
	uint64_t generation;     /* of the configuration, from 1 */
	struct child **children; /* in the order of the file; those that leave come last */
	size_t n_children;

	struct state *state;
	struct kubelet_watch *watch;
	int executable_fd;
	char *executable;
	struct spawn_template *template;
	char instance[SESSION_INSTANCE_CHARS + 1];
	uint64_t last_session;

	sd_event_source *flush; /* writes the state files */
	uint64_t last_flush;    /* CLOCK_MONOTONIC */
	bool flush_failed;      /* said so */
	bool reload_failed;     /* the file is not what is in force */
	bool stopping;
	sd_event_source *deadline; /* of the stop */
};

/* Takes the configuration, also on failure. Returns 0 or negative errno with the error filled. */
int manager_new(
	const char *config_file, struct config *config, struct manager **ret, struct error *error);

/* Starts the resources and serves until a signal stops it. Returns 0 or negative errno. Logs. */
int manager_run(struct manager *manager);

/* Something that people see has changed: state files and STATUS= follow within 100 ms. */
void manager_changed(struct manager *manager);

/* Watches the plugin directory of the configuration in force, and clears it of sockets that a dead
 * daemon left. Logs. */
int manager_watch_kubelet(struct manager *manager);

struct manager *manager_free(struct manager *manager);
DEFINE_CLEANUP(struct manager *, manager_free)
