/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Decides whether a list still fits into one message to the kubelet, before it is sent. In the
 * protocol-buffer encoding of message Device, each field is a tag of one byte, a length or number
 * as a varint, and the bytes. A number that is 0 is not sent.
 */
#include "drivers/inventory/list-size.h"

#include <inttypes.h>

#include "common/kubelet.h"

int device_list_check(size_t n_devices, uint64_t size, struct error *error)
{
	if (size <= KUBELET_MESSAGE_MAX)
		return 0;
	return error_set(error, -E2BIG,
		"the list of %zu device%s would be %" PRIu64
		" bytes, the kubelet accepts at most %zu: lower share.replicas, match fewer devices, or use two resources",
		n_devices, n_devices == 1 ? "" : "s", size, KUBELET_MESSAGE_MAX);
}

size_t device_list_entry_size(size_t id_length, const int *numa, size_t n_numa)
{
	size_t topology = 0, device;

	for (size_t i = 0; i < n_numa; i++)
		topology += field_size(numa[i] ? 1 + varint_size((uint64_t)numa[i]) : 0);
	device = field_size(id_length) + field_size(strlen("Unhealthy"));
	if (n_numa > 0)
		device += field_size(topology);
	return field_size(device);
}

uint64_t device_list_unit_size(
	size_t id_length, bool shared, uint64_t replicas, const int *numa, size_t n_numa)
{
	uint64_t total = 0, first = 0, end = 10;

	if (!shared)
		return device_list_entry_size(id_length, numa, n_numa);
	/* Replica numbers first..end-1 all have the same number of digits. */
	for (size_t digits = 1; first < replicas; digits++) {
		total += (MIN_OF(end, replicas) - first) *
			device_list_entry_size(id_length + 1 + digits, numa, n_numa);
		first = end;
		end *= 10;
	}
	return total;
}
