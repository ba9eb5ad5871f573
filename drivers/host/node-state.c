/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Inspects the paths of device nodes. A walk through a directory is limited in its depth and in the
 * number of directories, because the tree may not be the kernel's.
 */
#include "drivers/host/node-state.h"

#include "drivers/host/sysroot.h"

#define DEPTH_MAX       8
#define DIRECTORIES_MAX 4096

static const struct {
	const char *phrase, *remedy;
} texts[] = {
	[NODE_DEVICE] = { "is a device node", "" },
	[NODE_MISSING] = { "is missing", "" },
	[NODE_OTHER] = { "is not a device node", "remove it and " },
	[NODE_DIRECTORY] = { "is a directory, not a device node", "remove it and " },
	[NODE_EMPTY] = { "is a directory without device nodes", "remove it and " },
};

const char *node_state_phrase(enum node_state state)
{
	return texts[state].phrase;
}

const char *node_state_remedy(enum node_state state)
{
	return texts[state].remedy;
}

bool node_state_is_usable(enum node_state state, bool directories)
{
	return state == NODE_DEVICE || (directories && state == NODE_DIRECTORY);
}

/* --- directories --- */

struct walk {
	const char *root;
	struct scan *scan;
	node_visitor visitor;
	void *userdata;
	unsigned n_directories;
};

/* containerd's list (pkg/oci, getDevices()). */
static bool is_left_out(const char *name)
{
	static const char *const names[] = { ".", "..", "pts", "shm", "fd", "mqueue", ".lxc",
		".lxd-mounts", ".udev", "console" };

	for (size_t i = 0; i < ARRAY_SIZE(names); i++)
		if (streq(name, names[i]))
			return true;
	return false;
}

static int walk_directory(struct walk *walk, const char *directory, unsigned depth);

static int walk_entry(
	struct walk *walk, DIR *stream, const char *directory, const char *name, unsigned depth)
{
	_cleanup_free_ char *path = NULL;
	struct stat st;

	if (is_left_out(name) || fstatat(dirfd(stream), name, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return 0;
	if (format_text(&path, "%s/%s", directory, name) < 0)
		return -ENOMEM;
	if (S_ISDIR(st.st_mode))
		return walk_directory(walk, path, depth + 1);
	return S_ISCHR(st.st_mode) || S_ISBLK(st.st_mode) ? walk->visitor(path, walk->userdata) : 0;
}

static int walk_directory(struct walk *walk, const char *directory, unsigned depth)
{
	const struct dirent *entry;
	DIR *stream;
	int r = 0;

	if (depth > DEPTH_MAX || walk->n_directories++ >= DIRECTORIES_MAX)
		return 0;
	if (walk->scan)
		r = scan_watch(walk->scan, directory);
	if (r >= 0)
		r = sysroot_opendir(walk->root, directory, &stream);
	if (r < 0)
		return sysroot_is_shortage(r) ? r : 0;
	while (r == 0 && (entry = readdir(stream)))
		r = walk_entry(walk, stream, directory, entry->d_name, depth);
	(void)closedir(stream);
	return r;
}

int node_walk(const char *root, const char *directory, struct scan *scan, node_visitor visitor,
	void *userdata)
{
	struct walk walk = { .root = root, .scan = scan, .visitor = visitor, .userdata = userdata };

	return walk_directory(&walk, directory, 0);
}

/* --- one path --- */

static int on_node(const char *path, void *userdata)
{
	return 1;
}

int node_state_read(const char *root, const char *path, struct scan *scan, enum node_state *ret)
{
	struct stat st;
	int r;

	r = sysroot_stat(root, path, &st);
	if (sysroot_is_shortage(r))
		return r;
	if (sysroot_is_absent(r))
		*ret = NODE_MISSING;
	else if (r < 0 || S_ISCHR(st.st_mode) || S_ISBLK(st.st_mode))
		*ret = NODE_DEVICE;
	else if (!S_ISDIR(st.st_mode))
		*ret = NODE_OTHER;
	else {
		r = node_walk(root, path, scan, on_node, NULL);
		if (r < 0)
			return r;
		*ret = r > 0 ? NODE_DIRECTORY : NODE_EMPTY;
	}
	return 0;
}
