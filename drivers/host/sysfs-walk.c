/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Lists the devices below a device. Between two devices there may be directories that only name a
 * class ("tty"), which are entered but not reported.
 */
#include "drivers/host/sysfs-walk.h"

#include "drivers/host/sysroot.h"

struct walk {
	const char *root;
	sysfs_visitor visitor;
	void *userdata;
	size_t n_entered;
};

bool sysfs_is_device(const char *root, const char *directory)
{
	_cleanup_free_ char *path = NULL;
	struct stat st;

	return format_text(&path, "%s/uevent", directory) >= 0 &&
		sysroot_stat(root, path, &st) >= 0 && S_ISREG(st.st_mode);
}

static int walk_below(struct walk *walk, const char *directory, unsigned depth);

static int walk_one(struct walk *walk, const char *directory, const char *name, unsigned depth)
{
	_cleanup_free_ char *path = NULL;
	int r = SYSFS_WALK_ON;

	if (format_text(&path, "%s/%s", directory, name) < 0)
		return -ENOMEM;
	if (sysfs_is_device(walk->root, path))
		r = walk->visitor(path, walk->userdata);
	if (r == SYSFS_WALK_NOT_BELOW)
		return SYSFS_WALK_ON;
	return r == SYSFS_WALK_ON ? walk_below(walk, path, depth + 1) : r;
}

static int walk_below(struct walk *walk, const char *directory, unsigned depth)
{
	_cleanup_strings_ struct strings names = { 0 };
	int r;

	if (depth >= SYSFS_WALK_DEPTH_MAX)
		return 0;
	if (walk->n_entered++ >= SYSFS_WALK_MAX)
		return -E2BIG;
	r = sysfs_list_directories(walk->root, directory, &names);
	if (r < 0)
		return r == -ENOMEM || r == -E2BIG ? r : 0;
	for (size_t i = 0; i < names.count; i++) {
		r = walk_one(walk, directory, names.items[i], depth);
		if (r != SYSFS_WALK_ON)
			return r;
	}
	return 0;
}

int sysfs_walk(const char *root, const char *directory, sysfs_visitor visitor, void *userdata)
{
	struct walk walk = { .root = root, .visitor = visitor, .userdata = userdata };

	return walk_below(&walk, directory, 0);
}
