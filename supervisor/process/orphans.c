/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reaps and kills processes that a child or a program left behind. It runs after everything else,
 * so a watched child has been reaped by its own handler. If one has not, the rest waits for the
 * next signal. Each process that is killed here causes one more signal, by which time its own
 * children have become ours. A timer limits the rate, not sd-event's limit for the signal, which
 * closes its descriptor: a forked process that still has it makes epoll report it, and sd-event
 * aborts.
 */
#include "supervisor/process/orphans.h"

#include <signal.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "common/util.h"
#include "supervisor/process/child-user.h"

/* The minimum time between two searches. Processes that end one after the other must not keep the
 * loop busy. */
#define INTERVAL (5 * USEC_PER_MSEC)

static int on_exit_of_nobody(sd_event_source *source, const siginfo_t *info, void *userdata)
{
	return 0;
}

/* The loop has at most one source for each process. */
static bool is_watched(sd_event *event, pid_t pid)
{
	sd_event_source *source = NULL;
	int r;

	r = sd_event_add_child(event, &source, pid, WEXITED, on_exit_of_nobody, NULL);
	sd_event_source_disable_unref(source);
	return r == -EBUSY;
}

static void reap(sd_event *event)
{
	for (;;) {
		siginfo_t info = { 0 };

		if (waitid(P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT) < 0 || info.si_pid == 0 ||
			is_watched(event, info.si_pid))
			return;
		(void)waitid(P_PID, (id_t)info.si_pid, &info, WEXITED | WNOHANG);
	}
}

/* Whether it has a user of our children, and so was started by one of them. Where /proc hides the
 * processes of other users (ProtectProc=), a child of ours that is hidden has another user, and so
 * one that we gave; what we made ourselves is not hidden. */
static bool is_of_children(pid_t pid)
{
	char path[32];
	struct stat st;

	(void)snprintf(path, sizeof(path), "/proc/%d", (int)pid);
	if (stat(path, &st) < 0)
		return errno == ENOENT;
	return child_user_is_given(st.st_uid);
}

/* Ends processes whose parent, a child of ours, has ended. */
static void end_left(sd_event *event)
{
	_cleanup_fclose_ FILE *stream = NULL;
	char path[64];
	int pid;

	(void)snprintf(path, sizeof(path), "/proc/self/task/%d/children", (int)getpid());
	stream = fopen(path, "re");
	while (stream && fscanf(stream, "%d", &pid) == 1)
		if (!is_watched(event, pid) && is_of_children(pid))
			(void)kill(pid, SIGKILL);
}

static int on_time(sd_event_source *timer, uint64_t usec, void *userdata)
{
	sd_event *event = sd_event_source_get_event(timer);

	reap(event);
	end_left(event);
	return sd_event_source_set_time_relative(timer, INTERVAL);
}

static int on_sigchld(
	sd_event_source *source, const struct signalfd_siginfo *signal, void *userdata)
{
	sd_event_source *timer = userdata;

	return sd_event_source_set_enabled(timer, SD_EVENT_ONESHOT);
}

static int timer_new(sd_event *event, sd_event_source **ret)
{
	_cleanup_(sd_event_source_unrefp) sd_event_source *timer = NULL;
	int r;

	r = sd_event_add_time(event, &timer, CLOCK_MONOTONIC, 0, USEC_PER_MSEC, on_time, NULL);
	if (r >= 0)
		r = sd_event_source_set_enabled(timer, SD_EVENT_OFF);
	if (r >= 0)
		r = sd_event_source_set_priority(timer, SD_EVENT_PRIORITY_IDLE);
	if (r >= 0)
		r = sd_event_source_set_floating(timer, true);
	if (r < 0)
		return r;
	*ret = timer;
	return 0;
}

int orphans_reap(sd_event *event)
{
	_cleanup_(sd_event_source_unrefp) sd_event_source *source = NULL;
	sd_event_source *timer;
	int r;

	if (prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) < 0)
		return -errno;
	r = timer_new(event, &timer);
	if (r >= 0)
		r = sd_event_add_signal(event, &source, SIGCHLD, on_sigchld, timer);
	/* Signals that come without end must not keep the timer waiting. */
	if (r >= 0)
		r = sd_event_source_set_priority(source, SD_EVENT_PRIORITY_IDLE);
	if (r >= 0)
		r = sd_event_source_set_floating(source, true);
	return r < 0 ? r : 0;
}
