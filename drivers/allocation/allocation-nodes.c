/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Decides which device nodes and mounts a container gets, and when two of them conflict. The
 * nodes of the devices and of the container's templates are collected together, then sorted by
 * their path in the container, where two equal ones become one and two different ones are an error.
 */
#include "drivers/allocation/allocation-build.h"
#include "drivers/allocation/allocation.h"
#include "drivers/host/sysroot.h"
#include "drivers/inventory/needs.h"

/* What the host has at the path of a node; what may not be read is left to the container runtime.
 */
static enum node_state state_of(const struct build *build, const char *host)
{
	enum node_state state;

	return node_state_read(build->root, host, NULL, &state) < 0 ? NODE_DEVICE : state;
}

static enum node_state state_of_mount(const struct build *build, const char *host)
{
	struct stat st;

	return sysroot_is_absent(sysroot_stat(build->root, host, &st)) &&
			!sysroot_hides(build->root, host)
		? NODE_MISSING
		: NODE_DEVICE;
}

/* Runtimes put the nodes of a directory in its place, but not those that a CDI file names. */
static bool is_directory(enum node_state state)
{
	return state == NODE_DIRECTORY || state == NODE_EMPTY;
}

/* A CDI file may not name a symbolic link as a device node, and runtimes treat a bind mount of one
 * differently. */
static void resolve(const struct build *build, char **host)
{
	char *resolved;

	if (sysroot_resolve(build->root, *host, &resolved) >= 0) {
		free(*host);
		*host = resolved;
	}
}

static bool is_for_cdi(const struct build *build)
{
	return build->part == BUILD_DEVICE || build->claim;
}

static int need_error(struct build *build, const char *host, enum node_state state,
	const char *device_id, const struct need_origin *origin)
{
	_cleanup_free_ char *device = NULL, *need = NULL;

	if ((device_id && format_text(&device, "device \"%s\" of ", device_id) < 0) ||
		need_describe(origin, host, state, &need) < 0)
		return build_out_of_memory(build);
	return error_set(
		build->error, -ENOENT, "%s%s %s", device ?: "", build->declaration->name, need);
}

static int want(struct build *build, const struct device_node *template, char *host, char *path,
	const char *device_id)
{
	struct wanted *wanted;

	if (array_reserve((void **)&build->wanted, build->n_wanted, sizeof(*wanted)) < 0) {
		free(host);
		free(path);
		return build_out_of_memory(build);
	}
	wanted = &build->wanted[build->n_wanted++];
	wanted->node = *template;
	wanted->node.host = host;
	wanted->node.path = path;
	wanted->device_id = device_id;
	wanted->program = NULL;
	return 0;
}

static int want_device_node(
	struct build *build, const struct device_node *node, const char *device_id)
{
	_cleanup_free_ char *host = strdup(node->host), *path = strdup(node->path);
	enum node_state state;

	if (!host || !path)
		return build_out_of_memory(build);
	state = node->mount ? state_of_mount(build, host) : state_of(build, host);
	if (!build_wants(build, !is_directory(state)))
		return 0;
	if (!need_is_met(&need_of_match, build->declaration, state))
		return node->optional ? 0
				      : need_error(build, host, state, device_id, &need_of_match);
	if (node->mount || is_for_cdi(build))
		resolve(build, &host);
	return want(build, node, TAKE_PTR(host), TAKE_PTR(path), device_id);
}

static int want_answered_node(
	struct build *build, const struct device_node *node, const char *program)
{
	_cleanup_free_ char *host = strdup(node->host), *path = strdup(node->path);
	enum node_state state;
	int r;

	if (!host || !path)
		return build_out_of_memory(build);
	state = node->mount ? state_of_mount(build, host) : state_of(build, host);
	if (!node_state_is_usable(state, false))
		return node->optional
			? 0
			: error_set(build->error, -ENOENT,
				  "%s gives a container of %s %s, which %s on the host: correct the "
				  "program",
				  program, build->declaration->name, host,
				  node_state_phrase(state));
	if (node->mount || is_for_cdi(build))
		resolve(build, &host);
	r = want(build, node, TAKE_PTR(host), TAKE_PTR(path), NULL);
	if (r >= 0)
		build->wanted[build->n_wanted - 1].program = program;
	return r;
}

static int collect_answered_nodes(struct build *build)
{
	int r = 0;

	for (size_t i = 0; build->answers && i < build->answers->count; i++) {
		const struct allocation_answer *answer = &build->answers->items[i];

		for (size_t k = 0; k < answer->edits->n_nodes && r >= 0; k++)
			r = want_answered_node(build, &answer->edits->nodes[k], answer->program);
	}
	return r;
}

static int collect_device_nodes(
	struct build *build, const void *item, const char *device_id, void *target)
{
	const struct device *device = build->values.device;
	int r;

	if (device->lacks_node && build_wants(build, true))
		return error_set(build->error, -ENOENT, "device \"%s\" of %s cannot be used: %s",
			device->id, build->declaration->name, device->problem);
	for (size_t i = 0; i < device->n_nodes; i++) {
		r = want_device_node(build, &device->nodes[i], device_id);
		if (r < 0)
			return r;
	}
	return 0;
}

static int expand_paths(struct build *build, const char *host_template, const char *path_template,
	char **ret_host, char **ret_path)
{
	_cleanup_free_ char *host = NULL;
	int r;

	build->context.in_path = true;
	r = build_expand(build, host_template, &host);
	if (r >= 0)
		r = build_expand(build, path_template ?: host_template, ret_path);
	build->context.in_path = false;
	if (r < 0)
		return r;
	*ret_host = TAKE_PTR(host);
	return 0;
}

/* Whether a host path or a path in the container (NULL: the same) depends on the other devices of
 * the container. */
static bool of_allocation(const char *host, const char *path)
{
	return template_is_per_allocation(host) || (path && template_is_per_allocation(path));
}

static int collect_node(struct build *build, const void *item, const char *device_id, void *target)
{
	_cleanup_free_ char *host = NULL, *path = NULL;
	const struct declared_node *declared = item;
	struct device_node node = { 0 };
	enum node_state state;
	int r;

	r = expand_paths(build, declared->host, declared->path, &host, &path);
	if (r < 0)
		return r;
	state = state_of(build, host);
	if (!build_wants(
		    build, !of_allocation(declared->host, declared->path) && !is_directory(state)))
		return 0;
	if (!need_is_met(&need_of_nodes, build->declaration, state))
		return declared->optional
			? 0
			: need_error(build, host, state, device_id, &need_of_nodes);
	if (is_for_cdi(build))
		resolve(build, &host);
	(void)snprintf(node.permissions, sizeof(node.permissions), "%s", declared->permissions);
	return want(build, &node, TAKE_PTR(host), TAKE_PTR(path), device_id);
}

static int collect_mount(struct build *build, const void *item, const char *device_id, void *target)
{
	_cleanup_free_ char *host = NULL, *path = NULL;
	const struct declared_mount *declared = item;
	struct device_node node = { .mount = true, .read_only = declared->read_only };
	int r;

	if (!build_wants(build, !of_allocation(declared->host, declared->path)))
		return 0;
	r = expand_paths(build, declared->host, declared->path, &host, &path);
	if (r < 0)
		return r;
	if (state_of_mount(build, host) == NODE_MISSING)
		return declared->optional
			? 0
			: need_error(build, host, NODE_MISSING, device_id, &need_of_mounts);
	resolve(build, &host);
	return want(build, &node, TAKE_PTR(host), TAKE_PTR(path), device_id);
}

static bool is_per_device(const char *text)
{
	return text && template_is_per_device(text);
}

static int collect_wanted(struct build *build)
{
	const struct container *container = &build->declaration->container;
	int r;

	r = build_for_devices(build, true, collect_device_nodes, NULL, NULL);
	if (r >= 0)
		r = collect_answered_nodes(build);
	for (size_t i = 0; i < container->nodes.count && r >= 0; i++) {
		const struct declared_node *node = groups_get(&container->nodes, i);

		r = build_for_devices(build, is_per_device(node->host) || is_per_device(node->path),
			collect_node, node, NULL);
	}
	for (size_t i = 0; i < container->mounts.count && r >= 0; i++) {
		const struct declared_mount *mount = groups_get(&container->mounts, i);

		r = build_for_devices(build,
			is_per_device(mount->host) || is_per_device(mount->path), collect_mount,
			mount, NULL);
	}
	return r;
}

static int compare_wanted(const void *a, const void *b)
{
	const struct wanted *x = a, *y = b;
	int order = strcmp(x->node.path, y->node.path);

	return order ? order : strcmp(x->node.host, y->node.host);
}

static const char *kind_of_source(const struct wanted *wanted)
{
	return wanted->device_id ? "device" : wanted->program ? "program" : "resource";
}

static const char *name_of_source(const struct build *build, const struct wanted *wanted)
{
	return wanted->device_id ?: wanted->program ?: build->declaration->name;
}

static int conflict_error(struct build *build, const struct wanted *a, const struct wanted *b)
{
	return error_set(build->error, -EEXIST,
		"%s in the container would be both %s (%s \"%s\") and %s (%s \"%s\"): set a different path for each, or request one device of %s for a container",
		a->node.path, a->node.host, kind_of_source(a), name_of_source(build, a),
		b->node.host, kind_of_source(b), name_of_source(build, b),
		build->declaration->name);
}

static void add_permissions(char *permissions, const char *more)
{
	static const char all[] = "rwm";
	char merged[sizeof(all)];
	size_t n = 0;

	for (const char *p = all; *p; p++)
		if (strchr(permissions, *p) || strchr(more, *p))
			merged[n++] = *p;
	merged[n] = '\0';
	memcpy(permissions, merged, n + 1);
}

/* Sorts the entries and keeps each path once. */
static int settle_wanted(struct build *build)
{
	size_t kept = 0;

	if (build->n_wanted > 0)
		qsort(build->wanted, build->n_wanted, sizeof(*build->wanted), compare_wanted);
	for (size_t i = 0; i < build->n_wanted; i++) {
		struct wanted *next = &build->wanted[i];
		struct wanted *last = kept > 0 ? &build->wanted[kept - 1] : NULL;

		if (!last || !streq(last->node.path, next->node.path)) {
			struct wanted moved = *next;

			next->node.host = next->node.path = NULL;
			build->wanted[kept++] = moved;
			continue;
		}
		if (!streq(last->node.host, next->node.host) ||
			last->node.mount != next->node.mount)
			return conflict_error(build, last, next);
		add_permissions(last->node.permissions, next->node.permissions);
		last->node.read_only = last->node.read_only && next->node.read_only;
		free(next->node.host);
		free(next->node.path);
		next->node.host = next->node.path = NULL;
	}
	build->n_wanted = kept;
	for (size_t i = 0; i < kept; i++)
		add_permissions(build->wanted[i].node.permissions, "");
	return 0;
}

int build_nodes(struct build *build, struct allocation *allocation)
{
	int r;

	r = collect_wanted(build);
	if (r < 0)
		return r;
	r = settle_wanted(build);
	if (r < 0)
		return r;
	allocation->nodes = calloc(build->n_wanted + 1, sizeof(*allocation->nodes));
	if (!allocation->nodes)
		return build_out_of_memory(build);
	for (size_t i = 0; i < build->n_wanted; i++)
		allocation->nodes[i] = build->wanted[i].node;
	allocation->n_nodes = build->n_wanted;
	build->n_wanted = 0;
	return 0;
}
