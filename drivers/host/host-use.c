/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Decides whether the host uses a piece of hardware itself. What is mounted is read from the table
 * of mounts, and from the directories that file systems have in /sys: systemd hides some mounts
 * from the service (ProtectHome=), and a container has a table of its own. All files are bounded,
 * because a node may have a mount for each volume of each pod.
 */
#include "drivers/host/host-use.h"

#include "drivers/host/net-uplink.h"
#include "drivers/host/sysfs-walk.h"
#include "drivers/host/sysroot.h"

#define LINES_MAX  100000
#define BLOCK      "/sys/class/block"
#define LINE_SIZE  8192
#define FIELD_SIZE 256

/* --- disks --- */

/* Keeps the first use of a disk. */
static int add_use(struct host_use *use, const char *disk, const char *text)
{
	int r;

	if (map_get(&use->disks, disk))
		return 0;
	r = strings_add(&use->texts, disk, strlen(disk));
	if (r >= 0)
		r = strings_add(&use->texts, text, strlen(text));
	return r < 0 ? r
		     : map_put(&use->disks, use->texts.items[use->texts.count - 2],
			       use->texts.items[use->texts.count - 1]);
}

/* The name of the block device behind a path, such as "dm-0". Returns 1, 0 or -ENOMEM. */
static int name_of_node(
	const struct host_use *use, const char *path, char ret_name[static NAME_MAX + 1])
{
	_cleanup_free_ char *resolved = NULL;
	int r;

	if (!startswith(path, "/dev/"))
		return 0;
	r = sysroot_resolve(scan_root(use->scan), path, &resolved);
	if (r < 0)
		return r == -ENOMEM ? r : 0;
	(void)snprintf(ret_name, NAME_MAX + 1, "%s", strrchr(resolved, '/') + 1);
	return 1;
}

/* Replaces the escapes of /proc, such as "\040" for a blank. */
static void unescape(char *text)
{
	char *end = text;

	for (const char *p = text; *p; p++) {
		unsigned c;

		if (p[0] == '\\' && sscanf(p + 1, "%3o", &c) == 1 && c > 0 && c < 256) {
			*end++ = (char)c;
			p += 3;
		} else {
			*end++ = *p;
		}
	}
	*end = '\0';
}

/* "36 35 259:2 / /boot rw,noatime shared:1 - ext4 /dev/nvme0n1p2 rw". A file system of several
 * devices has no number of its own, but names one of them. */
static int add_mount(struct host_use *use, char *line)
{
	char place[FIELD_SIZE], source[FIELD_SIZE] = "", number[32], name[NAME_MAX + 1];
	char text[FIELD_SIZE + 32];
	const char *separator = strstr(line, " - ");
	unsigned major, minor;
	int r;

	if (sscanf(line, "%*u %*u %u:%u %*s %255s", &major, &minor, place) != 3)
		return 0;
	if (separator)
		(void)sscanf(separator + 3, "%*s %255s", source);
	(void)snprintf(number, sizeof(number), "%u:%u", major, minor);
	r = sysfs_read_link(scan_root(use->scan), "/sys/dev/block", number, name) >= 0;
	if (!r)
		r = name_of_node(use, source, name);
	if (r <= 0)
		return r;
	unescape(place);
	(void)snprintf(text, sizeof(text), "is mounted at %s", place);
	return add_use(use, name, text);
}

/* "/dev/sda2 partition 8388604 0 -2", below a head line; or a file, which is on a mounted disk. */
static int add_swap(struct host_use *use, char *line)
{
	char path[FIELD_SIZE], name[NAME_MAX + 1];
	int r;

	if (sscanf(line, "%255s", path) != 1)
		return 0;
	unescape(path);
	r = name_of_node(use, path, name);
	return r <= 0 ? r : add_use(use, name, "is swap space");
}

static int read_lines(
	struct host_use *use, const char *path, int (*add)(struct host_use *use, char *line))
{
	_cleanup_fclose_ FILE *stream = NULL;
	char line[LINE_SIZE];
	int r, c;

	r = sysroot_fopen(scan_root(use->scan), path, &stream);
	for (unsigned i = 0; i < LINES_MAX && r >= 0 && fgets(line, sizeof(line), stream); i++) {
		/* Only options follow in a line that is longer. */
		for (bool cut = !strchr(line, '\n'); cut && (c = getc(stream)) != EOF;)
			cut = c != '\n';
		r = add(use, line);
	}
	return r;
}

static int add_entries(struct host_use *use, const char *directory, const char *type)
{
	_cleanup_strings_ struct strings names = { 0 };
	char text[64];
	int r = 0;

	(void)snprintf(text, sizeof(text), "has a mounted %s file system", type);
	if (sysfs_list(scan_root(use->scan), directory, &names) < 0)
		return 0;
	for (size_t i = 0; i < names.count && r >= 0; i++)
		r = add_use(use, names.items[i], text);
	return r;
}

/* File systems list the devices that they are mounted from: /sys/fs/ext4/sda1,
 * /sys/fs/btrfs/UUID/devices/sda1. Other entries, such as "features", are no block devices. */
static int add_file_systems(struct host_use *use)
{
	static const char *const types[] = { "ext4", "xfs", "f2fs", "erofs" };
	_cleanup_strings_ struct strings uuids = { 0 };
	char directory[64 + NAME_MAX];
	int r = 0;

	for (size_t i = 0; i < ARRAY_SIZE(types) && r >= 0; i++) {
		(void)snprintf(directory, sizeof(directory), "/sys/fs/%s", types[i]);
		r = add_entries(use, directory, types[i]);
	}
	(void)sysfs_list(scan_root(use->scan), "/sys/fs/btrfs", &uuids);
	for (size_t i = 0; i < uuids.count && r >= 0; i++) {
		(void)snprintf(
			directory, sizeof(directory), "/sys/fs/btrfs/%s/devices", uuids.items[i]);
		r = add_entries(use, directory, "btrfs");
	}
	return r;
}

static int learn_disks(struct host_use *use)
{
	/* Without a root, the process's own table: it follows the host's, whose processes the
	 * service does not see (ProtectProc=). */
	const char *mounts = *scan_root(use->scan) ? "/proc/1/mountinfo" : "/proc/self/mountinfo";
	int r;

	if (use->knows_disks)
		return 0;
	use->knows_disks = true;
	r = read_lines(use, mounts, add_mount);
	if (sysroot_is_absent(r))
		scan_note_absent(use->scan, mounts,
			"some disks that the host uses may be offered without a note");
	if (r != -ENOMEM)
		r = read_lines(use, "/proc/swaps", add_swap);
	return r == -ENOMEM ? r : add_file_systems(use);
}

/* Device mapper, software RAID and others that use the disk. */
static bool has_holder(const char *root, const char *name, char ret_reason[static HOST_USE_MAX])
{
	_cleanup_strings_ struct strings holders = { 0 };
	char directory[sizeof(BLOCK) + NAME_MAX + 16];

	(void)snprintf(directory, sizeof(directory), BLOCK "/%s/holders", name);
	if (sysfs_list(root, directory, &holders) < 0 || holders.count == 0)
		return false;
	(void)snprintf(ret_reason, HOST_USE_MAX, "%.40s is on %.40s", holders.items[0], name);
	return true;
}

static bool has_file(const char *root, const char *name, char ret_reason[static HOST_USE_MAX])
{
	char directory[sizeof(BLOCK) + NAME_MAX + 16], file[SYSFS_VALUE_MAX + 1];

	(void)snprintf(directory, sizeof(directory), BLOCK "/%s/loop", name);
	if (sysfs_read(root, directory, "backing_file", file) < 0)
		return false;
	(void)snprintf(ret_reason, HOST_USE_MAX, "%.40s is set up for the file %.80s", name, file);
	return true;
}

static bool is_used(struct host_use *use, const char *name, char ret_reason[static HOST_USE_MAX])
{
	const char *root = scan_root(use->scan), *text = map_get(&use->disks, name);

	if (text)
		(void)snprintf(ret_reason, HOST_USE_MAX, "%.40s %.110s", name, text);
	return text || has_holder(root, name, ret_reason) || has_file(root, name, ret_reason);
}

int host_use_of_disk(struct host_use *use, const char *name, char ret_reason[static HOST_USE_MAX])
{
	_cleanup_strings_ struct strings entries = { 0 };
	char directory[sizeof(BLOCK) + NAME_MAX + 1];
	int r;

	r = learn_disks(use);
	if (r < 0 || is_used(use, name, ret_reason))
		return r < 0 ? r : 1;
	(void)snprintf(directory, sizeof(directory), BLOCK "/%s", name);
	r = sysfs_list(scan_root(use->scan), directory, &entries);
	if (r < 0)
		return r == -ENOMEM ? r : 0;
	for (size_t i = 0; i < entries.count; i++)
		if (startswith(entries.items[i], name) &&
			is_used(use, entries.items[i], ret_reason))
			return 1;
	return 0;
}

/* --- any hardware --- */

static int use_of_interface(
	struct host_use *use, const char *name, char ret_reason[static HOST_USE_MAX])
{
	const char *reason;
	int r = use->knows_uplinks ? 0 : net_uplinks_read(use->scan, &use->uplinks);

	if (r < 0)
		return r;
	use->knows_uplinks = true;
	reason = net_uplink_reason(scan_root(use->scan), &use->uplinks, name, false);
	if (reason)
		(void)snprintf(ret_reason, HOST_USE_MAX, "%.40s: %s", name, reason);
	return reason != NULL;
}

struct search {
	struct host_use *use;
	char *reason;
};

/* A path of a disk that has several: "nvme0c1n2" is "nvme0n2". */
static void name_of_path(char *name)
{
	unsigned subsystem, controller, space;
	char end;

	if (sscanf(name, "nvme%uc%un%u%c", &subsystem, &controller, &space, &end) == 3)
		(void)snprintf(name, NAME_MAX + 1, "nvme%un%u", subsystem, space);
}

static int on_device(const char *directory, void *userdata)
{
	const struct search *search = userdata;
	char subsystem[NAME_MAX + 1], name[NAME_MAX + 1];
	int r = 0;

	(void)snprintf(name, sizeof(name), "%s", strrchr(directory, '/') + 1);
	if (form_is_pci_address(name))
		return SYSFS_WALK_NOT_BELOW;
	if (sysfs_read_link(scan_root(search->use->scan), directory, "subsystem", subsystem) < 0)
		return SYSFS_WALK_ON;
	if (streq(subsystem, "net")) {
		r = use_of_interface(search->use, name, search->reason);
	} else if (streq(subsystem, "block")) {
		name_of_path(name);
		r = host_use_of_disk(search->use, name, search->reason);
	}
	return r > 0 ? SYSFS_WALK_STOP : r;
}

int host_use_below(
	struct host_use *use, const char *directory, char ret_reason[static HOST_USE_MAX])
{
	struct search search = { .use = use, .reason = ret_reason };
	const char *root = scan_root(use->scan);
	_cleanup_free_ char *resolved = NULL;
	int64_t chosen;
	int r;

	r = sysfs_resolve(root, directory, &resolved);
	if (r < 0)
		return r == -ENOMEM ? r : 0;
	if (sysfs_read_number(root, resolved, "boot_vga", &chosen) >= 0 && chosen == 1) {
		(void)strcpy(ret_reason, "it is the display that the firmware chose");
		return 1;
	}
	r = sysfs_walk(root, resolved, on_device, &search);
	return r == SYSFS_WALK_STOP ? 1 : sysroot_is_shortage(r) ? r : 0;
}

void host_use_done(struct host_use *use)
{
	map_done(&use->disks);
	strings_done(&use->texts);
	strings_done(&use->uplinks);
}
