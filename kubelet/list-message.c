/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Copies a list into a table. The NUMA nodes of one device are collected in an array that grows to
 * the longest.
 */
#include "kubelet/list-message.h"

int device_table_from_message(const V1beta1__ListAndWatchResponse *list, struct device_table **ret)
{
	_cleanup_(device_table_freep) struct device_table *table = NULL;
	_cleanup_free_ int64_t *numa = NULL;
	int r;

	r = device_table_new(list->n_devices, &table);
	if (r < 0)
		return r;
	for (size_t i = 0; i < list->n_devices; i++) {
		const V1beta1__Device *device = list->devices[i];
		size_t n = device->topology ? device->topology->n_nodes : 0;
		int64_t *grown = reallocarray(numa, n + 1, sizeof(*numa));

		if (!grown)
			return -ENOMEM;
		numa = grown;
		for (size_t k = 0; k < n; k++)
			numa[k] = device->topology->nodes[k]->id;
		r = device_table_add(table, device->id, device->health, numa, n);
		if (r < 0)
			return r;
	}
	*ret = TAKE_PTR(table);
	return 0;
}
