/* SPDX-License-Identifier: Apache-2.0 */
/*
 * All event sources of a child have one priority, so that a child that floods its control socket or
 * its output cannot keep the loop from others. What it said before it died is therefore read when
 * its exit is handled.
 */
#include <fcntl.h>
#include <signal.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "child-claims.h"
#include "child-devices.h"
#include "child-memory.h"
#include "child-message.h"
#include "child-publish.h"
#include "child.h"
#include "common/control.h"
#include "common/log.h"
#include "common/message-id.h"
#include "common/sealed.h"
#include "manager.h"
#include "spawn.h"

#define TIMER_ACCURACY    USEC_PER_MSEC
#define LAST_MESSAGES_MAX 256

static struct log_fields fields_of(const struct child *child, const char *message_id)
{
	return (struct log_fields){
		.resource = child->resource->name,
		.child_pid = child->pid,
		.message_id = message_id,
		.generation = child->manager->generation,
	};
}

static void forget_process(struct child *child)
{
	child->exit_source = sd_event_source_disable_unref(child->exit_source);
	child->control_source = sd_event_source_disable_unref(child->control_source);
	child->control_fd = close_fd(child->control_fd);
	child->relay = relay_free(child->relay);
	child->pid = 0;
	child->gone = 0;
	child_claims_forget(child);
	child_publish_forget(child);
	child_devices_forget(child);
}

static int on_control(sd_event_source *source, int fd, uint32_t revents, void *userdata)
{
	(void)child_receive(userdata);
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
		how, uptime, *last ? "; its last words: " : "", last);
}

static int on_child_exit(sd_event_source *source, const siginfo_t *info, void *userdata)
{
	struct child *child = userdata;
	struct log_fields fields = fields_of(child, MESSAGE_ID_CHILD_DIED);
	bool wanted, listening = false;
	int enabled;
	char obituary[768];

	if (sd_event_source_get_enabled(child->control_source, &enabled) >= 0)
		listening = enabled != SD_EVENT_OFF;
	for (unsigned i = 0; i < LAST_MESSAGES_MAX && listening; i++)
		listening = child_receive(child);
	if (child->relay)
		relay_drain(child->relay);

	wanted = (child->resource->state == RESOURCE_STOPPING ||
			 child->resource->state == RESOURCE_RESTARTING) &&
		info->si_code == CLD_EXITED && info->si_status == 0;
	describe_exit(child, info, obituary, sizeof(obituary));
	log_full(wanted ? LOG_INFO : LOG_ERR, &fields, "%s", obituary);
	forget_process(child);
	resource_handle(child->resource, RESOURCE_EXIT, obituary);
	return 0;
}

/* --- the operations of the state table --- */

static int op_configure(const char *text, void *userdata, struct error *error)
{
	_cleanup_control_ struct control_message message = CONTROL_MESSAGE_INIT(CONTROL_CONFIGURE);
	struct child *child = userdata;
	int r;

	r = sealed_new("devplugd-resource", text, strlen(text));
	if (r < 0)
		return error_set(
			error, r, "cannot create a memfd for the configuration: %s", strerror(-r));
	message.fds[0] = r;
	if (child_memory_fd(child) >= 0)
		message.fds[1] = fcntl(child_memory_fd(child), F_DUPFD_CLOEXEC, 3);
	r = control_send(child->control_fd, &message);
	if (r < 0)
		return error_set(error, r, "cannot send to the child: %s", strerror(-r));
	return 0;
}

static int attach_process(struct child *child, int output_fd)
{
	sd_event *event = child->manager->event;
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

static int op_start(const char *text, void *userdata, struct error *error)
{
	struct child *child = userdata;
	struct log_fields fields;
	struct spawned spawned;
	const struct spawn_options options = {
		.executable_fd = child->manager->executable_fd,
		.executable = child->manager->executable,
		.resource = child->resource->name,
		.user = child->resource->user,
		.template = child->manager->template,
	};
	int r;

	r = spawn_child(&options, &spawned, error);
	if (r < 0)
		return r;
	child->pid = spawned.pid;
	child->control_fd = spawned.control_fd;
	child->started_at = now_usec(CLOCK_MONOTONIC);
	r = attach_process(child, spawned.output_fd);
	if (r < 0)
		(void)error_set(error, r, "cannot watch a new child: %s", strerror(-r));
	else
		r = op_configure(text, child, error);
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

static int open_session(struct child *child, struct control_message *message, struct error *error)
{
	const struct manager *manager = child->manager;
	const struct kubelet_config *kubelet = &manager->config->kubelet;
	struct session *session = &child->session;
	uint64_t number = manager->last_session + 1;
	int r;

	if (child->registration == REGISTRATION_WATCHER) {
		r = session_open_watched(kubelet->plugins_registry_dir, child->resource->name,
			manager->instance, number, session, error);
		if (r >= 0)
			(void)snprintf(message->text, sizeof(message->text), "%s/%s",
				session->directory, session->name);
	} else {
		r = session_open(kubelet->device_plugin_dir, child->resource->name,
			manager->instance, number, session, error);
		if (r >= 0)
			(void)snprintf(message->text, sizeof(message->text), "%s", session->name);
	}
	message->session = session->number;
	message->fds[0] = session->listener_fd;
	message->fds[1] = session->kubelet_fd;
	return r;
}

static int op_open_session(void *userdata, uint64_t *ret_number, struct error *error)
{
	struct control_message message = CONTROL_MESSAGE_INIT(CONTROL_SESSION);
	struct child *child = userdata;
	struct manager *manager = child->manager;
	int r;

	session_done(&child->session);
	r = open_session(child, &message, error);
	if (r < 0)
		return r;
	manager->last_session++;
	r = control_send(child->control_fd, &message);
	if (r < 0) {
		session_done(&child->session);
		return error_set(
			error, -EIO, "cannot send a session to the child: %s", strerror(-r));
	}
	session_handed_over(&child->session);
	*ret_number = message.session;
	return child->registration == REGISTRATION_WATCHER;
}

static int op_end_session(uint64_t number, void *userdata)
{
	struct control_message message = CONTROL_MESSAGE_INIT(CONTROL_END_SESSION);
	struct child *child = userdata;

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

	/* By the pidfd where there is one, so never a stranger who has the number now. */
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
	sd_event_source *source = child->timers[timer];

	if (at != USEC_INFINITY)
		(void)sd_event_source_set_time(source, at);
	(void)sd_event_source_set_enabled(
		source, at == USEC_INFINITY ? SD_EVENT_OFF : SD_EVENT_ONESHOT);
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

	manager_changed(child->manager);
}

static const struct resource_operations operations = {
	.start = op_start,
	.configure = op_configure,
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

/* --- --- */

static int on_state_timer(sd_event_source *source, uint64_t usec, void *userdata)
{
	struct child *child = userdata;

	resource_handle(child->resource, RESOURCE_TIMEOUT, NULL);
	return 0;
}

static int on_answer_timer(sd_event_source *source, uint64_t usec, void *userdata)
{
	struct child *child = userdata;

	resource_handle(child->resource, RESOURCE_UNANSWERED, NULL);
	return 0;
}

static int on_watchdog_timer(sd_event_source *source, uint64_t usec, void *userdata)
{
	struct child *child = userdata;

	resource_handle(child->resource, RESOURCE_SILENT, NULL);
	return 0;
}

int child_new(struct manager *manager, const struct resource_config *config, struct child **ret)
{
	static const sd_event_time_handler_t handlers[_RESOURCE_TIMER_MAX] = {
		[RESOURCE_TIMER_STATE] = on_state_timer,
		[RESOURCE_TIMER_ANSWER] = on_answer_timer,
		[RESOURCE_TIMER_WATCHDOG] = on_watchdog_timer,
	};
	_cleanup_(child_freep) struct child *child = calloc(1, sizeof(*child));
	int r;

	if (!child)
		return -ENOMEM;
	child->manager = manager;
	child->control_fd = child->devices_fd = child->memory_fd = child->publication.fd =
		child->claims.fd = -EBADF;
	child->session = SESSION_INIT;
	child->registration = config->registration;
	child->overlap = config->declaration.overlap;
	r = resource_new(config, &operations, child, &child->resource);
	if (r < 0)
		return r;
	child_memory_open(child);
	/* Made once, so that setting one later cannot fail. */
	for (size_t i = 0; i < _RESOURCE_TIMER_MAX; i++) {
		r = sd_event_add_time(manager->event, &child->timers[i], CLOCK_MONOTONIC, 0,
			TIMER_ACCURACY, handlers[i], child);
		if (r < 0)
			return r;
		(void)sd_event_source_set_enabled(child->timers[i], SD_EVENT_OFF);
	}
	*ret = TAKE_PTR(child);
	return 0;
}

struct child *child_free(struct child *child)
{
	if (!child)
		return NULL;
	op_kill(SIGKILL, child);
	session_done(&child->session);
	close_fd(child->memory_fd);
	for (size_t i = 0; i < _RESOURCE_TIMER_MAX; i++)
		sd_event_source_disable_unref(child->timers[i]);
	if (child->resource)
		forget_process(child);
	resource_free(child->resource);
	(void)claims_list_free(child->claims.list);
	free(child->claims.note);
	free(child);
	return NULL;
}
