/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Makes the devices of driver "path": expands each member's pattern, joins the matches, makes an id
 * of the paths, and reads the type of each path. A device node that several names lead to (the
 * links of a disk in /dev/disk/by-id) is one device.
 */
#include <fnmatch.h>
#include <sys/sysmacros.h>

#include "common/map.h"
#include "drivers/host/glob.h"
#include "drivers/host/node-state.h"
#include "drivers/host/sysfs.h"
#include "drivers/host/sysroot.h"
#include "drivers/path/path.h"

/* A path of the device in hand. */
struct place {
	const char *host; /* NULL: absent */
	char *target;     /* without symbolic links; NULL: not known */
	bool mount;       /* it is for a bind mount, not a device node */
	struct stat st;
};

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
	if (format_text(&joined, "%s%s%s", *text ?: "", *text ? "+" : "", mapped) < 0)
		return -ENOMEM;
	free(*text);
	*text = joined;
	if (format_text(&joined_original, "%s%s%s", *original ?: "", *original ? "\n" : "", name) <
		0)
		return -ENOMEM;
	free(*original);
	*original = joined_original;
	return 0;
}

static int make_id(const struct path_match *match, const struct place *places,
	char ret_id[static DEVICE_ID_MAX + 1])
{
	_cleanup_free_ char *text = NULL, *original = NULL;
	int r;

	for (size_t i = 0; i < path_member_count(match); i++) {
		if (!places[i].host || !names_device(match, path_member_get(match, i)))
			continue;
		r = append_to_id(&text, &original, places[i].host);
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

/* Whether the file is in /dev itself, not on a file system that is mounted there. Only nodes and
 * sockets belong there; any other file is in the place of a node. */
static bool is_in_dev(const char *root, const char *host, const struct stat *st)
{
	struct stat dev;

	return startswith(host, "/dev/") && sysroot_stat(root, "/dev", &dev) >= 0 &&
		dev.st_dev == st->st_dev;
}

static bool is_mount(
	const char *root, const struct path_member *member, const char *host, const struct stat *st)
{
	if (member->type != MEMBER_AUTO)
		return member->type == MEMBER_MOUNT;
	if (S_ISCHR(st->st_mode) || S_ISBLK(st->st_mode))
		return false;
	/* The runtime turns a directory of nodes into its nodes. */
	if (S_ISDIR(st->st_mode))
		return !startswith(host, "/dev/");
	return S_ISSOCK(st->st_mode) || !is_in_dev(root, host, st);
}

/* Reads what is at a path. An optional device node is absent if something else is in its place. */
static int read_place(
	struct scan *scan, const struct path_member *member, const char *host, struct place *place)
{
	const char *root = scan_root(scan);
	enum node_state state = NODE_DEVICE;
	int r = 0;

	if (sysroot_stat(root, host, &place->st) < 0)
		return 0;
	place->mount = is_mount(root, member, host, &place->st);
	if (member->optional && !place->mount)
		r = node_state_read(root, host, scan, &state);
	if (r >= 0 && node_state_is_usable(state, true))
		place->host = host;
	return r;
}

/* Watches the directory a symbolic link leads to: the link stays when its target goes. */
static int watch_target(struct scan *scan, const char *host, const char *target)
{
	return streq(host, target) ? 0 : scan_watch_parent(scan, target);
}

static int claim_node(const char *path, void *userdata)
{
	return device_add_claim(userdata, path);
}

static int add_path(struct scan *scan, struct device *device, const struct path_member *member,
	const struct place *place)
{
	const char *host = place->host, *target = place->target, *path = member->as ?: host;
	_cleanup_free_ char *joined = NULL;
	int r;

	if (path[strlen(path) - 1] == '/') {
		if (format_text(&joined, "%s%s", path, strrchr(host, '/') + 1) < 0)
			return -ENOMEM;
		path = joined;
	}
	if (target) {
		r = watch_target(scan, host, target);
		if (r < 0)
			return r;
	}
	/* A bind mount of a link would show its target under the target's name at best. */
	if (place->mount)
		return device_add_mount(device, target ?: host, path, member->read_only);
	r = device_add_node(device, host, path, member->permissions);
	if (r < 0)
		return r;
	if (S_ISCHR(place->st.st_mode) || S_ISBLK(place->st.st_mode))
		return add_sysfs(device, scan_root(scan), &place->st);
	/* A container gets the nodes in a directory, which other resources may offer one by one. */
	return member->limit == 1
		? node_walk(scan_root(scan), target ?: host, scan, claim_node, device)
		: 0;
}

/* --- zipping --- */

/* Device nodes that belong to one device only. */
struct path_nodes {
	struct strings texts; /* holds the others */
	struct map names;     /* the name of each, by its path without symbolic links */
	size_t n_taken;       /* devices that were left out because one of their nodes belongs to
			       * another device */
	char example[2 * 256 + 64];
};

struct zip {
	const struct declaration *declaration;
	const struct path_match *match;
	struct strings *found; /* for each member */
	struct place *places;  /* the same */
	struct path_nodes *nodes;
	struct path_numbers numbers; /* JOIN_BY_NUMBER */
	size_t n_unlocated;          /* IDENTITY_LOCATION: devices with an id of their paths */
	char unlocated[256];         /* the node of the first */
};

static int add_member(struct scan *scan, const struct zip *zip, size_t i, struct device *device)
{
	const struct path_member *member = path_member_get(zip->match, i);
	size_t first = device->n_nodes;
	int r = add_path(scan, device, member, &zip->places[i]);

	if (r >= 0 && member->limit > 1)
		device_share_nodes(device, first);
	for (size_t k = first; k < device->n_nodes; k++)
		device->nodes[k].optional = !names_device(zip->match, member);
	return r;
}

static size_t zip_length(const struct zip *zip)
{
	size_t greatest = 0, least = SIZE_MAX;

	if (zip->match->join == JOIN_BY_NUMBER)
		return zip->numbers.devices.count;
	for (size_t i = 0; i < path_member_count(zip->match); i++) {
		const struct path_member *member = path_member_get(zip->match, i);
		size_t count = zip->found[i].count;

		greatest = MAX_OF(greatest, count);
		if (!member->optional)
			least = MIN_OF(least, count * (size_t)member->limit);
	}
	return MIN_OF(greatest, least);
}

static void zip_drop(struct zip *zip)
{
	for (size_t i = 0; i < path_member_count(zip->match); i++) {
		free(zip->places[i].target);
		zip->places[i].host = zip->places[i].target = NULL;
	}
}

/* The member's path for the device of that index, or NULL. */
static const char *zip_path(const struct zip *zip, size_t i, size_t index)
{
	const struct path_member *member = path_member_get(zip->match, i);
	const struct strings *found = &zip->found[i];

	if (zip->match->join == JOIN_BY_NUMBER && form_is_pattern(member->path))
		return path_numbers_get(&zip->numbers, i, index);
	return index < found->count * (size_t)member->limit ? found->items[index % found->count]
							    : NULL;
}

static int test_path(const void *entry, void *candidate)
{
	const char *pattern = ((const struct path_member *)entry)->path;

	return fnmatch(pattern, candidate, FNM_PATHNAME | FNM_PERIOD) == 0;
}

static const struct groups *members_of(const void *entry)
{
	return &((const struct path_match *)entry)->members;
}

/* For entries of `exclude`: those of `match` are expanded. */
static const struct condition conditions[] = {
	{ .key = "path", .test = test_path, .phrase = "differs" },
};

static const struct conditions path_conditions = {
	.noun = "path",
	.items = conditions,
	.count = ARRAY_SIZE(conditions),
	.parts = members_of,
};

/* Takes one of the device's paths from the matches, unless it is excluded. Returns whether the
 * device may have it, or negative errno. */
static int pick_place(struct scan *scan, const struct zip *zip, const struct path_member *member,
	const char *host, struct place *place)
{
	int r;

	r = read_place(scan, member, host, place);
	if (r < 0 || !place->host)
		return r < 0 ? r : member->optional;
	r = scan_excludes(scan, zip->declaration, &path_conditions, (void *)host, host, host);
	if (r != 0) {
		place->host = NULL;
		return r < 0 ? r : member->optional;
	}
	r = sysroot_resolve(scan_root(scan), host, &place->target);
	return r == -ENOMEM ? r : 1;
}

/* Takes the device's paths from the matches. Returns whether it is still there, or negative errno.
 */
static int zip_pick(struct scan *scan, struct zip *zip, size_t index)
{
	bool any = false;
	int r;

	for (size_t i = 0; i < path_member_count(zip->match); i++) {
		const struct path_member *member = path_member_get(zip->match, i);
		const char *host = zip_path(zip, i, index);
		struct place *place = &zip->places[i];

		r = host ? pick_place(scan, zip, member, host, place) : member->optional;
		if (r <= 0)
			return r;
		any = any || (place->host && names_device(zip->match, member));
	}
	return any;
}

/* Whether the member's node belongs to this device only. */
static bool is_own_node(const struct path_member *member, const struct place *place)
{
	return place->target && member->limit == 1 && !place->mount;
}

/* Whether one of its nodes belongs to an earlier device, under any name. */
static bool zip_is_taken(const struct zip *zip)
{
	struct path_nodes *nodes = zip->nodes;

	for (size_t i = 0; i < path_member_count(zip->match); i++) {
		const struct place *place = &zip->places[i];
		const char *other;

		if (!is_own_node(path_member_get(zip->match, i), place))
			continue;
		other = map_get(&nodes->names, place->target);
		if (!other)
			continue;
		if (nodes->n_taken++ > 0)
			return true;
		if (streq(other, place->host))
			(void)snprintf(
				nodes->example, sizeof(nodes->example), "%s matches twice", other);
		else
			(void)snprintf(nodes->example, sizeof(nodes->example),
				"%s and %s are the same device node", other, place->host);
		return true;
	}
	return false;
}

static int path_nodes_add(struct path_nodes *nodes, const struct place *place)
{
	size_t n = nodes->texts.count;
	int r;

	r = strings_add(&nodes->texts, place->target, strlen(place->target));
	if (r >= 0)
		r = strings_add(&nodes->texts, place->host, strlen(place->host));
	if (r < 0)
		return r;
	r = map_put(&nodes->names, nodes->texts.items[n], nodes->texts.items[n + 1]);
	return r == -EEXIST ? 0 : r;
}

static int zip_take_nodes(const struct zip *zip)
{
	int r = 0;

	for (size_t i = 0; i < path_member_count(zip->match) && r >= 0; i++)
		if (is_own_node(path_member_get(zip->match, i), &zip->places[i]))
			r = path_nodes_add(zip->nodes, &zip->places[i]);
	return r;
}

/* Finds the id of the device whose paths are picked. */
static int zip_make_id(
	const struct scan *scan, struct zip *zip, char ret_id[static DEVICE_ID_MAX + 1])
{
	const struct place *first = NULL;
	int r;

	for (size_t i = 0; i < path_member_count(zip->match) && !first; i++)
		if (is_own_node(path_member_get(zip->match, i), &zip->places[i]))
			first = &zip->places[i];
	if (zip->match->identity == IDENTITY_LOCATION && first) {
		r = path_location(scan, &first->st, ret_id);
		if (r != 0)
			return MIN_OF(r, 0);
		if (zip->n_unlocated++ == 0)
			(void)snprintf(zip->unlocated, sizeof(zip->unlocated), "%s", first->host);
	}
	return make_id(zip->match, zip->places, ret_id);
}

static int zip_add(struct scan *scan, struct zip *zip, size_t index)
{
	char id[DEVICE_ID_MAX + 1];
	struct device *device;
	int r;

	r = zip_pick(scan, zip, index);
	if (r <= 0)
		return r;
	r = zip_make_id(scan, zip, id);
	if (r < 0)
		return r;
	r = scan_add(scan, id, &device);
	if (r < 0)
		return r == -EEXIST ? 0 : r;
	for (size_t i = 0; i < path_member_count(zip->match) && r >= 0; i++)
		if (zip->places[i].host)
			r = add_member(scan, zip, i, device);
	/* An excluded name leaves the node to the others. */
	if (r < 0 || declaration_excludes(zip->declaration, device))
		return r;
	if (!zip_is_taken(zip))
		return zip_take_nodes(zip);
	scan_drop_last(scan);
	return 0;
}

/* --- explaining what matches nothing --- */

/* Finds a directory that is missing on the way to the pattern, or the name of a file that
 * begins as the pattern does. `ret_missing` or `ret_near` is empty if there is none. */
static void look_around(const struct scan *scan, const char *pattern,
	char ret_missing[static PATH_MAX], char ret_near[static PATH_MAX])
{
	size_t literal = strcspn(pattern, "*?[\\,+. ");
	_cleanup_strings_ struct strings names = { 0 };
	char directory[PATH_MAX], begin[NAME_MAX + 1];
	struct stat st;

	*ret_missing = *ret_near = '\0';
	(void)snprintf(directory, sizeof(directory), "%.*s", (int)literal, pattern);
	(void)snprintf(begin, sizeof(begin), "%s", strrchr(directory, '/') + 1);
	strrchr(directory, '/')[1] = '\0';
	for (char *p = directory + 1; (p = strchr(p, '/')); p++) {
		*p = '\0';
		if (sysroot_is_absent(sysroot_stat(scan_root(scan), directory, &st))) {
			(void)strcpy(ret_missing, directory);
			return;
		}
		*p = '/';
	}
	if (*begin && sysfs_list(scan_root(scan), directory, &names) >= 0)
		for (size_t i = 0; i < names.count && !*ret_near; i++)
			if (startswith(names.items[i], begin))
				(void)snprintf(ret_near, PATH_MAX, "%.2000s%.255s", directory,
					names.items[i]);
}

/* What is wrong with the pattern, as far as it can be seen. */
static void explain_pattern(struct scan *scan, size_t entry, const char *pattern)
{
	const char *mistake = form_pattern_mistake(pattern), *root = scan_root(scan);
	const char *inside = *root ? startswith(pattern, root) : NULL;
	char missing[PATH_MAX], near[PATH_MAX];

	look_around(scan, pattern, missing, near);
	if (inside && *inside == '/')
		scan_hint(scan, entry,
			"nothing matches \"%.80s\": paths are those of the host: write \"%.80s\"",
			pattern, inside);
	else if (mistake)
		scan_hint(scan, entry, "nothing matches \"%.80s\": %s%s%.80s", pattern, mistake,
			*near ? "; there is " : "", near);
	else if (*missing && *root)
		scan_hint(scan, entry, "nothing matches \"%.80s\": host_root %s has no %.80s",
			pattern, root, missing);
	else if (*missing)
		scan_hint(scan, entry, "nothing matches \"%.80s\": %.80s is missing", pattern,
			missing);
	else
		scan_hint(scan, entry, "nothing matches \"%.80s\"%s%.80s", pattern,
			*near ? "; there is " : "", near);
}

/* Explains the first pattern that keeps the entry from having a device. */
static void explain_match(const struct path_match *match, size_t entry, const struct strings *found,
	struct scan *scan)
{
	for (size_t i = 0; i < path_member_count(match); i++) {
		const struct path_member *member = path_member_get(match, i);

		if (found[i].count == 0 && !member->optional)
			explain_pattern(scan, entry, member->path);
	}
	if (match->join == JOIN_BY_NUMBER)
		scan_hint(scan, entry, "no number is in a match of each required pattern");
	scan_hint(scan, entry, "nothing matches \"%.80s\"", path_member_get(match, 0)->path);
}

/* Adds the devices of an entry whose patterns were expanded. */
static int list_found(struct scan *scan, struct zip *zip, size_t entry)
{
	const struct path_match *match = zip->match;
	int r = 0;

	for (size_t i = 0; i < path_member_count(match) && r >= 0; i++)
		r = path_note_names(scan, path_member_get(match, i)->path);
	if (r >= 0 && match->join == JOIN_BY_NUMBER)
		r = path_numbers_read(match, zip->found, scan, &zip->numbers);
	for (size_t i = 0; r >= 0 && i < zip_length(zip); i++) {
		r = zip_add(scan, zip, i);
		zip_drop(zip);
	}
	if (r >= 0 && zip_length(zip) == 0)
		explain_match(match, entry, zip->found, scan);
	else if (r >= 0 && match->join == JOIN_BY_POSITION)
		path_note_counts(scan, match, entry, zip->found);
	scan_explain_numbers(scan, entry, zip->unlocated, zip->n_unlocated);
	path_numbers_done(&zip->numbers);
	return r;
}

static int list_match(const struct declaration *declaration, size_t entry, struct scan *scan,
	struct path_nodes *nodes, struct error *error)
{
	const struct path_match *match = groups_get(&declaration->match, entry);
	size_t n = path_member_count(match);
	_cleanup_free_ struct strings *found = calloc(n, sizeof(*found));
	_cleanup_free_ struct place *places = calloc(n, sizeof(*places));
	struct zip zip = { .declaration = declaration,
		.match = match,
		.found = found,
		.places = places,
		.nodes = nodes };
	int r = 0;

	if (!found || !places)
		return error_set(error, -ENOMEM, "out of memory");
	for (size_t i = 0; i < n && r >= 0; i++) {
		const char *pattern = path_member_get(match, i)->path;

		r = glob_expand(scan, pattern, &found[i], error);
		if (r < 0)
			error_prefix(error, "%s", pattern);
	}
	if (r >= 0) {
		r = list_found(scan, &zip, entry);
		if (r < 0)
			(void)error_set(error, r, "cannot add the matches of %s: %s",
				path_member_get(match, 0)->path, strerror(-r));
	}
	for (size_t i = 0; i < n; i++)
		strings_done(&found[i]);
	return r;
}

static void note_taken(struct scan *scan, const struct path_nodes *nodes)
{
	char more[64] = "";

	if (nodes->n_taken > 1)
		(void)snprintf(more, sizeof(more), " (and %zu more)", nodes->n_taken - 1);
	if (nodes->n_taken > 0)
		scan_note(scan,
			"%s%s; a device node is offered once. Use a narrower pattern, or set `limit` "
			"of a node that several devices may have",
			nodes->example, more);
}

int path_list(const struct declaration *declaration, struct scan *scan, struct error *error)
{
	const struct groups *matches = &declaration->match;
	struct path_nodes nodes = { 0 };
	int r = 0;

	for (size_t i = 0; i < matches->count && r >= 0; i++)
		r = list_match(declaration, i, scan, &nodes, error);
	if (r >= 0)
		note_taken(scan, &nodes);
	map_done(&nodes.names);
	strings_done(&nodes.texts);
	return r;
}
