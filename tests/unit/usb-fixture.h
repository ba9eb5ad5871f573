/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * USB devices below a hub in the /sys of the tree that stands for a machine.
 */

#include "sysfs-fixture.h"

#define HUB          "pci0000:00/0000:00:14.0/usb1"
#define PORT(number) "0000:00:14.0-0:" #number

/* Directory of the device at "1-2.1". */
static inline void usb_path(const char *name, char path[static 200])
{
	const char *dot = strchr(name, '.');

	if (dot)
		(void)snprintf(path, 200, HUB "/%.*s/%s", (int)(dot - name), name, name);
	else
		(void)snprintf(path, 200, HUB "/%s", name);
}

static inline void usb_write(const char *name, const char *file, const char *text)
{
	char path[200];

	usb_path(name, path);
	sys_write(path, file, text);
}

static inline void write_number(const char *name, int number)
{
	char text[200];

	(void)snprintf(text, sizeof(text), "%d\n", number);
	usb_write(name, "devnum", text);
	(void)snprintf(text, sizeof(text), "/dev/bus/usb/001/%03d", number);
	host_node(text);
	(void)snprintf(text, sizeof(text),
		"MAJOR=189\nDEVNAME=bus/usb/001/%03d\nDEVTYPE=usb_device\nDRIVER=usb\n", number);
	usb_write(name, "uevent", text);
}

/* Plugs a device in; serial NULL: it has none. */
static inline void plug(
	const char *name, int number, const char *vendor, const char *product, const char *serial)
{
	char path[200];

	host_mkdir("/run/udev/data");
	usb_path(name, path);
	sys_device(path, "bus/usb", "");
	usb_write(name, "idVendor", vendor);
	usb_write(name, "idProduct", product);
	usb_write(name, "bDeviceClass", "00\n");
	usb_write(name, "busnum", "1\n");
	write_number(name, number);
	if (serial)
		usb_write(name, "serial", serial);
}

static inline void add_interface(const char *name, int number, const char *class)
{
	char path[200], interface[256];

	usb_path(name, path);
	(void)snprintf(interface, sizeof(interface), "%s/%s:1.%d", path, name, number);
	sys_device(interface, "bus/usb", "DEVTYPE=usb_interface\n");
	sys_write(interface, "bInterfaceClass", class);
}

/* Adds a device of a class to an interface, and its node. */
static inline void add_child(const char *name, int number, const char *class, const char *rest)
{
	char path[200], child[400], node[128], uevent[160], subsystem[64];
	const char *last = strrchr(rest, '/') + 1;

	usb_path(name, path);
	(void)snprintf(child, sizeof(child), "%s/%s:1.%d/%s", path, name, number, rest);
	(void)snprintf(uevent, sizeof(uevent), "DEVNAME=%s\n", last);
	(void)snprintf(subsystem, sizeof(subsystem), "class/%s", class);
	sys_device(child, subsystem, uevent);
	(void)snprintf(node, sizeof(node), "/dev/%s", last);
	host_node(node);
}

static inline void make_hubs(void)
{
	sys_device("pci0000:00/0000:00:14.0", "bus/pci", "");
	sys_write("pci0000:00/0000:00:14.0", "numa_node", "0\n");
	sys_device(HUB, "bus/usb", "DEVTYPE=usb_device\nDEVNAME=bus/usb/001/001\n");
	plug("1-2", 2, "05e3\n", "0610\n", NULL);
	usb_write("1-2", "bDeviceClass", "09\n");
}

/* A card reader, a camera behind a hub and a serial adapter. */
static inline void make_devices(void)
{
	make_hubs();
	plug("1-1", 3, "0951\n", "1666\n", "E0D55E6C\n");
	usb_write("1-1", "manufacturer", "Kingston\n");
	usb_write("1-1", "product", "DataTraveler 3.0\n");
	add_interface("1-1", 0, "08\n");
	add_child("1-1", 0, "block", "host6/target6:0:0/6:0:0:0/block/sdb");
	add_child("1-1", 0, "block", "host6/target6:0:0/6:0:0:0/block/sdb/sdb1");
	plug("1-2.1", 4, "046d\n", "0825\n", NULL);
	add_interface("1-2.1", 0, "0e\n");
	add_interface("1-2.1", 2, "01\n");
	add_child("1-2.1", 0, "video4linux", "video4linux/video0");
	add_child("1-2.1", 0, "video4linux", "video4linux/video1");
	plug("1-2.3", 5, "0403\n", "6001\n", "A9\n");
	add_interface("1-2.3", 0, "ff\n");
	add_child("1-2.3", 0, "tty", "ttyUSB0/tty/ttyUSB0");
}

#define USB(conditions) "driver = \"usb\"; match = ( { " conditions " } );"
