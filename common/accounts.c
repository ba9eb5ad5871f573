/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Decides which files define accounts: the files of /etc and those of /usr/lib, where hosts with a
 * read-only system keep the users of packages.
 */
#include "common/accounts.h"

#include <grp.h>
#include <pwd.h>

static const char *const user_files[] = { "/etc/passwd", "/usr/lib/passwd" };
static const char *const group_files[] = { "/etc/group", "/usr/lib/group" };

/* Searches by name, or by id if `name` is NULL. The result is valid until the next call. */
static const struct passwd *find_user(const char *name, uid_t uid)
{
	const struct passwd *entry = NULL;

	for (size_t i = 0; i < ARRAY_SIZE(user_files) && !entry; i++) {
		_cleanup_fclose_ FILE *stream = fopen(user_files[i], "re");

		while (stream && (entry = fgetpwent(stream)))
			if (name ? streq(entry->pw_name, name) : entry->pw_uid == uid)
				break;
	}
	return entry;
}

static const struct group *find_group(const char *name, gid_t gid)
{
	const struct group *entry = NULL;

	for (size_t i = 0; i < ARRAY_SIZE(group_files) && !entry; i++) {
		_cleanup_fclose_ FILE *stream = fopen(group_files[i], "re");

		while (stream && (entry = fgetgrent(stream)))
			if (name ? streq(entry->gr_name, name) : entry->gr_gid == gid)
				break;
	}
	return entry;
}

static int take_user(const struct passwd *entry, uid_t *ret_uid, gid_t *ret_gid)
{
	if (!entry)
		return -ENOENT;
	*ret_uid = entry->pw_uid;
	*ret_gid = entry->pw_gid;
	return 0;
}

int account_find_user(const char *name, uid_t *ret_uid, gid_t *ret_gid)
{
	return take_user(find_user(name, 0), ret_uid, ret_gid);
}

int account_find_any_user(const char *name, uid_t *ret_uid, gid_t *ret_gid)
{
	return take_user(find_user(name, 0) ?: getpwnam(name), ret_uid, ret_gid);
}

int account_find_group(const char *name, gid_t *ret)
{
	const struct group *entry = find_group(name, 0);

	if (!entry)
		return -ENOENT;
	*ret = entry->gr_gid;
	return 0;
}

bool account_has_id(uid_t id)
{
	return find_user(NULL, id) || find_group(NULL, (gid_t)id);
}
