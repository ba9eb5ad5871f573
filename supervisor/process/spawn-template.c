/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Runs the process that makes children as copies of itself, and decides when it is replaced. Its
 * failures are logged here, because a child that is executed instead is started without it. The
 * exchange with the process blocks, but is bounded.
 */
#include "supervisor/process/spawn-template.h"

#include <poll.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>

#include "common/descriptors.h"
#include "common/log.h"
#include "common/spawn-request.h"
#include "supervisor/process/relay.h"

struct spawn_template {
	sd_event *event;
	struct spawn_options options;
	char room[TEMPLATE_ROOM + 1];
	pid_t pid; /* 0: none */
	int socket_fd;
	struct relay *relay;
	sd_event_source *exit_source;
	bool useful;       /* it has made a child */
	uint64_t retry_at; /* CLOCK_MONOTONIC */
};

/* No more of this one; the event loop reaps it. */
static void give_up(struct spawn_template *template, int why)
{
	if (template->socket_fd < 0)
		return;
	template->socket_fd = close_fd(template->socket_fd);
	if (!template->useful || why == -ETIMEDOUT)
		template->retry_at = now_usec(CLOCK_MONOTONIC) + SPAWN_TEMPLATE_RETRY;
	(void)sd_event_source_send_child_signal(template->exit_source, SIGKILL, NULL, 0);
}

static void forget_process(struct spawn_template *template)
{
	template->socket_fd = close_fd(template->socket_fd);
	template->exit_source = sd_event_source_disable_unref(template->exit_source);
	template->relay = relay_free(template->relay);
	template->pid = 0;
}

#define NOT_AFFECTED "; running children are not affected"

static int on_exit_of_template(sd_event_source *source, const siginfo_t *info, void *userdata)
{
	struct spawn_template *template = userdata;

	if (template->relay)
		relay_drain(template->relay);
	if (info->si_code == CLD_EXITED)
		log_warning("the template process (pid %d) exited with status %d" NOT_AFFECTED,
			(int)template->pid, info->si_status);
	else
		log_warning("the template process (pid %d) was killed by SIG%s" NOT_AFFECTED,
			(int)template->pid, sigabbrev_np(info->si_status) ?: "?");
	give_up(template, 0);
	forget_process(template);
	return 0;
}

static int start_process(struct spawn_template *template)
{
	struct spawned spawned;
	struct error error = { 0 };
	int r;

	if (now_usec(CLOCK_MONOTONIC) < template->retry_at)
		return -EAGAIN;
	template->retry_at = now_usec(CLOCK_MONOTONIC) + SPAWN_TEMPLATE_RETRY;
	template->useful = false;
	r = spawn_child(&template->options, &spawned, &error);
	if (r < 0) {
		log_warning(
			"cannot start the template process: %s; children execute the program instead",
			error.message);
		return r;
	}
	template->pid = spawned.pid;
	template->socket_fd = spawned.control_fd;
	(void)relay_new(template->event, spawned.output_fd, NULL, template->pid, &template->relay);
	r = sd_event_add_child(template->event, &template->exit_source, template->pid, WEXITED,
		on_exit_of_template, template);
	if (r < 0) {
		log_warning("cannot watch the template process: %s", strerror(-r));
		(void)kill(template->pid, SIGKILL);
		(void)RETRY_ON_EINTR(waitpid(template->pid, NULL, 0));
		forget_process(template);
	}
	return r;
}

static int send_request(int fd, const struct identity *identity, const char *resource,
	const struct child_ends *ends)
{
	const int fds[TEMPLATE_FDS] = { ends->output, ends->control, ends->status };
	struct spawn_request request = { .identity = *identity };
	struct iovec iov = { .iov_base = &request, .iov_len = sizeof(request) };

	if (strlen(resource) >= sizeof(request.resource))
		return -ENAMETOOLONG;
	(void)strcpy(request.resource, resource);
	return descriptors_send(fd, &iov, 1, fds, TEMPLATE_FDS);
}

static int await_reply(int fd, struct spawn_reply *ret)
{
	struct pollfd pollfd = { .fd = fd, .events = POLLIN };
	struct spawn_reply reply;
	ssize_t n;

	n = RETRY_ON_EINTR(poll(&pollfd, 1, SPAWN_TEMPLATE_TIMEOUT_MSEC));
	if (n == 0)
		return -ETIMEDOUT;
	if (n > 0)
		n = RETRY_ON_EINTR(recv(fd, &reply, sizeof(reply), MSG_DONTWAIT));
	if (n < 0)
		return -errno;
	if (n != (ssize_t)sizeof(reply))
		return n == 0 ? -ECONNRESET : -EBADMSG;
	*ret = reply;
	return 0;
}

static int converse(struct spawn_template *template, const struct identity *identity,
	const char *resource, const struct child_ends *ends, struct spawn_reply *ret)
{
	int r = send_request(template->socket_fd, identity, resource, ends);

	return r < 0 ? r : await_reply(template->socket_fd, ret);
}

/* See struct spawn_options. */
static int make_copy(struct spawn_template *template, const struct identity *identity,
	const char *resource, const struct child_ends *ends, pid_t *ret_pid)
{
	struct spawn_reply reply = { 0 };
	int r;

	if (template->pid == 0) {
		r = start_process(template);
		if (r < 0)
			return r;
	}
	if (template->socket_fd < 0)
		return -EAGAIN;
	r = converse(template, identity, resource, ends, &reply);
	if (r < 0) {
		log_warning("the template process (pid %d) does not answer: %s; executing "
			    "the program instead",
			(int)template->pid, strerror(-r));
		give_up(template, r);
		return r;
	}
	if (reply.pid <= 0)
		return reply.code > 0 ? -reply.code : -EBADMSG;
	template->useful = true;
	template->retry_at = 0;
	*ret_pid = reply.pid;
	return 0;
}

int spawn_template_new(sd_event *event, struct spawn_options *program)
{
	struct spawn_template *template = calloc(1, sizeof(*template));

	if (!template)
		return -ENOMEM;
	template->event = sd_event_ref(event);
	(void)snprintf(template->room, sizeof(template->room), "%*s", TEMPLATE_ROOM, "");
	template->options = *program;
	template->options.resource = TEMPLATE_ARGUMENT;
	template->options.template_room = template->room;
	template->socket_fd = -EBADF;
	(void)start_process(template);
	program->copy = make_copy;
	program->template = template;
	return 0;
}

void spawn_template_dismiss(struct spawn_template *template)
{
	template->socket_fd = close_fd(template->socket_fd);
	template->retry_at = USEC_INFINITY;
	if (template->pid > 0) {
		(void)sd_event_source_set_enabled(template->exit_source, SD_EVENT_OFF);
		(void)sd_event_source_send_child_signal(template->exit_source, SIGKILL, NULL, 0);
	}
}

struct spawn_template *spawn_template_free(struct spawn_template *template)
{
	if (!template)
		return NULL;
	spawn_template_dismiss(template);
	if (template->pid > 0)
		(void)RETRY_ON_EINTR(waitpid(template->pid, NULL, 0));
	forget_process(template);
	sd_event_unref(template->event);
	free(template);
	return NULL;
}
