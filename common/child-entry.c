/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Turns a forked process into a confined child: descriptors, limits, user, capabilities, death
 * signal. This file decides the order of these steps: steps that need privilege come before it is
 * dropped, and settings that a change of user resets come after it.
 */
#include <fcntl.h>
#include <grp.h>
#include <linux/capability.h>
#include <linux/close_range.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>

#include "common/child-entry.h"
#include "common/child-sandbox.h"
#include "common/control-child.h"

#define CHILD_FILES_MAX 1024 /* programs that use select() fail with more */
/* Maximum number of threads and processes of a user id: the child's own, and those of everything
 * that it starts. */
#define CHILD_PROCESSES_MAX 1024
/* Thousandths of the memory by which a child seems larger to the kernel when it has to end one. */
#define OOM_STEP 100

void signals_reset(void)
{
	const struct sigaction action = { .sa_handler = SIG_DFL };
	sigset_t none;

	for (int number = 1; number < NSIG; number++)
		if (number != SIGKILL && number != SIGSTOP)
			(void)sigaction(number, &action, NULL);
	(void)sigemptyset(&none);
	(void)sigprocmask(SIG_SETMASK, &none, NULL);
}

/* Undoes what the supervisor did for itself because it keeps descriptors of every child. */
static void reset_file_limit(void)
{
	struct rlimit limit;

	if (getrlimit(RLIMIT_NOFILE, &limit) < 0)
		return;
	limit.rlim_cur = MIN_OF(limit.rlim_max, (rlim_t)CHILD_FILES_MAX);
	(void)setrlimit(RLIMIT_NOFILE, &limit);
}

static int limit_processes(void)
{
	const struct rlimit limit = { CHILD_PROCESSES_MAX, CHILD_PROCESSES_MAX };

	/* A lower one stays. */
	return setrlimit(RLIMIT_NPROC, &limit) < 0 && errno != EPERM ? -errno : 0;
}

/* When memory runs out, the kernel must kill a process that reads untrusted input before the
 * supervisor. */
static void go_before_parent(void)
{
	int fd = open("/proc/self/oom_score_adj", O_RDWR | O_CLOEXEC);
	char text[16] = "";
	ssize_t n = fd < 0 ? -1 : read(fd, text, sizeof(text) - 1);
	int value = 0, sign = text[0] == '-' ? -1 : 1;

	for (ssize_t i = sign < 0; i < n && text[i] >= '0' && text[i] <= '9'; i++)
		value = value * 10 + text[i] - '0';
	value = MIN_OF(sign * value + OOM_STEP, 1000);
	n = n > 0 ? snprintf(text, sizeof(text), "%d", value) : 0;
	if (n > 0)
		(void)!pwrite(fd, text, (size_t)n, 0);
	(void)close_fd(fd);
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

static int assign_descriptors(struct child_ends *ends)
{
	int *kept[] = { &ends->null, &ends->output, &ends->control, &ends->status, &ends->program };

	for (size_t i = 0; i < ARRAY_SIZE(kept); i++)
		if (*kept[i] >= 0 && lift_fd(kept[i]) < 0)
			return -errno;
	if (dup2(ends->null, STDIN_FILENO) < 0 || dup2(ends->output, STDOUT_FILENO) < 0 ||
		dup2(ends->output, STDERR_FILENO) < 0 || dup2(ends->control, CONTROL_FD) < 0)
		return -errno;
	if (close_range(CONTROL_FD + 1, ~0U, CLOSE_RANGE_CLOEXEC) < 0 && errno != ENOSYS &&
		errno != EINVAL)
		return -errno;
	return 0;
}

/* The capabilities that the template needs to make children, which change user and drop the
 * rest. */
#define MAKES_CHILDREN (1ULL << CAP_SETUID | 1ULL << CAP_SETGID | 1ULL << CAP_SETPCAP)

/* Without CAP_SETPCAP the set stays; no-new-privileges keeps programs from gaining any of it. */
static int limit_bounding_set(uint64_t kept)
{
	for (unsigned long capability = 0; prctl(PR_CAPBSET_READ, capability, 0, 0, 0) >= 0;
		capability++)
		if (!(kept >> capability & 1) && prctl(PR_CAPBSET_DROP, capability, 0, 0, 0) < 0)
			return errno == EPERM && geteuid() != 0 ? 0 : -errno;
	return 0;
}

static int limit_capabilities(uint64_t kept)
{
	struct __user_cap_header_struct header = { .version = _LINUX_CAPABILITY_VERSION_3 };
	struct __user_cap_data_struct data[_LINUX_CAPABILITY_U32S_3] = { 0 };

	if (kept == 0 && prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0) < 0)
		return -errno;
	if (syscall(SYS_capget, &header, data) < 0)
		return -errno;
	for (size_t i = 0; i < ARRAY_SIZE(data); i++) {
		uint32_t mask = (uint32_t)(kept >> (32 * i));

		data[i].permitted &= mask;
		data[i].effective = data[i].permitted;
		data[i].inheritable &= mask;
	}
	return syscall(SYS_capset, &header, data) < 0 ? -errno : 0;
}

static int become(const struct identity *identity, enum entry_step *ret_step)
{
	bool root = identity_is_root(identity);

	*ret_step = ENTRY_BOUNDING;
	if (identity->change && !root && limit_bounding_set(0) < 0)
		return -errno;
	*ret_step = ENTRY_GROUPS;
	if (identity->change &&
		(setgroups(0, NULL) < 0 ||
			setresgid(identity->gid, identity->gid, identity->gid) < 0))
		return -errno;
	*ret_step = ENTRY_USER;
	if (identity->change && setresuid(identity->uid, identity->uid, identity->uid) < 0)
		return -errno;
	*ret_step = ENTRY_CAPABILITIES;
	if (!root && limit_capabilities(0) < 0)
		return -errno;
	return 0;
}

static int become_template(enum entry_step *ret_step)
{
	*ret_step = ENTRY_BOUNDING;
	if (limit_bounding_set(MAKES_CHILDREN) < 0)
		return -errno;
	*ret_step = ENTRY_CAPABILITIES;
	return limit_capabilities(MAKES_CHILDREN) < 0 ? -errno : 0;
}

/* `filtered`: see sandbox_enter(). */
static int confine(const struct identity *identity, bool filtered, enum entry_step *ret_step)
{
	*ret_step = ENTRY_NO_NEW_PRIVS;
	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
		return -errno;
	*ret_step = ENTRY_SANDBOX;
	return identity && identity_is_root(identity) ? 0 : sandbox_enter(filtered);
}

int entry_confine(const struct identity *identity, struct entry_failure *ret_failure)
{
	enum entry_step step = ENTRY_USER;
	int r = identity->own ? limit_processes() : 0;

	if (r >= 0)
		r = become(identity, &step);
	if (r >= 0)
		r = confine(identity, false, &step);
	if (r < 0) {
		*ret_failure = (struct entry_failure){ .step = step, .code = -r };
		return r;
	}
	/* Allows core dumps again, as exec does, because the change of user forbade them. */
	(void)prctl(PR_SET_DUMPABLE, 1, 0, 0, 0);
	return 0;
}

static int prepare(struct child_ends *ends, const struct identity *identity, pid_t parent,
	enum entry_step *ret_step)
{
	bool copy = ends->program < 0; /* of the template */
	int r;

	*ret_step = ENTRY_DESCRIPTORS;
	/* In a copy, all handlers belong to it, such as a sanitizer's. */
	if (!copy) {
		signals_reset();
		go_before_parent();
	}
	/* Without the supervisor's terminal, which /dev/tty would be: input for the shell there can
	 * be written to it, and its ^C and ^Z are for the supervisor. */
	if (setsid() < 0)
		return -errno;
	if (assign_descriptors(ends) < 0)
		return -errno;
	reset_file_limit();
	if (identity && identity->own && limit_processes() < 0)
		return -errno;
	if ((identity ? become(identity, ret_step) : become_template(ret_step)) < 0)
		return -errno;
	r = confine(identity, copy, ret_step);
	if (r < 0)
		return r;

	/* A change of user clears the signal, so it is set last; the parent may have ended by
	 * then. */
	*ret_step = ENTRY_DEATH_SIGNAL;
	if (prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0) < 0)
		return -errno;
	if (getppid() != parent)
		_exit(EXIT_FAILURE);
	return 0;
}

int entry_prepare(struct child_ends *ends, const struct identity *identity, pid_t parent,
	struct entry_failure *ret_failure)
{
	enum entry_step step;
	int r = prepare(ends, identity, parent, &step);

	if (r < 0)
		*ret_failure = (struct entry_failure){ .step = step, .code = -r };
	return r;
}

const char *entry_step_name(enum entry_step step)
{
	static const char *const names[] = {
		[ENTRY_DESCRIPTORS] = "prepare the descriptors of",
		[ENTRY_BOUNDING] = "drop the capability bounding set of",
		[ENTRY_GROUPS] = "set the groups of",
		[ENTRY_USER] = "set the user of",
		[ENTRY_CAPABILITIES] = "drop the capabilities of",
		[ENTRY_NO_NEW_PRIVS] = "set no-new-privileges for",
		[ENTRY_SANDBOX] = "confine",
		[ENTRY_DEATH_SIGNAL] = "set the parent-death signal of",
		[ENTRY_EXECUTE] = "execute",
	};

	return (size_t)step < ARRAY_SIZE(names) ? names[step] : "start";
}
