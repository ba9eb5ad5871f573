/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * A server's network cards as Linux shows them: two ports of an Intel XXV710, the first with four
 * virtual functions; a ConnectX-5 with RDMA and a sub-function; a virtio card with the default
 * route; a CAN controller on SPI; a display adapter; and interfaces without hardware.
 */

#include "host-fixture.h"

#include "drivers/host/scan-run.h"

#define BRIDGE "/sys/devices/pci0000:3a/0000:3a:00.0"
#define NET    "driver = \"net\"; match = "

static char fixture_text[1024];

static inline void plant_driver(const char *directory, const char *bus, const char *driver)
{
	host_mkdir(made("/sys/bus/%s/drivers/%s", bus, driver));
	/* The number of "../" is more than enough: the root is where they end. */
	host_symlink(made("../../../../../../../../../../../sys/bus/%s/drivers/%s", bus, driver),
		made("%s/driver", directory));
}

static inline void plant_function(
	const char *address, const char *class, const char *ids, const char *driver)
{
	const char *directory = made(BRIDGE "/%s", address);

	host_mkdir(directory);
	host_mkdir("/sys/bus/pci/devices");
	host_symlink(made("../../../devices/pci0000:3a/0000:3a:00.0/%s", address),
		made("/sys/bus/pci/devices/%s", address));
	host_write(made(BRIDGE "/%s/class", address), made("%s\n", class));
	host_write(made(BRIDGE "/%s/vendor", address), made("0x%.4s\n", ids));
	host_write(made(BRIDGE "/%s/device", address), made("0x%.4s\n", ids + 5));
	host_write(made(BRIDGE "/%s/numa_node", address), "1\n");
	if (driver) {
		host_mkdir(made("/sys/bus/pci/drivers/%s", driver));
		host_symlink(made("../../../../bus/pci/drivers/%s", driver),
			made(BRIDGE "/%s/driver", address));
	}
}

static unsigned planted_index; /* of the interface that was planted last */

/* An interface in a directory of /sys/devices. */
static inline void plant_interface(const char *parent, const char *name, int type)
{
	const char *directory = made("%s/net/%s", parent, name);
	char path[400];

	(void)snprintf(path, sizeof(path), "%s", directory);
	host_mkdir(path);
	host_mkdir("/sys/class/net");
	host_write(made("%s/type", path), made("%d\n", type));
	host_write(made("%s/operstate", path), "up\n");
	host_write(made("%s/address", path), made("02:00:00:00:00:%02x\n", planted_index + 1));
	host_write(made("%s/ifindex", path), made("%u\n", ++planted_index));
	host_symlink("../../../../../../../../../../../sys/class/net", made("%s/subsystem", path));
	host_symlink(made("../..%s", path + strlen("/sys")), made("/sys/class/net/%s", name));
	if (!strstr(path, "/virtual/"))
		host_symlink("../..", made("%s/device", path));
}

static inline void unplant_interface(const char *parent, const char *name)
{
	host_remove(made("/sys/class/net/%s", name));
	host_rename(made("%s/net/%s", parent, name), made("%s/moved-%s", parent, name));
}

static inline void plant_vf(const char *pf, unsigned number, const char *address)
{
	host_symlink(made("../%s", address), made(BRIDGE "/%s/virtfn%u", pf, number));
	host_symlink(made("../%s", pf), made(BRIDGE "/%s/physfn", address));
}

static inline void plant_infiniband(const char *parent, const char *name, unsigned number)
{
	static const char *const classes[][2] = { { "infiniband_verbs", "uverbs" },
		{ "infiniband_mad", "umad" }, { "infiniband_mad", "issm" } };

	host_mkdir(made("%s/infiniband/%s/ports/1", parent, name));
	host_mkdir("/sys/class/infiniband");
	host_write(made("%s/infiniband/%s/ports/1/link_layer", parent, name),
		number == 0 ? "InfiniBand\n" : "Ethernet\n");
	host_write(made("%s/infiniband/%s/ports/1/state", parent, name), "4: ACTIVE\n");
	host_write(made("%s/infiniband/%s/node_type", parent, name), "1: CA\n");
	host_symlink("../..", made("%s/infiniband/%s/device", parent, name));
	host_symlink(made("../..%s/infiniband/%s", parent + strlen("/sys"), name),
		made("/sys/class/infiniband/%s", name));
	for (size_t i = 0; i < ARRAY_SIZE(classes); i++) {
		const char *entry =
			made("/sys/class/%s/%s%u", classes[i][0], classes[i][1], number);
		char path[400];

		(void)snprintf(path, sizeof(path), "%s", entry);
		host_mkdir(path);
		host_write(made("%s/ibdev", path), made("%s\n", name));
		host_mkdir("/dev/infiniband");
		host_mknod(made("/dev/infiniband/%s%u", classes[i][1], number));
	}
	if (number == 0)
		host_mknod("/dev/infiniband/rdma_cm");
}

#define MELLANOX BRIDGE "/0000:d8:00.0"
#define SPI      "/sys/devices/platform/soc/fe204000.spi/spi_master/spi0/spi0.0"

static inline int net_setup(void **state)
{
	if (host_setup(state) < 0)
		return -1;
	plant_function("0000:3b:00.0", "0x020000", "8086:158b", "i40e");
	plant_interface(BRIDGE "/0000:3b:00.0", "ens785f0", 1);
	for (unsigned i = 0; i < 4; i++) {
		char address[16], directory[128];

		(void)snprintf(address, sizeof(address), "0000:3b:02.%u", i);
		(void)snprintf(directory, sizeof(directory), BRIDGE "/%s", address);
		plant_function(address, "0x020000", "8086:154c",
			i == 2           ? "vfio-pci"
				: i == 3 ? NULL
					 : "iavf");
		plant_vf("0000:3b:00.0", i, address);
		if (i < 2)
			plant_interface(directory, made("ens785f0v%u", i), 1);
	}
	plant_function("0000:3b:00.1", "0x020000", "8086:158b", "i40e");
	plant_interface(BRIDGE "/0000:3b:00.1", "ens785f1", 1);

	plant_function("0000:d8:00.0", "0x020700", "15b3:1017", "mlx5_core");
	plant_interface(MELLANOX, "ib0", 32);
	plant_infiniband(MELLANOX, "mlx5_0", 0);
	host_mkdir(MELLANOX "/mlx5_core.sf.4");
	host_write(MELLANOX "/mlx5_core.sf.4/sfnum", "88\n");
	plant_driver(MELLANOX "/mlx5_core.sf.4", "auxiliary", "mlx5_core.sf");
	plant_interface(MELLANOX "/mlx5_core.sf.4", "enp216s0f0s88", 1);
	plant_infiniband(MELLANOX "/mlx5_core.sf.4", "mlx5_2", 2);
	host_mkdir(MELLANOX "/mlx5_core.eth.0");
	host_mkdir("/sys/bus/auxiliary/devices");
	for (unsigned i = 0; i < 2; i++) {
		const char *name = i == 0 ? "mlx5_core.sf.4" : "mlx5_core.eth.0";

		host_symlink(made("../../../devices/pci0000:3a/0000:3a:00.0/0000:d8:00.0/%s", name),
			made("/sys/bus/auxiliary/devices/%s", name));
	}

	plant_function("0000:00:03.0", "0x020000", "1af4:1000", "virtio-pci");
	plant_interface(BRIDGE "/0000:00:03.0/virtio2", "eth0", 1);
	host_mkdir("/proc/net");
	host_write("/proc/net/route",
		"Iface\tDestination\tGateway \tFlags\tRefCnt\tUse\tMetric\tMask\t\tMTU\tWindow\tIRTT\n"
		"ens785f1\t0000000A\t00000000\t0001\t0\t0\t0\t000000FF\t0\t0\t0\n"
		"eth0\t00000000\t0100000A\t0003\t0\t0\t100\t00000000\t0\t0\t0\n");
	plant_function("0000:02:00.0", "0x030000", "1002:744c", "amdgpu");

	host_mkdir(SPI);
	plant_driver(SPI, "spi", "mcp251x");
	plant_interface(SPI, "can0", 280);
	plant_interface("/sys/devices/virtual", "vcan0", 280);
	plant_interface("/sys/devices/virtual", "dummy0", 1);
	plant_interface("/sys/devices/virtual", "lo", 772);
	return 0;
}

/* The scan of a declaration. */
static inline void net_scan(const struct config *declared, struct scan *scan)
{
	struct error error;

	scan->root = host_root;
	if (declaration_of(declared)->driver->list(declaration_of(declared), scan, &error) < 0)
		fail_msg("%s", error.message);
	scan_sort(scan);
}

/* Ids of what a declaration finds, "!" behind one with a problem, each with a space behind it. */
static inline const char *net_found(const char *text)
{
	_cleanup_config_ struct config *declared = declare(text);
	_cleanup_scan_ struct scan scan = { 0 };
	size_t used = 0;

	net_scan(declared, &scan);
	fixture_text[0] = '\0';
	for (size_t i = 0; i < scan.n_devices; i++)
		used += (size_t)snprintf(fixture_text + used, sizeof(fixture_text) - used, "%s%s ",
			scan.devices[i]->id, scan.devices[i]->problem ? "!" : "");
	return fixture_text;
}
