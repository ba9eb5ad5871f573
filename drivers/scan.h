/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * One run of a driver's list(): what it found, which directories it looked at, and what it could
 * not see. The driver's view of it is in driver.h.
 */

#include "drivers/driver.h"
#include "drivers/map.h"
#include "drivers/uevent.h"
#include "drivers/watch.h"

/* Sentences kept of one scan; more would say the same. */
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

	struct device **devices;
	size_t n_devices;
	struct map by_id;
	struct watch **watches;
	size_t n_watches;
	struct map watched; /* directory to its name in watched_names */
	struct strings watched_names;
	int watch_error;  /* why some directory is not watched, 0: all are */
	int events_error; /* why events are not received, 0: they are */
	struct strings notes;
};

void scan_done(struct scan *scan);
#define _cleanup_scan_ _cleanup_(scan_done)

/* Orders the devices by id. */
void scan_sort(struct scan *scan);
