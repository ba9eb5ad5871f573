/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Defines the keys of a configuration file except those of resources
 * (drivers/model/resource-keys.c), with defaults, bounds and help.
 */
#include <syslog.h>

#include "configuration/config.h"
#include "configuration/parse-resource.h"
#include "drivers/model/form.h"

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
			"is %zu bytes long, the maximum is %zu: the path of a socket is limited to %d bytes, and \"/\" with the name of a socket needs up to %d of them",
			length, most, SOCKET_PATH_MAX, SOCKET_NAME_MAX + 1);
	return 0;
}

/* Together with the directories below it, it must leave room for the names of sockets. */
static int check_root_dir(const char *value, struct error *error)
{
	const size_t most = SOCKET_PATH_MAX - SOCKET_NAME_MAX - 1 - (sizeof(KUBELET_REGISTRY) - 1);
	int r;

	r = form_absolute_path(value, error);
	if (r < 0)
		return r;
	if (strlen(value) > most)
		return error_set(error, -EINVAL,
			"is %zu bytes long, the maximum is %zu: the path of a socket is limited to %d bytes",
			strlen(value), most, SOCKET_PATH_MAX);
	return 0;
}

/* A cordon of the whole file names a resource, or applies to all. */
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
		.help = "Shell pattern of device ids. With \"RESOURCE/\" before it, only devices of that resource match.",
	},
	{
		.key = "reason",
		.type = OPTION_STRING,
		.offset = offsetof(struct cordon, reason),
		.maximum = CORDON_REASON_MAX,
		.help = "Reason, shown to users.",
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
		.key = "root_dir",
		.type = OPTION_STRING,
		.offset = offsetof(struct kubelet_config, root_dir),
		.default_string = DEFAULT_KUBELET_ROOT,
		.check = check_root_dir,
		.help = "The kubelet's --root-dir: \"/var/lib/k0s/kubelet\" with k0s, "
			"\"/var/snap/microk8s/common/var/lib/kubelet\" with MicroK8s. "
			"plugins_registry_dir and pod_resources_socket follow it; "
			"device_plugin_dir does not: every kubelet has that directory in "
			"/var/lib/kubelet.",
	},
	{
		.key = "device_plugin_dir",
		.type = OPTION_STRING,
		.offset = offsetof(struct kubelet_config, device_plugin_dir),
		.default_string = DEFAULT_PLUGIN_DIR,
		.check = check_plugin_dir,
		.help = "Directory of the kubelet's socket and of the sockets of resources.",
	},
	{
		.key = "registration",
		.type = OPTION_CHOICE,
		.offset = offsetof(struct kubelet_config, registration),
		.default_integer = REGISTRATION_SOCKET,
		.choices = registrations,
		.help = "How resources register with the kubelet: by a call on its \"socket\", or through its plugin \"watcher\", which watches plugins_registry_dir for sockets.",
	},
	{
		.key = "plugins_registry_dir",
		.type = OPTION_STRING,
		.offset = offsetof(struct kubelet_config, plugins_registry_dir),
		.check = check_plugin_dir,
		.help = "Directory that the kubelet's plugin watcher watches, by default "
			"plugins_registry below root_dir.",
	},
	{
		.key = "pod_resources",
		.type = OPTION_BOOL,
		.offset = offsetof(struct kubelet_config, pod_resources),
		.default_integer = true,
		.help = "Whether devplugd asks the kubelet's PodResources API if a device that has disappeared is still assigned to a pod, and compares once a minute the devices that the kubelet offers with its own list. With false, only the kubelet's checkpoint decides when such a device leaves the list.",
	},
	{
		.key = "pod_resources_socket",
		.type = OPTION_STRING,
		.offset = offsetof(struct kubelet_config, pod_resources_socket),
		.maximum = SOCKET_PATH_MAX,
		.check = form_absolute_path,
		.help = "Path of the kubelet's PodResources socket, by default "
			"pod-resources/kubelet.sock below root_dir.",
	},
	{
		.key = "pod_resources_interval",
		.type = OPTION_SECONDS,
		.offset = offsetof(struct kubelet_config, pod_resources_interval),
		.minimum = 1000,
		.maximum = 3600LL * 1000,
		.default_integer = 10LL * 1000,
		.unit = "seconds",
		.help = "Interval between requests to the PodResources API about devices that have disappeared. A device must also be absent for this long before an answer counts.",
	},
	{
		.key = "pod_logs_dir",
		.type = OPTION_STRING,
		.offset = offsetof(struct kubelet_config, pod_logs_dir),
		.default_string = "/var/log/pods",
		.check = form_absolute_path,
		.help = "The kubelet's podLogsDir. The names of the directories in it show which pods exist whose init containers have devices.",
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
		.help = "Lowest priority of messages that are logged.",
	},
	{
		.key = "host_root",
		.type = OPTION_STRING,
		.offset = offsetof(struct config, host_root),
		.maximum = 4000,
		.default_string = "/",
		.check = form_absolute_path,
		.help = "Directory where the host's /dev, /sys and so on are mounted, such as \"/host\", if devplugd runs in a container. Paths of devices, files and mounts, here and for the kubelet, are still paths of the host. Programs run from the container.",
	},
	{
		.key = "cdi",
		.type = OPTION_BOOL,
		.offset = offsetof(struct config, cdi),
		.help = "Whether each resource with device nodes gets a CDI file, as if it had a "
			"cdi_spec, of the kind \"devplugd.RESOURCE\". With containerd 2 and CRI-O, set "
			"this. A container runtime that does not read CDI files starts containers "
			"without their devices, and reports no error.",
	},
	{
		.key = "cdi_dir",
		.type = OPTION_STRING,
		.offset = offsetof(struct config, cdi_dir),
		.maximum = 3800,
		.default_string = DEFAULT_CDI_DIR,
		.check = form_absolute_path,
		.help = "Directory where the container runtime reads the CDI files of resources with "
			"cdi_spec.",
	},
	{
		.key = "device_info_dir",
		.type = OPTION_STRING,
		.offset = offsetof(struct config, device_info_dir),
		.maximum = 3800,
		.default_string = DEFAULT_DEVICE_INFO_DIR,
		.check = form_absolute_path,
		.help = "Directory for the device-information files that CNI plugins read.",
	},
	{
		.key = "features_dir",
		.type = OPTION_STRING,
		.offset = offsetof(struct config, features_dir),
		.maximum = 3800,
		.default_string = DEFAULT_FEATURES_DIR,
		.check = form_absolute_path,
		.help = "Directory where node-feature-discovery reads the `labels` of resources. devplugd does not create it.",
	},
	{
		.key = "kubelet",
		.type = OPTION_GROUP,
		.offset = offsetof(struct config, kubelet),
		.table = &kubelet_table,
		.help = "Paths of the kubelet.",
	},
	{
		.key = "metrics",
		.type = OPTION_GROUP,
		.offset = offsetof(struct config, metrics),
		.table = &config_metrics_table,
		.help = "Metrics for Prometheus; needs the package devplugd-exporter.",
	},
	{
		.key = "dra",
		.type = OPTION_GROUP,
		.offset = offsetof(struct config, dra),
		.table = &config_dra_table,
		.help = "Dynamic Resource Allocation, for resources with serve = \"dra\"; needs the "
			"package devplugd-cluster.",
	},
	{
		.key = "cluster",
		.type = OPTION_GROUP,
		.offset = offsetof(struct config, cluster),
		.table = &config_cluster_table,
		.help = "What devplugd writes in the cluster, for resources of device plugins and "
			"of DRA alike; needs the package devplugd-cluster. dra.kubeconfig and "
			"dra.node apply.",
	},
	{
		.key = "cordon",
		.type = OPTION_GROUPS,
		.offset = offsetof(struct config, cordon),
		.table = &config_cordon_table,
		.help = "Devices that are not assigned to new containers; \"devplugctl cordon\" writes such a list to a separate file.",
	},
	{
		.key = "resources",
		.type = OPTION_GROUPS,
		.offset = offsetof(struct config, declared),
		.table = &declaration_table,
		.parse = parse_resource,
		.help = "Resources that are offered.",
	},
};

const struct option_table config_table = {
	.name = "configuration",
	.size = sizeof(struct config),
	.options = config_options,
	.count = ARRAY_SIZE(config_options),
};
