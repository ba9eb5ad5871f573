/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Lists all drivers, and with them the valid values of `driver` in a configuration. A new driver
 * needs its file, a declaration in driver.h and a line here.
 */
#include "drivers/model/driver.h"

const struct driver *const drivers[] = {
	&path_driver,
	&drm_driver,
	&pci_driver,
	&net_driver,
	&nvidia_driver,
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
