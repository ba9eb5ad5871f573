/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Driver "drm" finds GPUs and other devices of the kernel's direct rendering manager. The entries
 * of /sys/class/drm (cardN, renderDN) are grouped by the device they belong to, because their
 * numbers depend on the order of probing: the id is the PCI address. Each partition of an AMD GPU
 * is a device, see drm-kfd.h. The scan is in drm-list.c.
 */
#include "drivers/drm/drm.h"
#include "drivers/model/declaration.h"

#include "drivers/model/driver.h"
#include "drivers/model/form.h"
#include "drivers/model/node-permissions.h"

static const char *const node_choices[] = { "all", "render", "card", NULL };

static const struct option drm_options[] = {
	{
		.key = "vendor",
		.type = OPTION_INTEGERS,
		.offset = offsetof(struct drm_match, vendors),
		.maximum = UINT16_MAX,
		.hexadecimal = true,
		.help = "PCI vendors, such as 0x8086; any if absent.",
	},
	{
		.key = "device",
		.type = OPTION_INTEGERS,
		.offset = offsetof(struct drm_match, models),
		.maximum = UINT16_MAX,
		.hexadecimal = true,
		.help = "PCI device numbers; any if absent.",
	},
	{
		.key = "driver",
		.type = OPTION_STRINGS,
		.offset = offsetof(struct drm_match, drivers),
		.maximum = NAME_MAX,
		.help = "Patterns, as in a shell, of the kernel driver that is bound, such as \"xe\"; any if absent.",
	},
	{
		.key = "address",
		.type = OPTION_STRINGS,
		.offset = offsetof(struct drm_match, addresses),
		.maximum = NAME_MAX,
		.check = form_pci_address,
		.help = "Patterns, as in a shell, of the PCI address; \"0000:00:*\" matches GPUs in the processor.",
	},
	{
		.key = "partition",
		.type = OPTION_STRINGS,
		.offset = offsetof(struct drm_match, partitions),
		.maximum = PARTITION_MAX,
		.help = "Patterns, as in a shell, of the partitioning mode of an AMD GPU: \"cpx_nps4\". A GPU that is not partitioned has \"spx_nps1\".",
	},
	{
		.key = "nodes",
		.type = OPTION_CHOICE,
		.offset = offsetof(struct drm_match, nodes),
		.choices = node_choices,
		.help = "Nodes of a GPU that a container gets: the node for computing and rendering (\"render\"), the node that also sets display modes (\"card\"), or both. A GPU without the node is unhealthy. An entry with neither \"vendor\", \"driver\", \"address\", \"partition\" nor \"compute\" matches only GPUs that have the node.",
	},
	{
		.key = "by_path",
		.type = OPTION_BOOL,
		.offset = offsetof(struct drm_match, by_path),
		.help = "Whether the nodes also get their names in /dev/dri/by-path, which media libraries use. A USB display gets none.",
	},
	{
		.key = "compute",
		.type = OPTION_BOOL,
		.offset = offsetof(struct drm_match, compute),
		.help = "Whether only GPUs of AMD's compute driver (/dev/kfd) match.",
	},
	{
		.key = "split",
		.type = OPTION_BOOL,
		.offset = offsetof(struct drm_match, split),
		.help = "Whether GPUs that have virtual functions (sriov_numvfs is not 0) match, too.",
	},
	{
		.key = "combine",
		.type = OPTION_BOOL,
		.offset = offsetof(struct drm_match, combine),
		.help = "Whether all GPUs of the entry form one device, \"all\", for monitoring. It has the nodes of each GPU and of its management engine (/dev/mei*).",
	},
	PERMISSIONS_OPTION(struct drm_match),
};

static const struct option_table drm_match_table = {
	.name = "match entry",
	.shorthand = "driver",
	.size = sizeof(struct drm_match),
	.options = drm_options,
	.count = ARRAY_SIZE(drm_options),
};

static const struct driver_variable drm_variables[] = {
	{ .name = "card", .help = "Path of the GPU's card node." },
	{ .name = "render", .help = "Path of the GPU's render node." },
	{ .name = "vendor", .help = "PCI vendor, such as 0x1002.", .permanent = true },
	{ .name = "device",
		.help = "PCI device number, such as 0x74a1.",
		.permanent = true,
		.names_model = true },
	{ .name = "driver", .help = "Driver in the kernel.", .permanent = true },
	{ .name = "memory",
		.help = "Bytes of an AMD GPU's own memory, unless it is partitioned.",
		.permanent = true,
		.capacity = true },
	{ .name = "partition",
		.help = "Partitioning mode of an AMD GPU, such as cpx_nps4.",
		.permanent = true,
		.names_model = true },
	{ 0 },
};

static void drm_check(const struct declaration *declaration, size_t index, struct report *report)
{
	const struct drm_match *match = groups_get(&declaration->match, index), *earlier;

	if (match->models.count > 0 && match->vendors.count == 0)
		(void)report_add(
			report, &match->origin, "device", "has no meaning without \"vendor\"");
	for (size_t i = 0; match->combine && i < index; i++) {
		earlier = groups_get(&declaration->match, i);
		if (!earlier->combine)
			continue;
		(void)report_add(report, &match->origin, "combine",
			"can be set in one entry only, because each such entry forms the device \"%s\"",
			DRM_COMBINED_ID);
		return;
	}
}

const struct driver drm_driver = {
	.name = "drm",
	.summary = "GPUs, by the kernel's direct rendering manager",
	.match = &drm_match_table,
	.noun = "GPU",
	.conditions = (const struct conditions *const[]){ &drm_conditions, NULL },
	.variables = drm_variables,
	.check_entry = drm_check,
	.list = drm_list,
};
