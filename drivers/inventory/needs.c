/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Decides whether the host has everything that Allocate will need for a device. A device for which
 * the host lacks a node, mount or CDI name is listed as unhealthy with that reason. The rules are
 * those of drivers/allocation, applied to one device: an optional node may be missing, a path that
 * may not be read counts as present, and variables of the allocation (${ids}) are expanded for a
 * container with that device alone, and parameters have their defaults. A path is watched through
 * its directory, missing or present, and so is the target of each symbolic link on the way to it.
 */
#include "drivers/inventory/needs.h"

#include "drivers/host/device-values.h"
#include "drivers/host/sysroot.h"
#include "drivers/model/driver.h"
#include "drivers/model/template.h"

const struct need_origin need_of_match = { "match", "load its driver" };
const struct need_origin need_of_nodes = { "container.nodes", "load its driver" };
const struct need_origin need_of_mounts = { "container.mounts",
	"install the package that provides it" };

bool need_is_met(const struct need_origin *origin, const struct declaration *declaration,
	enum node_state state)
{
	return node_state_is_usable(
		state, origin != &need_of_match || declaration->driver->node_directories);
}

int need_describe(
	const struct need_origin *origin, const char *path, enum node_state state, char **ret)
{
	return format_text(ret,
		"needs %s, which %s on the host: %s%s, or correct %s in the configuration", path,
		node_state_phrase(state), node_state_remedy(state), origin->remedy, origin->key);
}

/* One device in hand. */
struct need {
	struct needs *needs;
	struct device *device;
	bool paths_are_made; /* by the program that is asked at Allocate, perhaps */
	struct device_values values;
	struct template_context context;
};

/* A link on the way may be turned, or its target may appear later. */
static int watch_links(struct scan *scan, const char *path)
{
	_cleanup_free_ char *way = strdup(path);

	if (!way)
		return -ENOMEM;
	for (unsigned i = 0; i < SYSROOT_LINKS_MAX; i++) {
		char *next;
		int r = sysroot_follow_link(scan->root, way, &next);

		if (r < 0 || !next)
			return r;
		free(way);
		way = next;
		r = scan_watch_parent(scan, way);
		if (r < 0)
			return r;
	}
	return 0;
}

/* A mount that is there has the state NODE_DEVICE. */
static int look_up(struct scan *scan, const char *path, bool mount, struct needed_path *ret)
{
	_cleanup_free_ char *target = NULL;
	enum node_state state = NODE_DEVICE;
	int r;

	r = scan_watch_parent(scan, path);
	if (r < 0)
		return r;
	r = sysroot_resolve(scan->root, path, &target);
	if (r == -ENOMEM)
		return r;
	if (sysroot_is_absent(r) && !(mount && sysroot_hides(scan->root, path)))
		state = NODE_MISSING;
	if ((!target || !streq(target, path)) && watch_links(scan, path) < 0)
		return -ENOMEM;
	if (target && !mount && node_state_read(scan->root, path, scan, &state) == -ENOMEM)
		return -ENOMEM;
	ret->state = state;
	ret->hash = hash_string(target ?: "") + state;
	return 0;
}

static int read_path(struct needs *needs, const char *path, bool mount, struct needed_path *ret)
{
	struct map *paths = mount ? &needs->mounts : &needs->nodes;
	uintptr_t known = (uintptr_t)map_get(paths, path);
	struct needed_path *read;
	int r;

	if (known) {
		*ret = needs->paths[known - 1];
		return 0;
	}
	r = array_reserve((void **)&needs->paths, needs->names.count, sizeof(*needs->paths));
	if (r < 0)
		return r;
	read = &needs->paths[needs->names.count];
	r = look_up(needs->scan, path, mount, read);
	if (r >= 0)
		r = strings_add(&needs->names, path, strlen(path));
	if (r >= 0)
		r = map_put(paths, needs->names.items[needs->names.count - 1],
			(void *)(uintptr_t)needs->names.count);
	if (r >= 0)
		*ret = *read;
	return r;
}

static int read_state(struct needs *needs, const char *path, bool mount, enum node_state *ret)
{
	struct needed_path found;
	int r = read_path(needs, path, mount, &found);

	if (r >= 0)
		*ret = found.state;
	return r;
}

static int need_path(const struct need *need, const char *path, bool mount, bool optional,
	const struct need_origin *origin)
{
	_cleanup_free_ char *text = NULL;
	struct device *device = need->device;
	struct needed_path found;
	int r;

	if (need->paths_are_made)
		return 0;
	r = read_path(need->needs, path, mount, &found);
	if (r < 0)
		return r;
	device->host_paths = device->host_paths * 31 + found.hash;
	if (optional ||
		(mount ? found.state != NODE_MISSING
		       : need_is_met(origin, need->needs->declaration, found.state)))
		return 0;
	r = need_describe(origin, path, found.state, &text);
	return r < 0 ? r : device_set_problem(device, "%s", text);
}

/* Returns 1 with the text, 0 if a variable has no value, which is the device's problem then unless
 * a claim sets it, or -ENOMEM. */
static int expand(struct need *need, const char *template, char **ret)
{
	struct error error;
	int r;

	r = template_expand(template, &need->context, ret, &error);
	if (r >= 0)
		return 1;
	if (r == -ENOMEM)
		return r;
	/* Only a claim sets it. */
	if (r == -ENODATA)
		return 0;
	return device_set_problem(need->device, "\"%s\": %s", template, error.message);
}

static int need_template(struct need *need, const char *host, const char *path, bool optional,
	const struct need_origin *origin)
{
	_cleanup_free_ char *host_text = NULL, *path_text = NULL;
	int r;

	r = expand(need, host, &host_text);
	if (r > 0 && path)
		r = expand(need, path, &path_text);
	return r > 0 ? need_path(need, host_text, origin == &need_of_mounts, optional, origin) : r;
}

static int need_values(struct need *need, const struct strings *templates)
{
	_cleanup_free_ char *text = NULL;
	int r = 1;

	for (size_t i = 0; i < templates->count && r > 0; i++) {
		if (!template_is_per_device(templates->items[i]))
			continue;
		free(text);
		text = NULL;
		r = expand(need, templates->items[i], &text);
	}
	return MIN_OF(r, 0);
}

/* Its own CDI file is written for what is found. */
static int need_cdi_name(struct need *need, const char *name)
{
	const char *own = need->needs->declaration->cdi_spec.kind;
	const char *device = own ? startswith(name, own) : NULL;

	if (need->paths_are_made || (device && *device == '='))
		return 0;
	return needs_check_cdi(need->needs, need->device, name, read_state);
}

static int need_cdi(struct need *need, const struct strings *templates)
{
	int r = 0;

	for (size_t i = 0; i < need->device->cdi.count && r >= 0; i++)
		r = need_cdi_name(need, need->device->cdi.items[i]);
	for (size_t i = 0; i < templates->count && r >= 0; i++) {
		_cleanup_free_ char *name = NULL;

		r = expand(need, templates->items[i], &name);
		if (r == 0)
			return 0;
		if (r > 0)
			r = need_cdi_name(need, name);
	}
	return r;
}

static int need_all(struct need *need, const struct container *container)
{
	const struct strings *texts[] = { &container->env, &container->annotations };
	int r = 0;

	for (size_t i = 0; i < need->device->n_nodes && r >= 0; i++) {
		const struct device_node *node = &need->device->nodes[i];

		r = need_path(need, node->host, node->mount, node->optional, &need_of_match);
	}
	for (size_t i = 0; i < container->nodes.count && r >= 0; i++) {
		const struct declared_node *node = groups_get(&container->nodes, i);

		r = need_template(need, node->host, node->path, node->optional, &need_of_nodes);
	}
	for (size_t i = 0; i < container->mounts.count && r >= 0; i++) {
		const struct declared_mount *mount = groups_get(&container->mounts, i);

		r = need_template(need, mount->host, mount->path, mount->optional, &need_of_mounts);
	}
	for (size_t i = 0; i < ARRAY_SIZE(texts) && r >= 0; i++)
		r = need_values(need, texts[i]);
	return r < 0 ? r : need_cdi(need, &container->cdi);
}

int needs_check(struct needs *needs, struct device *device, size_t index)
{
	const struct declaration *declaration = needs->declaration;
	const struct device *devices[] = { device };
	struct need need = {
		.needs = needs,
		.device = device,
		.values = {
			.root = needs->scan->root,
			.device = device,
			.index = index,
		},
		.context = {
			.name = declaration->name,
			.parameters = &declaration->parameters,
			.device_value = device_values_get,
			.devices = devices,
			.n_devices = ARRAY_SIZE(devices),
		},
	};

	need.context.userdata = &need.values;
	device->host_paths = 0;
	need.paths_are_made = declaration_allocate(declaration, device->entry) != NULL;
	return need_all(&need, &declaration->container);
}

void needs_done(struct needs *needs)
{
	map_done(&needs->nodes);
	map_done(&needs->mounts);
	free(needs->paths);
	strings_done(&needs->names);
}
