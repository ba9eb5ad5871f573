/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finds a booked device that is not listed. The kubelet iterates over a Go map; this code names the
 * first device in the set's order.
 */
#include "kubelet/missing-device.h"

int missing_device_check(const struct model *model, const struct resource *resource,
	const struct id_set *ids, const char *function, struct error *error)
{
	if (!model->version->missing_device_panics || !ids)
		return 0;
	for (size_t i = 0; i < ids->n_slots; i++) {
		const char *id = ids->slots[i];

		if (!id || (resource->devices && device_table_find(resource->devices, id)))
			continue;
		return error_set(error, -EFAULT,
			"kubelet %s panics here: nil pointer in %s(): device \"%s\" of %s is booked and not listed",
			model->version->name, function, id, resource->name);
	}
	return 0;
}
