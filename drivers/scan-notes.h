/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * What scans of one resource could not do, for the log and for `devplugctl explain`. A trouble is
 * logged when it comes, and not again while it lasts; that a scan fails is also logged when it
 * ends.
 */

#include "common/log.h"
#include "drivers/scan.h"

struct scan_notes {
	struct strings notes;     /* of the last good scan */
	char *failure;            /* of the last scan; NULL: it went well */
	bool watches_missing;     /* changes of directories are not told, */
	bool events_missing;      /* nor those of devices, so one must look from time to time */
	struct log_fields fields; /* of what is logged */
};

/* Takes over the notes of a good scan. Returns whether they differ from the last one's. */
bool scan_notes_take(struct scan_notes *notes, struct scan *scan);

/* Takes what a good scan could not have watched. `interval` is how often one looks instead, in
 * microseconds. */
void scan_notes_take_missing(struct scan_notes *notes, const struct scan *scan, uint64_t interval);

/* Takes how a scan ended: `error` NULL is well. Returns whether that has changed. */
bool scan_notes_take_end(struct scan_notes *notes, const struct error *error);

void scan_notes_done(struct scan_notes *notes);
