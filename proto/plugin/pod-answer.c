/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Makes a pod table from the kubelet's PodResources messages, and leaves out names that a table
 * cannot contain. Successive devices with one resource and the same NUMA nodes share a device line,
 * because some kubelets send a message for each device.
 */
#include "proto/plugin/pod-answer.h"

#include "common/pod-table.h"
#include "podresources.pb-c.h"
#include "proto/message.h"

static void write_numbers(FILE *stream, const int64_t *numbers, size_t count)
{
	for (size_t i = 0; i < count; i++)
		(void)fprintf(stream, "%s%lld", i > 0 ? "," : "", (long long)numbers[i]);
}

static void write_nodes(FILE *stream, const V1__TopologyInfo *topology)
{
	for (size_t i = 0; topology && i < topology->n_nodes; i++)
		(void)fprintf(
			stream, "%s%lld", i > 0 ? "," : "", (long long)topology->nodes[i]->id);
}

static bool same_nodes(const V1__TopologyInfo *a, const V1__TopologyInfo *b)
{
	size_t n_a = a ? a->n_nodes : 0, n_b = b ? b->n_nodes : 0;

	for (size_t i = 0; n_a == n_b && i < n_a; i++)
		if (a->nodes[i]->id != b->nodes[i]->id)
			return false;
	return n_a == n_b;
}

static void write_devices(FILE *stream, V1__ContainerDevices *const *devices, size_t count)
{
	const V1__ContainerDevices *last = NULL;

	for (size_t i = 0; i < count; i++) {
		const V1__ContainerDevices *device = devices[i];

		if (!pod_field_is_plain(device->resource_name))
			continue;
		if (!last || !streq(last->resource_name, device->resource_name) ||
			!same_nodes(last->topology, device->topology)) {
			(void)fprintf(stream, "device\t%s\t", device->resource_name);
			write_nodes(stream, device->topology);
			(void)fputc('\n', stream);
		}
		last = device;
		for (size_t k = 0; k < device->n_device_ids; k++)
			if (pod_field_is_plain(device->device_ids[k]))
				(void)fprintf(stream, "id\t%s\n", device->device_ids[k]);
	}
}

static void write_memory(FILE *stream, V1__ContainerMemory *const *memory, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		if (!pod_field_is_plain(memory[i]->memory_type))
			continue;
		(void)fprintf(stream, "memory\t%s\t%llu\t", memory[i]->memory_type,
			(unsigned long long)memory[i]->size);
		write_nodes(stream, memory[i]->topology);
		(void)fputc('\n', stream);
	}
}

static void write_claim(FILE *stream, const V1__DynamicResource *claim, const char *driver,
	const char *pool, const char *device)
{
	const char *const fields[] = { claim->claim_namespace, claim->claim_name, driver, pool,
		device };

	for (size_t i = 0; i < ARRAY_SIZE(fields); i++)
		if (!pod_field_is_plain(fields[i]))
			return;
	(void)fprintf(stream, "claim\t%s\t%s\t%s\t%s\t%s\n", fields[0], fields[1], fields[2],
		fields[3], fields[4]);
}

static void write_claims(FILE *stream, const V1__ContainerResources *container)
{
	for (size_t i = 0; i < container->n_dynamic_resources; i++) {
		const V1__DynamicResource *claim = container->dynamic_resources[i];

		if (claim->n_claim_resources == 0)
			write_claim(stream, claim, "", "", "");
		for (size_t k = 0; k < claim->n_claim_resources; k++) {
			const V1__ClaimResource *part = claim->claim_resources[k];

			write_claim(stream, claim, part->driver_name, part->pool_name,
				part->device_name);
		}
	}
}

static void begin_container(FILE *stream, const char *namespace, const char *pod, const char *name,
	const int64_t *cpus, size_t n_cpus)
{
	(void)fprintf(stream, "container\t%s\t%s\t%s\t", namespace, pod, name);
	write_numbers(stream, cpus, n_cpus);
	(void)fputc('\n', stream);
}

static void write_pod(FILE *stream, const V1__PodResources *pod)
{
	if (!pod_field_is_plain(pod->namespace_) || !pod_field_is_plain(pod->name))
		return;
	if (pod->n_cpu_ids > 0 || pod->n_memory > 0) {
		begin_container(
			stream, pod->namespace_, pod->name, "", pod->cpu_ids, pod->n_cpu_ids);
		write_memory(stream, pod->memory, pod->n_memory);
	}
	for (size_t i = 0; i < pod->n_containers; i++) {
		const V1__ContainerResources *container = pod->containers[i];

		if (!pod_field_is_plain(container->name))
			continue;
		begin_container(stream, pod->namespace_, pod->name, container->name,
			container->cpu_ids, container->n_cpu_ids);
		write_devices(stream, container->devices, container->n_devices);
		write_memory(stream, container->memory, container->n_memory);
		write_claims(stream, container);
	}
}

static void write_list(FILE *stream, const ProtobufCMessage *message)
{
	const V1__ListPodResourcesResponse *response = (const void *)message;

	for (size_t i = 0; i < response->n_pod_resources; i++)
		write_pod(stream, response->pod_resources[i]);
}

static void write_allocatable(FILE *stream, const ProtobufCMessage *message)
{
	const V1__AllocatableResourcesResponse *response = (const void *)message;

	begin_container(stream, "", "", "", response->cpu_ids, response->n_cpu_ids);
	write_devices(stream, response->devices, response->n_devices);
	write_memory(stream, response->memory, response->n_memory);
}

int pod_answer_write(enum pod_question question, const uint8_t *data, size_t size, FILE *stream)
{
	static const struct {
		const ProtobufCMessageDescriptor *type;
		void (*write)(FILE *stream, const ProtobufCMessage *message);
	} kinds[] = {
		[POD_LIST] = { &v1__list_pod_resources_response__descriptor, write_list },
		[POD_ALLOCATABLE] = { &v1__allocatable_resources_response__descriptor,
			write_allocatable },
	};
	_cleanup_message_ struct message message = message_unpack(kinds[question].type, data, size);

	if (!message.base)
		return -EBADMSG;
	kinds[question].write(stream, message.base);
	return 0;
}
