/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Computes the encoded size of a device list, without encoding it. The kubelet cuts the connection
 * on a message above its limit, so the limit applies to the largest encoding that a list can have:
 * every device unhealthy.
 */

#include "common/kubelet.h"
#include "common/util.h"

/* Bytes of one unhealthy device in a ListAndWatchResponse. */
size_t device_list_entry_size(size_t id_length, const int *numa, size_t n_numa);

/* Bytes of all replicas ("<id>#<n>" if shared, else "<id>") of one unit. */
uint64_t device_list_unit_size(
	size_t id_length, bool shared, uint64_t replicas, const int *numa, size_t n_numa);
