/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Inside of driver "usb": match entries as they were declared and the USB devices that are plugged
 * in, shared by usb.c (keys, checks), usb-devices.c (the devices and their names) and usb-list.c
 * (from there to devices of a resource).
 */

#include "drivers/host/identity.h"
#include "drivers/host/selector.h"
#include "drivers/host/sysfs-walk.h"
#include "drivers/model/declaration.h"

enum usb_identity { USB_BY_SERIAL, USB_BY_PORT };

struct usb_selector {
	struct origin origin;
	struct integers vendor, product, class, interface_class;
	struct strings serial, manufacturer, product_name, port;
	struct groups attributes; /* struct attribute_rule */
};

struct usb_match {
	struct usb_selector
		single;        /* without conditions: `devices` instead; first, so that origin is */
	struct groups devices; /* struct usb_selector: one of each make one device */
	int identity;          /* enum usb_identity */
	struct strings nodes;  /* patterns of subsystems; none: all; or USB_NO_NODES */
	char *permissions;
};

/* The value of `nodes` with which a container gets no node. */
#define USB_NO_NODES "none"

/* A device that is plugged in, as /sys shows it (Documentation/ABI/testing/sysfs-bus-usb). */
struct usb_device {
	char *directory;
	struct scan *scan;
	int64_t vendor, product, class; /* idVendor, idProduct, bDeviceClass */
	int64_t bus, number; /* busnum, devnum: the latter is new with every plugging in */
	char *serial, *manufacturer, *product_name; /* NULL: it has none */
	char port[IDENTITY_MAX + 1];
	char id[DEVICE_ID_MAX + 1]; /* by serial number, with the port if it is not the first */
	char port_id[DEVICE_ID_MAX + 1]; /* by port */
	char both_id[DEVICE_ID_MAX + 1]; /* by serial number and port */
	bool has_serial_id;              /* `id` is by serial number alone */
	bool shares_serial;              /* there is one more of the same kind and number */
	int64_t connected;               /* milliseconds, of one that shares its number; or 0 */
	bool taken;                      /* by an entry */
};

struct usb_devices {
	struct usb_device *items; /* in the order of their ports */
	size_t count;
};

/* Reads all that are plugged in, hubs too, but not root hubs; strings only of those whose vendor
 * and product an entry may match. Devices that disappear meanwhile are left out, and those whose
 * strings cannot be read yet. Returns 0 or negative errno with the error filled. */
int usb_devices_read(const struct declaration *declaration, struct scan *scan,
	struct usb_devices *ret, struct error *error);
void usb_devices_done(struct usb_devices *devices);

/* Visits the device and what is below it (sysfs_walk()), without the devices that are plugged into
 * a hub, and has the scan repeated when one of these directories changes. */
int usb_walk(const struct usb_device *device, sysfs_visitor visitor, void *userdata);

/* Whether the device that has this directory has a node that the entry gives. Returns 1, 0 or a
 * shortage (sysroot.h). */
int usb_gives_node(const struct usb_match *match, const char *root, const char *directory,
	char ret_subsystem[static NAME_MAX + 1]);

/* Writes the subsystems whose nodes an entry gives: "tty or video4linux", "" for all. */
void usb_name_nodes(const struct usb_match *match, char *ret_text, size_t size);

/* The conditions of an entry of `match` without `devices` on a usb_device; and those of a
 * usb_selector, or of a usb_match in `exclude`. */
extern const struct conditions usb_entry_conditions, usb_conditions;

/* Adds the devices of all entries to the scan. */
int usb_list(const struct declaration *declaration, struct scan *scan, struct error *error);
