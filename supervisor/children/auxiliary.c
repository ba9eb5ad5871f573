/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Runs a process that serves no resource (exporter, devplugd-cluster, kubelet client): decides when
 * it is started, stopped and killed. One timer is enough for what comes next: the next start, or
 * the end of a process.
 */
#include "supervisor/children/auxiliary.h"

#include <fcntl.h>
#include <linux/sockios.h>
#include <sys/ioctl.h>

#include "common/log.h"
#include "supervisor/children/child.h"
#include "supervisor/children/manager.h"
#include "supervisor/children/resource.h"
#include "supervisor/process/process-timer.h"
#include "supervisor/process/process.h"
#include "supervisor/process/retry-delay.h"

/* In the socket, in bytes, when another document of devices is sent: about half of what a socket
 * holds by default. The rest is for messages that cannot wait. */
#define DEVICES_QUEUE 98304

/* Messages that wait here while the socket is full: as many as answers to the kubelet's calls. */
#define QUEUE_MAX   4096
#define QUEUE_RETRY (10 * USEC_PER_MSEC)

struct queued {
	struct queued *next;
	struct control_message message;
};

struct auxiliary {
	struct auxiliary *next;
	struct manager *manager;
	struct auxiliary_options options;
	bool wanted;

	struct process process;
	bool stopping; /* the process was asked to */
	struct process_timer timer, watchdog;
	struct queued *queue, **queue_end;
	size_t n_queued;
	sd_event_source *queue_timer;

	uint64_t delay;         /* before the last start, 0: none yet */
	struct log_once logged; /* failures to start */
};

static const char *name_of(const struct auxiliary *auxiliary)
{
	return auxiliary->options.mode ?: auxiliary->options.program;
}

static struct log_fields fields_of(const struct auxiliary *auxiliary)
{
	return (struct log_fields){ .child_pid = auxiliary->process.pid };
}

static void drop_queued(struct auxiliary *auxiliary)
{
	struct queued *queued = auxiliary->queue;

	auxiliary->queue = queued->next;
	if (!auxiliary->queue)
		auxiliary->queue_end = &auxiliary->queue;
	auxiliary->n_queued--;
	control_message_done(&queued->message);
	free(queued);
}

static void drop_queue(struct auxiliary *auxiliary)
{
	while (auxiliary->queue)
		drop_queued(auxiliary);
}

/* The process ends within a time, or is killed. */
static void expect_end(struct auxiliary *auxiliary, uint64_t timeout)
{
	auxiliary->stopping = true;
	drop_queue(auxiliary);
	process_timer_set(&auxiliary->watchdog, USEC_INFINITY, true);
	process_timer_set(&auxiliary->timer, timeout, false);
}

static void replace(struct auxiliary *auxiliary, int number, const char *why)
{
	const struct log_fields fields = fields_of(auxiliary);

	log_full(LOG_ERR, &fields, "%s %s; killing and restarting it", name_of(auxiliary), why);
	process_ignore(&auxiliary->process);
	process_kill(&auxiliary->process, number);
	expect_end(auxiliary, RESOURCE_END_TIMEOUT);
}

/* --- a process that runs --- */

static void on_message(struct control_message *message, void *userdata)
{
	struct auxiliary *auxiliary = userdata;

	if (message->type != CONTROL_ALIVE) {
		if (!auxiliary->options.on_message(message, auxiliary->options.userdata))
			replace(auxiliary, SIGKILL, "sent a message that it may not send");
	} else if (!auxiliary->stopping) {
		process_timer_set(&auxiliary->watchdog, CONTROL_ALIVE_TIMEOUT, true);
	}
}

static void on_broken(const char *what, void *userdata)
{
	replace(userdata, SIGKILL, what);
}

/* The process ends, or is of no more use. */
static void on_hangup(void *userdata)
{
	struct auxiliary *auxiliary = userdata;

	if (!auxiliary->stopping)
		expect_end(auxiliary, RESOURCE_HANGUP_TIMEOUT);
}

static void on_silence(struct process_timer *timer, void *userdata)
{
	replace(userdata, SIGABRT, "sent no heartbeat");
}

static void plan_restart(struct auxiliary *auxiliary)
{
	uint64_t delay = retry_delay_next(&auxiliary->delay, RETRY_CHILD_DELAY_MIN,
		RETRY_CHILD_DELAY_MAX, retry_delay_random());

	process_timer_set(&auxiliary->timer, delay, false);
}

static void on_process_exit(const siginfo_t *info, void *userdata)
{
	struct auxiliary *auxiliary = userdata;
	const struct log_fields fields = fields_of(auxiliary);
	bool failed = info->si_code != CLD_EXITED || info->si_status != 0;
	char exit_text[768];

	(void)process_receive(&auxiliary->process);
	process_exit_text(&auxiliary->process, info, exit_text, sizeof(exit_text));
	if (failed)
		log_full(LOG_ERR, &fields, "%s %s", name_of(auxiliary), exit_text);
	else if (!auxiliary->options.mode)
		log_full(LOG_INFO, &fields, "%s stopped", name_of(auxiliary));
	process_done(&auxiliary->process);
	drop_queue(auxiliary);
	auxiliary->stopping = false;
	process_timer_set(&auxiliary->timer, USEC_INFINITY, false);
	process_timer_set(&auxiliary->watchdog, USEC_INFINITY, true);
	retry_delay_credit(
		&auxiliary->delay, now_usec(CLOCK_MONOTONIC) - auxiliary->process.started_at);
	if (auxiliary->wanted)
		plan_restart(auxiliary);
	if (auxiliary->options.on_ended)
		auxiliary->options.on_ended(auxiliary->options.userdata);
	manager_changed(auxiliary->manager);
}

static const struct process_events process_events = {
	.on_message = on_message,
	.on_broken = on_broken,
	.on_hangup = on_hangup,
	.on_exit = on_process_exit,
};

/* --- start and stop --- */

static int start_mode(struct auxiliary *auxiliary, struct error *error)
{
	struct spawn_options options = auxiliary->manager->program;

	options.resource = auxiliary->options.mode;
	options.user = auxiliary->options.user;
	return process_start(&auxiliary->process, &options, error);
}

static int start_program(struct auxiliary *auxiliary, struct error *error)
{
	_cleanup_close_ int executable_fd = -EBADF;
	_cleanup_free_ char *executable = NULL;
	struct spawn_options options = {
		.name = auxiliary->options.program,
		.user = auxiliary->options.user,
	};

	/* The file is opened each time, because the package may have been installed or updated. */
	executable_fd = spawn_open_executable(auxiliary->options.program, &executable, error);
	if (executable_fd < 0)
		return executable_fd;
	options.executable_fd = executable_fd;
	options.executable = executable;
	return process_start(&auxiliary->process, &options, error);
}

static int start(struct auxiliary *auxiliary, struct error *error)
{
	int r = auxiliary->options.mode ? start_mode(auxiliary, error)
					: start_program(auxiliary, error);

	if (r >= 0)
		process_timer_set(&auxiliary->watchdog, CONTROL_ALIVE_TIMEOUT, true);
	return r;
}

/* Logs the same failure only once. */
static void note(struct auxiliary *auxiliary, const char *failure)
{
	if (log_once_admits(&auxiliary->logged, failure))
		log_error("cannot start %s: %s", name_of(auxiliary), failure ?: "");
}

static void try_to_start(struct auxiliary *auxiliary)
{
	struct error error = { 0 };
	struct log_fields fields;

	if (start(auxiliary, &error) < 0) {
		note(auxiliary, error.message);
		plan_restart(auxiliary);
		return;
	}
	note(auxiliary, NULL);
	fields = fields_of(auxiliary);
	if (!auxiliary->options.mode)
		log_full(LOG_INFO, &fields, "%s started (pid %d)", name_of(auxiliary),
			(int)auxiliary->process.pid);
	if (auxiliary->options.on_started(auxiliary, auxiliary->options.userdata) < 0)
		replace(auxiliary, SIGKILL, "cannot be configured");
}

static void stop(struct auxiliary *auxiliary)
{
	const struct control_message message =
		CONTROL_MESSAGE_INIT(auxiliary->process.protocol, CONTROL_STOP);

	if (control_send(auxiliary->process.control_fd, &message) < 0)
		process_kill(&auxiliary->process, SIGKILL);
	expect_end(auxiliary, RESOURCE_END_TIMEOUT);
}

static void on_timer(struct process_timer *timer, void *userdata)
{
	struct auxiliary *auxiliary = userdata;

	if (auxiliary->process.pid == 0) {
		try_to_start(auxiliary);
		return;
	}
	process_kill(&auxiliary->process, SIGKILL);
	process_timer_set(timer, RESOURCE_END_TIMEOUT, false);
}

/* --- --- */

void auxiliary_set_wanted(struct auxiliary *auxiliary, bool wanted)
{
	if (auxiliary->wanted == wanted)
		return;
	auxiliary->wanted = wanted;
	/* What was wrong before may have been corrected. */
	auxiliary->delay = 0;
	if (auxiliary->process.pid > 0) {
		/* One that is stopping is awaited before the next is started. */
		if (!wanted && !auxiliary->stopping)
			stop(auxiliary);
		return;
	}
	process_timer_set(&auxiliary->timer, USEC_INFINITY, false);
	if (wanted)
		try_to_start(auxiliary);
}

pid_t auxiliary_pid(const struct auxiliary *auxiliary)
{
	return auxiliary->process.pid;
}

bool auxiliary_is_running(const struct auxiliary *auxiliary)
{
	return auxiliary->process.pid > 0 && !auxiliary->stopping;
}

/* --- messages to the process --- */

static void plan_queue(struct auxiliary *auxiliary)
{
	(void)sd_event_source_set_time_relative(auxiliary->queue_timer, QUEUE_RETRY);
	(void)sd_event_source_set_enabled(auxiliary->queue_timer, SD_EVENT_ONESHOT);
}

static void replace_unread(struct auxiliary *auxiliary)
{
	replace(auxiliary, SIGKILL, "does not read its control socket");
}

static int on_queue_timer(sd_event_source *source, uint64_t usec, void *userdata)
{
	struct auxiliary *auxiliary = userdata;
	int r = 0;

	while (auxiliary->queue && r >= 0) {
		r = control_send(auxiliary->process.control_fd, &auxiliary->queue->message);
		if (r >= 0)
			drop_queued(auxiliary);
	}
	if (r == -EAGAIN)
		plan_queue(auxiliary);
	else if (r < 0)
		replace_unread(auxiliary);
	return 0;
}

/* A process may be busy while many answers for it are ready. */
static int put_in_queue(struct auxiliary *auxiliary, const struct control_message *message)
{
	struct queued *queued = auxiliary->n_queued < QUEUE_MAX ? calloc(1, sizeof(*queued)) : NULL;
	bool copied = true;

	if (!queued)
		return -ENOBUFS;
	queued->message = *message;
	for (size_t i = 0; i < CONTROL_FDS_MAX; i++) {
		if (message->fds[i] < 0)
			continue;
		queued->message.fds[i] = fcntl(message->fds[i], F_DUPFD_CLOEXEC, 0);
		copied &= queued->message.fds[i] >= 0;
	}
	if (!copied) {
		control_message_done(&queued->message);
		free(queued);
		return -EMFILE;
	}
	*auxiliary->queue_end = queued;
	auxiliary->queue_end = &queued->next;
	if (auxiliary->n_queued++ == 0)
		plan_queue(auxiliary);
	return 0;
}

int auxiliary_send(struct auxiliary *auxiliary, const struct control_message *message)
{
	int r = -EAGAIN;

	if (!auxiliary_is_running(auxiliary))
		return -ESRCH;
	if (!auxiliary->queue)
		r = control_send(auxiliary->process.control_fd, message);
	if (r == -EAGAIN)
		r = put_in_queue(auxiliary, message);
	if (r < 0)
		replace_unread(auxiliary);
	return r;
}

int auxiliary_send_devices(struct auxiliary *auxiliary, const struct child *child)
{
	struct control_message message =
		CONTROL_MESSAGE_INIT(auxiliary->process.protocol, CONTROL_INVENTORY);
	int waiting;

	if (child->devices_fd < 0)
		return 0;
	if (!auxiliary_is_running(auxiliary))
		return -ESRCH;
	if (auxiliary->queue || ioctl(auxiliary->process.control_fd, SIOCOUTQ, &waiting) < 0 ||
		waiting > DEVICES_QUEUE)
		return -EAGAIN;
	message.fds[0] = child->devices_fd;
	(void)snprintf(message.text, sizeof(message.text), "%s", child->resource->name);
	return control_send(auxiliary->process.control_fd, &message);
}

void auxiliaries_stop(struct manager *manager)
{
	for (struct auxiliary *a = manager->auxiliaries; a; a = a->next)
		auxiliary_set_wanted(a, false);
}

bool auxiliaries_stopped(const struct manager *manager)
{
	for (const struct auxiliary *a = manager->auxiliaries; a; a = a->next)
		if (a->process.pid > 0)
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
	auxiliary->queue_end = &auxiliary->queue;
	process_init(&auxiliary->process, manager->event, options->protocol, name_of(auxiliary),
		&process_events, auxiliary);
	r = process_timer_init(&auxiliary->timer, &auxiliary->process, on_timer, auxiliary);
	if (r >= 0)
		r = process_timer_init(
			&auxiliary->watchdog, &auxiliary->process, on_silence, auxiliary);
	if (r >= 0)
		r = sd_event_add_time(manager->event, &auxiliary->queue_timer, CLOCK_MONOTONIC,
			USEC_INFINITY, USEC_PER_MSEC, on_queue_timer, auxiliary);
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
	process_done(&auxiliary->process);
	process_timer_done(&auxiliary->timer);
	process_timer_done(&auxiliary->watchdog);
	drop_queue(auxiliary);
	sd_event_source_disable_unref(auxiliary->queue_timer);
	free(auxiliary);
	return NULL;
}
