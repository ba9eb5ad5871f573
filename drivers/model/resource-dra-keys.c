/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Defines the keys of a resource's group `dra`: how its devices are published in ResourceSlices;
 * and of its list `capacity`: what claims share by amount.
 */
#include "drivers/model/declaration-tables.h"
#include "drivers/model/dra-attribute.h"
#include "drivers/model/form.h"
#include "drivers/model/quantity.h"

static const struct option attribute_options[] = {
	{
		.key = "name",
		.type = OPTION_STRING,
		.offset = offsetof(struct declared_attribute, name),
		.required = true,
		.maximum = ATTRIBUTE_NAME_MAX,
		.check = form_attribute_name,
		.help = "Name of the attribute: \"firmware\", which belongs to the domain of the DRA driver, or with a domain, such as \"k8s.cni.cncf.io/deviceID\". It replaces an attribute of that name that devices would have without it.",
	},
	{
		.key = "type",
		.type = OPTION_CHOICE,
		.offset = offsetof(struct declared_attribute, type),
		.default_integer = ATTRIBUTE_STRING,
		.choices = attribute_types,
		.help = "Type of the value. An \"int\" may be written in decimal or with \"0x\", a \"bool\" also as 1 and 0 or Y and N, and a \"version\" also with a \"v\", with fewer numbers or with leading zeros.",
	},
	{
		.key = "value",
		.type = OPTION_STRING,
		.offset = offsetof(struct declared_attribute, value),
		.required = true,
		.template = true,
		.maximum = 1000,
		.check = form_device_text,
		.help = "Value, of at most 64 bytes. A device whose value is empty or invalid does not have the attribute.",
	},
};
static const struct option_table attribute_table = {
	.name = "attribute",
	.size = sizeof(struct declared_attribute),
	.options = attribute_options,
	.count = ARRAY_SIZE(attribute_options),
};

static const struct option dra_options[] = {
	{
		.key = "driver",
		.type = OPTION_STRING,
		.offset = offsetof(struct declared_dra, driver),
		.maximum = DRA_DRIVER_NAME_MAX,
		.check = form_dns_name,
		.help = "Name of the DRA driver that serves the resource, in place of dra.driver at the top of the file: for programs that read only the devices of a driver with a certain name.",
	},
	{
		.key = "attributes",
		.type = OPTION_GROUPS,
		.offset = offsetof(struct declared_dra, attributes),
		.table = &attribute_table,
		.help = "Attributes of each device, in addition to those that devplugd publishes.",
	},
	{
		.key = "numa_list",
		.type = OPTION_BOOL,
		.offset = offsetof(struct declared_dra, numa_list),
		.help = "Whether resource.kubernetes.io/numaNode is a list: the device's NUMA node, and then the nearest nodes of the same socket. Set it only if the API server and the scheduler have the feature gate DRAListTypeAttributes.",
	},
};
const struct option_table dra_table = {
	.name = "dra",
	.size = sizeof(struct declared_dra),
	.options = dra_options,
	.count = ARRAY_SIZE(dra_options),
};

static const struct option capacity_options[] = {
	{
		.key = "name",
		.type = OPTION_STRING,
		.offset = offsetof(struct declared_capacity, name),
		.required = true,
		.maximum = ATTRIBUTE_NAME_MAX,
		.check = form_attribute_name,
		.help = "Name of the capacity, such as \"memory\", which belongs to the domain of the DRA driver. Claims request an amount by this name, and ${capacity:NAME} has the amount.",
	},
	{
		.key = "value",
		.type = OPTION_STRING,
		.offset = offsetof(struct declared_capacity, value),
		.template = true,
		.maximum = 1000,
		.check = form_device_text,
		.help = "What each device has: a quantity such as \"80Gi\" or \"16\". Without it, what the driver knows by this name: `memory` of the driver drm, and `capacity` that a program of the driver exec prints.",
	},
	{
		.key = "min",
		.type = OPTION_STRING,
		.offset = offsetof(struct declared_capacity, min),
		.check = form_quantity,
		.help = "Smallest amount of a claim; a smaller one is raised to it. The default is `step`.",
	},
	{
		.key = "step",
		.type = OPTION_STRING,
		.offset = offsetof(struct declared_capacity, step),
		.check = form_quantity,
		.help = "Amounts are rounded up to a multiple of it, and the value down.",
	},
	{
		.key = "max",
		.type = OPTION_STRING,
		.offset = offsetof(struct declared_capacity, max),
		.check = form_quantity,
		.help = "Largest amount of a claim.",
	},
	{
		.key = "values",
		.type = OPTION_STRINGS,
		.offset = offsetof(struct declared_capacity, values),
		.check = form_quantity,
		.help = "The only amounts that a claim can get, in ascending order and at most 10, in place of a range. Another amount is raised to the next one.",
	},
	{
		.key = "default",
		.type = OPTION_STRING,
		.offset = offsetof(struct declared_capacity, fallback),
		.check = form_quantity,
		.help = "Amount of a claim that names none, also of a pod with `limits`. Without it, such a claim gets the whole device.",
	},
};
const struct option_table capacity_table = {
	.name = "capacity",
	.size = sizeof(struct declared_capacity),
	.options = capacity_options,
	.count = ARRAY_SIZE(capacity_options),
};
