/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Decides which PCI address is a device's own, and what becomes of a configured value that a device
 * does not have or that the API does not accept.
 */
#include "drivers/inventory/published-attributes.h"

#include "drivers/host/device-values.h"
#include "drivers/host/numa-near.h"
#include "drivers/host/scan-run.h"
#include "drivers/host/sysroot.h"
#include "drivers/model/declaration.h"
#include "drivers/model/driver.h"
#include "drivers/model/form.h"
#include "drivers/model/template.h"

static int add(struct device *device, const char *name, const char *value)
{
	_cleanup_free_ char *text = NULL;

	if (format_text(&text, "%s=%s", name, value) < 0)
		return -ENOMEM;
	return strings_add(&device->attributes, text, strlen(text));
}

/* --- the PCI tree --- */

/* Whether the directory, or the device of a class that it describes, is the function. */
static bool is_function(const char *root, const char *directory, const char *address)
{
	_cleanup_free_ char *link = NULL, *parent = NULL;

	if (streq(strrchr(directory, '/') + 1, address))
		return true;
	return format_text(&link, "%s/device", directory) >= 0 &&
		sysfs_resolve(root, link, &parent) >= 0 && streq(strrchr(parent, '/') + 1, address);
}

/* The address of the function that is this device alone, in the standard's form of a domain of four
 * digits. */
static int add_address(const char *root, const char *directory, struct device *device)
{
	const char *address = device_variable(device, "bdf");

	if (!address || device->part || !form_is_pci_address(address) || address[4] != ':' ||
		(directory && !is_function(root, directory, address)))
		return 0;
	return add(device, ATTRIBUTE_PCI_ADDRESS, address);
}

/* "pci0000:00" of "/sys/devices/pci0000:00/0000:00:01.0/0000:01:00.0". */
static int add_root(const char *directory, struct device *device)
{
	const char *bus = strstr(directory, "/devices/pci");
	char name[ATTRIBUTE_VALUE_MAX + 1];

	if (!bus)
		return 0;
	bus += strlen("/devices/");
	(void)snprintf(name, sizeof(name), "%.*s", (int)strcspn(bus, "/"), bus);
	return add(device, ATTRIBUTE_PCI_ROOT, name);
}

static int add_place(const char *root, struct device *device)
{
	const char *sysfs = device_variable(device, "sysfs");
	_cleanup_free_ char *directory = NULL;
	int r;

	if (sysfs) {
		r = sysfs_resolve(root, sysfs, &directory);
		if (r < 0)
			return sysroot_is_shortage(r) ? r : 0;
	}
	r = add_address(root, directory, device);
	return r < 0 || !directory ? r : add_root(directory, device);
}

/* --- NUMA nodes --- */

/* All nodes of the device, and those that are near them. */
static int add_nodes(struct numa_near *near, struct device *device)
{
	char list[ATTRIBUTE_VALUE_MAX + 1] = "";
	size_t count = 0;
	int r = 0;

	for (size_t i = 0; i < device->n_numa; i++)
		numa_near_add_node(list, &count, device->numa[i]);
	for (size_t i = 0; i < device->n_numa && r >= 0; i++)
		r = numa_near_add(near, device->numa[i], list, &count);
	return r < 0 || count == 0 ? r : add(device, ATTRIBUTE_NUMA_NODE, list);
}

static int add_lists(const struct declaration *declaration, struct scan *scan)
{
	struct numa_near near = { .root = scan_root(scan) };
	int r = 0;

	if (!declaration->dra.numa_list)
		return 0;
	for (size_t i = 0; i < scan->n_devices && r >= 0; i++)
		r = add_nodes(&near, scan->devices[i]);
	numa_near_done(&near);
	return r;
}

/* --- the configuration --- */

struct naming {
	const struct declaration *declaration;
	const struct declared_attribute *attribute;
	struct scan *scan;
	size_t left_out;        /* how many devices do not have it */
	const char *first;      /* one of them */
	struct error first_why; /* and the reason */
};

/* While the kernel has locked a file, the last value stays. */
static int keep_value(const struct naming *naming, struct device *device)
{
	const char *name = naming->attribute->name;
	const struct device *listed;

	if (!scan_lists(naming->scan, device->id, &listed) || !listed)
		return 0;
	for (size_t i = 0; i < listed->attributes.count; i++) {
		const char *rest = startswith(listed->attributes.items[i], name);

		if (rest && *rest == '=')
			return add(device, name, rest + 1);
	}
	return 0;
}

static int name_device(struct naming *naming, size_t index)
{
	struct device *device = naming->scan->devices[index];
	struct device_values values = {
		.root = scan_root(naming->scan),
		.device = device,
		.index = index,
	};
	const struct template_context context = {
		.name = naming->declaration->name,
		.device_value = device_values_get,
		.userdata = &values,
	};
	char value[ATTRIBUTE_VALUE_MAX + 1];
	_cleanup_free_ char *text = NULL;
	struct error error = { 0 }, form;
	int r;

	r = template_expand(naming->attribute->value, &context, &text, &error);
	if (r == -ENOMEM)
		return r;
	if (values.busy)
		return keep_value(naming, device);
	if (r >= 0) {
		r = attribute_value_make(naming->attribute->type, text, value, &form);
		if (r < 0)
			(void)error_set(&error, r, "the value %.200s", form.message);
	}
	if (r >= 0)
		return add(device, naming->attribute->name, value);
	if (naming->left_out++ == 0) {
		naming->first = device->id;
		naming->first_why = error;
	}
	return 0;
}

static int name_devices(struct naming *naming)
{
	int r = 0;

	for (size_t i = 0; i < naming->scan->n_devices && r >= 0; i++)
		if (!declaration_leaves_out(naming->declaration, naming->scan->devices[i]))
			r = name_device(naming, i);
	if (r >= 0 && naming->left_out > 0)
		scan_explain(naming->scan,
			"devices without the attribute \"%s\": %zu, such as %s: %s",
			naming->attribute->name, naming->left_out, naming->first,
			naming->first_why.message);
	return r;
}

int published_attributes_add(const struct declaration *declaration, struct scan *scan)
{
	int r = 0;

	if (declaration->serve != SERVE_DRA && !declaration->metadata)
		return 0;
	for (size_t i = 0; i < scan->n_devices && r >= 0; i++)
		r = add_place(scan_root(scan), scan->devices[i]);
	if (r >= 0)
		r = add_lists(declaration, scan);
	for (size_t i = 0; i < declaration->dra.attributes.count && r >= 0; i++) {
		struct naming naming = {
			.declaration = declaration,
			.attribute = groups_get(&declaration->dra.attributes, i),
			.scan = scan,
		};

		r = name_devices(&naming);
	}
	return r;
}

/* --- --- */

static void hand_over(const char *name, enum attribute_type type, const char *text,
	published_attribute_handler handler, void *userdata)
{
	char value[ATTRIBUTE_VALUE_MAX + 1];

	if (attribute_value_make(type, text, value, &(struct error){ 0 }) >= 0)
		handler(name, type, value, userdata);
}

void published_attributes_each(const struct declaration *declaration, const struct device *device,
	published_attribute_handler handler, void *userdata)
{
	for (size_t i = 0; i < device->attributes.count; i++) {
		const char *item = device->attributes.items[i], *value = strchr(item, '=') + 1;
		const struct declared_attribute *attribute;
		char name[ATTRIBUTE_NAME_MAX + 1];

		(void)snprintf(name, sizeof(name), "%.*s", (int)(value - 1 - item), item);
		attribute = declaration_attribute(declaration, name);
		/* A saved device may have an attribute of an earlier configuration. */
		if (attribute || attribute_is_built_in(name))
			hand_over(name, attribute ? attribute->type : ATTRIBUTE_STRING, value,
				handler, userdata);
	}
	for (const struct driver_variable *p = declaration->driver->variables; p && p->name; p++) {
		const char *name = driver_variable_attribute(p);
		const char *value = name ? device_variable(device, p->name) : NULL;

		if (value && !declaration_attribute(declaration, name))
			hand_over(name, p->type, value, handler, userdata);
	}
}
