/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Runs the process of one resource: carries out what the state table decides (processes, control
 * socket, sessions, registrations, timers) and turns what happens into its events. A child is not
 * trusted: its messages are checked, counted and bounded. This file does not know the manager or
 * another child.
 */

#include <systemd/sd-event.h>

#include "common/control-child.h"
#include "common/pace.h"
#include "supervisor/children/offer-state.h"
#include "supervisor/children/proposal.h"
#include "supervisor/children/resource.h"
#include "supervisor/files/saved-health.h"
#include "supervisor/kubelet/session-sockets.h"
#include "supervisor/ownership/arbiter.h"
#include "supervisor/process/process-timer.h"
#include "supervisor/process/process.h"

struct child;

/* The parts of the daemon that all children need. It outlives them. */
struct registration; /* see registrations.h */

struct child_host {
	sd_event *event;
	struct runtime_files *files;
	struct arbiter *arbiter;
	struct published *published;
	struct spawn_options program; /* without a resource and its user */
	const uint64_t *generation;   /* of the applied configuration, for the log */

	/* Opens a session (errors as session_open()). */
	int (*open_session)(enum registration_way way, const char *resource, struct session *ret,
		void *userdata, struct error *error);
	/* Begins to register the child's session with the kubelet. The answer is passed to
	 * child_registered(). Returns 0 or negative errno. */
	int (*begin_registration)(struct child *child, struct registration **ret, void *userdata);
	void (*end_registration)(struct registration *registration, void *userdata);
	/* Ends a session without a socket of its own: RESOURCE_SESSION_ENDED comes later. */
	void (*end_session)(void *userdata);
	/* Sends the child what the kubelet has booked. Returns 0 or negative errno. */
	int (*send_booked)(struct child *child, void *userdata);
	/* A child has accepted a configuration, see resource_operations.applied. */
	void (*on_applied)(
		struct child *child, const struct resource_config *before, void *userdata);
	/* The visible state of a child has changed. */
	void (*on_changed)(void *userdata);
	/* A child has reported its devices: one has changed, or was allocated. */
	void (*on_devices)(struct child *child, void *userdata);
	/* A child has reported failures for which pods are to be evicted. Takes no descriptor.
	 * Returns 0, or -EBADMSG if they are malformed. */
	int (*on_failures)(struct child *child, int fd, void *userdata);
	/* A child has reported attributes of devices that containers have. As on_failures(). */
	int (*on_attributes)(struct child *child, int fd, void *userdata);
	/* CHILD_EDITS or CHILD_EDITS_CHANGED; NULL: no process can answer any more. */
	void (*on_edits)(
		const struct child *child, struct control_message *message, void *userdata);
	/* CHILD_USE or CHILD_CLEANED; NULL: no process can send them any more. Returns false if the
	 * message is malformed. */
	bool (*on_cleaning)(
		struct child *child, const struct control_message *message, void *userdata);
	/* Names who uses a device, for others: "default/a". */
	void (*name_user)(const struct child *child, const char *id, char ret[static USER_NAME_MAX],
		void *userdata);
	/* The number of removed devices that a child still lists, or whether the kubelet stores
	 * outdated answers for its devices, has changed. */
	void (*on_gone)(void *userdata);
	void *userdata;
};

struct child {
	const struct child_host *host;
	struct resource *resource;
	bool leaving;        /* not in the configuration any more */
	uint64_t changed_in; /* the generation that changed it last */
	uint64_t rescan;     /* the number of the last request that made it scan, 0: none */
	bool reported;       /* it has reported devices since its last configuration or answer about
				owners */
	bool counts_changed; /* by the last report: of devices or of healthy ones */

	struct process process;
	struct process_timer timers[_RESOURCE_TIMER_MAX];
	struct session session;
	struct registration *registration; /* of the session; NULL: none */
	struct log_budget log_budget;      /* of failed calls */

	int counters_fd; /* what its processes count, see counters.h; -EBADF: no memory for it */

	/* The process's own document with its devices, for clients and helper processes: a sealed
	 * memfd of CONTROL_DEVICES_MAX bytes at most; -EBADF: none. Its content is not checked. */
	int devices_fd;
	uint64_t devices_version;    /* the number of CHILD_DEVICES; 0: none */
	bool devices_passed_on;      /* this version, to devplugd-cluster */
	uint64_t dra_driver;         /* whose session it has; 0: none */
	bool published;              /* in ResourceSlices, since DRA's driver was registered */
	uint64_t devices_not_before; /* when it may get the next one */
	bool devices_too_large;      /* the last document was too large, which was logged */

	struct saved_health health; /* what the next process begins with */
	struct pace saving;
	int save_failure;         /* of the last write: negative errno, or 0 */
	struct saved_health list; /* the last complete list of devices, in the same way */
	struct pace list_saving;
	int list_failure;
	uint64_t list_hash; /* of the content of `list`; 0: not known */
	/* The labels of the node, checked; NULL: its process has sent none. */
	char *labels;
	bool labels_pending; /* not written yet */
	uint64_t labels_not_before;
	char *labels_failure; /* why they could not be written; NULL: they could */

	struct claimant *claimant; /* claims its devices */
	struct proposal *proposal;
	uint64_t gone;        /* removed devices that are still listed */
	uint64_t booked_sent; /* a hash of the last bookings that it was sent, 0: none */
	uint64_t dirty_sent;  /* the same of devices to be cleaned, 0: none */
	unsigned unnamed;     /* how often PodResources did not name a device that the kubelet has
				 booked, while an answer of the resource is outdated */
	struct offer_state offer;
};

/* A resource without a process. Returns 0 or negative errno. */
int child_new(
	const struct child_host *host, const struct resource_config *config, struct child **ret);

/* The declaration that the resource is judged by, see resource_applied(); NULL: it is not
 * configured any more. */
const struct declaration *child_declaration(const struct child *child);

/* How the resource is announced to the kubelet, in its next session. */
enum registration_way child_registration(const struct child *child);

/* The kubelet has registered the session; or it has not, and `why` is for people. */
void child_registered(struct child *child, const char *why);

/* Saves the newest health of its devices, its last complete list and its labels, if that is
 * pending. Returns when to call again because of pacing or a failure (CLOCK_MONOTONIC), or
 * USEC_INFINITY. */
uint64_t child_save(struct child *child);

/* Writes its labels again, as child_save(): another directory is configured, or a file is
 * damaged. */
void child_write_labels_again(struct child *child);

/* To be called when the resource is no longer declared: drops what is saved. */
void child_forget_saved(struct child *child);

/* Kills the process, if any is left, without waiting for it. */
struct child *child_free(struct child *child);
DEFINE_CLEANUP(struct child *, child_free)
