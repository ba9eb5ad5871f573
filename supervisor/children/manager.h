/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Shared by the parts of the daemon: the applied configuration, the children of its resources, and
 * one part of each kind. It decides nothing: daemon-loop.h makes and runs the parts, and resource.h
 * decides about a resource.
 */

#include <systemd/sd-event.h>

#include "configuration/config.h"
#include "supervisor/kubelet/session-sockets.h"
#include "supervisor/kubelet/write-access.h"
#include "supervisor/process/spawn.h"

struct arbiter;
struct assignments;
struct auxiliary;
struct booked;
struct child;
struct child_host;
struct cleaning;
struct config_watch;
struct dra;
struct dra_claims;
struct events;
struct evictions;
struct kept_sockets;
struct kubelet_client;
struct kubelet_watch;
struct metrics;
struct offer_check;
struct plugin_metadata;
struct pod_resources;
struct published;
struct request_server;
struct restore_watch;
struct session_check;
struct runtime_files;
struct start_wait;

struct manager {
	sd_event *event;
	const char *config_file;
	struct config *config;
	uint64_t generation;     /* of the configuration, from 1 */
	struct child **children; /* in the order of the file; those that leave come last */
	size_t n_children;
	struct child_host *child_host;

	struct runtime_files *files;
	struct request_server *requests;
	struct events *events;
	struct evictions *evictions;
	struct assignments *assignments;
	struct pod_resources *pods;
	struct auxiliary *auxiliaries; /* the first of a list */
	struct metrics *metrics;
	struct dra *dra;
	struct dra_claims *dra_claims; /* the prepared claims; NULL without DRA */
	struct booked *booked;
	struct cleaning *cleaning;
	struct published *published;
	struct plugin_metadata *plugin_metadata;
	struct restore_watch *restore_watch;
	struct kubelet_watch *watch;
	struct kubelet_client *kubelet_client;
	struct kept_sockets *kept_sockets;
	struct session_check *session_check;
	struct offer_check *offer_check;
	struct start_wait *start_wait;
	struct config_watch *config_watch; /* NULL: only a signal reloads */
	struct spawn_options program;      /* devplugd-plugin, without a resource and its user */
	char *executable;                  /* its path */
	struct arbiter *arbiter;
	char instance[SESSION_INSTANCE_CHARS + 1];
	uint64_t last_session;

	sd_event_source *flush; /* follows up changes */
	uint64_t last_flush;    /* CLOCK_MONOTONIC */
	uint64_t n_flushes;
	bool keep_failed;       /* the configuration could not be saved, which was logged */
	uint64_t reloads;       /* attempts */
	uint64_t rescans;       /* requests */
	uint64_t accepted_at;   /* CLOCK_REALTIME: when the applied configuration was */
	bool reload_failed;     /* the last attempt failed; the file is not applied */
	bool on_last_accepted;  /* started so, because the file is not valid */
	sd_event_source *sweep; /* removes sockets of a dead daemon again, later */
	struct write_access write_access;
	sd_event_source *end; /* stops the daemon, to be started with a new view of the host */
	bool view_lost;       /* the view is out of date, and `end` is set */
	bool stopping;
	sd_event_source *deadline; /* of the stop */
};

/* The child that serves the resource of that name, or NULL. */
struct child *manager_find_child(const struct manager *manager, const char *name);

/* To be called when a visible value has changed: STATUS=, clients that wait, devplugd-cluster and
 * the saved health follow within 100 ms. */
void manager_changed(struct manager *manager);

/* Ends the daemon if the kubelet's directories are no longer writable in this process's mount
 * namespace, see write_access_lost(). Logs. */
void manager_check_view(struct manager *manager);
