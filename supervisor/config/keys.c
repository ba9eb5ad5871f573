/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The keys of a configuration file beside those of its resources (drivers/declaration-keys.c): the
 * one place that says what may be written, with defaults, bounds and help.
 */
#include <syslog.h>

#include "config/config.h"
#include "drivers/form.h"

static int check_plugin_dir(const char *value, struct error *error)
{
	const size_t most = SOCKET_PATH_MAX - SOCKET_NAME_MAX - 1;
	size_t length = strlen(value);
	int r;

	r = form_absolute_path(value, error);
	if (r < 0)
		return r;
	if (length > most)
		return error_set(error, -EINVAL,
			"has %zu bytes, the most is %zu: the path of a socket has room for %d, of "
			"which \"/\" and the names of the sockets need %d",
			length, most, SOCKET_PATH_MAX, SOCKET_NAME_MAX + 1);
	return 0;
}

/* A cordon of the whole file says of which resource, or speaks of all. */
static int check_cordon_id(const char *value, struct error *error)
{
	const char *slash = strchr(value, '/');

	if (!slash || (strchr(slash + 1, '/') && value[strlen(value) - 1] != '/'))
		return 0;
	return error_set(error, -EINVAL,
		"must be the id of a device, or \"RESOURCE/ID\" such as "
		"\"vendor.example/gpu/gpu-2\", not \"%s\"",
		value);
}

static const struct option cordon_options[] = {
	{
		.key = "id",
		.type = OPTION_STRING,
		.offset = offsetof(struct cordon, id),
		.required = true,
		.maximum = 400,
		.check = check_cordon_id,
		.help = "Pattern, as in a shell, of device ids; with a resource and \"/\" in front "
			"only of that resource's.",
	},
	{
		.key = "reason",
		.type = OPTION_STRING,
		.offset = offsetof(struct cordon, reason),
		.maximum = CORDON_REASON_MAX,
		.help = "Why, for people.",
	},
};

const struct option_table config_cordon_table = {
	.name = "cordon",
	.shorthand = "id",
	.size = sizeof(struct cordon),
	.options = cordon_options,
	.count = ARRAY_SIZE(cordon_options),
};

static const char *const registrations[] = {
	[REGISTRATION_SOCKET] = "socket", [REGISTRATION_WATCHER] = "watcher", NULL
};

static const struct option kubelet_options[] = {
	{
		.key = "device_plugin_dir",
		.type = OPTION_STRING,
		.offset = offsetof(struct kubelet_config, device_plugin_dir),
		.default_string = DEFAULT_PLUGIN_DIR,
		.check = check_plugin_dir,
		.help = "Directory where the kubelet has its socket and looks for ours.",
	},
	{
		.key = "registration",
		.type = OPTION_CHOICE,
		.offset = offsetof(struct kubelet_config, registration),
		.default_integer = REGISTRATION_SOCKET,
		.choices = registrations,
		.help = "How the kubelet learns of a resource: by a call on its \"socket\", or by "
			"its plugin \"watcher\", which looks for sockets in plugins_registry_dir.",
	},
	{
		.key = "plugins_registry_dir",
		.type = OPTION_STRING,
		.offset = offsetof(struct kubelet_config, plugins_registry_dir),
		.default_string = DEFAULT_REGISTRY_DIR,
		.check = check_plugin_dir,
		.help = "Directory that the kubelet's plugin watcher looks into.",
	},
	{
		.key = "pod_resources",
		.type = OPTION_BOOL,
		.offset = offsetof(struct kubelet_config, pod_resources),
		.default_integer = true,
		.help = "Whether the kubelet is asked if a device that has vanished is still in use; one "
			"that is not is taken off the list. If not, it stays there as unhealthy.",
	},
	{
		.key = "pod_resources_socket",
		.type = OPTION_STRING,
		.offset = offsetof(struct kubelet_config, pod_resources_socket),
		.default_string = DEFAULT_POD_RESOURCES_SOCKET,
		.maximum = SOCKET_PATH_MAX,
		.check = form_absolute_path,
		.help = "Where the kubelet answers that, its PodResources socket.",
	},
	{
		.key = "pod_resources_interval",
		.type = OPTION_SECONDS,
		.offset = offsetof(struct kubelet_config, pod_resources_interval),
		.minimum = 1000,
		.maximum = 3600LL * 1000,
		.default_integer = 10LL * 1000,
		.unit = "seconds",
		.help = "Time from one question to the next, asked only while a device has vanished, and "
			"for how long a device must have vanished before an answer counts.",
	},
};

static const struct option_table kubelet_table = {
	.name = "kubelet",
	.size = sizeof(struct kubelet_config),
	.options = kubelet_options,
	.count = ARRAY_SIZE(kubelet_options),
};

/* In the order of syslog's levels from LOG_ERR on. */
static const char *const log_levels[] = { "error", "warning", "notice", "info", "debug", NULL };

static const struct option config_options[] = {
	{
		.key = "runtime_dir",
		.type = OPTION_STRING,
		.offset = offsetof(struct config, runtime_dir),
		.maximum = 4000,
		.default_string = DEFAULT_RUNTIME_DIR,
		.check = form_absolute_path,
		.help = "Directory for state and the last accepted configuration.",
	},
	{
		.key = "log_level",
		.type = OPTION_CHOICE,
		.offset = offsetof(struct config, log_level),
		.default_integer = LOG_INFO - LOG_ERR,
		.choices = log_levels,
		.help = "The least urgent messages that are logged.",
	},
	{
		.key = "host_root",
		.type = OPTION_STRING,
		.offset = offsetof(struct config, host_root),
		.maximum = 4000,
		.default_string = "/",
		.check = form_absolute_path,
		.help = "Directory through which the host is looked at, for a daemon in a container: "
			"where the host's /dev, /sys and so on are mounted, such as \"/host\". Paths "
			"of devices, files and mounts are still written, and told to the kubelet, as "
			"the host has them; programs that are run are the container's own.",
	},
	{
		.key = "cdi_dir",
		.type = OPTION_STRING,
		.offset = offsetof(struct config, cdi_dir),
		.maximum = 3800,
		.default_string = DEFAULT_CDI_DIR,
		.check = form_absolute_path,
		.help = "Directory for the files of resources with cdi_spec, where the container runtime "
			"looks for them.",
	},
	{
		.key = "device_info_dir",
		.type = OPTION_STRING,
		.offset = offsetof(struct config, device_info_dir),
		.maximum = 3800,
		.default_string = DEFAULT_DEVICE_INFO_DIR,
		.check = form_absolute_path,
		.help = "Directory for what CNI plugins are told about network devices.",
	},
	{
		.key = "kubelet",
		.type = OPTION_GROUP,
		.offset = offsetof(struct config, kubelet),
		.table = &kubelet_table,
		.help = "Where the kubelet is found.",
	},
	{
		.key = "cordon",
		.type = OPTION_GROUPS,
		.offset = offsetof(struct config, cordon),
		.table = &config_cordon_table,
		.help = "Devices that new containers are not given; \"devplugctl cordon\" writes such "
			"a list into a file of its own.",
	},
	{
		.key = "resources",
		.type = OPTION_GROUPS,
		.offset = offsetof(struct config, declared),
		.table = &declaration_table,
		.help = "The resources that are offered.",
	},
};

const struct option_table config_table = {
	.name = "configuration",
	.size = sizeof(struct config),
	.options = config_options,
	.count = ARRAY_SIZE(config_options),
};
