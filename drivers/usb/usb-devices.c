/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads all USB devices that are plugged in, and decides which serial numbers are unique: that is
 * known only from all of them, not from those of one resource. Strings are read only of devices
 * that a resource may have, because the kernel makes the reader wait while a driver has locked the
 * device (sysfs-locked.h).
 */
#include "common/map.h"
#include "drivers/host/sysroot.h"
#include "drivers/usb/usb.h"

#define CLASS_HUB 9

static const char place[] = "/sys/bus/usb/devices";

/* Reads "046d". */
static int read_hexadecimal(const char *root, const char *directory, const char *file, int64_t *ret)
{
	char value[SYSFS_VALUE_MAX + 1];
	int r;

	r = sysfs_read(root, directory, file, value);
	if (r < 0)
		return r;
	if (!*value || strlen(value) > 4 || value[strspn(value, "0123456789abcdefABCDEF")])
		return -EBADMSG;
	*ret = strtol(value, NULL, 16);
	return 0;
}

/* Text that a device may lack, and whose bytes are the device maker's. -EBUSY: it is not known yet.
 */
static int read_string(const char *root, const char *directory, const char *file, char **ret)
{
	char value[SYSFS_VALUE_MAX + 1];
	int r;

	r = sysfs_read(root, directory, file, value);
	if (r < 0 || !*value)
		return r == -EBUSY || sysroot_is_shortage(r) ? r : 0;
	*ret = strdup(value);
	return *ret ? 0 : -ENOMEM;
}

static void usb_device_done(struct usb_device *device)
{
	free(device->directory);
	free(device->serial);
	free(device->manufacturer);
	free(device->product_name);
}

static void make_ids(struct usb_device *device)
{
	char text[SYSFS_VALUE_MAX + IDENTITY_MAX + 32];

	(void)snprintf(text, sizeof(text), "usb-%s", device->port);
	device_id_make(text, device->port_id);
	(void)strcpy(device->id, device->port_id);
	if (!device->serial)
		return;
	(void)snprintf(text, sizeof(text), "usb-%04x-%04x-%s", (unsigned)device->vendor,
		(unsigned)device->product, device->serial);
	device_id_make(text, device->id);
	(void)strcat(strcat(text, "@"), device->port);
	device_id_make(text, device->both_id);
	device->has_serial_id = true;
}

static bool has_numbers(const struct usb_selector *selector, const struct usb_device *device)
{
	return integers_admit(&selector->vendor, device->vendor) &&
		integers_admit(&selector->product, device->product);
}

/* Whether an entry may match the device, or another one that may have the same serial number. */
static bool is_of_interest(const struct declaration *declaration, const struct usb_device *device)
{
	for (size_t i = 0; i < declaration->match.count; i++) {
		const struct usb_match *match = groups_get(&declaration->match, i);

		if (match->devices.count == 0 && has_numbers(&match->single, device))
			return true;
		for (size_t k = 0; k < match->devices.count; k++)
			if (has_numbers(groups_get(&match->devices, k), device))
				return true;
	}
	return false;
}

static int read_strings(const char *root, struct usb_device *device)
{
	int r;

	r = read_string(root, device->directory, "serial", &device->serial);
	if (r >= 0)
		r = read_string(root, device->directory, "manufacturer", &device->manufacturer);
	if (r >= 0)
		r = read_string(root, device->directory, "product", &device->product_name);
	return r;
}

/* Returns -ENOENT if the entry is not a device, or no longer one. */
static int read_device(const char *root, const char *name, struct usb_device *device)
{
	_cleanup_free_ char *path = NULL;
	int r;

	if (strchr(name, ':'))
		return -ENOENT;
	if (format_text(&path, "%s/%s", place, name) < 0)
		return -ENOMEM;
	r = sysfs_resolve(root, path, &device->directory);
	if (r >= 0)
		r = identity_usb_port(root, device->directory, device->port);
	if (r >= 0)
		r = read_hexadecimal(root, device->directory, "idVendor", &device->vendor);
	if (r >= 0)
		r = read_hexadecimal(root, device->directory, "idProduct", &device->product);
	if (r >= 0)
		r = read_hexadecimal(root, device->directory, "bDeviceClass", &device->class);
	if (r >= 0)
		r = sysfs_read_number(root, device->directory, "busnum", &device->bus);
	if (r >= 0)
		r = sysfs_read_number(root, device->directory, "devnum", &device->number);
	return r >= 0 || sysroot_is_shortage(r) ? r : -ENOENT;
}

static int add_device(const struct declaration *declaration, struct scan *scan, const char *name,
	struct usb_devices *devices)
{
	struct usb_device device = { .scan = scan };
	int r;

	r = array_reserve((void **)&devices->items, devices->count, sizeof(*devices->items));
	if (r >= 0)
		r = read_device(scan_root(scan), name, &device);
	if (r >= 0 && is_of_interest(declaration, &device))
		r = read_strings(scan_root(scan), &device);
	if (r == -EBUSY) {
		scan_note(scan,
			"USB device %s (%04x:%04x) is left out until its strings can be read: "
			"the kernel or a driver has locked it",
			name, (unsigned)device.vendor, (unsigned)device.product);
		r = -ENOENT;
	}
	if (r >= 0)
		make_ids(&device);
	if (r < 0) {
		usb_device_done(&device);
		return r;
	}
	devices->items[devices->count++] = device;
	return 0;
}

/* --- names --- */

static int note_shared(const char *root, struct usb_devices *devices)
{
	struct map by_id = { 0 };
	int r = 0;

	for (size_t i = 0; i < devices->count && r >= 0; i++) {
		struct usb_device *device = &devices->items[i];
		struct usb_device *other = map_get(&by_id, device->id);

		if (!device->has_serial_id)
			continue;
		if (other)
			device->shares_serial = other->shares_serial = true;
		else
			r = map_put(&by_id, device->id, device);
	}
	map_done(&by_id);
	for (size_t i = 0; i < devices->count && r >= 0; i++) {
		struct usb_device *device = &devices->items[i];

		if (device->shares_serial &&
			sysfs_read_number(root, device->directory, "power/connected_duration",
				&device->connected) < 0)
			device->connected = 0;
	}
	return r;
}

/* The port of the device that is listed under the id, or NULL. */
static const char *listed_port(const struct scan *scan, const char *id)
{
	const struct device *listed;

	return scan_lists(scan, id, &listed) && listed ? device_variable(listed, "port") : NULL;
}

/* Whether the device was listed by its number and port, or a pod uses it under that id. */
static bool is_known_by_both(const struct scan *scan, const struct usb_device *device)
{
	const struct device *listed;

	if (scan_lists(scan, device->both_id, &listed))
		return true;
	return scan_is_booked(scan, device->both_id) &&
		!streq(listed_port(scan, device->id) ?: "", device->port);
}

/* Whether another device that may be called by the number was connected earlier. */
static bool has_elder(
	const struct scan *scan, const struct usb_devices *devices, const struct usb_device *device)
{
	for (const struct usb_device *other = devices->items;
		other < devices->items + devices->count; other++)
		if (other != device && other->shares_serial && streq(other->id, device->id) &&
			(other->connected > device->connected ||
				(other->connected == device->connected && other < device)) &&
			!is_known_by_both(scan, other))
			return true;
	return false;
}

/* Whether the device, one of several with the same number, was called by it before the others
 * appeared. After a boot, that is the device that was connected first, if a pod uses the number. */
static bool is_first(
	const struct scan *scan, const struct usb_devices *devices, const struct usb_device *device)
{
	const struct device *listed;
	const char *port;

	if (!scan_lists(scan, device->id, &listed) && !scan_is_booked(scan, device->id))
		return false;
	port = listed_port(scan, device->id);
	return port ? streq(port, device->port) : !has_elder(scan, devices, device);
}

/* A container keeps the id of its device, so a device keeps its name for as long as it is listed,
 * independent of other devices. */
static int settle_ids(struct scan *scan, struct usb_devices *devices)
{
	_cleanup_free_ bool *by_both = calloc(devices->count, sizeof(*by_both));
	int r;

	if (!by_both)
		return -ENOMEM;
	r = note_shared(scan_root(scan), devices);
	if (r < 0)
		return r;
	for (size_t i = 0; i < devices->count; i++) {
		const struct usb_device *device = &devices->items[i];

		by_both[i] = device->has_serial_id &&
			(is_known_by_both(scan, device) ||
				(device->shares_serial && !is_first(scan, devices, device)));
	}
	for (size_t i = 0; i < devices->count; i++) {
		struct usb_device *device = &devices->items[i];

		device->shares_serial = device->shares_serial && by_both[i];
		if (!by_both[i])
			continue;
		device->has_serial_id = false;
		(void)strcpy(device->id, device->both_id);
	}
	return 0;
}

static int compare_ports(const void *a, const void *b)
{
	const struct usb_device *x = a, *y = b;
	int order = strverscmp(x->port, y->port);

	return order ? order : strcmp(x->directory, y->directory);
}

int usb_devices_read(const struct declaration *declaration, struct scan *scan,
	struct usb_devices *ret, struct error *error)
{
	_cleanup_strings_ struct strings names = { 0 };
	struct usb_devices devices = { 0 };
	int r;

	r = scan_watch(scan, place);
	if (r >= 0)
		r = sysfs_list(scan_root(scan), place, &names);
	if (sysroot_is_absent(r))
		return 0;
	if (r == -EACCES || r == -EPERM) {
		scan_note(scan, "%s cannot be read, so no USB device is known: %s", place,
			strerror(-r));
		return 0;
	}
	for (size_t i = 0; i < names.count && r >= 0; i++) {
		r = add_device(declaration, scan, names.items[i], &devices);
		if (r == -ENOENT)
			r = 0;
	}
	if (r >= 0 && devices.count > 0) {
		qsort(devices.items, devices.count, sizeof(*devices.items), compare_ports);
		r = settle_ids(scan, &devices);
	}
	if (r < 0) {
		usb_devices_done(&devices);
		return error_set(error, r, "cannot read %s: %s", place, strerror(-r));
	}
	*ret = devices;
	return 0;
}

void usb_devices_done(struct usb_devices *devices)
{
	for (size_t i = 0; i < devices->count; i++)
		usb_device_done(&devices->items[i]);
	free(devices->items);
	*devices = (struct usb_devices){ 0 };
}

/* --- nodes --- */

struct visit {
	struct scan *scan;
	sysfs_visitor visitor;
	void *userdata;
};

/* A hub's ports lead to other devices. */
static int on_child(const char *directory, void *userdata)
{
	const struct visit *visit = userdata;
	char type[SYSFS_VALUE_MAX + 1];
	int r;

	if (sysfs_read_uevent(scan_root(visit->scan), directory, "DEVTYPE", type) >= 0 &&
		streq(type, "usb_device"))
		return SYSFS_WALK_NOT_BELOW;
	r = scan_watch(visit->scan, directory);
	return r < 0 ? r : visit->visitor(directory, visit->userdata);
}

int usb_walk(const struct usb_device *device, sysfs_visitor visitor, void *userdata)
{
	struct visit visit = { .scan = device->scan, .visitor = visitor, .userdata = userdata };
	int r;

	r = scan_watch(device->scan, device->directory);
	if (r >= 0)
		r = visitor(device->directory, userdata);
	return r == SYSFS_WALK_ON
		? sysfs_walk(scan_root(device->scan), device->directory, on_child, &visit)
		: r;
}

int usb_gives_node(const struct usb_match *match, const char *root, const char *directory,
	char ret_subsystem[static NAME_MAX + 1])
{
	int r = sysfs_read_link(root, directory, "subsystem", ret_subsystem);

	if (r < 0)
		return sysroot_is_shortage(r) ? r : 0;
	return patterns_match(&match->nodes, ret_subsystem);
}

void usb_name_nodes(const struct usb_match *match, char *ret_text, size_t size)
{
	size_t length = 0;

	*ret_text = '\0';
	for (size_t i = 0; i < match->nodes.count && length < size; i++)
		length += (size_t)snprintf(ret_text + length, size - length, "%s%s",
			i > 0 ? " or " : "", match->nodes.items[i]);
}

/* --- conditions --- */

static bool leaves_out_hubs(const void *entry)
{
	return ((const struct usb_selector *)entry)->class.count == 0;
}

static int test_class(const void *entry, void *candidate)
{
	const struct integers *classes = &((const struct usb_selector *)entry)->class;
	int64_t class = ((struct usb_device *)candidate)->class;

	return classes->count > 0 ? integers_admit(classes, class) : class != CLASS_HUB;
}

static void found_class(
	const void *entry, const void *candidate, char ret_found[static CONDITION_FOUND_MAX])
{
	int64_t class = ((const struct usb_device *)candidate)->class;

	(void)snprintf(ret_found, CONDITION_FOUND_MAX,
		class == CLASS_HUB ? "is a hub" : "has 0x%02x", (unsigned)class);
}

static int test_interface_class(const void *entry, void *candidate)
{
	const struct integers *classes = &((const struct usb_selector *)entry)->interface_class;
	const struct usb_device *device = candidate;
	const char *root = scan_root(device->scan);
	_cleanup_strings_ struct strings names = { 0 };
	int r;

	if (classes->count == 0)
		return 1;
	r = sysfs_list_directories(root, device->directory, &names);
	if (r < 0)
		return sysroot_is_shortage(r) ? r : 0;
	for (size_t i = 0; i < names.count; i++) {
		_cleanup_free_ char *path = NULL;
		int64_t class;

		if (!strchr(names.items[i], ':'))
			continue;
		if (format_text(&path, "%s/%s", device->directory, names.items[i]) < 0)
			return -ENOMEM;
		r = read_hexadecimal(root, path, "bInterfaceClass", &class);
		if (sysroot_is_shortage(r))
			return r;
		if (r >= 0 && integers_admit(classes, class))
			return 1;
	}
	return 0;
}

static int test_attributes(const void *entry, void *candidate)
{
	const struct usb_selector *selector = entry;
	const struct usb_device *device = candidate;

	return attribute_rules_match(device->scan, &selector->attributes, device->directory);
}

static void found_attributes(
	const void *entry, const void *candidate, char ret_found[static CONDITION_FOUND_MAX])
{
	const struct usb_selector *selector = entry;
	const struct usb_device *device = candidate;

	attribute_rules_describe(device->scan, &selector->attributes, device->directory, ret_found);
}

/* Whether the entry names a kind of device, or the port of this one. */
static bool names_device(const struct usb_selector *selector, const struct usb_device *device)
{
	if (selector->vendor.count + selector->class.count + selector->interface_class.count +
			selector->serial.count + selector->manufacturer.count +
			selector->product_name.count + selector->attributes.count >
		0)
		return true;
	for (size_t i = 0; i < selector->port.count; i++)
		if (streq(selector->port.items[i], device->port))
			return true;
	return false;
}

/* Whether a device of that id, of the same kind, was found before, or a pod uses it. */
static bool is_known_as(const struct usb_device *device, const char *id)
{
	const struct device *listed;
	char vendor[8], product[8];

	if (!scan_lists(device->scan, id, &listed))
		return scan_is_booked(device->scan, id);
	if (!listed)
		return true;
	(void)snprintf(vendor, sizeof(vendor), "%04x", (unsigned)device->vendor & 0xffff);
	(void)snprintf(product, sizeof(product), "%04x", (unsigned)device->product & 0xffff);
	return streq(device_variable(listed, "vendor") ?: "", vendor) &&
		streq(device_variable(listed, "product") ?: "", product);
}

struct search {
	const struct usb_match *match;
	const char *root;
};

static int on_searched(const char *directory, void *userdata)
{
	const struct search *search = userdata;
	_cleanup_free_ char *node = NULL;
	char subsystem[NAME_MAX + 1];
	int r;

	r = usb_gives_node(search->match, search->root, directory, subsystem);
	if (r <= 0)
		return r;
	r = sysfs_read_node(search->root, directory, &node);
	if (sysroot_is_shortage(r))
		return r;
	return r == -ENOENT ? SYSFS_WALK_ON : SYSFS_WALK_STOP;
}

/* In an entry that names no kind of device and no port, the nodes select devices: a device without
 * its driver is like one that never has such a node. */
static int test_nodes(const void *entry, void *candidate)
{
	const struct usb_device *device = candidate;
	struct search search = { .match = entry, .root = scan_root(device->scan) };
	int r;

	if (search.match->nodes.count == 0 || strings_contain(&search.match->nodes, USB_NO_NODES) ||
		names_device(entry, device) || is_known_as(device, device->id) ||
		is_known_as(device, device->port_id))
		return 1;
	r = usb_walk(device, on_searched, &search);
	return sysroot_is_shortage(r) ? r : r == SYSFS_WALK_STOP;
}

static void found_nodes(
	const void *entry, const void *candidate, char ret_found[static CONDITION_FOUND_MAX])
{
	char nodes[64];

	usb_name_nodes(entry, nodes, sizeof(nodes));
	(void)snprintf(ret_found, CONDITION_FOUND_MAX, "has no %s node", nodes);
}

#define STRING(name)                                                                           \
	{                                                                                      \
		CONDITION_OF_STRING(#name, struct usb_selector, name, struct usb_device, name) \
	}

static const struct condition conditions[] = {
	{ .key = "class", .test = test_class, .found = found_class, .is_default = leaves_out_hubs },
	{ CONDITION_OF_INTEGERS("vendor", struct usb_selector, vendor, struct usb_device, vendor) },
	{ CONDITION_OF_INTEGERS(
		"product", struct usb_selector, product, struct usb_device, product) },
	STRING(serial),
	STRING(manufacturer),
	STRING(product_name),
	{ CONDITION_OF_TEXT("port", struct usb_selector, port, struct usb_device, port) },
	{ .key = "interface_class",
		.test = test_interface_class,
		.phrase = "has no interface of that class" },
	{ .key = "attributes", .test = test_attributes, .found = found_attributes },
	{ .key = "nodes", .test = test_nodes, .found = found_nodes },
};

const struct conditions usb_entry_conditions = CONDITIONS("USB device", conditions);

static const struct groups *devices_of(const void *entry)
{
	return &((const struct usb_match *)entry)->devices;
}

/* `nodes` is a key of a whole entry, for devices that are offered. */
const struct conditions usb_conditions = {
	.noun = "USB device",
	.items = conditions,
	.count = ARRAY_SIZE(conditions) - 1,
	.parts = devices_of,
};
