/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Problems and explanations of a resource's scans, for the log and for `devplugctl explain`. Each
 * is logged when it begins, and not again while it lasts or alternates with others. The end of a
 * failure to scan is logged, too.
 */

#include "common/log.h"
#include "drivers/host/scan-run.h"

struct scan_notes {
	struct strings notes;     /* of the last good scan */
	char *failure;            /* of the last scan; NULL: it went well */
	bool watches_missing;     /* changes of directories are not reported */
	bool events_missing;      /* nor those of devices, so scans run at intervals */
	struct log_fields fields; /* of what is logged */
	struct log_once logged_notes, logged_failures;
};

/* Takes over the notes of a successful scan, followed by its explanations. Returns whether they
 * differ from the last notes. */
bool scan_notes_take(struct scan_notes *notes, struct scan *scan);

/* Notes what a successful scan could not watch. `interval` is the time between scans in that case,
 * in microseconds. */
void scan_notes_take_missing(struct scan_notes *notes, const struct scan *scan, uint64_t interval);

/* Records the result of a scan: `error` NULL means success. Returns whether it has changed. */
bool scan_notes_take_end(struct scan_notes *notes, const struct error *error);

void scan_notes_done(struct scan_notes *notes);
