/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Runs the process that makes children as copies of itself, and decides when it is replaced. Its
 * failures are logged here, because the caller then executes the program instead and has nothing to
 * report. The exchange with the process blocks, but is bounded.
 */
#include "supervisor/process/spawn-template.h"

#include <poll.h>
#include <sys/socket.h>
#include <sys/wait.h>

#include "common/descriptors.h"
#include "common/log.h"
#include "common/spawn-request.h"
#include "supervisor/process/process.h"

struct spawn_template {
	struct spawn_options options;
	char room[TEMPLATE_ROOM + 1];
	struct process process;
	bool useful;       /* it has made a child */
	uint64_t retry_at; /* CLOCK_MONOTONIC; USEC_INFINITY: no more children are made */
};

/* Stops using this process; the event loop reaps it. */
static void give_up(struct spawn_template *template, int why)
{
	if (template->process.control_fd < 0)
		return;
	template->process.control_fd = close_fd(template->process.control_fd);
	if (!template->useful || why == -ETIMEDOUT)
		template->retry_at = now_usec(CLOCK_MONOTONIC) + SPAWN_TEMPLATE_RETRY;
	process_kill(&template->process, SIGKILL);
}

static void on_exit_of_template(const siginfo_t *info, void *userdata)
{
	struct spawn_template *template = userdata;
	char exit_text[768];

	process_exit_text(&template->process, info, exit_text, sizeof(exit_text));
	if (template->retry_at != USEC_INFINITY) {
		log_warning(
			"the template process %s; running children are not affected", exit_text);
		give_up(template, 0);
	}
	process_done(&template->process);
}

static const struct process_events process_events = { .on_exit = on_exit_of_template };

static int start_process(struct spawn_template *template)
{
	struct error error = { 0 };
	int r;

	if (now_usec(CLOCK_MONOTONIC) < template->retry_at)
		return -EAGAIN;
	template->retry_at = now_usec(CLOCK_MONOTONIC) + SPAWN_TEMPLATE_RETRY;
	template->useful = false;
	r = process_start(&template->process, &template->options, &error);
	if (r < 0)
		log_warning(
			"cannot start the template process: %s; children execute the program instead",
			error.message);
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
	int r = send_request(template->process.control_fd, identity, resource, ends);

	return r < 0 ? r : await_reply(template->process.control_fd, ret);
}

/* See struct spawn_options. */
static int make_copy(struct spawn_template *template, const struct identity *identity,
	const char *resource, const struct child_ends *ends, pid_t *ret_pid)
{
	struct spawn_reply reply = { 0 };
	int r;

	if (template->process.pid == 0) {
		r = start_process(template);
		if (r < 0)
			return r;
	}
	if (template->process.control_fd < 0)
		return -EAGAIN;
	r = converse(template, identity, resource, ends, &reply);
	if (r < 0) {
		log_warning("the template process (pid %d) does not answer: %s; executing "
			    "the program instead",
			(int)template->process.pid, strerror(-r));
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
	(void)snprintf(template->room, sizeof(template->room), "%*s", TEMPLATE_ROOM, "");
	template->options = *program;
	template->options.resource = TEMPLATE_ARGUMENT;
	template->options.template_room = template->room;
	process_init(&template->process, event, NULL, NULL, &process_events, template);
	(void)start_process(template);
	program->copy = make_copy;
	program->template = template;
	return 0;
}

void spawn_template_dismiss(struct spawn_template *template)
{
	template->process.control_fd = close_fd(template->process.control_fd);
	template->retry_at = USEC_INFINITY;
	process_kill(&template->process, SIGKILL);
}

struct spawn_template *spawn_template_free(struct spawn_template *template)
{
	pid_t pid;

	if (!template)
		return NULL;
	pid = template->process.pid;
	process_done(&template->process);
	if (pid > 0)
		(void)RETRY_ON_EINTR(waitpid(pid, NULL, 0));
	free(template);
	return NULL;
}
