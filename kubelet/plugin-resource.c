/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Keeps the devices, the endpoint, the capacity and the grace period of each resource. A resource's
 * entry is never removed, only forgotten, because the Node keeps the name too.
 */
#include "kubelet/plugin-resource.h"

static void endpoint_done(struct endpoint *endpoint)
{
	free(endpoint->path);
	*endpoint = (struct endpoint){};
}

struct resource *model_free_resource(struct resource *resource)
{
	if (!resource)
		return NULL;
	(void)device_table_free(resource->devices);
	endpoint_done(&resource->endpoint);
	id_set_done(&resource->allocated);
	free(resource->name);
	free(resource);
	return NULL;
}

/* Position of the name, or the position to insert it. */
static size_t find_position(const struct model *model, const char *name, bool *ret_found)
{
	size_t low = 0, high = model->n_resources;

	*ret_found = false;
	while (low < high) {
		size_t middle = low + (high - low) / 2;
		int order = strcmp(model->resources[middle]->name, name);

		if (order == 0) {
			*ret_found = true;
			return middle;
		}
		if (order < 0)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

struct resource *model_find_resource(const struct model *model, const char *name)
{
	bool found;
	size_t i = find_position(model, name, &found);

	return found ? model->resources[i] : NULL;
}

int model_get_resource(struct model *model, const char *name, struct resource **ret)
{
	struct resource *resource;
	bool found;
	size_t i = find_position(model, name, &found);
	int r;

	if (found) {
		*ret = model->resources[i];
		return 0;
	}
	r = array_reserve(
		(void **)&model->resources, model->n_resources, sizeof(struct resource *));
	if (r < 0)
		return r;
	resource = calloc(1, sizeof(*resource));
	if (!resource)
		return -ENOMEM;
	resource->name = strdup(name);
	if (!resource->name) {
		free(resource);
		return -ENOMEM;
	}
	memmove(model->resources + i + 1, model->resources + i,
		(model->n_resources - i) * sizeof(struct resource *));
	model->resources[i] = resource;
	model->n_resources++;
	*ret = resource;
	return 0;
}

bool resource_is_device_plugin(const struct resource *resource)
{
	return resource->known || resource->allocated_known;
}

size_t resource_capacity(const struct resource *resource)
{
	if (!resource->known || !resource->devices)
		return 0;
	return resource->devices->n_healthy + resource->devices->n_unhealthy;
}

size_t resource_allocatable(const struct resource *resource)
{
	return resource->known && resource->devices ? resource->devices->n_healthy : 0;
}

int model_plugin_connected(struct model *model, const char *name, const char *path,
	uint64_t connection, const struct plugin_options *options)
{
	struct resource *resource;
	char *copy;
	int r;

	r = model_get_resource(model, name, &resource);
	if (r < 0)
		return r;
	copy = strdup(path);
	if (!copy)
		return -ENOMEM;
	endpoint_done(&resource->endpoint);
	resource->endpoint = (struct endpoint){
		.present = true,
		.options_known = true,
		.options = *options,
		.connection = connection,
		.path = copy,
	};
	return 0;
}

bool model_plugin_disconnected(struct model *model, const char *name, uint64_t now)
{
	struct resource *resource = model_find_resource(model, name);

	if (!resource || !resource->endpoint.present)
		return false;
	if (resource->devices)
		device_table_mark_unhealthy(resource->devices);
	resource->endpoint.stopped = true;
	resource->endpoint.stop_time = now;
	return true;
}

int model_replace_devices(struct model *model, const char *name, struct device_table *devices)
{
	struct resource *resource;
	int r;

	r = model_get_resource(model, name, &resource);
	if (r < 0) {
		(void)device_table_free(devices);
		return r;
	}
	(void)device_table_free(resource->devices);
	resource->devices = devices;
	resource->known = true;
	resource->published = true;
	resource->lists++;
	return 0;
}

size_t model_missing_devices(
	const struct model *model, const struct resource *resource, const char **ret_example)
{
	const char *example = NULL;
	size_t n = 0;

	for (size_t i = 0; resource->devices && i < resource->allocated.n_slots; i++) {
		const char *id = resource->allocated.slots[i];

		if (!id || device_table_find(resource->devices, id))
			continue;
		example = id;
		n++;
	}
	if (n > 0)
		*ret_example = example;
	return n;
}

static bool is_expired(const struct model *model, const struct resource *resource, uint64_t now)
{
	const struct endpoint *endpoint = &resource->endpoint;

	if (!resource->known)
		return false;
	return !endpoint->present ||
		(endpoint->stopped && now - endpoint->stop_time > model->grace);
}

size_t model_expire(struct model *model, uint64_t now,
	void (*on_forgotten)(const char *resource, void *userdata), void *userdata)
{
	size_t n = 0;

	for (size_t i = 0; i < model->n_resources; i++) {
		struct resource *resource = model->resources[i];

		if (!is_expired(model, resource, now))
			continue;
		endpoint_done(&resource->endpoint);
		resource->devices = device_table_free(resource->devices);
		resource->known = false;
		on_forgotten(resource->name, userdata);
		n++;
	}
	return n;
}
