/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Parses the command line by a table of options, each with the function that parses its value.
 */
#include "kubelet/kubelet-arguments.h"

#include <getopt.h>
#include <math.h>

#include "kubelet/other-resources.h"
#include "kubelet/registration-check.h"

struct manager_options arg_run = {
	.plugin_dir = "/var/lib/kubelet/device-plugins",
	.state_dir = "/run/devplug-kubelet",
	.topology = { .n_nodes = 2 },
	.stale_stream_race = true,
	.time_scale = 1,
	.claim_timeout = 45,
};
struct conformance_options arg_conformance = { .memory = 96U << 20 };
bool arg_list_cases;
bool arg_json;
bool arg_help;
bool arg_version;
const char *arg_limits = "";
struct container_argument *arg_containers, *arg_others;
size_t arg_n_containers, arg_n_others;
json_t *arg_claims;
bool arg_static;
const char *arg_namespace = "default";
double arg_timeout = 30, arg_register_timeout = 60;

const char arguments_help[] =
	"devplug-kubelet COMMAND [OPTION...]\n"
	"\n"
	"A stand-in for the kubelet's device manager: serves device plugins as a kubelet does.\n"
	"\n"
	"  run                     serve in the foreground; one JSON event per line on standard\n"
	"                          output, or a table on a terminal\n"
	"  status                  print resources, devices, and the pods that use them\n"
	"  pod NAME                admit a pod and start its containers\n"
	"  pod restart NAME        start its containers again, with their allocations\n"
	"  pod rm NAME             remove a pod\n"
	"  pods                    list pods\n"
	"  wait RESOURCE=N,...     wait until exactly N devices are allocatable\n"
	"  reboot                  treat containers as stopped and claims as not prepared, as after a\n"
	"                          restart of the host\n"
	"  fault RESOURCE KIND     \"end-stream\": cancel the oldest ListAndWatch stream; \"close\":\n"
	"                          close the connection to the plugin\n"
	"  conformance             test a device plugin or a DRA driver, and report\n"
	"\n"
	"  --plugin-dir DIR        default /var/lib/kubelet/device-plugins\n"
	"  --plugins-registry DIR  watch DIR as a kubelet watches plugins_registry; default: none;\n"
	"                          also for conformance\n"
	"  --state-dir DIR         pods and control socket, default /run/devplug-kubelet\n"
	"  --as VERSION            the kubelet to imitate: 1.31, 1.32, 1.33, 1.34, 1.35, 1.36\n"
	"                          (default) or 1.37\n"
	"  --stale-stream-race on|off\n"
	"                          on (default): the end of an older stream disconnects the newer\n"
	"                          plugin, as in kubelets up to 1.36; off: as in later ones\n"
	"  --topology-policy none|best-effort|restricted|single-numa-node\n"
	"                          policy of the topology manager, default none\n"
	"  --topology-scope container|pod\n"
	"                          unit of alignment, default container\n"
	"  --numa-nodes N          number of NUMA nodes, 1 to 8, default 2\n"
	"  --replace               start although another kubelet serves the directories\n"
	"  --time-scale N          divide the grace period (5 min), the status tick (10 s), the\n"
	"                          idle time (30 min) and the pause of DRA's health (5 s) by N\n"
	"  --claim-timeout SECONDS how long a DRA driver may take for claims, default 45\n"
	"  --seed N                make arbitrary choices repeatable\n"
	"  --limits RESOURCE=N,... request of the pod's container \"main\"\n"
	"  --container, --init, --sidecar NAME:RESOURCE=N,...\n"
	"                          a container of the pod; may be repeated, in the pod's order\n"
	"  --other NAME:JSON       CPUs, memory and claims of the container in PodResources\n"
	"  --claim FILE            a ResourceClaim as JSON, which is allocated; may be repeated\n"
	"  --node-other JSON       CPUs and memory of the node\n"
	"  --static                the pod is a static pod\n"
	"  --namespace NAME        namespace of the pod, default \"default\"\n"
	"  --timeout SECONDS       time limit of wait, and of each step of conformance; default 30\n"
	"  --register-timeout SECONDS\n"
	"                          time limit of a registration in conformance, default 60\n"
	"  --plugin-command CMD    command that starts the plugin, for conformance\n"
	"  --dra                   conformance tests a DRA driver, with the claims of --claim, or:\n"
	"  --apiserver DIR         directory of the devplug-apiserver that the driver uses\n"
	"  --cdi-dir DIR           where the driver describes CDI devices; may be repeated;\n"
	"                          default: /etc/cdi and /var/run/cdi\n"
	"  --resource NAME         resource or DRA driver that conformance tests; may be\n"
	"                          repeated; default: the first that registers\n"
	"  --case N,N-N            run only these cases; --list-cases prints all\n"
	"  --junit FILE            also write a report in JUnit's format; \"-\": instead of TAP\n"
	"  --memory MIB            memory that a hostile peer may cost the plugin, default 96\n"
	"  --fail-command CMD, --heal-command CMD\n"
	"                          make a device unhealthy, and healthy again\n"
	"  --unplug-command CMD, --plug-command CMD\n"
	"                          remove a device, and restore it\n"
	"  --json                  print JSON\n"
	"  --help, --version\n"
	"\n"
	"A checkpoint of a real kubelet is used and overwritten; a copy is kept in the state\n"
	"directory.\n";

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

static int add_resource(const char *value, void *target)
{
	struct conformance_options *options = target;
	int r;

	if (!resource_name_is_valid(value) && !driver_name_is_valid(value))
		return -EINVAL;
	r = array_reserve((void **)&options->resources, options->n_resources, sizeof(char *));
	if (r < 0)
		return r;
	options->resources[options->n_resources++] = value;
	return 0;
}

static int add_cdi_dir(const char *value, void *target)
{
	struct conformance_options *options = target;
	int r;

	r = array_reserve((void **)&options->cdi_dirs, options->n_cdi_dirs, sizeof(char *));
	if (r < 0)
		return r;
	options->cdi_dirs[options->n_cdi_dirs++] = value;
	return *value ? 0 : -EINVAL;
}

static int set_cases(const char *value, void *target)
{
	*(const char **)target = value;
	return conformance_selects(value) ? 0 : -EINVAL;
}

static int set_mebibytes(const char *value, void *target)
{
	char *end;
	unsigned long n = strtoul(value, &end, 10);

	if (*value < '0' || *value > '9' || *end != '\0' || n > 1U << 20)
		return -EINVAL;
	*(size_t *)target = (size_t)n << 20;
	return 0;
}

/* `target` is the container's kind. */
static int add_container(const char *value, void *target)
{
	int r;

	r = array_reserve((void **)&arg_containers, arg_n_containers, sizeof(*arg_containers));
	if (r < 0)
		return r;
	arg_containers[arg_n_containers++] =
		(struct container_argument){ .kind = target, .text = value };
	return 0;
}

static int add_others(const char *value, void *target)
{
	int r;

	r = array_reserve((void **)&arg_others, arg_n_others, sizeof(*arg_others));
	if (r < 0)
		return r;
	arg_others[arg_n_others++] = (struct container_argument){ .text = value };
	return strchr(value, ':') ? 0 : -EINVAL;
}

static int add_claim(const char *value, void *target)
{
	json_t *claim = json_load_file(value, JSON_REJECT_DUPLICATES, NULL);

	if (!arg_claims)
		arg_claims = json_array();
	return claim && json_array_append_new(arg_claims, claim) == 0 ? 0 : -EINVAL;
}

static int set_others(const char *value, void *target)
{
	json_t **others = target;

	json_decref(*others);
	*others = json_loads(value, JSON_REJECT_DUPLICATES, NULL);
	return other_resources_check(*others);
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

static int set_version(const char *value, void *target)
{
	const struct kubelet_version *version = kubelet_version_find(value);

	*(const struct kubelet_version **)target = version;
	return version ? 0 : -EINVAL;
}

static int set_topology_policy(const char *value, void *target)
{
	return topology_policy_from_string(value, target);
}

static int set_topology_scope(const char *value, void *target)
{
	return topology_scope_from_string(value, target);
}

static int set_nodes(const char *value, void *target)
{
	if (value[0] < '1' || value[0] > '0' + TOPOLOGY_MAX_NODES || value[1] != '\0')
		return -EINVAL;
	*(unsigned *)target = (unsigned)(value[0] - '0');
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

static char kind_init[] = "init", kind_sidecar[] = "sidecar", kind_main[] = "main";

static const struct {
	struct option option;
	int (*set)(const char *value, void *target);
	void *target;
} options[] = {
	{ { "plugin-dir", required_argument, NULL, 0 }, set_text, &arg_run.plugin_dir },
	{ { "plugins-registry", required_argument, NULL, 0 }, set_text, &arg_run.plugins_registry },
	{ { "state-dir", required_argument, NULL, 0 }, set_text, &arg_run.state_dir },
	{ { "as", required_argument, NULL, 0 }, set_version, &arg_run.version },
	{ { "stale-stream-race", required_argument, NULL, 0 }, set_switch,
		&arg_run.stale_stream_race },
	{ { "topology-policy", required_argument, NULL, 0 }, set_topology_policy,
		&arg_run.topology.policy },
	{ { "topology-scope", required_argument, NULL, 0 }, set_topology_scope,
		&arg_run.topology.scope },
	{ { "numa-nodes", required_argument, NULL, 0 }, set_nodes, &arg_run.topology.n_nodes },
	{ { "time-scale", required_argument, NULL, 0 }, set_scale, &arg_run.time_scale },
	{ { "claim-timeout", required_argument, NULL, 0 }, set_seconds, &arg_run.claim_timeout },
	{ { "replace", no_argument, NULL, 0 }, set_true, &arg_run.replace },
	{ { "seed", required_argument, NULL, 0 }, set_seed, &arg_run.seed },
	{ { "limits", required_argument, NULL, 0 }, set_text, &arg_limits },
	{ { "init", required_argument, NULL, 0 }, add_container, kind_init },
	{ { "sidecar", required_argument, NULL, 0 }, add_container, kind_sidecar },
	{ { "container", required_argument, NULL, 0 }, add_container, kind_main },
	{ { "other", required_argument, NULL, 0 }, add_others, NULL },
	{ { "claim", required_argument, NULL, 0 }, add_claim, NULL },
	{ { "node-other", required_argument, NULL, 0 }, set_others, &arg_run.others },
	{ { "static", no_argument, NULL, 0 }, set_true, &arg_static },
	{ { "namespace", required_argument, NULL, 0 }, set_text, &arg_namespace },
	{ { "timeout", required_argument, NULL, 0 }, set_seconds, &arg_timeout },
	{ { "register-timeout", required_argument, NULL, 0 }, set_seconds, &arg_register_timeout },
	{ { "plugin-command", required_argument, NULL, 0 }, set_text,
		&arg_conformance.plugin_command },
	{ { "resource", required_argument, NULL, 0 }, add_resource, &arg_conformance },
	{ { "case", required_argument, NULL, 0 }, set_cases, &arg_conformance.cases },
	{ { "dra", no_argument, NULL, 0 }, set_true, &arg_conformance.dra },
	{ { "cdi-dir", required_argument, NULL, 0 }, add_cdi_dir, &arg_conformance },
	{ { "apiserver", required_argument, NULL, 0 }, set_text, &arg_conformance.apiserver },
	{ { "memory", required_argument, NULL, 0 }, set_mebibytes, &arg_conformance.memory },
	{ { "junit", required_argument, NULL, 0 }, set_text, &arg_conformance.junit },
	{ { "fail-command", required_argument, NULL, 0 }, set_text, &arg_conformance.hooks.fail },
	{ { "heal-command", required_argument, NULL, 0 }, set_text, &arg_conformance.hooks.heal },
	{ { "unplug-command", required_argument, NULL, 0 }, set_text,
		&arg_conformance.hooks.unplug },
	{ { "plug-command", required_argument, NULL, 0 }, set_text, &arg_conformance.hooks.plug },
	{ { "list-cases", no_argument, NULL, 0 }, set_true, &arg_list_cases },
	{ { "json", no_argument, NULL, 0 }, set_true, &arg_json },
	{ { "help", no_argument, NULL, 0 }, set_true, &arg_help },
	{ { "version", no_argument, NULL, 0 }, set_true, &arg_version },
};

int arguments_parse(int argc, char **argv)
{
	struct option list[ARRAY_SIZE(options) + 1] = {};
	int index, c;

	arg_run.version = kubelet_version_default();
	for (size_t i = 0; i < ARRAY_SIZE(options); i++)
		list[i] = options[i].option;
	while ((c = getopt_long(argc, argv, "", list, &index)) >= 0) {
		char text[160];

		if (c != 0)
			return arguments_refuse("unknown option");
		if (options[index].set(optarg, options[index].target) >= 0)
			continue;
		(void)snprintf(text, sizeof(text), "--%s does not accept \"%.80s\"",
			list[index].name, optarg);
		return arguments_refuse(text);
	}
	return 0;
}
