/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * A driver name that the kubelet registers, and what devplugd-cluster has published under it. It
 * has a session of its own, which is opened again until the kubelet has registered it.
 */

#include <jansson.h>
#include <systemd/sd-event.h>

#include "common/control-cluster.h"
#include "common/log.h"
#include "supervisor/kubelet/session-sockets.h"

struct auxiliary;
struct dra_registrant;
struct manager;

/* What happened since the driver was added, by enum cluster_event. */
struct dra_counts {
	uint64_t number, usec;
};

/* `driver->registered` or `driver->failure` has changed; `before`: whether it was registered. */
typedef void (*dra_registrant_handler)(
	const struct dra_registrant *driver, bool before, void *userdata);

struct dra_registrant {
	uint64_t number; /* in messages of devplugd-cluster */
	char *name;
	bool registered;
	char failure[CONTROL_TEXT_MAX];     /* why it is not registered; "": not known yet */
	uint64_t generation, slices, lacks; /* as CLUSTER_POOL */
	char api_failure[CONTROL_TEXT_MAX];
	/* of the owner */
	struct log_once logged; /* failures since the API server's last answer */
	struct dra_counts counts[_CLUSTER_EVENT_MAX];
	json_t *resources;     /* the names of those that are served under it */
	bool in_use;           /* it has resources or claims */
	uint64_t unused_since; /* CLOCK_MONOTONIC; if not in use */
	/* private */
	struct manager *manager;
	struct auxiliary *process;
	dra_registrant_handler on_change;
	void *userdata;
	bool begun;  /* a session is open, or will be opened again */
	bool passed; /* the process that runs has its socket */
	bool stored; /* systemd keeps its sockets */
	struct session session;
	struct registration *registration;
	uint64_t delay;
	sd_event_source *timer;
};

/* `process`: devplugd-cluster. */
int dra_registrant_new(struct manager *manager, struct auxiliary *process, uint64_t number,
	const char *name, dra_registrant_handler on_change, void *userdata,
	struct dra_registrant **ret);

/* Opens a session, when devplugd-cluster knows the driver, or passes it the one of its predecessor.
 */
void dra_registrant_open(struct dra_registrant *driver);

/* The process has ended. A session that is registered waits for the next one. */
void dra_registrant_suspend(struct dra_registrant *driver, const char *why);

/* Ends it. The latter also opens another one later. */
void dra_registrant_close(struct dra_registrant *driver, const char *why);
void dra_registrant_fail(struct dra_registrant *driver, const char *why);

/* To be called when its socket may have been removed. */
void dra_registrant_check(struct dra_registrant *driver);

/* Without on_change. */
struct dra_registrant *dra_registrant_free(struct dra_registrant *driver);
DEFINE_CLEANUP(struct dra_registrant *, dra_registrant_free)
