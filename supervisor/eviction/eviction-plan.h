/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Decides when the pods of failed devices of one resource are evicted, and when that is held. Pure:
 * it knows neither a clock nor pods. Times are CLOCK_BOOTTIME microseconds, so they are valid after
 * a restart of devplugd and not after a reboot.
 */

#include <jansson.h>

#include "common/util.h"

/* No failure that begins so soon after a change of the configuration is acted on. */
#define EVICTION_SETTLING (600 * USEC_PER_SEC)
/* The time in which at most half of the devices may be hit. */
#define EVICTION_WINDOW (3600 * USEC_PER_SEC)

enum eviction_state {
	EVICTION_WAITING, /* until `evict_after` is over */
	EVICTION_HELD,    /* until the device recovers, or an administrator confirms */
	EVICTION_ACTIVE,  /* its pods are evicted */
	_EVICTION_STATE_MAX,
};
/* Their names in documents. */
extern const char *const eviction_states[_EVICTION_STATE_MAX];

enum eviction_hold {
	EVICTION_HOLD_NONE,
	EVICTION_HOLD_NOT_RUN,       /* the probe could not run */
	EVICTION_HOLD_CONFIGURATION, /* the configuration has changed */
	EVICTION_HOLD_MANY,          /* too many devices would be hit */
	_EVICTION_HOLD_MAX,
};
extern const char *const eviction_holds[_EVICTION_HOLD_MAX];
/* Why, for people. */
extern const char *const eviction_hold_texts[_EVICTION_HOLD_MAX];

/* A failure as it is reported; there is one for each device. */
struct eviction_report {
	const char *device, *text;
	uint64_t evict_after; /* microseconds */
	bool could_not_run;   /* the probe itself failed */
};

struct eviction_failure {
	char *device, *text;
	uint64_t since;
	uint64_t evict_after;
	bool could_not_run;
	bool confirmed; /* an administrator wants the eviction although it was held */
	enum eviction_state state;
	enum eviction_hold hold; /* of EVICTION_HELD */
	uint64_t begun;          /* of EVICTION_HELD and EVICTION_ACTIVE: since when */
};

struct eviction_hit {
	char *device;
	uint64_t at;
};

struct eviction_plan {
	struct eviction_failure *failures;
	size_t n_failures;
	struct eviction_hit *hits; /* devices whose pods were evicted within EVICTION_WINDOW */
	size_t n_hits;
	uint64_t n_devices, n_failing; /* of the resource; the second may be more than n_failures */
	uint64_t configuration;        /* a hash; 0: none yet */
	uint64_t changed_at;           /* when it changed */
};

/* Takes a hash of the configuration that decides about failures. Returns whether it has changed. */
bool eviction_plan_configure(struct eviction_plan *plan, uint64_t hash, uint64_t now);

/* Takes all failures that there are now: failures that are not among them have ended. Returns 0 or
 * -ENOMEM; then some are missing. */
int eviction_plan_take(struct eviction_plan *plan, const struct eviction_report *reports, size_t n,
	uint64_t n_devices, uint64_t n_failing, uint64_t now);

/* Called for each failure whose state has changed. */
typedef void (*eviction_handler)(const struct eviction_failure *failure, void *userdata);

/* Decides about all failures. Returns when to decide again, or USEC_INFINITY. */
uint64_t eviction_plan_run(
	struct eviction_plan *plan, uint64_t now, eviction_handler on_change, void *userdata);

/* Confirms all failures that are held. Returns how many. */
size_t eviction_plan_confirm(struct eviction_plan *plan);

/* How many failures are in a state. */
size_t eviction_plan_count(const struct eviction_plan *plan, enum eviction_state state);
const struct eviction_failure *eviction_plan_find(
	const struct eviction_plan *plan, const char *device);

/* What has become of a failure that is held or active, for people; cut to the size. */
void eviction_plan_text(
	const struct eviction_failure *failure, const char *resource, char *ret, size_t size);

/* The plan as JSON, a new reference, NULL: no memory; and back. Reading returns 0, or -EBADMSG or
 * -ENOMEM, and then the plan is empty. */
json_t *eviction_plan_save(const struct eviction_plan *plan);
int eviction_plan_load(const json_t *saved, uint64_t now, struct eviction_plan *ret);

/* Frees the members of the plan, not the plan itself. */
void eviction_plan_done(struct eviction_plan *plan);
