/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The drivers there are. A new driver is one file and one line here.
 */
#include "drivers/driver.h"

const struct driver *const drivers[] = {
	&path_driver,
	&drm_driver,
	&pci_driver,
	&net_driver,
	&rdma_driver,
	&static_driver,
	&exec_driver,
	&sysfs_driver,
	&usb_driver,
	NULL,
};

const struct driver *driver_find(const char *name)
{
	for (size_t i = 0; drivers[i]; i++)
		if (streq(drivers[i]->name, name))
			return drivers[i];
	return NULL;
}
