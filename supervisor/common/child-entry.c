/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The order matters: what needs privilege comes before it is dropped, and what a change of user
 * undoes comes after it.
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
#include "common/control.h"

#define CHILD_FILES_MAX 1024 /* programs that use select() cannot bear more */

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
static bool is_trusted(const struct identity *identity)
{
	return identity->change && identity->uid == 0;
}

static int become(const struct identity *identity, enum entry_step *ret_step)
{
	bool root = is_trusted(identity);

	*ret_step = ENTRY_BOUNDING;
	if (identity->change && !root && drop_bounding_set() < 0)
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
	if (!root && drop_capabilities() < 0)
		return -errno;
	return 0;
}

static int prepare(struct child_ends *ends, const struct identity *identity, pid_t parent,
	enum entry_step *ret_step)
{
	*ret_step = ENTRY_DESCRIPTORS;
	/* A copy of the template has only handlers that belong to it, such as a sanitizer's. */
	if (ends->program >= 0)
		signals_reset();
	if (assign_descriptors(ends) < 0)
		return -errno;
	reset_file_limit();
	if (identity && become(identity, ret_step) < 0)
		return -errno;
	*ret_step = ENTRY_NO_NEW_PRIVS;
	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
		return -errno;

	*ret_step = ENTRY_SANDBOX;
	if (identity && !is_trusted(identity)) {
		int r = sandbox_enter();

		if (r < 0)
			return r;
	}

	/* A change of user clears the signal, so it is set last; the parent may be gone by then. */
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
