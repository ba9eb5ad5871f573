/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Decides what a container gets for the ids that were allocated to it: collects the parts of
 * devices and templates, and merges duplicates. A variable, annotation or CDI name appears once; if
 * devices set different values, the values are joined in the order of devices. Called on any
 * thread; all state is in `struct build`.
 */
#include "drivers/allocation/allocation.h"

#include "common/map.h"
#include "drivers/allocation/allocation-build.h"

/* A variable or annotation, and the distinct values that devices set. */
struct assigned {
	char *name;
	bool configured; /* set by the resource's templates, so the devices' own values do not
			    count */
	struct strings values;
	struct map seen;
};

struct assignments {
	struct assigned **items;
	size_t count;
	struct map by_name;
};

static struct assigned *assigned_free(struct assigned *assigned)
{
	free(assigned->name);
	strings_done(&assigned->values);
	map_done(&assigned->seen);
	free(assigned);
	return NULL;
}

static void assignments_done(struct assignments *assignments)
{
	for (size_t i = 0; i < assignments->count; i++)
		(void)assigned_free(assignments->items[i]);
	free(assignments->items);
	map_done(&assignments->by_name);
}

static int assigned_get(struct assignments *assignments, const char *name, struct assigned **ret)
{
	struct assigned *assigned = map_get(&assignments->by_name, name);
	int r;

	if (!assigned) {
		r = array_reserve((void **)&assignments->items, assignments->count,
			sizeof(*assignments->items));
		if (r < 0)
			return r;
		assigned = calloc(1, sizeof(*assigned));
		if (!assigned)
			return -ENOMEM;
		assigned->name = strdup(name);
		r = assigned->name ? map_put(&assignments->by_name, assigned->name, assigned)
				   : -ENOMEM;
		if (r < 0) {
			(void)assigned_free(assigned);
			return r;
		}
		assignments->items[assignments->count++] = assigned;
	}
	*ret = assigned;
	return 0;
}

/* Adds a string unless it is among them. */
static int add_distinct(struct strings *strings, struct map *seen, const char *text)
{
	char *copy;
	int r;

	if (map_get(seen, text))
		return 0;
	r = strings_add(strings, text, strlen(text));
	if (r < 0)
		return r;
	copy = strings->items[strings->count - 1];
	return map_put(seen, copy, copy);
}

/* Takes "NAME=value", which it cuts. */
static int assign(struct build *build, struct assignments *assignments, char *text, bool configured)
{
	struct assigned *assigned;
	char *equals = strchr(text, '=');

	*equals = '\0';
	if (assigned_get(assignments, text, &assigned) < 0)
		return build_out_of_memory(build);
	if (assigned->configured && !configured)
		return 0;
	assigned->configured = configured;
	if (add_distinct(&assigned->values, &assigned->seen, equals + 1) < 0)
		return build_out_of_memory(build);
	return 0;
}

static int collect_assignment(
	struct build *build, const void *item, const char *device_id, void *target)
{
	_cleanup_free_ char *text = NULL;
	const char *equals;
	int r;

	r = build_expand(build, item, &text);
	if (r < 0)
		return r;
	equals = strchr(text, '=');
	if (!equals || equals == text)
		return error_set(build->error, -EINVAL,
			"%s: \"%s\" became \"%s\", which is not NAME=value",
			build->declaration->name, (const char *)item, text);
	return assign(build, target, text, true);
}

/* Values that devices bring; `item` is the offset of their list in struct device. */
static const struct strings *strings_of(const struct device *device, const void *item)
{
	const size_t *offset = item;

	return (const void *)((const char *)device + *offset);
}

/* Adds the current device's own parts, then the parts of each program's answer. */
static int for_devices_and_answers(
	struct build *build, collect_function collect, const size_t *of_device, void *target)
{
	int r = build_for_devices(build, true, collect, of_device, target);

	for (size_t i = 0; build->answers && i < build->answers->count && r >= 0; i++) {
		build->values.device = build->answers->items[i].edits;
		r = collect(build, of_device, NULL, target);
	}
	return r;
}

static int collect_device_assignments(
	struct build *build, const void *item, const char *device_id, void *target)
{
	const struct strings *strings = strings_of(build->values.device, item);
	int r = 0;

	for (size_t i = 0; i < strings->count && r >= 0; i++) {
		_cleanup_free_ char *text = strdup(strings->items[i]);

		r = text ? assign(build, target, text, false) : build_out_of_memory(build);
	}
	return r;
}

static char *join(const struct strings *strings)
{
	char *joined, *end;
	size_t size = 1;

	for (size_t i = 0; i < strings->count; i++)
		size += strlen(strings->items[i]) + 1;
	joined = malloc(size);
	if (!joined)
		return NULL;
	end = joined;
	*end = '\0';
	for (size_t i = 0; i < strings->count; i++) {
		if (i > 0)
			*end++ = ',';
		end = stpcpy(end, strings->items[i]);
	}
	return joined;
}

static void pairs_free(struct pair *pairs, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		free(pairs[i].name);
		free(pairs[i].value);
	}
	free(pairs);
}

/* Whether "NAME=value" is independent of the other devices of a container. A name to which devices
 * give different values is not, because the values are joined. */
static bool pair_is_of_device(const char *template)
{
	_cleanup_free_ char *name = strndup(template, declaration_assigned_name(template));

	return name && !template_is_per_allocation(template) &&
		(template_is_per_device(name) || !template_is_per_device(template + strlen(name)));
}

static int build_pairs(struct build *build, const struct strings *templates, size_t of_device,
	struct pair **ret, size_t *ret_n)
{
	_cleanup_(assignments_done) struct assignments assignments = { 0 };
	struct pair *pairs;
	int r = 0;

	for (size_t i = 0; i < templates->count; i++) {
		if (!build_wants(build,
			    templates == &build->declaration->container.env &&
				    pair_is_of_device(templates->items[i])))
			continue;
		r = build_for_devices(build, template_is_per_device(templates->items[i]),
			collect_assignment, templates->items[i], &assignments);
		if (r < 0)
			return r;
	}
	/* Other devices may give the same names other values. */
	if (build->part != BUILD_DEVICE)
		r = for_devices_and_answers(
			build, collect_device_assignments, &of_device, &assignments);
	if (r < 0)
		return r;
	pairs = calloc(assignments.count + 1, sizeof(*pairs));
	if (!pairs)
		return build_out_of_memory(build);
	for (size_t i = 0; i < assignments.count; i++) {
		pairs[i].name = TAKE_PTR(assignments.items[i]->name);
		pairs[i].value = join(&assignments.items[i]->values);
		if (!pairs[i].value) {
			pairs_free(pairs, i + 1);
			return build_out_of_memory(build);
		}
	}
	*ret = pairs;
	*ret_n = assignments.count;
	return 0;
}

struct names {
	struct strings strings;
	struct map seen;
};

static int collect_name(struct build *build, const void *item, const char *device_id, void *target)
{
	_cleanup_free_ char *text = NULL;
	struct names *names = target;
	int r;

	r = build_expand(build, item, &text);
	if (r < 0)
		return r;
	if (add_distinct(&names->strings, &names->seen, text) < 0)
		return build_out_of_memory(build);
	return 0;
}

static int collect_device_names(
	struct build *build, const void *item, const char *device_id, void *target)
{
	const struct strings *strings = strings_of(build->values.device, item);
	struct names *names = target;

	for (size_t i = 0; i < strings->count; i++)
		if (add_distinct(&names->strings, &names->seen, strings->items[i]) < 0)
			return build_out_of_memory(build);
	return 0;
}

static int build_names(struct build *build, const struct strings *templates, size_t of_device,
	char ***ret, size_t *ret_n)
{
	struct names names = { 0 };
	int r = 0;

	for (size_t i = 0; i < templates->count && r >= 0; i++)
		r = build_for_devices(build, template_is_per_device(templates->items[i]),
			collect_name, templates->items[i], &names);
	if (r >= 0)
		r = for_devices_and_answers(build, collect_device_names, &of_device, &names);
	map_done(&names.seen);
	if (r < 0) {
		strings_done(&names.strings);
		return r;
	}
	*ret = names.strings.items;
	*ret_n = names.strings.count;
	return 0;
}

static int check_variables(struct build *build, const struct allocation *allocation)
{
	for (size_t i = 0; i < allocation->n_env; i++) {
		const struct pair *pair = &allocation->env[i];
		size_t size = strlen(pair->name) + strlen(pair->value) + 2;

		if (size > VARIABLE_MAX)
			return error_set(build->error, -E2BIG,
				"%s: the variable %s for %zu device%s has %zu bytes, and a program cannot be started with more than %u: request fewer devices for a container, or shorten the variable",
				build->declaration->name, pair->name, build->n_devices,
				build->n_devices == 1 ? "" : "s", size, VARIABLE_MAX);
	}
	return 0;
}

static int build_texts(struct build *build, struct allocation *allocation)
{
	const struct container *container = &build->declaration->container;
	int r;

	r = build_pairs(build, &container->env, offsetof(struct device, env), &allocation->env,
		&allocation->n_env);
	if (r >= 0)
		r = check_variables(build, allocation);
	/* No CDI file contains the rest. */
	if (r < 0 || build->part == BUILD_DEVICE)
		return r;
	r = build_pairs(build, &container->annotations, offsetof(struct device, annotations),
		&allocation->annotations, &allocation->n_annotations);
	if (r < 0)
		return r;
	return build_names(build, &container->cdi, offsetof(struct device, cdi), &allocation->cdi,
		&allocation->n_cdi);
}

int build_allocation(struct build *build, struct allocation *ret)
{
	_cleanup_allocation_ struct allocation allocation = { 0 };
	int r;

	build->values.root = build->root;
	build->values.amounts = build->answers ? build->answers->values.amounts : NULL;
	build->context = (struct template_context){
		.name = build->declaration->name,
		.parameters = &build->declaration->parameters,
		.parameter_values = build->answers ? build->answers->values.parameters : NULL,
		.devices = build->devices,
		.n_devices = build->n_devices,
		.userdata = &build->values,
	};
	r = build_nodes(build, &allocation);
	if (r < 0)
		return r;
	r = build_texts(build, &allocation);
	if (r < 0)
		return r;
	*ret = allocation;
	allocation = (struct allocation){ 0 };
	return 0;
}

struct build build_begin(enum build_part part, const struct declaration *declaration,
	const struct snapshot *snapshot, const char *root, const struct allocation_answers *answers,
	struct error *error)
{
	return (struct build){
		.part = part,
		.declaration = declaration,
		.snapshot = snapshot,
		.root = root,
		.answers = answers,
		.claim = answers && answers->claim,
		.admin = answers && answers->admin,
		.in_use = answers && answers->in_use,
		.error = error,
	};
}

int allocation_build(const struct declaration *declaration, const struct snapshot *snapshot,
	const char *root, const char *const *ids, size_t n_ids,
	const struct allocation_answers *answers, struct allocation *ret, struct error *error)
{
	_cleanup_build_ struct build build =
		build_begin(BUILD_WHOLE, declaration, snapshot, root, answers, error);
	int r;

	r = build_choose(&build, ids, n_ids);
	return r < 0 ? r : build_allocation(&build, ret);
}

void allocation_note(const struct snapshot *snapshot, const char *const *ids, size_t n_ids)
{
	unsigned replica;
	size_t unit;

	for (size_t i = 0; i < n_ids; i++)
		if (snapshot_find(snapshot, ids[i], &unit, &replica) >= 0)
			device_note_assigned(snapshot->units[unit].device);
}

int allocation_metadata_path(const char *resource, char **ret)
{
	int r = format_text(ret, METADATA_DIRECTORY "%s/metadata.json", resource);

	if (r >= 0)
		*strchrnul(*ret + strlen(METADATA_DIRECTORY), '/') = '_';
	return r;
}

int allocation_add_metadata(
	struct allocation *allocation, const char *resource, const char *host, struct error *error)
{
	_cleanup_free_ char *path = NULL, *copy = strdup(host);
	struct device_node *grown;
	size_t at = 0;

	if (!copy || allocation_metadata_path(resource, &path) < 0)
		return error_set(error, -ENOMEM, "out of memory");
	while (at < allocation->n_nodes && strcmp(allocation->nodes[at].path, path) < 0)
		at++;
	if (at < allocation->n_nodes && streq(allocation->nodes[at].path, path))
		return error_set(error, -EEXIST,
			"%s in the container would be both %s and the metadata of %s: set a different path for %s",
			path, allocation->nodes[at].host, resource, allocation->nodes[at].host);
	grown = reallocarray(allocation->nodes, allocation->n_nodes + 1, sizeof(*grown));
	if (!grown)
		return error_set(error, -ENOMEM, "out of memory");
	memmove(&grown[at + 1], &grown[at], (allocation->n_nodes - at) * sizeof(*grown));
	grown[at] = (struct device_node){
		.host = TAKE_PTR(copy), .path = TAKE_PTR(path), .mount = true, .read_only = true
	};
	allocation->nodes = grown;
	allocation->n_nodes++;
	return 0;
}

bool allocation_is_empty(const struct allocation *allocation)
{
	return allocation->n_nodes + allocation->n_env + allocation->n_annotations +
		allocation->n_cdi ==
		0;
}

void allocation_done(struct allocation *allocation)
{
	for (size_t i = 0; i < allocation->n_nodes; i++) {
		free(allocation->nodes[i].host);
		free(allocation->nodes[i].path);
	}
	free(allocation->nodes);
	pairs_free(allocation->env, allocation->n_env);
	pairs_free(allocation->annotations, allocation->n_annotations);
	for (size_t i = 0; i < allocation->n_cdi; i++)
		free(allocation->cdi[i]);
	free(allocation->cdi);
	*allocation = (struct allocation){ 0 };
}
