/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Everything that needs memory or the user database happens before fork(); between fork() and
 * execveat() only async-signal-safe calls are made. A child that fails on that way, or in the
 * template, reports the step and its errno through a pipe, whose end of file tells the parent that
 * the program runs.
 */
#include <fcntl.h>
#include <pwd.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "common/control.h"
#include "common/spawn-request.h"
#include "spawn-template.h"
#include "spawn.h"

#define PLUGIN_NAME     "devplugd-plugin"
#define DEFAULT_USER    "devplugd"
#define NOBODY_ID       65534
#define ENVIRONMENT_MAX 16

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

static int resolve_user(const char *user, struct identity *ret, struct error *error)
{
	struct identity identity = { .change = geteuid() == 0, .uid = NOBODY_ID, .gid = NOBODY_ID };
	struct passwd *entry;
	char *end = NULL;
	unsigned long number;

	errno = 0;
	entry = getpwnam(user ?: DEFAULT_USER);
	if (entry) {
		identity.uid = entry->pw_uid;
		identity.gid = entry->pw_gid;
	} else if (user) {
		number = strtoul(user, &end, 10);
		if (*user < '0' || *user > '9' || *end || number >= UINT32_MAX)
			return error_set(error, -ESRCH,
				"user \"%s\" does not exist; create it or correct `user`", user);
		identity.uid = (uid_t)number;
		identity.gid = (gid_t)number;
	}
	if (!identity.change && user && identity.uid != geteuid())
		return error_set(error, -EPERM,
			"devplugd must run as root to run a child as user \"%s\"", user);
	*ret = identity;
	return 0;
}

/* The environment of a child: what the loader and sanitizers need, nothing of systemd's. */
static size_t select_environment(char *ret[static ENVIRONMENT_MAX])
{
	static const char *const wanted[] = { "PATH=", "LANG=", "ASAN_OPTIONS=", "UBSAN_OPTIONS=",
		"LSAN_OPTIONS=", "TSAN_OPTIONS=" };
	size_t count = 0;

	for (char **variable = environ; variable && *variable; variable++)
		for (size_t i = 0; i < ARRAY_SIZE(wanted); i++)
			if (startswith(*variable, wanted[i]) && count < ENVIRONMENT_MAX - 1)
				ret[count++] = *variable;
	ret[count] = NULL;
	return count;
}

static struct child_ends child_ends(const struct plumbing *p)
{
	return (struct child_ends){
		.null = p->null,
		.output = p->output[1],
		.control = p->control[1],
		.status = p->status[1],
		.program = -EBADF,
	};
}

/* In the new process, async-signal-safe. Returns only if the program cannot be executed. */
static struct entry_failure run_program(const struct plumbing *p, const struct identity *identity,
	int executable_fd, pid_t parent, char *const argv[], char *const environment[],
	int *ret_status_fd)
{
	struct child_ends ends = child_ends(p);
	struct entry_failure failure;
	int r;

	ends.program = executable_fd;
	r = entry_prepare(&ends, identity, parent, &failure);
	*ret_status_fd = ends.status;
	if (r < 0)
		return failure;
	(void)syscall(SYS_execveat, ends.program, "", argv, environment, AT_EMPTY_PATH);
	return (struct entry_failure){ .step = ENTRY_EXECUTE, .code = errno };
}

/* The other end of the status pipe must be closed in this process. */
static int await_entry(int status_fd, pid_t pid, const char *executable, struct error *error)
{
	struct entry_failure failure;
	ssize_t n;

	n = RETRY_ON_EINTR(read(status_fd, &failure, sizeof(failure)));
	if (n == 0)
		return 0;
	(void)RETRY_ON_EINTR(waitpid(pid, NULL, 0));
	if (n != (ssize_t)sizeof(failure))
		return error_set(error, -EIO, "cannot learn whether %s was executed", executable);
	return error_set(error, -failure.code, "cannot %s %s: %s", entry_step_name(failure.step),
		executable, strerror(failure.code));
}

static int spawned_take(struct plumbing *p, pid_t pid, struct spawned *ret)
{
	*ret = (struct spawned){
		.pid = pid,
		.control_fd = TAKE_FD(p->control[0]),
		.output_fd = TAKE_FD(p->output[0]),
	};
	return 0;
}

static int spawn_program(const struct spawn_options *options, const struct identity *identity,
	char *const argv[], char *const environment[], struct spawned *ret, struct error *error)
{
	_cleanup_(plumbing_done) struct plumbing p = PLUMBING_INIT;
	pid_t parent = getpid(), pid;
	int r;

	r = plumbing_open(&p);
	if (r < 0)
		return error_set(
			error, r, "cannot open the descriptors of a child: %s", strerror(-r));
	pid = fork();
	if (pid < 0)
		return error_set(error, -errno, "cannot fork a child: %s", strerror(errno));
	if (pid == 0) {
		int status_fd;
		struct entry_failure failure = run_program(&p, identity, options->executable_fd,
			parent, argv, environment, &status_fd);

		(void)!write(status_fd, &failure, sizeof(failure));
		_exit(EXIT_FAILURE);
	}

	p.status[1] = close_fd(p.status[1]);
	r = await_entry(p.status[0], pid, options->executable, error);
	if (r < 0)
		return r;
	return spawned_take(&p, pid, ret);
}

static int spawn_copy(const struct spawn_options *options, const struct identity *identity,
	struct spawned *ret, struct error *error)
{
	_cleanup_(plumbing_done) struct plumbing p = PLUMBING_INIT;
	struct child_ends ends;
	pid_t pid;
	int r;

	r = plumbing_open(&p);
	if (r < 0)
		return r;
	ends = child_ends(&p);
	r = spawn_template_fork(options->template, identity, options->resource, &ends, &pid);
	if (r < 0)
		return r;
	p.status[1] = close_fd(p.status[1]);
	r = await_entry(p.status[0], pid, options->executable, error);
	if (r < 0)
		return r;
	return spawned_take(&p, pid, ret);
}

int spawn_child(const struct spawn_options *options, struct spawned *ret, struct error *error)
{
	char *argv[] = { (char *)PLUGIN_NAME, (char *)options->resource, NULL };
	char *environment[ENVIRONMENT_MAX];
	struct identity identity = { 0 };
	int r;

	r = resolve_user(options->user, &identity, error);
	if (r < 0)
		return r;
	if (options->template && spawn_copy(options, &identity, ret, error) >= 0)
		return 0;
	(void)select_environment(environment);
	return spawn_program(options, &identity, argv, environment, ret, error);
}

int spawn_template_program(
	const struct spawn_options *options, struct spawned *ret, struct error *error)
{
	char room[TEMPLATE_ROOM + 1];
	char *argv[] = { (char *)PLUGIN_NAME, (char *)TEMPLATE_ARGUMENT, room, NULL };
	char *environment[ENVIRONMENT_MAX + 1];
	size_t count = select_environment(environment);

	environment[count++] = (char *)TEMPLATE_ENVIRONMENT;
	environment[count] = NULL;
	memset(room, ' ', TEMPLATE_ROOM);
	room[TEMPLATE_ROOM] = '\0';
	return spawn_program(options, NULL, argv, environment, ret, error);
}

int spawn_open_executable(char **ret_path, struct error *error)
{
	static const char installed[] = DEVPLUGD_LIBEXECDIR "/" PLUGIN_NAME;
	char self[4096], *slash;
	_cleanup_free_ char *path = NULL;
	ssize_t n;
	int fd = -1;

	n = readlink("/proc/self/exe", self, sizeof(self) - 1);
	if (n > 0) {
		self[n] = '\0';
		slash = strrchr(self, '/');
		if (slash && asprintf(&path, "%.*s/%s", (int)(slash - self), self, PLUGIN_NAME) < 0)
			return error_set(error, -ENOMEM, "out of memory");
		if (path)
			fd = open(path, O_PATH | O_CLOEXEC);
	}
	if (fd < 0) {
		free(path);
		path = strdup(installed);
		if (!path)
			return error_set(error, -ENOMEM, "out of memory");
		fd = open(path, O_PATH | O_CLOEXEC);
	}
	if (fd < 0)
		return error_set(error, -errno,
			"cannot open %s: %s; reinstall the devplugd package", path,
			strerror(errno));
	*ret_path = TAKE_PTR(path);
	return fd;
}
