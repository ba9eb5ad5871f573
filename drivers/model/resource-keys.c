/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Defines the keys of a resource, with their defaults, bounds and help. The parser, the writer and
 * the manual all follow these tables.
 */
#include "common/finding.h"
#include "drivers/model/declaration-tables.h"
#include "drivers/model/driver.h"
#include "drivers/model/form.h"
#include "drivers/model/node-label.h"

const char *const preferences[] = { [PREFER_NONE] = "none",
	[PREFER_PACKED] = "packed",
	[PREFER_SPREAD] = "spread",
	[PREFER_DISTINCT] = "distinct",
	[PREFER_NUMA] = "numa",
	[PREFER_LINKS] = "links",
	NULL };

static int check_driver(const char *value, struct error *error)
{
	const char *names[16];
	const char *suggestion;
	char list[256] = "";
	size_t n = 0;

	if (driver_find(value))
		return 0;
	for (size_t i = 0; drivers[i] && n < ARRAY_SIZE(names); i++) {
		size_t length = strlen(list);

		names[n++] = drivers[i]->name;
		(void)snprintf(list + length, sizeof(list) - length, "%s\"%s\"", i > 0 ? ", " : "",
			drivers[i]->name);
	}
	suggestion = suggest_word(value, names, n);
	if (suggestion)
		return error_set(error, -EINVAL, "unknown driver \"%s\", did you mean \"%s\"?",
			value, suggestion);
	return error_set(error, -EINVAL, "unknown driver \"%s\", the drivers are: %s", value, list);
}

#define REPLICAS_MAX 100000

static const struct option share_rule_options[] = {
	{
		.key = "id",
		.type = OPTION_STRING,
		.offset = offsetof(struct share_rule, id),
		.required = true,
		.maximum = 400,
		.help = "Pattern, as in a shell, of device ids.",
	},
	{
		.key = "replicas",
		.type = OPTION_INTEGER,
		.offset = offsetof(struct share_rule, replicas),
		.minimum = 1,
		.maximum = REPLICAS_MAX,
		.default_integer = 1,
		.unit = "replicas",
		.help = "Number of containers that may use each of these devices at a time.",
	},
};

static const struct option_table share_rule_table = {
	.name = "device to be shared otherwise",
	.size = sizeof(struct share_rule),
	.options = share_rule_options,
	.count = ARRAY_SIZE(share_rule_options),
};

static const struct option share_options[] = {
	{
		.key = "replicas",
		.type = OPTION_INTEGER,
		.offset = offsetof(struct share, replicas),
		.minimum = 1,
		.maximum = REPLICAS_MAX,
		.default_integer = 1,
		.unit = "replicas",
		.help = "Number of containers that may use each physical device at a time; with 1, devices are not shared.",
	},
	{
		.key = "devices",
		.type = OPTION_GROUPS,
		.offset = offsetof(struct share, devices),
		.table = &share_rule_table,
		.help = "Devices with a different number of replicas; the first entry that matches applies.",
	},
	{
		.key = "max_per_container",
		.type = OPTION_INTEGER,
		.offset = offsetof(struct share, max_per_container),
		.minimum = 0,
		.maximum = REPLICAS_MAX,
		.unit = "devices",
		.help = "Maximum number of devices or replicas that one container may request; 0 sets no limit.",
	},
};
static const struct option_table share_table = {
	.name = "share",
	.size = sizeof(struct share),
	.options = share_options,
	.count = ARRAY_SIZE(share_options),
};

static const struct option allocate_options[] = {
	{
		.key = "command",
		.type = OPTION_STRINGS,
		.offset = offsetof(struct allocate_program, command),
		.required = true,
		.help = "Program, by its absolute path, and its arguments; no shell is "
			"involved. It reads the devices, and prints additions for the "
			"container, such as nodes or variables. If it fails, the pod fails. "
			"See docs/exec-protocol.md.",
	},
	{
		/* The kubelet sets no limit to Allocate, and admits no other pod meanwhile. */
		.key = "timeout",
		.type = OPTION_SECONDS,
		.offset = offsetof(struct allocate_program, timeout),
		.minimum = 100,
		.maximum = 10 * 1000,
		.default_integer = 3 * 1000,
		.unit = "seconds",
		.help = "Time limit of the program, from the kubelet's call; no other pod starts on the "
			"node meanwhile.",
	},
};
static const struct option_table allocate_table = {
	.name = "allocate",
	.size = sizeof(struct allocate_program),
	.options = allocate_options,
	.count = ARRAY_SIZE(allocate_options),
};

static const struct option prestart_options[] = {
	{
		.key = "command",
		.type = OPTION_STRINGS,
		.offset = offsetof(struct prestart, command),
		.required = true,
		.template = true,
		.help = "Program, by its absolute path, and its arguments; no shell is involved. The "
			"container starts if it exits 0.",
	},
	{
		/* The kubelet waits 30 s for PreStartContainer; ours must be over before. */
		.key = "timeout",
		.type = OPTION_SECONDS,
		.offset = offsetof(struct prestart, timeout),
		.minimum = 100,
		.maximum = 25 * 1000,
		.default_integer = 20 * 1000,
		.unit = "seconds",
		.help = "Time limit of the program.",
	},
};
static const struct option_table prestart_table = {
	.name = "prestart",
	.size = sizeof(struct prestart),
	.options = prestart_options,
	.count = ARRAY_SIZE(prestart_options),
};

static const struct option release_options[] = {
	{
		.key = "command",
		.type = OPTION_STRINGS,
		.offset = offsetof(struct release, command),
		.required = true,
		.template = true,
		.check = form_device_text,
		.help = "Program, by its absolute path, and its arguments; no shell is involved. It runs for "
			"one device at a time. The device is clean if it exits 0; otherwise, the device is "
			"unhealthy until devplugctl resume.",
	},
	{
		.key = "timeout",
		.type = OPTION_SECONDS,
		.offset = offsetof(struct release, timeout),
		.minimum = 100,
		.maximum = 3600LL * 1000,
		.default_integer = 20 * 1000,
		.unit = "seconds",
		.help = "Time limit of the program. Up to 25, the device stays healthy while it is cleaned, and "
			"the next container with it waits before it starts. With more, the device is unhealthy "
			"while it is cleaned.",
	},
};
static const struct option_table release_table = {
	.name = "release",
	.size = sizeof(struct release),
	.options = release_options,
	.count = ARRAY_SIZE(release_options),
};

/* A device that is missing cannot stay healthy. */
static const char *const missing_severities[] = {
	[SEVERITY_NO_NEW_PODS] = "no-new-pods",
	[SEVERITY_EVICT] = "evict",
	NULL,
};

static const char *const on_return[] = {
	[ON_RETURN_KEEP] = "keep",
	[ON_RETURN_EVICT] = "evict",
	NULL,
};

static const struct option missing_options[] = {
	{
		.key = "severity",
		.type = OPTION_CHOICE,
		.offset = offsetof(struct declared_missing, severity),
		.choices = missing_severities,
		.help = "What follows when a device is missing: it is listed as unhealthy while a pod uses it (\"no-new-pods\"), or its pods are evicted as well (\"evict\").",
	},
	{
		.key = "evict_after",
		.type = OPTION_SECONDS,
		.offset = offsetof(struct declared_missing, evict_after),
		.maximum = EVICT_AFTER_MAX,
		.default_integer = EVICT_AFTER_DEFAULT,
		.unit = "seconds",
		.help = "As in a health probe.",
	},
	{
		.key = "on_return",
		.type = OPTION_CHOICE,
		.offset = offsetof(struct declared_missing, on_return),
		.choices = on_return,
		.help = "What follows when the device returns while the pod still has it: it is healthy again (\"keep\"), or it stays unhealthy until the pod has ended, and the pod is evicted after `evict_after` (\"evict\"). See docs/repair.md.",
	},
};
static const struct option_table missing_table = {
	.name = "missing",
	.size = sizeof(struct declared_missing),
	.options = missing_options,
	.count = ARRAY_SIZE(missing_options),
};

static int check_condition(const char *value, struct error *error)
{
	const char *equals = strchr(value, '=');

	if (!equals || equals == value)
		return error_set(error, -EINVAL,
			"must be \"VARIABLE=PATTERN\", such as \"bdf=0000:3b:*\", not \"%s\"",
			value);
	return 0;
}

static const struct option exclusion_options[] = {
	{
		.key = "id",
		.type = OPTION_STRING,
		.offset = offsetof(struct exclusion, id),
		.maximum = 255,
		.help = "Pattern, as in a shell, of device ids that are left out.",
	},
	{
		.key = "where",
		.type = OPTION_STRINGS,
		.offset = offsetof(struct exclusion, where),
		.maximum = 255,
		.check = check_condition,
		.help = "Conditions \"VARIABLE=PATTERN\" on the variables of a device (\"bdf=0000:3b:*\"); a device is left out if all of them, and `id`, match.",
	},
	{
		.key = "match",
		.type = OPTION_DRIVER,
		.offset = offsetof(struct exclusion, match),
		.help = "Instead of `id` and `where`, entries as in the resource's `match`: what one of them matches is left out, also as a part of a device that is made of several. Keys that are not set match anything. Not for drivers that run programs.",
	},
};
static const struct option_table exclusion_table = {
	.name = "exclusion",
	.shorthand = "id",
	.size = sizeof(struct exclusion),
	.options = exclusion_options,
	.count = ARRAY_SIZE(exclusion_options),
};

static int check_device_pattern(const char *value, struct error *error)
{
	if (strchr(value, '/'))
		return error_set(error, -EINVAL,
			"must be the id of a device of this resource, without \"/\", not \"%s\"",
			value);
	return 0;
}

static const struct option cordon_options[] = {
	{
		.key = "id",
		.type = OPTION_STRING,
		.offset = offsetof(struct cordon, id),
		.required = true,
		.maximum = 255,
		.check = check_device_pattern,
		.help = "Pattern, as in a shell, of device ids.",
	},
	{
		.key = "reason",
		.type = OPTION_STRING,
		.offset = offsetof(struct cordon, reason),
		.maximum = CORDON_REASON_MAX,
		.help = "Reason, shown to users.",
	},
};
static const struct option_table cordon_table = {
	.name = "cordon",
	.shorthand = "id",
	.size = sizeof(struct cordon),
	.options = cordon_options,
	.count = ARRAY_SIZE(cordon_options),
};

static const char *const registrations[] = { [REGISTRATION_SOCKET] = "socket",
	[REGISTRATION_WATCHER] = "watcher",
	[REGISTRATION_DEFAULT] = "default",
	NULL };

static const char *const overlaps[] = {
	[OVERLAP_NONE] = "false", [OVERLAP_SHARED] = "true", [OVERLAP_EXCLUSIVE] = "exclusive", NULL
};

static const char *const servings[] = { [SERVE_PLUGIN] = "plugin", [SERVE_DRA] = "dra", NULL };

static int check_preset(const char *value, struct error *error)
{
	if (value[0] == '.' || strchr(value, '/'))
		return error_set(error, -EINVAL,
			"must be the name of a preset, such as \"kvm\", not \"%s\"", value);
	return 0;
}

static const struct option
	declaration_options
		[] = {
			{
				.key = "name",
				.type = OPTION_STRING,
				.offset = offsetof(struct declaration, name),
				.required = true,
				.check = resource_name_check,
				.help = "The resource that pods ask for, such as \"vendor.example/gpu\".",
			},
			{
				.key = "preset",
				.type = OPTION_STRING,
				.offset = offsetof(struct declaration, preset),
				.maximum = 200,
				.check = check_preset,
				.help = "Name of a file with keys for a kind of device; \"devplugctl presets\" lists them. The resource's own keys take precedence, also within groups; lists are not joined.",
			},
			{
				.key = "driver",
				.type = OPTION_STRING,
				.offset = offsetof(struct declaration, driver_name),
				.required = true,
				.check = check_driver,
				.help = "Driver that finds the devices.",
			},
			{
				.key = "enabled",
				.type = OPTION_BOOL,
				.offset = offsetof(struct declaration, enabled),
				.default_integer = true,
				.help = "Whether the resource is served; if not, it is only checked.",
			},
			{
				.key = "overlap",
				.type = OPTION_CHOICE,
				.offset = offsetof(struct declaration, overlap),
				.default_integer = OVERLAP_NONE,
				.choices = overlaps,
				.help = "Whether the resource may offer devices of other resources that set the same value: with true, pods may use both at the same time; with \"exclusive\", both are offered, and while one is in use, the others are unhealthy, also those that are only a part of the hardware, or contain it. Otherwise, a device belongs to the first resource that finds it.",
			},
			{
				.key = "topology",
				.type = OPTION_BOOL,
				.offset = offsetof(struct declaration, topology),
				.default_integer = true,
				.help = "Whether the NUMA nodes of the devices are sent to the kubelet.",
			},
			{
				.key = "prefer",
				.type = OPTION_CHOICE,
				.offset = offsetof(struct declaration, prefer),
				.choices = preferences,
				.help = "Devices that a container should preferably get: those with the most replicas in use (\"packed\"), with the fewest in use, and of different cards (\"spread\"), the first ones without two replicas of one device (\"distinct\"), of one NUMA node (\"numa\"), or closest to each other (\"links\": by the links that the driver knows, otherwise by PCI buses). With \"none\" the kubelet chooses, and may assign two replicas of one device to a container.",
			},
			{
				.key = "registration",
				.type = OPTION_CHOICE,
				.offset = offsetof(struct declaration, registration),
				.default_integer = REGISTRATION_DEFAULT,
				.choices = registrations,
				.help = "How the resource registers with the kubelet: by a call on its "
					"\"socket\", through its plugin \"watcher\", or, with \"default\", as set "
					"by kubelet.registration.",
			},
			{
				.key = "serve",
				.type = OPTION_CHOICE,
				.offset = offsetof(struct declaration, serve),
				.default_integer = SERVE_PLUGIN,
				.choices = servings,
				.help = "How the kubelet gets the devices: from a device \"plugin\", or by Dynamic "
					"Resource Allocation (\"dra\"), which needs the package devplugd-cluster and a "
					"name of the DRA driver, dra.driver here or at the top of the file. See "
					"docs/dra.md.",
			},
			{
				.key = "dra",
				.type = OPTION_GROUP,
				.offset = offsetof(struct declaration, dra),
				.table = &dra_table,
				.help = "How the devices are published with serve = \"dra\". With serve = \"plugin\", only `metadata` has the attributes.",
			},
			{
				.key = "capacity",
				.type = OPTION_GROUPS,
				.offset = offsetof(struct declaration, capacity),
				.table = &capacity_table,
				.help = "What several claims share of each device by amount, with serve = \"dra\". With serve = \"plugin\", a container gets all of a device.",
			},
			{
				.key = "user",
				.type = OPTION_STRING,
				.offset = offsetof(struct declaration, user),
				.maximum = 255,
				.check = form_user,
				.help = "User of the resource's process, by name or number. The default is a user id that no other process has. Use a local user, because devplugd waits while a network directory is queried. With \"root\", the process keeps the privileges of the service.",
			},
			{
				.key = "host_root",
				.type = OPTION_STRING,
				.offset = offsetof(struct declaration, host_root),
				.maximum = 4000,
				.check = form_absolute_path,
				.help = "Root directory of the host's files for this resource; the default is the host_root of the file.",
			},
			{
				.key = "match",
				.type = OPTION_DRIVER,
				.offset = offsetof(struct declaration, match),
				.required = true,
				.help = "Devices of the resource: all that match one of the entries.",
			},
			{
				.key = "where",
				.type = OPTION_STRINGS,
				.offset = offsetof(struct declaration, where),
				.maximum = 255,
				.check = check_condition,
				.help = "Conditions \"VARIABLE=PATTERN\" on the variables of a device (\"model=*H100*\"), as in `exclude`; only devices that meet all of them belong to the resource. Use it to restrict a preset to one model.",
			},
			{
				.key = "exclude",
				.type = OPTION_GROUPS,
				.offset = offsetof(struct declaration, exclude),
				.table = &exclusion_table,
				.help = "Devices that are left out although they match.",
			},
			{
				.key = "cordon",
				.type = OPTION_GROUPS,
				.offset = offsetof(struct declaration, cordon),
				.table = &cordon_table,
				.help = "Devices that are not assigned to new containers. They are listed as unhealthy, and containers that use them keep them.",
			},
			{
				.key = "expect",
				.type = OPTION_INTEGER,
				.offset = offsetof(struct declaration, expect),
				.minimum = 0,
				.maximum = EXPECT_MAX,
				.unit = "devices",
				.help = "Number of devices that the host should have, before `share`, without those that belong to another resource; 0: any number. If there are fewer or more, `devplugctl status`, `devplugctl check` and metrics show it and name the devices that the last complete list had. The resource is then required for `/readyz` of the exporter. See docs/repair.md.",
			},
			{
				.key = "labels",
				.type = OPTION_STRINGS,
				.offset = offsetof(struct declaration, labels),
				.template = true,
				.check = node_label_check,
				.help = "Labels of the node, as \"NAME=VALUE\", that node-feature-discovery reads from features_dir: \"gpu.model=${model}\" becomes feature.node.kubernetes.io/gpu.model. Devices with one name must have one value: otherwise, the label is not set, and `devplugctl status` names the devices. ${n} is the number of devices with the name. See docs/repair.md.",
			},
			{
				.key = "metadata",
				.type = OPTION_BOOL,
				.offset = offsetof(struct declaration, metadata),
				.help = "Whether each container gets a file with the attributes of its devices, /run/devplugd/devices/RESOURCE/metadata.json, where RESOURCE has \"_\" for \"/\". It has the format of the metadata of claims, which containers get without this key: see docs/dra-reference.md.",
			},
			{
				.key = "share",
				.type = OPTION_GROUP,
				.offset = offsetof(struct declaration, share),
				.table = &share_table,
				.help = "Sharing of a device by several containers.",
			},
			{
				.key = "container",
				.type = OPTION_GROUP,
				.offset = offsetof(struct declaration, container),
				.table = &container_table,
				.help = "What a container gets in addition to the device's own nodes.",
			},
			{
				.key = "cdi_spec",
				.type = OPTION_GROUP,
				.offset = offsetof(struct declaration, cdi_spec),
				.table = &cdi_spec_table,
				.help = "A file in cdi_dir that describes each device to the container runtime, "
					"so that containers only get names; false: none, also if the key `cdi` of "
					"the file is true. Environment variables that several devices share, and values with ${ids}, ${n} or ${replica}, are still passed directly.",
			},
			{
				.key = "health",
				.type = OPTION_GROUPS,
				.offset = offsetof(struct declaration, health),
				.table = &probe_table,
				.help = "Probes; a device is healthy if all of them succeed.",
			},
			{
				.key = "missing",
				.type = OPTION_GROUP,
				.offset = offsetof(struct declaration, missing),
				.table = &missing_table,
				.help = "What follows when a device that a pod uses is missing.",
			},
			{
				.key = "evict_bare",
				.type = OPTION_BOOL,
				.offset = offsetof(struct declaration, evict_bare),
				.help = "Whether pods without a controller, which nothing starts again, are evicted, too.",
			},
			{
				.key = "force_after",
				.type = OPTION_SECONDS,
				.offset = offsetof(struct declaration, force_after),
				.maximum = EVICT_AFTER_MAX,
				.unit = "seconds",
				.help = "Time from the first attempt after which a pod that cannot be evicted is deleted, regardless of disruption budgets. With 0, devplugd repeats the eviction and deletes no pod.",
			},
			{
				.key = "allocate",
				.type = OPTION_GROUP,
				.offset = offsetof(struct declaration, allocate),
				.table = &allocate_table,
				.help = "A program that runs whenever devices are assigned to a container, and adds to what the container gets.",
			},
			{
				.key = "prestart",
				.type = OPTION_GROUP,
				.offset = offsetof(struct declaration, prestart),
				.table = &prestart_table,
				.help = "A program that runs before a container with these devices starts.",
			},
			{
				.key = "release",
				.type = OPTION_GROUP,
				.offset = offsetof(struct declaration, release),
				.table = &release_table,
				.help = "A program that cleans a device after a pod, before another pod gets it.",
			},
			{
				.key = "parameters",
				.type = OPTION_GROUPS,
				.offset = offsetof(struct declaration, parameters),
				.table = &parameter_table,
				.help = "Parameters that claims may set with serve = \"dra\": values of ${param:NAME} in `container` and `prestart`, which the `allocate` program gets, too. A claim with other parameters, or other values, is refused.",
			},
		};
const struct option_table declaration_table = {
	.name = "resource",
	.size = sizeof(struct declaration),
	.options = declaration_options,
	.count = ARRAY_SIZE(declaration_options),
};
