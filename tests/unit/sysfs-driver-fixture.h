/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * An NPU, the work queues of a DSA, and serial ports in the /sys of the tree that stands for a
 * machine.
 */

#include "sysfs-fixture.h"

#define NPU "pci0000:00/0000:00:0b.0"
#define DSA "pci0000:6a/0000:6a:01.0"

static inline void make_npu(void)
{
	sys_device(NPU, "bus/pci", "DRIVER=intel_vpu\nPCI_ID=8086:7D1D\n");
	sys_write(NPU, "vendor", "0x8086\n");
	sys_write(NPU, "device", "0x7d1d\n");
	sys_write(NPU, "numa_node", "1\n");
	host_mkdir("/sys/bus/pci/drivers/intel_vpu");
	host_symlink("../../../bus/pci/drivers/intel_vpu", "/sys/devices/" NPU "/driver");
	sys_device(
		NPU "/accel/accel0", "class/accel", "MAJOR=261\nMINOR=0\nDEVNAME=accel/accel0\n");
	host_symlink("../../../0000:00:0b.0", "/sys/devices/" NPU "/accel/accel0/device");
	sys_write(NPU "/accel/accel0", "dev", "261:0\n");
	host_node("/dev/accel/accel0");
}

static inline void make_queue(int n, const char *state, const char *type, const char *mode)
{
	char path[128];

	(void)snprintf(path, sizeof(path), DSA "/dsa0/wq0.%d", n);
	sys_device(path, "bus/dsa", "DEVTYPE=idxd_wq\n");
	sys_write(path, "state", state);
	sys_write(path, "type", type);
	sys_write(path, "mode", mode);
	(void)snprintf(path, sizeof(path), "/dev/dsa/wq0.%d", n);
	host_node(path);
}

static inline void make_serial_port(const char *port, const char *name, const char *serial)
{
	char path[256], node[64], uevent[128];

	(void)snprintf(path, sizeof(path), "pci0000:00/0000:00:14.0/usb1/%s", port);
	sys_device(path, "bus/usb", "DEVTYPE=usb_device\nDRIVER=usb\n");
	sys_write(path, "idVendor", "0403\n");
	sys_write(path, "serial", serial);
	(void)snprintf(path, sizeof(path), "pci0000:00/0000:00:14.0/usb1/%s/%s:1.0", port, port);
	sys_device(path, "bus/usb", "DEVTYPE=usb_interface\n");
	(void)snprintf(path, sizeof(path), "pci0000:00/0000:00:14.0/usb1/%s/%s:1.0/tty/%s", port,
		port, name);
	(void)snprintf(uevent, sizeof(uevent), "DEVNAME=%s\n", name);
	sys_device(path, "class/tty", uevent);
	(void)snprintf(node, sizeof(node), "/dev/%s", name);
	host_node(node);
}
