/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Decides when a child that does not answer is hung; it is killed by resource-lifecycle.c, which
 * has the limits. When a timer fires, the messages of the child are read first: they may have
 * waited in the socket while the supervisor did not run. While they cannot be read, no child is
 * hung. A limit that fires late is set again, because the child may have been paused as well.
 */
#include "supervisor/children/child-timers.h"

#define TIMER_ACCURACY USEC_PER_MSEC

static const enum resource_event events[_RESOURCE_TIMER_MAX] = {
	[RESOURCE_TIMER_STATE] = RESOURCE_TIMEOUT,
	[RESOURCE_TIMER_ANSWER] = RESOURCE_UNANSWERED,
	[RESOURCE_TIMER_WATCHDOG] = RESOURCE_SILENT,
};

static void run_until(struct child_timer *timer, uint64_t at)
{
	if (sd_event_source_set_time(timer->source, at) >= 0)
		(void)sd_event_source_set_enabled(timer->source, SD_EVENT_ONESHOT);
}

static int on_timer(sd_event_source *source, uint64_t usec, void *userdata)
{
	struct child_timer *timer = userdata;
	struct child_timers *timers = timer->timers;
	uint64_t now = now_usec(CLOCK_MONOTONIC);
	unsigned long set = timer->set;
	bool unread = timers->receive(timers->userdata);

	if (timer->set != set)
		return 0;
	if (timer->limit > 0 && (unread || now > usec + CHILD_TIMER_LATE))
		run_until(timer, now + timer->limit);
	else
		timers->fire(events[timer->kind], timers->userdata);
	return 0;
}

void child_timers_set(
	struct child_timers *timers, enum resource_timer kind, uint64_t at, bool limit)
{
	struct child_timer *timer = &timers->items[kind];
	uint64_t now = now_usec(CLOCK_MONOTONIC);

	timer->set++;
	if (at == USEC_INFINITY) {
		(void)sd_event_source_set_enabled(timer->source, SD_EVENT_OFF);
		return;
	}
	timer->limit = limit && at > now ? at - now : 0;
	run_until(timer, at);
}

int child_timers_init(struct child_timers *timers, sd_event *event, bool (*receive)(void *userdata),
	void (*fire)(enum resource_event event, void *userdata), void *userdata)
{
	*timers = (struct child_timers){
		.receive = receive,
		.fire = fire,
		.userdata = userdata,
	};
	for (unsigned kind = 0; kind < _RESOURCE_TIMER_MAX; kind++) {
		struct child_timer *timer = &timers->items[kind];
		int r;

		timer->timers = timers;
		timer->kind = (enum resource_timer)kind;
		r = sd_event_add_time(
			event, &timer->source, CLOCK_MONOTONIC, 0, TIMER_ACCURACY, on_timer, timer);
		if (r < 0)
			return r;
		(void)sd_event_source_set_enabled(timer->source, SD_EVENT_OFF);
	}
	return 0;
}

void child_timers_done(struct child_timers *timers)
{
	for (unsigned kind = 0; kind < _RESOURCE_TIMER_MAX; kind++)
		timers->items[kind].source =
			sd_event_source_disable_unref(timers->items[kind].source);
}
