/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Makes the devices of driver "path": expands each member's pattern, zips the matches by position,
 * makes an id of the paths, and reads the type of each path.
 */
#include <sys/sysmacros.h>

#include "drivers/host/glob.h"
#include "drivers/host/sysfs.h"
#include "drivers/host/sysroot.h"
#include "drivers/path/path.h"

/* --- ids --- */

/* Whether the member's path is part of the id. Required ones are, so that an optional path which
 * appears later does not change the id; optional ones are only where the required ones may be
 * shared and so do not identify a device. */
static bool names_device(const struct path_match *match, const struct path_member *member)
{
	if (!member->optional)
		return true;
	for (size_t i = 0; i < path_member_count(match); i++)
		if (!path_member_get(match, i)->optional && path_member_get(match, i)->limit == 1)
			return false;
	return true;
}

/* "/dev/net/tun" is "net:tun". Joins to what is in `text` already. */
static int append_to_id(char **text, char **original, const char *path)
{
	const char *name = startswith(path, "/dev/") ?: path + 1;
	_cleanup_free_ char *mapped = strdup(name);
	char *joined, *joined_original;

	if (!mapped)
		return -ENOMEM;
	for (char *p = mapped; *p; p++)
		if (*p == '/')
			*p = ':';
	if (asprintf(&joined, "%s%s%s", *text ?: "", *text ? "+" : "", mapped) < 0)
		return -ENOMEM;
	free(*text);
	*text = joined;
	if (asprintf(&joined_original, "%s%s%s", *original ?: "", *original ? "\n" : "", name) < 0)
		return -ENOMEM;
	free(*original);
	*original = joined_original;
	return 0;
}

static int make_id(const struct path_match *match, const char *const *hosts,
	char ret_id[static DEVICE_ID_MAX + 1])
{
	_cleanup_free_ char *text = NULL, *original = NULL;
	int r;

	for (size_t i = 0; i < path_member_count(match); i++) {
		if (!hosts[i] || !names_device(match, path_member_get(match, i)))
			continue;
		r = append_to_id(&text, &original, hosts[i]);
		if (r < 0)
			return r;
	}
	/* ':' and '+' separate paths in an id; a path that contains them would be ambiguous. */
	if (strpbrk(original, ":+"))
		device_id_make_hashed(text, original, ret_id);
	else
		device_id_make(text, ret_id);
	return 0;
}

/* --- the type of one path on the host --- */

/* A device number leads to an entry of a class; the device itself, if any, is one step further. */
static int add_numa(struct device *device, const char *root, const char *sysfs)
{
	char path[128];
	struct stat st;

	(void)snprintf(path, sizeof(path), "%s/device", sysfs);
	return sysfs_add_numa(root, sysroot_stat(root, path, &st) < 0 ? sysfs : path, device);
}

static int add_sysfs(struct device *device, const char *root, const struct stat *st)
{
	char sysfs[64];
	int r;

	(void)snprintf(sysfs, sizeof(sysfs), "/sys/dev/%s/%u:%u",
		S_ISBLK(st->st_mode) ? "block" : "char", major(st->st_rdev), minor(st->st_rdev));
	if (!device_variable(device, "sysfs")) {
		r = device_add_variable(device, "sysfs", sysfs);
		if (r < 0)
			return r;
	}
	return add_numa(device, root, sysfs);
}

static bool is_mount(const struct path_member *member, const char *host, const struct stat *st)
{
	if (member->type != MEMBER_AUTO)
		return member->type == MEMBER_MOUNT;
	if (S_ISCHR(st->st_mode) || S_ISBLK(st->st_mode))
		return false;
	/* The runtime turns a directory of nodes into its nodes. */
	return !(S_ISDIR(st->st_mode) && startswith(host, "/dev/"));
}

/* Watches the directory a symbolic link leads to: the link stays when its target goes. */
static int watch_target(struct scan *scan, const char *host, const char *target)
{
	_cleanup_free_ char *directory = NULL;

	if (streq(host, target))
		return 0;
	directory = strdup(target);
	if (!directory)
		return -ENOMEM;
	*strrchr(directory, '/') = '\0';
	return scan_watch(scan, *directory ? directory : "/");
}

static int add_path(struct scan *scan, struct device *device, const struct path_member *member,
	const char *host, const struct stat *st)
{
	_cleanup_free_ char *target = NULL, *joined = NULL;
	const char *path = member->as ?: host;
	int r;

	if (path[strlen(path) - 1] == '/') {
		if (asprintf(&joined, "%s%s", path, strrchr(host, '/') + 1) < 0)
			return -ENOMEM;
		path = joined;
	}
	r = sysroot_resolve(scan_root(scan), host, &target);
	if (r == -ENOMEM)
		return r;
	if (target) {
		r = watch_target(scan, host, target);
		if (r < 0)
			return r;
	}
	/* A bind mount of a link would show its target under the target's name at best. */
	if (is_mount(member, host, st))
		return device_add_mount(device, target ?: host, path, member->read_only);
	r = device_add_node(device, host, path, member->permissions);
	if (r < 0)
		return r;
	if (S_ISCHR(st->st_mode) || S_ISBLK(st->st_mode))
		return add_sysfs(device, scan_root(scan), st);
	return 0;
}

static int add_member(struct scan *scan, struct device *device, const struct path_member *member,
	const char *host, const struct stat *st)
{
	size_t first = device->n_nodes;
	int r = add_path(scan, device, member, host, st);

	if (r >= 0 && member->limit > 1)
		device_share_nodes(device, first);
	return r;
}

/* --- zipping --- */

struct zip {
	const struct path_match *match;
	struct strings *found; /* for each member */
	const char **hosts;    /* of the device in hand; NULL: absent */
	struct stat *stats;
};

static size_t zip_length(const struct zip *zip)
{
	size_t greatest = 0, least = SIZE_MAX;

	for (size_t i = 0; i < path_member_count(zip->match); i++) {
		const struct path_member *member = path_member_get(zip->match, i);
		size_t count = zip->found[i].count;

		greatest = MAX_OF(greatest, count);
		if (!member->optional)
			least = MIN_OF(least, count * (size_t)member->limit);
	}
	return MIN_OF(greatest, least);
}

/* Takes the device's paths from the matches. Returns whether it is still there. */
static bool zip_pick(struct scan *scan, struct zip *zip, size_t index)
{
	bool any = false;

	for (size_t i = 0; i < path_member_count(zip->match); i++) {
		const struct path_member *member = path_member_get(zip->match, i);
		const struct strings *found = &zip->found[i];

		zip->hosts[i] = NULL;
		if (index < found->count * (size_t)member->limit) {
			const char *host = found->items[index % found->count];

			if (sysroot_stat(scan_root(scan), host, &zip->stats[i]) >= 0)
				zip->hosts[i] = host;
		}
		if (!zip->hosts[i] && !member->optional)
			return false;
		any = any || (zip->hosts[i] && names_device(zip->match, member));
	}
	return any;
}

static int zip_add(struct scan *scan, struct zip *zip, size_t index)
{
	char id[DEVICE_ID_MAX + 1];
	struct device *device;
	int r;

	if (!zip_pick(scan, zip, index))
		return 0;
	r = make_id(zip->match, zip->hosts, id);
	if (r < 0)
		return r;
	r = scan_add(scan, id, &device);
	if (r == -EEXIST)
		return 0;
	for (size_t i = 0; i < path_member_count(zip->match) && r >= 0; i++)
		if (zip->hosts[i])
			r = add_member(scan, device, path_member_get(zip->match, i), zip->hosts[i],
				&zip->stats[i]);
	return r;
}

int path_list_match(struct scan *scan, const struct path_match *match, struct error *error)
{
	size_t n = path_member_count(match);
	_cleanup_free_ struct strings *found = calloc(n, sizeof(*found));
	_cleanup_free_ const char **hosts = calloc(n, sizeof(*hosts));
	_cleanup_free_ struct stat *stats = calloc(n, sizeof(*stats));
	struct zip zip = { .match = match, .found = found, .hosts = hosts, .stats = stats };
	int r = 0;

	if (!found || !hosts || !stats)
		return error_set(error, -ENOMEM, "out of memory");
	for (size_t i = 0; i < n && r >= 0; i++) {
		const char *pattern = path_member_get(match, i)->path;

		r = glob_expand(scan, pattern, &found[i], error);
		if (r < 0)
			error_prefix(error, "%s", pattern);
	}
	for (size_t i = 0; r >= 0 && i < zip_length(&zip); i++) {
		r = zip_add(scan, &zip, i);
		if (r < 0)
			(void)error_set(error, r, "cannot add the matches of %s: %s",
				path_member_get(match, 0)->path, strerror(-r));
	}
	for (size_t i = 0; i < n; i++)
		strings_done(&found[i]);
	return r;
}
