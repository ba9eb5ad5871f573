/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Decides when a process that does not answer is hung; its owner has the limits, and kills it. When
 * a timer fires, the messages of the process are read first: they may have waited in the socket
 * while the supervisor did not run. While they cannot be read, no process is hung. A limit that
 * fires late is set again, because the process may have been paused as well.
 */
#include "supervisor/process/process-timer.h"

static int on_timer(sd_event_source *source, uint64_t usec, void *userdata)
{
	struct process_timer *timer = userdata;
	unsigned long set = timer->set;
	bool late = now_usec(CLOCK_MONOTONIC) > usec + PROCESS_TIMER_LATE;
	bool unread = process_receive(timer->process);

	if (timer->set != set)
		return 0;
	if (timer->limit > 0 && (unread || late))
		process_timer_set(timer, timer->limit, true);
	else
		timer->on_time(timer, timer->userdata);
	return 0;
}

void process_timer_set(struct process_timer *timer, uint64_t delay, bool limit)
{
	timer->set++;
	timer->limit = limit ? delay : 0;
	if (delay == USEC_INFINITY)
		(void)sd_event_source_set_enabled(timer->source, SD_EVENT_OFF);
	else if (sd_event_source_set_time(timer->source, now_usec(CLOCK_MONOTONIC) + delay) >= 0)
		(void)sd_event_source_set_enabled(timer->source, SD_EVENT_ONESHOT);
}

int process_timer_init(struct process_timer *timer, struct process *process,
	void (*on_time)(struct process_timer *timer, void *userdata), void *userdata)
{
	int r;

	*timer = (struct process_timer){
		.process = process,
		.on_time = on_time,
		.userdata = userdata,
	};
	r = sd_event_add_time(
		process->event, &timer->source, CLOCK_MONOTONIC, 0, USEC_PER_MSEC, on_timer, timer);
	return r < 0 ? r : sd_event_source_set_enabled(timer->source, SD_EVENT_OFF);
}

void process_timer_done(struct process_timer *timer)
{
	timer->source = sd_event_source_disable_unref(timer->source);
}
