/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One table of options, each with the function that understands its value.
 */
#include "arguments.h"

#include <getopt.h>
#include <math.h>

struct manager_options arg_run = {
	.plugin_dir = "/var/lib/kubelet/device-plugins",
	.state_dir = "/run/devplug-kubelet",
	.behaviour = BEHAVIOUR_1_36,
	.stale_stream_race = true,
	.time_scale = 1,
};
bool arg_json;
bool arg_help;
bool arg_version;
const char *arg_limits = "";
const char *arg_namespace = "default";
double arg_timeout = 30;

const char arguments_help[] =
	"devplug-kubelet COMMAND [OPTION...]\n"
	"\n"
	"A stand-in for the kubelet's device manager: serves device plugins as a kubelet does.\n"
	"\n"
	"  run                     serve in the foreground; one JSON event per line on standard\n"
	"                          output, or a table on a terminal\n"
	"  status                  resources, devices, who has them\n"
	"  pod NAME                admit a pod with one container and start it\n"
	"  pod restart NAME        start its container again, with what was allocated\n"
	"  pod rm NAME             remove it\n"
	"  pods                    list pods\n"
	"  wait RESOURCE=N,...     wait until that many devices are allocatable\n"
	"  fault RESOURCE KIND     \"end-stream\": the kubelet takes the oldest list stream for\n"
	"                          ended; \"close\": its connection breaks\n"
	"\n"
	"  --plugin-dir DIR        default /var/lib/kubelet/device-plugins\n"
	"  --state-dir DIR         pods and control socket, default /run/devplug-kubelet\n"
	"  --behaviour VERSION     1.32 or 1.36 (default)\n"
	"  --stale-stream-race on|off\n"
	"                          on (default): the end of an older stream disconnects the newer\n"
	"                          plugin, as in kubelets up to 1.36; off: as in later ones\n"
	"  --time-scale N          grace period (5 min), status tick (10 s) and idle time (30 min)\n"
	"                          go by N times as fast\n"
	"  --seed N                makes arbitrary choices repeatable\n"
	"  --limits RESOURCE=N,... what the pod's container requests\n"
	"  --namespace NAME        of the pod, default \"default\"\n"
	"  --timeout SECONDS       of wait, default 30\n"
	"  --json                  JSON output\n"
	"  --help, --version\n"
	"\n"
	"The checkpoint has a kubelet's format but a checksum of its own: one that a real kubelet\n"
	"wrote is not used, and a copy of it is kept in the state directory.\n";

int arguments_refuse(const char *text)
{
	(void)fprintf(stderr, "devplug-kubelet: %s; see devplug-kubelet --help\n", text);
	return EXIT_USAGE;
}

static int set_text(const char *value, void *target)
{
	*(const char **)target = value;
	return *value ? 0 : -EINVAL;
}

static int set_true(const char *value, void *target)
{
	*(bool *)target = true;
	return 0;
}

static int set_switch(const char *value, void *target)
{
	if (!streq(value, "on") && !streq(value, "off"))
		return -EINVAL;
	*(bool *)target = streq(value, "on");
	return 0;
}

static int set_behaviour(const char *value, void *target)
{
	if (!streq(value, "1.32") && !streq(value, "1.36"))
		return -EINVAL;
	*(enum behaviour *)target = streq(value, "1.32") ? BEHAVIOUR_1_32 : BEHAVIOUR_1_36;
	return 0;
}

static int set_scale(const char *value, void *target)
{
	char *end;
	unsigned long scale = strtoul(value, &end, 10);

	if (*value < '0' || *value > '9' || *end != '\0' || scale < 1 || scale > 100000)
		return -EINVAL;
	*(unsigned *)target = (unsigned)scale;
	return 0;
}

static int set_seed(const char *value, void *target)
{
	char *end;

	errno = 0;
	*(uint64_t *)target = strtoull(value, &end, 10);
	return *value < '0' || *value > '9' || *end != '\0' || errno != 0 ? -EINVAL : 0;
}

static int set_seconds(const char *value, void *target)
{
	char *end;
	double seconds = strtod(value, &end);

	if (end == value || *end != '\0' || !isfinite(seconds) || seconds < 0 || seconds > 86400)
		return -EINVAL;
	*(double *)target = seconds;
	return 0;
}

static const struct {
	struct option option;
	int (*set)(const char *value, void *target);
	void *target;
} options[] = {
	{ { "plugin-dir", required_argument, NULL, 0 }, set_text, &arg_run.plugin_dir },
	{ { "state-dir", required_argument, NULL, 0 }, set_text, &arg_run.state_dir },
	{ { "behaviour", required_argument, NULL, 0 }, set_behaviour, &arg_run.behaviour },
	{ { "stale-stream-race", required_argument, NULL, 0 }, set_switch,
		&arg_run.stale_stream_race },
	{ { "time-scale", required_argument, NULL, 0 }, set_scale, &arg_run.time_scale },
	{ { "seed", required_argument, NULL, 0 }, set_seed, &arg_run.seed },
	{ { "limits", required_argument, NULL, 0 }, set_text, &arg_limits },
	{ { "namespace", required_argument, NULL, 0 }, set_text, &arg_namespace },
	{ { "timeout", required_argument, NULL, 0 }, set_seconds, &arg_timeout },
	{ { "json", no_argument, NULL, 0 }, set_true, &arg_json },
	{ { "help", no_argument, NULL, 0 }, set_true, &arg_help },
	{ { "version", no_argument, NULL, 0 }, set_true, &arg_version },
};

int arguments_parse(int argc, char **argv)
{
	struct option list[ARRAY_SIZE(options) + 1] = {};
	int index, c;

	for (size_t i = 0; i < ARRAY_SIZE(options); i++)
		list[i] = options[i].option;
	while ((c = getopt_long(argc, argv, "", list, &index)) >= 0) {
		char text[160];

		if (c != 0)
			return arguments_refuse("unknown option");
		if (options[index].set(optarg, options[index].target) >= 0)
			continue;
		(void)snprintf(text, sizeof(text), "--%s does not take \"%.80s\"", list[index].name,
			optarg);
		return arguments_refuse(text);
	}
	return 0;
}
