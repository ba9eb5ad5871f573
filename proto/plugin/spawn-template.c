/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The template makes a process that forks the child and ends, so that the child becomes the
 * supervisor's; the child waits at a gate until that is done, because only then is its parent the
 * one whose death it must not survive. The process between shares the template's memory, which is
 * so copied once for each child. Single-threaded, and nothing is held but the socket, so there is
 * nothing that a copy would have to undo.
 */
#include "proto/plugin/spawn-template.h"

#include <fcntl.h>
#include <linux/close_range.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>

#include "common/control.h"
#include "common/log.h"
#include "common/spawn-request.h"
#include "common/unused-code.h"

/* Descriptors that a child may have inherited where close_range() is unknown. */
#define FEW_FDS 64
/* Requests come in bursts, at a start and at a reload. */
#define REST_AFTER_MSEC 2000

struct template
{
	char *words; /* the memory of the arguments, which ps shows */
	size_t size;
	pid_t supervisor;
};

struct birth {
	struct spawn_request request;
	struct child_ends ends;
	int gate[2]; /* closed by the template when the child is the supervisor's */
};

static void birth_done(struct birth *birth)
{
	int *fds[] = { &birth->ends.output, &birth->ends.control, &birth->ends.status,
		&birth->gate[0], &birth->gate[1] };

	for (size_t i = 0; i < ARRAY_SIZE(fds); i++)
		*fds[i] = close_fd(*fds[i]);
}

/* --- in the child --- */

static void close_all_but_standard(void)
{
	if (close_range(CONTROL_FD + 1, ~0U, 0) >= 0)
		return;
	for (int fd = CONTROL_FD + 1; fd < FEW_FDS; fd++)
		(void)close(fd);
}

static const char *rename_process(const struct template *template, const char *resource)
{
	size_t program = strlen(template->words) + 1, length = strlen(resource);

	if (length >= template->size - program)
		length = template->size - program - 1;
	memset(template->words + program, 0, template->size - program);
	memcpy(template->words + program, resource, length);
	return template->words + program;
}

static void enter(const struct template *template, struct birth *birth)
{
	struct entry_failure failure;
	char none;

	birth->gate[1] = close_fd(birth->gate[1]);
	(void)RETRY_ON_EINTR(read(birth->gate[0], &none, sizeof(none)));
	if (entry_prepare(&birth->ends, &birth->request.identity, template->supervisor, &failure) <
		0) {
		(void)!write(birth->ends.status, &failure, sizeof(failure));
		_exit(EXIT_FAILURE);
	}
	/* What exec does: the change of user forbade core dumps. */
	(void)prctl(PR_SET_DUMPABLE, 1, 0, 0, 0);
	/* The end of the status pipe tells the supervisor that all is well. */
	close_all_but_standard();
}

/* --- in the template --- */

/* Returns 1 in the child, 0 with the reply or negative errno in the template. */
static int give_birth(const struct template *template, struct birth *birth, struct spawn_reply *ret)
{
	volatile struct spawn_reply reply = { .code = ECHILD };
	pid_t between;

	if (pipe2(birth->gate, O_CLOEXEC) < 0)
		return -errno;
	between = vfork();
	if (between < 0)
		return -errno;
	if (between == 0) {
		pid_t child = fork();

		if (child == 0) {
			enter(template, birth);
			return 1;
		}
		reply.pid = child < 0 ? 0 : child;
		reply.code = child < 0 ? errno : 0;
		_exit(EXIT_SUCCESS);
	}
	(void)RETRY_ON_EINTR(waitpid(between, NULL, 0));
	*ret = (struct spawn_reply){ .pid = reply.pid, .code = reply.code };
	return 0;
}

static int take_fds(struct msghdr *msg, struct child_ends *ends)
{
	struct cmsghdr *cmsg = CMSG_FIRSTHDR(msg);
	int fds[TEMPLATE_FDS];

	if (!cmsg || cmsg->cmsg_level != SOL_SOCKET || cmsg->cmsg_type != SCM_RIGHTS ||
		cmsg->cmsg_len != CMSG_LEN(sizeof(fds)))
		return -EBADMSG;
	memcpy(fds, CMSG_DATA(cmsg), sizeof(fds));
	ends->output = fds[0];
	ends->control = fds[1];
	ends->status = fds[2];
	return 0;
}

/* After a while without one, what the last ones needed goes. */
static void await_request(void)
{
	struct pollfd pollfd = { .fd = CONTROL_FD, .events = POLLIN };

	if (RETRY_ON_EINTR(poll(&pollfd, 1, REST_AFTER_MSEC)) == 0)
		release_unused_code();
}

/* Returns 1 with a request, 0 when the supervisor is gone, or negative errno. */
static int receive_request(struct birth *birth)
{
	struct iovec iov = { .iov_base = &birth->request, .iov_len = sizeof(birth->request) };
	union {
		char bytes[CMSG_SPACE(sizeof(int) * TEMPLATE_FDS)];
		struct cmsghdr align;
	} control;
	struct msghdr msg = {
		.msg_iov = &iov,
		.msg_iovlen = 1,
		.msg_control = control.bytes,
		.msg_controllen = sizeof(control.bytes),
	};
	ssize_t n;

	await_request();
	n = RETRY_ON_EINTR(recvmsg(CONTROL_FD, &msg, MSG_CMSG_CLOEXEC));
	if (n <= 0)
		return n < 0 ? -errno : 0;
	if (n != (ssize_t)sizeof(birth->request) || msg.msg_flags & (MSG_TRUNC | MSG_CTRUNC) ||
		take_fds(&msg, &birth->ends) < 0)
		return -EBADMSG;
	birth->request.resource[sizeof(birth->request.resource) - 1] = '\0';
	return 1;
}

/* Returns 1 in the child, 0 in the template, negative errno if there is no more to be done. */
static int serve_one(const struct template *template, const char **ret_resource)
{
	_cleanup_(birth_done) struct birth birth = {
		.ends = { STDIN_FILENO, -EBADF, -EBADF, -EBADF, -EBADF },
		.gate = { -EBADF, -EBADF },
	};
	struct spawn_reply reply = { 0 };
	int r;

	r = receive_request(&birth);
	if (r <= 0)
		return r < 0 ? r : -ECONNRESET;
	r = give_birth(template, &birth, &reply);
	if (r == 1) {
		*ret_resource = rename_process(template, birth.request.resource);
		/* They are closed. */
		birth = (struct birth){ .ends = { -EBADF, -EBADF, -EBADF, -EBADF, -EBADF },
			.gate = { -EBADF, -EBADF } };
		return 1;
	}
	if (r < 0)
		reply = (struct spawn_reply){ .code = -r };
	/* Now, because the supervisor waits for the child from the reply on. */
	birth_done(&birth);
	return RETRY_ON_EINTR(send(CONTROL_FD, &reply, sizeof(reply), MSG_NOSIGNAL)) < 0 ? -errno
											 : 0;
}

/* It has done its work, and children are to look like executed ones. */
static void forget_variable(void)
{
	char *value = getenv(TEMPLATE_VARIABLE);

	if (!value)
		return;
	(void)unsetenv(TEMPLATE_VARIABLE);
	memset(value - strlen(TEMPLATE_VARIABLE "="), 0, strlen(TEMPLATE_ENVIRONMENT));
}

int spawn_template_serve(int argc, char *argv[], const char **ret_resource)
{
	const char *last = argv[argc - 1] + strlen(argv[argc - 1]);
	struct template template = {
		.words = argv[0],
		.size = (size_t)(last - argv[0]) + 1,
		.supervisor = getppid(),
	};
	int r;

	(void)prctl(PR_SET_NAME, "plugin-template");
	forget_variable();
	if (argc > 2)
		memset(argv[2], 0, strlen(argv[2]));
	do
		r = serve_one(&template, ret_resource);
	while (r == 0);
	if (r < 0 && r != -ECONNRESET)
		log_error("the template cannot go on: %s", strerror(-r));
	return r == -ECONNRESET ? 0 : r;
}
