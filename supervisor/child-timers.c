/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Decides when a child that does not answer is hung, without counting the time in which it could
 * not run; it is killed by resource-lifecycle.c, which has the limits of other answers. When a
 * timer fires, the messages of the child are read first: they may have waited in the socket while
 * the supervisor did not run. While they cannot be read, no child is hung. Descriptors from the
 * child are read only if they are the child's own /proc/PID/schedstat and /proc/PID/stat, because
 * reading any other file could block.
 */
#include <fcntl.h>
#include <linux/magic.h>
#include <sys/vfs.h>

#include "supervisor/child-timers.h"

#define TIMER_ACCURACY USEC_PER_MSEC

static const struct {
	enum resource_event event;
	uint64_t patience;
} kinds[_RESOURCE_TIMER_MAX] = {
	[RESOURCE_TIMER_STATE] = { RESOURCE_TIMEOUT, 4 * USEC_PER_SEC },
	[RESOURCE_TIMER_ANSWER] = { RESOURCE_UNANSWERED, 20 * USEC_PER_SEC },
	[RESOURCE_TIMER_WATCHDOG] = { RESOURCE_SILENT, 4 * USEC_PER_SEC },
};

/* --- what the kernel knows about the child --- */

static bool is_own(int fd, const char *name, pid_t pid)
{
	char link[64], path[64], expected[64];
	struct statfs st;
	ssize_t n;

	(void)snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
	(void)snprintf(expected, sizeof(expected), "/proc/%d/%s", (int)pid, name);
	n = readlink(link, path, sizeof(path) - 1);
	path[MAX_OF(n, 0)] = '\0';
	return streq(path, expected) && fstatfs(fd, &st) >= 0 && st.f_type == PROC_SUPER_MAGIC;
}

bool child_timers_take_proc(struct child_timers *timers, int fds[static 2], pid_t pid)
{
	if (timers->started)
		return false;
	timers->started = true;
	if (is_own(fds[0], "schedstat", pid) && is_own(fds[1], "stat", pid)) {
		timers->schedstat_fd = TAKE_FD(fds[0]);
		timers->stat_fd = TAKE_FD(fds[1]);
	}
	return true;
}

static bool read_text(int fd, char *text, size_t size)
{
	ssize_t n = pread(fd, text, size - 1, 0);

	text[MAX_OF(n, 0)] = '\0';
	return n > 0;
}

/* The name in parentheses may contain anything. */
static bool is_ready_to_run(int stat_fd)
{
	char text[256];
	const char *state = read_text(stat_fd, text, sizeof(text)) ? strrchr(text, ')') : NULL;

	return state && startswith(state, ") R");
}

/* For how long the child was ready to run but did not; 0 if it is not known. */
static uint64_t starved_usec(struct child_timers *timers)
{
	unsigned long long ran, waited;
	char text[128];

	if (timers->schedstat_fd < 0 || !read_text(timers->schedstat_fd, text, sizeof(text)) ||
		sscanf(text, "%llu %llu", &ran, &waited) != 2)
		return 0;
	return starvation_step(&timers->starvation, now_usec(CLOCK_MONOTONIC), ran, waited,
		is_ready_to_run(timers->stat_fd));
}

uint64_t starvation_step(
	struct starvation *starvation, uint64_t now, uint64_t ran, uint64_t waited, bool is_ready)
{
	bool goes_on = is_ready && ran == starvation->ran && waited == starvation->waited;

	starvation->ran = ran;
	starvation->waited = waited;
	if (!is_ready)
		starvation->since = 0;
	else if (!goes_on || starvation->since == 0)
		starvation->since = now;
	return waited / 1000 + (starvation->since > 0 ? now - starvation->since : 0);
}

/* --- patience --- */

bool patience_step(struct patience *patience, uint64_t now, uint64_t starved)
{
	uint64_t spared = starved > patience->starved ? starved - patience->starved : 0;

	if (patience->checked != 0)
		patience->counted += MIN_OF(now - patience->checked, 2 * CHILD_TIMER_STEP);
	patience->checked = now;
	return patience->counted >= patience->limit + spared;
}

/* --- the timers --- */

static void run_until(struct child_timer *timer, uint64_t at)
{
	if (sd_event_source_set_time(timer->source, at) >= 0)
		(void)sd_event_source_set_enabled(timer->source, SD_EVENT_ONESHOT);
}

static int on_timer(sd_event_source *source, uint64_t usec, void *userdata)
{
	struct child_timer *timer = userdata;
	struct child_timers *timers = timer->timers;
	unsigned long set = timer->set;
	bool unread = timers->receive(timers->userdata);
	uint64_t now;

	if (timer->set != set)
		return 0;
	now = now_usec(CLOCK_MONOTONIC);
	/* The answer may be among what cannot be read, so that time does not count. */
	if (unread)
		timer->patience.checked = 0;
	if (timer->patience.limit > 0 &&
		(unread || !patience_step(&timer->patience, now, starved_usec(timers))))
		run_until(timer, now + CHILD_TIMER_STEP);
	else
		timers->fire(kinds[timer->kind].event, timers->userdata);
	return 0;
}

void child_timers_set(
	struct child_timers *timers, enum resource_timer kind, uint64_t at, bool limit)
{
	struct child_timer *timer = &timers->items[kind];

	timer->set++;
	timer->patience = (struct patience){ 0 };
	if (at == USEC_INFINITY) {
		(void)sd_event_source_set_enabled(timer->source, SD_EVENT_OFF);
		return;
	}
	if (limit) {
		timer->patience.limit = kinds[kind].patience;
		timer->patience.starved = starved_usec(timers);
		at -= MIN_OF(kinds[kind].patience, at);
	}
	run_until(timer, at);
}

int child_timers_init(struct child_timers *timers, sd_event *event, bool (*receive)(void *userdata),
	void (*fire)(enum resource_event event, void *userdata), void *userdata)
{
	*timers = (struct child_timers){
		.schedstat_fd = -EBADF,
		.stat_fd = -EBADF,
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

void child_timers_end_process(struct child_timers *timers)
{
	timers->schedstat_fd = close_fd(timers->schedstat_fd);
	timers->stat_fd = close_fd(timers->stat_fd);
	timers->starvation = (struct starvation){ 0 };
	timers->started = false;
}

void child_timers_done(struct child_timers *timers)
{
	child_timers_end_process(timers);
	for (unsigned kind = 0; kind < _RESOURCE_TIMER_MAX; kind++)
		timers->items[kind].source =
			sd_event_source_disable_unref(timers->items[kind].source);
}
