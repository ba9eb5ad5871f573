/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The process that serves one resource. Owned by the main thread; gRPC's thread sees only the
 * service.
 */

#include <systemd/sd-event.h>

#include "common/control.h"
#include "proto/plugin/allocate.h"
#include "proto/plugin/claiming.h"
#include "proto/plugin/pre-start.h"
#include "proto/plugin/publish.h"
#include "proto/plugin/service.h"
#include "proto/plugin/session.h"
#include "proto/plugin/tally.h"

/* What the supervisor has been told of the devices. */
struct reported {
	struct snapshot *snapshot; /* NULL: all of it has to be told */
	uint64_t allocations;      /* that were counted by then */
	int devices_fd, memory_fd; /* the files it was told in; the second only with probes */
	off_t whole, size;         /* of the first file: at its begin, and now */
};

#define REPORTED_INIT ((struct reported){ .devices_fd = -EBADF, .memory_fd = -EBADF })

struct plugin {
	sd_event *event;
	const char *resource;
	uid_t supervisor_uid;
	sd_event_source *alive_source, *report_source;
	size_t memory_kept;   /* private memory after the last look for what can be given back */
	size_t memory_in_use; /* the most that malloc had given out since */
	bool code_unused;     /* what only a registration needs is in memory since the last one */
	uint64_t report_due;  /* CLOCK_MONOTONIC microseconds before which devices are not reported
				 again */

	struct reported reported;

	/* In force together, or all NULL before the first configuration was accepted. */
	struct edition *edition;
	struct inventory *inventory;
	struct service *service;
	struct claiming claiming;
	uint64_t gone_told; /* how many vanished devices the supervisor knows of */
	struct publishing publishing;
	bool remembers;  /* something that the next process is to know */
	bool offered;    /* something; else the supervisor is not told yet that it may register */
	bool ready_owed; /* the answer to a configuration that was accepted */
	struct snapshot *said; /* the one whose state was logged last */

	struct session *session;
	bool session_pre_starts; /* the kubelet was told that PreStartContainer is required */
	struct pre_starts pre_starts;
	struct allocates allocates;
	struct tally tally;
};

extern const struct service_events plugin_service_events;

/* Sends to the supervisor; a supervisor that does not read for a second is not there: the loop
 * ends. */
void plugin_tell(struct plugin *plugin, const struct control_message *message);

/* Puts the configuration in the descriptor into force, or refuses it and keeps what is in force;
 * tells the supervisor which. The first one begins with what is remembered in `memory_fd`, if that
 * is a descriptor. */
void plugin_configure(struct plugin *plugin, int fd, int memory_fd);

/* A hash of what the declaration looks for, and where; 0 if memory is short. */
uint64_t plugin_sought(const struct declaration *declaration);

/* Offers the kubelet what is in force, as soon as the supervisor has done its part. */
void plugin_offer(struct plugin *plugin);

/* Has the inventory reported to the supervisor: the first time at once, later after what is
 * pressing. */
void plugin_report(struct plugin *plugin);

/* Called now and then: whatever presses, a report that waits does not wait for ever. */
void plugin_report_overdue(struct plugin *plugin);

/* Frees what was kept of the last report. */
void reported_done(struct reported *reported);

/* Ends the session on our side and tells the supervisor why. */
void plugin_end_session(struct plugin *plugin, const char *why);
