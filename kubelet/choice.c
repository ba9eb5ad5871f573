/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Makes the kubelet's checks in the kubelet's order, with its messages. Devices are marked as
 * allocated at once and stay marked if the admission fails later, until the next recount.
 */
#include "kubelet/choice.h"

void choice_done(struct choice *choice)
{
	for (size_t i = 0; i < choice->n_available; i++)
		free(choice->available[i]);
	free(choice->available);
	free(choice->taken);
	*choice = (struct choice){};
}

static int check_recorded(const struct model *model, const struct allocation *allocation,
	size_t required, struct id_set *ret_ids, struct error *error)
{
	int r;

	r = allocation_ids(allocation, ret_ids);
	if (r < 0)
		return error_set(error, r, "out of memory");
	if (ret_ids->count != required)
		return error_set(error, -EINVAL,
			"pod \"%s\" container \"%s\" changed request for resource \"%s\" from %zu to %zu",
			allocation->pod_uid, allocation->container, allocation->resource,
			ret_ids->count, required);
	return 0;
}

static bool all_healthy(const struct resource *resource, const struct id_set *ids)
{
	for (size_t i = 0; i < ids->n_slots; i++) {
		const struct listed_device *device;

		if (!ids->slots[i])
			continue;
		device = device_table_find(resource->devices, ids->slots[i]);
		if (!device || !device->healthy)
			return false;
	}
	return true;
}

static int add_available(struct choice *choice, size_t at, const char *id)
{
	choice->available[choice->n_available] = choice->available[at];
	choice->available[at] = strdup(id);
	choice->n_available++;
	return choice->available[at] ? 0 : -ENOMEM;
}

/* Their health is not checked again. */
static int reuse(const struct id_set *reusable, struct choice *choice)
{
	int r = 0;

	for (size_t i = 0; reusable && i < reusable->n_slots && r >= 0; i++) {
		if (!reusable->slots[i] || choice->n_must == choice->required)
			continue;
		r = add_available(choice, choice->n_available, reusable->slots[i]);
		choice->n_must++;
	}
	for (size_t i = 0; i < choice->n_must && r >= 0; i++)
		choice->taken[choice->n_taken++] = choice->available[i];
	return r;
}

static int find_available(struct model *model, const struct resource *resource,
	const struct id_set *reusable, struct choice *choice, struct error *error)
{
	const struct device_table *devices = resource->devices;
	size_t needed;
	int r;

	choice->available =
		calloc(devices->count + (reusable ? reusable->count : 0) + 1, sizeof(char *));
	choice->taken = calloc(choice->required, sizeof(char *));
	r = choice->available && choice->taken ? reuse(reusable, choice) : -ENOMEM;
	needed = choice->required - choice->n_must;
	if (r >= 0 && needed == 0)
		return 0;
	for (size_t i = 0; i < devices->count && r >= 0; i++) {
		const struct listed_device *device = &devices->devices[i];
		size_t n = choice->n_available - choice->n_must;

		/* Shuffles the array while it is filled: each new element is swapped with a random
		 * one. */
		if (device->healthy && !id_set_contains(&resource->allocated, device->id))
			r = add_available(
				choice, choice->n_must + model_random(model, n + 1), device->id);
	}
	if (r < 0)
		return error_set(error, r, "out of memory");
	if (choice->n_available - choice->n_must < needed)
		return error_set(error, -ENOSPC,
			"requested number of devices unavailable for %s. Requested: %zu, Available: %zu",
			resource->name, needed, choice->n_available - choice->n_must);
	return 0;
}

static int take(struct resource *resource, struct choice *choice, char *id)
{
	int r;

	if (choice->n_taken == choice->required)
		return 0;
	r = id_set_insert(&resource->allocated, id);
	if (r <= 0)
		return r;
	choice->taken[choice->n_taken++] = id;
	return 0;
}

enum nearness {
	ON_WANTED_NODE,
	ON_OTHER_NODE,
	ON_NO_NODE,
};

/* The kubelet treats node -1 as no node, although a plugin may mean something by it. */
static enum nearness find_nearness(const struct listed_device *device, uint64_t wanted)
{
	enum nearness nearness = ON_NO_NODE;

	for (size_t i = 0; i < device->n_numa; i++) {
		int64_t node = device->numa[i];

		if (node >= 0 && node < 64 && (wanted >> node & 1) != 0)
			return ON_WANTED_NODE;
		if (node != NODE_NONE)
			nearness = ON_OTHER_NODE;
	}
	return nearness;
}

/* Sorts the devices that are not reused by nearness. Returns how many are on wanted nodes, or
 * -ENOMEM. */
static ssize_t sort_by_nearness(
	const struct resource *resource, uint64_t wanted, struct choice *choice)
{
	size_t n = choice->n_available - choice->n_must, at = 0;
	_cleanup_free_ char **sorted = calloc(n + 1, sizeof(*sorted));
	char **ids = choice->available + choice->n_must;
	ssize_t near = 0;

	if (!sorted)
		return -ENOMEM;
	for (unsigned nearness = ON_WANTED_NODE; nearness <= ON_NO_NODE; nearness++)
		for (size_t i = 0; i < n; i++) {
			const struct listed_device *device =
				device_table_find(resource->devices, ids[i]);

			if (find_nearness(device, wanted) != nearness)
				continue;
			sorted[at++] = ids[i];
			near += nearness == ON_WANTED_NODE;
		}
	memcpy(ids, sorted, n * sizeof(*sorted));
	return near;
}

/* The candidates for the plugin: the devices on wanted nodes if they are more than enough;
 * otherwise all devices, and those on wanted nodes must be included. */
static int align(struct resource *resource, const struct topology_hint *hint, struct choice *choice)
{
	size_t needed = choice->required - choice->n_must, near = 0;
	int r = 0;

	choice->n_offered = choice->n_available;
	if (hint && hint->aligned && device_table_has_numa(resource->devices)) {
		ssize_t n = sort_by_nearness(resource, hint->nodes, choice);

		if (n < 0)
			return (int)n;
		near = (size_t)n;
	}
	if (needed < near) {
		choice->n_offered = choice->n_must + near;
		return 0;
	}
	for (size_t i = 0; i < near && r >= 0; i++)
		r = take(resource, choice, choice->available[choice->n_must++]);
	return r;
}

static int begin(struct model *model, const char *pod_uid, const char *container,
	struct resource *resource, const struct id_set *reusable, const struct topology_hint *hint,
	struct choice *choice, struct error *error)
{
	const struct allocation *allocation =
		model_find_allocation(model, pod_uid, container, resource->name);
	_cleanup_id_set_ struct id_set recorded = {};
	int r;

	if (allocation) {
		r = check_recorded(model, allocation, choice->required, &recorded, error);
		if (r < 0)
			return r;
	}
	if (!resource->known)
		return error_set(
			error, -ENOENT, "cannot allocate unregistered device %s", resource->name);
	if (resource_allocatable(resource) == 0)
		return error_set(error, -ENODEV,
			"no healthy devices present; cannot allocate unhealthy devices %s",
			resource->name);
	if (!all_healthy(resource, &recorded))
		return error_set(error, -ENODEV,
			"previously allocated devices are no longer healthy; cannot allocate unhealthy devices %s",
			resource->name);
	if (allocation || choice->required == 0)
		return CHOICE_NOTHING;
	resource->allocated_known = true;
	r = find_available(model, resource, reusable, choice, error);
	if (r < 0)
		return r;
	if (choice->n_taken == choice->required)
		return CHOICE_ALLOCATE;
	r = align(resource, hint, choice);
	if (r < 0)
		return error_set(error, r, "out of memory");
	if (choice->n_taken == choice->required)
		return CHOICE_ALLOCATE;
	if (!resource->endpoint.present)
		return error_set(error, -ENOENT,
			"endpoint not found in cache for a registered resource: %s",
			resource->name);
	if (resource->endpoint.options_known && resource->endpoint.options.preferred_allocation)
		return CHOICE_PREFER;
	r = choice_finish(model, resource->name, choice, NULL, 0, error);
	return r < 0 ? r : CHOICE_ALLOCATE;
}

int choice_begin(struct model *model, const char *pod_uid, const char *container,
	const char *resource_name, size_t required, const struct id_set *reusable,
	const struct topology_hint *hint, struct choice *ret, struct error *error)
{
	struct resource *resource = model_find_resource(model, resource_name);
	struct choice choice = { .required = required };
	int r;

	/* No plugin's resource: the container starts without it. */
	if (!resource || !resource_is_device_plugin(resource))
		return CHOICE_NOTHING;
	r = begin(model, pod_uid, container, resource, reusable, hint, &choice, error);
	if (r < 0)
		choice_done(&choice);
	else
		*ret = choice;
	return r;
}

static int take_all(struct resource *resource, struct choice *choice, const struct id_set *wanted)
{
	int r;

	for (size_t i = 0; i < choice->n_offered; i++) {
		if (!id_set_contains(wanted, choice->available[i]))
			continue;
		r = take(resource, choice, choice->available[i]);
		if (r < 0)
			return r;
	}
	for (size_t i = 0; i < choice->n_offered; i++) {
		r = take(resource, choice, choice->available[i]);
		if (r < 0)
			return r;
	}
	return 0;
}

int choice_finish(struct model *model, const char *resource_name, struct choice *choice,
	char *const *preferred, size_t n_preferred, struct error *error)
{
	_cleanup_id_set_ struct id_set wanted = {};
	struct resource *resource;
	int r;

	r = model_get_resource(model, resource_name, &resource);
	for (size_t i = 0; r >= 0 && i < n_preferred; i++)
		r = id_set_insert(&wanted, preferred[i]);
	if (r >= 0)
		r = take_all(resource, choice, &wanted);
	if (r < 0)
		return error_set(error, r, "out of memory");
	if (choice->n_taken < choice->required)
		return error_set(error, -ENOSPC,
			"unexpectedly allocated less resources than required. Requested: %zu, Got: %zu",
			choice->required, choice->n_taken);
	resource->allocated_known = true;
	return 0;
}
