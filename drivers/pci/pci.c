/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Driver "pci" finds functions of the PCI bus, selected by type and location, for any use in user
 * space: through the nodes of their driver, or with VFIO, UIO or vDPA instead of one. The id is the
 * address, which stays the same while the card stays in its slot.
 */
#include "drivers/pci/pci.h"
#include "drivers/model/declaration.h"
#include "drivers/model/driver.h"

#include "drivers/host/glob.h"
#include "drivers/host/ranges.h"
#include "drivers/model/form.h"
#include "drivers/model/node-permissions.h"

static const char *const accesses[] = { "nodes", "vfio", "vfio-cdev", "uio", "mdev", "vdpa", NULL };
static const char *const roles[] = { "any", "pf", "vf", "plain", NULL };
static const char *const policies[] = { "fold", "refuse", "ignore", "together", "slot", NULL };

#define ID_OPTION(name, what)                                                                      \
	{                                                                                          \
		.key = #name, .type = OPTION_INTEGERS, .offset = offsetof(struct pci_match, name), \
		.maximum = 0xffff, .hexadecimal = true, .help = what                               \
	}

static const struct option match_options[] = {
	{
		.key = "access",
		.type = OPTION_CHOICE,
		.offset = offsetof(struct pci_match, access),
		.choices = accesses,
		.help = "How a container accesses a function: through the nodes of its driver (\"nodes\"), its IOMMU group (\"vfio\"), its own VFIO node and iommufd (\"vfio-cdev\"), its UIO node (\"uio\"), one of its mediated devices, each of which is a device (\"mdev\"), or the nodes of its vDPA devices (\"vdpa\").",
	},
	ID_OPTION(vendor, "Vendors of the functions, such as 0x8086."),
	ID_OPTION(device, "Device numbers of that vendor."),
	{
		.key = "class",
		.type = OPTION_INTEGERS,
		.offset = offsetof(struct pci_match, class),
		.minimum = 1,
		.maximum = 0xffffff,
		.hexadecimal = true,
		.help = "Class codes: the base class alone (0x12), with the subclass (0x0302), or with both the subclass and the programming interface (0x010802).",
	},
	ID_OPTION(subsystem_vendor, "Vendors of the card (subsystem)."),
	ID_OPTION(subsystem_device, "Numbers of the card (subsystem)."),
	{
		.key = "driver",
		.type = OPTION_STRINGS,
		.offset = offsetof(struct pci_match, driver),
		.maximum = 255,
		.help = "Patterns, as in a shell, of the kernel driver that is bound.",
	},
	{
		.key = "address",
		.type = OPTION_STRINGS,
		.offset = offsetof(struct pci_match, address),
		.maximum = 255,
		.check = form_pci_address,
		.help = "Patterns of the address: \"0000:03:00.0\", \"0000:8[0-9a-f]:*\".",
	},
	{
		.key = "role",
		.type = OPTION_CHOICE,
		.offset = offsetof(struct pci_match, role),
		.choices = roles,
		.help = "Role in SR-IOV: physical functions (\"pf\"), virtual functions (\"vf\"), neither (\"plain\"), or all except physical functions that have virtual ones (\"any\").",
	},
	{
		.key = "pf",
		.type = OPTION_STRINGS,
		.offset = offsetof(struct pci_match, pf),
		.maximum = 255,
		.check = form_pci_address_or_name,
		.help = "Virtual functions of these physical functions: patterns of an address or of the name of a network interface.",
	},
	{
		.key = "functions",
		.type = OPTION_STRING,
		.offset = offsetof(struct pci_match, functions),
		.maximum = 1023,
		.check = ranges_check,
		.help = "Virtual functions with these numbers, which start at 0: \"0-3,5\".",
	},
	{
		.key = "attributes",
		.type = OPTION_GROUPS,
		.offset = offsetof(struct pci_match, attributes),
		.table = &attribute_rule_table,
		.help = "Conditions on the files of the function's directory and its properties; "
			"all must hold.",
	},
	{
		.key = "iommu_group",
		.type = OPTION_CHOICE,
		.offset = offsetof(struct pci_match, iommu_group),
		.choices = policies,
		.help = "For \"vfio\" and \"vfio-cdev\", when functions share an IOMMU group, which only one container can use: \"fold\" makes one device of the functions that match, with the "
			"address of the first one as the id; \"refuse\" lists such functions as "
			"unhealthy; \"ignore\" lists them as separate devices, even if pods would get "
			"the same group; \"together\" does so, but does not offer a function while a pod has "
			"another one of its group, and needs prefer = \"links\"; \"slot\" makes one device of "
			"the functions of a slot that match, with the groups of all, for a card that needs several. `exclude` takes a function out "
			"of ${addresses}, not out of its group.",
	},
	{
		.key = "nodes",
		.type = OPTION_STRINGS,
		.offset = offsetof(struct pci_match, nodes),
		.variant = "nodes",
		.maximum = 4095,
		.check = form_absolute_path,
		.help = "Patterns of the nodes that the container gets, such as \"/dev/dri/renderD*\". The default is all nodes of the function.",
	},
	{
		.key = "mdev_type",
		.type = OPTION_STRINGS,
		.offset = offsetof(struct pci_match, mdev_type),
		.variant = "mdev",
		.maximum = 1023,
		.help = "Patterns of the type's id or name: \"nvidia-233\", \"GRID T4-2Q\".",
	},
	PERMISSIONS_OPTION(struct pci_match),
};

static const struct option_table match_table = {
	.name = "match entry",
	.selector = "access",
	.size = sizeof(struct pci_match),
	.options = match_options,
	.count = ARRAY_SIZE(match_options),
};

static const struct driver_variable variables[] = {
	{ .name = "vendor",
		.help = "Vendor of the function, such as 0x8086. For a mediated device, this and the "
			"following variables apply to its parent function.",
		.permanent = true },
	{ .name = "device",
		.help = "Device number of the function, such as 0x4941.",
		.permanent = true,
		.names_model = true },
	{ .name = "class",
		.help = "Class code of the function, such as 0x0b4000.",
		.permanent = true },
	{ .name = "driver",
		.help = "Kernel driver of the function; no value if none is bound.",
		.permanent = true },
	{ .name = "pf",
		.help = "Address of the physical function that a virtual one belongs to.",
		.permanent = true },
	{ .name = "vf", .help = "Number of the virtual function, from 0.", .permanent = true },
	{ .name = "iommu_group", .help = "Number of the IOMMU group; only with VFIO." },
	{ .name = "addresses",
		.help = "Addresses of the matching functions that form the device, separated by commas; "
			"no value for a mediated device.",
		.permanent = true },
	{ .name = "uio", .help = "Name of the UIO device, such as uio0." },
	{ .name = "mdev_uuid",
		.help = "UUID of the mediated device.",
		.permanent = true,
		.attribute = "mdevUUID" },
	{ .name = "mdev_type",
		.help = "Id of the mediated device's type, such as nvidia-233.",
		.permanent = true },
	{ 0 },
};

/* Whether the entry has no condition on functions. */
static bool names_nothing(const struct pci_match *match)
{
	return match->vendor.count == 0 && match->class.count == 0 &&
		match->subsystem_vendor.count == 0 && match->driver.count == 0 &&
		match->address.count == 0 && match->pf.count == 0 && match->mdev_type.count == 0;
}

static void pci_check(const struct declaration *declaration, size_t index, struct report *report)
{
	const struct pci_match *match = groups_get(&declaration->match, index);
	bool vfio = match->access == PCI_VFIO || match->access == PCI_VFIO_CDEV;

	if (names_nothing(match))
		(void)report_add(report, &match->origin, "match",
			"would match any function of the bus: add a vendor, a class, a subsystem_vendor, a driver, an address, a pf or an mdev_type");
	if (match->device.count > 0 && match->vendor.count == 0)
		(void)report_add(
			report, &match->origin, "device", "has no meaning without \"vendor\"");
	if (match->subsystem_device.count > 0 && match->subsystem_vendor.count == 0)
		(void)report_add(report, &match->origin, "subsystem_device",
			"has no meaning without \"subsystem_vendor\"");
	if ((match->pf.count > 0 || match->functions) && match->role != PCI_ROLE_ANY &&
		match->role != PCI_ROLE_VF)
		(void)report_add(report, &match->origin, "role",
			"must be \"vf\" or absent if \"pf\" or \"functions\" is set, because these select virtual functions");
	attribute_rules_check(&match->attributes, "", report);
	if (match->iommu_group == PCI_GROUP_TOGETHER && declaration->prefer != PREFER_LINKS)
		(void)report_add(report, &match->origin, "iommu_group",
			"\"together\" needs prefer = \"links\", so that a container gets functions of one group");
	if (match->iommu_group != PCI_GROUP_FOLD && !vfio)
		(void)report_add(report, &match->origin, "iommu_group",
			"is only for access = \"vfio\" and \"vfio-cdev\", remove it");
}

/* Whether addresses are the only conditions of the entry. */
static bool names_addresses(const struct pci_match *match)
{
	return match->access != PCI_MDEV && match->role == PCI_ROLE_ANY && !match->functions &&
		match->vendor.count == 0 && match->class.count == 0 &&
		match->subsystem_vendor.count == 0 && match->driver.count == 0 &&
		match->attributes.count == 0 && match->pf.count == 0;
}

static int pci_claims(const struct declaration *declaration, struct strings *ret_claims)
{
	_cleanup_strings_ struct strings claims = { 0 };
	int r;

	for (size_t i = 0; i < declaration->match.count; i++) {
		const struct pci_match *match = groups_get(&declaration->match, i);

		for (size_t k = 0; names_addresses(match) && k < match->address.count; k++) {
			const char *address = match->address.items[k];

			if (form_is_pattern(address))
				continue;
			r = strings_add(&claims, address, strlen(address));
			if (r < 0)
				return r;
		}
	}
	*ret_claims = claims;
	claims = (struct strings){ 0 };
	return 0;
}

const struct driver pci_driver = {
	.name = "pci",
	.summary =
		"functions of the PCI bus: through their driver's nodes, VFIO, UIO, mediated devices "
		"or vDPA",
	.match = &match_table,
	.noun = "PCI function",
	.conditions =
		(const struct conditions *const[]){ &pci_conditions, &pci_mdev_conditions, NULL },
	.variables = variables,
	.check_entry = pci_check,
	.claims = pci_claims,
	.list = pci_list,
};
