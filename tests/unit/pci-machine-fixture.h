/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * A machine of functions: a bridge, an accelerator with a physical function and two virtual ones, a
 * GPU with its sound, and the devices that driver "pci" finds in it.
 */

#include "pci-fixture.h"

#include "common/log.h"

static inline int setup(void **state)
{
	log_setup("test-pci", LOG_TARGET_TEXT, LOG_CRIT);
	return host_setup(state);
}

/* "id:" and the nodes of each device, or "id! problem", a line each. */
static inline void expect(const char *match, const char *expected)
{
	_cleanup_free_ char *text = NULL;
	FILE *stream;
	size_t size;

	list_entries("pci", match);
	stream = open_memstream(&text, &size);
	assert_non_null(stream);
	for (size_t i = 0; i < scan.n_devices; i++) {
		const struct device *device = scan.devices[i];

		(void)fputs(device->id, stream);
		if (device->problem)
			(void)fprintf(stream, "! %s", device->problem);
		else
			(void)fputc(':', stream);
		for (size_t k = 0; k < device->n_nodes && !device->problem; k++)
			(void)fprintf(stream, " %s", device->nodes[k].host);
		(void)fputc('\n', stream);
	}
	assert_int_equal(fclose(stream), 0);
	assert_string_equal(text, expected);
}

static inline void expect_variable_of(size_t device, const char *name, const char *value)
{
	const char *found;

	assert_true(device < scan.n_devices);
	found = device_variable(scan.devices[device], name);
	if (!value)
		assert_null(found);
	else if (!found)
		fail_msg("${%s} has no value", name);
	else
		assert_string_equal(found, value);
}

/* A machine: bridge, card with a physical function and two virtual ones, GPU with its sound. */
static inline void plant_host(void)
{
	pci_plant("0000:00:01.0", "0x8086", "0x1901", "0x060400");
	pci_bind("0000:00:01.0", "pcieport");
	pci_plant("0000:03:00.0", "0x10de", "0x1eb8", "0x030200");
	pci_plant("0000:03:00.1", "0x10de", "0x10f8", "0x040300");
	pci_plant("0000:6b:00.0", "0x8086", "0x4940", "0x0b4000");
	pci_write("0000:6b:00.0", "sriov_totalvfs", "16\n");
	pci_write("0000:6b:00.0", "net/ens6f0/mtu", "1500\n");
	pci_bind("0000:6b:00.0", "4xxx");
	pci_plant("0000:6b:00.1", "0x8086", "0x4941", "0x0b4000");
	pci_plant("0000:6b:00.2", "0x8086", "0x4941", "0x0b4000");
	pci_make_virtual("0000:6b:00.1", "0000:6b:00.0", 0);
	pci_make_virtual("0000:6b:00.2", "0000:6b:00.0", 1);
	pci_write("0000:6b:00.1", "numa_node", "1\n");
	pci_plant("0000:af:00.0", "0x10ee", "0x5001", "0x120000");
	pci_write("0000:af:00.0", "subsystem_vendor", "0x10ee\n");
	pci_write("0000:af:00.0", "subsystem_device", "0x000e\n");
}

static inline void plant_group(void)
{
	plant_host();
	pci_bind("0000:03:00.0", "vfio-pci");
	pci_join_group("0000:00:01.0", "12");
	pci_join_group("0000:03:00.0", "12");
	pci_join_group("0000:03:00.1", "12");
	pci_plant("0000:02:00.0", "0x144d", "0xa808", "0x010802");
}

#define GPU "{ access = \"vfio\"; vendor = 0x10de; class = 0x0302; }"

#define UUID_1 "83b8f4f2-509f-382f-3c1e-e6bfe0fa1001"
#define UUID_2 "c9d1f0d1-1f6c-4c6e-8f3f-0d4a4f8a2002"

static inline void plant_mdev(const char *uuid, const char *type, const char *group)
{
	char path[256], target[256];

	host_mkdir("/sys/bus/mdev/devices");
	(void)snprintf(path, sizeof(path), "%s/uevent", uuid);
	pci_write("0000:03:00.0", path, "");
	(void)snprintf(target, sizeof(target), "../mdev_supported_types/%s", type);
	(void)snprintf(path, sizeof(path), "%s/mdev_type", uuid);
	pci_link(target, "0000:03:00.0", path);
	(void)snprintf(target, sizeof(target), "../../../devices/pci0000:00/0000:03:00.0/%s", uuid);
	(void)snprintf(path, sizeof(path), "/sys/bus/mdev/devices/%s", uuid);
	host_symlink(target, path);
	if (!group)
		return;
	(void)snprintf(path, sizeof(path), "/sys/kernel/iommu_groups/%s", group);
	host_mkdir(path);
	(void)snprintf(target, sizeof(target), "../../../../kernel/iommu_groups/%s", group);
	(void)snprintf(path, sizeof(path), "%s/iommu_group", uuid);
	pci_link(target, "0000:03:00.0", path);
}

#define TEST(function) cmocka_unit_test_setup_teardown(function, setup, driver_teardown)
