/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Network functions that a container drives itself are handed to CNI plugins like any other: those
 * find in a file what a device is, which is all they can do for an interface that the host lacks.
 */
#include "drivers/device-info.h"
#include "drivers/pci.h"

#define CLASS_NETWORK 0x02

int pci_add_network_info(struct pci_scan *pci, struct device *device,
	const struct pci_function *function, const char *vdpa, const char *path)
{
	const struct device_info_member members[] = {
		{ "parent-device", vdpa },
		{ "driver", vdpa ? "vhost" : NULL },
		{ "path", path },
		{ "pci-address", function->address },
		{ "pf-pci-address", function->pf[0] ? function->pf : NULL },
	};
	int r;

	/* The file is looked for by the id, which of a whole IOMMU group is one function's. */
	if (function->class >> 16 != CLASS_NETWORK || !streq(function->address, device->id))
		return 0;
	r = device_set_info(device, vdpa ? "vdpa" : "pci", members, ARRAY_SIZE(members));
	return r < 0 ? pci_shortage(pci, r) : 0;
}
