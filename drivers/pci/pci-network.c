/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Describes a network function that a container drives itself for CNI plugins, which find in a file
 * what a device is, because the host has no interface for it.
 */
#include "drivers/model/device-info.h"
#include "drivers/pci/pci.h"

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

	/* The file is found by the id, which for a whole IOMMU group is one function's. */
	if (function->class >> 16 != CLASS_NETWORK || !streq(function->address, device->id))
		return 0;
	r = device_set_info(device, vdpa ? "vdpa" : "pci", members, ARRAY_SIZE(members));
	return r < 0 ? pci_shortage(pci, r) : 0;
}
