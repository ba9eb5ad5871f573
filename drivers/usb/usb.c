/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Driver "usb" finds USB devices, each with the nodes of all its interfaces: one plug is one
 * device. Numbers that change whenever a device is plugged in are never part of an id.
 */
#include "drivers/usb/usb.h"
#include "drivers/model/declaration.h"
#include "drivers/model/driver.h"

#include <ctype.h>

#include "drivers/host/glob.h"
#include "drivers/model/form.h"
#include "drivers/model/node-permissions.h"

/* "0000:00:14.0-0:1.4": the end differs from the kernel's name of the device, "1-1.4". */
static int check_port(const char *value, struct error *error)
{
	const char *ports = strrchr(value, ':'), *hub = ports;

	while (hub > value && isdigit((unsigned char)hub[-1]))
		hub--;
	if (form_is_pattern(value) ||
		(ports && ports[1] && !ports[1 + strspn(ports + 1, "0123456789.")] && hub < ports &&
			hub > value && hub[-1] == '-'))
		return 0;
	return error_set(error, -EINVAL,
		"must be a controller, the number of its root hub, and ports, such as "
		"\"0000:00:14.0-0:1.4\", or a pattern of it, not \"%s\"; with port = \"*\" and "
		"identity = \"port\", devplugctl preview shows all",
		value);
}

static const char *const identities[] = { "serial", "port", NULL };

/* clang-format off */
#define USB_SELECTOR_OPTIONS(base)                                                                 \
	{                                                                                          \
		.key = "vendor",                                                                   \
		.type = OPTION_INTEGERS,                                                           \
		.offset = (base) + offsetof(struct usb_selector, vendor),                          \
		.maximum = 0xffff,                                                                 \
		.hexadecimal = true,                                                               \
		.help = "Number of the vendor (idVendor), such as 0x046d; several are "            \
			"alternatives.",                                                           \
	},                                                                                         \
	{                                                                                          \
		.key = "product",                                                                  \
		.type = OPTION_INTEGERS,                                                           \
		.offset = (base) + offsetof(struct usb_selector, product),                         \
		.maximum = 0xffff,                                                                 \
		.hexadecimal = true,                                                               \
		.help = "Number of the product (idProduct); several are alternatives.",            \
	},                                                                                         \
	{                                                                                          \
		.key = "serial",                                                                   \
		.type = OPTION_STRINGS,                                                            \
		.offset = (base) + offsetof(struct usb_selector, serial),                          \
		.help = "Shell pattern of the serial number; several are alternatives.",           \
	},                                                                                         \
	{                                                                                          \
		.key = "manufacturer",                                                             \
		.type = OPTION_STRINGS,                                                            \
		.offset = (base) + offsetof(struct usb_selector, manufacturer),                    \
		.help = "Shell pattern of the manufacturer's name; several are alternatives.",     \
	},                                                                                         \
	{                                                                                          \
		.key = "product_name",                                                             \
		.type = OPTION_STRINGS,                                                            \
		.offset = (base) + offsetof(struct usb_selector, product_name),                    \
		.help = "Shell pattern of the product's name; several are alternatives.",          \
	},                                                                                         \
	{                                                                                          \
		.key = "port",                                                                     \
		.type = OPTION_STRINGS,                                                            \
		.offset = (base) + offsetof(struct usb_selector, port),                            \
		.check = check_port,                                                               \
		.help = "Shell pattern of its port, such as \"0000:00:14.0-0:1.4\": the "          \
			"controller, the number of the root hub, and the ports from "              \
			"there; several are alternatives.",                                        \
	},                                                                                         \
	{                                                                                          \
		.key = "class",                                                                    \
		.type = OPTION_INTEGERS,                                                           \
		.offset = (base) + offsetof(struct usb_selector, class),                           \
		.maximum = 0xff,                                                                   \
		.help = "Class of the device (bDeviceClass); a hub is found only with its class, " \
			"9.",                                                                      \
	},                                                                                         \
	{                                                                                          \
		.key = "interface_class",                                                          \
		.type = OPTION_INTEGERS,                                                           \
		.offset = (base) + offsetof(struct usb_selector, interface_class),                 \
		.maximum = 0xff,                                                                   \
		.help = "Class of any of its interfaces (bInterfaceClass): 3 is input, 8 "         \
			"storage, 14 video.",                                                      \
	},                                                                                         \
	{                                                                                          \
		.key = "attributes",                                                               \
		.type = OPTION_GROUPS,                                                             \
		.offset = (base) + offsetof(struct usb_selector, attributes),                      \
		.table = &attribute_rule_table,                                                    \
		.help = "Conditions on its files and properties; it must meet all of "             \
			"them.",                                                                   \
	}
/* clang-format on */

static const struct option usb_selector_options[] = { USB_SELECTOR_OPTIONS(0) };

static const struct option_table usb_selector_table = {
	.name = "USB device",
	.size = sizeof(struct usb_selector),
	.options = usb_selector_options,
	.count = ARRAY_SIZE(usb_selector_options),
};

static const struct option match_options[] = {
	USB_SELECTOR_OPTIONS(0),
	{
		.key = "devices",
		.type = OPTION_GROUPS,
		.offset = offsetof(struct usb_match, devices),
		.table = &usb_selector_table,
		.help = "Instead of the keys above: kinds of USB devices. One USB device of each kind together form one device.",
	},
	{
		.key = "identity",
		.type = OPTION_CHOICE,
		.offset = offsetof(struct usb_match, identity),
		.choices = identities,
		.help = "Source of the id. With \"serial\", a device without a serial number "
			"gets the id of its port. If several devices of one kind have the "
			"same number, the first one gets the number, and later ones the "
			"number and the port; those present together when the host starts get "
			"both. An id stays the same for as long as the device is listed, even "
			"if others are plugged in or out. After a reboot, a device gets "
			"the id under which a pod holds it.",
	},
	{
		.key = "nodes",
		.type = OPTION_STRINGS,
		.offset = offsetof(struct usb_match, nodes),
		.help = "Shell pattern of the subsystems whose nodes a container gets: \"usb\" (for libusb), \"tty\", \"video4linux\", \"input\", \"sound\", \"hidraw\", "
			"\"block\"; all if absent, and with \"none\" no node. A device without "
			"such a node is unhealthy. If the entry has no other condition than a "
			"pattern for `port`, it matches only devices with such a node: port = "
			"\"*\" and nodes = \"tty\" match every serial adapter.",
	},
	PERMISSIONS_OPTION(struct usb_match),
};

static const struct option_table match_table = {
	.name = "match entry",
	.size = sizeof(struct usb_match),
	.options = match_options,
	.count = ARRAY_SIZE(match_options),
};

static const struct driver_variable variables[] = {
	{ .name = "usb_address",
		.help = "Bus and number as `bus:number`, such as `1:7`; the number changes each time the device is plugged in." },
	{ .name = "bus", .help = "Number of the bus." },
	{ .name = "devnum", .help = "Number of the device on the bus." },
	{ .name = "port", .help = "Port where it is plugged in, as in `match`." },
	{ .name = "serial", .help = "Serial number.", .permanent = true },
	{ .name = "vendor",
		.help = "Number of the vendor, four hexadecimal digits.",
		.permanent = true },
	{ .name = "product",
		.help = "Number of the product, four hexadecimal digits.",
		.permanent = true },
	{ .name = "manufacturer", .help = "Name of the manufacturer.", .permanent = true },
	{ .name = "product_name", .help = "Name of the product.", .permanent = true },
	{ .name = "sysfs", .help = "Its directory in /sys, without symbolic links." },
	{ .name = "tty", .help = "Path of its first serial port." },
	{ .name = "video", .help = "Path of its first video node." },
	{ .name = "input", .help = "Path of its first input node." },
	{ .name = "hidraw", .help = "Path of its first hidraw node." },
	{ .name = "block", .help = "Path of its first disk." },
	{ 0 },
};

static bool selector_is_set(const struct usb_selector *selector)
{
	return selector->vendor.count > 0 || selector->product.count > 0 ||
		selector->class.count > 0 || selector->interface_class.count > 0 ||
		selector->serial.count > 0 || selector->manufacturer.count > 0 ||
		selector->product_name.count > 0 || selector->port.count > 0 ||
		selector->attributes.count > 0;
}

/* What holds for the selector of an entry, and for each of "devices"; `prefix` as in
 * attribute_rules_check(). */
static void check_selector(
	const struct usb_selector *selector, const char *prefix, struct report *report)
{
	char key[64];

	if (selector->product.count > 0 && selector->vendor.count == 0) {
		(void)snprintf(key, sizeof(key), "%sproduct", prefix);
		(void)report_add(
			report, &selector->origin, key, "has no meaning without \"vendor\"");
	}
	attribute_rules_check(&selector->attributes, prefix, report);
}

static void usb_check(const struct declaration *declaration, size_t index, struct report *report)
{
	const struct usb_match *match = groups_get(&declaration->match, index);
	const struct usb_selector *single = &match->single;

	if (selector_is_set(single) && match->devices.count > 0)
		(void)report_add(report, &single->origin, "devices",
			"set the conditions in each of the \"devices\", not beside them");
	else if (!selector_is_set(single) && match->devices.count == 0)
		(void)report_add(report, &single->origin, "match",
			"an entry without a condition matches every USB device: add \"vendor\", "
			"\"interface_class\" or another, or port = \"*\" for all devices");
	check_selector(single, "", report);
	for (size_t i = 0; i < match->devices.count; i++) {
		const struct usb_selector *selector = groups_get(&match->devices, i);
		char place[40];

		(void)snprintf(place, sizeof(place), "devices[%zu]", i);
		if (!selector_is_set(selector))
			(void)report_add(report, &selector->origin, place,
				"an entry without a condition matches every USB device");
		(void)strcat(place, ".");
		check_selector(selector, place, report);
	}
}

const struct driver usb_driver = {
	.name = "usb",
	.summary = "USB devices with the nodes of all their functions",
	.noun = "USB device",
	.conditions =
		(const struct conditions *const[]){ &usb_entry_conditions, &usb_conditions, NULL },
	.match = &match_table,
	.variables = variables,
	.check_entry = usb_check,
	.list = usb_list,
};
