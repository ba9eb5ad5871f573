/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Encodes the answers of PodResources. A device on several NUMA nodes has an entry for each; a
 * device without topology has one entry without a node. The structures of protobuf-c live in one
 * pool and point into the model. The fields of v1alpha1 exist in v1 too, with the same numbers.
 */
#include "kubelet/pod-resources-message.h"

#include "kubelet/other-resources.h"
#include "proto/message.h"

/* The differences between the versions of the API. */
struct version {
	bool topology, sidecars, failed_pods, others, claims;
};

/* An entry for a device, with the messages that it points to. */
struct device_entry {
	V1__ContainerDevices device;
	V1__TopologyInfo topology;
	V1__NUMANode node, *nodes[1];
	char *ids[1];
};

static void fill_device(
	struct device_entry *entry, const char *resource, const char *id, const int64_t *node)
{
	v1__container_devices__init(&entry->device);
	entry->device.resource_name = (char *)(uintptr_t)resource;
	entry->ids[0] = (char *)(uintptr_t)id;
	entry->device.device_ids = entry->ids;
	entry->device.n_device_ids = 1;
	if (!node)
		return;
	v1__topology_info__init(&entry->topology);
	v1__numanode__init(&entry->node);
	entry->node.id = *node;
	entry->nodes[0] = &entry->node;
	entry->topology.nodes = entry->nodes;
	entry->topology.n_nodes = 1;
	entry->device.topology = &entry->topology;
}

/* Entries and the pointers to them, for at most `n` devices. */
static int make_entries(struct message_pool *pool, size_t n, V1__ContainerDevices ***ret)
{
	struct device_entry *entries = message_pool_alloc(pool, n, sizeof(*entries));
	V1__ContainerDevices **devices = message_pool_alloc(pool, n, sizeof(*devices));

	if (!entries || !devices)
		return -ENOMEM;
	for (size_t i = 0; i < n; i++)
		devices[i] = &entries[i].device;
	*ret = devices;
	return 0;
}

static struct device_entry *entry_of(V1__ContainerDevices *device)
{
	/* The first member. */
	return (struct device_entry *)device;
}

static int fill_container(struct message_pool *pool, const struct version *version,
	const struct model *model, const struct pod *pod, const struct pod_container *from,
	V1__ContainerResources *to)
{
	size_t n = 0;
	int r;

	v1__container_resources__init(to);
	to->name = from->name;
	for (size_t i = 0; i < model->n_allocations; i++)
		if (streq(model->allocations[i]->pod_uid, pod->uid) &&
			streq(model->allocations[i]->container, from->name))
			n += model->allocations[i]->n_devices;
	r = make_entries(pool, n, &to->devices);
	if (r < 0)
		return r;
	for (size_t i = 0; i < model->n_allocations; i++) {
		const struct allocation *allocation = model->allocations[i];

		if (!streq(allocation->pod_uid, pod->uid) ||
			!streq(allocation->container, from->name))
			continue;
		for (size_t k = 0; k < allocation->n_devices; k++) {
			const struct allocated_device *device = &allocation->devices[k];

			bool has_node = version->topology && device->node != NODE_NONE;

			fill_device(entry_of(to->devices[to->n_devices++]), allocation->resource,
				device->id, has_node ? &device->node : NULL);
		}
	}
	return version->others ? other_resources_fill(pool, from->others, version->claims, to) : 0;
}

static int fill_pod(struct message_pool *pool, const struct version *version,
	const struct model *model, const struct pod *pod, V1__PodResources *to)
{
	V1__ContainerResources *containers =
		message_pool_alloc(pool, pod->n_containers, sizeof(*containers));

	v1__pod_resources__init(to);
	to->name = pod->name;
	to->namespace_ = pod->namespace;
	to->containers = message_pool_alloc(pool, pod->n_containers, sizeof(*to->containers));
	if (!containers || !to->containers)
		return -ENOMEM;
	for (size_t i = 0; i < pod->n_containers; i++) {
		V1__ContainerResources *container = &containers[to->n_containers];
		int r;

		if (pod->containers[i].kind == CONTAINER_INIT ||
			(pod->containers[i].kind == CONTAINER_SIDECAR && !version->sidecars))
			continue;
		r = fill_container(pool, version, model, pod, &pod->containers[i], container);
		if (r < 0)
			return r;
		to->containers[to->n_containers++] = container;
	}
	return 0;
}

static int encode_list(
	const struct model *model, const struct version *version, uint8_t **ret, size_t *ret_size)
{
	_cleanup_message_pool_ struct message_pool pool = {};
	V1__ListPodResourcesResponse list = V1__LIST_POD_RESOURCES_RESPONSE__INIT;
	V1__PodResources *pods = message_pool_alloc(&pool, model->n_pods, sizeof(*pods));

	list.pod_resources = message_pool_alloc(&pool, model->n_pods, sizeof(*list.pod_resources));
	if (!pods || !list.pod_resources)
		return -ENOMEM;
	for (size_t i = 0; i < model->n_pods; i++) {
		V1__PodResources *pod = &pods[list.n_pod_resources];

		if (model->pods[i]->phase == POD_FAILED && !version->failed_pods)
			continue;
		if (fill_pod(&pool, version, model, model->pods[i], pod) < 0)
			return -ENOMEM;
		list.pod_resources[list.n_pod_resources++] = pod;
	}
	return message_pack(&list.base, ret, ret_size);
}

int pod_resources_encode_list(const struct model *model, uint8_t **ret, size_t *ret_size)
{
	const struct version version = {
		.topology = true,
		.sidecars = true,
		.failed_pods = model->version->pod_resources_of_failed,
		.others = true,
		.claims = model->version->pod_resources_claims,
	};

	return encode_list(model, &version, ret, ret_size);
}

int pod_resources_encode_list_v1alpha1(const struct model *model, uint8_t **ret, size_t *ret_size)
{
	const struct version version = { .failed_pods = true };

	return encode_list(model, &version, ret, ret_size);
}

/* How many entries the healthy devices need. */
static size_t count_healthy(const struct device_table *devices)
{
	size_t n = 0;

	for (size_t i = 0; devices && i < devices->count; i++)
		if (devices->devices[i].healthy)
			n += MAX_OF(devices->devices[i].n_numa, (size_t)1);
	return n;
}

int pod_resources_encode_allocatable(const struct model *model, uint8_t **ret, size_t *ret_size)
{
	_cleanup_message_pool_ struct message_pool pool = {};
	V1__AllocatableResourcesResponse response = V1__ALLOCATABLE_RESOURCES_RESPONSE__INIT;
	size_t n = 0;

	for (size_t i = 0; i < model->n_resources; i++)
		n += count_healthy(model->resources[i]->devices);
	if (make_entries(&pool, n, &response.devices) < 0 ||
		other_resources_fill_node(&pool, model->others, &response) < 0)
		return -ENOMEM;
	for (size_t i = 0; i < model->n_resources; i++) {
		const struct resource *resource = model->resources[i];

		for (size_t k = 0; resource->devices && k < resource->devices->count; k++) {
			const struct listed_device *device = &resource->devices->devices[k];

			for (size_t m = 0; device->healthy && m < MAX_OF(device->n_numa, (size_t)1);
				m++)
				fill_device(entry_of(response.devices[response.n_devices++]),
					resource->name, device->id,
					device->n_numa > 0 ? &device->numa[m] : NULL);
		}
	}
	return message_pack(&response.base, ret, ret_size);
}

int pod_resources_encode_pod(const struct model *model, const char *namespace, const char *name,
	uint8_t **ret, size_t *ret_size)
{
	_cleanup_message_pool_ struct message_pool pool = {};
	V1__GetPodResourcesResponse response = V1__GET_POD_RESOURCES_RESPONSE__INIT;
	const struct pod *pod = model_find_pod(model, namespace, name);
	const struct version version = {
		.topology = true,
		.sidecars = true,
		.others = true,
		.claims = model->version->pod_resources_claims,
	};
	V1__PodResources to;

	if (!pod || pod->phase == POD_FAILED)
		return -ENOENT;
	if (fill_pod(&pool, &version, model, pod, &to) < 0)
		return -ENOMEM;
	response.pod_resources = &to;
	return message_pack(&response.base, ret, ret_size);
}
