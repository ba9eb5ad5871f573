/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Everything that needs memory or the user database happens before fork(); between fork() and
 * execveat() only async-signal-safe calls are made. A child that fails on that way reports the step
 * and its errno through a CLOEXEC pipe, whose end of file tells the parent that the program runs.
 */
#include <fcntl.h>
#include <grp.h>
#include <linux/capability.h>
#include <linux/close_range.h>
#include <pwd.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "common/control.h"
#include "spawn.h"

#define PLUGIN_NAME     "devplugd-plugin"
#define DEFAULT_USER    "devplugd"
#define NOBODY_ID       65534
#define ENVIRONMENT_MAX 16
#define CHILD_FILES_MAX 1024 /* programs that use select() cannot bear more */

struct identity {
	bool change; /* we are root and become somebody */
	uid_t uid;
	gid_t gid;
};

/* Descriptors of one start; the child's ends are closed in the parent when it returns. */
struct plumbing {
	int control[2], output[2], status[2], null; /* [0] is the parent's end */
};

enum step {
	STEP_DESCRIPTORS,
	STEP_BOUNDING,
	STEP_GROUPS,
	STEP_USER,
	STEP_CAPABILITIES,
	STEP_NO_NEW_PRIVS,
	STEP_DEATH_SIGNAL,
	STEP_EXECUTE,
};

struct failure {
	enum step step;
	int code; /* positive errno */
};

static const char *const step_names[] = {
	[STEP_DESCRIPTORS] = "prepare the descriptors of",
	[STEP_BOUNDING] = "drop the capability bounding set of",
	[STEP_GROUPS] = "set the groups of",
	[STEP_USER] = "set the user of",
	[STEP_CAPABILITIES] = "drop the capabilities of",
	[STEP_NO_NEW_PRIVS] = "set no-new-privileges for",
	[STEP_DEATH_SIGNAL] = "set the parent-death signal of",
	[STEP_EXECUTE] = "execute",
};

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
static void select_environment(char *ret[static ENVIRONMENT_MAX])
{
	static const char *const wanted[] = { "PATH=", "LANG=", "ASAN_OPTIONS=", "UBSAN_OPTIONS=",
		"LSAN_OPTIONS=", "TSAN_OPTIONS=" };
	size_t count = 0;

	for (char **variable = environ; variable && *variable; variable++)
		for (size_t i = 0; i < ARRAY_SIZE(wanted); i++)
			if (startswith(*variable, wanted[i]) && count < ENVIRONMENT_MAX - 1)
				ret[count++] = *variable;
	ret[count] = NULL;
}

/* --- in the child, async-signal-safe from here --- */

static void reset_signals(void)
{
	const struct sigaction action = { .sa_handler = SIG_DFL };
	sigset_t none;

	for (int number = 1; number < NSIG; number++)
		if (number != SIGKILL && number != SIGSTOP)
			(void)sigaction(number, &action, NULL);
	(void)sigemptyset(&none);
	(void)sigprocmask(SIG_SETMASK, &none, NULL);
}

/* Undoes what the supervisor, which has descriptors of every child, did for itself. */
static void reset_file_limit(void)
{
	struct rlimit limit;

	if (getrlimit(RLIMIT_NOFILE, &limit) < 0)
		return;
	limit.rlim_cur = MIN_OF(limit.rlim_max, (rlim_t)CHILD_FILES_MAX);
	(void)setrlimit(RLIMIT_NOFILE, &limit);
}

/* Moves a descriptor out of the way of the numbers that are about to be assigned. */
static int lift_fd(int *fd)
{
	int lifted = fcntl(*fd, F_DUPFD_CLOEXEC, CONTROL_FD + 1);

	if (lifted < 0)
		return -errno;
	*fd = lifted;
	return 0;
}

static int assign_descriptors(struct plumbing *p, int *executable_fd)
{
	int *kept[] = { &p->control[1], &p->output[1], &p->status[1], &p->null, executable_fd };

	for (size_t i = 0; i < ARRAY_SIZE(kept); i++)
		if (lift_fd(kept[i]) < 0)
			return -errno;
	if (dup2(p->null, STDIN_FILENO) < 0 || dup2(p->output[1], STDOUT_FILENO) < 0 ||
		dup2(p->output[1], STDERR_FILENO) < 0 || dup2(p->control[1], CONTROL_FD) < 0)
		return -errno;
	if (close_range(CONTROL_FD + 1, ~0U, CLOSE_RANGE_CLOEXEC) < 0 && errno != ENOSYS &&
		errno != EINVAL)
		return -errno;
	return 0;
}

static int drop_bounding_set(void)
{
	for (unsigned long capability = 0; prctl(PR_CAPBSET_READ, capability, 0, 0, 0) >= 0;
		capability++)
		if (prctl(PR_CAPBSET_DROP, capability, 0, 0, 0) < 0)
			return -errno;
	return 0;
}

static int drop_capabilities(void)
{
	struct __user_cap_header_struct header = { .version = _LINUX_CAPABILITY_VERSION_3 };
	const struct __user_cap_data_struct none[_LINUX_CAPABILITY_U32S_3] = { 0 };

	if (prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0) < 0)
		return -errno;
	if (syscall(SYS_capset, &header, none) < 0)
		return -errno;
	return 0;
}

/* A resource that asks for root gets what the service may do; everybody else gets no capability. */
static int become(const struct identity *identity, enum step *ret_step)
{
	bool root = identity->change && identity->uid == 0;

	*ret_step = STEP_BOUNDING;
	if (identity->change && !root && drop_bounding_set() < 0)
		return -errno;
	*ret_step = STEP_GROUPS;
	if (identity->change &&
		(setgroups(0, NULL) < 0 ||
			setresgid(identity->gid, identity->gid, identity->gid) < 0))
		return -errno;
	*ret_step = STEP_USER;
	if (identity->change && setresuid(identity->uid, identity->uid, identity->uid) < 0)
		return -errno;
	*ret_step = STEP_CAPABILITIES;
	if (!root && drop_capabilities() < 0)
		return -errno;
	*ret_step = STEP_NO_NEW_PRIVS;
	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
		return -errno;
	return 0;
}

static struct failure run_child(struct plumbing *p, const struct identity *identity,
	int executable_fd, pid_t parent, char *const argv[], char *const environment[])
{
	struct failure failure = { .step = STEP_DESCRIPTORS };

	reset_signals();
	if (assign_descriptors(p, &executable_fd) < 0)
		goto finish;
	reset_file_limit();
	if (become(identity, &failure.step) < 0)
		goto finish;

	/* A change of user clears the signal, so it is set last; the parent may be gone by then. */
	failure.step = STEP_DEATH_SIGNAL;
	if (prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0) < 0)
		goto finish;
	if (getppid() != parent)
		_exit(EXIT_FAILURE);

	failure.step = STEP_EXECUTE;
	(void)syscall(SYS_execveat, executable_fd, "", argv, environment, AT_EMPTY_PATH);
finish:
	failure.code = errno;
	return failure;
}

/* --- in the parent --- */

static int await_execution(int status_fd, pid_t pid, const char *executable, struct error *error)
{
	struct failure failure;
	ssize_t n;

	n = RETRY_ON_EINTR(read(status_fd, &failure, sizeof(failure)));
	if (n == 0)
		return 0;
	(void)RETRY_ON_EINTR(waitpid(pid, NULL, 0));
	if (n != (ssize_t)sizeof(failure))
		return error_set(error, -EIO, "cannot learn whether %s was executed", executable);
	return error_set(error, -failure.code, "cannot %s %s: %s", step_names[failure.step],
		executable, strerror(failure.code));
}

int spawn_child(const struct spawn_options *options, struct spawned *ret, struct error *error)
{
	_cleanup_(plumbing_done) struct plumbing p = { { -EBADF, -EBADF }, { -EBADF, -EBADF },
		{ -EBADF, -EBADF }, -EBADF };
	char *argv[] = { (char *)PLUGIN_NAME, (char *)options->resource, NULL };
	char *environment[ENVIRONMENT_MAX];
	struct identity identity = { 0 };
	pid_t parent = getpid(), pid;
	int r;

	r = resolve_user(options->user, &identity, error);
	if (r < 0)
		return r;
	r = plumbing_open(&p);
	if (r < 0)
		return error_set(
			error, r, "cannot open the descriptors of a child: %s", strerror(-r));
	select_environment(environment);

	pid = fork();
	if (pid < 0)
		return error_set(error, -errno, "cannot fork a child: %s", strerror(errno));
	if (pid == 0) {
		struct failure failure =
			run_child(&p, &identity, options->executable_fd, parent, argv, environment);

		(void)!write(p.status[1], &failure, sizeof(failure));
		_exit(EXIT_FAILURE);
	}

	p.status[1] = close_fd(p.status[1]);
	r = await_execution(p.status[0], pid, options->executable, error);
	if (r < 0)
		return r;

	*ret = (struct spawned){
		.pid = pid,
		.control_fd = TAKE_FD(p.control[0]),
		.output_fd = TAKE_FD(p.output[0]),
	};
	return 0;
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
