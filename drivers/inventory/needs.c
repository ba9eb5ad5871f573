/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Decides whether the host has everything that Allocate will need for a device. A device for which
 * the host lacks a node, mount or CDI name is listed as unhealthy with that reason. The rules are
 * those of drivers/allocation, applied to one device: an optional node may be missing, a path that
 * may not be read counts as present, and variables of the allocation (${ids}) are expanded for a
 * container with that device alone. A path is watched through its directory, missing or present;
 * for a symbolic link, also through the target's directory.
 */
#include "drivers/inventory/needs.h"

#include "drivers/host/device-values.h"
#include "drivers/host/sysroot.h"
#include "drivers/model/driver.h"
#include "drivers/model/template.h"

static char present_mark, missing_mark;

/* Names the remedy for a missing path, and the place that declares it. */
struct need_origin {
	const char *remedy, *key;
};

static const struct need_origin from_match = { "load its driver", "match" };
static const struct need_origin from_nodes = { "load its driver", "container.nodes" };
static const struct need_origin from_mounts = { "install the package that provides it",
	"container.mounts" };

/* One device in hand. */
struct need {
	struct needs *needs;
	struct device *device;
	bool paths_are_made; /* by the program that is asked at Allocate, perhaps */
	struct device_values values;
	struct template_context context;
};

static int watch_parent(struct scan *scan, const char *path)
{
	const char *slash = strrchr(path, '/');
	_cleanup_free_ char *directory = NULL;

	if (!slash)
		return 0;
	directory = slash == path ? strdup("/") : strndup(path, (size_t)(slash - path));
	return directory ? scan_watch(scan, directory) : -ENOMEM;
}

static int look_up(struct scan *scan, const char *path, void **ret_mark)
{
	_cleanup_free_ char *target = NULL;
	int r;

	r = watch_parent(scan, path);
	if (r < 0)
		return r;
	r = sysroot_resolve(scan->root, path, &target);
	if (r == -ENOMEM)
		return r;
	*ret_mark = sysroot_is_absent(r) ? &missing_mark : &present_mark;
	return r < 0 || streq(target, path) ? 0 : watch_parent(scan, target);
}

/* Returns 1 if the host has the path, 0 if not, or -ENOMEM. */
static int is_there(struct needs *needs, const char *path)
{
	void *mark = map_get(&needs->paths, path);
	int r;

	if (!mark) {
		r = look_up(needs->scan, path, &mark);
		if (r >= 0)
			r = strings_add(&needs->names, path, strlen(path));
		if (r >= 0)
			r = map_put(
				&needs->paths, needs->names.items[needs->names.count - 1], mark);
		if (r < 0)
			return r;
	}
	return mark == &present_mark;
}

static int need_path(const struct need *need, const char *path, const struct need_origin *origin)
{
	int r;

	if (need->paths_are_made)
		return 0;
	r = is_there(need->needs, path);
	if (r != 0)
		return MIN_OF(r, 0);
	return device_set_problem(need->device,
		"needs %s, which is missing on the host: %s, or correct %s in the configuration",
		path, origin->remedy, origin->key);
}

/* Returns 1 with the text, 0 if a variable has no value, which is the device's problem then, or
 * -ENOMEM. */
static int expand(struct need *need, const char *template, char **ret)
{
	struct error error;
	int r;

	r = template_expand(template, &need->context, ret, &error);
	if (r >= 0)
		return 1;
	if (r == -ENOMEM)
		return r;
	return device_set_problem(need->device, "\"%s\": %s", template, error.message);
}

static int need_template(
	struct need *need, const char *host, const char *path, const struct need_origin *origin)
{
	_cleanup_free_ char *host_text = NULL, *path_text = NULL;
	int r;

	r = expand(need, host, &host_text);
	if (r > 0 && path)
		r = expand(need, path, &path_text);
	return r > 0 && origin ? need_path(need, host_text, origin) : MIN_OF(r, 0);
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
	return needs_check_cdi(need->needs, need->device, name, is_there);
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

	for (size_t i = 0; i < need->device->n_nodes && r >= 0; i++)
		if (!need->device->nodes[i].optional)
			r = need_path(need, need->device->nodes[i].host, &from_match);
	for (size_t i = 0; i < container->nodes.count && r >= 0; i++) {
		const struct declared_node *node = groups_get(&container->nodes, i);

		r = need_template(
			need, node->host, node->path, node->optional ? NULL : &from_nodes);
	}
	for (size_t i = 0; i < container->mounts.count && r >= 0; i++) {
		const struct declared_mount *mount = groups_get(&container->mounts, i);

		r = need_template(need, mount->host, mount->path, &from_mounts);
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
			.device_value = device_values_get,
			.devices = devices,
			.n_devices = ARRAY_SIZE(devices),
		},
	};

	need.context.userdata = &need.values;
	need.paths_are_made = declaration_allocate(declaration, device->entry) != NULL;
	return need_all(&need, &declaration->container);
}

void needs_done(struct needs *needs)
{
	map_done(&needs->paths);
	strings_done(&needs->names);
	cdi_files_done(&needs->cdi);
}
