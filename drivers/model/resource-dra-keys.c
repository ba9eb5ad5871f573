/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Defines the keys of a resource's group `dra`: how its devices are published in ResourceSlices.
 */
#include "drivers/model/declaration-tables.h"
#include "drivers/model/dra-attribute.h"
#include "drivers/model/form.h"

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
};
const struct option_table dra_table = {
	.name = "dra",
	.size = sizeof(struct declared_dra),
	.options = dra_options,
	.count = ARRAY_SIZE(dra_options),
};
