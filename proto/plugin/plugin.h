/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The process that serves one resource. Owned by the main thread; gRPC's thread sees only the
 * service.
 */

#include <systemd/sd-event.h>

#include "common/control-child.h"
#include "common/pace.h"
#include "proto/plugin/allocate.h"
#include "proto/plugin/allocation-count.h"
#include "proto/plugin/claiming.h"
#include "proto/plugin/device-use.h"
#include "proto/plugin/expecting.h"
#include "proto/plugin/housekeeping.h"
#include "proto/plugin/labelling.h"
#include "proto/plugin/plugin-session.h"
#include "proto/plugin/pre-start.h"
#include "proto/plugin/propose-files.h"
#include "proto/plugin/service.h"

struct plugin {
	sd_event *event;
	const char *resource;
	uid_t supervisor_uid;
	sd_event_source *alive_source, *report_source;
	struct pace reporting;   /* devices to the supervisor */
	uint64_t report_version; /* see CHILD_DEVICES */

	struct housekeeping housekeeping;

	/* Applied together, or all NULL before the first configuration was accepted. */
	struct applied_config *applied_config;
	struct inventory *inventory;
	struct service *service;
	const struct service_events *service_events;
	struct bookings *booked;   /* the supervisor's last bookings; NULL: none yet */
	uint64_t booked_hash;      /* of `booked`; 0: none yet */
	uint64_t allocated_before; /* received with `booked` */
	/* Until then a kubelet that was restarted admits its pods again, see offer_readmit();
	 * CLOCK_MONOTONIC, 0: none does. */
	uint64_t readmission_end;
	sd_event_source *readmission_source;
	struct strings readmission_refused; /* ids that the kubelet has chosen for other pods */
	struct claiming claiming;
	struct expecting expecting;
	struct labelling labelling;
	bool labels_busy;       /* they have to be made again */
	uint64_t scan_owed;     /* the number of the newest CHILD_SCAN without an answer; 0: none */
	uint64_t gone_reported; /* how many removed devices the supervisor knows of */
	struct publishing publishing;
	bool offered;    /* whether anything was offered; before that, the supervisor may not
			    register */
	bool ready_owed; /* a configuration was accepted and is not answered yet */
	struct snapshot *logged; /* the snapshot that was logged last */

	struct session *session;
	bool session_pre_starts; /* the kubelet knows that PreStartContainer is required */
	struct pre_starts pre_starts;
	struct edits *edits;                 /* the first of those that are being built */
	struct applied_config *edits_config; /* what CHILD_EDITS_CHANGED was sent for last */
	struct snapshot *edits_snapshot;
	bool edits_owed; /* some could not be built again */
	struct allocates allocates;
	struct allocation_count allocation_count;
	struct device_uses uses;
	uint64_t attributes_sent; /* a hash of the last CHILD_ATTRIBUTES, 0: none */
};

/* Applies the configuration in the descriptor, or refuses it and keeps the applied one; reports
 * which to the supervisor. The first one begins with the saved state in `saved_state_fd`, if that
 * is a descriptor. */
void plugin_configure(struct plugin *plugin, int fd, int saved_state_fd);

/* Answers the newest CHILD_SCAN, if it has no answer yet. To be called after a scan, when its
 * claims were sent. */
void plugin_report_scanned(struct plugin *plugin);

/* Offers the kubelet the current devices, as soon as the supervisor has answered. */
void plugin_offer(struct plugin *plugin);

/* Reports the inventory to the supervisor: the first time at once, later after urgent work. */
void plugin_report(struct plugin *plugin);

/* The same, if nothing has changed but the numbers of allocations. */
void plugin_report_counts(struct plugin *plugin);

/* Sends the supervisor the devices whose pods are to be evicted, if the configuration evicts any.
 * Returns 0 or negative errno, as control_send(). */
int plugin_report_failures(const struct plugin *plugin, const struct snapshot *snapshot);

/* Called from time to time: sends a report that has waited too long, urgent work or not. */
void plugin_report_overdue(struct plugin *plugin);
