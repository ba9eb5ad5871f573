/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * A timer about a process. Some limit how long the process may take to answer, in wall-clock time,
 * and one that misses the limit is killed. Such a limit must not be reached because the supervisor
 * or the whole host was paused. Therefore a limit that fires more than a second late begins again,
 * each time.
 */

#include "supervisor/process/process.h"

/* A supervisor that runs handles a timer sooner than this. One that fires later was paused. */
#define PROCESS_TIMER_LATE USEC_PER_SEC

struct process_timer {
	struct process *process;
	void (*on_time)(struct process_timer *timer, void *userdata);
	void *userdata;
	sd_event_source *source;
	unsigned long set; /* how often it was set or stopped */
	uint64_t limit;    /* microseconds; 0: the timer is not a limit */
};

/* Makes a timer, not running, so that setting it later cannot fail. Returns 0 or negative errno;
 * process_timer_done() is needed in any case. */
int process_timer_init(struct process_timer *timer, struct process *process,
	void (*on_time)(struct process_timer *timer, void *userdata), void *userdata);

/* Fires once after that time; USEC_INFINITY: not at all. `limit`: the process is killed if it does
 * not answer by then, so that the time begins again if the process is to be spared. */
void process_timer_set(struct process_timer *timer, uint64_t delay, bool limit);

void process_timer_done(struct process_timer *timer);
