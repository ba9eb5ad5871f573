/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Makes one device of driver "sysfs": its name, its variables and its nodes, all from its directory
 * in /sys. If a configured name is not available, the device's location is used instead, never
 * another device's name.
 */
#include <sys/sysmacros.h>

#include "drivers/host/glob.h"
#include "drivers/host/identity.h"
#include "drivers/host/node-state.h"
#include "drivers/host/nvme.h"
#include "drivers/host/sysfs-walk.h"
#include "drivers/host/sysroot.h"
#include "drivers/model/declaration.h"
#include "drivers/sysfs-class/sysfs-driver.h"

/* --- the values of a device --- */

static int add_serial(const char *root, const char *directory, struct device *device)
{
	_cleanup_free_ char *path = strdup(directory);
	char serial[SYSFS_VALUE_MAX + 1];
	int r;

	if (!path)
		return -ENOMEM;
	do {
		r = sysfs_read(root, path, "serial", serial);
		if (r == -EBUSY)
			return r;
		if (r >= 0 && *serial)
			return device_add_variable(device, "serial", serial);
	} while (sysfs_ascend(path));
	return 0;
}

static int add_devname(const char *root, const char *directory, struct device *device)
{
	_cleanup_free_ char *node = NULL;
	int r = sysfs_read_node(root, directory, &node);

	if (sysroot_is_shortage(r))
		return r;
	return r < 0 ? 0 : device_add_variable(device, "devname", node);
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

static int describe(const struct candidates *candidates, const struct candidate *candidate,
	struct device *device)
{
	const char *directory = candidate->directory, *root = scan_root(candidates->scan);
	char number[SYSFS_VALUE_MAX + 1];
	unsigned major_number, minor_number;
	int r;

	r = sysfs_describe(root, directory, device);
	if (r < 0)
		return r;
	r = device_add_variable(device, "kernel_name", strrchr(directory, '/') + 1);
	if (r >= 0)
		r = device_add_variable(device, "subsystem", candidate->subsystem);
	if (r >= 0)
		r = device_add_variable(device, "devpath", directory + strlen("/sys"));
	if (r >= 0)
		r = add_devname(root, directory, device);
	if (r >= 0)
		r = add_serial(root, directory, device);
	if (r >= 0 && sysfs_read(root, directory, "dev", number) >= 0 &&
		sscanf(number, "%8u:%8u", &major_number, &minor_number) == 2)
		r = add_number(device, makedev(major_number, minor_number));
	return r < 0 ? r : candidate_add_values(candidates, candidate->match, device);
}

/* --- nodes --- */

struct node_target {
	const struct candidates *candidates;
	struct scan *scan;
	struct device *device;
	const char *permissions;
};

static int add_node(const struct node_target *target, const char *path, bool optional)
{
	const char *root = scan_root(target->scan);
	enum node_state state;
	struct stat st;
	int r;

	r = scan_watch_parent(target->scan, path);
	if (r < 0)
		return r;
	r = node_state_read(root, path, target->scan, &state);
	if (r < 0)
		return r;
	if (!node_state_is_usable(state, false))
		return optional
			? 0
			: device_set_lack(target->device, "its node %s %s%s", path,
				  node_state_phrase(state),
				  state == NODE_MISSING ? "" : ": remove it and load its driver");
	if (sysroot_stat(root, path, &st) >= 0) {
		r = add_number(target->device, st.st_rdev);
		if (r < 0)
			return r;
	}
	r = nvme_add_node(target->scan, target->candidates->declaration, target->device, path,
		target->permissions);
	if (r >= 0)
		target->device->nodes[target->device->n_nodes - 1].optional = optional;
	return r;
}

static int add_own_nodes(const struct node_target *target, const char *directory)
{
	_cleanup_strings_ struct strings nodes = { 0 };
	int r;

	r = nvme_read_nodes(scan_root(target->scan), directory, &nodes);
	if (sysroot_is_shortage(r))
		return r;
	if (r == -EBADMSG || r == -EFBIG)
		return device_set_lack(target->device, "its uevent file has no valid node");
	r = 0;
	for (size_t i = 0; i < nodes.count && r >= 0; i++)
		r = add_node(target, nodes.items[i], false);
	return r;
}

static int on_child(const char *directory, void *userdata)
{
	return add_own_nodes(userdata, directory);
}

/* How many characters are those of a pattern. */
static size_t count_wild(const char *text)
{
	size_t count = 0;

	for (; (text = strpbrk(text, "*?[\\")); text++)
		count++;
	return count;
}

/* Adds each node that matches and that the device does not have yet. A value in the template must
 * not add to the pattern. */
static int add_matching_nodes(const struct node_target *target, const char *template,
	const char *pattern, bool optional, struct error *error)
{
	_cleanup_strings_ struct strings paths = { 0 };
	int r;

	if (count_wild(pattern) != count_wild(template))
		return error_set(error, -EINVAL, "\"%s\" has a value with *, ? or [", pattern);
	r = glob_expand(target->scan, pattern, &paths, error);
	if (r >= 0 && paths.count == 0 && !optional)
		return error_set(error, -ENOENT, "nothing matches %s", pattern);
	for (size_t i = 0; i < paths.count && r >= 0; i++)
		if (!device_has_node(target->device, paths.items[i]))
			r = add_node(target, paths.items[i], optional);
	return r;
}

static int add_declared_node(const struct candidates *candidates, const struct sysfs_match *match,
	const struct node_target *target, const char *template)
{
	bool optional = template[0] == '?';
	_cleanup_free_ char *path = NULL;
	struct error error = { 0 };
	int r;

	template += optional;
	r = candidate_expand(candidates, target->device, template, &path, &error);
	if (sysroot_is_shortage(r))
		return r;
	if (r == -ENOENT) {
		candidate_explain_value(candidates, match, target->device, template, &error);
		/* The driver makes the node when it is loaded, wherever its file is. */
		r = scan_watch(target->scan, "/dev") < 0 ? -ENOMEM : -ENOENT;
	}
	if (r >= 0 && path[0] != '/')
		r = error_set(&error, -EINVAL, "\"%s\" is not a path", path);
	if (r >= 0)
		r = form_is_pattern(template)
			? add_matching_nodes(target, template, path, optional, &error)
			: add_node(target, path, optional);
	if (r >= 0 || sysroot_is_shortage(r))
		return MIN_OF(r, 0);
	return optional && r != -EBUSY
		? 0
		: device_set_lack(target->device, "node \"%s\": %s", template, error.message);
}

static int add_nodes(const struct candidates *candidates, const struct candidate *candidate,
	struct device *device)
{
	const struct sysfs_match *match = candidate->match;
	struct node_target target = { candidates, candidates->scan, device, match->permissions };
	int r = 0;

	for (size_t i = 0; i < match->nodes.count && r >= 0; i++)
		r = add_declared_node(candidates, match, &target, match->nodes.items[i]);
	for (size_t i = 0; i < candidate->members.count && r >= 0; i++) {
		const char *directory = candidate->members.items[i];

		if (match->nodes.count == 0)
			r = add_own_nodes(&target, directory);
		if (r >= 0 && match->child_nodes)
			r = sysfs_walk(scan_root(candidates->scan), directory, on_child, &target);
	}
	if (r == -E2BIG)
		return device_set_lack(device, "it has too many devices below it");
	if (r >= 0 && match->child_nodes && device->n_nodes == 0)
		return device_set_lack(
			device, "neither it nor a device below it has a node: load its driver");
	return r;
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
		r = describe(candidates, candidate, device);
	if (r < 0)
		return error_set(error, r, "it cannot be read: %s", strerror(-r));
	r = candidate_expand(candidates, device, candidate->match->id, &text, error);
	if (r == -ENOENT)
		candidate_explain_value(
			candidates, candidate->match, device, candidate->match->id, error);
	if (r < 0)
		return r;
	if (!*text)
		return error_set(error, -ENOENT, "\"%s\" is empty", candidate->match->id);
	device_id_make(text, candidate->id);
	return 0;
}

int candidate_make_ids(const struct candidates *candidates, struct candidate *candidate)
{
	char identity[IDENTITY_MAX + 1];
	struct error error = { 0 };
	int r;

	r = identity_of(scan_root(candidates->scan), candidate->directory, identity);
	if (sysroot_is_shortage(r))
		return r;
	/* A tree without /sys/devices. */
	if (r < 0)
		(void)snprintf(identity, sizeof(identity), "%s:%s", candidate->subsystem,
			strrchr(candidate->directory, '/') + 1);
	candidate->is_numbered = identity_is_numbered(candidate->directory, identity);
	device_id_make(identity, candidate->default_id);
	(void)strcpy(candidate->id, candidate->default_id);
	if (!candidate->match->id)
		return 0;
	r = make_declared_id(candidates, candidate, &error);
	/* It must not have another id only because a value cannot be read now. */
	if (r == -EBUSY || sysroot_is_shortage(r))
		return r;
	if (r < 0)
		scan_note(candidates->scan, "%s has the id %s, not \"%s\": %s",
			candidate->directory, candidate->default_id, candidate->match->id,
			error.message);
	return 0;
}

int candidate_describe(const struct candidates *candidates, const struct candidate *candidate,
	struct device *device)
{
	int r;

	r = describe(candidates, candidate, device);
	if (sysroot_is_shortage(r))
		return r;
	/* It is disappearing; the event is on its way. */
	if (r < 0)
		return device_set_lack(device, "it cannot be read: %s", strerror(-r));
	return add_nodes(candidates, candidate, device);
}
