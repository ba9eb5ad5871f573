/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The probes of a resource and their results for each unit. A unit is healthy if every probe finds
 * it healthy, and unhealthy until each probe has a result; probes of the severity "notice" do not
 * count. unit_evaluate() in drivers/inventory/device-health.c decides by all other causes first.
 */

#include <systemd/sd-event.h>

#include "common/finding.h"
#include "drivers/health/saved-state.h"
#include "drivers/host/watch.h"
#include "drivers/model/driver.h"

struct health;
struct health_unit;

/* Called when the health of a unit, its reason, or the number of failures in a row has changed;
 * `userdata` is the unit's. May not free units. */
typedef void (*health_handler)(void *userdata);

/* `declaration`, `root` and `watcher` must outlive it. */
int health_new(sd_event *event, const struct declaration *declaration, const char *root,
	struct watcher *watcher, health_handler handler, struct health **ret);

/* All units must have been freed. */
struct health *health_free(struct health *health);
DEFINE_CLEANUP(struct health *, health_free)

/* Begins to probe a device. Results that are known at once (files) are available when it returns;
 * the handler is called only for later changes. `saved` (or NULL) is the saved state of the
 * device, with which probes of the same target begin. */
int health_unit_new(struct health *health, struct device *device, size_t index,
	const struct saved_unit *saved, void *userdata, struct health_unit **ret);

/* The results for the saved state of the device: one of each probe of the declaration at most.
 * Their reasons stay the unit's. Returns how many. */
size_t health_unit_results(const struct health_unit *unit, struct saved_result *ret);

struct health_unit *health_unit_free(struct health_unit *unit);
DEFINE_CLEANUP(struct health_unit *, health_unit_free)

/* Handles a change of the device or of its place in the list. NULL: it was removed, so nothing is
 * probed and the results are kept. Ends no program that runs: the program may have changed the
 * device. The handler is not called from here. */
int health_unit_update(struct health_unit *unit, struct device *device, size_t index);

/* The result of all probes together; `ret_reason` (valid until the unit's next change, set if it is
 * false) explains an unhealthy one, which is not `known` while only results are missing. */
bool health_unit_healthy(const struct health_unit *unit, bool *ret_known, const char **ret_reason);

/* Whether a probe has found a failure, not counting notices and probes with on_recovery. */
bool health_unit_failed(const struct health_unit *unit);

/* Passes on whether the unit fails for a reason other than probes with on_recovery, and if not,
 * whether it is free to be tested. Such probes fail from then on, until their program has passed.
 * The handler is not called from here. Returns 0 or -ENOMEM. */
int health_unit_recover(struct health_unit *unit, bool failed, bool may_test);

/* Ends the failures of probes with on_recovery: their attempts are counted from 0 again, or,
 * `untested`, they count as passed. Returns whether there were any. Evaluate the unit then. */
bool health_unit_resume(struct health_unit *unit, bool untested);

/* What the probes find wrong with the unit, notices last: at most FINDINGS_MAX. Their texts are
 * valid until the unit's next change. Returns how many. */
size_t health_unit_findings(
	const struct health_unit *unit, struct finding ret[static FINDINGS_MAX]);
