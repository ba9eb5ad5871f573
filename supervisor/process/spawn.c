/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Starts a child, and decides whether it is a copy of the template or executes the program.
 * Everything that needs memory or the user database happens before fork(); between fork() and
 * execveat() only async-signal-safe calls are made. If a child fails there, or in the template, it
 * reports the step and its errno through a pipe; end of file means that the program runs. A failure
 * of the template never keeps a resource from being started: the program is executed instead.
 */
#include "supervisor/process/spawn.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "common/spawn-request.h"
#include "supervisor/process/child-user.h"

#define PLUGIN_NAME     "devplugd-plugin"
#define ENVIRONMENT_MAX 16
/* Between fork and exec nothing waits but for the file system of the program. */
#define SPAWN_TIMEOUT (2 * USEC_PER_SEC)

/* Descriptors of one start; the child's ends are closed in the parent when it returns. */
struct plumbing {
	int control[2], output[2], status[2], null; /* [0] is the parent's end */
};

#define PLUMBING_INIT \
	((struct plumbing){ { -EBADF, -EBADF }, { -EBADF, -EBADF }, { -EBADF, -EBADF }, -EBADF })

static void plumbing_done(struct plumbing *p)
{
	int *fds[] = { &p->control[0], &p->control[1], &p->output[0], &p->output[1], &p->status[0],
		&p->status[1], &p->null };

	for (size_t i = 0; i < ARRAY_SIZE(fds); i++)
		*fds[i] = close_fd(*fds[i]);
}

static int plumbing_open(struct plumbing *p)
{
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, p->control) < 0 ||
		pipe2(p->output, O_CLOEXEC) < 0 || pipe2(p->status, O_CLOEXEC) < 0)
		return -errno;
	p->null = open("/dev/null", O_RDONLY | O_CLOEXEC);
	if (p->null < 0)
		return -errno;
	/* Only our ends: the flag belongs to the open file, and a child may expect to block. */
	if (fcntl(p->control[0], F_SETFL, O_NONBLOCK) < 0 ||
		fcntl(p->output[0], F_SETFL, O_NONBLOCK) < 0)
		return -errno;
	return 0;
}

/* The environment of a child: what the loader and sanitizers need, nothing of systemd's. */
static void select_environment(
	const struct spawn_options *options, char *ret[static ENVIRONMENT_MAX])
{
	static const char *const wanted[] = { "PATH=", "LANG=", "ASAN_OPTIONS=", "UBSAN_OPTIONS=",
		"LSAN_OPTIONS=", "TSAN_OPTIONS=" };
	size_t count = 0;

	for (char **variable = environ; variable && *variable; variable++)
		for (size_t i = 0; i < ARRAY_SIZE(wanted); i++)
			if (startswith(*variable, wanted[i]) && count < ENVIRONMENT_MAX - 2)
				ret[count++] = *variable;
	/* Last, so that copies can remove it and have the environment of executed children. */
	if (options->template_room)
		ret[count++] = (char *)TEMPLATE_ENVIRONMENT;
	ret[count] = NULL;
}

/* In the new process, async-signal-safe. Returns only if the program cannot be executed. */
static struct entry_failure run_program(struct child_ends *ends, const struct identity *identity,
	pid_t parent, char *const argv[], char *const environment[])
{
	struct entry_failure failure;

	if (entry_prepare(ends, identity, parent, &failure) < 0)
		return failure;
	(void)syscall(SYS_execveat, ends->program, "", argv, environment, AT_EMPTY_PATH);
	return (struct entry_failure){ .step = ENTRY_EXECUTE, .code = errno };
}

/* `identity` NULL: that of the template. */
static int execute(const struct spawn_options *options, const struct identity *identity,
	struct child_ends ends, pid_t *ret_pid)
{
	char *argv[] = { (char *)(options->name ?: PLUGIN_NAME), (char *)options->resource,
		(char *)options->template_room, NULL };
	char *environment[ENVIRONMENT_MAX];
	pid_t parent = getpid(), pid;

	select_environment(options, environment);
	pid = fork();
	if (pid < 0)
		return -errno;
	if (pid == 0) {
		struct entry_failure failure;

		ends.program = options->executable_fd;
		failure = run_program(&ends, identity, parent, argv, environment);
		(void)!write(ends.status, &failure, sizeof(failure));
		_exit(EXIT_FAILURE);
	}
	*ret_pid = pid;
	return 0;
}

/* The other end of the status pipe must be closed in this process. A process that hangs, such as in
 * a file system that does not answer, is killed and reaped whenever it ends (orphans.h). */
static int await_entry(int status_fd, pid_t pid, const char *executable, struct error *error)
{
	struct pollfd pollfd = { .fd = status_fd, .events = POLLIN };
	struct entry_failure failure;
	ssize_t n;

	if (RETRY_ON_EINTR(poll(&pollfd, 1, (int)(SPAWN_TIMEOUT / USEC_PER_MSEC))) == 0) {
		(void)kill(pid, SIGKILL);
		return error_set(error, -ETIMEDOUT,
			"%s was not executed within %d s; check the file system that it is in",
			executable, (int)(SPAWN_TIMEOUT / USEC_PER_SEC));
	}
	n = RETRY_ON_EINTR(read(status_fd, &failure, sizeof(failure)));
	if (n == 0)
		return 0;
	(void)RETRY_ON_EINTR(waitpid(pid, NULL, 0));
	if (n != (ssize_t)sizeof(failure))
		return error_set(
			error, -EIO, "cannot determine whether %s was executed", executable);
	return error_set(error, -failure.code, "cannot %s %s: %s", entry_step_name(failure.step),
		executable, strerror(failure.code));
}

static int start(const struct spawn_options *options, const struct identity *identity, bool copy,
	struct spawned *ret, struct error *error)
{
	_cleanup_(plumbing_done) struct plumbing p = PLUMBING_INIT;
	struct child_ends ends;
	pid_t pid;
	int r;

	r = plumbing_open(&p);
	if (r < 0)
		return error_set(
			error, r, "cannot open the descriptors of a child: %s", strerror(-r));
	ends = (struct child_ends){
		.null = p.null,
		.output = p.output[1],
		.control = p.control[1],
		.status = p.status[1],
		.program = -EBADF,
	};
	r = copy ? options->copy(options->template, identity, options->resource, &ends, &pid)
		 : execute(options, identity, ends, &pid);
	if (r < 0)
		return error_set(error, r, "cannot fork a child: %s", strerror(-r));
	p.status[1] = close_fd(p.status[1]);
	r = await_entry(p.status[0], pid, options->executable, error);
	if (r < 0)
		return r;
	*ret = (struct spawned){
		.pid = pid,
		.control_fd = TAKE_FD(p.control[0]),
		.output_fd = TAKE_FD(p.output[0]),
	};
	return 0;
}

int spawn_child(const struct spawn_options *options, struct spawned *ret, struct error *error)
{
	struct identity identity = { 0 };
	int r;

	if (options->template_room)
		return start(options, NULL, false, ret, error);
	r = child_user_find(options->user, options->resource ?: options->name, &identity, error);
	if (r < 0)
		return r;
	/* The template does not have root's capabilities. */
	if (options->copy && !identity_is_root(&identity) &&
		start(options, &identity, true, ret, error) >= 0)
		return 0;
	return start(options, &identity, false, ret, error);
}

int spawn_open_executable(const char *name, char **ret_path, struct error *error)
{
	const char *file = name ?: PLUGIN_NAME;
	char self[4096], *slash;
	_cleanup_free_ char *path = NULL;
	ssize_t n;
	int fd = -1;

	n = readlink("/proc/self/exe", self, sizeof(self) - 1);
	if (n > 0) {
		self[n] = '\0';
		slash = strrchr(self, '/');
		if (slash && format_text(&path, "%.*s/%s", (int)(slash - self), self, file) < 0)
			return error_set(error, -ENOMEM, "out of memory");
		if (path)
			fd = open(path, O_PATH | O_CLOEXEC);
	}
	if (fd < 0) {
		free(path);
		path = NULL;
		if (format_text(&path, DEVPLUGD_LIBEXECDIR "/%s", file) < 0)
			return error_set(error, -ENOMEM, "out of memory");
		fd = open(path, O_PATH | O_CLOEXEC);
	}
	if (fd < 0)
		return error_set(error, -errno, "cannot open %s: %s; %sinstall the package %s",
			path, strerror(errno), name ? "" : "re", name ?: "devplugd");
	*ret_path = TAKE_PTR(path);
	return fd;
}
