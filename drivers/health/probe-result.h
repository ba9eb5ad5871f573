/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Derives the health of a unit from the results of a probe: the health changes only after as many
 * equal results in a row as the probe requires, and with recover = "never" it does not become
 * healthy again. Pure, so that this can be tested without a clock.
 */

#include "drivers/model/declaration.h"

/* Longest reason kept. */
#define REASON_MAX 240

struct probe_result {
	bool known; /* a first result was seen; it counts at once */
	bool healthy;
	unsigned streak;    /* results in a row against the current state */
	char *reason;       /* why unhealthy */
	bool could_not_run; /* unhealthy because the probe itself failed, which proves nothing */
	/* A probe with on_recovery counts failed runs in `streak`, and here how often it has ended
	 * a failure since `returned_at` (CLOCK_BOOTTIME microseconds). */
	unsigned returns;
	uint64_t returned_at;
};

/* Counts a result for the metrics; probe_result_feed() does. */
void probe_result_count(const struct declared_probe *probe, bool healthy);

/* Sets a result that counts at once; otherwise as probe_result_feed(). `reason` is NULL for a
 * healthy one. */
int probe_result_set(struct probe_result *result, const char *reason);

/* A result of a probe that could not run is unhealthy. */
enum probe_outcome { PROBE_UNHEALTHY, PROBE_HEALTHY, PROBE_NOT_RUN };

/* Takes one result; `reason` explains one that is not healthy. Returns 1 if the state or its reason
 * changed, 0 if not, -ENOMEM. */
int probe_result_feed(struct probe_result *result, const struct declared_probe *probe,
	enum probe_outcome outcome, const char *reason);
void probe_result_done(struct probe_result *result);

/* The alternative of `healthy` that the text is, or NULL. Compares as `equal` does, which returns 0
 * for such a text: strcmp(), or another comparison. */
const char *probe_find_healthy(const struct declared_probe *probe, const char *text,
	int (*equal)(const char *healthy, const char *text));

/* Copies untrusted text: cut to REASON_MAX between characters, with '?' for anything that a line of
 * UTF-8 may not have. */
void reason_copy(const char *text, char ret_reason[static REASON_MAX]);
