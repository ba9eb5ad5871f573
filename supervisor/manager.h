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
#include "pod-resources.h"
#include "published.h"
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
	struct pod_resources *pods;
	struct published *published;
	sd_event_source *owners_timer; /* see child-claims.h */
	uint64_t owners_not_before;    /* CLOCK_MONOTONIC */
	struct kubelet_watch *watch;
	struct config_watch *config_watch; /* NULL: only a signal reloads */
	int executable_fd;
	char *executable;
	struct spawn_template *template;
	char instance[SESSION_INSTANCE_CHARS + 1];
	uint64_t last_session;

	sd_event_source *flush; /* writes the state files */
	uint64_t last_flush;    /* CLOCK_MONOTONIC */
	bool flush_failed;      /* said so */
	uint64_t reloads;       /* attempts */
	bool reload_failed;     /* the last attempt; the file is not what is in force */
	bool on_last_accepted;  /* started so, because the file is not valid */
	sd_event_source *sweep; /* of what a dead daemon's children had still open */
	sd_event_source *rest;  /* when a start or a reload is over */
	bool stopping;
	sd_event_source *deadline; /* of the stop */
};

/* Takes the configuration, also on failure; `last_accepted`: it is not the file's, which is not
 * valid, see config/last-accepted.h. Returns 0 or negative errno with the error filled. */
int manager_new(const char *config_file, struct config *config, bool last_accepted,
	struct manager **ret, struct error *error);

/* Reloads by itself from now on whenever the files of the configuration change. Returns 0 or
 * negative errno. */
int manager_watch_configuration(struct manager *manager);

/* Starts the resources and serves until a signal stops it. Returns 0 or negative errno. Logs. */
int manager_run(struct manager *manager);

/* Something that people see has changed: state files and STATUS= follow within 100 ms. */
void manager_changed(struct manager *manager);

/* What a start or a reload needed is given back some seconds from now. */
void manager_rest_soon(struct manager *manager);

/* Watches the plugin directory of the configuration in force, and clears the directories of sockets
 * that a dead daemon left: at once, and again when its children must have ended, too. Logs. */
int manager_watch_kubelet(struct manager *manager);

/* Keeps the configuration in force as the last accepted one. Logs. */
void manager_keep_configuration(struct manager *manager);

struct manager *manager_free(struct manager *manager);
DEFINE_CLEANUP(struct manager *, manager_free)
