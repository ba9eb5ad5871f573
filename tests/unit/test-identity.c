/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Names of devices of /sys: the same at every boot, independent of the kernel's numbers, and
 * different for different devices. complaints.md: W3, M3.
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

/* Two disks of one controller; the kernel counts the ports of all controllers. */
static void test_sata(void **state)
{
	sys_device("pci0000:00/0000:00:1f.2", "bus/pci", "");
	for (int i = 0; i < 2; i++) {
		char path[256];
		int n = 7 + 4 * i;

		(void)snprintf(path, sizeof(path), "pci0000:00/0000:00:1f.2/ata%d", n);
		host_mkdir(made("/sys/devices/%s", path));
		sys_write(path, "uevent", "");
		sys_device(made("%s/host%d", path, n), "bus/scsi", "");
		sys_device(made("%s/host%d/target%d:0:0", path, n, n), "bus/scsi", "");
		sys_device(made("%s/host%d/target%d:0:0/%d:0:0:0", path, n, n, n), "bus/scsi", "");
		sys_device(
			made("%s/host%d/target%d:0:0/%d:0:0:0/block/sd%c", path, n, n, n, "fc"[i]),
			"class/block", "");
	}
	sys_device("pci0000:00/0000:00:1f.2/ata11/host11/target11:0:0/11:0:0:0/block/sdc/sdc1",
		"class/block", "");
	expect_identity("pci0000:00/0000:00:1f.2/ata7/host7/target7:0:0/7:0:0:0/block/sdf",
		"0000:00:1f.2:ata.0:host.0:0:0:0:block.0");
	expect_identity("pci0000:00/0000:00:1f.2/ata11/host11/target11:0:0/11:0:0:0/block/sdc/sdc1",
		"0000:00:1f.2:ata.1:host.0:0:0:0:block.0:1");
}

/* Disks behind a controller whose ports have names: SAS with an expander, and two units of one port
 * of Fibre Channel. The numbers of ports and targets are those of discovery. */
static void test_storage_networks(void **state)
{
	static const char sas[] =
		"pci0000:00/0000:02:00.0/host3/port-3:0/expander-3:0/port-3:0:%d/end_device-3:0:%d";
	static const char rport[] = "pci0000:00/0000:04:00.0/host5/rport-5:0-9";
	char path[256];

	sys_device("pci0000:00/0000:02:00.0", "bus/pci", "");
	sys_device("pci0000:00/0000:02:00.0/host3", "bus/scsi", "");
	for (int i = 4; i < 6; i++) {
		(void)snprintf(path, sizeof(path), sas, i, i);
		host_mkdir(made("/sys/devices/%s/sas_device/end_device-3:0:%d", path, i));
		sys_write(path, "uevent", "");
		sys_write(path, made("sas_device/end_device-3:0:%d/sas_address", i),
			i == 4 ? "0x5000c500a1b2c3d5\n" : "0x5000c500a1b2c3d9\n");
		sys_device(made("%s/target3:0:%d", path, i), "bus/scsi", "");
		sys_device(made("%s/target3:0:%d/3:0:%d:0", path, i, i), "bus/scsi", "");
		expect_identity(made("%s/target3:0:%d/3:0:%d:0", path, i, i),
			i == 4 ? "0000:02:00.0:host.0:0x5000c500a1b2c3d5:0"
			       : "0000:02:00.0:host.0:0x5000c500a1b2c3d9:0");
	}

	sys_device("pci0000:00/0000:04:00.0", "bus/pci", "");
	sys_device("pci0000:00/0000:04:00.0/host5", "bus/scsi", "");
	host_mkdir(made("/sys/devices/%s/fc_remote_ports/rport-5:0-9", rport));
	sys_write(rport, "uevent", "");
	sys_device(made("%s/target5:0:2", rport), "bus/scsi", "");
	for (int unit = 0; unit < 2; unit++)
		sys_device(made("%s/target5:0:2/5:0:2:%d", rport, unit), "bus/scsi", "");
	/* Without the port's name, the parts of the unit's. */
	expect_identity(made("%s/target5:0:2/5:0:2:1", rport), "0000:04:00.0:host.0:0:2:1");
	sys_write(rport, "fc_remote_ports/rport-5:0-9/port_name", "0x500a0981\n");
	expect_identity(made("%s/target5:0:2/5:0:2:1", rport), "0000:04:00.0:host.0:0x500a0981:1");
}

/* A card gets another address (RCA) each time when it is initialized; a function of SDIO is below
 * its card. */
static void test_memory_cards(void **state)
{
	static const char host[] = "pci0000:00/0000:00:07.0";

	sys_device(host, "bus/pci", "");
	for (int i = 0; i < 2; i++) {
		const char *card = i == 0 ? "0a1e" : "850e";
		const char *path = made("%s/mmc_host/mmc%d", host, i);

		sys_device(path, "class/mmc_host", "");
		sys_device(made("%s/mmc%d:%s", path, i, card), "bus/mmc", "");
		sys_device(made("%s/mmc%d:%s/block/mmcblk%d", path, i, card, i), "class/block", "");
	}
	expect_identity(made("%s/mmc_host/mmc0/mmc0:0a1e/block/mmcblk0", host),
		"0000:00:07.0:mmc.0:mmcblk.0");
	expect_identity(made("%s/mmc_host/mmc1/mmc1:850e/block/mmcblk1", host),
		"0000:00:07.0:mmc.1:mmcblk.0");
	sys_device(made("%s/mmc_host/mmc1/mmc1:0001", host), "bus/mmc", "");
	sys_device(made("%s/mmc_host/mmc1/mmc1:0001/mmc1:0001:2", host), "bus/sdio", "");
	expect_identity(
		made("%s/mmc_host/mmc1/mmc1:0001/mmc1:0001:2", host), "0000:00:07.0:mmc.1:2");
}

/* A namespace that one controller leads to, and one that several do. */
static void test_nvme(void **state)
{
	static const char shared[] = "virtual/nvme-subsystem/nvme-subsys3";

	sys_device("pci0000:00/0000:01:00.0", "bus/pci", "");
	sys_device("pci0000:00/0000:01:00.0/nvme/nvme4", "class/nvme", "");
	sys_device("pci0000:00/0000:01:00.0/nvme/nvme4/nvme4n2", "class/block", "");
	sys_device("pci0000:00/0000:01:00.0/nvme/nvme4/nvme4n2/nvme4n2p1", "class/block", "");
	expect_identity("pci0000:00/0000:01:00.0/nvme/nvme4/nvme4n2", "0000:01:00.0:nvme.0:n2");
	expect_identity("pci0000:00/0000:01:00.0/nvme/nvme4/nvme4n2/nvme4n2p1",
		"0000:01:00.0:nvme.0:n2:p1");
	sys_device(shared, "class/nvme-subsystem", "");
	sys_device(made("%s/nvme3n1", shared), "class/block", "");
	expect_identity(made("%s/nvme3n1", shared), "nvme-subsystem:nvme-subsys3:n1");
	sys_write(shared, "subsysnqn", "nqn.2019-08.org.qemu:mp1\n");
	expect_identity(made("%s/nvme3n1", shared), "nqn.2019-08.org.qemu:mp1:n1");
}

static void expect_without_numbers(int n)
{
	static const char soc[] = "platform/soc/fe804000.i2c", lpc[] = "pci0000:00/0000:00:1f.0";
	static const char smbus[] = "pci0000:00/0000:00:1f.4";

	sys_device("platform/soc", "bus/platform", "");
	sys_device(soc, "bus/platform", "");
	sys_device(smbus, "bus/pci", "");
	sys_device(lpc, "bus/pci", "");
	sys_device(made("%s/i2c-%d", smbus, n), "bus/i2c", "");
	sys_device(made("%s/i2c-%d/i2c-dev/i2c-%d", smbus, n, n), "class/i2c-dev", "");
	expect_identity(made("%s/i2c-%d/i2c-dev/i2c-%d", smbus, n, n), "0000:00:1f.4:i2c.0");
	/* A multiplexer's bus, 10 below 1. */
	sys_device(made("%s/i2c-%d/i2c-%d0", smbus, n, n), "bus/i2c", "");
	expect_identity(made("%s/i2c-%d/i2c-%d0", smbus, n, n), "0000:00:1f.4:i2c.0:i2c.0");
	/* A bus that is software. */
	sys_device(made("i2c-%d", n + 1), "bus/i2c", "");
	expect_identity(made("i2c-%d", n + 1), "i2c.0");
	/* A clock on a bus of the board. */
	sys_device(made("%s/i2c-%d", soc, n + 2), "bus/i2c", "");
	sys_device(made("%s/i2c-%d/%d-0068", soc, n + 2, n + 2), "bus/i2c", "");
	sys_device(made("%s/i2c-%d/%d-0068/rtc/rtc%d", soc, n + 2, n + 2, n), "class/rtc", "");
	expect_identity(made("%s/i2c-%d/%d-0068/rtc/rtc%d", soc, n + 2, n + 2, n),
		"fe804000.i2c:i2c.0:0068:rtc.0");
	sys_device(made("%s/iTCO_wdt.%d.auto", lpc, n), "bus/platform", "");
	sys_device(
		made("%s/iTCO_wdt.%d.auto/watchdog/watchdog%d", lpc, n, n), "class/watchdog", "");
	expect_identity(made("%s/iTCO_wdt.%d.auto/watchdog/watchdog%d", lpc, n, n),
		"0000:00:1f.0:iTCO_wdt.0:watchdog.0");
}

/* The ids do not depend on what the kernel found before the devices. */
static void test_numbers(void **state)
{
	expect_without_numbers(1);
	assert_int_equal(host_teardown(state), 0);
	assert_int_equal(host_setup(state), 0);
	expect_without_numbers(9);
}

/* Devices with a permanent name, of which others may be created and removed. */
static void test_uuids(void **state)
{
	static const char *const names[] = { "83b8f4f2-509f-382f-3c1e-e6bfe0fa1001",
		"83b8f4f2-509f-382f-3c1e-e6bfe0fa1002", "0b8f4f2a-509f-382f-3c1e-e6bfe0fa100b",
		"0b8f4f2a-509f-382f-3c1e-e6bfe0fa100c" };

	sys_device("pci0000:00/0000:3b:00.4", "bus/pci", "");
	sys_device("LNXSYSTM:00", "bus/acpi", "");
	sys_device("LNXSYSTM:00/VMBUS:00", "bus/acpi", "");
	for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
		sys_device(made("pci0000:00/0000:3b:00.4/%s", names[i]), "bus/mdev", "");
		expect_identity(made("pci0000:00/0000:3b:00.4/%s", names[i]), names[i]);
		sys_device(made("LNXSYSTM:00/VMBUS:00/%s", names[i]), "bus/vmbus", "");
		expect_identity(made("LNXSYSTM:00/VMBUS:00/%s", names[i]), names[i]);
	}
	sys_device("pci0000:00/0000:3b:00.4/83b8f4f2-509f-382f-3c1e-e6bfe0fa100", "bus/mdev", "");
	expect_identity("pci0000:00/0000:3b:00.4/83b8f4f2-509f-382f-3c1e-e6bfe0fa100",
		"0000:3b:00.4:83b8f4f2-509f-382f-3c1e-e6bfe0fa.0");
}

/* Nodes of different kinds with equal numbers, of one device. */
static void test_equal_numbers(void **state)
{
	static const char card[] = "pci0000:00/0000:00:1f.3/sound/card1";

	sys_device("pci0000:00/0000:00:1f.3", "bus/pci", "");
	sys_device(card, "class/sound", "");
	sys_device(made("%s/hwC1D0", card), "class/sound", "");
	sys_device(made("%s/midiC1D0", card), "class/sound", "");
	sys_device(made("%s/pcmC1D0c", card), "class/sound", "");
	expect_identity(made("%s/hwC1D0", card), "0000:00:1f.3:card.0:D0");
	expect_identity(made("%s/midiC1D0", card), "0000:00:1f.3:card.0:midi:D0");
	expect_identity(made("%s/pcmC1D0c", card), "0000:00:1f.3:card.0:D0c");
	sys_device("pci0000:00/0000:01:00.0", "bus/pci", "");
	sys_device("pci0000:00/0000:01:00.0/nvme/nvme4", "class/nvme", "");
	sys_device("pci0000:00/0000:01:00.0/nvme/nvme4/nvme4n1", "class/block", "");
	sys_device("pci0000:00/0000:01:00.0/nvme/nvme4/ng4n1", "class/nvme-generic", "");
	expect_identity("pci0000:00/0000:01:00.0/nvme/nvme4/nvme4n1", "0000:01:00.0:nvme.0:n1");
	expect_identity("pci0000:00/0000:01:00.0/nvme/nvme4/ng4n1", "0000:01:00.0:nvme.0:ng:n1");
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
	/* What the firmware names is unique, wherever it is. */
	sys_device("LNXSYSTM:00", "bus/acpi", "");
	sys_device("LNXSYSTM:00/LNXSYBUS:00", "bus/acpi", "");
	sys_device("LNXSYSTM:00/LNXSYBUS:00/MSFT0101:00", "bus/acpi", "");
	sys_device("LNXSYSTM:00/LNXSYBUS:00/MSFT0101:00/tpmrm/tpmrm1", "class/tpmrm", "");
	sys_device("platform/soc", "bus/platform", "");
	sys_device("platform/soc/fe204000.spi", "bus/platform", "");
	sys_device("platform/soc/fe204000.spi/spi_master/spi6", "class/spi_master", "");
	sys_device("platform/soc/fe204000.spi/spi_master/spi6/spi6.1", "bus/spi", "");
	sys_device("platform/soc/fe204000.spi/spi_master/spi6/spi6.1/spidev/spidev6.1",
		"class/spidev", "");
	sys_device("platform/soc/thermal", "bus/platform", "");
	expect_identity("LNXSYSTM:00/LNXSYBUS:00/MSFT0101:00/tpmrm/tpmrm1", "MSFT0101:00:tpmrm.0");
	expect_identity("platform/soc/fe204000.spi/spi_master/spi6/spi6.1/spidev/spidev6.1",
		"fe204000.spi:spi.0.1:spidev.0");
	expect_identity("platform/soc/thermal", "soc:thermal");
	expect_identity("virtual/misc/kvm", "misc:kvm");
	expect_identity("virtual/block/loop3", "block:loop3");
	assert_false(identity_is_numbered("/sys/devices/virtual/misc/kvm", "misc:kvm"));
	assert_true(identity_is_numbered("/sys/devices/virtual/block/loop3", "block:loop3"));
	assert_true(identity_is_numbered("/sys/devices/virtual/npu/npu1/x", "npu:npu1:x"));
	assert_false(identity_is_numbered("/sys/devices/virtual/npu/npu1", "misc"));
	assert_false(identity_is_numbered("/sys/devices/virtual/npu/npu1", "npu:np"));
	assert_false(identity_is_numbered("/sys/devices/virtual/npu", "npu"));
	assert_false(identity_is_numbered(
		"/sys/devices/virtual/nvme-subsystem/nvme-subsys1/nvme1n1", "nqn.x:n1"));
	assert_false(identity_is_numbered(
		"/sys/devices/pci0000:00/0000:00:0b.0/accel/accel7", "0000:00:0b.0:accel.0"));
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
		HOST_TEST(test_sata),
		HOST_TEST(test_storage_networks),
		HOST_TEST(test_memory_cards),
		HOST_TEST(test_nvme),
		HOST_TEST(test_numbers),
		HOST_TEST(test_uuids),
		HOST_TEST(test_equal_numbers),
		HOST_TEST(test_software_and_platform),
		HOST_TEST(test_usb),
		HOST_TEST(test_elsewhere),
		HOST_TEST(test_long),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
