/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Functions of a PCI bus in the tree that stands for a machine, with the files and links that the
 * kernel makes for them.
 */

#include "driver-fixture.h"

#define PCI_ROOT "/sys/devices/pci0000:00"

/* A function of its numbers, such as "0x8086", and its class, such as "0x030000". */
static inline void pci_plant(
	const char *address, const char *vendor, const char *device, const char *class)
{
	const char *const files[][2] = { { "vendor", vendor }, { "device", device },
		{ "class", class } };
	char path[256], target[256];

	host_mkdir("/sys/bus/pci/devices");
	(void)snprintf(path, sizeof(path), PCI_ROOT "/%s", address);
	host_mkdir(path);
	for (size_t i = 0; i < ARRAY_SIZE(files); i++) {
		char text[64];

		(void)snprintf(path, sizeof(path), PCI_ROOT "/%s/%s", address, files[i][0]);
		(void)snprintf(text, sizeof(text), "%s\n", files[i][1]);
		host_write(path, text);
	}
	(void)snprintf(path, sizeof(path), PCI_ROOT "/%s/subsystem", address);
	host_symlink("../../../bus/pci", path);
	(void)snprintf(path, sizeof(path), "/sys/bus/pci/devices/%s", address);
	(void)snprintf(target, sizeof(target), "../../../devices/pci0000:00/%s", address);
	host_symlink(target, path);
}

/* A file in the function's directory; directories on the way are made. */
static inline void pci_write(const char *address, const char *file, const char *text)
{
	char path[384];

	(void)snprintf(path, sizeof(path), PCI_ROOT "/%s/%s", address, file);
	*strrchr(path, '/') = '\0';
	host_mkdir(path);
	(void)snprintf(path, sizeof(path), PCI_ROOT "/%s/%s", address, file);
	host_write(path, text);
}

static inline void pci_link(const char *target, const char *address, const char *name)
{
	char path[384];

	(void)snprintf(path, sizeof(path), PCI_ROOT "/%s/%s", address, name);
	host_symlink(target, path);
}

/* Binds a driver; NULL takes the one that is bound away. */
static inline void pci_bind(const char *address, const char *driver)
{
	char path[256], target[128];

	if (!driver) {
		(void)snprintf(path, sizeof(path), PCI_ROOT "/%s/driver", address);
		host_remove(path);
		return;
	}
	(void)snprintf(path, sizeof(path), "/sys/bus/pci/drivers/%s", driver);
	host_mkdir(path);
	(void)snprintf(target, sizeof(target), "../../../bus/pci/drivers/%s", driver);
	pci_link(target, address, "driver");
}

/* Puts the function into an IOMMU group. */
static inline void pci_join_group(const char *address, const char *group)
{
	char path[256], target[128];

	(void)snprintf(path, sizeof(path), "/sys/kernel/iommu_groups/%s/devices", group);
	host_mkdir(path);
	(void)snprintf(target, sizeof(target), "../../../kernel/iommu_groups/%s", group);
	pci_link(target, address, "iommu_group");
	(void)snprintf(
		path, sizeof(path), "/sys/kernel/iommu_groups/%s/devices/%s", group, address);
	(void)snprintf(target, sizeof(target), "../../../../devices/pci0000:00/%s", address);
	host_symlink(target, path);
}

/* Makes the function number `number` of a physical one's. */
static inline void pci_make_virtual(const char *address, const char *pf, unsigned number)
{
	char target[64], name[32];

	(void)snprintf(target, sizeof(target), "../%s", pf);
	pci_link(target, address, "physfn");
	(void)snprintf(target, sizeof(target), "../%s", address);
	(void)snprintf(name, sizeof(name), "virtfn%u", number);
	pci_link(target, pf, name);
}
