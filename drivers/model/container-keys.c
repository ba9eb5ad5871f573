/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Defines the keys that describe what a container gets: the groups `container` and `cdi_spec` of a
 * resource, with their bounds and defaults.
 */
#include "drivers/model/declaration-tables.h"
#include "drivers/model/form.h"
#include "drivers/model/node-permissions.h"

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
		.help = "Path of the node in the container; the host's path if absent.",
	},
	PERMISSIONS_OPTION(struct declared_node),
	{
		.key = "optional",
		.type = OPTION_BOOL,
		.offset = offsetof(struct declared_node, optional),
		.help = "Omit the node if the host does not have it, instead of failing.",
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
		.help = "Path in the container; the host's path if absent.",
	},
	{
		.key = "read_only",
		.type = OPTION_BOOL,
		.offset = offsetof(struct declared_mount, read_only),
		.help = "Whether the mount is read-only.",
	},
	{
		.key = "optional",
		.type = OPTION_BOOL,
		.offset = offsetof(struct declared_mount, optional),
		.help = "Omit the mount if the host does not have the file or directory, instead of failing.",
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
		.help = "Device nodes that the container gets in addition to those of the device. "
			"A device is unhealthy while a node that it needs is missing.",
	},
	{
		.key = "mounts",
		.type = OPTION_GROUPS,
		.offset = offsetof(struct container, mounts),
		.table = &mount_table,
		.help = "Files and directories of the host mounted into the container. A device "
			"is unhealthy while one that it needs is missing.",
	},
	{
		.key = "env",
		.type = OPTION_STRINGS,
		.offset = offsetof(struct container, env),
		.template = true,
		.check = form_environment,
		.help = "Environment of the container, as \"NAME=value\". If a container may have devices of several resources, use names that differ, such as one with ${env_name}: the kubelet keeps one value for each name.",
	},
	{
		.key = "annotations",
		.type = OPTION_STRINGS,
		.offset = offsetof(struct container, annotations),
		.template = true,
		.check = form_annotation,
		.help = "Annotations for the container runtime, as \"name=value\".",
	},
	{
		.key = "cdi",
		.type = OPTION_STRINGS,
		.offset = offsetof(struct container, cdi),
		.template = true,
		.check = form_cdi,
		.help = "Devices of the Container Device Interface, as \"vendor/class=device\". A device is "
			"unhealthy while container runtimes cannot provide one that it needs: no valid "
			"CDI file defines it, two files of one directory do, or the host lacks a node, "
			"mount or hook that the file names for it.",
	},
	{
		.key = "cdi_dirs",
		.type = OPTION_STRINGS,
		.offset = offsetof(struct container, cdi_dirs),
		.maximum = PATH_LENGTH_MAX,
		.check = form_absolute_path,
		.help = "Directories with the CDI files, if the container runtime is configured to read others than /etc/cdi and /run/cdi, in the same order: a later directory takes precedence.",
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
		.maximum = CDI_KIND_MAX,
		.check = form_cdi_kind,
		.help = "Kind of the names, as \"vendor/class\"; each resource has its own.",
	},
	{
		.key = "annotations",
		.type = OPTION_BOOL,
		.offset = offsetof(struct cdi_spec, annotations),
		.help = "Whether the names are also passed as an annotation, for runtimes that do not read the CRI's field.",
	},
	{
		.key = "uid",
		.type = OPTION_INTEGER,
		.offset = offsetof(struct cdi_spec, uid),
		.maximum = UINT32_MAX - 1,
		.default_integer = CDI_UNSET,
		.help = "User id that owns the nodes in the container. The default is the owner on the host.",
	},
	{
		.key = "gid",
		.type = OPTION_INTEGER,
		.offset = offsetof(struct cdi_spec, gid),
		.maximum = UINT32_MAX - 1,
		.default_integer = CDI_UNSET,
		.help = "Group id of the nodes in the container. The default is the group on the host.",
	},
	{
		.key = "mode",
		.type = OPTION_STRING,
		.offset = offsetof(struct cdi_spec, mode),
		.check = node_mode_check,
		.help = "Mode of the nodes in the container, in octal, such as \"0660\". The default is the mode on the host.",
	},
};
const struct option_table cdi_spec_table = {
	.name = "CDI file",
	.off = offsetof(struct cdi_spec, off),
	.size = sizeof(struct cdi_spec),
	.options = cdi_spec_options,
	.count = ARRAY_SIZE(cdi_spec_options),
};
