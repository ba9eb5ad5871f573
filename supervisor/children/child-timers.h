/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The timers of a resource. Some limit how long a child may take to answer, in wall-clock time, and
 * a child that misses the limit is killed. Such a limit must not be reached because the supervisor
 * or the whole host was paused. Therefore a limit that fires more than a second late begins again,
 * each time.
 */

#include <systemd/sd-event.h>

#include "supervisor/children/resource.h"

/* A supervisor that runs handles a timer sooner than this. One that fires later was paused. */
#define CHILD_TIMER_LATE USEC_PER_SEC

struct child_timer {
	struct child_timers *timers;
	enum resource_timer kind;
	sd_event_source *source;
	unsigned long set; /* how often it was set or stopped */
	uint64_t limit;    /* microseconds; 0: the timer is not a limit */
};

struct child_timers {
	struct child_timer items[_RESOURCE_TIMER_MAX];
	/* Reads the messages of the child that wait. Returns whether some cannot be read now. */
	bool (*receive)(void *userdata);
	void (*fire)(enum resource_event event, void *userdata);
	void *userdata;
};

/* Makes all timers of a child, not running, so that setting one later cannot fail. Returns 0 or
 * negative errno; child_timers_done() is needed in any case. */
int child_timers_init(struct child_timers *timers, sd_event *event, bool (*receive)(void *userdata),
	void (*fire)(enum resource_event event, void *userdata), void *userdata);

void child_timers_done(struct child_timers *timers);

/* Fires once at that CLOCK_MONOTONIC time; USEC_INFINITY: not at all. `limit`: the child is killed
 * if it does not answer by then, so that the time begins again if the child is to be spared. */
void child_timers_set(
	struct child_timers *timers, enum resource_timer kind, uint64_t at, bool limit);
