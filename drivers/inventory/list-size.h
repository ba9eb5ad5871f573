/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Computes the encoded size of a device list, without encoding it. The kubelet cuts the connection
 * on a message above its limit, so the limit applies to the largest encoding that a list can have:
 * every device unhealthy.
 */

#include "common/error.h"

/* Returns 0, or -E2BIG with the error filled if a list of that size does not fit. */
int device_list_check(size_t n_devices, uint64_t size, struct error *error);

/* Bytes of a number as a varint, and of a field that has a length, with its tag. */
static inline size_t varint_size(uint64_t value)
{
	size_t size = 1;

	while (value >>= 7)
		size++;
	return size;
}

static inline size_t field_size(size_t length)
{
	return 1 + varint_size(length) + length;
}

/* Bytes of one unhealthy device in a ListAndWatchResponse. */
size_t device_list_entry_size(size_t id_length, const int *numa, size_t n_numa);

/* Bytes of all replicas ("<id>#<n>" if shared, else "<id>") of one unit. */
uint64_t device_list_unit_size(
	size_t id_length, bool shared, uint64_t replicas, const int *numa, size_t n_numa);
