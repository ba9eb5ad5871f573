/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The ids that the kubelet is offered: a device's own id or, if the device is shared, the ids of
 * its replicas.
 */

#include "common/util.h"

/* The kubelet documents 63 characters and does not enforce it (deviceplugin/v1beta1/api.proto). */
#define DEVICE_ID_MAX 63

/* Between the device's id and the number of the replica. No device's id contains it. */
#define REPLICA_SEPARATOR '#'

/* The offered id of a replica of a shared device, such as "gpu-0#12": returns the buffer. */
#define OFFERED_ID_MAX (DEVICE_ID_MAX + 1 + 10)
const char *offered_id_make(
	const char *id, unsigned replica, char buffer[static OFFERED_ID_MAX + 1]);

/* Splits such an id. Returns whether it ends in the number of a replica, in canonical form; only
 * then are the length of the device's id and the number filled. */
bool offered_id_split(const char *id, size_t *ret_length, unsigned *ret_replica);

/* Whether the offered id belongs to the device or to one of its replicas. */
bool offered_id_is_of(const char *offered_id, const char *id);
