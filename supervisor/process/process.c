/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Decides which messages of a process are received: none that is malformed, none of a flood, and
 * none without its descriptors. While devplugd is at its limit of open files, messages wait in the
 * socket. All event sources of a process have one priority, so that a flood of messages or output
 * cannot starve the others; the owner therefore receives the last messages when the process ends.
 */
#include "supervisor/process/process.h"

#include "common/foreign.h"
#include "common/log.h"

/* More messages than fit into the socket of a process. */
#define WAITING_MESSAGES_MAX 256
/* Between two attempts to receive a message that waits for free descriptors. The socket stays
 * readable, and must not keep the event loop busy. */
#define SHORTAGE_RETRY        USEC_PER_SEC
#define SHORTAGE_LOG_INTERVAL (60 * USEC_PER_SEC)

/* --- messages --- */

/* Once for all processes: they wait for the same reason. */
static void log_shortage(void)
{
	static uint64_t not_before;
	uint64_t now = now_usec(CLOCK_MONOTONIC);

	if (now < not_before)
		return;
	not_before = now + SHORTAGE_LOG_INTERVAL;
	log_error("messages of child processes have to wait: devplugd has reached its "
		  "limit of open files; raise LimitNOFILE= of devplugd.service");
}

static int receive_message(struct process *process, struct control_message *ret)
{
	int r = control_receive_from_child(process->control_fd, process->protocol, ret);
	bool wait = r == -EMFILE;

	if (wait)
		log_shortage();
	/* Setting it again would begin another interval. */
	if (wait != process->messages_wait)
		(void)sd_event_source_set_ratelimit(
			process->control_source, wait ? SHORTAGE_RETRY : 0, 1);
	process->messages_wait = wait;
	return r;
}

static bool is_flood(struct process *process)
{
	uint64_t now = now_usec(CLOCK_MONOTONIC);

	if (now - process->window_start >= USEC_PER_SEC) {
		process->window_start = now;
		process->in_window = 0;
	}
	return ++process->in_window > PROCESS_MESSAGES_MAX;
}

/* Returns whether there was a message. */
static bool receive(struct process *process)
{
	_cleanup_control_ struct control_message message =
		CONTROL_MESSAGE_INIT(process->protocol, 0);
	const struct process_events *events = process->events;
	int r;

	r = receive_message(process, &message);
	if (r == -EAGAIN || r == -EMFILE)
		return false;
	if (r >= 0 && !is_flood(process)) {
		events->on_message(&message, process->userdata);
		return true;
	}
	process_ignore(process);
	if (r != -ECONNRESET)
		events->on_broken(r < 0 ? "sent a malformed message" : "sent too many messages",
			process->userdata);
	else if (events->on_hangup)
		events->on_hangup(process->userdata);
	return false;
}

static int on_control(sd_event_source *source, int fd, uint32_t revents, void *userdata)
{
	(void)receive(userdata);
	return 0;
}

bool process_receive(struct process *process)
{
	for (unsigned i = 0; i < WAITING_MESSAGES_MAX; i++)
		if (!process->control_source ||
			sd_event_source_get_enabled(process->control_source, NULL) <= 0 ||
			!receive(process))
			break;
	return process->messages_wait;
}

void process_ignore(struct process *process)
{
	if (process->control_source)
		(void)sd_event_source_set_enabled(process->control_source, SD_EVENT_OFF);
}

/* --- start and end --- */

static int on_process_exit(sd_event_source *source, const siginfo_t *info, void *userdata)
{
	struct process *process = userdata;

	if (process->relay)
		relay_drain(process->relay);
	process->events->on_exit(info, process->userdata);
	return 0;
}

static int attach(struct process *process, const struct spawned *spawned)
{
	int r = 0;

	process->pid = spawned->pid;
	process->control_fd = spawned->control_fd;
	process->killed = false;
	process->started_at = now_usec(CLOCK_MONOTONIC);
	/* Even without its output a process is of use. */
	(void)relay_new(
		process->event, spawned->output_fd, process->name, process->pid, &process->relay);
	if (process->events->on_message)
		r = sd_event_add_io(process->event, &process->control_source, process->control_fd,
			EPOLLIN, on_control, process);
	if (r >= 0)
		r = sd_event_add_child(process->event, &process->exit_source, process->pid, WEXITED,
			on_process_exit, process);
	return r;
}

int process_start(struct process *process, const struct spawn_options *options, struct error *error)
{
	struct spawned spawned;
	int r;

	r = spawn_child(options, &spawned, error);
	if (r < 0)
		return r;
	r = attach(process, &spawned);
	if (r >= 0)
		return 0;
	process_done(process);
	return error_set(error, r, "cannot watch a new process: %s", strerror(-r));
}

void process_kill(struct process *process, int signal)
{
	process->killed = true;
	if (process->exit_source)
		(void)sd_event_source_send_child_signal(process->exit_source, signal, NULL, 0);
}

void process_exit_text(const struct process *process, const siginfo_t *info, char *ret, size_t size)
{
	uint64_t uptime = now_usec(CLOCK_MONOTONIC) - process->started_at;
	bool failed = info->si_code != CLD_EXITED || info->si_status != 0;
	const char *last = failed && process->relay ? relay_last_line(process->relay) : "";
	const char *signal_name = sigabbrev_np(info->si_status);
	char how[64];

	if (info->si_code == CLD_EXITED)
		(void)snprintf(how, sizeof(how), "exited with status %d", info->si_status);
	else
		(void)snprintf(how, sizeof(how), "was killed by signal SIG%s%s",
			signal_name ?: "RT", info->si_code == CLD_DUMPED ? " (core dumped)" : "");
	(void)snprintf(ret, size, "(pid %d) %s after %.1f s%s%.512s", (int)process->pid, how,
		(double)uptime / (double)USEC_PER_SEC, *last ? "; its last log line: " : "", last);
}

void process_init(struct process *process, sd_event *event, const struct control_protocol *protocol,
	const char *name, const struct process_events *events, void *userdata)
{
	*process = (struct process){
		.event = event,
		.protocol = protocol,
		.events = events,
		.userdata = userdata,
		.name = name,
		.control_fd = -EBADF,
	};
}

void process_done(struct process *process)
{
	/* Without an event source it was not reaped, so the number is still its own. */
	if (process->pid > 0 && !process->exit_source)
		(void)kill(process->pid, SIGKILL);
	process_kill(process, SIGKILL);
	process->exit_source = sd_event_source_disable_unref(process->exit_source);
	process->control_source = sd_event_source_disable_unref(process->control_source);
	process->control_fd = foreign_close_socket(process->control_fd);
	process->relay = relay_free(process->relay);
	process->pid = 0;
	process->messages_wait = false;
}
