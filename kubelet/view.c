/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Derives the output from the model each time; nothing is kept here.
 */
#include "kubelet/view.h"

#include "kubelet/claim-table.h"
#include "kubelet/dra-driver.h"
#include "kubelet/plugin-text.h"

/* {id: "namespace/name"} of the devices of a resource that are allocated to pods. */
static json_t *view_holders(const struct model *model, const struct resource *resource)
{
	_cleanup_json_ json_t *holders = json_object();

	for (size_t i = 0; i < model->n_allocations; i++) {
		const struct allocation *allocation = model->allocations[i];
		const struct pod *pod;
		json_t *name;

		if (!streq(allocation->resource, resource->name))
			continue;
		pod = model_find_pod_uid(model, allocation->pod_uid);
		name = pod ? json_sprintf("%s/%s", pod->namespace, pod->name)
			   : json_sprintf("uid %s", allocation->pod_uid);
		for (size_t k = 0; k < allocation->n_devices; k++) {
			_cleanup_json_ json_t *id = text_json(allocation->devices[k].id);

			if (!id || json_object_set(holders, json_string_value(id), name) < 0) {
				json_decref(name);
				return NULL;
			}
		}
		json_decref(name);
	}
	return json_incref(holders);
}

static json_t *view_device(const struct listed_device *device, const json_t *holders)
{
	_cleanup_json_ json_t *numa = json_array(), *id = text_json(device->id);
	json_t *holder;

	if (!id)
		return NULL;
	for (size_t i = 0; i < device->n_numa; i++)
		if (json_array_append_new(numa, json_integer(device->numa[i])) < 0)
			return NULL;
	holder = json_object_get(holders, json_string_value(id));

	/* As in the kubelet, a device of a dead plugin is unhealthy, independent of its last
	 * health. */
	return json_pack("{s:O, s:o, s:b, s:O, s:O?}", "id", id, "health",
		text_json(device->health), "healthy", device->healthy, "numa", numa, "pod", holder);
}

static json_t *view_devices(const struct model *model, const struct resource *resource)
{
	_cleanup_json_ json_t *holders = view_holders(model, resource), *devices = json_array();

	if (!holders)
		return NULL;
	for (size_t i = 0; resource->devices && i < resource->devices->count; i++)
		if (json_array_append_new(
			    devices, view_device(&resource->devices->devices[i], holders)) < 0)
			return NULL;
	return json_incref(devices);
}

static json_t *view_options(const struct endpoint *endpoint)
{
	if (!endpoint->options_known)
		return json_null();
	return json_pack("{s:b, s:b}", "pre_start_required", endpoint->options.pre_start_required,
		"get_preferred_allocation_available", endpoint->options.preferred_allocation);
}

static const char *view_state(const struct resource *resource)
{
	if (!resource->endpoint.present)
		return resource->published ? "forgotten" : "registering";
	return resource->endpoint.stopped ? "stopped" : "serving";
}

static json_t *view_resource(const struct model *model, const struct resource *resource)
{
	const struct endpoint *endpoint = &resource->endpoint;

	return json_pack("{s:s, s:s, s:I, s:I, s:I, s:o?, s:I, s:o, s:I, s:I, s:o}", "name",
		resource->name, "state", view_state(resource), "capacity",
		(json_int_t)resource_capacity(resource), "allocatable",
		(json_int_t)resource_allocatable(resource), "allocated",
		(json_int_t)resource->allocated.count, "endpoint",
		endpoint->path ? text_json(strrchr(endpoint->path, '/') + 1) : NULL, "connection",
		(json_int_t)endpoint->connection, "options", view_options(endpoint),
		"registrations", (json_int_t)resource->registrations, "lists",
		(json_int_t)resource->lists, "devices", view_devices(model, resource));
}

json_t *view_status(const struct manager *manager)
{
	_cleanup_json_ json_t *resources = json_array();
	const struct model *model = manager->model;

	for (size_t i = 0; i < model->n_resources; i++)
		if (json_array_append_new(resources, view_resource(model, model->resources[i])) < 0)
			return NULL;
	return json_pack("{s:s, s:o, s:b, s:{s:s, s:s, s:i}, s:O, s:o}", "version",
		model->version->name, "plugin_dir", text_json(manager->options->plugin_dir),
		"stale_stream_race", model->clients.stale_stream_race, "topology", "policy",
		topology_policy_to_string(model->topology.policy), "scope",
		topology_scope_to_string(model->topology.scope), "nodes",
		(int)model->topology.n_nodes, "resources", resources, "drivers",
		dra_driver_view(manager));
}

static json_t *view_ids(const struct allocation *allocation)
{
	_cleanup_id_set_ struct id_set ids = {};
	_cleanup_json_ json_t *array = json_array();

	if (allocation_ids(allocation, &ids) < 0)
		return NULL;
	for (size_t i = 0; i < ids.n_slots; i++)
		if (ids.slots[i] && json_array_append_new(array, text_json(ids.slots[i])) < 0)
			return NULL;
	return json_incref(array);
}

static int add_limit(const struct model *model, const struct pod *pod, const char *container,
	const struct pod_limit *limit, json_t *resources, json_t *ignored)
{
	const struct allocation *allocation =
		model_find_allocation(model, pod->uid, container, limit->resource);
	const struct resource *resource;

	if (allocation)
		return json_object_set_new(resources, limit->resource, view_ids(allocation));
	resource = model_find_resource(model, limit->resource);
	if (!resource || !resource_is_device_plugin(resource))
		return json_array_append_new(ignored, json_string(limit->resource));
	return 0;
}

/* The nodes that the container was admitted for; null if any node is accepted. */
static json_t *view_topology(const struct topology_hint *hint)
{
	_cleanup_json_ json_t *nodes = json_array();

	if (!hint->aligned)
		return json_null();
	for (unsigned i = 0; i < TOPOLOGY_MAX_NODES; i++)
		if ((hint->nodes >> i & 1) != 0 &&
			json_array_append_new(nodes, json_integer(i)) < 0)
			return NULL;
	return json_pack("{s:O, s:b}", "nodes", nodes, "preferred", hint->preferred);
}

static json_t *view_container(
	const struct model *model, const struct pod *pod, const struct pod_container *container)
{
	_cleanup_json_ json_t *limits = json_object(), *resources = json_object(),
			      *ignored = json_array();

	for (size_t i = 0; i < container->n_limits; i++) {
		const struct pod_limit *limit = &container->limits[i];

		if (json_object_set_new(
			    limits, limit->resource, json_integer((json_int_t)limit->count)) < 0 ||
			add_limit(model, pod, container->name, limit, resources, ignored) < 0)
			return NULL;
	}
	return json_pack("{s:s, s:s, s:O, s:O, s:O, s:o}", "name", container->name, "kind",
		container_kind_to_string(container->kind), "limits", limits, "resources", resources,
		"ignored", ignored, "topology", view_topology(&container->topology));
}

/* The first container that is neither an init container nor a sidecar. */
static size_t main_container(const struct pod *pod)
{
	for (size_t i = 0; i < pod->n_containers; i++)
		if (pod->containers[i].kind == CONTAINER_MAIN)
			return i;
	return 0;
}

/* A device of a claim, with its health. */
static json_t *view_claimed(const struct manager *manager, const char *driver, const json_t *device)
{
	const char *pool = json_string_value(json_object_get(device, "pool"));
	const char *name = json_string_value(json_object_get(device, "device"));
	json_t *view = dra_driver_health(manager, driver, pool, name);

	if (!view || json_object_set_new(view, "driver", json_string(driver)) < 0 ||
		json_object_set_new(view, "pool", json_string(pool)) < 0 ||
		json_object_set_new(view, "device", json_string(name)) < 0 ||
		json_object_set(view, "cdi", json_object_get(device, "cdi")) < 0) {
		json_decref(view);
		return NULL;
	}
	return view;
}

static json_t *view_claim(const struct manager *manager, const struct pod *pod, const json_t *claim)
{
	const json_t *entry = claim_table_find(manager->claims, pod, claim), *list;
	_cleanup_json_ json_t *devices = json_array();
	const char *driver;

	json_object_foreach(json_object_get(entry, "drivers"), driver, list)
	{
		const json_t *device;
		size_t i;

		json_array_foreach(list, i, device)
		{
			if (json_array_append_new(devices, view_claimed(manager, driver, device)) <
				0)
				return NULL;
		}
	}
	return json_pack("{s:O, s:O, s:b, s:O}", "name", json_object_get(claim, "name"), "uid",
		json_object_get(claim, "uid"), "prepared",
		(int)json_is_true(json_object_get(entry, "prepared")), "devices", devices);
}

/* NULL if the pod has none. */
static json_t *view_claims(const struct manager *manager, const struct pod *pod)
{
	json_t *claims = pod->claims ? json_array() : NULL;
	const json_t *claim;
	size_t i;

	json_array_foreach(pod->claims, i, claim)(void)
		json_array_append_new(claims, view_claim(manager, pod, claim));
	return claims;
}

json_t *view_pod(const struct manager *manager, const struct pod *pod)
{
	_cleanup_json_ json_t *containers = json_array();
	const struct model *model = manager->model;
	const json_t *first;

	for (size_t i = 0; i < pod->n_containers; i++)
		if (json_array_append_new(
			    containers, view_container(model, pod, &pod->containers[i])) < 0)
			return NULL;
	first = json_array_get(containers, main_container(pod));
	return json_pack("{s:s, s:s, s:s, s:s, s:b, s:O, s:O, s:O, s:O, s:o*, s:o*, s:o*}", "name",
		pod->name, "namespace", pod->namespace, "uid", pod->uid, "phase",
		pod_phase_to_string(pod->phase), "static", pod->is_static, "limits",
		json_object_get(first, "limits"), "resources", json_object_get(first, "resources"),
		"ignored", json_object_get(first, "ignored"), "containers", containers, "claims",
		view_claims(manager, pod), "reason", pod->reason ? text_json(pod->reason) : NULL,
		"message", pod->message ? text_json(pod->message) : NULL);
}

int view_add_started(json_t *view, const struct pod *pod, const json_t *started)
{
	json_t *containers = json_object_get(view, "containers"), *container;
	size_t i;

	json_array_foreach(containers, i, container)
	{
		if (json_object_set(container, "container", json_array_get(started, i)) < 0)
			return -ENOMEM;
	}
	return json_object_set(view, "container", json_array_get(started, main_container(pod)));
}

json_t *view_pods(const struct manager *manager)
{
	_cleanup_json_ json_t *pods = json_array();
	const struct model *model = manager->model;

	for (size_t i = 0; i < model->n_pods; i++)
		if (json_array_append_new(pods, view_pod(manager, model->pods[i])) < 0)
			return NULL;
	return json_pack("{s:O}", "pods", pods);
}

json_t *view_allocatable(const struct model *model, const json_t *wanted)
{
	_cleanup_json_ json_t *view = json_object();
	const char *name;
	json_t *count;

	json_object_foreach((json_t *)(uintptr_t)wanted, name, count)
	{
		const struct resource *resource = model_find_resource(model, name);
		json_t *value = json_null();

		if (resource && resource->published)
			value = json_pack("{s:I, s:I}", "capacity",
				(json_int_t)resource_capacity(resource), "allocatable",
				(json_int_t)resource_allocatable(resource));
		if (json_object_set_new(view, name, value) < 0)
			return NULL;
	}
	return json_incref(view);
}
