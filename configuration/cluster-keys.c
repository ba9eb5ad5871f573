/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Defines the keys of the group cluster. devplugd asks the API server for nothing unless one of
 * them, or a resource with serve = "dra", needs it.
 */
#include "configuration/config.h"

static const struct option cluster_options[] = {
	{
		.key = "report",
		.type = OPTION_BOOL,
		.offset = offsetof(struct cluster_config, report),
		.help = "Whether the Node has a condition for each resource, such as "
			"DevplugdVendorExampleGpu, which is True while a device has a problem, "
			"and whether Events are written on the Node and on pods when a device fails, "
			"when it works again, and when its pods are evicted.",
	},
	{
		.key = "labels",
		.type = OPTION_BOOL,
		.offset = offsetof(struct cluster_config, labels),
		.help = "Whether devplugd writes the `labels` of resources on the Node itself, "
			"and not into features_dir.",
	},
};

const struct option_table config_cluster_table = {
	.name = "cluster",
	.size = sizeof(struct cluster_config),
	.options = cluster_options,
	.count = ARRAY_SIZE(cluster_options),
};
