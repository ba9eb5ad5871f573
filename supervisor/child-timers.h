/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The timers of a resource. Some limit how long a child may take to answer, and a child that misses
 * the limit is killed. Such a limit must not be reached because the supervisor or the whole host
 * was paused, or because the child waited for a processor. Therefore the last seconds of
 * each limit are counted in small steps, without the time in which the child could not run.
 */

#include <systemd/sd-event.h>

#include "supervisor/resource.h"

/* How often a limit is checked during its last part. A longer pause between two checks is the
 * supervisor's own, and counts as two steps. */
#define CHILD_TIMER_STEP (500 * USEC_PER_MSEC)

/* How much of a limit has been used up. All times in microseconds. */
struct patience {
	uint64_t limit;   /* of the part that is measured in steps; 0: the timer is not a limit */
	uint64_t starved; /* how long the child had waited for a processor by then, see
			     starvation_step() */
	uint64_t checked; /* CLOCK_MONOTONIC of the last check; 0: none yet */
	uint64_t counted; /* what the steps so far amount to */
};

/* How long a child has waited for a processor. The kernel counts a wait when it ends, so the
 * current one is measured here: the child is ready to run, and neither has run nor waited since the
 * last sample. */
struct starvation {
	uint64_t ran, waited; /* as the kernel had them last; nanoseconds */
	uint64_t since;       /* CLOCK_MONOTONIC of the wait that goes on; 0: none */
};

struct child_timer {
	struct child_timers *timers;
	enum resource_timer kind;
	sd_event_source *source;
	unsigned long set; /* how often it was set or stopped */
	struct patience patience;
};

struct child_timers {
	struct child_timer items[_RESOURCE_TIMER_MAX];
	bool started;              /* child_timers_take_proc() was called for this process */
	int schedstat_fd, stat_fd; /* see there, or -EBADF */
	struct starvation starvation;
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
 * if it does not answer by then, so that it fires later if the child is to be spared. */
void child_timers_set(
	struct child_timers *timers, enum resource_timer kind, uint64_t at, bool limit);

/* Counts a step. `starved`: how long the child has waited for a processor in all. Returns whether
 * the limit is used up. */
bool patience_step(struct patience *patience, uint64_t now, uint64_t starved);

/* Takes the kernel's counters of the child: nanoseconds that it has run and waited, and whether it
 * is ready to run. Returns for how many microseconds it has waited in total. */
uint64_t starvation_step(
	struct starvation *starvation, uint64_t now, uint64_t ran, uint64_t waited, bool is_ready);

/* Takes the descriptors of /proc/PID/schedstat and /proc/PID/stat that the child passes, and sets
 * both elements of the array to -EBADF. Leaves any others to the caller. Returns whether it was the
 * first call for this process. */
bool child_timers_take_proc(struct child_timers *timers, int fds[static 2], pid_t pid);

/* The process has ended. */
void child_timers_end_process(struct child_timers *timers);
