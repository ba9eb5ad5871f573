/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * How many bytes a list of devices takes on the wire, without making one. The kubelet cuts the
 * connection on a message above its limit, so the limit is held against the greatest encoding a
 * list can have: every device unhealthy.
 */

#include "common/util.h"

/* What grpc-go accepts unless told otherwise; the kubelet does not tell it otherwise. */
#define DEVICE_LIST_MAX ((size_t)4 << 20)

/* Bytes of one unhealthy device in a ListAndWatchResponse. */
size_t device_list_entry_size(size_t id_length, const int *numa, size_t n_numa);

/* Bytes of all replicas ("<id>#<n>" if shared, else "<id>") of one unit. */
uint64_t device_list_unit_size(
	size_t id_length, bool shared, uint64_t replicas, const int *numa, size_t n_numa);
