/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The contract of a driver: a const table that says which keys a match entry has and how the host
 * is scanned for devices. A driver returns the truth about what exists now; health, sharing,
 * templates, allocation, preference and the protocol are the core's, so that every driver has all
 * of them.
 */

#include <systemd/sd-event.h>

#include "common/error.h"
#include "drivers/declaration.h"
#include "drivers/device.h"

struct scan;

/* A template variable that a driver gives every device it can; the value is the device's variable
 * of that name. */
struct driver_variable {
	const char *name;
	const char *help; /* one sentence for the manual */
};

/* What a driver with a state is given. */
struct driver_context {
	sd_event *event;
	const struct declaration *declaration;
	const char *root; /* as scan_root() */
	/* Has the core scan again soon. */
	void (*changed)(void *userdata);
	void *userdata;
};

struct driver {
	const char *name;                 /* what `driver =` says */
	const char *summary;              /* one line for the manual */
	const struct option_table *match; /* keys of one entry of `match` */

	/* What the driver adds to the variables of the core; the last has no name. NULL: none. One
	 * that takes an argument is listed with its name, "property:NAME"; devices have it under
	 * each argument they have a value for ("property:serial"). */
	const struct driver_variable *variables;

	/* What a device is called depends on what is listed (scan_lists()), so the next process has
	 * to know it. */
	bool names_by_list;

	/* Checks a declaration without touching the host: combinations of keys, limits, patterns.
	 * Adds to the report. Returns 0 or -EINVAL. */
	int (*check)(const struct declaration *declaration, struct report *report);

	/* Names what the declaration claims by itself, without looking at the host: a static id or
	 * a literal path. Two resources (or two entries) with the same claim are a configuration
	 * error unless both set overlap. Returns 0 or -ENOMEM. NULL: nothing can be told. */
	int (*claims)(const struct declaration *declaration, struct strings *ret_claims);

	/* For a driver that learns of devices between scans, from programs or a library: called
	 * once, before the first list(). `previous` is the state of the inventory that this one
	 * takes the place of, NULL if there is none: what was found there may be taken over, but it
	 * works on until it is stopped, and for good if this inventory comes to nothing; so nothing
	 * that the two could quarrel about begins before the event loop runs again. Returns 0 or
	 * negative errno with the error filled. NULL: the driver has no state. */
	int (*start)(const struct driver_context *context, const void *previous, void **ret_state,
		struct error *error);
	/* Ends what start() began. Returns NULL. */
	void *(*stop)(void *state);

	/* Finds all devices that exist now and adds them with scan_add(). Before it reads a
	 * directory it names it with scan_watch(), and before it asks the kernel for devices their
	 * subsystem with scan_events(), so that no change is lost between reading and watching. A
	 * failure keeps the last good inventory. Returns 0 or negative errno with the
	 * error filled. */
	int (*list)(const struct declaration *declaration, struct scan *scan, struct error *error);

	/* For a driver whose entries of `match` may name a program that is asked what a container
	 * is given for their devices (allocation-inquiry.h): that of an entry, NULL if it has none.
	 * list() then tells of each device by which entry it was found. Called on any thread. NULL:
	 * no program is ever asked. */
	const struct allocate_program *(*allocate)(
		const struct declaration *declaration, size_t entry);
};

/* The driver of that name, or NULL. */
const struct driver *driver_find(const char *name);

/* All drivers, NULL-terminated, in the manual's order. */
extern const struct driver *const drivers[];

extern const struct driver drm_driver;
extern const struct driver net_driver;
extern const struct driver path_driver;
extern const struct driver pci_driver;
extern const struct driver rdma_driver;
extern const struct driver static_driver;
extern const struct driver exec_driver;
extern const struct driver sysfs_driver;
extern const struct driver usb_driver;

/* --- what a driver calls during list() --- */

/* Adds a device with that id. Duplicates of an id already added are refused with -EEXIST (and
 * reported by the core), ids the exclusions name are accepted and later dropped. The device belongs
 * to the scan. */
int scan_add(struct scan *scan, const char *id, struct device **ret_device);

/* Has the core scan again when entries of the directory (a host path) come, go or change. A
 * directory that does not exist is watched through its nearest existing parent. */
int scan_watch(struct scan *scan, const char *directory);

/* Has the core scan again when a device of the subsystem ("pci") comes, goes or changes, as udev or
 * the kernel tell it. The whole host's events are meant, whatever the root is. */
int scan_events(struct scan *scan, const char *subsystem);

/* Whether the resource lists a device of that id, for drivers whose names depend on what was there
 * first: one that an earlier scan found and that has not been forgotten since, or that the process
 * before had found for the same declaration, of which only the id is known then and `ret_device` is
 * NULL. */
bool scan_lists(const struct scan *scan, const char *id, const struct device **ret_device);

/* The directory that stands for "/" (normally an empty string), to be put before every path opened.
 */
const char *scan_root(const struct scan *scan);

/* What start() returned; NULL where only the host is looked at (devplugctl discover). */
void *scan_state(const struct scan *scan);

/* Says that some devices are not known yet: what is remembered of devices is kept for them. */
void scan_incomplete(struct scan *scan);

/* Keeps a sentence about something that does not stop the scan (a directory that may not be read).
 * The core logs each once for as long as it is true. */
_printf_(2, 3) void scan_note(struct scan *scan, const char *format, ...);
