/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Runs a process that serves no resource (exporter, devplugd-cluster): decides when it is started,
 * stopped and killed. Three conditions decide the next step, in settle(): a process runs, it was
 * asked to stop, one is wanted. One timer is enough for what comes next: the next start, or the end
 * of a process.
 */
#include "supervisor/children/auxiliary.h"

#include <signal.h>
#include <sys/random.h>
#include <sys/wait.h>

#include "common/foreign.h"
#include "common/log.h"
#include "supervisor/children/child-timers.h"
#include "supervisor/children/manager.h"
#include "supervisor/children/resource.h"
#include "supervisor/process/receive.h"
#include "supervisor/process/relay.h"
#include "supervisor/process/retry-delay.h"
#include "supervisor/process/spawn.h"

/* In a second. When the kubelet starts, devplugd-cluster asks for all of DRA_CLAIMS_MAX claims. */
#define MESSAGES_MAX 10000

struct auxiliary {
	struct auxiliary *next;
	struct manager *manager;
	struct auxiliary_options options;
	bool wanted;

	pid_t pid; /* 0: none */
	int control_fd;
	struct relay *relay;
	sd_event_source *exit_source, *control_source;
	sd_event_source *timer, *watchdog;
	bool stopping;      /* the process was asked to */
	bool messages_wait; /* in its socket, because devplugd has no free descriptors */
	uint64_t started_at;
	uint64_t window_start;
	unsigned in_window;

	uint64_t delay; /* the last one, 0: none yet */
	uint64_t retry_at;
	struct log_once logged; /* failures to start */
};

static struct log_fields fields_of(const struct auxiliary *auxiliary)
{
	return (struct log_fields){ .child_pid = auxiliary->pid };
}

static void set_timer(sd_event_source *timer, uint64_t delay)
{
	if (delay != USEC_INFINITY)
		(void)sd_event_source_set_time(timer, now_usec(CLOCK_MONOTONIC) + delay);
	(void)sd_event_source_set_enabled(
		timer, delay == USEC_INFINITY ? SD_EVENT_OFF : SD_EVENT_ONESHOT);
}

static void forget_process(struct auxiliary *auxiliary)
{
	auxiliary->exit_source = sd_event_source_disable_unref(auxiliary->exit_source);
	auxiliary->control_source = sd_event_source_disable_unref(auxiliary->control_source);
	auxiliary->control_fd = foreign_close_socket(auxiliary->control_fd);
	auxiliary->relay = relay_free(auxiliary->relay);
	auxiliary->pid = 0;
	auxiliary->stopping = auxiliary->messages_wait = false;
	set_timer(auxiliary->watchdog, USEC_INFINITY);
}

static void kill_process(struct auxiliary *auxiliary, int number)
{
	if (auxiliary->exit_source)
		(void)sd_event_source_send_child_signal(auxiliary->exit_source, number, NULL, 0);
}

static void replace(struct auxiliary *auxiliary, int number, const char *why)
{
	const struct log_fields fields = fields_of(auxiliary);

	log_full(LOG_ERR, &fields, "%s %s; it is killed and restarted", auxiliary->options.program,
		why);
	if (auxiliary->control_source)
		(void)sd_event_source_set_enabled(auxiliary->control_source, SD_EVENT_OFF);
	auxiliary->stopping = true;
	kill_process(auxiliary, number);
	set_timer(auxiliary->timer, RESOURCE_END_TIMEOUT);
}

/* --- a process that runs --- */

static bool is_flood(struct auxiliary *auxiliary)
{
	uint64_t now = now_usec(CLOCK_MONOTONIC);

	if (now - auxiliary->window_start >= USEC_PER_SEC) {
		auxiliary->window_start = now;
		auxiliary->in_window = 0;
	}
	return ++auxiliary->in_window > MESSAGES_MAX;
}

/* Returns whether there was a message. */
static bool receive(struct auxiliary *auxiliary)
{
	_cleanup_control_ struct control_message message = CONTROL_MESSAGE_INIT(0);
	int r;

	r = receive_from_child(auxiliary->control_fd, auxiliary->control_source, &message);
	auxiliary->messages_wait = r == -EMFILE;
	if (r == -EAGAIN || r == -EMFILE)
		return false;
	if (r == -ECONNRESET) {
		/* It ends, or is of no more use. */
		(void)sd_event_source_set_enabled(auxiliary->control_source, SD_EVENT_OFF);
		if (!auxiliary->stopping)
			set_timer(auxiliary->timer, RESOURCE_HANGUP_TIMEOUT);
		auxiliary->stopping = true;
		return false;
	}
	if (r < 0 || is_flood(auxiliary)) {
		replace(auxiliary, SIGKILL,
			r < 0 ? "sent a malformed message" : "sent too many messages");
		return false;
	}
	if (message.type == CONTROL_ALIVE) {
		set_timer(auxiliary->watchdog, CONTROL_ALIVE_TIMEOUT);
	} else if (!auxiliary->options.on_message(&message, auxiliary->options.userdata)) {
		replace(auxiliary, SIGKILL, "sent a message that it may not send");
		return false;
	}
	return true;
}

static int on_control(sd_event_source *source, int fd, uint32_t revents, void *userdata)
{
	(void)receive(userdata);
	return 0;
}

/* With the rules of child-timers.c. A heartbeat that waited in the socket sets the timer again. */
static int on_watchdog(sd_event_source *source, uint64_t usec, void *userdata)
{
	struct auxiliary *auxiliary = userdata;
	uint64_t now = now_usec(CLOCK_MONOTONIC);

	while (!auxiliary->stopping && receive(auxiliary))
		;
	if (auxiliary->stopping || sd_event_source_get_enabled(source, NULL) > 0)
		return 0;
	if (auxiliary->messages_wait || now > usec + CHILD_TIMER_LATE)
		set_timer(source, CONTROL_ALIVE_TIMEOUT);
	else
		replace(auxiliary, SIGABRT, "sent no heartbeat");
	return 0;
}

static void settle(struct auxiliary *auxiliary);

static void plan_restart(struct auxiliary *auxiliary)
{
	uint32_t number = (uint32_t)now_usec(CLOCK_MONOTONIC) * 2654435761U;
	uint64_t delay;

	(void)!getrandom(&number, sizeof(number), GRND_NONBLOCK);
	delay = retry_delay_next(
		&auxiliary->delay, RETRY_CHILD_DELAY_MIN, RETRY_CHILD_DELAY_MAX, number);
	auxiliary->retry_at = now_usec(CLOCK_MONOTONIC) + delay;
}

static void log_exit(const struct auxiliary *auxiliary, const siginfo_t *info)
{
	const struct log_fields fields = fields_of(auxiliary);
	const char *last = auxiliary->relay ? relay_last_line(auxiliary->relay) : "";
	const char *name = sigabbrev_np(info->si_status);

	if (info->si_code == CLD_EXITED && info->si_status == 0)
		log_full(LOG_INFO, &fields, "%s stopped", auxiliary->options.program);
	else if (info->si_code == CLD_EXITED)
		log_full(LOG_ERR, &fields, "%s exited with status %d%s%.512s",
			auxiliary->options.program, info->si_status,
			*last ? "; its last log line: " : "", last);
	else
		log_full(LOG_ERR, &fields, "%s was killed by signal SIG%s",
			auxiliary->options.program, name ?: "RT");
}

static int on_process_exit(sd_event_source *source, const siginfo_t *info, void *userdata)
{
	struct auxiliary *auxiliary = userdata;

	if (auxiliary->relay)
		relay_drain(auxiliary->relay);
	log_exit(auxiliary, info);
	forget_process(auxiliary);
	retry_delay_credit(&auxiliary->delay, now_usec(CLOCK_MONOTONIC) - auxiliary->started_at);
	if (auxiliary->wanted)
		plan_restart(auxiliary);
	if (auxiliary->options.on_ended)
		auxiliary->options.on_ended(auxiliary->options.userdata);
	settle(auxiliary);
	manager_changed(auxiliary->manager);
	return 0;
}

/* --- start and stop --- */

static int attach(struct auxiliary *auxiliary, const struct spawned *spawned)
{
	sd_event *event = auxiliary->manager->event;
	int r;

	auxiliary->pid = spawned->pid;
	auxiliary->control_fd = spawned->control_fd;
	auxiliary->started_at = now_usec(CLOCK_MONOTONIC);
	(void)relay_new(event, spawned->output_fd, auxiliary->options.program, auxiliary->pid,
		&auxiliary->relay);
	r = sd_event_add_io(event, &auxiliary->control_source, auxiliary->control_fd, EPOLLIN,
		on_control, auxiliary);
	if (r >= 0)
		r = sd_event_add_child(event, &auxiliary->exit_source, auxiliary->pid, WEXITED,
			on_process_exit, auxiliary);
	if (r >= 0) {
		set_timer(auxiliary->watchdog, CONTROL_ALIVE_TIMEOUT);
		return 0;
	}
	(void)kill(auxiliary->pid, SIGKILL);
	(void)RETRY_ON_EINTR(waitpid(auxiliary->pid, NULL, 0));
	forget_process(auxiliary);
	return r;
}

static int start(struct auxiliary *auxiliary, struct error *error)
{
	_cleanup_close_ int executable_fd = -EBADF;
	_cleanup_free_ char *executable = NULL;
	struct spawn_options options = {
		.name = auxiliary->options.program,
		.user = auxiliary->options.user,
	};
	struct spawned spawned;
	int r;

	/* Each time, because the package may have come or changed. */
	executable_fd = spawn_open_executable(auxiliary->options.program, &executable, error);
	if (executable_fd < 0)
		return executable_fd;
	options.executable_fd = executable_fd;
	options.executable = executable;
	r = spawn_child(&options, &spawned, error);
	if (r < 0)
		return r;
	r = attach(auxiliary, &spawned);
	if (r < 0)
		return error_set(error, r, "cannot watch a new process: %s", strerror(-r));
	return 0;
}

/* Logs the same failure only once. */
static void note(struct auxiliary *auxiliary, const char *failure)
{
	if (log_once_admits(&auxiliary->logged, failure))
		log_error("cannot start %s: %s", auxiliary->options.program, failure ?: "");
}

static void try_to_start(struct auxiliary *auxiliary)
{
	struct error error = { 0 };
	struct log_fields fields;

	if (start(auxiliary, &error) < 0) {
		note(auxiliary, error.message);
		plan_restart(auxiliary);
		set_timer(auxiliary->timer, auxiliary->retry_at - now_usec(CLOCK_MONOTONIC));
		return;
	}
	note(auxiliary, NULL);
	fields = fields_of(auxiliary);
	log_full(LOG_INFO, &fields, "%s started (pid %d)", auxiliary->options.program,
		(int)auxiliary->pid);
	if (auxiliary->options.on_started(auxiliary, auxiliary->options.userdata) < 0)
		replace(auxiliary, SIGKILL, "cannot be configured");
}

static void stop(struct auxiliary *auxiliary)
{
	const struct control_message message = CONTROL_MESSAGE_INIT(CONTROL_STOP);

	auxiliary->stopping = true;
	if (control_send(auxiliary->control_fd, &message) < 0)
		kill_process(auxiliary, SIGKILL);
	set_timer(auxiliary->timer, RESOURCE_END_TIMEOUT);
}

static void settle(struct auxiliary *auxiliary)
{
	uint64_t now = now_usec(CLOCK_MONOTONIC);

	if (auxiliary->pid > 0) {
		if (!auxiliary->wanted && !auxiliary->stopping)
			stop(auxiliary);
		return;
	}
	set_timer(auxiliary->timer, USEC_INFINITY);
	if (!auxiliary->wanted)
		return;
	if (auxiliary->retry_at > now)
		set_timer(auxiliary->timer, auxiliary->retry_at - now);
	else
		try_to_start(auxiliary);
}

static int on_timer(sd_event_source *source, uint64_t usec, void *userdata)
{
	struct auxiliary *auxiliary = userdata;

	if (auxiliary->pid > 0) {
		kill_process(auxiliary, SIGKILL);
		set_timer(auxiliary->timer, RESOURCE_END_TIMEOUT);
	} else
		settle(auxiliary);
	return 0;
}

/* --- --- */

void auxiliary_set_wanted(struct auxiliary *auxiliary, bool wanted)
{
	if (auxiliary->wanted == wanted)
		return;
	auxiliary->wanted = wanted;
	/* What was wrong before may have been corrected. */
	auxiliary->delay = auxiliary->retry_at = 0;
	settle(auxiliary);
}

pid_t auxiliary_pid(const struct auxiliary *auxiliary)
{
	return auxiliary->pid;
}

bool auxiliary_is_running(const struct auxiliary *auxiliary)
{
	return auxiliary->pid > 0 && !auxiliary->stopping;
}

int auxiliary_send(struct auxiliary *auxiliary, const struct control_message *message)
{
	int r;

	if (!auxiliary_is_running(auxiliary))
		return -ESRCH;
	r = control_send(auxiliary->control_fd, message);
	if (r < 0)
		replace(auxiliary, SIGKILL, "does not read its control socket");
	return r;
}

void auxiliaries_stop(struct manager *manager)
{
	for (struct auxiliary *a = manager->auxiliaries; a; a = a->next)
		auxiliary_set_wanted(a, false);
}

bool auxiliaries_stopped(const struct manager *manager)
{
	for (const struct auxiliary *a = manager->auxiliaries; a; a = a->next)
		if (a->pid > 0)
			return false;
	return true;
}

int auxiliary_new(
	struct manager *manager, const struct auxiliary_options *options, struct auxiliary **ret)
{
	_cleanup_(auxiliary_freep) struct auxiliary *auxiliary = calloc(1, sizeof(*auxiliary));
	int r;

	if (!auxiliary)
		return -ENOMEM;
	auxiliary->manager = manager;
	auxiliary->options = *options;
	auxiliary->control_fd = -EBADF;
	r = sd_event_add_time(manager->event, &auxiliary->timer, CLOCK_MONOTONIC, USEC_INFINITY,
		USEC_PER_MSEC, on_timer, auxiliary);
	if (r >= 0)
		r = sd_event_add_time(manager->event, &auxiliary->watchdog, CLOCK_MONOTONIC,
			USEC_INFINITY, 100 * USEC_PER_MSEC, on_watchdog, auxiliary);
	if (r < 0)
		return r;
	auxiliary->next = manager->auxiliaries;
	manager->auxiliaries = auxiliary;
	*ret = TAKE_PTR(auxiliary);
	return 0;
}

struct auxiliary *auxiliary_free(struct auxiliary *auxiliary)
{
	if (!auxiliary)
		return NULL;
	for (struct auxiliary **a = &auxiliary->manager->auxiliaries; *a; a = &(*a)->next)
		if (*a == auxiliary) {
			*a = auxiliary->next;
			break;
		}
	kill_process(auxiliary, SIGKILL);
	auxiliary->exit_source = sd_event_source_disable_unref(auxiliary->exit_source);
	auxiliary->control_source = sd_event_source_disable_unref(auxiliary->control_source);
	auxiliary->control_fd = foreign_close_socket(auxiliary->control_fd);
	(void)relay_free(auxiliary->relay);
	sd_event_source_disable_unref(auxiliary->timer);
	sd_event_source_disable_unref(auxiliary->watchdog);
	free(auxiliary);
	return NULL;
}
