/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Driver "path" finds devices by their path: every match of a pattern, or one match of each of
 * several patterns joined by position or number. The id comes from paths alone, never from the
 * order of discovery, so it is the same after a reboot.
 */
#include "drivers/path/path.h"
#include "drivers/host/glob.h"
#include "drivers/model/form.h"
#include "drivers/model/node-permissions.h"

#define MEMBER_LIMIT_MAX 100000

static const char *const member_types[] = { "auto", "device", "mount", NULL };
static const char *const joins[] = { "position", "number", NULL };
static const char *const identities[] = { "path", "location", NULL };

/* Variables are not known here, so a "$" is nothing special. */
static int check_absolute(const char *value, struct error *error)
{
	if (value[0] != '/')
		return error_set(error, -EINVAL,
			"must be an absolute path beginning with \"/\", not \"%s\"", value);
	return form_absolute_path(value, error);
}

static int check_pattern(const char *value, struct error *error)
{
	int r = check_absolute(value, error);

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
		.help = "Shell pattern (* ? [...]) of paths on the host; each match is a device. " \
			"Several names of one device node count as one device.",                   \
	},                                                                                         \
	{                                                                                          \
		.key = "as",                                                                       \
		.type = OPTION_STRING,                                                             \
		.offset = offsetof(struct path_member, as),                                        \
		.maximum = 4095,                                                                   \
		.check = check_absolute,                                                       \
		.help = "Path in the container if it differs; with a final \"/\", the "            \
			"directory.",                                                              \
	},                                                                                         \
	PERMISSIONS_OPTION(struct path_member),                                                    \
	{                                                                                          \
		.key = "optional",                                                                 \
		.type = OPTION_BOOL,                                                               \
		.offset = offsetof(struct path_member, optional),                                  \
		.help = "The device is complete without this path.",                               \
	},                                                                                         \
	{                                                                                          \
		.key = "type",                                                                     \
		.type = OPTION_CHOICE,                                                             \
		.offset = offsetof(struct path_member, type),                                      \
		.choices = member_types,                                                           \
		.help = "Device node, bind mount, or the type that fits the path.",                \
	},                                                                                         \
	{                                                                                          \
		.key = "read_only",                                                                \
		.type = OPTION_BOOL,                                                               \
		.offset = offsetof(struct path_member, read_only),                                 \
		.help = "The mount is read-only.",                                                 \
	},                                                                                         \
	{                                                                                          \
		.key = "limit",                                                                    \
		.type = OPTION_INTEGER,                                                            \
		.offset = offsetof(struct path_member, limit),                                     \
		.minimum = 1,                                                                      \
		.maximum = MEMBER_LIMIT_MAX,                                                       \
		.default_integer = 1,                                                              \
		.unit = "devices",                                                                 \
		.help = "Maximum number of devices that may share one match.",                     \
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
		.help = "Patterns of paths that form one device: the first matches of all patterns form the first device, and so on, unless `join` is set.",
	},
	{
		.key = "join",
		.type = OPTION_CHOICE,
		.offset = offsetof(struct path_match, join),
		.choices = joins,
		.help = "How the matches of `paths` are joined. With \"number\", the first number from the first * ? or [ of a pattern on decides: \"/dev/snd/controlC*\" and \"/dev/snd/pcmC*D0c\" of one sound card. A path that is not a pattern belongs to each device.",
	},
	{
		.key = "identity",
		.type = OPTION_CHOICE,
		.offset = offsetof(struct path_match, identity),
		.choices = identities,
		.help = "What the ids are made of: the paths (\"path\"), or the location of the hardware behind the first device node, such as \"0000:03:00.0:npu.0\" (\"location\"), for nodes that are numbered in the order of discovery. A device whose location /sys does not show has an id of its paths, and is named by `devplugctl explain`.",
	},
};

static const struct option_table match_table = {
	.name = "match entry",
	.shorthand = "path",
	.size = sizeof(struct path_match),
	.options = match_options,
	.count = ARRAY_SIZE(match_options),
};

static bool member_is_plain(const struct path_member *member)
{
	return !member->as && streq(member->permissions, PERMISSIONS_DEFAULT) &&
		!member->optional && member->type == MEMBER_AUTO && !member->read_only &&
		member->limit == 1;
}

static void path_check(const struct declaration *declaration, size_t index, struct report *report)
{
	const struct path_match *match = groups_get(&declaration->match, index);
	const struct origin *origin = &match->single.origin;

	if (!match->single.path == (match->members.count == 0)) {
		(void)report_add(report, origin, "match",
			"an entry has either \"path\" or \"paths\", this one has %s",
			match->single.path ? "both" : "neither");
		return;
	}
	if (match->single.path && match->join != JOIN_BY_POSITION)
		(void)report_add(report, origin, "join", "has no meaning without \"paths\"");
	if (!match->single.path && !member_is_plain(&match->single))
		(void)report_add(report, origin, "paths",
			"set the other keys in each of the \"paths\", not beside them");
	for (size_t k = 0; k < path_member_count(match); k++) {
		const struct path_member *member = path_member_get(match, k);
		char key[64] = "read_only";

		if (!match->single.path)
			(void)snprintf(key, sizeof(key), "paths[%zu].read_only", k);
		if (member->read_only && member->type == MEMBER_DEVICE)
			(void)report_add(report, &member->origin, key,
				"is for mounts; for a device use permissions = \"r\"");
	}
}

static int path_claims(const struct declaration *declaration, struct strings *ret_claims)
{
	_cleanup_strings_ struct strings claims = { 0 };
	int r;

	for (size_t i = 0; i < declaration->match.count; i++) {
		const struct path_match *match = groups_get(&declaration->match, i);

		for (size_t k = 0; k < path_member_count(match); k++) {
			const struct path_member *member = path_member_get(match, k);

			/* A device with a limit is meant to be shared. */
			if (form_is_pattern(member->path) || member->limit > 1)
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

/* A path in a container is no pattern, so one that could be taken for it is left out. */
static int add_container_path(
	const struct path_member *member, struct strings *hosts, struct strings *paths)
{
	const char *as = member->as ?: member->path, *name = "";
	_cleanup_free_ char *path = NULL;
	int r;

	if (member->as && form_is_pattern(member->as))
		return 0;
	if (as[strlen(as) - 1] == '/')
		name = strrchr(member->path, '/') + 1;
	if (format_text(&path, "%s%s", as, name) < 0)
		return -ENOMEM;
	r = strings_add(hosts, member->path, strlen(member->path));
	return r < 0 ? r : strings_add(paths, path, strlen(path));
}

static int path_paths(const struct declaration *declaration, size_t entry,
	struct strings *ret_hosts, struct strings *ret_paths)
{
	const struct path_match *match = groups_get(&declaration->match, entry);
	_cleanup_strings_ struct strings hosts = { 0 }, paths = { 0 };
	int r = 0;

	for (size_t i = 0; i < path_member_count(match) && r >= 0; i++)
		r = add_container_path(path_member_get(match, i), &hosts, &paths);
	if (r < 0)
		return r;
	*ret_hosts = hosts;
	*ret_paths = paths;
	hosts = paths = (struct strings){ 0 };
	return 0;
}

const struct driver path_driver = {
	.name = "path",
	.summary = "device nodes, directories and sockets, found by their paths",
	.match = &match_table,
	.mounts = DRIVER_MOUNTS,
	.node_directories = true,
	.without_pci = true,
	.check_entry = path_check,
	.claims = path_claims,
	.paths = path_paths,
	.list = path_list,
};
