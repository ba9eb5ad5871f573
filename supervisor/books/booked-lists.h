/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Inside of booked: its data, which booked.c reads and sends, booked-lists.c makes into lists, and
 * booked-forget.c changes on request.
 */

#include <sys/stat.h>
#include <systemd/sd-event.h>

#include "common/log.h"
#include "common/pace.h"
#include "supervisor/books/booked.h"
#include "supervisor/books/dra-claims.h"
#include "supervisor/books/pod-directories.h"
#include "supervisor/books/pod-resources.h"
#include "supervisor/children/manager.h"
#include "supervisor/kubelet/kubelet-checkpoint.h"
#include "supervisor/ownership/arbiter.h"

/* A booking that counts as none, see forget_request(). */
struct forgotten {
	char *resource, *id;
	char *pod_uid; /* as the checkpoint had it; "": it did not */
	bool seen;     /* in the current data */
};

struct file_identity {
	dev_t device;
	ino_t inode;
	off_t size;
	struct timespec modified;
};

struct booked {
	struct manager *manager;

	struct kubelet_checkpoint *checkpoint; /* NULL: there is none, or it cannot be read */
	int problem;                           /* why; -ENOENT: there is none */
	uint64_t written_at;                   /* CLOCK_MONOTONIC; 0: no checkpoint, or not known */
	uint64_t kubelet_number;               /* of the kubelet that kubelet_restarted is about */
	uint64_t kubelet_restarted;            /* see CHILD_BOOKED */
	struct file_identity identity;
	struct log_once checkpoint_logged; /* failures to read it */
	struct pace reading;
	sd_event_source *read_timer;

	struct pod_table *pods; /* the last answer, while one is needed; NULL: none */
	sd_event_source *timer;
	uint64_t asked_at;           /* when the last question was sent */
	bool waiting;                /* the timer is set, or an answer is awaited */
	struct log_once pods_logged; /* failures to get it */

	struct booked_observer observer;

	struct forgotten *forgotten;
	size_t n_forgotten;

	struct pod_directories *directories;
	bool all_seen;         /* see pod_directories_look() */
	uint64_t foreign_hash; /* of the bookings that the arbiter has of other names */
};

/* To be called when new data were read: drops forgotten bookings that the data no longer contain.
 */
void booked_lists_drop_forgotten(struct booked *booked);
void forgotten_done(struct forgotten *forgotten);

/* Whether the booking counts as none; `pod_uid` NULL: of any pod. */
bool booked_lists_is_forgotten(
	const struct booked *booked, const char *resource, const char *id, const char *pod_uid);

/* As dra_claims_of(), also without DRA. */
json_t *booked_lists_claims_of(const struct booked *booked, const char *resource);

/* Collect the bookings of a resource, or of all names that no resource has. Return 0 or -ENOMEM. */
int booked_lists_collect(const struct booked *booked, const char *resource, struct bookings **ret);
int booked_lists_collect_foreign(
	const struct booked *booked, struct foreign_bookings **ret, size_t *ret_n);
