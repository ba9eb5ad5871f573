/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An answer counts for devices that were gone an interval before the question, and for resources
 * that were served by then: what was on its way to a container has arrived, and the kubelet knows
 * its pods again after it was started anew.
 */
#include "pod-resources.h"

#include <signal.h>
#include <sys/wait.h>

#include "common/control.h"
#include "common/log.h"
#include "common/sealed.h"
#include "common/spawn-request.h"
#include "manager.h"
#include "spawn.h"

#define ANSWER_TIMEOUT (15 * USEC_PER_SEC)
#define ANSWER_MAX     (16U << 20)

struct pod_resources {
	struct manager *manager;
	sd_event_source *timer, *deadline;
	bool waiting; /* the timer is set */

	pid_t pid; /* of the process that asks; 0: none */
	int control_fd;
	struct relay *relay;
	sd_event_source *exit_source, *control_source;
	uint64_t asked_at; /* CLOCK_MONOTONIC */
	char *failure;     /* what went wrong last; NULL: nothing */
};

static const struct log_fields fields = { 0 };

/* Says the same only once. */
static void note(struct pod_resources *pods, const char *failure)
{
	if (failure && (!pods->failure || !streq(failure, pods->failure)))
		log_full(LOG_WARNING, &fields,
			"the kubelet does not tell which devices are in use: %s; those that have "
			"vanished stay listed",
			failure);
	free(pods->failure);
	pods->failure = failure ? strdup(failure) : NULL;
}

static void forget_process(struct pod_resources *pods)
{
	pods->exit_source = sd_event_source_disable_unref(pods->exit_source);
	pods->control_source = sd_event_source_disable_unref(pods->control_source);
	pods->deadline = sd_event_source_disable_unref(pods->deadline);
	pods->control_fd = close_fd(pods->control_fd);
	pods->relay = relay_free(pods->relay);
	pods->pid = 0;
}

/* --- the answer --- */

static bool wants_answer(const struct pod_resources *pods, const struct child *child)
{
	uint64_t until = pods->asked_at - pods->manager->config->kubelet.pod_resources_interval;

	return child->gone > 0 && child->resource->state == RESOURCE_SERVING &&
		child->resource->serving_since <= until;
}

/* The ids of one resource, from lines of "RESOURCE<TAB>ID". */
static int select_ids(const char *text, const char *resource, char **ret, size_t *ret_size)
{
	FILE *stream = open_memstream(ret, ret_size);
	size_t length = strlen(resource);

	if (!stream)
		return -ENOMEM;
	for (const char *line = text, *end; *line; line = *end ? end + 1 : end) {
		end = strchrnul(line, '\n');
		if (strncmp(line, resource, length) == 0 && line[length] == '\t')
			(void)fprintf(stream, "%.*s\n", (int)(end - line - (ptrdiff_t)length - 1),
				line + length + 1);
	}
	return fclose(stream) != 0 ? -ENOMEM : 0;
}

static void tell(struct pod_resources *pods, struct child *child, const char *text)
{
	_cleanup_control_ struct control_message message = CONTROL_MESSAGE_INIT(CONTROL_IN_USE);
	_cleanup_free_ char *ids = NULL;
	size_t size;
	int r;

	if (select_ids(text, child->resource->name, &ids, &size) < 0)
		return;
	r = sealed_new("in-use", ids, size);
	if (r < 0)
		return;
	message.fds[0] = r;
	message.session = pods->asked_at - pods->manager->config->kubelet.pod_resources_interval;
	/* If it does not read now: there will be another answer. */
	(void)control_send(child->control_fd, &message);
}

static void take_answer(struct pod_resources *pods, struct control_message *message)
{
	_cleanup_free_ char *text = NULL;
	struct manager *manager = pods->manager;
	size_t size;

	if (sealed_read(message->fds[0], ANSWER_MAX, &text, &size) < 0) {
		note(pods, "the process that asks it sent something that is no answer");
		return;
	}
	note(pods, NULL);
	for (size_t i = 0; i < manager->n_children; i++)
		if (wants_answer(pods, manager->children[i]))
			tell(pods, manager->children[i], text);
}

static void receive(struct pod_resources *pods)
{
	_cleanup_control_ struct control_message message = CONTROL_MESSAGE_INIT(0);
	int r;

	r = control_receive(pods->control_fd, &message);
	if (r == -EAGAIN)
		return;
	(void)sd_event_source_set_enabled(pods->control_source, SD_EVENT_OFF);
	if (r >= 0 && message.type == CONTROL_ASSIGNED)
		take_answer(pods, &message);
	else if (r >= 0 && message.type == CONTROL_REFUSED)
		note(pods, message.text);
}

static int on_control(sd_event_source *source, int fd, uint32_t revents, void *userdata)
{
	receive(userdata);
	return 0;
}

static int on_process_exit(sd_event_source *source, const siginfo_t *info, void *userdata)
{
	struct pod_resources *pods = userdata;
	int enabled = SD_EVENT_OFF;

	/* What it said before it ended. */
	if (sd_event_source_get_enabled(pods->control_source, &enabled) >= 0 &&
		enabled != SD_EVENT_OFF)
		receive(pods);
	if (info->si_code != CLD_EXITED || info->si_status != 0)
		note(pods, "the process that asks it failed");
	forget_process(pods);
	pod_resources_look(pods);
	return 0;
}

static int on_deadline(sd_event_source *source, uint64_t usec, void *userdata)
{
	struct pod_resources *pods = userdata;

	note(pods, "it did not answer in time");
	(void)sd_event_source_send_child_signal(pods->exit_source, SIGKILL, NULL, 0);
	return 0;
}

/* --- the question --- */

static int start(struct pod_resources *pods, int kubelet_fd, struct error *error)
{
	struct manager *manager = pods->manager;
	const struct spawn_options options = {
		.executable_fd = manager->executable_fd,
		.executable = manager->executable,
		.resource = POD_READER_NAME,
		.template = manager->template,
	};
	struct control_message message = CONTROL_MESSAGE_INIT(CONTROL_LOOK);
	struct spawned spawned;
	int r;

	r = spawn_child(&options, &spawned, error);
	if (r < 0)
		return r;
	pods->pid = spawned.pid;
	pods->control_fd = spawned.control_fd;
	pods->asked_at = now_usec(CLOCK_MONOTONIC);
	(void)relay_new(
		manager->event, spawned.output_fd, POD_READER_NAME, pods->pid, &pods->relay);
	r = sd_event_add_io(
		manager->event, &pods->control_source, pods->control_fd, EPOLLIN, on_control, pods);
	if (r >= 0)
		r = sd_event_add_time_relative(manager->event, &pods->deadline, CLOCK_MONOTONIC,
			ANSWER_TIMEOUT, USEC_PER_SEC, on_deadline, pods);
	if (r >= 0)
		r = sd_event_add_child(manager->event, &pods->exit_source, pods->pid, WEXITED,
			on_process_exit, pods);
	message.fds[0] = kubelet_fd;
	if (r >= 0)
		r = control_send(pods->control_fd, &message);
	if (r >= 0)
		return 0;
	(void)kill(pods->pid, SIGKILL);
	(void)RETRY_ON_EINTR(waitpid(pods->pid, NULL, 0));
	forget_process(pods);
	return error_set(error, r, "cannot watch a new process: %s", strerror(-r));
}

static int connect_kubelet(const struct pod_resources *pods, int *ret_fd)
{
	_cleanup_free_ char *directory =
		strdup(pods->manager->config->kubelet.pod_resources_socket);
	char *slash;

	if (!directory)
		return -ENOMEM;
	slash = strrchr(directory, '/');
	*slash = '\0';
	return session_connect(directory, slash + 1, ret_fd);
}

static bool is_wanted(const struct pod_resources *pods)
{
	const struct manager *manager = pods->manager;

	if (!manager->config->kubelet.pod_resources || manager->stopping)
		return false;
	for (size_t i = 0; i < manager->n_children; i++)
		if (manager->children[i]->gone > 0)
			return true;
	return false;
}

static int on_due(sd_event_source *source, uint64_t usec, void *userdata)
{
	struct pod_resources *pods = userdata;
	_cleanup_close_ int fd = -EBADF;
	struct error error = { 0 };
	int r;

	pods->waiting = false;
	if (!is_wanted(pods))
		return 0;
	r = connect_kubelet(pods, &fd);
	if (r >= 0 && start(pods, fd, &error) >= 0)
		return 0;
	/* A kubelet that is away or does not have it is nothing to be told about. */
	if (r >= 0)
		note(pods, error.message);
	else if (r != -ENOENT && r != -ECONNREFUSED)
		note(pods, strerror(-r));
	pod_resources_look(pods);
	return 0;
}

void pod_resources_look(struct pod_resources *pods)
{
	uint64_t interval = pods->manager->config->kubelet.pod_resources_interval;

	if (pods->waiting || pods->pid > 0 || !is_wanted(pods))
		return;
	if (sd_event_source_set_time(pods->timer, now_usec(CLOCK_MONOTONIC) + interval) >= 0 &&
		sd_event_source_set_enabled(pods->timer, SD_EVENT_ONESHOT) >= 0)
		pods->waiting = true;
}

int pod_resources_new(struct manager *manager, struct pod_resources **ret)
{
	_cleanup_(pod_resources_freep) struct pod_resources *pods = calloc(1, sizeof(*pods));
	int r;

	if (!pods)
		return -ENOMEM;
	pods->manager = manager;
	pods->control_fd = -EBADF;
	r = sd_event_add_time(manager->event, &pods->timer, CLOCK_MONOTONIC, 0, 100 * USEC_PER_MSEC,
		on_due, pods);
	if (r < 0)
		return r;
	(void)sd_event_source_set_enabled(pods->timer, SD_EVENT_OFF);
	*ret = TAKE_PTR(pods);
	return 0;
}

struct pod_resources *pod_resources_free(struct pod_resources *pods)
{
	if (!pods)
		return NULL;
	if (pods->exit_source)
		(void)sd_event_source_send_child_signal(pods->exit_source, SIGKILL, NULL, 0);
	forget_process(pods);
	sd_event_source_disable_unref(pods->timer);
	free(pods->failure);
	free(pods);
	return NULL;
}
