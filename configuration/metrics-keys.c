/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Defines the keys of the group metrics. Metrics are off unless an address or a file is configured.
 */
#include "configuration/config.h"
#include "configuration/listen-address.h"
#include "drivers/model/form.h"

static int check_listen(const char *value, struct error *error)
{
	union listen_address address;
	socklen_t length;

	return listen_address_parse(value, &address, &length, error);
}

/* node_exporter reads no other names. */
static int check_textfile(const char *value, struct error *error)
{
	static const char suffix[] = ".prom";
	const char *name;
	int r;

	r = form_absolute_path(value, error);
	if (r < 0)
		return r;
	name = strrchr(value, '/') + 1;
	if (strlen(name) <= strlen(suffix) || !streq(name + strlen(name) - strlen(suffix), suffix))
		return error_set(
			error, -EINVAL, "must end in \"NAME%s\", not \"%s\"", suffix, name);
	return 0;
}

static const struct option metrics_options[] = {
	{
		.key = "listen",
		.type = OPTION_STRING,
		.offset = offsetof(struct metrics_config, listen),
		.maximum = SOCKET_PATH_MAX,
		.check = check_listen,
		.help = "Address and port of /metrics, such as \"127.0.0.1:10970\", or the path of a socket. There is no encryption and no password: use an address of the host itself, and a proxy for access from other hosts. In the package's service use devplugd-metrics.socket instead, because the service may not open network sockets.",
	},
	{
		.key = "textfile",
		.type = OPTION_STRING,
		.offset = offsetof(struct metrics_config, textfile),
		.maximum = 4000,
		.check = check_textfile,
		.help = "File with the metrics for the textfile collector of node_exporter: \"/var/lib/prometheus/node-exporter/devplugd.prom\" in "
			"Debian. Its directory must exist.",
	},
	{
		.key = "interval",
		.type = OPTION_SECONDS,
		.offset = offsetof(struct metrics_config, interval),
		.minimum = 1000,
		.maximum = 3600LL * 1000,
		.default_integer = 15LL * 1000,
		.unit = "seconds",
		.help = "Interval between writes of the file.",
	},
	{
		.key = "pods",
		.type = OPTION_BOOL,
		.offset = offsetof(struct metrics_config, pods),
		.help = "Whether devplugd_device_assigned names the pod and container that each device is assigned to. Readers of the metrics then see the names of pods, and each new pod adds time series.",
	},
};

const struct option_table config_metrics_table = {
	.name = "metrics",
	.size = sizeof(struct metrics_config),
	.options = metrics_options,
	.count = ARRAY_SIZE(metrics_options),
};
