/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Makes the devices of driver "usb", and decides under which paths a container gets their nodes. A
 * container keeps the paths of its first start for all its restarts (the kubelet stores the reply),
 * while the kernel renumbers nodes when something is plugged in again: so nodes are found by the
 * links that udev keeps for them, where there are any, and get the kernel's names in the container.
 */
#include "drivers/host/sysroot.h"
#include "drivers/host/udev-database.h"
#include "drivers/model/declaration.h"
#include "drivers/usb/usb.h"

/* Subsystems whose devices a USB device may have below it; where events are concerned only. */
static const char *const child_subsystems[] = { "tty", "video4linux", "media", "input", "sound",
	"hidraw", "block", "scsi_generic", "usbmisc", NULL };

struct target {
	struct scan *scan;
	const struct usb_match *match;
	struct device *device;
	bool by_serial;
};

/* --- nodes --- */

/* The first of the links in directories of that name that leads to the node, or NULL. */
static const char *find_link(
	const char *root, const struct strings *links, const char *form, const char *node)
{
	const char *chosen = NULL;

	for (size_t i = 0; i < links->count; i++) {
		_cleanup_free_ char *leads_to = NULL;
		const char *link = links->items[i];

		if (strstr(link, form) && (!chosen || strcmp(link, chosen) < 0) &&
			sysroot_resolve(root, link, &leads_to) >= 0 && streq(leads_to, node))
			chosen = link;
	}
	return chosen;
}

/* The link that leads to the node of this device wherever it is plugged in, or at this port: also
 * if the first one leads to another device with the same serial number. */
static int stable_path(
	const struct target *target, const char *directory, const char *node, char **ret)
{
	const char *root = scan_root(target->scan), *chosen = NULL;
	_cleanup_strings_ struct strings links = { 0 };
	int r;

	r = udev_read_links(root, directory, &links);
	/* The device's own node has no link. */
	if (r == -ENODATA && startswith(node, "/dev/bus/usb/"))
		r = 0;
	if (r == -ENODATA)
		scan_note_absent(target->scan, UDEV_DATABASE,
			"nodes of USB devices have the kernel's names, which change when a "
			"device is plugged in again");
	else if (r < 0)
		return r;
	if (target->by_serial)
		chosen = find_link(root, &links, "/by-id/", node);
	if (!chosen)
		chosen = find_link(root, &links, "/by-path/", node);
	*ret = strdup(chosen ?: node);
	return *ret ? 0 : -ENOMEM;
}

/* Variables that hold the container's path of the first node of a subsystem. */
static const struct {
	const char *name, *subsystem;
} node_variables[] = {
	{ "tty", "tty" },
	{ "video", "video4linux" },
	{ "input", "input" },
	{ "hidraw", "hidraw" },
	{ "block", "block" },
};

static int add_node_variable(struct device *device, const char *subsystem, const char *path)
{
	for (size_t i = 0; i < ARRAY_SIZE(node_variables); i++)
		if (streq(node_variables[i].subsystem, subsystem) &&
			!device_variable(device, node_variables[i].name))
			return device_add_variable(device, node_variables[i].name, path);
	return 0;
}

static int on_device(const char *directory, void *userdata)
{
	const struct target *target = userdata;
	_cleanup_free_ char *node = NULL, *host = NULL;
	const char *root = scan_root(target->scan);
	char subsystem[NAME_MAX + 1];
	int r;

	r = usb_gives_node(target->match, root, directory, subsystem);
	if (r <= 0)
		return r;
	r = sysfs_read_node(root, directory, &node);
	if (r == -EBADMSG || r == -EFBIG)
		return device_set_lack(
			target->device, "the uevent file of its %s has no node", subsystem);
	if (r < 0)
		return sysroot_is_shortage(r) ? r : 0;
	r = stable_path(target, directory, node, &host);
	if (r >= 0)
		r = device_add_node(target->device, host, node, target->match->permissions);
	return r < 0 ? r : add_node_variable(target->device, subsystem, node);
}

static int add_nodes(struct target *target, const struct usb_device *usb)
{
	int r = usb_walk(usb, on_device, target);

	return r == -E2BIG ? device_set_lack(target->device, "it has too many devices below it")
			   : r;
}

/* A container gets nothing from a device without the nodes that are asked for. */
static int check_nodes(const struct target *target)
{
	const struct usb_match *match = target->match;
	char nodes[128];

	if (target->device->n_nodes > 0 || strings_contain(&match->nodes, USB_NO_NODES))
		return 0;
	usb_name_nodes(match, nodes, sizeof(nodes));
	return device_set_lack(
		target->device, "it has no %s%snode: load its driver", nodes, *nodes ? " " : "");
}

/* --- one device of one or several USB devices --- */

static int add_problem(struct scan *scan, struct device *device, const struct usb_device *usb)
{
	int64_t number;

	if (sysfs_read_number(scan_root(scan), usb->directory, "authorized", &number) >= 0 &&
		number == 0)
		return device_set_problem(
			device, "it is not authorised: write 1 to %s/authorized", usb->directory);
	return 0;
}

/* Joins the values of several, with commas, as KubeVirt joins them. */
static int add_joined(struct device *device, const char *name, struct usb_device *const *members,
	size_t n_members, int (*get)(const struct usb_device *usb, char *buffer, size_t size))
{
	_cleanup_free_ char *joined = NULL;
	_cleanup_fclose_ FILE *stream = NULL;
	size_t size;

	stream = open_memstream(&joined, &size);
	if (!stream)
		return -ENOMEM;
	for (size_t i = 0; i < n_members; i++) {
		char value[SYSFS_VALUE_MAX + 1];

		if (get(members[i], value, sizeof(value)) < 0)
			return 0;
		(void)fprintf(stream, "%s%s", i > 0 ? "," : "", value);
	}
	if (fclose(TAKE_PTR(stream)) != 0)
		return -ENOMEM;
	return device_add_variable(device, name, joined);
}

static int copy(const char *text, char *buffer, size_t size)
{
	if (!text)
		return -ENOENT;
	(void)snprintf(buffer, size, "%s", text);
	return 0;
}

static int get_address(const struct usb_device *usb, char *buffer, size_t size)
{
	return snprintf(buffer, size, "%lld:%lld", (long long)usb->bus, (long long)usb->number);
}

static int get_bus(const struct usb_device *usb, char *buffer, size_t size)
{
	return snprintf(buffer, size, "%lld", (long long)usb->bus);
}

static int get_number(const struct usb_device *usb, char *buffer, size_t size)
{
	return snprintf(buffer, size, "%lld", (long long)usb->number);
}

static int get_port(const struct usb_device *usb, char *buffer, size_t size)
{
	return copy(usb->port, buffer, size);
}

static int get_serial(const struct usb_device *usb, char *buffer, size_t size)
{
	return copy(usb->serial, buffer, size);
}

static int get_vendor(const struct usb_device *usb, char *buffer, size_t size)
{
	return snprintf(buffer, size, "%04x", (unsigned)usb->vendor);
}

static int get_product(const struct usb_device *usb, char *buffer, size_t size)
{
	return snprintf(buffer, size, "%04x", (unsigned)usb->product);
}

static int get_manufacturer(const struct usb_device *usb, char *buffer, size_t size)
{
	return copy(usb->manufacturer, buffer, size);
}

static int get_product_name(const struct usb_device *usb, char *buffer, size_t size)
{
	return copy(usb->product_name, buffer, size);
}

static const struct {
	const char *name;
	int (*get)(const struct usb_device *usb, char *buffer, size_t size);
} values[] = {
	{ "usb_address", get_address },
	{ "bus", get_bus },
	{ "devnum", get_number },
	{ "port", get_port },
	{ "serial", get_serial },
	{ "vendor", get_vendor },
	{ "product", get_product },
	{ "manufacturer", get_manufacturer },
	{ "product_name", get_product_name },
};

static int make_id(const struct usb_match *match, struct usb_device *const *members,
	size_t n_members, char ret_id[static DEVICE_ID_MAX + 1])
{
	_cleanup_free_ char *joined = malloc(n_members * (DEVICE_ID_MAX + 1));
	char *end = joined;

	if (!joined)
		return -ENOMEM;
	for (size_t i = 0; i < n_members; i++) {
		if (i > 0)
			*end++ = '+';
		end = stpcpy(
			end, match->identity == USB_BY_PORT ? members[i]->port_id : members[i]->id);
	}
	device_id_make(joined, ret_id);
	return 0;
}

static int add_members(struct target *target, struct usb_device *const *members, size_t n_members)
{
	struct scan *scan = target->scan;
	struct device *device = target->device;
	int r;

	r = sysfs_describe(scan_root(scan), members[0]->directory, device);
	for (size_t i = 0; i < ARRAY_SIZE(values) && r >= 0; i++)
		r = add_joined(device, values[i].name, members, n_members, values[i].get);
	for (size_t i = 0; i < n_members && r >= 0; i++) {
		const struct usb_device *usb = members[i];

		target->by_serial = usb->has_serial_id && target->match->identity == USB_BY_SERIAL;
		r = sysfs_add_numa(scan_root(scan), usb->directory, device);
		if (r >= 0)
			r = add_problem(scan, device, usb);
		if (r >= 0)
			r = add_nodes(target, usb);
	}
	return r < 0 ? r : check_nodes(target);
}

static int add_device(struct scan *scan, const struct usb_match *match,
	struct usb_device *const *members, size_t n_members)
{
	struct target target = { .scan = scan, .match = match };
	char id[DEVICE_ID_MAX + 1];
	int r;

	for (size_t i = 0; i < n_members; i++) {
		members[i]->taken = true;
		if (members[i]->shares_serial && match->identity == USB_BY_SERIAL)
			scan_note(scan,
				"the id of %s includes its port: it is not the first device with "
				"its serial number, or the first one is unknown",
				members[i]->id);
	}
	r = make_id(match, members, n_members, id);
	if (r >= 0)
		r = scan_add(scan, id, &target.device);
	if (r == -EEXIST)
		return 0;
	if (r >= 0)
		r = add_members(&target, members, n_members);
	if (r < 0 && !sysroot_is_shortage(r) && target.device)
		/* It is disappearing; the event is on its way. */
		return device_set_lack(target.device, "it cannot be read: %s", strerror(-r));
	return r;
}

/* --- matching --- */

/* One selector of an entry, and the devices that were tested for it. */
struct place {
	const struct usb_selector *selector;
	const struct conditions *conditions;
	size_t next;
};

/* The next one that no entry has yet, and that `exclude` leaves in. Returns 1, 0 if there is none,
 * or negative errno. */
static int take_next(const struct declaration *declaration, struct place *place,
	struct usb_devices *devices, struct tally *tally, struct usb_device **ret)
{
	while (place->next < devices->count) {
		struct usb_device *device = &devices->items[place->next++];
		const char *name = strrchr(device->directory, '/') + 1;
		int r;

		if (device->taken)
			continue;
		r = conditions_hold(place->conditions, place->selector, device, name, tally);
		if (r < 0)
			return r;
		if (r == 0)
			continue;
		r = scan_excludes(device->scan, declaration, &usb_conditions, device, name,
			device->directory);
		if (r < 0)
			return r;
		device->taken = true;
		if (r > 0)
			continue;
		*ret = device;
		return 1;
	}
	return 0;
}

static struct place *make_places(const struct usb_match *match, size_t n)
{
	struct place *places = calloc(n, sizeof(*places));

	for (size_t i = 0; places && i < n; i++) {
		bool is_part = match->devices.count > 0;

		places[i].selector = is_part ? groups_get(&match->devices, i) : &match->single;
		places[i].conditions = is_part ? &usb_conditions : &usb_entry_conditions;
	}
	return places;
}

/* The tally of one selector of an entry. Nothing is counted after the first device. */
static struct tally *begin_tally(struct scan *scan, const struct usb_match *match, size_t entry,
	size_t selector, const struct conditions *conditions, bool found)
{
	struct tally *tally = found ? NULL : scan_tally(scan, entry, NULL);

	if (!tally)
		return NULL;
	*tally = (struct tally){
		.conditions = conditions, .entry = tally->entry, .left_out = tally->left_out
	};
	if (match->devices.count > 0)
		(void)snprintf(tally->part, sizeof(tally->part), ".devices[%zu]", selector);
	return tally;
}

/* Makes devices of one USB device for each selector until one of them finds none. */
static int list_together(const struct declaration *declaration, struct scan *scan, size_t entry,
	struct usb_devices *devices)
{
	const struct usb_match *match = groups_get(&declaration->match, entry);
	bool found = false;
	size_t n = match->devices.count > 0 ? match->devices.count : 1;
	_cleanup_free_ struct usb_device **members = calloc(n, sizeof(struct usb_device *));
	_cleanup_free_ struct place *places = make_places(match, n);
	int r;

	if (!members || !places)
		return -ENOMEM;
	for (;;) {
		for (size_t i = 0; i < n; i++) {
			r = take_next(declaration, &places[i], devices,
				begin_tally(scan, match, entry, i, places[i].conditions, found),
				&members[i]);
			if (r <= 0) {
				/* What was set aside for a device that does not come about. */
				while (i > 0)
					members[--i]->taken = false;
				return r;
			}
		}
		r = add_device(scan, match, members, n);
		if (r < 0)
			return r;
		found = true;
	}
}

/* Has the scan repeated when what an entry gives comes later than the USB device itself. */
static int want_events(struct scan *scan, const struct declaration *declaration)
{
	int r = scan_events(scan, "usb");

	for (size_t i = 0; i < declaration->match.count; i++) {
		const struct usb_match *match = groups_get(&declaration->match, i);

		for (size_t k = 0; child_subsystems[k] && r >= 0; k++)
			if (patterns_match(&match->nodes, child_subsystems[k]))
				r = scan_events(scan, child_subsystems[k]);
	}
	return r;
}

int usb_list(const struct declaration *declaration, struct scan *scan, struct error *error)
{
	_cleanup_(usb_devices_done) struct usb_devices devices = { 0 };
	int r;

	r = want_events(scan, declaration);
	if (r < 0)
		return error_set(error, r, "cannot listen for events: %s", strerror(-r));
	r = usb_devices_read(declaration, scan, &devices, error);
	if (r < 0)
		return r;
	for (size_t i = 0; i < declaration->match.count && r >= 0; i++)
		r = list_together(declaration, scan, i, &devices);
	return r < 0 ? error_set(error, r, "cannot add USB devices: %s", strerror(-r)) : 0;
}
