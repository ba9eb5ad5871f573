/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Decides which user a child runs as, so that no two resources share one. The id of a resource
 * stays reserved for it until devplugd ends.
 */
#include "supervisor/process/child-user.h"

#include <linux/capability.h>
#include <sys/syscall.h>

#include "common/accounts.h"
#include "common/child-sandbox.h"
#include "common/log.h"
#include "common/map.h"

/* systemd keeps an entry here for each id that it has assigned. */
#define DYNAMIC_USERS "/run/systemd/dynamic-uid"

/* Users that the configuration names (`user`), not those made here. */
static uid_t *named;
static size_t n_named;

static bool has_capability(int capability)
{
	struct __user_cap_header_struct header = { .version = _LINUX_CAPABILITY_VERSION_3 };
	struct __user_cap_data_struct data[_LINUX_CAPABILITY_U32S_3] = { 0 };

	return syscall(SYS_capget, &header, data) >= 0 &&
		data[CAP_TO_INDEX(capability)].effective & CAP_TO_MASK(capability);
}

static bool can_change(void)
{
	return geteuid() == 0 || (has_capability(CAP_SETUID) && has_capability(CAP_SETGID));
}

void child_user_log_isolation(void)
{
	static const char *const weaker[] = {
		"this kernel has no Landlock: only its user id separates a child from files and processes of others",
		"this kernel is older than Linux 6.12: children can connect to abstract sockets of "
		"other processes",
	};
	unsigned isolation = sandbox_isolation();

	if (!can_change())
		log_notice(
			"devplugd cannot change users, so its children run as its own user, and a compromised child can interfere with all of them; start devplugd as root or with its unit");
	else if (isolation < ARRAY_SIZE(weaker))
		log_notice("%s", weaker[isolation]);
}

static bool is_in_use(uid_t uid)
{
	char path[sizeof(DYNAMIC_USERS) + 16];

	(void)snprintf(path, sizeof(path), DYNAMIC_USERS "/%u", (unsigned)uid);
	return uid == geteuid() || account_has_id(uid) || access(path, F_OK) == 0;
}

/* The id of that name, the same at every call. */
static int find_own(const char *name, uid_t *ret, struct error *error)
{
	static struct map ids;
	static uid_t next = CHILD_USER_FIRST;
	_cleanup_free_ char *copy = NULL;
	uid_t uid = (uid_t)(uintptr_t)map_get(&ids, name);

	while (uid == 0 && next <= CHILD_USER_LAST) {
		if (!is_in_use(next))
			uid = next;
		next++;
	}
	if (uid == 0)
		return error_set(error, -EUSERS,
			"all user ids from %u to %u are in use; restart devplugd, or set `user`",
			CHILD_USER_FIRST, CHILD_USER_LAST);
	if (!map_get(&ids, name)) {
		copy = strdup(name);
		if (!copy || map_put(&ids, copy, (void *)(uintptr_t)uid) < 0)
			return error_set(error, -ENOMEM, "out of memory");
		(void)TAKE_PTR(copy);
	}
	*ret = uid;
	return 0;
}

static int note_named(uid_t uid)
{
	int r;

	for (size_t i = 0; i < n_named; i++)
		if (named[i] == uid)
			return 0;
	r = array_reserve((void **)&named, n_named, sizeof(*named));
	if (r >= 0)
		named[n_named++] = uid;
	return r;
}

static int find_named(const char *user, struct identity *identity, struct error *error)
{
	unsigned long number;
	char *end;

	number = strtoul(user, &end, 10);
	if (*user >= '0' && *user <= '9' && !*end && number < UINT32_MAX) {
		identity->uid = (uid_t)number;
		identity->gid = (gid_t)number;
	} else if (account_find_any_user(user, &identity->uid, &identity->gid) < 0) {
		return error_set(error, -ESRCH,
			"user \"%s\" does not exist; create it or correct `user`", user);
	}
	if (!identity->change && identity->uid != geteuid())
		return error_set(error, -EPERM,
			"devplugd must run as root to run a child as user \"%s\"", user);
	if (identity->change && identity->uid != 0 && identity->uid == geteuid())
		return error_set(error, -EPERM,
			"user \"%s\" is the user of devplugd, so a child could interfere with devplugd; set another user in `user`",
			user);
	return 0;
}

int child_user_find(const char *user, const char *name, struct identity *ret, struct error *error)
{
	struct identity identity = {
		.change = can_change(),
		.uid = geteuid(),
		.gid = getegid(),
	};
	int r = 0;

	if (user)
		r = find_named(user, &identity, error);
	else if (identity.change)
		r = find_own(name, &identity.uid, error);
	if (r < 0)
		return r;
	if (!user && identity.change) {
		identity.gid = (gid_t)identity.uid;
		identity.own = true;
	}
	r = identity.own ? 0 : note_named(identity.uid);
	if (r < 0)
		return error_set(error, r, "out of memory");
	*ret = identity;
	return 0;
}

/* From the end: devplugd assigns its ids from the beginning. */
int child_user_find_guest(const char *user, struct identity *ret, struct error *error)
{
	uid_t uid = CHILD_USER_LAST;

	if (user || !can_change())
		return child_user_find(user, "", ret, error);
	while (uid >= CHILD_USER_FIRST && is_in_use(uid))
		uid--;
	if (uid < CHILD_USER_FIRST)
		return error_set(error, -EUSERS,
			"all user ids from %u to %u are in use; set `user`", CHILD_USER_FIRST,
			CHILD_USER_LAST);
	*ret = (struct identity){ .change = true, .uid = uid, .gid = (gid_t)uid, .own = true };
	return 0;
}

bool child_user_is_given(uid_t uid)
{
	if (uid == geteuid())
		return false;
	for (size_t i = 0; i < n_named; i++)
		if (named[i] == uid)
			return true;
	return uid >= CHILD_USER_FIRST && uid <= CHILD_USER_LAST;
}
