/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Defines the keys of the group dra, and the driver of each resource. They only have an effect
 * while a resource sets serve = "dra".
 */
#include "configuration/config.h"
#include "drivers/model/dra-attribute.h"
#include "drivers/model/form.h"

/* A node's name is a DNS subdomain. */
#define NODE_NAME_MAX 253

static const struct option dra_options[] = {
	{
		.key = "driver",
		.type = OPTION_STRING,
		.offset = offsetof(struct dra_config, driver),
		.maximum = DRA_DRIVER_NAME_MAX,
		.check = form_dns_name,
		.help = "Name of the DRA driver: a DNS name in a domain of yours, such as "
			"\"devices.vendor.example\", the same on all nodes of a cluster. A resource may "
			"have another one.",
	},
	{
		.key = "kubeconfig",
		.type = OPTION_STRING,
		.offset = offsetof(struct dra_config, kubeconfig),
		.maximum = 1000,
		.check = form_absolute_path,
		.help = "The kubeconfig file with the address of the API server and the credentials "
			"for it. The default is the ServiceAccount of devplugd's pod, or else the "
			"kubelet's own file, in the place where the distribution has it.",
	},
	{
		.key = "node",
		.type = OPTION_STRING,
		.offset = offsetof(struct dra_config, node),
		.maximum = NODE_NAME_MAX,
		.check = form_dns_name,
		.help = "Name of the Node object. The default is the first of: the environment "
			"variable NODE_NAME, the name in the kubelet's client certificate, the "
			"host's name in lower case.",
	},
	{
		.key = "claim_status",
		.type = OPTION_BOOL,
		.offset = offsetof(struct dra_config, claim_status),
		.help = "Whether the status of a prepared claim reports that its devices are ready, "
			"and the interfaces of network functions. It needs rights that a kubelet "
			"does not have; \"devplugctl dra credentials\" prints them.",
	},
	{
		.key = "forget_after",
		.type = OPTION_SECONDS,
		.offset = offsetof(struct dra_config, forget_after),
		.minimum = 1000,
		.maximum = 7LL * 24 * 3600 * 1000,
		.default_integer = 600LL * 1000,
		.unit = "seconds",
		.help = "Time after which a claim ends that neither the kubelet nor the API server "
			"knows, as by \"devplugctl forget\". Both are asked ten times in it; if one "
			"of them cannot be asked, it begins again.",
	},
};

const struct option_table config_dra_table = {
	.name = "dra",
	.size = sizeof(struct dra_config),
	.options = dra_options,
	.count = ARRAY_SIZE(dra_options),
};

const char *config_driver(const struct config *config, const struct declaration *declaration)
{
	return declaration->dra.driver ?: config->dra.driver;
}

const char *resource_config_driver(const struct resource_config *resource)
{
	return resource->registration == REGISTRATION_DRA
		? config_driver(resource->config, &resource->declaration)
		: NULL;
}
