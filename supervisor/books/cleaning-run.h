/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Inside of cleaning: its state, who has a device, and the program that cleans one.
 */

#include <systemd/sd-event.h>

#include "common/log.h"
#include "common/offered-id.h"
#include "drivers/model/declaration.h"
#include "supervisor/books/cleaning.h"
#include "supervisor/books/dirty-devices.h"
#include "supervisor/books/node-users.h"
#include "supervisor/children/manager.h"

struct start;

struct cleaning {
	struct manager *manager;
	struct dirty_devices devices;
	struct start *starts; /* of containers */
	uint64_t number;      /* of the last CHILD_CLEAN */
	uint64_t examined;    /* how often a device was, see cleaning_run_examine() */
	sd_event_source *look, *timer;
	uint64_t asked_at; /* when PodResources was asked last; CLOCK_MONOTONIC */
	bool asking;
	uint64_t kubelet_number; /* of the kubelet that has named the pods in `seen` */
	bool kubelet_names;      /* it has named any pod */
	struct log_once save_logged;
	void (*on_look)(void *userdata); /* may be NULL */
	void *userdata;
	struct node_users *node_users;
	char *asked_resource, *asked_id; /* the device that node_users was asked about */
};

/* Who has a device: see booked_users(); without pods that are known to have ended, and with claims
 * that are being prepared. */
struct usage {
	struct strings all, live;
	bool admin;
	bool unknown; /* the kubelet has no checkpoint, and PodResources has not shown that it is
			 free */
};
void usage_done(struct usage *usage);

/* Returns 0, or negative errno as booked_users(). The second one has no claims that are only being
 * prepared. */
int usage_of(const struct cleaning *cleaning, const struct dirty *dirty, struct usage *ret);
int usage_booked(const struct cleaning *cleaning, const struct dirty *dirty, struct usage *ret);

/* Whether any pod or claim has the device, or may get it at this moment. */
bool usage_is_any(const struct dirty *dirty, const struct usage *usage);

/* Adds a string, unless it is there. Returns 0 or -ENOMEM. */
int cleaning_run_add_once(struct dirty_devices *devices, struct strings *strings, const char *text);

/* Writes what has changed. Returns 0, or negative errno with the error filled; logs it. */
int cleaning_run_save(struct cleaning *cleaning, struct error *error);

/* Has everything decided again soon. */
void cleaning_run_look_soon(struct cleaning *cleaning);

/* The process that can clean devices of the resource, or NULL. */
const struct child *cleaning_run_ready_child(const struct cleaning *cleaning, const char *resource);

/* The device of an offered id of the process. */
void cleaning_run_device_of(
	const struct child *child, const char *offered, char ret[OFFERED_ID_MAX + 1]);

/* As dirty_devices_add(), of the process. A device that is dirty as one of another resource is
 * added as dirty. */
int cleaning_run_add(
	struct cleaning *cleaning, const struct child *child, const char *id, struct dirty **ret);

/* The rest of the time limit of a program that runs, in whole seconds; 0: it is not known. */
int64_t cleaning_run_seconds_left(const struct cleaning *cleaning, const struct dirty *running);

/* Begins to clean a device that no pod uses now, unless that is impossible yet. It is examined
 * before. */
void cleaning_run_begin(struct cleaning *cleaning, struct dirty *dirty);

/* Examines one of the devices that can be cleaned unless a process has it open: the one that was
 * examined longest ago. To be called after all of them were decided. */
void cleaning_run_examine(struct cleaning *cleaning);

/* Sets the reason why the device cannot be cleaned now; NULL: there is none. */
void cleaning_run_set_open(struct dirty *dirty, const char *why);

/* A pod waits for the device: it is examined in short intervals. */
void cleaning_run_hasten(struct dirty *dirty);

/* It cannot be cleaned now, and is tried again soon. */
void cleaning_run_note_delay(struct dirty *dirty);

/* Its process does not have the device, and is asked less and less often until it reports its
 * devices. */
void cleaning_run_note_absence(struct dirty *dirty);

/* The device was cleaned, or could not be. */
void cleaning_run_note_clean(struct cleaning *cleaning, struct dirty *dirty);
void cleaning_run_note_failure(struct cleaning *cleaning, struct dirty *dirty,
	const struct log_fields *fields, const char *why);
