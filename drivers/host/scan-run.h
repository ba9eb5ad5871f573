/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Inside of scan: one run of a driver's list(), with the devices found, the directories read, and
 * the failures. The driver's interface to it is scan.h.
 */

#include "common/map.h"
#include "drivers/host/cdi-lookup.h"
#include "drivers/host/scan.h"
#include "drivers/host/uevent.h"
#include "drivers/host/watch.h"
#include "drivers/model/bookings.h"

/* Maximum number of notes kept of one scan; more would repeat the same. */
#define SCAN_NOTES_MAX 32

struct scan {
	const char *root;
	void *state;             /* the driver's */
	bool incomplete;         /* more devices will be known later */
	struct watcher *watcher; /* NULL: nothing is watched */
	watch_handler on_change;
	void *userdata;
	struct uevents *uevents; /* NULL: no events are listened for */
	/* See scan_lists(); NULL: nothing is listed. */
	bool (*lists)(const void *userdata, const char *id, const struct device **ret_device);
	const struct bookings *booked; /* see scan_is_booked(); NULL: none */

	struct device **devices;
	size_t n_devices;
	struct map by_id;
	struct map taken; /* nodes to their devices, see scan_take_node() */
	struct strings taken_names;
	struct watch **watches;
	size_t n_watches;
	/* Directory to its name in watched_names. */
	struct map watched, watched_content;
	struct strings watched_names;
	struct cdi_files cdi;
	bool cdi_read;    /* see scan_cdi() */
	int watch_error;  /* why some directory is not watched, 0: all are */
	int events_error; /* why events are not received, 0: they are */
	struct strings notes, explanations;
	struct tally *tallies; /* by the number of the entry */
	size_t n_tallies;
	struct tally *exclusions; /* of all entries of `match` in `exclude`, in their order */
	size_t n_exclusions;
	struct map counted; /* candidates in `exclusions`, by the entry's number and their keys */
	struct strings counted_keys;
	struct left_out left_out;
	struct measurements measurements;
};

void scan_done(struct scan *scan);
#define _cleanup_scan_ _cleanup_(scan_done)

/* Orders the devices by id. */
void scan_sort(struct scan *scan);
