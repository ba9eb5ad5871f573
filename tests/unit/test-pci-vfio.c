/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Driver "pci": functions by their IOMMU groups, and why one cannot be assigned.
 * complaints.md: W10.
 */
#include "explained-fixture.h"
#include "host-use-fixture.h"
#include "pci-machine-fixture.h"

static void test_vfio(void **state)
{
	plant_host();
	expect(GPU,
		"0000:03:00.0! 0000:03:00.0 is bound to no driver: run \"driverctl set-override 0000:03:00.0 vfio-pci\"\n");
	pci_bind("0000:03:00.0", "nouveau");
	expect(GPU,
		"0000:03:00.0! 0000:03:00.0 is bound to nouveau, not to vfio-pci: unless the host needs it, run \"driverctl set-override 0000:03:00.0 vfio-pci\"\n");
	pci_bind("0000:03:00.0", NULL);
	pci_bind("0000:03:00.0", "vfio-pci");
	expect(GPU,
		"0000:03:00.0! 0000:03:00.0 has no IOMMU group: enable the IOMMU in the firmware and "
		"the kernel (intel_iommu=on), or VFIO without it (enable_unsafe_noiommu_mode)\n");
	pci_join_group("0000:03:00.0", "45");
	expect(GPU, "0000:03:00.0: /dev/vfio/45 /dev/vfio/vfio\n");
	expect_variable_of(0, "iommu_group", "45");
	expect_variable_of(0, "addresses", "0000:03:00.0");
	expect_variable_of(0, "driver", "vfio-pci");
	expect_variable_of(0, "info",
		"{\"generic\":{\"deviceID\":\"0000:03:00.0\"},"
		"\"vfio\":{\"dev-mount\":\"/dev/vfio/45\",\"mount\":\"/dev/vfio/vfio\"}}");
	host_write("/sys/kernel/iommu_groups/45/name", "vfio-noiommu\n");
	expect(GPU, "0000:03:00.0: /dev/vfio/noiommu-45 /dev/vfio/vfio\n");
}

static void test_vfio_drivers(void **state)
{
	plant_host();
	pci_bind("0000:6b:00.1", "qat_vfio_pci");
	pci_join_group("0000:6b:00.1", "200");
	pci_bind("0000:6b:00.2", "nvidia");
	pci_join_group("0000:6b:00.2", "201");
	pci_write("0000:6b:00.2", "nvidia/current_vgpu_type", "0\n");
	expect("{ access = \"vfio\"; vendor = 0x8086; role = \"vf\"; }",
		"0000:6b:00.1: /dev/vfio/200 /dev/vfio/vfio\n"
		"0000:6b:00.2! 0000:6b:00.2 is bound to nvidia, not to vfio-pci: it has no vGPU type: write one to /sys/bus/pci/devices/0000:6b:00.2/nvidia/current_vgpu_type\n");
	pci_write("0000:6b:00.2", "nvidia/current_vgpu_type", "527\n");
	expect("{ access = \"vfio\"; vendor = 0x8086; functions = \"1\"; }",
		"0000:6b:00.2: /dev/vfio/201 /dev/vfio/vfio\n");

	/* Who has the physical function has the virtual ones. */
	pci_bind("0000:6b:00.0", NULL);
	pci_bind("0000:6b:00.0", "vfio-pci");
	pci_join_group("0000:6b:00.0", "202");
	expect("{ access = \"vfio\"; vendor = 0x8086; role = \"pf\"; }",
		"0000:6b:00.0! 0000:6b:00.0 has virtual functions, which would be assigned with it: match "
		"them instead with role = \"vf\", or write 0 to its sriov_numvfs, which takes them from the pods that use them\n");
}

static void test_group_viable(void **state)
{
	plant_group();
	/* A bridge with its driver and a function without one do not block the group. */
	expect(GPU, "0000:03:00.0: /dev/vfio/12 /dev/vfio/vfio\n");
	pci_bind("0000:03:00.1", "snd_hda_intel");
	expect(GPU,
		"0000:03:00.0! IOMMU group 12 cannot be assigned: its member 0000:03:00.1 is bound to snd_hda_intel: unless the host needs it, run \"driverctl set-override 0000:03:00.1 vfio-pci\"\n");
	expect("{ access = \"vfio\"; class = 0x0302; iommu_group = \"ignore\"; }",
		"0000:03:00.0! IOMMU group 12 cannot be assigned: its member 0000:03:00.1 is bound to snd_hda_intel: unless the host needs it, run \"driverctl set-override 0000:03:00.1 vfio-pci\"\n");
	pci_bind("0000:03:00.1", NULL);
	pci_bind("0000:03:00.1", "pci-stub");
	expect(GPU, "0000:03:00.0: /dev/vfio/12 /dev/vfio/vfio\n");
	/* The kernel excepts the driver of PCI ports, not all bridges. */
	pci_plant("0000:00:1f.0", "0x8086", "0x8c54", "0x060100");
	pci_join_group("0000:00:1f.0", "12");
	expect(GPU, "0000:03:00.0: /dev/vfio/12 /dev/vfio/vfio\n");
	pci_bind("0000:00:1f.0", "lpc_ich");
	expect(GPU,
		"0000:03:00.0! IOMMU group 12 cannot be assigned: its member 0000:00:1f.0 is bound to lpc_ich: it is a bridge, which the host needs; or use a slot with a group of its own\n");
}

#define NVME PCI_ROOT "/0000:02:00.0/nvme/nvme0"

/* An interface of the host, with its default route or without. */
static void plant_default_route(const char *address, const char *interface, bool has_route)
{
	char path[256], text[128];

	(void)snprintf(path, sizeof(path), "net/%s/uevent", interface);
	pci_write(address, path, "");
	(void)snprintf(path, sizeof(path), "net/%s/subsystem", interface);
	pci_link("../../../../../class/net", address, path);
	host_mkdir("/sys/class/net");
	(void)snprintf(path, sizeof(path), "/sys/class/net/%s", interface);
	(void)snprintf(
		text, sizeof(text), "../../devices/pci0000:00/%s/net/%s", address, interface);
	host_symlink(text, path);
	host_mkdir("/proc/1/net");
	(void)snprintf(text, sizeof(text),
		"head\n%s\t00000000\t0100000A\t0003\t0\t0\t0\t00000000\n", interface);
	host_write("/proc/1/net/route", has_route ? text : "head\n");
}

/* A remedy never takes hardware from the host. */
static void test_remedies_spare_the_host(void **state)
{
	plant_group();
	pci_plant("0000:00:1f.6", "0x8086", "0x15bb", "0x020000");
	pci_bind("0000:00:1f.6", "e1000e");
	pci_join_group("0000:00:1f.6", "12");
	plant_default_route("0000:00:1f.6", "eno1", true);
	expect(GPU,
		"0000:03:00.0! IOMMU group 12 cannot be assigned: its member 0000:00:1f.6 is bound to e1000e: the host needs it (eno1: the host's default route leads through it); or use a slot with a group of its own\n");
	host_write("/proc/1/net/route", "head\n");
	expect(GPU,
		"0000:03:00.0! IOMMU group 12 cannot be assigned: its member 0000:00:1f.6 is bound to e1000e: unless the host needs it, run \"driverctl set-override 0000:00:1f.6 vfio-pci\"; or use a slot with a group of its own\n");

	pci_bind("0000:02:00.0", "nvme");
	plant_block(NVME, "nvme0n1", 259, 0);
	plant_block(NVME "/nvme0n1", "nvme0n1p2", 259, 2);
	host_write("/proc/1/mountinfo", MOUNTS "27 1 259:2 / / rw - ext4 /dev/root rw\n");
	expect("{ access = \"vfio\"; class = 0x0108; }",
		"0000:02:00.0! 0000:02:00.0 is bound to nvme, not to vfio-pci: the host needs it (nvme0n1p2 is mounted at /)\n");
	expect("{ access = \"uio\"; class = 0x0108; }",
		"0000:02:00.0! 0000:02:00.0 is bound to nvme, which creates no UIO device: the host needs it (nvme0n1p2 is mounted at /)\n");

	pci_plant("0000:0a:00.0", "0x8086", "0x3e98", "0x030000");
	pci_bind("0000:0a:00.0", "i915");
	pci_write("0000:0a:00.0", "boot_vga", "1\n");
	expect("{ access = \"vfio\"; class = 0x03; device = 0x3e98; vendor = 0x8086; }",
		"0000:0a:00.0! 0000:0a:00.0 is bound to i915, not to vfio-pci: the host needs it (it is the display that the firmware chose)\n");
	pci_plant("0000:00:1f.0", "0x8086", "0x8c54", "0x060100");
	expect("{ access = \"vfio\"; class = 0x0601; }",
		"0000:00:1f.0! 0000:00:1f.0 is bound to no driver: it is a bridge, which the host needs\n");
}

static void test_group_policies(void **state)
{
	plant_group();
	pci_bind("0000:03:00.1", "vfio-pci");
	expect("{ access = \"vfio\"; vendor = 0x10de; }",
		"0000:03:00.0: /dev/vfio/12 /dev/vfio/vfio\n");
	expect_variable_of(0, "addresses", "0000:03:00.0,0000:03:00.1");
	expect("{ access = \"vfio\"; vendor = 0x10de; iommu_group = \"ignore\"; }",
		"0000:03:00.0: /dev/vfio/12 /dev/vfio/vfio\n"
		"0000:03:00.1: /dev/vfio/12 /dev/vfio/vfio\n");
	expect_variable_of(1, "addresses", "0000:03:00.1");
	expect("{ access = \"vfio\"; class = 0x0302; iommu_group = \"refuse\"; }",
		"0000:03:00.0! 0000:03:00.0 shares IOMMU group 12 with 1 more (0000:03:00.1 ...), which would be assigned with it: iommu_group = \"fold\" combines them into one device\n");

	/* Every value names functions that match, although another one comes first in the group. */
	expect("{ access = \"vfio\"; class = 0x0403; }",
		"0000:03:00.1: /dev/vfio/12 /dev/vfio/vfio\n");
	expect_variable_of(0, "bdf", "0000:03:00.1");
	expect_variable_of(0, "addresses", "0000:03:00.1");
	expect_variable_of(0, "info",
		"{\"generic\":{\"deviceID\":\"0000:03:00.1\"},"
		"\"vfio\":{\"dev-mount\":\"/dev/vfio/12\",\"mount\":\"/dev/vfio/vfio\"}}");
	pci_join_group("0000:02:00.0", "12");
	expect_ids("pci", "{ access = \"vfio\"; vendor = 0x10de; }", "0000:03:00.0 ");
	expect_variable_of(0, "bdf", "0000:03:00.0");
	expect_variable_of(0, "addresses", "0000:03:00.0,0000:03:00.1");
	expect_ids("pci", "{ access = \"vfio\"; address = \"0000:03:00.1\"; }", "0000:03:00.1 ");

	pci_plant("0000:9a:00.0", "0x1000", "0x1", "0x010700");
	pci_plant("0000:10:00.0", "0x1000", "0x1", "0x010700");
	pci_join_group("0000:9a:00.0", "77");
	pci_join_group("0000:10:00.0", "77");
	expect_ids("pci", "{ access = \"vfio\"; vendor = 0x1000; }", "0000:10:00.0 ");
	expect_variable_of(0, "addresses", "0000:10:00.0,0000:9a:00.0");
}

/* A chip with two functions, each with a group, and one with a single function. */
static void test_slot(void **state)
{
	static const char match[] =
		"{ access = \"vfio\"; vendor = 0x1ae0; iommu_group = \"slot\"; }";
	static const char *const addresses[] = { "0000:05:00.0", "0000:05:00.1", "0000:05:01.0",
		"0000:06:00.0" };

	for (size_t i = 0; i < ARRAY_SIZE(addresses); i++) {
		pci_plant(addresses[i], "0x1ae0", "0x0076", "0x120000");
		pci_bind(addresses[i], "vfio-pci");
		pci_join_group(addresses[i], made("%zu", 30 + i));
	}
	expect(match,
		"0000:05:00.0: /dev/vfio/30 /dev/vfio/vfio /dev/vfio/31\n"
		"0000:05:01.0: /dev/vfio/32 /dev/vfio/vfio\n"
		"0000:06:00.0: /dev/vfio/33 /dev/vfio/vfio\n");
	expect_variable_of(0, "addresses", "0000:05:00.0,0000:05:00.1");
	expect_variable_of(1, "addresses", "0000:05:01.0");
	assert_int_equal(scan.devices[0]->claims.count, 4);
	assert_string_equal(scan.devices[0]->claims.items[2], "pci:0000:05:00.1");
	assert_string_equal(scan.devices[0]->claims.items[3], "iommu_group:31");
	/* The whole chip is unhealthy if one function is. */
	pci_bind("0000:05:00.1", NULL);
	expect(match,
		"0000:05:00.0! 0000:05:00.1 is bound to no driver: run \"driverctl set-override 0000:05:00.1 vfio-pci\"\n"
		"0000:05:01.0: /dev/vfio/32 /dev/vfio/vfio\n"
		"0000:06:00.0: /dev/vfio/33 /dev/vfio/vfio\n");
	/* Both are in one group. */
	pci_bind("0000:05:00.1", "vfio-pci");
	pci_plant("0000:07:00.0", "0x1ae1", "0x0076", "0x120000");
	pci_plant("0000:07:00.1", "0x1ae1", "0x0076", "0x120000");
	pci_bind("0000:07:00.0", "vfio-pci");
	pci_bind("0000:07:00.1", "vfio-pci");
	pci_join_group("0000:07:00.0", "40");
	pci_join_group("0000:07:00.1", "40");
	expect("{ access = \"vfio\"; vendor = 0x1ae1; iommu_group = \"slot\"; }",
		"0000:07:00.0: /dev/vfio/40 /dev/vfio/vfio\n");
}

#define TOGETHER                                                                           \
	"driver = \"pci\"; match = ( { access = \"vfio\"; vendor = 0x10de; iommu_group = " \
	"\"together\"; } ); "

/* Functions that only one container can use are devices that only one container gets. */
static void test_group_together(void **state)
{
	_cleanup_free_ char *problem = declare_problem(TOGETHER "prefer = \"numa\";");
	_cleanup_snapshot_ struct snapshot *snapshot = NULL;

	assert_non_null(strstr(problem, "iommu_group: \"together\" needs prefer = \"links\""));
	plant_group();
	pci_bind("0000:03:00.1", "vfio-pci");
	/* Another group. */
	pci_plant("0000:04:00.0", "0x10de", "0x1eb8", "0x030200");
	pci_bind("0000:04:00.0", "vfio-pci");
	pci_join_group("0000:04:00.0", "13");
	host_mkdir("/dev/vfio");
	host_mknod("/dev/vfio/vfio");
	host_mknod("/dev/vfio/12");
	host_mknod("/dev/vfio/13");
	list(TOGETHER "prefer = \"links\";");
	expect_nodes("0000:03:00.1", "/dev/vfio/12 /dev/vfio/vfio ");
	expect_variable_of(1, "addresses", "0000:03:00.1");
	assert_int_equal(found("0000:03:00.1")->n_distances, 1);
	assert_string_equal(found("0000:03:00.1")->distances[0].id, "0000:03:00.0");
	assert_int_equal(found("0000:04:00.0")->n_distances, 0);

	start(TOGETHER "prefer = \"links\";");
	assert_string_equal(seen(), "0000:03:00.0 0000:03:00.1 0000:04:00.0 ");
	assert_int_equal(set_booked(inventory, "0000:03:00.1\n", 0), 1);
	assert_string_equal(seen(), "0000:03:00.0! 0000:03:00.1 0000:04:00.0 ");
	snapshot = inventory_snapshot(inventory);
	assert_true(snapshot->units[0].claimed_by_other);
	assert_string_equal(snapshot->units[0].reason,
		"in use by a pod, with 0000:03:00.1 of the same IOMMU group 12");
	assert_int_equal(set_booked(inventory, "0000:03:00.0\n0000:03:00.1\n", 0), 1);
	assert_string_equal(seen(), "0000:03:00.0 0000:03:00.1 0000:04:00.0 ");
	assert_int_equal(set_booked(inventory, "0000:03:00.0\n", 0), 1);
	assert_string_equal(seen(), "0000:03:00.0 0000:03:00.1! 0000:04:00.0 ");
	assert_int_equal(set_booked(inventory, "", 0), 1);
	assert_string_equal(seen(), "0000:03:00.0 0000:03:00.1 0000:04:00.0 ");
	/* The first list after a start. */
	start_booked(TOGETHER "prefer = \"links\";", "0000:03:00.0\n");
	assert_string_equal(seen(), "0000:03:00.0 0000:03:00.1! 0000:04:00.0 ");
}

#define VFIO_OF_VENDOR "driver = \"pci\"; match = ( { access = \"vfio\"; vendor = 0x10de; } ); "

static void test_group_without_excluded(void **state)
{
	static const char policy[] =
		VFIO_OF_VENDOR "exclude = ( { match = ( { class = 0x0403; } ); } );";

	plant_group();
	pci_bind("0000:03:00.1", "vfio-pci");
	expect_found(policy, "0000:03:00.0 ");
	expect_variable_of(0, "addresses", "0000:03:00.0");
	expect_nodes("0000:03:00.0", "/dev/vfio/12 /dev/vfio/vfio ");
	assert_int_equal(scan.devices[0]->claims.count, 2);
	assert_string_equal(scan.devices[0]->claims.items[0], "pci:0000:03:00.0");
	assert_string_equal(scan.devices[0]->claims.items[1], "iommu_group:12");
	/* Only the first function names the device. */
	expect_explained(VFIO_OF_VENDOR "exclude = \"0000:03:00.1\";",
		"exclude[0] leaves out no device: 0000:03:00.0 has \"addresses=0000:03:00.0,0000:03:00.1\"\n");
	expect_explained(VFIO_OF_VENDOR "exclude = ( { where = \"device=0x10f8\"; } );",
		"exclude[0] leaves out no device: 0000:03:00.0 has \"device=0x1eb8\"\n");
}

static void test_fold_names_all(void **state)
{
	plant_group();
	expect("{ access = \"vfio\"; vendor = 0x10de; }",
		"0000:03:00.0! 0000:03:00.1 is bound to no driver: run \"driverctl set-override 0000:03:00.1 vfio-pci\"\n");
}

/* Own nodes and claims; no device owns the node that all groups need. */
static void expect_own(size_t index, const char *expected)
{
	const struct device *device = scan.devices[index];
	char text[512] = "";
	size_t length = 0;

	for (size_t i = 0; i < device->n_nodes; i++)
		if (!device->nodes[i].shared)
			length += (size_t)snprintf(
				text + length, sizeof(text) - length, "%s ", device->nodes[i].host);
	for (size_t i = 0; i < device->claims.count; i++)
		length += (size_t)snprintf(
			text + length, sizeof(text) - length, "%s ", device->claims.items[i]);
	assert_string_equal(text, expected);
}

static void test_what_is_its_own(void **state)
{
	plant_group();
	pci_bind("0000:03:00.1", "vfio-pci");
	list_entries("pci", "{ access = \"vfio\"; vendor = 0x10de; }");
	expect_own(0, "/dev/vfio/12 pci:0000:03:00.0 iommu_group:12 pci:0000:03:00.1 ");
	pci_write("0000:03:00.0", "vfio-dev/vfio7/uevent", "DEVNAME=vfio/devices/vfio7\n");
	list_entries("pci", "{ access = \"vfio-cdev\"; class = 0x0302; }");
	expect_own(0, "/dev/vfio/devices/vfio7 pci:0000:03:00.0 iommu_group:12 ");
	/* Two resources with functions of one group have no node in common. */
	pci_write("0000:03:00.1", "vfio-dev/vfio8/uevent", "DEVNAME=vfio/devices/vfio8\n");
	list_entries("pci", "{ access = \"vfio-cdev\"; class = 0x0403; }");
	expect_own(0, "/dev/vfio/devices/vfio8 pci:0000:03:00.1 iommu_group:12 ");
	/* A function alone is a part of the group. */
	list_entries(
		"pci", "{ access = \"vfio-cdev\"; class = 0x0403; iommu_group = \"ignore\"; }");
	expect_own(0, "/dev/vfio/devices/vfio8 pci:0000:03:00.1 <iommu_group:12 ");
}

static void test_vfio_cdev(void **state)
{
	plant_group();
	expect("{ access = \"vfio-cdev\"; class = 0x0302; }",
		"0000:03:00.0! 0000:03:00.0 has no node in /dev/vfio/devices: the kernel needs "
		"CONFIG_VFIO_DEVICE_CDEV, or use access = \"vfio\"\n");
	pci_write("0000:03:00.0", "vfio-dev/vfio7/uevent", "DEVNAME=vfio/devices/vfio7\n");
	expect("{ access = \"vfio-cdev\"; class = 0x0302; }",
		"0000:03:00.0: /dev/vfio/devices/vfio7 /dev/iommu\n");
	pci_bind("0000:03:00.1", "vfio-pci");
	pci_write("0000:03:00.1", "vfio-dev/vfio8/uevent", "DEVNAME=vfio/devices/vfio8\n");
	expect("{ access = \"vfio-cdev\"; vendor = 0x10de; }",
		"0000:03:00.0: /dev/vfio/devices/vfio7 /dev/iommu /dev/vfio/devices/vfio8\n");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(test_vfio),
		TEST(test_vfio_drivers),
		TEST(test_group_viable),
		TEST(test_remedies_spare_the_host),
		TEST(test_group_policies),
		TEST(test_group_together),
		TEST(test_slot),
		TEST(test_group_without_excluded),
		TEST(test_fold_names_all),
		TEST(test_what_is_its_own),
		TEST(test_vfio_cdev),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
