/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Records the devices of each pod. The record outlives plugins and restarts: the plugin's answer is
 * kept as bytes and used at every later start of the container.
 */
#include "kubelet/plugin-resource.h"

struct allocation *allocation_free(struct allocation *allocation)
{
	if (!allocation)
		return NULL;
	for (size_t i = 0; i < allocation->n_devices; i++)
		free(allocation->devices[i].id);
	free(allocation->devices);
	free(allocation->response);
	free(allocation->pod_uid);
	free(allocation->container);
	free(allocation->resource);
	free(allocation);
	return NULL;
}

static size_t find_index(
	const struct model *model, const char *pod_uid, const char *container, const char *resource)
{
	size_t i;

	for (i = 0; i < model->n_allocations; i++) {
		const struct allocation *a = model->allocations[i];

		if (streq(a->pod_uid, pod_uid) && streq(a->container, container) &&
			streq(a->resource, resource))
			break;
	}
	return i;
}

struct allocation *model_find_allocation(
	const struct model *model, const char *pod_uid, const char *container, const char *resource)
{
	size_t i = find_index(model, pod_uid, container, resource);

	return i < model->n_allocations ? model->allocations[i] : NULL;
}

int model_insert_allocation(struct model *model, struct allocation *taken)
{
	_cleanup_(allocation_freep) struct allocation *allocation = taken;
	size_t i;
	int r;

	i = find_index(model, allocation->pod_uid, allocation->container, allocation->resource);
	if (i < model->n_allocations) {
		(void)allocation_free(model->allocations[i]);
		model->allocations[i] = TAKE_PTR(allocation);
		return 0;
	}
	r = array_reserve(
		(void **)&model->allocations, model->n_allocations, sizeof(struct allocation *));
	if (r < 0)
		return r;
	model->allocations[model->n_allocations++] = TAKE_PTR(allocation);
	return 0;
}

static int add_device(struct allocation *allocation, int64_t node, const char *id)
{
	char *copy;
	int r;

	r = array_reserve(
		(void **)&allocation->devices, allocation->n_devices, sizeof(*allocation->devices));
	if (r < 0)
		return r;
	copy = strdup(id);
	if (!copy)
		return -ENOMEM;
	allocation->devices[allocation->n_devices++] =
		(struct allocated_device){ .node = node, .id = copy };
	return 0;
}

static int add_with_topology(
	struct allocation *allocation, const struct device_table *devices, const char *id)
{
	const struct listed_device *device = devices ? device_table_find(devices, id) : NULL;
	int r;

	if (!device || device->n_numa == 0)
		return add_device(allocation, NODE_NONE, id);
	for (size_t i = 0; i < device->n_numa; i++) {
		r = add_device(allocation, device->numa[i], id);
		if (r < 0)
			return r;
	}
	return 0;
}

int model_record_allocation(struct model *model, const char *pod_uid, const char *container,
	const char *resource_name, char *const *ids, size_t n_ids, const uint8_t *response,
	size_t size)
{
	_cleanup_(allocation_freep) struct allocation *allocation = NULL;
	const struct resource *resource = model_find_resource(model, resource_name);
	int r;

	allocation = calloc(1, sizeof(*allocation));
	if (!allocation)
		return -ENOMEM;
	allocation->pod_uid = strdup(pod_uid);
	allocation->container = strdup(container);
	allocation->resource = strdup(resource_name);
	allocation->response = malloc(MAX_OF(size, (size_t)1));
	if (!allocation->pod_uid || !allocation->container || !allocation->resource ||
		!allocation->response)
		return -ENOMEM;
	if (size > 0)
		memcpy(allocation->response, response, size);
	allocation->response_size = size;
	for (size_t i = 0; i < n_ids; i++) {
		r = add_with_topology(allocation, resource ? resource->devices : NULL, ids[i]);
		if (r < 0)
			return r;
	}
	return model_insert_allocation(model, TAKE_PTR(allocation));
}

int allocation_ids(const struct allocation *allocation, struct id_set *ret)
{
	_cleanup_id_set_ struct id_set ids = {};
	int r;

	for (size_t i = 0; i < allocation->n_devices; i++) {
		r = id_set_insert(&ids, allocation->devices[i].id);
		if (r < 0)
			return r;
	}
	*ret = ids;
	ids = (struct id_set){};
	return 0;
}

int model_recount_allocated(struct model *model)
{
	int r;

	for (size_t i = 0; i < model->n_resources; i++) {
		id_set_done(&model->resources[i]->allocated);
		model->resources[i]->allocated_known = false;
	}
	for (size_t i = 0; i < model->n_allocations; i++) {
		const struct allocation *allocation = model->allocations[i];
		struct resource *resource;

		r = model_get_resource(model, allocation->resource, &resource);
		if (r < 0)
			return r;
		resource->allocated_known = true;
		for (size_t k = 0; k < allocation->n_devices; k++) {
			r = id_set_insert(&resource->allocated, allocation->devices[k].id);
			if (r < 0)
				return r;
		}
	}
	return 0;
}

int model_collect_allocations(struct model *model)
{
	_cleanup_id_set_ struct id_set alive = {};
	size_t kept = 0, n = model->n_allocations;
	int r;

	for (size_t i = 0; i < model->n_pods; i++) {
		if (model->pods[i]->phase == POD_FAILED)
			continue;
		r = id_set_insert(&alive, model->pods[i]->uid);
		if (r < 0)
			return r;
	}
	for (size_t i = 0; i < n; i++) {
		struct allocation *allocation = model->allocations[i];

		if (id_set_contains(&alive, allocation->pod_uid))
			model->allocations[kept++] = allocation;
		else
			(void)allocation_free(allocation);
	}
	model->n_allocations = kept;
	return kept < n ? model_recount_allocated(model) : 0;
}
