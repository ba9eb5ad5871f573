/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Devices that are known by their path: every match of a pattern, or one match of each of several
 * patterns zipped by position. The id comes from paths alone, never from the order in which things
 * were found, so it is the same after a reboot.
 */
#include <sys/sysmacros.h>

#include "drivers/driver.h"
#include "drivers/form.h"
#include "drivers/glob.h"
#include "drivers/sysroot.h"

#define MEMBER_LIMIT_MAX 100000
/* Deeper than any chain of buses. */
#define SYSFS_DEPTH_MAX 32

enum member_type { MEMBER_AUTO, MEMBER_DEVICE, MEMBER_MOUNT };

static const char *const member_types[] = { "auto", "device", "mount", NULL };

struct path_member {
	struct origin origin;
	char *path; /* pattern */
	char *as;
	char *permissions;
	bool optional;
	int type; /* enum member_type */
	bool read_only;
	int64_t limit;
};

struct path_match {
	struct path_member single; /* path NULL: `members` instead; first, so that origin is */
	struct groups members;     /* struct path_member */
};

static int check_pattern(const char *value, struct error *error)
{
	int r = form_absolute_path(value, error);

	if (r < 0)
		return r;
	if (value[strspn(value, "/")] == '\0')
		return error_set(error, -EINVAL, "must name something below \"/\"");
	if (strstr(value, "**"))
		return error_set(error, -EINVAL,
			"has \"**\" in \"%s\", but a \"*\" stays within one directory: write one "
			"\"*\" for each level",
			value);
	return 0;
}

/* clang-format off */
#define MEMBER_OPTIONS(path_required)                                                              \
	{                                                                                          \
		.key = "path",                                                                     \
		.type = OPTION_STRING,                                                             \
		.offset = offsetof(struct path_member, path),                                      \
		.required = path_required,                                                         \
		.maximum = 4095,                                                                   \
		.check = check_pattern,                                                            \
		.help = "Shell pattern (* ? [...]) of paths on the host; each match is a device.", \
	},                                                                                         \
	{                                                                                          \
		.key = "as",                                                                       \
		.type = OPTION_STRING,                                                             \
		.offset = offsetof(struct path_member, as),                                        \
		.maximum = 4095,                                                                   \
		.check = form_absolute_path,                                                       \
		.help = "Path in the container if it differs; with a \"/\" at the end, the "       \
			"directory it is put in.",                                                 \
	},                                                                                         \
	{                                                                                          \
		.key = "permissions",                                                              \
		.type = OPTION_STRING,                                                             \
		.offset = offsetof(struct path_member, permissions),                               \
		.default_string = "rw",                                                            \
		.check = form_permissions,                                                         \
		.help = "What the container may do with a device node: r, w, m (mknod).",          \
	},                                                                                         \
	{                                                                                          \
		.key = "optional",                                                                 \
		.type = OPTION_BOOL,                                                               \
		.offset = offsetof(struct path_member, optional),                                  \
		.help = "The device is complete without it.",                                      \
	},                                                                                         \
	{                                                                                          \
		.key = "type",                                                                     \
		.type = OPTION_CHOICE,                                                             \
		.offset = offsetof(struct path_member, type),                                      \
		.choices = member_types,                                                           \
		.help = "A device node, a bind mount, or what suits the path.",                    \
	},                                                                                         \
	{                                                                                          \
		.key = "read_only",                                                                \
		.type = OPTION_BOOL,                                                               \
		.offset = offsetof(struct path_member, read_only),                                 \
		.help = "A mount cannot be written to.",                                           \
	},                                                                                         \
	{                                                                                          \
		.key = "limit",                                                                    \
		.type = OPTION_INTEGER,                                                            \
		.offset = offsetof(struct path_member, limit),                                     \
		.minimum = 1,                                                                      \
		.maximum = MEMBER_LIMIT_MAX,                                                       \
		.default_integer = 1,                                                              \
		.unit = "devices",                                                                 \
		.help = "Of how many devices one match may be a part.",                            \
	}
/* clang-format on */

static const struct option member_options[] = { MEMBER_OPTIONS(true) };

static const struct option_table member_table = {
	.name = "path",
	.shorthand = "path",
	.size = sizeof(struct path_member),
	.options = member_options,
	.count = ARRAY_SIZE(member_options),
};

static const struct option match_options[] = {
	MEMBER_OPTIONS(false),
	{
		.key = "paths",
		.type = OPTION_GROUPS,
		.offset = offsetof(struct path_match, members),
		.table = &member_table,
		.help = "Patterns whose first matches make the first device, the second the "
			"second, and so on.",
	},
};

static const struct option_table match_table = {
	.name = "match entry",
	.shorthand = "path",
	.size = sizeof(struct path_match),
	.options = match_options,
	.count = ARRAY_SIZE(match_options),
};

static size_t member_count(const struct path_match *match)
{
	return match->single.path ? 1 : match->members.count;
}

static const struct path_member *member_get(const struct path_match *match, size_t index)
{
	return match->single.path ? &match->single : groups_get(&match->members, index);
}

static bool member_is_plain(const struct path_member *member)
{
	return !member->as && streq(member->permissions, "rw") && !member->optional &&
		member->type == MEMBER_AUTO && !member->read_only && member->limit == 1;
}

static int path_check(const struct declaration *declaration, struct report *report)
{
	size_t before = report->count;

	if (declaration->match.count == 0)
		return report_add(report, &declaration->origin, "match",
			"driver \"path\" needs at least one entry with \"path\" or \"paths\"");
	for (size_t i = 0; i < declaration->match.count; i++) {
		const struct path_match *match = groups_get(&declaration->match, i);
		const struct origin *origin = &match->single.origin;

		if (!match->single.path == (match->members.count == 0)) {
			(void)report_add(report, origin, "match",
				"an entry has either \"path\" or \"paths\", this one has %s",
				match->single.path ? "both" : "neither");
			continue;
		}
		if (!match->single.path && !member_is_plain(&match->single))
			(void)report_add(report, origin, "paths",
				"the other keys go into each of the \"paths\", not beside them");
		for (size_t k = 0; k < member_count(match); k++) {
			const struct path_member *member = member_get(match, k);

			if (member->read_only && member->type == MEMBER_DEVICE)
				(void)report_add(report, &member->origin, "read_only",
					"is for mounts; for a device use permissions = \"r\"");
		}
	}
	return report->count > before || report->incomplete ? -EINVAL : 0;
}

static int path_claims(const struct declaration *declaration, struct strings *ret_claims)
{
	_cleanup_strings_ struct strings claims = { 0 };
	int r;

	for (size_t i = 0; i < declaration->match.count; i++) {
		const struct path_match *match = groups_get(&declaration->match, i);

		for (size_t k = 0; k < member_count(match); k++) {
			const struct path_member *member = member_get(match, k);

			/* One with a limit is meant to be shared. */
			if (glob_is_pattern(member->path) || member->limit > 1)
				continue;
			r = strings_add(&claims, member->path, strlen(member->path));
			if (r < 0)
				return r;
		}
	}
	*ret_claims = claims;
	claims = (struct strings){ 0 };
	return 0;
}

/* --- ids --- */

/* Whether the member's path is part of the id. Required ones are, so that an optional one which
 * comes later does not make another device of it; the rest only where the required ones may be
 * shared and cannot tell devices apart. */
static bool names_device(const struct path_match *match, const struct path_member *member)
{
	if (!member->optional)
		return true;
	for (size_t i = 0; i < member_count(match); i++)
		if (!member_get(match, i)->optional && member_get(match, i)->limit == 1)
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

	for (size_t i = 0; i < member_count(match); i++) {
		if (!hosts[i] || !names_device(match, member_get(match, i)))
			continue;
		r = append_to_id(&text, &original, hosts[i]);
		if (r < 0)
			return r;
	}
	/* ':' and '+' are ours; a path that has them would look like another. */
	if (strpbrk(original, ":+"))
		device_id_make_hashed(text, original, ret_id);
	else
		device_id_make(text, ret_id);
	return 0;
}

/* --- what the host says about one path --- */

static int read_number(const char *root, const char *directory, const char *file, int *ret)
{
	char path[4352], text[32], *end;
	ssize_t r;
	long value;

	(void)snprintf(path, sizeof(path), "%s/%s", directory, file);
	r = sysroot_read(root, path, text, sizeof(text));
	if (r < 0)
		return (int)r;
	value = strtol(text, &end, 10);
	if (end == text || value < -1 || value > INT32_MAX)
		return -EINVAL;
	*ret = (int)value;
	return 0;
}

/* Looks for the NUMA node of what is behind a device number, from the device up the buses. */
static int add_numa(struct device *device, const char *root, const char *sysfs)
{
	_cleanup_free_ char *directory = NULL;
	char path[128];
	int numa, r;

	(void)snprintf(path, sizeof(path), "%s/device", sysfs);
	r = sysroot_resolve(root, path, &directory);
	if (r < 0)
		r = sysroot_resolve(root, sysfs, &directory);
	if (r < 0)
		return r == -ENOMEM ? r : 0;
	for (unsigned i = 0; i < SYSFS_DEPTH_MAX && startswith(directory, "/sys/"); i++) {
		if (read_number(root, directory, "numa_node", &numa) >= 0)
			return device_add_numa(device, numa);
		*strrchr(directory, '/') = '\0';
	}
	return 0;
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

	for (size_t i = 0; i < member_count(zip->match); i++) {
		const struct path_member *member = member_get(zip->match, i);
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

	for (size_t i = 0; i < member_count(zip->match); i++) {
		const struct path_member *member = member_get(zip->match, i);
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
	for (size_t i = 0; i < member_count(zip->match) && r >= 0; i++)
		if (zip->hosts[i])
			r = add_path(scan, device, member_get(zip->match, i), zip->hosts[i],
				&zip->stats[i]);
	return r;
}

static int list_match(struct scan *scan, const struct path_match *match, struct error *error)
{
	size_t n = member_count(match);
	_cleanup_free_ struct strings *found = calloc(n, sizeof(*found));
	_cleanup_free_ const char **hosts = calloc(n, sizeof(*hosts));
	_cleanup_free_ struct stat *stats = calloc(n, sizeof(*stats));
	struct zip zip = { .match = match, .found = found, .hosts = hosts, .stats = stats };
	int r = 0;

	if (!found || !hosts || !stats)
		return error_set(error, -ENOMEM, "out of memory");
	for (size_t i = 0; i < n && r >= 0; i++) {
		const char *pattern = member_get(match, i)->path;

		r = glob_expand(scan, pattern, &found[i], error);
		if (r < 0)
			error_prefix(error, "%s", pattern);
	}
	for (size_t i = 0; r >= 0 && i < zip_length(&zip); i++) {
		r = zip_add(scan, &zip, i);
		if (r < 0)
			(void)error_set(error, r, "cannot take in what %s matches: %s",
				member_get(match, 0)->path, strerror(-r));
	}
	for (size_t i = 0; i < n; i++)
		strings_done(&found[i]);
	return r;
}

static int path_list(const struct declaration *declaration, struct scan *scan, struct error *error)
{
	int r;

	for (size_t i = 0; i < declaration->match.count; i++) {
		r = list_match(scan, groups_get(&declaration->match, i), error);
		if (r < 0)
			return r;
	}
	return 0;
}

const struct driver path_driver = {
	.name = "path",
	.summary = "device nodes, directories and sockets, found by their paths",
	.match = &match_table,
	.check = path_check,
	.claims = path_claims,
	.list = path_list,
};
