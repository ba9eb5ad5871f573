/* SPDX-License-Identifier: Apache-2.0 */
/*
 * NVMe with native multipath, as the kernel shows it: hidden paths below controllers, and
 * namespaces below the subsystem.
 */
#include "sysfs-fixture.h"

#define SUBSYSTEM "virtual/nvme-subsystem/nvme-subsys0"

/* A controller, with the function that it is. */
static void plant_controller(unsigned number, const char *address, const char *numa)
{
	char function[64], controller[96], uevent[64];

	(void)snprintf(function, sizeof(function), "pci0000:80/%s", address);
	sys_device(function, "bus/pci", "DRIVER=nvme\n");
	sys_write(function, "vendor", "0x1b36\n");
	sys_write(function, "device", "0x0010\n");
	sys_write(function, "class", "0x010802\n");
	sys_write(function, "numa_node", numa);
	host_mkdir("/sys/bus/pci/drivers/nvme");
	(void)snprintf(controller, sizeof(controller), "/sys/devices/%s/driver", function);
	host_symlink("../../../bus/pci/drivers/nvme", controller);
	(void)snprintf(controller, sizeof(controller), "%s/nvme/nvme%u", function, number);
	(void)snprintf(uevent, sizeof(uevent),
		"MAJOR=240\nMINOR=%u\nDEVNAME=nvme%u\nNVME_TRTYPE=pcie\n", number, number);
	sys_device(controller, "class/nvme", uevent);
	(void)snprintf(uevent, sizeof(uevent), "/dev/nvme%u", number);
	host_node(uevent);
}

/* The device of a disk or its generic device, and its node. */
static void plant_namespace(const char *parent, const char *name)
{
	bool generic = startswith(name, "ng");
	char directory[128], uevent[64];

	(void)snprintf(directory, sizeof(directory), "%s/%s", parent, name);
	(void)snprintf(uevent, sizeof(uevent), "MAJOR=259\nMINOR=1\nDEVNAME=%s\n%s", name,
		generic ? "" : "DEVTYPE=disk\n");
	sys_device(directory, generic ? "class/nvme-generic" : "class/block", uevent);
	if (!generic)
		sys_write(directory, "hidden", "0\n");
	(void)snprintf(uevent, sizeof(uevent), "/dev/%s", name);
	host_node(uevent);
}

/* A controller's path to the namespace of the subsystem. */
static void plant_path(unsigned number, const char *address)
{
	char directory[128], target[128], link[128];

	(void)snprintf(directory, sizeof(directory), "pci0000:80/%s/nvme/nvme%u/nvme0c%un1",
		address, number, number);
	sys_device(directory, "class/block", "DEVTYPE=disk\nDISKSEQ=9\n");
	sys_write(directory, "hidden", "1\n");
	(void)snprintf(
		target, sizeof(target), "../../../pci0000:80/%s/nvme/nvme%u", address, number);
	(void)snprintf(link, sizeof(link), "/sys/devices/" SUBSYSTEM "/nvme%u", number);
	host_symlink(target, link);
}

static void plant_subsystem(void)
{
	sys_device(SUBSYSTEM, "class/nvme-subsystem", "");
	sys_write(SUBSYSTEM, "subsysnqn", "nqn.2019-08.org.qemu:shared\n");
	plant_namespace(SUBSYSTEM, "nvme0n1");
	plant_namespace(SUBSYSTEM, "ng0n1");
}

static void plant_machine(void)
{
	plant_subsystem();
	plant_controller(0, "0000:82:00.0", "1\n");
	plant_path(0, "0000:82:00.0");
	/* A drive that no other controller can reach has no such paths. */
	plant_controller(1, "0000:83:00.0", "0\n");
	plant_namespace("pci0000:80/0000:83:00.0/nvme/nvme1", "nvme1n1");
	plant_namespace("pci0000:80/0000:83:00.0/nvme/nvme1", "ng1n1");
}

#define PCI "driver = \"pci\"; match = ( { class = 0x0108; } );"

static void test_pci(void **state)
{
	plant_machine();
	list(PCI);
	expect_nodes("0000:82:00.0", "/dev/nvme0 /dev/ng0n1 /dev/nvme0n1 ");
	expect_nodes("0000:83:00.0", "/dev/nvme1 /dev/ng1n1 /dev/nvme1n1 ");
	list("driver = \"pci\"; match = ( { class = 0x0108; nodes = \"/dev/nvme*n*\"; } );");
	expect_nodes("0000:82:00.0", "/dev/nvme0n1 ");
	/* Kernels before 5.13 have no generic devices. */
	host_remove("/sys/class/nvme-generic/ng0n1");
	list(PCI);
	expect_nodes("0000:82:00.0", "/dev/nvme0 /dev/nvme0n1 ");
}

/* The disk of this node, among those that are found. */
static const struct device *disk_of(const char *node)
{
	for (size_t i = 0; i < scan.n_devices; i++)
		if (scan.devices[i]->n_nodes == 1 && streq(scan.devices[i]->nodes[0].host, node))
			return scan.devices[i];
	fail_msg("no device has only the node %s", node);
	return NULL;
}

#define DISKS "driver = \"sysfs\"; match = ( { subsystem = \"block\"; devtype = \"disk\"; } );"

static void test_disks(void **state)
{
	const struct device *disk;

	plant_machine();
	list(DISKS);
	assert_int_equal(scan.n_devices, 2);
	disk = disk_of("/dev/nvme0n1");
	assert_string_equal(device_variable(disk, "bdf"), "0000:82:00.0");
	assert_int_equal(disk->n_numa, 1);
	assert_int_equal(disk->numa[0], 1);
	disk = disk_of("/dev/nvme1n1");
	assert_string_equal(device_variable(disk, "bdf"), "0000:83:00.0");
	/* A pattern of names that is right for the path matches nothing. */
	list("driver = \"sysfs\"; match = ( { subsystem = \"block\"; name = \"nvme*c*\"; } );");
	assert_int_equal(scan.n_devices, 0);
	list("driver = \"sysfs\"; match = ( { subsystem = \"*\"; name = \"nvme*c*\"; } );");
	assert_int_equal(scan.n_devices, 0);
}

static void test_controllers(void **state)
{
	plant_machine();
	list("driver = \"sysfs\"; match = ( { subsystem = \"nvme\"; child_nodes = true; } );");
	expect_nodes("0000:82:00.0:nvme.0", "/dev/nvme0 /dev/ng0n1 /dev/nvme0n1 ");
	expect_nodes("0000:83:00.0:nvme.0", "/dev/nvme1 /dev/ng1n1 /dev/nvme1n1 ");
	list("driver = \"sysfs\"; match = ( { subsystem = \"nvme\"; } );");
	expect_nodes("0000:82:00.0:nvme.0", "/dev/nvme0 ");
}

/* Two ports of one drive, or two functions of it: its namespace is not in two containers. */
static void test_two_controllers(void **state)
{
	static const char other[] =
		"it leads to /dev/ng0n1, as 0000:82:00.0 does, which is offered: leave one of them "
		"out of `match`";
	const struct device *disk;

	plant_machine();
	plant_controller(2, "0000:84:00.0", "0\n");
	plant_path(2, "0000:84:00.0");
	list(PCI);
	assert_null(found("0000:82:00.0")->problem);
	assert_string_equal(found("0000:84:00.0")->problem, other);
	assert_null(found("0000:83:00.0")->problem);
	/* An excluded one leaves it to the other. */
	list(PCI " exclude = \"0000:82:00.0\";");
	assert_null(found("0000:84:00.0")->problem);
	expect_nodes("0000:84:00.0", "/dev/nvme2 /dev/ng0n1 /dev/nvme0n1 ");
	list(PCI " exclude = ( { match = ( { address = \"0000:82:00.0\"; } ); } );");
	assert_null(found("0000:84:00.0")->problem);
	/* The controllers alone are apart. */
	list("driver = \"pci\"; match = ( { class = 0x0108; nodes = \"/dev/nvme[0-9]\"; } );");
	assert_null(found("0000:84:00.0")->problem);
	list("driver = \"sysfs\"; match = ( { subsystem = \"nvme\"; child_nodes = true; } );");
	assert_null(found("0000:82:00.0:nvme.0")->problem);
	assert_non_null(strstr(found("0000:84:00.0:nvme.0")->problem, "leads to /dev/ng0n1, as "));
	list(DISKS);
	assert_int_equal(scan.n_devices, 2);
	disk = disk_of("/dev/nvme0n1");
	assert_null(device_variable(disk, "bdf"));
	assert_int_equal(disk->n_numa, 2);
}

/* A resource with controllers and disks offers each disk once. */
static void test_controllers_and_disks(void **state)
{
	plant_machine();
	list("driver = \"sysfs\"; match = ( { subsystem = \"nvme\"; child_nodes = true; }, { subsystem = "
	     "\"block\"; } );");
	assert_int_equal(scan.n_devices, 4);
	assert_null(found("0000:82:00.0:nvme.0")->problem);
	assert_non_null(disk_of("/dev/nvme0n1")->problem);
	assert_non_null(disk_of("/dev/nvme1n1")->problem);
}

/* Devices that no kernel makes. */
static void test_odd_names(void **state)
{
	static const char *const names[] = { "nvme0c0", "nvme0c0n1p1", "nvmec0n1", "nvme0c0n",
		"xnvme0c0n1", "nvme0c0n1x" };

	plant_machine();
	for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
		char directory[128];

		(void)snprintf(directory, sizeof(directory),
			"pci0000:80/0000:83:00.0/nvme/nvme1/%s", names[i]);
		sys_device(directory, "class/block", "");
		sys_write(directory, "hidden", "1\n");
	}
	list(PCI);
	expect_nodes("0000:83:00.0", "/dev/nvme1 /dev/ng1n1 /dev/nvme1n1 ");
	host_remove("/sys/devices/" SUBSYSTEM "/nvme0");
	host_symlink("../nothing", "/sys/devices/" SUBSYSTEM "/nvme0");
	host_symlink("..", "/sys/devices/" SUBSYSTEM "/nvme7");
	host_symlink("..", "/sys/devices/" SUBSYSTEM "/nvme8n1");
	list(DISKS);
	assert_int_equal(disk_of("/dev/nvme0n1")->n_numa, 0);
}

static bool has_nodes(size_t n)
{
	_cleanup_snapshot_ struct snapshot *snapshot = inventory_snapshot(inventory);

	return snapshot->n_units == 1 && snapshot->units[0].healthy &&
		snapshot->units[0].device->n_nodes == n;
}

/* Namespaces appear after their controller. */
static void test_changes(void **state)
{
	plant_controller(0, "0000:82:00.0", "1\n");
	start(PCI);
	assert_true(has_nodes(1));
	plant_subsystem();
	plant_path(0, "0000:82:00.0");
	RUN_UNTIL(has_nodes(3));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		HOST_TEST(test_pci),
		HOST_TEST(test_disks),
		HOST_TEST(test_controllers),
		HOST_TEST(test_two_controllers),
		HOST_TEST(test_controllers_and_disks),
		HOST_TEST(test_odd_names),
		HOST_TEST(test_changes),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
