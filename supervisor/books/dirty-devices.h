/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Inside of cleaning: the devices that pods have had since they were clean, saved in the file
 * dirty-devices.json below $STATE_DIRECTORY, or below runtime_dir without it.
 */

#include "common/error.h"
#include "drivers/model/option.h"

/* Maximum number of devices of one resource; no more can be allocated. */
#define DIRTY_DEVICES_MAX 1024

struct dirty {
	char *resource, *id;
	bool clean; /* it is, and kept for `ended` only */
	/* Uids of pods, and of claims as in booked_users(): */
	struct strings users; /* that have had it since it was clean; empty: one that is not known
				 yet */
	struct strings ended; /* that have ended, while the kubelet's checkpoint contains them */
	char *failure;        /* why it could not be cleaned; NULL: it could, or was not tried */
	/* Not saved; times are of CLOCK_MONOTONIC. */
	bool unnamed;             /* PodResources names no pod with it */
	struct strings seen;      /* pods that PodResources of this kubelet has named with it;
				     written for people, and not read again */
	uint64_t taken_at;        /* when it was allocated, until the checkpoint shows it; 0: not */
	struct strings preparing; /* claims that are being prepared with it, as in `users` */
	uint64_t number;          /* of CHILD_CLEAN, while it is cleaned; 0: it is not */
	uint64_t since;           /* when that began */
	uint64_t again;           /* not before */
	unsigned absent;          /* how often its process did not have it since it changed */
	unsigned held;      /* how often it was in use for the same reason, and no pod waited */
	uint64_t due_at;    /* since when it waits to be cleaned; 0: it does not */
	bool examine;       /* see cleaning_run_examine() */
	uint64_t examined;  /* the number of the last time that it was; 0: never */
	uint64_t unused_at; /* when no process had its nodes open; 0: never */
	char *open;         /* why it waits: a process has it open; NULL: none is known */
};

struct dirty_devices {
	char *path;
	struct dirty **items;
	size_t count;
	bool unsaved; /* they have changed */
	bool open;    /* see dirty_devices_open() */
	bool lost;    /* the file could not be read once. It never ends, as `incomplete` */
	struct strings incomplete; /* resources a device of which was forgotten to make room. It
				      never ends, because any device may be one that has been
				      unplugged since */
};

/* Reads the file; one that is missing names no device, and one that is invalid is logged. Returns 0
 * or -ENOMEM. */
int dirty_devices_load(struct dirty_devices *devices, const char *runtime_dir);

/* Writes the file if anything has changed. Returns 0 or negative errno; then it is still to be
 * written. */
int dirty_devices_save(struct dirty_devices *devices);

/* Notes on the disk that the file may be older than what is true, if the host crashes: other writes
 * are not synced, because Allocate would have to wait for them. A file of another boot that was not
 * closed counts as one that could not be read. The second one is for the stop. Return 0 or negative
 * errno. */
int dirty_devices_open(struct dirty_devices *devices);
int dirty_devices_close(struct dirty_devices *devices);

struct dirty *dirty_devices_find(
	const struct dirty_devices *devices, const char *resource, const char *id);

/* The one that is cleaned now as a device of any resource, or NULL. */
struct dirty *dirty_devices_find_running(const struct dirty_devices *devices, const char *id);

/* Whether a device of the resource that is not among these may be dirty. Then clean ones stay. */
bool dirty_devices_incomplete(const struct dirty_devices *devices, const char *resource);

/* Finds it, or adds it: as clean, or as dirty with an unknown user, if the resource's list is
 * incomplete. If the resource has DIRTY_DEVICES_MAX, one that no pod has is forgotten. Returns 0,
 * -ENOMEM, -EINVAL for an id that is not UTF-8, or -ENOSPC: pods have all of them, or they are
 * being cleaned, or could not be. */
int dirty_devices_add(
	struct dirty_devices *devices, const char *resource, const char *id, struct dirty **ret);

void dirty_devices_remove(struct dirty_devices *devices, struct dirty *dirty);

/* The device was cleaned: removes what other resources have noted about it, unless they clean it
 * now, or a pod uses it, or may get it. */
void dirty_devices_remove_elsewhere(struct dirty_devices *devices, const struct dirty *dirty);

/* Frees all. */
void dirty_devices_done(struct dirty_devices *devices);
