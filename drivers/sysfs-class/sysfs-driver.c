/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Driver "sysfs" finds devices of any class or bus of /sys that meet conditions: work queues,
 * accelerators, ports, cameras. It is for hardware without a driver of its own here.
 */
#include "drivers/sysfs-class/sysfs-driver.h"
#include "drivers/model/declaration.h"
#include "drivers/model/driver.h"

#include "drivers/model/form.h"
#include "drivers/model/node-permissions.h"
#include "drivers/model/template.h"

static const char *const group_names[] = { "none", "parent", NULL };

static int check_id(const char *value, struct error *error)
{
	static const char *const unknown[] = { "${id}", "${index}", "${node}" };
	int r = form_device_text(value, error);

	if (r < 0)
		return r;
	for (size_t i = 0; i < ARRAY_SIZE(unknown); i++)
		if (strstr(value, unknown[i]))
			return error_set(error, -EINVAL, "must not use %s, which depends on the id",
				unknown[i]);
	if (!template_is_per_device(value))
		return error_set(error, -EINVAL,
			"must distinguish devices, such as \"${serial}\", but \"%s\" is the same "
			"for all",
			value);
	return 0;
}

static int check_value_name(const char *value, struct error *error)
{
	static const char characters[] =
		"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-";

	return value[strspn(value, characters)]
		? error_set(error, -EINVAL,
			  "must consist of letters, digits, \"_\" and \"-\", not \"%s\"", value)
		: 0;
}

static const struct option value_options[] = {
	{
		.key = "name",
		.type = OPTION_STRING,
		.offset = offsetof(struct sysfs_value, name),
		.required = true,
		.maximum = 63,
		.check = check_value_name,
		.help = "Name of the value, as in ${value:NAME}.",
	},
	{
		.key = "file",
		.type = OPTION_STRING,
		.offset = offsetof(struct sysfs_value, file),
		.required = true,
		.template = true,
		.maximum = 4095,
		.check = form_device_path,
		.help = "The file, such as \"/proc/driver/vendor/${bdf}/information\".",
	},
	{
		.key = "line",
		.type = OPTION_STRING,
		.offset = offsetof(struct sysfs_value, line),
		.maximum = 255,
		.help = "Beginning of the line, such as \"Device node:\": the value is the rest of the first such line. The default is the whole file.",
	},
};

static const struct option_table value_table = {
	.name = "value",
	.size = sizeof(struct sysfs_value),
	.options = value_options,
	.count = ARRAY_SIZE(value_options),
};

static int check_node(const char *value, struct error *error)
{
	return form_device_path(value[0] == '?' ? value + 1 : value, error);
}

/* clang-format off */
static const struct option match_options[] = {
	{
		.key = "subsystem",
		.type = OPTION_STRING,
		.offset = offsetof(struct sysfs_match, subsystem),
		.required = true,
		.check = form_subsystem,
		.help = "Directory of /sys/class or /sys/bus with the devices: \"accel\", \"dsa\", \"tty\". A pattern "
			"means several, \"*\" all devices of the host.",
	},
	SELECTOR_OPTIONS(offsetof(struct sysfs_match, own)),
	{
		.key = "not",
		.type = OPTION_GROUPS,
		.offset = offsetof(struct sysfs_match, not),
		.table = &plain_selector_table,
		.help = "Conditions on the device itself; it must meet none of these entries.",
	},
	{
		.key = "upwards",
		.type = OPTION_GROUPS,
		.offset = offsetof(struct sysfs_match, upwards),
		.table = &selector_table,
		.help = "For each of these, the device itself or one above it must meet the "
			"conditions, as with ATTRS, DRIVERS, KERNELS, SUBSYSTEMS and TAGS in "
			"udev rules.",
	},
	{
		.key = "parents",
		.type = OPTION_GROUPS,
		.offset = offsetof(struct sysfs_match, parents),
		.table = &selector_table,
		.help = "Each of these must match a device above it, such as the USB device of a serial port, or the PCI device of an accelerator.",
	},
	{
		.key = "children",
		.type = OPTION_GROUPS,
		.offset = offsetof(struct sysfs_match, children),
		.table = &selector_table,
		.help = "Each of these must match a device below it.",
	},
	{
		.key = "group",
		.type = OPTION_CHOICE,
		.offset = offsetof(struct sysfs_match, group),
		.choices = group_names,
		.help = "With \"parent\", all matches below one device form one device, such as the nodes of a card.",
	},
	{
		.key = "id",
		.type = OPTION_STRING,
		.offset = offsetof(struct sysfs_match, id),
		.template = true,
		.maximum = 255,
		.check = check_id,
		.help = "Id of the device. The default is derived from its location, such as \"0000:03:00.0:ptp.0\", which is the same after every boot; a device that is software, or whose driver does not show the hardware, has its own name, such as \"misc:kvm\". If several devices would have the same id, the one that was listed first, or that a pod holds under this id, keeps it; the others get the default.",
	},
	{
		.key = "function",
		.type = OPTION_STRING,
		.offset = offsetof(struct sysfs_match, function),
		.template = true,
		.maximum = 255,
		.check = form_device_text,
		.help = "Address of the PCI function that the device belongs to, if its place in /sys does not show that: \"${attr:busname}\". It gives ${bdf} and the NUMA node.",
	},
	{
		.key = "values",
		.type = OPTION_GROUPS,
		.offset = offsetof(struct sysfs_match, values),
		.table = &value_table,
		.help = "Values in files outside of the device's directory, such as the node that a driver names in /proc. Each is a variable, ${value:NAME}, for `id`, `nodes` and the resource's other keys.",
	},
	{
		.key = "nodes",
		.type = OPTION_STRINGS,
		.offset = offsetof(struct sysfs_match, nodes),
		.template = true,
		.check = check_node,
		.help = "Nodes of the device, if they differ from the node in its uevent file; a node that begins with \"?\" may be missing. With a pattern, as in \"/dev/npu${number}ch[0-9]\", all that match; ${node} and ${number} are about the first node of the list.",
	},
	{
		.key = "child_nodes",
		.type = OPTION_BOOL,
		.offset = offsetof(struct sysfs_match, child_nodes),
		.help = "Whether the nodes of all devices below it belong to it.",
	},
	PERMISSIONS_OPTION(struct sysfs_match),
};
/* clang-format on */

static const struct option_table match_table = {
	.name = "match entry",
	.shorthand = "subsystem",
	.size = sizeof(struct sysfs_match),
	.options = match_options,
	.count = ARRAY_SIZE(match_options),
};

static const struct driver_variable variables[] = {
	{ .name = "kernel_name", .help = "Name of the device in the kernel, such as `wq0.1`." },
	{ .name = "subsystem", .help = "Its class or bus.", .permanent = true },
	{ .name = "sysfs", .help = "Its directory in /sys, without symbolic links." },
	{ .name = "devpath", .help = "The directory without /sys, as in udev." },
	{ .name = "devname", .help = "Path of the node in its uevent file." },
	{ .name = "major", .help = "Major number of its first node." },
	{ .name = "minor", .help = "Minor number of its first node." },
	{ .name = "serial",
		.help = "Serial number of the device, or of the nearest device above it that has one.",
		.permanent = true },
	{ .name = "value:NAME", .help = "The value of that name in `values`." },
	{ 0 },
};

/* The values that the template uses must be declared. */
static void check_values(const struct sysfs_match *match, const char *template, const char *key,
	struct report *report)
{
	for (const char *p = template; (p = strstr(p, "${value:"));) {
		size_t length;
		bool known = false;

		p += strlen("${value:");
		length = strcspn(p, "}");
		for (size_t i = 0; i < match->values.count && !known; i++) {
			const struct sysfs_value *value = groups_get(&match->values, i);

			known = strlen(value->name) == length &&
				strncmp(value->name, p, length) == 0;
		}
		if (!known)
			(void)report_add(report, &match->own.origin, key,
				"uses ${value:%.*s}, which \"values\" does not declare",
				(int)length, p);
	}
}

static void sysfs_driver_check(
	const struct declaration *declaration, size_t index, struct report *report)
{
	const struct sysfs_match *match = groups_get(&declaration->match, index);

	attribute_rules_check(&match->own.attributes, "", report);
	if (match->id)
		check_values(match, match->id, "id", report);
	for (size_t i = 0; i < match->nodes.count; i++)
		check_values(match, match->nodes.items[i], "nodes", report);
	selectors_check(&match->not, "not", report);
	selectors_check(&match->upwards, "upwards", report);
	selectors_check(&match->parents, "parents", report);
	selectors_check(&match->children, "children", report);
}

const struct driver sysfs_driver = {
	.name = "sysfs",
	.summary =
		"devices of any class or bus, found by their attributes and those of the devices "
		"above and below them",
	.match = &match_table,
	.noun = "device",
	.conditions = (const struct conditions *const[]){ &sysfs_driver_conditions, NULL },
	.variables = variables,
	.check_entry = sysfs_driver_check,
	.list = sysfs_driver_list,
};
