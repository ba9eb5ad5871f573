/* SPDX-License-Identifier: Apache-2.0 */
/*
 * From offered ids to what the container gets: find the units, collect what devices and templates
 * want, and settle what is wanted twice. Called on any thread; all state is in `struct build`.
 */
#include "drivers/allocation.h"

#include "drivers/allocation-build.h"

void build_done(struct build *build)
{
	build_nodes_done(build);
	free(build->chosen);
	free(build->devices);
}

int build_out_of_memory(struct build *build)
{
	return error_set(build->error, -ENOMEM, "out of memory");
}

static const struct device *chosen_device(const struct build *build, size_t index)
{
	return build->snapshot->units[build->chosen[index].unit].device;
}

/* --- which units --- */

static int check_unit(struct build *build, const char *id, struct chosen *ret)
{
	const char *name = build->declaration->name;
	const struct snapshot_unit *unit;
	struct chosen chosen;
	int r;

	r = snapshot_find(build->snapshot, id, &chosen.unit, &chosen.replica);
	if (r < 0)
		return error_set(build->error, r,
			"device \"%s\" is not one of %s on this node: let the pod be created "
			"again, it will get one that is",
			id, name);
	unit = &build->snapshot->units[chosen.unit];
	if (unit->foreign)
		return error_set(build->error, -ENOENT,
			"device \"%s\" is no longer one of %s, it is %s: let the pod be created "
			"again, it will get one that is",
			unit->device->id, name, unit->reason);
	if (!unit->healthy)
		return error_set(build->error, -EIO,
			"device \"%s\" of %s is unhealthy: %s; %s or drain the pod to another node",
			unit->device->id, name, unit->reason,
			unit->present ? "repair it" : "plug it in again");
	*ret = chosen;
	return 0;
}

static int compare_chosen(const void *a, const void *b)
{
	const struct chosen *x = a, *y = b;

	if (x->unit != y->unit)
		return x->unit < y->unit ? -1 : 1;
	return (x->replica > y->replica) - (x->replica < y->replica);
}

int build_choose(struct build *build, const char *const *ids, size_t n_ids)
{
	const struct declaration *declaration = build->declaration;
	int64_t limit = declaration->share.max_per_container;
	int r;

	if (n_ids == 0)
		return error_set(build->error, -EINVAL, "the request for %s names no device",
			declaration->name);
	if (limit > 0 && n_ids > (size_t)limit)
		return error_set(build->error, -EINVAL,
			"the container asks for %zu of %s, at most %lld are allowed in one: lower "
			"its limit or raise share.max_per_container",
			n_ids, declaration->name, (long long)limit);
	build->chosen = calloc(n_ids, sizeof(*build->chosen));
	build->devices = calloc(n_ids, sizeof(*build->devices));
	if (!build->chosen || !build->devices)
		return build_out_of_memory(build);
	for (; build->n_chosen < n_ids; build->n_chosen++) {
		r = check_unit(build, ids[build->n_chosen], &build->chosen[build->n_chosen]);
		if (r < 0)
			return r;
	}
	qsort(build->chosen, n_ids, sizeof(*build->chosen), compare_chosen);
	for (size_t i = 0; i < n_ids; i++) {
		if (i > 0 && compare_chosen(&build->chosen[i - 1], &build->chosen[i]) == 0)
			return error_set(build->error, -EINVAL,
				"the request names device \"%s\" of %s twice",
				chosen_device(build, i)->id, declaration->name);
		if (i == 0 || build->chosen[i - 1].unit != build->chosen[i].unit)
			build->devices[build->n_devices++] = chosen_device(build, i);
	}
	return 0;
}

/* --- templates --- */

int build_expand(struct build *build, const char *text, char **ret)
{
	int r;

	r = template_expand(text, &build->context, ret, build->error);
	if (r < 0 && build->context.device_value)
		error_prefix(build->error, "device \"%s\" of %s: \"%s\"", build->values.device->id,
			build->declaration->name, text);
	else if (r < 0)
		error_prefix(build->error, "%s: \"%s\"", build->declaration->name, text);
	return r;
}

int build_for_devices(struct build *build, bool per_device, collect_function collect,
	const void *item, void *target)
{
	int r = 0;

	build->context.device_value = NULL;
	if (!per_device)
		return collect(build, item, NULL, target);
	build->context.device_value = device_values_get;
	for (size_t i = 0; i < build->n_chosen && r >= 0; i++) {
		build->values.device = chosen_device(build, i);
		build->values.index = build->chosen[i].unit;
		build->values.replica = build->chosen[i].replica;
		build->values.position = i;
		r = collect(build, item, build->values.device->id, target);
	}
	return r;
}

size_t build_n_answers(const struct build *build)
{
	return build->answers ? build->answers->count : 0;
}

/* --- the whole --- */

int build_allocation(struct build *build, struct allocation *ret)
{
	_cleanup_allocation_ struct allocation allocation = { 0 };
	int r;

	build->values.root = build->root;
	build->context = (struct template_context){
		.name = build->declaration->name,
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

int allocation_build(const struct declaration *declaration, const struct snapshot *snapshot,
	const char *root, const char *const *ids, size_t n_ids,
	const struct allocation_answers *answers, struct allocation *ret, struct error *error)
{
	_cleanup_build_ struct build build = {
		.answers = answers,
		.declaration = declaration,
		.snapshot = snapshot,
		.root = root,
		.error = error,
	};
	int r;

	r = build_choose(&build, ids, n_ids);
	if (r >= 0)
		r = build_allocation(&build, ret);
	for (size_t i = 0; i < build.n_chosen && r >= 0; i++)
		device_note_lent(chosen_device(&build, i));
	return r;
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
