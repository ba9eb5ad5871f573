/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Names of devices of /sys: the same at every boot, independent of the kernel's numbers, and
 * different for different devices. docs/complaints.md: W3, M3.
 */
#include "sysfs-fixture.h"

#include "drivers/host/identity.h"

#define PCI "pci0000:00/0000:00:14.0"

static void expect_identity(const char *directory, const char *expected)
{
	char identity[IDENTITY_MAX + 1], path[512];

	(void)snprintf(path, sizeof(path), "/sys/devices/%s", directory);
	assert_int_equal(identity_of(host_root, path, identity), 0);
	assert_string_equal(identity, expected);
}

static void test_pci(void **state)
{
	sys_device("pci0000:00/0000:00:0b.0", "bus/pci", "");
	sys_device("pci0000:00/0000:00:0b.0/accel/accel7", "class/accel", "");
	sys_device("pci0000:6a/0000:6a:01.0", "bus/pci", "");
	sys_device("pci0000:6a/0000:6a:01.0/dsa4", "bus/dsa", "");
	host_mkdir("/sys/devices/pci0000:6a/0000:6a:01.0/dsa4/power");
	/* No device. */
	host_mkdir("/sys/devices/pci0000:6a/0000:6a:01.0/dsa4/wq3.0");
	for (int i = 0; i < 12; i++) {
		char path[64];

		(void)snprintf(path, sizeof(path), "pci0000:6a/0000:6a:01.0/dsa4/wq4.%d", i);
		sys_device(path, "bus/dsa", "");
		(void)snprintf(path, sizeof(path), "pci0000:6a/0000:6a:01.0/dsa4/group4.%d", i);
		sys_device(path, "bus/dsa", "");
	}
	expect_identity("pci0000:00/0000:00:0b.0", "0000:00:0b.0");
	expect_identity("pci0000:00/0000:00:0b.0/accel/accel7", "0000:00:0b.0:accel.0");
	expect_identity("pci0000:6a/0000:6a:01.0/dsa4/wq4.0", "0000:6a:01.0:dsa.0:wq.0");
	/* By number, not by letter. */
	expect_identity("pci0000:6a/0000:6a:01.0/dsa4/wq4.10", "0000:6a:01.0:dsa.0:wq.10");
	expect_identity("pci0000:6a/0000:6a:01.0/dsa4/wq4.2", "0000:6a:01.0:dsa.0:wq.2");

	/* A device behind a bridge; several nodes of a GPU. */
	sys_device("pci0000:00/0000:00:01.0", "bus/pci", "");
	sys_device("pci0000:00/0000:00:01.0/0000:01:00.0", "bus/pci", "");
	sys_device("pci0000:00/0000:00:01.0/0000:01:00.0/drm/card3", "class/drm", "");
	sys_device("pci0000:00/0000:00:01.0/0000:01:00.0/drm/renderD131", "class/drm", "");
	expect_identity(
		"pci0000:00/0000:00:01.0/0000:01:00.0/drm/renderD131", "0000:01:00.0:renderD.0");
	expect_identity("pci0000:00/0000:00:01.0/0000:01:00.0/drm/card3", "0000:01:00.0:card.0");
}

static void test_disks(void **state)
{
	sys_device("pci0000:00/0000:00:1f.2", "bus/pci", "");
	sys_device("pci0000:00/0000:00:1f.2/ata3/host2", "bus/scsi", "");
	sys_device("pci0000:00/0000:00:1f.2/ata3/host2/target2:0:0", "bus/scsi", "");
	sys_device("pci0000:00/0000:00:1f.2/ata3/host2/target2:0:0/2:0:0:0", "bus/scsi", "");
	sys_device("pci0000:00/0000:00:1f.2/ata3/host2/target2:0:0/2:0:0:0/block/sdc",
		"class/block", "");
	sys_device("pci0000:00/0000:00:1f.2/ata3/host2/target2:0:0/2:0:0:0/block/sdc/sdc1",
		"class/block", "");
	expect_identity("pci0000:00/0000:00:1f.2/ata3/host2/target2:0:0/2:0:0:0/block/sdc",
		"0000:00:1f.2:host.0:target.0:scsi.0:block.0");
	expect_identity("pci0000:00/0000:00:1f.2/ata3/host2/target2:0:0/2:0:0:0/block/sdc/sdc1",
		"0000:00:1f.2:host.0:target.0:scsi.0:block.0:1");
}

static void test_software_and_platform(void **state)
{
	sys_device("virtual/misc/kvm", "class/misc", "");
	sys_device("virtual/block/loop3", "class/block", "");
	sys_device("platform/serial8250", "bus/platform", "");
	sys_device("platform/serial8250/tty/ttyS1", "class/tty", "");
	sys_device("platform/serial8250/tty/ttyS0", "class/tty", "");
	sys_device("pnp0/00:04", "bus/pnp", "");
	sys_device("pnp0/00:04/00:04:0", "bus/serial-base", "");
	sys_device("pnp0/00:04/00:04:0/00:04:0.0", "bus/serial-base", "");
	sys_device("pnp0/00:04/00:04:0/00:04:0.0/tty/ttyS9", "class/tty", "");
	expect_identity("virtual/misc/kvm", "misc:kvm");
	expect_identity("virtual/block/loop3", "block:loop3");
	expect_identity("platform/serial8250/tty/ttyS1", "serial8250:ttyS.1");
	expect_identity("pnp0/00:04/00:04:0/00:04:0.0/tty/ttyS9", "00:04:0.0:ttyS.0");
}

static void make_usb(int bus)
{
	char path[256];

	(void)snprintf(path, sizeof(path), PCI "/usb%d", bus);
	sys_device(path, "bus/usb", "DEVTYPE=usb_device\n");
	(void)snprintf(path, sizeof(path), PCI "/usb%d/%d-1", bus, bus);
	sys_device(path, "bus/usb", "DEVTYPE=usb_device\n");
	(void)snprintf(path, sizeof(path), PCI "/usb%d/%d-1/%d-1.4", bus, bus, bus);
	sys_device(path, "bus/usb", "DEVTYPE=usb_device\n");
	(void)snprintf(path, sizeof(path), PCI "/usb%d/%d-1/%d-1.4/%d-1.4:1.2", bus, bus, bus, bus);
	sys_device(path, "bus/usb", "DEVTYPE=usb_interface\n");
	(void)snprintf(path, sizeof(path), PCI "/usb%d/%d-1/%d-1.4/%d-1.4:1.2/ttyUSB%d", bus, bus,
		bus, bus, bus);
	sys_device(path, "bus/usb-serial", "");
	(void)snprintf(path, sizeof(path),
		PCI "/usb%d/%d-1/%d-1.4/%d-1.4:1.2/ttyUSB%d/tty/ttyUSB%d", bus, bus, bus, bus, bus,
		bus);
	sys_device(path, "class/tty", "");
}

static void test_usb(void **state)
{
	char port[IDENTITY_MAX + 1];

	sys_device(PCI, "bus/pci", "");
	make_usb(3);
	make_usb(10);
	expect_identity(PCI "/usb3/3-1/3-1.4", "usb-0000:00:14.0-0:1.4");
	expect_identity(PCI "/usb10/10-1", "usb-0000:00:14.0-1:1");
	expect_identity(PCI "/usb10/10-1/10-1.4/10-1.4:1.2", "usb-0000:00:14.0-1:1.4:1.2");
	expect_identity(PCI "/usb10/10-1/10-1.4/10-1.4:1.2/ttyUSB10/tty/ttyUSB10",
		"usb-0000:00:14.0-1:1.4:1.2:ttyUSB.0");

	assert_int_equal(
		identity_usb_port(host_root, "/sys/devices/" PCI "/usb3/3-1/3-1.4", port), 0);
	assert_string_equal(port, "0000:00:14.0-0:1.4");
	assert_int_equal(identity_usb_port(host_root, "/sys/devices/" PCI "/usb3", port), -ENOENT);
	assert_int_equal(
		identity_usb_port(host_root, "/sys/devices/" PCI "/usb3/3-1/3-1.4/3-1.4:1.2", port),
		-ENOENT);
	assert_int_equal(identity_usb_port(host_root, "/sys/devices/" PCI, port), -ENOENT);
}

static void test_elsewhere(void **state)
{
	char identity[IDENTITY_MAX + 1];

	host_mkdir("/sys/class/dlb2/dlb0");
	assert_int_equal(identity_of(host_root, "/sys/class/dlb2/dlb0", identity), -EXDEV);
	/* Nothing on the way is a device. */
	host_mkdir("/sys/devices/a/b");
	expect_identity("a/b", "b");
}

/* Longer than any name may be: cut, without harm. */
static void test_long(void **state)
{
	char name[141], directory[320], identity[IDENTITY_MAX + 1];

	memset(name, 'n', sizeof(name) - 1);
	name[sizeof(name) - 1] = '\0';
	sys_device("platform/x", "bus/platform", "");
	(void)snprintf(directory, sizeof(directory), "platform/x/%s0", name);
	sys_device(directory, "bus/platform", "");
	(void)snprintf(directory, sizeof(directory), "platform/x/%s0/m%s0", name, name);
	sys_device(directory, "bus/platform", "");
	(void)snprintf(
		directory, sizeof(directory), "/sys/devices/platform/x/%s0/m%s0", name, name);
	assert_int_equal(identity_of(host_root, directory, identity), 0);
	assert_int_equal(strlen(identity), IDENTITY_MAX);
	assert_true(strncmp(identity, "x:nnn", 5) == 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		HOST_TEST(test_pci),
		HOST_TEST(test_disks),
		HOST_TEST(test_software_and_platform),
		HOST_TEST(test_usb),
		HOST_TEST(test_elsewhere),
		HOST_TEST(test_long),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
