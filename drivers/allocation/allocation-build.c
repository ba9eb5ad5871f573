/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Decides whether a container may have the ids that were allocated to it, and finds their devices.
 * Expands templates with the values of these devices, one after the other.
 */
#include "drivers/allocation/allocation-build.h"

void build_done(struct build *build)
{
	for (size_t i = 0; i < build->n_wanted; i++) {
		free(build->wanted[i].node.host);
		free(build->wanted[i].node.path);
	}
	free(build->wanted);
	free(build->chosen);
	free(build->devices);
}

int build_out_of_memory(struct build *build)
{
	return error_set(build->error, -ENOMEM, "out of memory");
}

/* An excluded device only counts for a file for container runtimes. */
static const struct device *chosen_device(const struct build *build, size_t index)
{
	const struct snapshot_unit *unit = &build->snapshot->units[build->chosen[index].unit];

	return unit->excluded ?: unit->device;
}

static const char *remedy_of(const struct build *build, const struct snapshot_unit *unit)
{
	if (unit->present)
		return "repair it or drain the pod to another node";
	if (build->declaration->driver->runs_programs)
		return "correct its program or drain the pod to another node";
	return "create the pod again to get another device";
}

/* Whether the device works for this container and is not withheld for another use. For a claim, the
 * scheduler has considered health: it allocates a device with a taint only if the claim tolerates
 * that. */
static bool is_usable(const struct build *build, const struct snapshot_unit *unit)
{
	if (unit->healthy)
		return true;
	if (!unit->present)
		return false;
	if (build->in_use)
		return true;
	if (!build->claim || unit->device->problem || (unit->device->absence && !build->admin))
		return false;
	switch (unit->cause) {
	case CAUSE_CORDONED:
	case CAUSE_PROBE:
	case CAUSE_UNPROBED:
		return true;
	case CAUSE_CLAIMED:
	case CAUSE_IN_USE:
	case CAUSE_STALE:
		return build->admin;
	default:
		return false;
	}
}

static int check_unit(struct build *build, const char *id, struct chosen *ret)
{
	const char *name = build->declaration->name;
	const struct snapshot_unit *unit;
	struct chosen chosen;
	int r;

	r = snapshot_find(build->snapshot, id, &chosen.unit, &chosen.replica);
	if (r < 0 || build->snapshot->units[chosen.unit].cause == CAUSE_BOOKED)
		return error_set(build->error, -ENOENT,
			"device \"%s\" does not exist in %s on this node: create the pod again to get another device",
			id, name);
	unit = &build->snapshot->units[chosen.unit];
	if (unit->claimed_by_other && unit->withheld == 0)
		return error_set(build->error, -ENOENT,
			"device \"%s\" no longer belongs to %s, it is %s: create the pod again to get another device",
			unit->device->id, name, unit->reason);
	if (!build->in_use && !build->admin && snapshot_withholds(build->snapshot, chosen.unit, id))
		return error_set(build->error, -EBUSY,
			"device \"%s\" of %s is in use by %s: it is free when that pod has ended; create this pod again to get another device",
			id, name, declaration_other_way(build->declaration));
	if (!is_usable(build, unit))
		return error_set(build->error, -EIO, "device \"%s\" of %s is unhealthy: %s; %s",
			unit->device->id, name, unit->reason, remedy_of(build, unit));
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
			"the container requests %zu devices of %s, the maximum for one container is %lld: lower its limit or raise share.max_per_container",
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
