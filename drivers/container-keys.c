/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Keys of what a container is given: the groups `container` and `cdi_spec` of a resource.
 */
#include "drivers/declaration-tables.h"
#include "drivers/form.h"

static const struct option node_options[] = {
	{
		.key = "host",
		.type = OPTION_STRING,
		.offset = offsetof(struct declared_node, host),
		.required = true,
		.template = true,
		.maximum = PATH_LENGTH_MAX,
		.check = form_node_path,
		.help = "Device node on the host; a leading \"?\" marks one that may be missing.",
	},
	{
		.key = "path",
		.type = OPTION_STRING,
		.offset = offsetof(struct declared_node, path),
		.template = true,
		.maximum = PATH_LENGTH_MAX,
		.check = form_template_path,
		.help = "Where the node is in the container; as on the host if absent.",
	},
	{
		.key = "permissions",
		.type = OPTION_STRING,
		.offset = offsetof(struct declared_node, permissions),
		.default_string = "rw",
		.check = form_permissions,
		.help = "What the container may do: \"r\" read, \"w\" write, \"m\" make nodes.",
	},
	{
		.key = "optional",
		.type = OPTION_BOOL,
		.offset = offsetof(struct declared_node, optional),
		.help = "Leave the node out if the host does not have it, instead of failing.",
	},
};
static const struct option_table node_table = {
	.name = "device node",
	.shorthand = "host",
	.size = sizeof(struct declared_node),
	.options = node_options,
	.count = ARRAY_SIZE(node_options),
};

static const struct option mount_options[] = {
	{
		.key = "host",
		.type = OPTION_STRING,
		.offset = offsetof(struct declared_mount, host),
		.required = true,
		.template = true,
		.maximum = PATH_LENGTH_MAX,
		.check = form_template_path,
		.help = "File or directory on the host.",
	},
	{
		.key = "path",
		.type = OPTION_STRING,
		.offset = offsetof(struct declared_mount, path),
		.template = true,
		.maximum = PATH_LENGTH_MAX,
		.check = form_template_path,
		.help = "Where it is in the container; as on the host if absent.",
	},
	{
		.key = "read_only",
		.type = OPTION_BOOL,
		.offset = offsetof(struct declared_mount, read_only),
		.help = "Whether the container may only read it.",
	},
};
static const struct option_table mount_table = {
	.name = "mount",
	.size = sizeof(struct declared_mount),
	.options = mount_options,
	.count = ARRAY_SIZE(mount_options),
};

static const struct option container_options[] = {
	{
		.key = "nodes",
		.type = OPTION_GROUPS,
		.offset = offsetof(struct container, nodes),
		.table = &node_table,
		.help = "Device nodes given to the container beside those of the device.",
	},
	{
		.key = "mounts",
		.type = OPTION_GROUPS,
		.offset = offsetof(struct container, mounts),
		.table = &mount_table,
		.help = "Files and directories of the host mounted into the container.",
	},
	{
		.key = "env",
		.type = OPTION_STRINGS,
		.offset = offsetof(struct container, env),
		.template = true,
		.check = form_environment,
		.help = "Environment of the container, as \"NAME=value\".",
	},
	{
		.key = "annotations",
		.type = OPTION_STRINGS,
		.offset = offsetof(struct container, annotations),
		.template = true,
		.check = form_annotation,
		.help = "Annotations handed to the container runtime, as \"name=value\".",
	},
	{
		.key = "cdi",
		.type = OPTION_STRINGS,
		.offset = offsetof(struct container, cdi),
		.template = true,
		.check = form_cdi,
		.help = "Devices of the Container Device Interface, as \"vendor/class=device\".",
	},
};
const struct option_table container_table = {
	.name = "container",
	.size = sizeof(struct container),
	.options = container_options,
	.count = ARRAY_SIZE(container_options),
};

static const struct option cdi_spec_options[] = {
	{
		.key = "kind",
		.type = OPTION_STRING,
		.offset = offsetof(struct cdi_spec, kind),
		.required = true,
		.maximum = 200,
		.check = form_cdi_kind,
		.help = "What the names begin with, as \"vendor/class\"; each resource has its own.",
	},
	{
		.key = "annotations",
		.type = OPTION_BOOL,
		.offset = offsetof(struct cdi_spec, annotations),
		.help = "Whether the names are also given as an annotation, for runtimes that do not "
			"read them from the CRI's own field.",
	},
};
const struct option_table cdi_spec_table = {
	.name = "CDI file",
	.size = sizeof(struct cdi_spec),
	.options = cdi_spec_options,
	.count = ARRAY_SIZE(cdi_spec_options),
};
