/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Converts the JSON of other resources to messages. Each list becomes an array of messages and an
 * array of pointers to them, because protobuf-c needs both.
 */
#include "kubelet/other-resources.h"

/* An element of a list, made from its JSON; it begins with the message. */
typedef int (*fill_one)(struct message_pool *pool, const json_t *json, void *to);

/* Sets the pointer at `ret` to `n` pointers to elements of that size. A missing list counts as an
 * empty one. */
static int fill_list(struct message_pool *pool, const json_t *list, size_t size, fill_one fill,
	void *ret, size_t *ret_n)
{
	size_t n = json_array_size(list);
	char *elements;
	void **pointers;
	int r;

	if (list && !json_is_array(list))
		return -EBADMSG;
	elements = message_pool_alloc(pool, n, size);
	pointers = message_pool_alloc(pool, n, sizeof(*pointers));
	if (!elements || !pointers)
		return -ENOMEM;
	for (size_t i = 0; i < n; i++) {
		pointers[i] = elements + i * size;
		r = fill(pool, json_array_get(list, i), pointers[i]);
		if (r < 0)
			return r;
	}
	memcpy(ret, &pointers, sizeof(pointers));
	*ret_n = n;
	return 0;
}

static int fill_text(const json_t *object, const char *key, char **ret)
{
	const json_t *value = json_object_get(object, key);

	if (value && !json_is_string(value))
		return -EBADMSG;
	if (value)
		*ret = (char *)(uintptr_t)json_string_value(value);
	return 0;
}

static int fill_cpus(struct message_pool *pool, const json_t *cpus, int64_t **ret, size_t *ret_n)
{
	size_t n = json_array_size(cpus);
	int64_t *numbers = message_pool_alloc(pool, n, sizeof(*numbers));

	if (!numbers)
		return -ENOMEM;
	if (cpus && !json_is_array(cpus))
		return -EBADMSG;
	for (size_t i = 0; i < n; i++) {
		if (!json_is_integer(json_array_get(cpus, i)))
			return -EBADMSG;
		numbers[i] = json_integer_value(json_array_get(cpus, i));
	}
	*ret = numbers;
	*ret_n = n;
	return 0;
}

static int fill_node(struct message_pool *pool, const json_t *json, void *to)
{
	V1__NUMANode *node = to;

	v1__numanode__init(node);
	node->id = json_integer_value(json);
	return json_is_integer(json) ? 0 : -EBADMSG;
}

static int fill_memory(struct message_pool *pool, const json_t *json, void *to)
{
	V1__ContainerMemory *memory = to;
	const json_t *size = json_object_get(json, "size");
	int r;

	v1__container_memory__init(memory);
	if (!json_is_integer(size) || json_integer_value(size) < 0)
		return -EBADMSG;
	memory->size = (uint64_t)json_integer_value(size);
	memory->topology = message_pool_alloc(pool, 1, sizeof(*memory->topology));
	if (!memory->topology)
		return -ENOMEM;
	v1__topology_info__init(memory->topology);
	r = fill_text(json, "memory_type", &memory->memory_type);
	if (r < 0)
		return r;
	return fill_list(pool, json_object_get(json, "nodes"), sizeof(V1__NUMANode), fill_node,
		&memory->topology->nodes, &memory->topology->n_nodes);
}

static int fill_cdi(struct message_pool *pool, const json_t *json, void *to)
{
	V1__CDIDevice *device = to;

	v1__cdidevice__init(device);
	device->name = (char *)(uintptr_t)json_string_value(json);
	return json_is_string(json) ? 0 : -EBADMSG;
}

static int fill_claimed(struct message_pool *pool, const json_t *json, void *to)
{
	V1__ClaimResource *resource = to;
	int r;

	v1__claim_resource__init(resource);
	r = fill_text(json, "driver_name", &resource->driver_name);
	if (r >= 0)
		r = fill_text(json, "pool_name", &resource->pool_name);
	if (r >= 0)
		r = fill_text(json, "device_name", &resource->device_name);
	if (r >= 0 && json_object_get(json, "share_id"))
		r = fill_text(json, "share_id", &resource->share_id);
	if (r < 0)
		return r;
	return fill_list(pool, json_object_get(json, "cdi_devices"), sizeof(V1__CDIDevice),
		fill_cdi, &resource->cdi_devices, &resource->n_cdi_devices);
}

static int fill_claim(struct message_pool *pool, const json_t *json, void *to)
{
	V1__DynamicResource *claim = to;
	int r;

	v1__dynamic_resource__init(claim);
	r = fill_text(json, "claim_name", &claim->claim_name);
	if (r >= 0)
		r = fill_text(json, "claim_namespace", &claim->claim_namespace);
	if (r < 0)
		return r;
	return fill_list(pool, json_object_get(json, "claim_resources"), sizeof(V1__ClaimResource),
		fill_claimed, &claim->claim_resources, &claim->n_claim_resources);
}

int other_resources_fill(struct message_pool *pool, const json_t *json, bool with_claims,
	V1__ContainerResources *container)
{
	int r;

	r = fill_cpus(
		pool, json_object_get(json, "cpu_ids"), &container->cpu_ids, &container->n_cpu_ids);
	if (r >= 0)
		r = fill_list(pool, json_object_get(json, "memory"), sizeof(V1__ContainerMemory),
			fill_memory, &container->memory, &container->n_memory);
	if (r < 0 || !with_claims)
		return r;
	return fill_list(pool, json_object_get(json, "dynamic_resources"),
		sizeof(V1__DynamicResource), fill_claim, &container->dynamic_resources,
		&container->n_dynamic_resources);
}

int other_resources_fill_node(
	struct message_pool *pool, const json_t *json, V1__AllocatableResourcesResponse *node)
{
	V1__ContainerResources all = V1__CONTAINER_RESOURCES__INIT;
	int r;

	r = other_resources_fill(pool, json, false, &all);
	if (r < 0)
		return r;
	node->cpu_ids = all.cpu_ids;
	node->n_cpu_ids = all.n_cpu_ids;
	node->memory = all.memory;
	node->n_memory = all.n_memory;
	return 0;
}

int other_resources_check(const json_t *json)
{
	_cleanup_message_pool_ struct message_pool pool = {};
	V1__ContainerResources container = V1__CONTAINER_RESOURCES__INIT;

	return json_is_object(json) ? other_resources_fill(&pool, json, true, &container)
				    : -EBADMSG;
}
