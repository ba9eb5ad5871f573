/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The functions that a driver calls in list(): to add the devices that exist, and to name what it
 * read, so that a change triggers a new scan. A driver does not see the implementation
 * (scan-run.h).
 */

#include "drivers/model/condition.h"
#include "drivers/model/measurement.h"

struct cdi_files;
struct declaration;
struct scan;

/* Adds a device with that id. An id that was added before is refused with -EEXIST (and reported by
 * the core). Ids that the exclusions name are accepted and dropped later. The device belongs to the
 * scan. */
int scan_add(struct scan *scan, const char *id, struct device **ret_device);

/* Notes that a device has a node that others may have, too. Returns 0, 1 with the device that had
 * it first, or -ENOMEM. */
int scan_take_node(struct scan *scan, const char *node, const struct device *device,
	const struct device **ret_first);

/* Removes the device that was added last. */
void scan_drop_last(struct scan *scan);

/* Scans again when entries of the directory (a host path) are added, removed or changed. A
 * directory that does not exist is watched through its nearest existing parent. */
int scan_watch(struct scan *scan, const char *directory);

/* The same, for the directory that a path is in. */
int scan_watch_parent(struct scan *scan, const char *path);

/* As scan_watch(), and also scans when files in the directory are written. */
int scan_watch_content(struct scan *scan, const char *directory);

/* The CDI files of the directories that the resource configures, or of the usual ones. They are
 * read and watched once in a scan, so that all of it sees the same files. They belong to the scan.
 * Returns 0 or -ENOMEM. */
int scan_cdi(
	struct scan *scan, const struct declaration *declaration, const struct cdi_files **ret);

/* Scans again when udev or the kernel report that a device of the subsystem ("pci"), or any device
 * with NULL, was added, removed or changed. Events are those of the real host, also under another
 * root. */
int scan_events(struct scan *scan, const char *subsystem);

/* Scans again when the host's default routes, or the bridge or bond of an interface, may have
 * changed. Events are those of this process's network namespace. */
int scan_network(struct scan *scan);

/* Whether the resource lists a device of that id, for drivers whose names depend on earlier scans:
 * one that an earlier scan found and that is still listed, or that the previous process found for
 * the same declaration. In the second case, only the id is known, and `ret_device` is NULL, as it
 * is if the device is not listed. */
bool scan_lists(const struct scan *scan, const char *id, const struct device **ret_device);

/* Whether the kubelet has booked that id, or a replica of it. A pod keeps an id, so after a boot
 * the bookings decide which of several equal devices has which id. */
bool scan_is_booked(const struct scan *scan, const char *id);

/* The directory that stands for "/" (normally an empty string), a prefix for every path that is
 * opened. */
const char *scan_root(const struct scan *scan);

/* The return value of start(); NULL where the host is only listed (devplugctl discover). */
void *scan_state(const struct scan *scan);

/* Adds a number for metrics; calls for one device, and for one name of it, follow each other.
 * `name` is a literal, `code` as in struct measurement. Returns 0 or -ENOMEM. */
int scan_measure(
	struct scan *scan, const char *device, const char *name, unsigned code, uint64_t value);

/* Marks the scan as incomplete: some devices are not known yet, so the saved health state of
 * missing devices is kept. */
void scan_incomplete(struct scan *scan);

/* Adds a note about a problem that does not stop the scan (a directory that may not be read). The
 * core logs each note once for as long as the problem lasts. */
_printf_(2, 3) void scan_note(struct scan *scan, const char *format, ...);

/* Adds a note that a directory of the host is absent and what follows from that, as a clause. In a
 * container it is most likely not mounted. */
void scan_note_absent(struct scan *scan, const char *directory, const char *consequence);

/* The tally of an entry of `match`, for conditions_hold() with these conditions. Valid until the
 * next call; NULL if memory is short, and then the entry is not explained. */
struct tally *scan_tally(struct scan *scan, size_t entry, const struct conditions *conditions);

/* Whether an entry of `exclude` with `match` leaves out a candidate that an entry of `match` has
 * selected. To be called for each piece of hardware, before several are joined into one device.
 * `key` differs from that of every other candidate, so that each is counted once.
 * Returns 1, also while it is unknown because the kernel has locked what a condition is about, 0,
 * or negative errno of a condition. */
int scan_excludes(struct scan *scan, const struct declaration *declaration,
	const struct conditions *conditions, void *candidate, const char *name, const char *key);

/* Adds to the tally of an entry why there is no candidate, as a clause. Only the first one counts.
 */
_printf_(3, 4) void scan_hint(struct scan *scan, size_t entry, const char *format, ...);

/* Adds the reason why hardware is left out although it is there, as a clause: shown if it was
 * listed until now. `name` is the last part of its directory in /sys. Refusals of conditions_hold()
 * are added by that function. */
_printf_(3, 4) void scan_leave_out(struct scan *scan, const char *name, const char *format, ...);

/* Adds an explanation of what the configuration does not find. It is logged as a notice, unlike a
 * problem, and a caller that tries out what it does not know (devplugctl discover) ignores it. */
_printf_(2, 3) void scan_explain(struct scan *scan, const char *format, ...);

/* Explains what it costs that the ids of `count` devices of an entry are names with a number of the
 * kernel. `first` is the name of one of them; a count of 0 needs no explanation. */
void scan_explain_numbers(struct scan *scan, size_t entry, const char *first, size_t count);
