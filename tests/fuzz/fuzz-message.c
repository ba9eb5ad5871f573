/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Any bytes as any message that a peer sends us: unpacked within bounds or refused, and what was
 * unpacked packs again. The first byte chooses the type.
 */
#include "deviceplugin.pb-c.h"
#include "pluginregistration.pb-c.h"
#include "podresources.pb-c.h"
#include "proto/message.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const ProtobufCMessageDescriptor *const types[] = {
	&v1beta1__register_request__descriptor,
	&v1beta1__allocate_request__descriptor,
	&v1beta1__preferred_allocation_request__descriptor,
	&v1beta1__pre_start_container_request__descriptor,
	&v1beta1__list_and_watch_response__descriptor,
	&v1beta1__allocate_response__descriptor,
	&pluginregistration__registration_status__descriptor,
	&v1__list_pod_resources_response__descriptor,
};

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct message message;
	uint8_t *packed;
	size_t packed_size;

	if (size == 0)
		return 0;
	message = message_unpack(types[data[0] % ARRAY_SIZE(types)], data + 1, size - 1);
	if (message.base && message_pack(message.base, &packed, &packed_size) >= 0)
		free(packed);
	message_done(&message);
	return 0;
}
