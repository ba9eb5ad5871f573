/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Two passes: first what there is and what each would be called, then the devices, so that a name
 * that turns out to belong to several is given to none of them, whatever the order they came in.
 */
#include <sys/sysmacros.h>

#include "drivers/identity.h"
#include "drivers/map.h"
#include "drivers/sysfs-driver.h"
#include "drivers/sysfs-walk.h"
#include "drivers/sysroot.h"
#include "drivers/template.h"
#include "drivers/values.h"

struct candidate {
	const struct sysfs_match *match;
	char *directory;        /* its own, or of the parent of a group */
	struct strings members; /* directories of what was found */
	char id[DEVICE_ID_MAX + 1];
	char default_id[DEVICE_ID_MAX + 1];
	bool shares_id;
};

struct candidates {
	const struct declaration *declaration;
	struct scan *scan;
	struct candidate **items;
	size_t count;
	struct map by_directory;
	struct map seen; /* directories of members */
};

static struct candidate *candidate_free(struct candidate *candidate)
{
	if (!candidate)
		return NULL;
	free(candidate->directory);
	strings_done(&candidate->members);
	free(candidate);
	return NULL;
}
DEFINE_CLEANUP(struct candidate *, candidate_free)

static void candidates_done(struct candidates *candidates)
{
	for (size_t i = 0; i < candidates->count; i++)
		(void)candidate_free(candidates->items[i]);
	free(candidates->items);
	map_done(&candidates->by_directory);
	map_done(&candidates->seen);
}

/* --- what is said of a device --- */

static int add_serial(const char *root, const char *directory, struct device *device)
{
	_cleanup_free_ char *path = strdup(directory);
	char serial[SYSFS_VALUE_MAX + 1];

	if (!path)
		return -ENOMEM;
	do
		if (sysfs_read(root, path, "serial", serial) >= 0 && *serial)
			return device_add_variable(device, "serial", serial);
	while (sysfs_ascend(path));
	return 0;
}

static int add_number(struct device *device, dev_t number)
{
	char text[16];
	int r;

	if (device_variable(device, "major"))
		return 0;
	(void)snprintf(text, sizeof(text), "%u", major(number));
	r = device_add_variable(device, "major", text);
	if (r < 0)
		return r;
	(void)snprintf(text, sizeof(text), "%u", minor(number));
	return device_add_variable(device, "minor", text);
}

static int describe(const char *root, const struct candidate *candidate, struct device *device)
{
	const char *directory = candidate->directory;
	char number[SYSFS_VALUE_MAX + 1];
	unsigned major_number, minor_number;
	int r;

	r = sysfs_describe(root, directory, device);
	if (r < 0)
		return r;
	r = device_add_variable(device, "kernel_name", strrchr(directory, '/') + 1);
	if (r >= 0)
		r = device_add_variable(device, "subsystem", candidate->match->subsystem);
	if (r >= 0)
		r = device_add_variable(device, "devpath", directory + strlen("/sys"));
	if (r >= 0)
		r = add_serial(root, directory, device);
	if (r >= 0 && sysfs_read(root, directory, "dev", number) >= 0 &&
		sscanf(number, "%8u:%8u", &major_number, &minor_number) == 2)
		r = add_number(device, makedev(major_number, minor_number));
	return r;
}

/* Expands a template for a device that is being made. -ENOENT: something in it has no value. */
static int expand(const struct candidates *candidates, const struct device *device,
	const char *template, char **ret, struct error *error)
{
	struct device_values values = {
		.root = scan_root(candidates->scan),
		.device = device,
	};
	struct template_context context = {
		.name = candidates->declaration->name,
		.device_value = device_values_get,
		.userdata = &values,
	};

	return template_expand(template, &context, ret, error);
}

/* --- nodes --- */

struct node_target {
	struct scan *scan;
	struct device *device;
	const char *permissions;
};

static int watch_parent(struct scan *scan, const char *path)
{
	_cleanup_free_ char *directory = strdup(path);
	char *slash;

	if (!directory)
		return -ENOMEM;
	slash = strrchr(directory, '/');
	slash[slash == directory ? 1 : 0] = '\0';
	return scan_watch(scan, directory);
}

static int add_node(const struct node_target *target, const char *path, bool optional)
{
	struct stat st;
	int r;

	r = watch_parent(target->scan, path);
	if (r < 0)
		return r;
	r = sysroot_stat(scan_root(target->scan), path, &st);
	if (r == -ENOMEM)
		return r;
	if (r < 0 && optional)
		return 0;
	if (sysroot_is_absent(r))
		return device_set_problem(target->device, "its node %s is missing", path);
	if (r >= 0 && (S_ISCHR(st.st_mode) || S_ISBLK(st.st_mode))) {
		r = add_number(target->device, st.st_rdev);
		if (r < 0)
			return r;
	}
	return device_add_node(target->device, path, NULL, target->permissions);
}

static int add_own_node(const struct node_target *target, const char *directory)
{
	_cleanup_free_ char *path = NULL;
	int r;

	r = sysfs_read_node(scan_root(target->scan), directory, &path);
	if (r == -ENOMEM)
		return r;
	if (r >= 0)
		return add_node(target, path, false);
	if (r == -EBADMSG || r == -EFBIG)
		return device_set_problem(
			target->device, "its uevent file names no node that can be");
	return 0;
}

static int on_child(const char *directory, void *userdata)
{
	return add_own_node(userdata, directory);
}

static int add_declared_node(
	const struct candidates *candidates, const struct node_target *target, const char *template)
{
	bool optional = template[0] == '?';
	_cleanup_free_ char *path = NULL;
	struct error error = { 0 };
	int r;

	r = expand(candidates, target->device, template + optional, &path, &error);
	if (r == -ENOMEM)
		return r;
	if (r >= 0 && path[0] != '/')
		r = error_set(&error, -EINVAL, "\"%s\" is no path", path);
	if (r >= 0)
		return add_node(target, path, optional);
	return optional
		? 0
		: device_set_problem(target->device, "node \"%s\": %s", template, error.message);
}

static int add_nodes(const struct candidates *candidates, const struct candidate *candidate,
	struct device *device)
{
	const struct sysfs_match *match = candidate->match;
	struct node_target target = { candidates->scan, device, match->permissions };
	int r = 0;

	for (size_t i = 0; i < match->nodes.count && r >= 0; i++)
		r = add_declared_node(candidates, &target, match->nodes.items[i]);
	for (size_t i = 0; i < candidate->members.count && r >= 0; i++) {
		const char *directory = candidate->members.items[i];

		if (match->nodes.count == 0)
			r = add_own_node(&target, directory);
		if (r >= 0 && match->child_nodes)
			r = sysfs_walk(scan_root(candidates->scan), directory, on_child, &target);
	}
	return r == -E2BIG ? device_set_problem(device, "too many devices are below it") : r;
}

/* --- what it is called --- */

static int make_declared_id(
	const struct candidates *candidates, struct candidate *candidate, struct error *error)
{
	_cleanup_device_ struct device *device = NULL;
	_cleanup_free_ char *text = NULL;
	int r;

	r = device_new("", &device);
	if (r >= 0)
		r = describe(scan_root(candidates->scan), candidate, device);
	if (r < 0)
		return error_set(error, r, "it cannot be read: %s", strerror(-r));
	r = expand(candidates, device, candidate->match->id, &text, error);
	if (r < 0)
		return r;
	if (!*text)
		return error_set(error, -ENOENT, "\"%s\" is empty", candidate->match->id);
	device_id_make(text, candidate->id);
	return 0;
}

static int make_ids(const struct candidates *candidates, struct candidate *candidate)
{
	char identity[IDENTITY_MAX + 1];
	struct error error = { 0 };
	int r;

	r = identity_of(scan_root(candidates->scan), candidate->directory, identity);
	if (r == -ENOMEM)
		return r;
	/* A tree without /sys/devices. */
	if (r < 0)
		(void)snprintf(identity, sizeof(identity), "%s:%s", candidate->match->subsystem,
			strrchr(candidate->directory, '/') + 1);
	device_id_make(identity, candidate->default_id);
	(void)strcpy(candidate->id, candidate->default_id);
	if (!candidate->match->id)
		return 0;
	r = make_declared_id(candidates, candidate, &error);
	if (r == -ENOMEM)
		return r;
	if (r < 0)
		scan_note(candidates->scan, "%s is called %s, not \"%s\": %s", candidate->directory,
			candidate->default_id, candidate->match->id, error.message);
	return 0;
}

/* --- candidates --- */

static int directory_of_group(const char *root, const char *member, char **ret)
{
	_cleanup_free_ char *directory = strdup(member), *own = strdup(member);
	char subsystem[NAME_MAX + 1];

	if (!directory || !own)
		return -ENOMEM;
	while (sysfs_ascend(directory))
		if (sysfs_is_device(root, directory) &&
			sysfs_read_link(root, directory, "subsystem", subsystem) >= 0) {
			*ret = TAKE_PTR(directory);
			return 0;
		}
	*ret = TAKE_PTR(own);
	return 0;
}

static int candidate_get(struct candidates *candidates, const struct sysfs_match *match,
	char *directory, struct candidate **ret)
{
	_cleanup_(candidate_freep) struct candidate *candidate = NULL;
	_cleanup_free_ char *owned = directory;
	int r;

	*ret = map_get(&candidates->by_directory, directory);
	if (*ret)
		return 0;
	r = array_reserve(
		(void **)&candidates->items, candidates->count, sizeof(*candidates->items));
	if (r < 0)
		return r;
	candidate = calloc(1, sizeof(*candidate));
	if (!candidate)
		return -ENOMEM;
	candidate->match = match;
	candidate->directory = TAKE_PTR(owned);
	r = make_ids(candidates, candidate);
	if (r < 0)
		return r;
	r = map_put(&candidates->by_directory, candidate->directory, candidate);
	if (r < 0)
		return r;
	*ret = candidates->items[candidates->count++] = TAKE_PTR(candidate);
	return 0;
}

static int add_member(
	struct candidates *candidates, const struct sysfs_match *match, const char *directory)
{
	struct candidate *candidate;
	char *owner = NULL;
	int r;

	if (map_get(&candidates->seen, directory))
		return 0;
	if (match->group == GROUP_PARENT)
		r = directory_of_group(scan_root(candidates->scan), directory, &owner);
	else
		r = (owner = strdup(directory)) ? 0 : -ENOMEM;
	if (r >= 0)
		r = candidate_get(candidates, match, owner, &candidate);
	if (r >= 0)
		r = strings_add(&candidate->members, directory, strlen(directory));
	if (r >= 0) {
		char *member = candidate->members.items[candidate->members.count - 1];

		r = map_put(&candidates->seen, member, candidate);
	}
	return r;
}

static int match_one(
	struct candidates *candidates, const struct sysfs_match *match, const char *directory)
{
	struct scan *scan = candidates->scan;
	int r;

	if (!patterns_match(&match->own.name, strrchr(directory, '/') + 1))
		return 0;
	/* Here the link to its driver comes and goes. */
	r = scan_watch(scan, directory);
	if (r < 0)
		return r;
	r = selector_matches(scan, &match->own, directory);
	if (r > 0)
		r = selectors_match_above(scan, &match->parents, directory);
	if (r > 0)
		r = selectors_match_below(scan, &match->children, directory);
	return r > 0 ? add_member(candidates, match, directory) : r;
}

/* Goes through the directory of a class or bus. Returns 0 or negative errno with the error filled.
 */
static int match_all(struct candidates *candidates, const struct sysfs_match *match,
	const char *place, struct error *error)
{
	_cleanup_strings_ struct strings names = { 0 };
	const char *root = scan_root(candidates->scan);
	int r;

	r = scan_watch(candidates->scan, place);
	if (r >= 0)
		r = sysfs_list(root, place, &names);
	if (sysroot_is_absent(r))
		return 0;
	if (r == -EACCES || r == -EPERM) {
		scan_note(candidates->scan, "%s may not be read, what is in it stays unknown: %s",
			place, strerror(-r));
		return 0;
	}
	for (size_t i = 0; i < names.count && r >= 0; i++) {
		_cleanup_free_ char *path = NULL, *directory = NULL;

		if (asprintf(&path, "%s/%s", place, names.items[i]) < 0)
			return error_set(error, -ENOMEM, "out of memory");
		r = sysfs_resolve(root, path, &directory);
		if (r >= 0)
			r = match_one(candidates, match, directory);
		else if (r != -ENOMEM)
			/* It vanished, or leads elsewhere. */
			r = 0;
	}
	return r < 0 ? error_set(error, r, "cannot read %s: %s", place, strerror(-r)) : 0;
}

static int find(struct candidates *candidates, struct error *error)
{
	const struct declaration *declaration = candidates->declaration;
	int r;

	for (size_t i = 0; i < declaration->match.count; i++) {
		const struct sysfs_match *match = groups_get(&declaration->match, i);
		_cleanup_free_ char *class = NULL, *bus = NULL;

		if (asprintf(&class, "/sys/class/%s", match->subsystem) < 0 ||
			asprintf(&bus, "/sys/bus/%s/devices", match->subsystem) < 0 ||
			scan_events(candidates->scan, match->subsystem) < 0)
			return error_set(error, -ENOMEM, "out of memory");
		r = match_all(candidates, match, class, error);
		if (r >= 0)
			r = match_all(candidates, match, bus, error);
		if (r < 0)
			return r;
	}
	return 0;
}

/* Takes from all that would be called the same the name that they share. */
static int settle_ids(struct candidates *candidates)
{
	struct map by_id = { 0 };
	int r = 0;

	for (size_t i = 0; i < candidates->count && r >= 0; i++) {
		struct candidate *candidate = candidates->items[i];
		struct candidate *other = map_get(&by_id, candidate->id);

		if (other)
			candidate->shares_id = other->shares_id = true;
		else
			r = map_put(&by_id, candidate->id, candidate);
	}
	map_done(&by_id);
	for (size_t i = 0; i < candidates->count && r >= 0; i++) {
		struct candidate *candidate = candidates->items[i];

		if (!candidate->shares_id)
			continue;
		if (candidate->match->id)
			scan_note(candidates->scan,
				"%s is called %s, because it is not the only one that would be %s",
				candidate->directory, candidate->default_id, candidate->id);
		(void)strcpy(candidate->id, candidate->default_id);
	}
	return r;
}

static int add_device(const struct candidates *candidates, struct candidate *candidate)
{
	struct device *device;
	int r;

	r = scan_add(candidates->scan, candidate->id, &device);
	if (r == -EEXIST)
		return 0;
	if (r < 0)
		return r;
	r = describe(scan_root(candidates->scan), candidate, device);
	if (r == -ENOMEM)
		return r;
	/* It vanishes just now; the event of that is under way. */
	if (r < 0)
		return device_set_problem(device, "it cannot be read: %s", strerror(-r));
	return add_nodes(candidates, candidate, device);
}

int sysfs_driver_list(const struct declaration *declaration, struct scan *scan, struct error *error)
{
	_cleanup_(candidates_done) struct candidates candidates = {
		.declaration = declaration,
		.scan = scan,
	};
	int r;

	r = find(&candidates, error);
	if (r < 0)
		return r;
	r = settle_ids(&candidates);
	for (size_t i = 0; i < candidates.count && r >= 0; i++)
		r = add_device(&candidates, candidates.items[i]);
	return r < 0 ? error_set(error, r, "cannot take in what was found: %s", strerror(-r)) : 0;
}
