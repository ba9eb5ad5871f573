/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Driver "pci": the nodes that a function's driver, UIO, vDPA and mediated devices have.
 */
#include "pci-machine-fixture.h"

static void test_nodes(void **state)
{
	plant_host();
	pci_bind("0000:03:00.0", "amdgpu");
	pci_write("0000:03:00.0", "drm/card0/uevent", "DEVNAME=dri/card0\n");
	pci_write("0000:03:00.0", "drm/renderD128/uevent", "DEVNAME=dri/renderD128\n");
	pci_write("0000:03:00.0", "0000:04:00.0/uevent", "PCI_SLOT_NAME=0000:04:00.0\n");
	pci_write("0000:03:00.0", "0000:04:00.0/nvme/nvme0/uevent", "DEVNAME=nvme0\n");
	expect("{ vendor = 0x10de; }",
		"0000:03:00.0: /dev/dri/card0 /dev/dri/renderD128\n0000:03:00.1! 0000:03:00.1 is "
		"bound to no driver, so it has no device node: load its driver, or read the "
		"kernel's log\n");
	expect("{ class = 0x0302; nodes = \"/dev/dri/renderD*\"; permissions = \"rwm\"; }",
		"0000:03:00.0: /dev/dri/renderD128\n");
	assert_string_equal(scan.devices[0]->nodes[0].permissions, "rwm");
	expect("{ class = 0x0302; nodes = ( \"/dev/*\", \"/dev/d*/c*\" ); }",
		"0000:03:00.0: /dev/dri/card0\n");
	expect("{ class = 0x0302; nodes = \"/dev/accel/*\"; }",
		"0000:03:00.0! driver amdgpu of 0000:03:00.0 created no device node that match.nodes names\n");
}

static void test_uio(void **state)
{
	plant_host();
	expect("{ access = \"uio\"; functions = \"0\"; vendor = 0x8086; }",
		"0000:6b:00.1! 0000:6b:00.1 is bound to no driver, which creates no UIO device: run \"driverctl set-override 0000:6b:00.1 uio_pci_generic\"\n");
	pci_bind("0000:6b:00.1", "igb_uio");
	pci_write("0000:6b:00.1", "uio/uio3/uevent", "DEVNAME=uio3\n");
	expect("{ access = \"uio\"; functions = \"0\"; vendor = 0x8086; }",
		"0000:6b:00.1: /dev/uio3\n");
	expect_variable_of(0, "uio", "uio3");
	expect_variable_of(0, "info",
		"{\"generic\":{\"deviceID\":\"0000:6b:00.1\"},\"uio\":{\"mount\":\"/dev/uio3\"}}");
}

#define VDPA "{ access = \"vdpa\"; vendor = 0x8086; functions = \"0\"; }"

static void test_vdpa(void **state)
{
	plant_host();
	pci_write("0000:6b:00.1", "power/control", "auto\n");
	expect(VDPA,
		"0000:6b:00.1! 0000:6b:00.1 has no vDPA device: run \"vdpa dev add name vdpa-0000:6b:00.1 mgmtdev pci/0000:6b:00.1\"\n");
	pci_write("0000:6b:00.1", "vdpa0/uevent", "");
	host_mkdir("/sys/bus/vdpa/drivers/virtio_vdpa");
	pci_link("../../../../bus/vdpa", "0000:6b:00.1", "vdpa0/subsystem");
	pci_link("../../../../bus/vdpa/drivers/virtio_vdpa", "0000:6b:00.1", "vdpa0/driver");
	expect(VDPA,
		"0000:6b:00.1! vdpa0 of 0000:6b:00.1 is bound to virtio_vdpa, not to vhost_vdpa: unless the host needs it, run \"driverctl -b vdpa set-override vdpa0 vhost_vdpa\"\n");
	host_remove(PCI_ROOT "/0000:6b:00.1/vdpa0/driver");
	host_mkdir("/sys/bus/vdpa/drivers/vhost_vdpa");
	pci_link("../../../../bus/vdpa/drivers/vhost_vdpa", "0000:6b:00.1", "vdpa0/driver");
	/* The kernel's vhost-vdpa-0 is of neither a class nor a bus. */
	pci_write("0000:6b:00.1", "vdpa0/vhost-vdpa-0/uevent", "");
	pci_write("0000:6b:00.1", "vdpa0/vhost-vdpa-0/dev", "0:0\n");
	expect(VDPA, "0000:6b:00.1: /dev/vhost-vdpa-0\n");
	host_mknod("/dev/vhost-vdpa-0");
	expect(VDPA, "0000:6b:00.1: /dev/vhost-vdpa-0\n");
	expect_variable_of(0, "info",
		"{\"generic\":{\"deviceID\":\"0000:6b:00.1\"},"
		"\"vdpa\":{\"mount\":\"/dev/vhost-vdpa-0\"}}");
	/* A node of another device. */
	pci_write("0000:6b:00.1", "vdpa0/vhost-vdpa-0/dev", "511:0\n");
	expect(VDPA,
		"0000:6b:00.1! vdpa0 of 0000:6b:00.1 is bound to vhost_vdpa, which created no device node: read the kernel's log\n");
}

/* The driver that makes vDPA devices of virtio is not the one that the kernel binds. */
static void test_vdpa_of_virtio(void **state)
{
	static const char match[] = "{ access = \"vdpa\"; vendor = 0x1af4; }";

	pci_plant("0000:00:04.0", "0x1af4", "0x1041", "0x020000");
	pci_bind("0000:00:04.0", "virtio-pci");
	expect(match,
		"0000:00:04.0! 0000:00:04.0 is bound to virtio-pci, not to vp-vdpa: unless the host needs it, run \"driverctl set-override 0000:00:04.0 vp-vdpa\"\n");
	host_remove(PCI_ROOT "/0000:00:04.0/driver");
	expect(match,
		"0000:00:04.0! 0000:00:04.0 is bound to no driver, not to vp-vdpa: run \"driverctl set-override 0000:00:04.0 vp-vdpa\"\n");
	pci_bind("0000:00:04.0", "vp-vdpa");
	expect(match,
		"0000:00:04.0! 0000:00:04.0 has no vDPA device: run \"vdpa dev add name vdpa-0000:00:04.0 mgmtdev pci/0000:00:04.0\"\n");
}

static void test_mdev(void **state)
{
	plant_host();
	pci_bind("0000:03:00.0", "nvidia");
	pci_write("0000:03:00.0", "numa_node", "0\n");
	pci_write("0000:03:00.0", "mdev_supported_types/nvidia-222/name", "GRID T4-1B\n");
	pci_write("0000:03:00.0", "mdev_supported_types/nvidia-233/name", "GRID T4-2Q\n");
	plant_mdev(UUID_1, "nvidia-222", "61");
	plant_mdev(UUID_2, "nvidia-233", NULL);
	expect("{ access = \"mdev\"; mdev_type = \"GRID T4-1B\"; }",
		UUID_1 ": /dev/vfio/61 /dev/vfio/vfio\n");
	expect_variable_of(0, "bdf", "0000:03:00.0");
	expect_variable_of(0, "mdev_type", "nvidia-222");
	expect_variable_of(0, "iommu_group", "61");
	assert_true(strings_contain(&scan.devices[0]->claims, "<pci:0000:03:00.0"));
	assert_int_equal(scan.devices[0]->n_numa, 1);
	expect("{ access = \"mdev\"; mdev_type = \"nvidia-233\"; vendor = 0x10de; }",
		UUID_2 "! it has no IOMMU group: load the module that adds VFIO to nvidia\n");
	expect_ids("pci",
		"{ access = \"mdev\"; vendor = 0x10de; mdev_type = \"x\"; }, "
		"{ access = \"mdev\"; vendor = 0x10de; }",
		UUID_1 " " UUID_2 " ");
	expect_ids("pci", "{ access = \"mdev\"; vendor = 0x8086; }", "");
	/* The function itself is another resource's affair. */
	expect_ids("pci", "{ access = \"mdev\"; vendor = 0x10de; }, { class = 0x0302; }",
		"0000:03:00.0 " UUID_1 " " UUID_2 " ");
}

/* CNI plugins find functions of network cards that user space drives, and no others. */
static void test_network_information(void **state)
{
	static const char address[] = "0000:18:02.1";

	pci_plant("0000:18:00.0", "0x8086", "0x1572", "0x020000");
	pci_plant(address, "0x8086", "0x154c", "0x020000");
	pci_make_virtual(address, "0000:18:00.0", 1);
	pci_plant("0000:af:00.0", "0x8086", "0x0d90", "0x120000");
	pci_bind(address, "vfio-pci");
	pci_bind("0000:af:00.0", "vfio-pci");
	pci_join_group(address, "91");
	pci_join_group("0000:af:00.0", "92");
	list_entries("pci", "{ access = \"vfio\"; driver = \"vfio-pci\"; }");
	assert_string_equal(found(address)->info,
		"{\"type\":\"pci\",\"version\":\"1.1.0\",\"pci\":{\"pci-address\":\"0000:18:02.1\","
		"\"pf-pci-address\":\"0000:18:00.0\"}}");
	assert_null(found("0000:af:00.0")->info);
	pci_write(address, "vfio-dev/vfio3/uevent", "DEVNAME=vfio/devices/vfio3\n");
	list_entries("pci", "{ access = \"vfio-cdev\"; driver = \"vfio-pci\"; }");
	assert_non_null(found(address)->info);
	pci_write(address, "uio/uio7/uevent", "DEVNAME=uio7\n");
	list_entries("pci", "{ access = \"uio\"; vendor = 0x8086; role = \"vf\"; }");
	assert_non_null(found(address)->info);
	host_mkdir("/sys/bus/vdpa");
	pci_write(address, "vdpa2/vhost-vdpa-2/uevent", "");
	pci_write(address, "vdpa2/vhost-vdpa-2/dev", "511:2\n");
	pci_link("../../../../bus/vdpa", address, "vdpa2/subsystem");
	list_entries("pci", "{ access = \"vdpa\"; vendor = 0x8086; role = \"vf\"; }");
	assert_string_equal(found(address)->info,
		"{\"type\":\"vdpa\",\"version\":\"1.1.0\",\"vdpa\":{\"parent-device\":\"vdpa2\","
		"\"driver\":\"vhost\",\"path\":\"/dev/vhost-vdpa-2\",\"pci-address\":\"0000:18:02.1\","
		"\"pf-pci-address\":\"0000:18:00.0\"}}");
	/* What the driver of the kernel drives is the driver net's. */
	list_entries("pci", "{ vendor = 0x8086; role = \"vf\"; }");
	assert_null(found(address)->info);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(test_nodes),
		TEST(test_uio),
		TEST(test_vdpa),
		TEST(test_vdpa_of_virtio),
		TEST(test_network_information),
		TEST(test_mdev),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
