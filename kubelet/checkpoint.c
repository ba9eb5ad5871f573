/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads and writes the checkpoint. Members are written in Go's order, and an empty list as null
 * where the kubelet writes null.
 */
#include "kubelet/checkpoint.h"

#include <limits.h>

#include "common/base64.h"
#include "kubelet/checkpoint-checksum.h"
#include "kubelet/file.h"
#include "kubelet/go-json.h"
#include "kubelet/plugin-text.h"

#define CHECKPOINT_MAX (256U << 20)
#define WRITTEN_BY     "WrittenBy"

/* {"<node>": [ids]} */
static json_t *devices_to_json(const struct allocation *allocation)
{
	json_t *nodes = json_object();

	for (size_t i = 0; i < allocation->n_devices; i++) {
		const struct allocated_device *device = &allocation->devices[i];
		char key[24];
		json_t *ids;

		(void)snprintf(key, sizeof(key), "%lld", (long long)device->node);
		ids = json_object_get(nodes, key);
		if (!ids) {
			ids = json_array();
			if (json_object_set_new(nodes, key, ids) < 0) {
				json_decref(nodes);
				return NULL;
			}
		}
		if (json_array_append_new(ids, text_json(device->id)) < 0) {
			json_decref(nodes);
			return NULL;
		}
	}
	return json_sorted(nodes);
}

static json_t *allocation_to_json(const struct allocation *allocation)
{
	_cleanup_free_ char *response =
		base64_encode(allocation->response, allocation->response_size);

	if (!response)
		return NULL;
	return json_pack("{s:s, s:s, s:s, s:o, s:s}", "PodUID", allocation->pod_uid,
		"ContainerName", allocation->container, "ResourceName", allocation->resource,
		"DeviceIDs", devices_to_json(allocation), "AllocResp", response);
}

static json_t *healthy_to_json(const struct device_table *devices)
{
	json_t *ids = json_array();

	for (size_t i = 0; devices && i < devices->count; i++)
		if (devices->devices[i].healthy &&
			json_array_append_new(ids, text_json(devices->devices[i].id)) < 0) {
			json_decref(ids);
			return NULL;
		}
	return ids;
}

static json_t *model_to_json(const struct model *model)
{
	_cleanup_json_ json_t *entries = model->n_allocations > 0 ? json_array() : json_null(),
			      *registered = json_object();

	for (size_t i = 0; i < model->n_allocations; i++)
		if (json_array_append_new(entries, allocation_to_json(model->allocations[i])) < 0)
			return NULL;
	for (size_t i = 0; i < model->n_resources; i++) {
		const struct resource *resource = model->resources[i];

		if (resource->known &&
			json_object_set_new(
				registered, resource->name, healthy_to_json(resource->devices)) < 0)
			return NULL;
	}
	return json_pack("{s:O, s:o}", "PodDeviceEntries", entries, "RegisteredDevices",
		json_sorted(TAKE_PTR(registered)));
}

int checkpoint_write(const struct model *model, const char *dir, struct error *error)
{
	_cleanup_json_ json_t *data = model_to_json(model), *root = NULL;
	_cleanup_free_ char *text = NULL;
	uint32_t checksum;
	int r;

	if (data && checkpoint_checksum(data, &checksum) >= 0)
		root = json_pack("{s:O, s:I, s:s}", "Data", data, "Checksum", (json_int_t)checksum,
			WRITTEN_BY, "devplug-kubelet");
	text = root ? json_dumps(root, JSON_COMPACT) : NULL;
	if (!text)
		return error_set(error, -ENOMEM, "out of memory");
	r = file_replace(dir, CHECKPOINT_NAME, text, strlen(text), 0600, true);
	if (r < 0)
		return error_set(
			error, r, "cannot write %s/%s: %s", dir, CHECKPOINT_NAME, strerror(-r));
	return 0;
}

static int read_devices(const json_t *nodes, struct allocation *allocation)
{
	const char *key;
	json_t *ids, *id;
	size_t i;

	json_object_foreach((json_t *)(uintptr_t)nodes, key, ids)
	{
		char *end;
		long long node;

		errno = 0;
		node = strtoll(key, &end, 10);
		if (errno != 0 || end == key || *end != '\0' || !json_is_array(ids))
			return -EBADMSG;
		json_array_foreach(ids, i, id)
		{
			char *copy;
			int r;

			if (!json_is_string(id))
				return -EBADMSG;
			r = array_reserve((void **)&allocation->devices, allocation->n_devices,
				sizeof(*allocation->devices));
			if (r < 0)
				return r;
			copy = strdup(json_string_value(id));
			if (!copy)
				return -ENOMEM;
			allocation->devices[allocation->n_devices++] =
				(struct allocated_device){ .node = node, .id = copy };
		}
	}
	return 0;
}

static int compare_devices(const void *a, const void *b)
{
	const struct allocated_device *x = a, *y = b;
	int order = strcmp(x->id, y->id);

	return order != 0 ? order : (x->node > y->node) - (x->node < y->node);
}

static int read_allocation(struct model *model, json_t *entry)
{
	_cleanup_(allocation_freep) struct allocation *allocation = NULL;
	const char *uid, *container, *resource, *response;
	json_t *nodes, *answer;
	int r;

	if (json_unpack(entry, "{s:s, s:s, s:s, s:o, s:o}", "PodUID", &uid, "ContainerName",
		    &container, "ResourceName", &resource, "DeviceIDs", &nodes, "AllocResp",
		    &answer) < 0 ||
		!json_is_object(nodes) || (!json_is_string(answer) && !json_is_null(answer)))
		return -EBADMSG;
	/* Go writes an answer without bytes as null. */
	response = json_is_null(answer) ? "" : json_string_value(answer);
	allocation = calloc(1, sizeof(*allocation));
	if (!allocation)
		return -ENOMEM;
	allocation->pod_uid = strdup(uid);
	allocation->container = strdup(container);
	allocation->resource = strdup(resource);
	if (!allocation->pod_uid || !allocation->container || !allocation->resource)
		return -ENOMEM;
	if (base64_decode(response, &allocation->response, &allocation->response_size) < 0)
		return -EBADMSG;
	r = read_devices(nodes, allocation);
	if (r < 0)
		return r;
	/* The checkpoint groups the devices by node. */
	if (allocation->n_devices > 0)
		qsort(allocation->devices, allocation->n_devices, sizeof(*allocation->devices),
			compare_devices);
	return model_insert_allocation(model, TAKE_PTR(allocation));
}

static int read_data(struct model *model, const json_t *data)
{
	json_t *entries = json_object_get(data, "PodDeviceEntries"), *entry;
	json_t *registered = json_object_get(data, "RegisteredDevices"), *ids;
	const char *name;
	size_t i;
	int r;

	/* Go writes an empty slice as null. */
	if ((!json_is_array(entries) && !json_is_null(entries)) || !json_is_object(registered))
		return -EBADMSG;
	json_array_foreach(entries, i, entry)
	{
		r = read_allocation(model, entry);
		if (r < 0)
			return r;
	}
	json_object_foreach(registered, name, ids)
	{
		struct resource *resource;

		r = model_get_resource(model, name, &resource);
		if (r < 0)
			return r;
		resource->known = resource->published = true;
		resource->endpoint.present = resource->endpoint.stopped = true;
	}
	return model_recount_allocated(model);
}

static int read_text(struct model *model, const char *text, size_t size)
{
	_cleanup_json_ json_t *root = json_loadb(text, size, JSON_REJECT_DUPLICATES, NULL);
	const json_t *data = json_object_get(root, "Data");
	uint32_t checksum;
	int r;

	if (!json_is_object(data))
		return -EBADMSG;
	r = checkpoint_checksum(data, &checksum);
	if (r < 0)
		return r;
	if (json_integer_value(json_object_get(root, "Checksum")) != checksum)
		return -EBADMSG;
	r = read_data(model, data);
	return r < 0 ? r : !json_object_get(root, WRITTEN_BY);
}

int checkpoint_read(struct model *model, const char *dir, struct error *error)
{
	_cleanup_free_ char *text = NULL;
	char path[PATH_MAX];
	size_t size;
	int r;

	r = snprintf(path, sizeof(path), "%s/%s", dir, CHECKPOINT_NAME);
	if (r < 0 || (size_t)r >= sizeof(path))
		return error_set(error, -ENAMETOOLONG, "%s: the path is too long", dir);
	r = file_read(path, CHECKPOINT_MAX, &text, &size);
	if (r == -ENOENT)
		return 0;
	if (r < 0)
		return error_set(error, r, "cannot read %s: %s", path, strerror(-r));
	r = read_text(model, text, size);
	if (r == -EBADMSG)
		return error_set(error, r, "%s is corrupt: continuing without it", path);
	return r < 0 ? error_set(error, r, "cannot read %s: %s", path, strerror(-r)) : r;
}
