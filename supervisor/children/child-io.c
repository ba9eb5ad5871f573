/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Carries out what resource-lifecycle.c decides about a child, and receives its messages, output
 * and exit. Decides only whether a message is acceptable. All event sources of a child have one
 * priority, so that a child that floods its control socket or its output cannot starve the others.
 * Its last messages are therefore read when its exit is handled.
 */
#include <fcntl.h>
#include <signal.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "common/control.h"
#include "common/counters.h"
#include "common/foreign.h"
#include "common/log.h"
#include "common/message-id.h"
#include "common/sealed.h"
#include "drivers/model/driver.h"
#include "supervisor/children/child.h"
#include "supervisor/process/receive.h"

/* Between two writings of the state files of one child. */
#define WRITE_INTERVAL (100 * USEC_PER_MSEC)

static struct log_fields fields_of(const struct child *child, const char *message_id)
{
	return (struct log_fields){
		.resource = child->resource->name,
		.child_pid = child->pid,
		.message_id = message_id,
		.generation = *child->host->generation,
	};
}

static void forget_process(struct child *child)
{
	child->exit_source = sd_event_source_disable_unref(child->exit_source);
	child->control_source = sd_event_source_disable_unref(child->control_source);
	child->control_fd = foreign_close_socket(child->control_fd);
	child->relay = relay_free(child->relay);
	child->pid = 0;
	child->messages_wait = false;
	child->gone = child->booked_sent = 0;
	claimant_end_process(child->claimant);
	proposal_end_process(child->proposal);
	mirror_remove(&child->devices);
	child->host->on_edits(child, NULL, child->host->userdata);
}

/* --- messages --- */

/* What a message from the child means to the state table. Others are not for us to receive. */
static const struct {
	enum resource_event event;
	bool expected, session;
} message_events[] = {
	[CONTROL_REFUSED] = { RESOURCE_REFUSED, .expected = true },
	[CONTROL_REGISTERED] = { RESOURCE_REGISTERED, .expected = true, .session = true },
	[CONTROL_SERVING] = { RESOURCE_WATCHED, .expected = true, .session = true },
	[CONTROL_SESSION_ENDED] = { RESOURCE_SESSION_ENDED, .expected = true, .session = true },
	[CONTROL_ALIVE] = { RESOURCE_ALIVE, .expected = true },
};

/* More messages than fit into a child's socket. */
#define WAITING_MESSAGES_MAX 256

static void stop_listening(struct child *child)
{
	(void)sd_event_source_set_enabled(child->control_source, SD_EVENT_OFF);
}

static void on_broken(struct child *child, const char *why)
{
	stop_listening(child);
	resource_handle(child->resource, RESOURCE_BROKEN, why);
}

static bool is_flood(struct child *child)
{
	uint64_t now = now_usec(CLOCK_MONOTONIC);

	if (now - child->window_start >= USEC_PER_SEC) {
		child->window_start = now;
		child->in_window = 0;
	}
	return ++child->in_window > CHILD_MESSAGES_MAX;
}

static void on_devices(struct child *child, struct control_message *message)
{
	if (message->devices > CONTROL_DEVICES_MAX) {
		on_broken(child, "the child sent an inventory that is not valid");
		return;
	}
	if (message->fds[1] >= 0)
		mirror_take(&child->saved_state, TAKE_FD(message->fds[1]));
	mirror_take(&child->devices, TAKE_FD(message->fds[0]));
	child->reported = true;
	child->resource->devices = message->devices;
	child->resource->healthy = message->healthy;
	child->resource->ids = message->ids;
	child->offer.reported_at = now_usec(CLOCK_MONOTONIC);
	if (message->healthy_ids != child->resource->healthy_ids)
		child->offer.changed_at = child->offer.reported_at;
	child->resource->healthy_ids = message->healthy_ids;
	child->host->on_devices(child->host->userdata);
}

static void on_ready(struct child *child, const char *text)
{
	enum registration_way before = child_registration(child);
	bool first = child->resource->state == RESOURCE_STARTING;

	child->reported = false;
	resource_handle(child->resource, RESOURCE_READY, text);
	if (!first && child_registration(child) != before)
		resource_handle(child->resource, RESOURCE_RENEW, NULL);
}

static void on_publish(struct child *child, struct control_message *message)
{
	/* Its files have been removed. */
	if (child->leaving)
		return;
	resource_publishes(child->resource);
	proposal_submit(child->proposal, TAKE_FD(message->fds[0]), message->number);
}

static void on_message(struct child *child, struct control_message *message)
{
	if (message->type == CONTROL_DEVICES) {
		on_devices(child, message);
		return;
	}
	if (message->type == CONTROL_GONE) {
		child->gone = message->devices;
		child->host->on_gone(child->host->userdata);
		return;
	}
	if (message->type == CONTROL_CALL_FAILED) {
		if (failure_take(child->resource->failures, child->resource->name, message,
			    &child->log_budget))
			child->host->on_changed(child->host->userdata);
		else
			on_broken(child, "the child sent a malformed message");
		return;
	}
	if (message->type == CONTROL_CLAIMS) {
		claimant_submit(child->claimant, TAKE_FD(message->fds[0]), message->number);
		return;
	}
	if (message->type == CONTROL_EDITS) {
		child->host->on_edits(child, message, child->host->userdata);
		return;
	}
	if (message->type == CONTROL_PUBLISH) {
		on_publish(child, message);
		return;
	}
	if (message->type == CONTROL_READY) {
		on_ready(child, message->text);
		return;
	}
	if ((size_t)message->type >= ARRAY_SIZE(message_events) ||
		!message_events[message->type].expected) {
		on_broken(child, "the child sent a message that only devplugd sends");
		return;
	}
	/* Late words about a session that is over. */
	if (message_events[message->type].session && message->session != child->resource->session)
		return;
	resource_handle(child->resource, message_events[message->type].event,
		message->text[0] ? message->text : "the child gave no reason");
}

static bool receive(struct child *child)
{
	_cleanup_control_ struct control_message message = CONTROL_MESSAGE_INIT(0);
	int r;

	r = receive_from_child(child->control_fd, child->control_source, &message);
	child->messages_wait = r == -EMFILE;
	if (r == -EAGAIN || r == -EMFILE)
		return false;
	if (r == -ECONNRESET) {
		stop_listening(child);
		resource_handle(child->resource, RESOURCE_HANGUP, NULL);
		return false;
	}
	if (r < 0) {
		on_broken(child, "the child sent a malformed message");
		return false;
	}
	if (is_flood(child)) {
		on_broken(child, "the child sent too many messages");
		return false;
	}
	on_message(child, &message);
	return true;
}

static void receive_all(struct child *child)
{
	int enabled = SD_EVENT_OFF;

	for (unsigned i = 0; i < WAITING_MESSAGES_MAX; i++)
		if (!child->control_source ||
			sd_event_source_get_enabled(child->control_source, &enabled) < 0 ||
			enabled == SD_EVENT_OFF || !receive(child))
			return;
}

static int on_control(sd_event_source *source, int fd, uint32_t revents, void *userdata)
{
	(void)receive(userdata);
	return 0;
}

/* --- the end of a process --- */

static void describe_exit(const struct child *child, const siginfo_t *info, char *ret, size_t size)
{
	double uptime =
		(double)(now_usec(CLOCK_MONOTONIC) - child->started_at) / (double)USEC_PER_SEC;
	bool failed = info->si_code != CLD_EXITED || info->si_status != 0;
	const char *last = failed && child->relay ? relay_last_line(child->relay) : "";
	const char *signal_name = sigabbrev_np(info->si_status);
	char how[64];

	if (info->si_code == CLD_EXITED)
		(void)snprintf(how, sizeof(how), "exited with status %d", info->si_status);
	else
		(void)snprintf(how, sizeof(how), "was killed by signal SIG%s%s",
			signal_name ?: "RT", info->si_code == CLD_DUMPED ? " (core dumped)" : "");
	(void)snprintf(ret, size, "the child (pid %d) %s after %.1f s%s%.512s", (int)child->pid,
		how, uptime, *last ? "; its last log line: " : "", last);
}

static enum exit_cause exit_cause(const struct child *child, const siginfo_t *info)
{
	if (child->killed)
		return EXIT_CAUSE_HANG;
	return info->si_code == CLD_KILLED && info->si_status == SIGKILL ? EXIT_CAUSE_KILLED
									 : EXIT_CAUSE_CRASH;
}

static int on_child_exit(sd_event_source *source, const siginfo_t *info, void *userdata)
{
	struct child *child = userdata;
	struct log_fields fields = fields_of(child, MESSAGE_ID_CHILD_DIED);
	bool wanted;
	char exit_text[768];

	receive_all(child);
	if (child->relay)
		relay_drain(child->relay);

	wanted = (child->resource->state == RESOURCE_STOPPING ||
			 child->resource->state == RESOURCE_RESTARTING) &&
		info->si_code == CLD_EXITED && info->si_status == 0;
	if (!wanted)
		child->resource->counts.exits[exit_cause(child, info)]++;
	describe_exit(child, info, exit_text, sizeof(exit_text));
	log_full(wanted ? LOG_INFO : LOG_ERR, &fields, "%s", exit_text);
	forget_process(child);
	resource_handle(child->resource, RESOURCE_EXIT, exit_text);
	return 0;
}

/* --- the operations of the state table --- */

static int op_configure(const struct resource_config *config, void *userdata, struct error *error)
{
	_cleanup_control_ struct control_message message = CONTROL_MESSAGE_INIT(CONTROL_CONFIGURE);
	struct child *child = userdata;
	int r;

	r = sealed_new("devplugd-resource", config->text, strlen(config->text));
	if (r < 0)
		return error_set(
			error, r, "cannot create a memfd for the configuration: %s", strerror(-r));
	message.fds[0] = r;
	/* First, so that even the first list has what is booked. */
	r = child->host->send_booked(child, child->host->userdata);
	if (r < 0)
		return error_set(error, r, "cannot send the assigned devices to the child: %s",
			strerror(-r));
	/* It stays ours. A copy would be missing where there are no free descriptors, and the child
	 * would take failed devices for healthy ones. */
	message.fds[1] = child->saved_state.fd;
	r = control_send(child->control_fd, &message);
	message.fds[1] = -EBADF;
	if (r < 0)
		return error_set(error, r, "cannot send to the child: %s", strerror(-r));
	return 0;
}

/* Without it the process is missing in metrics. */
static void send_counters(const struct child *child)
{
	struct control_message message = CONTROL_MESSAGE_INIT(CONTROL_COUNTERS);

	message.fds[0] = child->counters_fd;
	if (child->counters_fd >= 0)
		(void)control_send(child->control_fd, &message);
}

static int attach_process(struct child *child, int output_fd)
{
	sd_event *event = child->host->event;
	int r;

	/* Even without its output a child is of use. */
	(void)relay_new(event, output_fd, child->resource->name, child->pid, &child->relay);
	r = sd_event_add_io(
		event, &child->control_source, child->control_fd, EPOLLIN, on_control, child);
	if (r < 0)
		return r;
	return sd_event_add_child(
		event, &child->exit_source, child->pid, WEXITED, on_child_exit, child);
}

static int op_start(const struct resource_config *config, void *userdata, struct error *error)
{
	struct child *child = userdata;
	struct log_fields fields;
	struct spawned spawned;
	struct spawn_options options = child->host->program;
	int r;

	options.resource = child->resource->name;
	options.user = config->declaration.user;
	r = spawn_child(&options, &spawned, error);
	if (r < 0)
		return r;
	child->pid = spawned.pid;
	child->control_fd = spawned.control_fd;
	child->started_at = now_usec(CLOCK_MONOTONIC);
	child->killed = false;
	r = attach_process(child, spawned.output_fd);
	if (r < 0)
		(void)error_set(error, r, "cannot watch a new child: %s", strerror(-r));
	else {
		send_counters(child);
		r = op_configure(config, child, error);
		/* It has ended already. Its exit, which follows, has the reason. */
		if (r == -EPIPE || r == -ECONNRESET)
			r = 0;
	}
	if (r < 0) {
		(void)kill(child->pid, SIGKILL);
		(void)RETRY_ON_EINTR(waitpid(child->pid, NULL, 0));
		forget_process(child);
		return r;
	}
	fields = fields_of(child, MESSAGE_ID_CHILD_STARTED);
	log_full(LOG_INFO, &fields, "child started (pid %d)", (int)child->pid);
	return 0;
}

static void op_applied(const struct resource_config *before, void *userdata)
{
	struct child *child = userdata;

	/* The child proposes files again, and does not wait for an earlier answer. */
	proposal_drop_pending(child->proposal);
	child->host->on_applied(child, before, child->host->userdata);
}

static int op_open_session(void *userdata, uint64_t *ret_number, struct error *error)
{
	struct control_message message = CONTROL_MESSAGE_INIT(CONTROL_SESSION);
	struct child *child = userdata;
	const struct child_host *host = child->host;
	struct session *session = &child->session;
	enum registration_way registration = child_registration(child);
	bool by_watcher = registration == REGISTRATION_WATCHER;
	int r;

	session_done(session);
	r = host->open_session(registration, child->resource->name, session, host->userdata, error);
	if (r < 0)
		return r;
	*ret_number = session->number;
	if (session_has_no_socket(session))
		return 0;
	(void)snprintf(message.text, sizeof(message.text), "%s%s%s",
		by_watcher ? session->directory : "", by_watcher ? "/" : "", session->name);
	message.session = session->number;
	message.fds[0] = session->listener_fd;
	message.fds[1] = session->kubelet_fd;
	r = control_send(child->control_fd, &message);
	if (r < 0) {
		session_done(session);
		return error_set(
			error, -EIO, "cannot send a session to the child: %s", strerror(-r));
	}
	session_handed_over(session);
	return by_watcher;
}

static int op_end_session(uint64_t number, void *userdata)
{
	struct control_message message = CONTROL_MESSAGE_INIT(CONTROL_END_SESSION);
	struct child *child = userdata;

	if (session_has_no_socket(&child->session)) {
		child->host->end_session(child->host->userdata);
		return 0;
	}
	message.session = number;
	return control_send(child->control_fd, &message);
}

static int op_stop(void *userdata)
{
	const struct control_message message = CONTROL_MESSAGE_INIT(CONTROL_STOP);
	struct child *child = userdata;

	return control_send(child->control_fd, &message);
}

static void op_kill(int signal, void *userdata)
{
	struct child *child = userdata;

	child->killed = true;
	/* By the pidfd where there is one, so never another process that has the number now. */
	if (child->exit_source)
		(void)sd_event_source_send_child_signal(child->exit_source, signal, NULL, 0);
}

static void op_remove_socket(void *userdata)
{
	struct child *child = userdata;

	session_done(&child->session);
}

static void op_set_timer(enum resource_timer timer, uint64_t at, void *userdata)
{
	struct child *child = userdata;
	static const bool limits[_RESOURCE_STATE_MAX] = {
		[RESOURCE_REGISTERING] = true,
		[RESOURCE_ENDING] = true,
		[RESOURCE_DYING] = true,
	};
	bool limit = timer != RESOURCE_TIMER_STATE || limits[child->resource->state];

	child_timers_set(&child->timers, timer, at, limit);
}

static uint64_t op_now(void *userdata)
{
	return now_usec(CLOCK_MONOTONIC);
}

static uint32_t op_random(void *userdata)
{
	uint32_t number;

	if (getrandom(&number, sizeof(number), GRND_NONBLOCK) != (ssize_t)sizeof(number))
		number = (uint32_t)now_usec(CLOCK_MONOTONIC) * 2654435761U;
	return number;
}

static void op_changed(void *userdata)
{
	struct child *child = userdata;

	child->host->on_changed(child->host->userdata);
}

static const struct resource_operations operations = {
	.start = op_start,
	.configure = op_configure,
	.applied = op_applied,
	.open_session = op_open_session,
	.end_session = op_end_session,
	.stop = op_stop,
	.kill = op_kill,
	.remove_socket = op_remove_socket,
	.set_timer = op_set_timer,
	.now = op_now,
	.random = op_random,
	.changed = op_changed,
};

/* --- whose its devices are --- */

static int answer_claims(uint64_t number, int fd, const char *refusal, void *userdata)
{
	struct control_message message = CONTROL_MESSAGE_INIT(CONTROL_OWNERS);
	struct child *child = userdata;
	int r;

	message.number = number;
	message.fds[0] = fd;
	(void)snprintf(message.text, sizeof(message.text), "%s", refusal);
	r = control_send(child->control_fd, &message);
	if (r >= 0 && claimant_is_waiting(child->claimant))
		child->reported = false;
	return r;
}

/* A resource of the driver static has no claims, and no other resource waits for it. */
static bool is_starting(void *userdata)
{
	const struct child *child = userdata;

	if (resource_applied(child->resource)->declaration.driver == &static_driver)
		return false;
	return child->resource->state == RESOURCE_STARTING ||
		child->resource->state == RESOURCE_RESTARTING;
}

static void on_malformed_claims(void *userdata)
{
	struct child *child = userdata;

	resource_handle(
		child->resource, RESOURCE_BROKEN, "the child sent claims that are not valid");
}

static const struct claimant_operations claimant_operations = {
	.answer = answer_claims,
	.is_starting = is_starting,
	.on_malformed = on_malformed_claims,
	.on_note = op_changed,
};

static int answer_proposal(uint64_t number, const char *why, void *userdata)
{
	struct control_message message = CONTROL_MESSAGE_INIT(CONTROL_PUBLISHED);
	struct child *child = userdata;

	op_changed(child);
	message.number = number;
	(void)snprintf(message.text, sizeof(message.text), "%s", why);
	return control_send(child->control_fd, &message);
}

/* --- state files --- */

/* Logs the same failure once. */
static void write_mirror(
	const struct child *child, struct mirror *mirror, int *failure, const char *message)
{
	const struct log_fields fields = fields_of(child, NULL);
	int r;

	if (!mirror->pending)
		return;
	r = mirror_write(mirror);
	if (r < 0 && r != *failure)
		log_full(LOG_WARNING, &fields, "%s: %s", message, strerror(-r));
	*failure = r;
}

uint64_t child_write_state(struct child *child)
{
	bool pending;

	if (!child->devices.pending && !child->saved_state.pending)
		return USEC_INFINITY;
	if (now_usec(CLOCK_MONOTONIC) < child->writing.not_before)
		return child->writing.not_before;
	pace_begin(&child->writing);
	write_mirror(child, &child->devices, &child->write_failure,
		"cannot write the state of the devices");
	if (!child->devices.pending)
		mirror_release(&child->devices);
	child->host->on_devices_written(child, child->host->userdata);
	write_mirror(child, &child->saved_state, &child->save_failure,
		"cannot save the health of devices for a restart of devplugd");
	pending = child->devices.pending || child->saved_state.pending;
	(void)pace_end_of_writing(&child->writing, pending ? STATE_RETRY : WRITE_INTERVAL);
	return pending ? child->writing.not_before : USEC_INFINITY;
}

void child_forget_health(struct child *child)
{
	mirror_remove(&child->saved_state);
}

/* --- --- */

static bool on_timer_receive(void *userdata)
{
	struct child *child = userdata;

	receive_all(child);
	return child->messages_wait;
}

static void on_timer(enum resource_event event, void *userdata)
{
	struct child *child = userdata;

	resource_handle(child->resource, event, NULL);
}

const struct declaration *child_declaration(const struct child *child)
{
	return child->leaving ? NULL : &resource_applied(child->resource)->declaration;
}

enum registration_way child_registration(const struct child *child)
{
	return resource_applied(child->resource)->registration;
}

int child_new(
	const struct child_host *host, const struct resource_config *config, struct child **ret)
{
	_cleanup_(child_freep) struct child *child = calloc(1, sizeof(*child));
	char name[STATE_NAME_MAX];
	int r;

	if (!child)
		return -ENOMEM;
	child->host = host;
	child->control_fd = -EBADF;
	child->counters_fd = counters_new();
	child->session = SESSION_INIT;
	state_devices_name(config->declaration.name, name);
	mirror_init(&child->devices, host->state, name, CONTROL_DEVICES_MAX);
	state_health_name(config->declaration.name, name);
	mirror_init(&child->saved_state, host->state, name, CONTROL_SAVED_STATE_MAX);
	r = resource_new(config, &operations, child, &child->resource);
	if (r >= 0)
		r = arbiter_add(host->arbiter, child->resource->name, &claimant_operations, child,
			&child->claimant);
	if (r >= 0)
		r = proposal_new(host->event, host->published, child->resource, answer_proposal,
			child, &child->proposal);
	if (r >= 0)
		r = child_timers_init(
			&child->timers, host->event, on_timer_receive, on_timer, child);
	if (r < 0)
		return r;
	claimant_set_overlap(child->claimant, config->declaration.overlap);
	r = mirror_restore(&child->saved_state);
	if (r < 0)
		return r;
	*ret = TAKE_PTR(child);
	return 0;
}

struct child *child_free(struct child *child)
{
	if (!child)
		return NULL;
	op_kill(SIGKILL, child);
	session_done(&child->session);
	(void)close_fd(child->counters_fd);
	mirror_release(&child->saved_state);
	child_timers_done(&child->timers);
	if (child->claimant && child->proposal)
		forget_process(child);
	(void)proposal_free(child->proposal);
	(void)claimant_free(child->claimant);
	resource_free(child->resource);
	free(child);
	return NULL;
}
