/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The running device manager: the model, the sockets around it, and the events that it reports.
 * Everything runs on one event loop; gRPC's thread only posts messages to the mailbox.
 */

#include <jansson.h>
#include <systemd/sd-event.h>

#include "kubelet/model.h"
#include "proto/mailbox.h"

struct admission;
struct connection;
struct control;
struct dra_driver;
struct dra_operation;
struct output;
struct plugin_watcher;
struct pod_resources;
struct registrar;

/* Faults for tests: how Register calls are treated instead of being served. */
enum register_fault {
	REGISTER_SERVED,
	REGISTER_HELD,        /* never answered */
	REGISTER_REFUSED,     /* fails with UNKNOWN, as every refusal of a kubelet */
	REGISTER_UNAVAILABLE, /* as if the kubelet were about to stop */
	REGISTER_RESET,       /* the connection is cut */
};

struct kubelet_faults {
	enum register_fault on_register;
	bool early_stream; /* Register is answered after the first list only */
};

struct manager_options {
	const char *plugin_dir;       /* absolute */
	const char *plugins_registry; /* NULL: no watcher */
	const char *state_dir;
	const struct kubelet_version *version;
	struct topology_rules topology;
	bool stale_stream_race;
	bool force_json;
	bool replace;         /* takes the directories over, although a kubelet serves them */
	unsigned time_scale;  /* how much faster than a kubelet the long periods go by */
	double claim_timeout; /* of a call for claims; seconds */
	uint64_t seed;
	json_t *others;                      /* of the node, see other-resources.h; NULL: nothing */
	const struct kubelet_faults *faults; /* NULL: none; read at each event */
	/* Receives events instead of standard output if it is not NULL; the manager keeps the
	 * object. */
	void (*on_event)(const json_t *event, void *userdata);
	void *userdata;
};

struct manager {
	const struct manager_options *options;
	sd_event *event;
	struct mailbox *mailbox;
	struct model *model;
	struct output *output;
	struct registrar *registrar;
	struct plugin_watcher *plugin_watcher;
	struct pod_resources *pod_resources;
	struct control *control;
	struct connection *connections;
	uint64_t last_connection;   /* numbers count from 1 */
	bool connections_ended;     /* since the last tick */
	struct dra_driver *drivers; /* the newest first */
	struct dra_operation *dra_operations;
	json_t *claims;               /* of claim-table.h */
	struct admission *admissions; /* in the order of arrival */
	bool admitting;               /* inside the loop that admits */
	sd_event_source *tick_source, *checkpoint_source, *sigterm_source, *sigint_source;
	uint64_t checkpoint_written; /* when, 0: never */
};

/* Starts the device manager as a kubelet does: reads the checkpoint, cleans the directory, listens.
 * `options` must outlive it. */
int manager_new(const struct manager_options *options, struct manager **ret, struct error *error);

/* manager_run() returns this after a panic. It is also the exit status. */
#define MANAGER_PANICKED 3

/* Serves until a signal comes. Returns 0, MANAGER_PANICKED or negative errno. */
int manager_run(struct manager *manager);

/* Leaves the files on disk, as a kubelet does. */
struct manager *manager_free(struct manager *manager);
DEFINE_CLEANUP(struct manager *, manager_free)

/* Reports an event. Takes the object, which contains "event" and its members; NULL (no memory) is
 * accepted. */
void manager_emit(struct manager *manager, json_t *event);

/* A kubelet would panic here: logs why and ends the loop with MANAGER_PANICKED. Nothing else is
 * cleaned up. */
void manager_panic(struct manager *manager, const char *why);

/* To be called when capacity or allocatable may have changed. */
void manager_changed(struct manager *manager);

/* Writes the checkpoint now or within 100 ms, so that bursts of lists cost one write. */
int manager_save(struct manager *manager, struct error *error);
void manager_save_soon(struct manager *manager);

/* CLOCK_MONOTONIC in microseconds. */
uint64_t manager_now(void);
