/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Starts children as copies of one prepared process, which is faster and shares its memory. The
 * template makes a process that forks the child and ends, so that the child becomes the
 * supervisor's. The child waits until that is done, because only then is its parent the process
 * whose death must end it. The intermediate process shares the template's memory, which is
 * therefore copied only once for each child. Everything is single-threaded and holds nothing but
 * the socket, so a copy has nothing to undo.
 */
#include "proto/plugin/template-process.h"

#include <fcntl.h>
#include <linux/close_range.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>

#include "common/control-child.h"
#include "common/descriptors.h"
#include "common/log.h"
#include "common/spawn-request.h"

/* Descriptors that a child may have inherited where close_range() is unknown. */
#define FEW_FDS 64

struct template
{
	char *words; /* the memory of the arguments, which ps shows */
	size_t size;
	pid_t supervisor;
};

struct start {
	struct spawn_request request;
	struct child_ends ends;
	int gate[2]; /* closed by the template when the child is the supervisor's */
};

static void start_done(struct start *start)
{
	int *fds[] = { &start->ends.output, &start->ends.control, &start->ends.status,
		&start->gate[0], &start->gate[1] };

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

/* The arguments are overwritten because prctl(PR_SET_NAME) has room for 15 bytes, and PR_SET_MM
 * needs a capability; without the name of the resource, ps could not distinguish children. */
static const char *rename_process(const struct template *template, const char *resource)
{
	size_t program = strlen(template->words) + 1, length = strlen(resource);

	if (length >= template->size - program)
		length = template->size - program - 1;
	memset(template->words + program, 0, template->size - program);
	memcpy(template->words + program, resource, length);
	return template->words + program;
}

static void enter(const struct template *template, struct start *start)
{
	struct entry_failure failure;
	char none;

	start->gate[1] = close_fd(start->gate[1]);
	(void)RETRY_ON_EINTR(read(start->gate[0], &none, sizeof(none)));
	if (entry_prepare(&start->ends, &start->request.identity, template->supervisor, &failure) <
		0) {
		(void)!write(start->ends.status, &failure, sizeof(failure));
		_exit(EXIT_FAILURE);
	}
	/* What exec does: the change of user forbade core dumps. */
	(void)prctl(PR_SET_DUMPABLE, 1, 0, 0, 0);
	/* The end of the status pipe means success to the supervisor. */
	close_all_but_standard();
}

/* --- in the template --- */

/* Returns 1 in the child, 0 with the reply or negative errno in the template. */
static int make_child(const struct template *template, struct start *start, struct spawn_reply *ret)
{
	volatile struct spawn_reply reply = { .code = ECHILD };
	pid_t intermediate;

	if (pipe2(start->gate, O_CLOEXEC) < 0)
		return -errno;
	intermediate = vfork();
	if (intermediate < 0)
		return -errno;
	if (intermediate == 0) {
		pid_t child = fork();

		if (child == 0) {
			enter(template, start);
			return 1;
		}
		reply.pid = child < 0 ? 0 : child;
		reply.code = child < 0 ? errno : 0;
		_exit(EXIT_SUCCESS);
	}
	(void)RETRY_ON_EINTR(waitpid(intermediate, NULL, 0));
	*ret = (struct spawn_reply){ .pid = reply.pid, .code = reply.code };
	return 0;
}

/* Returns 1 with a request, 0 when the supervisor has ended, or negative errno. */
static int receive_request(struct start *start)
{
	struct iovec iov = { .iov_base = &start->request, .iov_len = sizeof(start->request) };
	struct descriptors received;
	ssize_t n = descriptors_receive(CONTROL_FD, &iov, 1, 0, &received);

	if (n <= 0)
		return (int)n;
	/* On any other message, this process ends. */
	if (n != (ssize_t)sizeof(start->request) || received.truncated ||
		received.count != TEMPLATE_FDS)
		return -EBADMSG;
	start->ends.output = received.fds[0];
	start->ends.control = received.fds[1];
	start->ends.status = received.fds[2];
	start->request.resource[sizeof(start->request.resource) - 1] = '\0';
	return 1;
}

/* Returns 1 in the child, 0 in the template, negative errno if there is no more to be done. */
static int serve_one(const struct template *template, const char **ret_resource)
{
	_cleanup_(start_done) struct start start = {
		.ends = { STDIN_FILENO, -EBADF, -EBADF, -EBADF, -EBADF },
		.gate = { -EBADF, -EBADF },
	};
	struct spawn_reply reply = { 0 };
	int r;

	r = receive_request(&start);
	if (r <= 0)
		return r < 0 ? r : -ECONNRESET;
	r = make_child(template, &start, &reply);
	if (r == 1) {
		*ret_resource = rename_process(template, start.request.resource);
		/* They are closed. */
		start = (struct start){ .ends = { -EBADF, -EBADF, -EBADF, -EBADF, -EBADF },
			.gate = { -EBADF, -EBADF } };
		return 1;
	}
	if (r < 0)
		reply = (struct spawn_reply){ .code = -r };
	/* This happens now, because the supervisor waits for the child from the reply on. */
	start_done(&start);
	return RETRY_ON_EINTR(send(CONTROL_FD, &reply, sizeof(reply), MSG_NOSIGNAL)) < 0 ? -errno
											 : 0;
}

/* The variable has had its effect, and children must have the same environment as executed ones. */
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
		log_error("the template process cannot continue: %s", strerror(-r));
	return r == -ECONNRESET ? 0 : r;
}
