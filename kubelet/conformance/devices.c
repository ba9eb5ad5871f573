/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Copies the ids of devices. If there is no memory for them, the run ends.
 */
#include "kubelet/conformance/devices.h"

#include "deviceplugin.pb-c.h"
#include "proto/message.h"
#include "proto/methods.h"

void ids_done(struct ids *ids)
{
	for (size_t i = 0; i < ids->n; i++)
		free(ids->list[i]);
	free(ids->list);
}

bool ids_take(struct trial *trial, struct ids *ret)
{
	char **list;
	size_t n;

	if (trial_healthy_ids(trial, &list, &n) < 0) {
		(void)trial_fail(trial, "out of memory");
		return false;
	}
	for (size_t i = 0; i < n; i++) {
		list[i] = strdup(list[i]);
		if (!list[i])
			abort();
	}
	*ret = (struct ids){ .list = list, .n = n };
	return true;
}

uint8_t *allocate_pack(char **ids, size_t n_ids, size_t n_containers, size_t *ret_size)
{
	V1beta1__ContainerAllocateRequest container = V1BETA1__CONTAINER_ALLOCATE_REQUEST__INIT;
	V1beta1__ContainerAllocateRequest *containers[2] = { &container, &container };
	V1beta1__AllocateRequest request = V1BETA1__ALLOCATE_REQUEST__INIT;
	uint8_t *data;

	assert(n_containers <= ARRAY_SIZE(containers));

	container.n_devices_ids = n_ids;
	container.devices_ids = ids;
	request.n_container_requests = n_containers;
	request.container_requests = containers;
	if (message_pack(&request.base, &data, ret_size) < 0)
		abort();
	return data;
}

void allocate(struct trial *trial, char **ids, size_t n_ids, size_t n_containers, uint64_t limit,
	struct reply *ret)
{
	size_t size;
	_cleanup_free_ uint8_t *data = allocate_pack(ids, n_ids, n_containers, &size);

	call_bytes(trial, METHOD_ALLOCATE, data, size, limit, ret);
}
