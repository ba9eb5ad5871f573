/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Packs allocations into the kubelet's AllocateResponse. The structures of protobuf-c point into
 * the allocations, so nothing is copied before it is packed. All structures for one container come
 * from one block that holds objects and the arrays of pointers to them.
 */
#include "proto/plugin/response.h"

#include "common/kubelet.h"
#include "common/utf8.h"
#include "proto/message.h"
#include "proto/plugin/call-failed.h"

struct container_block {
	V1beta1__ContainerAllocateResponse response;
	V1beta1__ContainerAllocateResponse__EnvsEntry *envs, **env_pointers;
	V1beta1__ContainerAllocateResponse__AnnotationsEntry *annotations, **annotation_pointers;
	V1beta1__DeviceSpec *devices, **device_pointers;
	V1beta1__Mount *mounts, **mount_pointers;
	V1beta1__CDIDevice *cdi, **cdi_pointers;
};

static void block_done(struct container_block *block)
{
	free(block->envs);
	free(block->env_pointers);
	free(block->annotations);
	free(block->annotation_pointers);
	free(block->devices);
	free(block->device_pointers);
	free(block->mounts);
	free(block->mount_pointers);
	free(block->cdi);
	free(block->cdi_pointers);
}

/* One more than needed, so that none of the allocations is of size 0. */
#define ALLOCATE(count, objects, pointers)                      \
	((objects = calloc((count) + 1, sizeof(*(objects)))) && \
		(pointers = calloc((count) + 1, sizeof(*(pointers)))))

static int block_fill(struct container_block *block, const struct allocation *allocation)
{
	V1beta1__ContainerAllocateResponse *response = &block->response;

	v1beta1__container_allocate_response__init(response);
	if (!ALLOCATE(allocation->n_env, block->envs, block->env_pointers) ||
		!ALLOCATE(allocation->n_annotations, block->annotations,
			block->annotation_pointers) ||
		!ALLOCATE(allocation->n_nodes, block->devices, block->device_pointers) ||
		!ALLOCATE(allocation->n_nodes, block->mounts, block->mount_pointers) ||
		!ALLOCATE(allocation->n_cdi, block->cdi, block->cdi_pointers))
		return -ENOMEM;

	response->envs = block->env_pointers;
	for (size_t i = 0; i < allocation->n_env; i++) {
		v1beta1__container_allocate_response__envs_entry__init(&block->envs[i]);
		block->envs[i].key = allocation->env[i].name;
		block->envs[i].value = allocation->env[i].value;
		response->envs[response->n_envs++] = &block->envs[i];
	}
	response->annotations = block->annotation_pointers;
	for (size_t i = 0; i < allocation->n_annotations; i++) {
		v1beta1__container_allocate_response__annotations_entry__init(
			&block->annotations[i]);
		block->annotations[i].key = allocation->annotations[i].name;
		block->annotations[i].value = allocation->annotations[i].value;
		response->annotations[response->n_annotations++] = &block->annotations[i];
	}
	response->devices = block->device_pointers;
	response->mounts = block->mount_pointers;
	for (size_t i = 0; i < allocation->n_nodes; i++) {
		const struct device_node *node = &allocation->nodes[i];

		if (node->mount) {
			v1beta1__mount__init(&block->mounts[i]);
			block->mounts[i].host_path = node->host;
			block->mounts[i].container_path = node->path;
			block->mounts[i].read_only = node->read_only;
			response->mounts[response->n_mounts++] = &block->mounts[i];
		} else {
			v1beta1__device_spec__init(&block->devices[i]);
			block->devices[i].host_path = node->host;
			block->devices[i].container_path = node->path;
			block->devices[i].permissions = (char *)(uintptr_t)node->permissions;
			response->devices[response->n_devices++] = &block->devices[i];
		}
	}
	response->cdi_devices = block->cdi_pointers;
	for (size_t i = 0; i < allocation->n_cdi; i++) {
		v1beta1__cdidevice__init(&block->cdi[i]);
		block->cdi[i].name = allocation->cdi[i];
		response->cdi_devices[response->n_cdi_devices++] = &block->cdi[i];
	}
	return 0;
}

/* The first text of the allocation that is not UTF-8, or NULL. */
static const char *find_bad_text(const struct allocation *allocation)
{
	for (size_t i = 0; i < allocation->n_nodes; i++) {
		if (!utf8_is_valid(allocation->nodes[i].host))
			return allocation->nodes[i].host;
		if (!utf8_is_valid(allocation->nodes[i].path))
			return allocation->nodes[i].path;
	}
	for (size_t i = 0; i < allocation->n_env; i++)
		if (!utf8_is_valid(allocation->env[i].value))
			return allocation->env[i].name;
	for (size_t i = 0; i < allocation->n_annotations; i++)
		if (!utf8_is_valid(allocation->annotations[i].value))
			return allocation->annotations[i].name;
	for (size_t i = 0; i < allocation->n_cdi; i++)
		if (!utf8_is_valid(allocation->cdi[i]))
			return allocation->cdi[i];
	return NULL;
}

static int pack(struct container_block *blocks, const struct allocation *allocations, size_t n,
	uint8_t **ret_data, size_t *ret_size, struct error *error)
{
	V1beta1__AllocateResponse response = V1BETA1__ALLOCATE_RESPONSE__INIT;
	_cleanup_free_ V1beta1__ContainerAllocateResponse **pointers = calloc(n, sizeof(*pointers));
	size_t size;

	if (!pointers)
		return error_set(error, -ENOMEM, "out of memory");
	for (size_t i = 0; i < n; i++) {
		const char *bad = find_bad_text(&allocations[i]);

		if (bad)
			return error_set(error, -EILSEQ,
				"\"%s\" is not valid UTF-8, which the kubelet refuses; rename it",
				bad);
		if (block_fill(&blocks[i], &allocations[i]) < 0)
			return error_set(error, -ENOMEM, "out of memory");
		pointers[i] = &blocks[i].response;
	}
	response.n_container_responses = n;
	response.container_responses = pointers;
	size = protobuf_c_message_get_packed_size(&response.base);
	if (size > KUBELET_MESSAGE_MAX)
		return error_set(error, -E2BIG,
			"the container edits take %zu bytes, the kubelet accepts %zu; request fewer devices for the container",
			size, KUBELET_MESSAGE_MAX);
	if (message_pack(&response.base, ret_data, ret_size) < 0)
		return error_set(error, -ENOMEM, "out of memory");
	return 0;
}

int response_pack(const struct allocation *allocations, size_t n, uint8_t **ret_data,
	size_t *ret_size, struct error *error)
{
	_cleanup_free_ struct container_block *blocks = calloc(n, sizeof(*blocks));
	int r;

	if (!blocks)
		return error_set(error, -ENOMEM, "out of memory");
	r = pack(blocks, allocations, n, ret_data, ret_size, error);
	for (size_t i = 0; i < n; i++)
		block_done(&blocks[i]);
	return r;
}

int response_allocate(const struct offer *offer, const V1beta1__AllocateRequest *request,
	const struct allocation_answers *const *answers, const struct strings *metadata,
	uint8_t **ret_data, size_t *ret_size, struct error *error)
{
	const char *resource = offer->applied_config->declaration->name;
	size_t n = request->n_container_requests;
	_cleanup_free_ struct allocation *allocations = calloc(n, sizeof(*allocations));
	int r = 0;

	if (!allocations)
		return error_set(error, -ENOMEM, "out of memory");
	for (size_t i = 0; i < n && r >= 0; i++) {
		const V1beta1__ContainerAllocateRequest *container = request->container_requests[i];

		const char *const *ids = (const char *const *)container->devices_ids;

		r = (offer_has_cdi(offer, ids, container->n_devices_ids)
				? allocation_build_cdi
				: allocation_build)(offer->applied_config->declaration,
			offer->snapshot, declaration_root(offer->applied_config->declaration), ids,
			container->n_devices_ids, answers ? answers[i] : NULL, &allocations[i],
			error);
		if (r >= 0 && metadata && metadata->count > 0)
			r = allocation_add_metadata(
				&allocations[i], resource, metadata->items[i], error);
	}
	if (r >= 0)
		r = response_pack(allocations, n, ret_data, ret_size, error);
	for (size_t i = 0; i < n && r >= 0; i++)
		allocation_note(offer->snapshot,
			(const char *const *)request->container_requests[i]->devices_ids,
			request->container_requests[i]->n_devices_ids);
	for (size_t i = 0; i < n; i++)
		allocation_done(&allocations[i]);
	return r;
}

static enum rpc_status status_of(int code)
{
	switch (code) {
	case -ENOENT:
		return RPC_NOT_FOUND;
	case -EINVAL:
		return RPC_INVALID_ARGUMENT;
	case -ENOMEM:
	case -EBUSY:
		return RPC_RESOURCE_EXHAUSTED;
	case -ETIMEDOUT:
		return RPC_DEADLINE_EXCEEDED;
	default:
		return RPC_FAILED_PRECONDITION;
	}
}

void response_refuse(
	struct rpc_call *call, const V1beta1__AllocateRequest *request, const struct error *error)
{
	size_t n_ids = 0, n = 0;
	_cleanup_free_ const char **ids = NULL;

	for (size_t i = 0; request && i < request->n_container_requests; i++)
		n_ids += request->container_requests[i]->n_devices_ids;
	ids = calloc(n_ids + 1, sizeof(*ids));
	for (size_t i = 0; ids && n_ids > 0 && i < request->n_container_requests; i++)
		for (size_t k = 0; k < request->container_requests[i]->n_devices_ids; k++)
			ids[n++] = request->container_requests[i]->devices_ids[k];
	call_failed(CHILD_CALL_ALLOCATE, ids, n, error->message);
	rpc_fail(call, status_of(error->code), error->message);
}
